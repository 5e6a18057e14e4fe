/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks in addresses: put on and taken off for every format, and what a hostile or an odd address does to them. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "zipfi.h"

#define EFA_BYTES 32
#define MARKED "fi_shm://4711:0:0~z"

static const uint32_t formats[] = {
	FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_ADDR_EFA, FI_ADDR_STR, FI_ADDR_PSMX2, 4711,
};

#define FORMATS (sizeof(formats) / sizeof(*formats))

/* Memory of exactly this length, so that a sanitizer sees a step outside. */
static uint8_t *exact(const void *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	if (len)
		memcpy(copy, data, len);
	return copy;
}

static void test_addr_efa(void **state)
{
	uint8_t main[EFA_BYTES] = {0}, comp[EFA_BYTES] = {0}, plain[EFA_BYTES];
	struct zipfi_addr split;

	(void)state;
	memset(main, 7, 16);
	memset(comp, 7, 16);
	main[16] = 1; /* qpn */
	comp[16] = 2;
	main[20] = 3; /* qkey */
	comp[20] = 4;
	memcpy(plain, main, sizeof(plain));
	assert_int_equal(zipfi_addr_split(FI_ADDR_EFA, main, EFA_BYTES, &split), 0);
	assert_int_equal(split.comp_len, 0);
	assert_int_equal(zipfi_addr_mark(FI_ADDR_EFA, main, EFA_BYTES, comp, EFA_BYTES), 0);
	assert_memory_equal(main, plain, 18); /* what a core looks at is as it was */
	assert_memory_equal(main + 20, plain + 20, 4);
	assert_int_equal(zipfi_addr_split(FI_ADDR_EFA, main, EFA_BYTES, &split), 0);
	assert_int_equal(split.main_len, EFA_BYTES);
	assert_int_equal(split.comp_len, EFA_BYTES);
	assert_memory_equal(split.main, plain, EFA_BYTES);
	assert_memory_equal(split.comp, comp, EFA_BYTES);
	/* Marked already, or bytes in use, or another machine's companion: left alone. */
	assert_true(zipfi_addr_mark(FI_ADDR_EFA, main, EFA_BYTES, comp, EFA_BYTES) < 0);
	comp[0] = 8;
	assert_true(zipfi_addr_mark(FI_ADDR_EFA, plain, EFA_BYTES, comp, EFA_BYTES) < 0);
	assert_true(zipfi_addr_mark(FI_ADDR_EFA, plain, EFA_BYTES, comp, EFA_BYTES - 1) < 0);
}

static void test_addr_strings(void **state)
{
	char name[2 * ZIPC_ADDR_MAX] = "fi_shm://4711:0:0";
	size_t len = strlen(name) + 1;
	struct zipfi_addr split;

	(void)state;
	assert_int_equal(zipfi_addr_split(FI_ADDR_STR, name, len, &split), 0);
	assert_int_equal(split.comp_len, 0);
	assert_int_equal(zipfi_addr_rename(FI_ADDR_STR, name, &len, ZIPC_ADDR_MAX), 0);
	assert_string_equal(name, MARKED);
	assert_int_equal(len, sizeof(MARKED));
	assert_int_equal(zipfi_addr_split(FI_ADDR_STR, name, len, &split), 0);
	assert_string_equal((char *)split.main, MARKED); /* the name is the endpoint's real one */
	assert_string_equal((char *)split.comp, MARKED "c");
	assert_int_equal(split.comp_len, sizeof(MARKED "c"));
	assert_int_equal(zipfi_addr_mark(FI_ADDR_STR, name, len, MARKED "c", sizeof(MARKED "c")), 0);
	assert_true(zipfi_addr_mark(FI_ADDR_STR, name, len, MARKED "d", sizeof(MARKED "d")) < 0);
	assert_int_equal(zipfi_addr_size(FI_ADDR_STR, name), sizeof(MARKED));
	assert_int_equal(zipfi_addr_size(FI_ADDR_STR, "efa://x"), 0);
	/* A name that an application has chosen is its own. */
	strcpy(name, "fi_ns://here~z");
	len = strlen(name) + 1;
	assert_int_equal(zipfi_addr_split(FI_ADDR_STR, name, len, &split), 0);
	assert_int_equal(split.comp_len, 0);
	assert_true(zipfi_addr_rename(FI_ADDR_STR, name, &len, ZIPC_ADDR_MAX) < 0);
}

