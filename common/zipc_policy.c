/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw or compressed: measured for each peer and size class, never assumed.
 *
 * A transfer's rate is taken from the first credit (the match) to the receiver's FIN, so that a late receiver does not
 * count. The other side of the comparison is a probe: a transfer whose frames are raw, which shows what the link does with
 * the same message uncompressed. Transfers that share the link are each slower by their number, which is made up for.
 *
 *   unknown -> one compressed, one probe -> the faster of the two; once in a while both are measured again, the more
 *   seldom the longer the answer stays the same.
 */
#include <time.h>

#include "zipc_engine_priv.h"

#define ZIPC_RECHECK_FIRST 64u
#define ZIPC_RECHECK_MOST 4096u
/* A probe is copied into staging and out of it, which a message that goes to the core as it is is not: it counts a bit more. */
#define ZIPC_PROBE_BONUS 1.05
#define ZIPC_RATE_WEIGHT 0.5 /* of a new measurement */

uint64_t zipc_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

unsigned zipc_size_class(uint64_t nbytes)
{
	unsigned class = 0;

	for (nbytes >>= 18; nbytes && class < ZIPC_SIZE_CLASSES - 1; nbytes >>= 2)
		class++;
	return class;
}

static int zipc_zip_wins(const struct zipc_rates *rates)
{
	return rates->rate[ZIPC_MODE_ZIP] >= rates->rate[ZIPC_MODE_PROBE] * ZIPC_PROBE_BONUS;
}

/* What is known, or what is more likely to pay while it is being found out. */
static enum zipc_mode zipc_policy_best(const struct zipc_rates *rates)
{
	return zipc_zip_wins(rates) ? ZIPC_MODE_ZIP : ZIPC_MODE_RAW;
}

enum zipc_mode zipc_policy_choose(struct zipc_rates *classes, uint64_t nbytes)
{
	struct zipc_rates *rates = &classes[zipc_size_class(nbytes)];
	enum zipc_mode mode;

	if (rates->known[ZIPC_MODE_ZIP] && rates->known[ZIPC_MODE_PROBE] && ++rates->since >= rates->recheck) {
		/* What is in use is measured all the time; what is not has to be tried. */
		rates->known[ZIPC_MODE_PROBE] = 0;
		rates->known[ZIPC_MODE_ZIP] = (uint8_t)zipc_zip_wins(rates);
		rates->since = 0;
		rates->recheck = rates->recheck * 2 > ZIPC_RECHECK_MOST ? ZIPC_RECHECK_MOST : rates->recheck * 2;
	}
	for (mode = ZIPC_MODE_ZIP; mode <= ZIPC_MODE_PROBE; mode++) {
		if (rates->known[mode] || rates->pending[mode])
			continue;
		rates->pending[mode] = 1;
		return mode;
	}
	return zipc_policy_best(rates);
}

void zipc_policy_done(struct zipc_rates *classes, uint64_t nbytes, enum zipc_mode mode, uint64_t ns, unsigned sharing)
{
	struct zipc_rates *rates = &classes[zipc_size_class(nbytes)];
	double rate = (double)nbytes * (sharing ? sharing : 1) / (double)(ns ? ns : 1);
	int before = zipc_zip_wins(rates);

	rates->rate[mode] = rates->rate[mode] ? rates->rate[mode] + (rate - rates->rate[mode]) * ZIPC_RATE_WEIGHT : rate;
	rates->known[mode] = 1;
	rates->pending[mode] = 0;
	if (!rates->recheck || before != zipc_zip_wins(rates))
		rates->recheck = ZIPC_RECHECK_FIRST;
}

void zipc_policy_lost(struct zipc_rates *classes, uint64_t nbytes, enum zipc_mode mode)
{
	classes[zipc_size_class(nbytes)].pending[mode] = 0;
}
