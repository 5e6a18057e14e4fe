/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipt_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

size_t zipt_parse_size(const char *text)
{
	static const char units[] = "kKmMgG";
	unsigned long long value;
	unsigned shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end) {
		const char *unit = strchr(units, *end);

		if (!unit || end[1])
			return 0;
		shift = 10 * (unsigned)((unit - units) / 2 + 1);
	}
	if (errno || value > SIZE_MAX >> shift)
		return 0;
	return (size_t)value << shift;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double zipt_median(double *values, unsigned count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t zipt_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