/* Names that fill their room, and more than that. */
static void test_addr_long_strings(void **state)
{
	char name[2 * ZIPC_ADDR_MAX], out[2 * ZIPC_ADDR_MAX];
	struct zipfi_addr split;
	size_t n, len, out_len;

	(void)state;
	for (n = 20; n < ZIPC_ADDR_MAX + 20; n++) {
		memset(name, 'x', sizeof(name));
		memcpy(name, "fi_shm://", 9);
		memcpy(name + n - 2, "~z", 3);
		if (zipfi_addr_split(FI_ADDR_STR, name, n + 1, &split)) {
			assert_true(n + 1 > ZIPC_ADDR_MAX);
		} else {
			assert_true(split.main_len <= ZIPC_ADDR_MAX && split.comp_len <= ZIPC_ADDR_MAX);
			assert_true(!split.comp_len || split.comp[split.comp_len - 1] == 0);
		}
		assert_true(zipfi_addr_split(FI_ADDR_STR, name, n, &split) < 0); /* does not end */
		if (!zipfi_addr_companion(FI_ADDR_STR, name, n + 1, out, &out_len))
			assert_true(out_len <= ZIPC_ADDR_MAX && strlen(out) + 1 == out_len);
		name[n - 2] = 0;
		len = n - 1;
		if (!zipfi_addr_rename(FI_ADDR_STR, name, &len, ZIPC_ADDR_MAX))
			assert_true(len <= ZIPC_ADDR_MAX && strlen(name) + 1 == len);
	}
}

/* IP addresses have no room: they come out as they went in, and nothing is put on them. */
static void test_addr_ip(void **state)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(4711), .sin_addr = {htonl(INADDR_LOOPBACK)}}, before = sin;
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct zipfi_addr split;
	uint8_t out[ZIPC_ADDR_MAX];
	size_t len;

	(void)state;
	assert_true(zipfi_addr_mark(FI_SOCKADDR_IN, &sin, sizeof(sin), &sin, sizeof(sin)) < 0);
	assert_memory_equal(&sin, &before, sizeof(sin));
	assert_int_equal(zipfi_addr_split(FI_SOCKADDR_IN, &sin, sizeof(sin), &split), 0);
	assert_int_equal(split.main_len, sizeof(sin));
	assert_memory_equal(split.main, &sin, sizeof(sin));
	assert_int_equal(split.comp_len, 0);
	assert_int_equal(zipfi_addr_split(FI_SOCKADDR_IN6, &sin6, sizeof(sin6), &split), 0);
	assert_memory_equal(split.main, &sin6, sizeof(sin6));
	assert_int_equal(zipfi_addr_size(FI_SOCKADDR, &sin), sizeof(sin));
	assert_int_equal(zipfi_addr_size(FI_SOCKADDR, &sin6), sizeof(sin6));
	/* The companion asks for the same address and any port. */
	assert_int_equal(zipfi_addr_companion(FI_SOCKADDR_IN, &sin, sizeof(sin), out, &len), 0);
	sin.sin_port = 0;
	assert_int_equal(len, sizeof(sin));
	assert_memory_equal(out, &sin, sizeof(sin));
	assert_int_equal(zipfi_addr_companion(FI_SOCKADDR_IN6, &sin6, sizeof(sin6), out, &len), 0);
	sin6.sin6_port = 0;
	assert_memory_equal(out, &sin6, sizeof(sin6));
}

/* Every format, every length, at odd places in memory, full of ones, of noise, of what looks like a mark. */
static void test_addr_hostile(void **state)
{
	static uint8_t noise[2 * ZIPC_ADDR_MAX];
	uint8_t out[2 * ZIPC_ADDR_MAX], *addr, *comp;
	struct zipfi_addr split;
	unsigned kind;
	size_t f, len, out_len;

	(void)state;
	for (kind = 0; kind < 5; kind++) {
		for (len = 0; len < sizeof(noise); len++)
			noise[len] = (uint8_t)(kind == 0 ? 0xff : kind == 1 ? len * 131 : kind == 2 ? AF_INET : 0);
		if (kind >= 3)
			noise[0] = kind == 3 ? AF_INET : AF_INET6;
		if (kind == 1)
			memcpy(noise + 24, "zp1", 4);
		for (f = 0; f < FORMATS; f++)
			for (len = 0; len <= ZIPC_ADDR_MAX + 3; len++) {
				addr = exact(noise, len);
				comp = exact(noise, len);
				memset(&split, 0, sizeof(split));
				if (!zipfi_addr_split(formats[f], addr, len, &split))
					assert_true(split.main_len <= ZIPC_ADDR_MAX && split.comp_len <= ZIPC_ADDR_MAX);
				zipfi_addr_mark(formats[f], addr, len, comp, len);
				zipfi_addr_mark(formats[f], addr, len, comp, len / 2);
				if (!zipfi_addr_companion(formats[f], addr, len, out, &out_len))
					assert_true(out_len <= ZIPC_ADDR_MAX);
				zipfi_addr_companion(formats[f], noise + 1, len, out + 1, &out_len);
				if (len >= 2 * ZIPC_ADDR_MAX)
					zipfi_addr_size(formats[f], addr);
				free(addr);
				free(comp);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addr_efa),
		cmocka_unit_test(test_addr_strings),
		cmocka_unit_test(test_addr_long_strings),
		cmocka_unit_test(test_addr_ip),
		cmocka_unit_test(test_addr_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
