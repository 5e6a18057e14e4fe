/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw or compressed: measured for each peer and size class, never assumed.
 *
 * The two sides of the comparison are transfers of compressed frames and probes, transfers whose frames are raw, which show
 * what the link does with the same message uncompressed. What is measured is how long the link and the codec were taken:
 * from the match, or, when an earlier transfer was still under way then, from that one's end. So neither a late receiver
 * counts nor how many messages the application keeps in flight: transfers are served one after the other. An application
 * that seldom looks at its queues sees several end at once, which are one measurement then.
 *
 *   compressed ones, then probes -> the faster of the two -> once in a while both are tried again, the more seldom the longer the
 *   answer stays the same.
 *
 * Messages that go to the core as they are share the link and are not seen here. So before anything is measured after a time
 * of these, probes are sent until all that the application had in flight has been replaced by them.
 */
#include <string.h>
#include <time.h>

#include "zipc_engine_priv.h"

#define ZIPC_TRY 3u            /* measurements that decide, at least, */
#define ZIPC_TRY_BYTES 4194304 /* and of so many bytes: links let short bursts pass faster than they can go on; */
#define ZIPC_TRY_LARGE 33554432 /* two of so many are enough */
#define ZIPC_TRY_MOST 1024u    /* messages that may be spent on them, for want of answers */
#define ZIPC_RECHECK_FIRST 128u
#define ZIPC_RECHECK_MOST 8192u
#define ZIPC_RECHECK_SHARE 8u  /* messages until the next try for each one that the last try has taken, at least */
#define ZIPC_BUNCH 8           /* what ends so many times faster than its like had ended before, and nobody had looked */
/*
 * A probe is copied into staging and out of it, which a message that goes to the core as it is is not: it counts a bit more.
 */
#define ZIPC_PROBE_BONUS 1.05
#define ZIPC_HOPELESS 0.5      /* compressed at less than this rate of a probe: little has to be measured */
#define ZIPC_DROP 0.8          /* what is in use has become slower than this: look again, */
#define ZIPC_DROP_AFTER 32u    /* but not with every wave of a restless link */

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

/* What the messages of a phase are. */
static enum zipc_mode zipc_phase_mode(const struct zipc_rates *rates)
{
	switch (rates->phase) {
	case ZIPC_PHASE_FIRST_ZIP:
	case ZIPC_PHASE_LAST_ZIP:
		return ZIPC_MODE_ZIP;
	case ZIPC_PHASE_DECIDED:
		return rates->best;
	default:
		return ZIPC_MODE_PROBE;
	}
}

static void zipc_phase_enter(struct zipc_rates *rates, enum zipc_phase phase)
{
	rates->phase = phase;
	rates->tried += rates->spent;
	rates->spent = rates->settled = rates->peak = 0;
	memset(&rates->sum, 0, sizeof(rates->sum));
}

static void zipc_recheck(struct zipc_rates *rates)
{
	zipc_phase_enter(rates, rates->best == ZIPC_MODE_ZIP ? ZIPC_PHASE_FIRST_ZIP : ZIPC_PHASE_SETTLE);
}

/* Compressed ones are so slow that no hiccup explains it. */
static int zipc_hopeless(const struct zipc_rates *rates)
{
	return rates->rate[ZIPC_MODE_ZIP] < rates->rate[ZIPC_MODE_PROBE] * ZIPC_HOPELESS;
}

static void zipc_decide(struct zipc_rates *rates)
{
	enum zipc_mode before = rates->best;

	rates->best = ZIPC_MODE_RAW;
	if (rates->rate[ZIPC_MODE_ZIP] >= rates->rate[ZIPC_MODE_PROBE] * ZIPC_PROBE_BONUS)
		rates->best = ZIPC_MODE_ZIP;
	rates->doubt = !rates->doubt && before == ZIPC_MODE_ZIP && rates->best == ZIPC_MODE_RAW &&
		       (rates->recheck || !zipc_hopeless(rates));
	if (rates->doubt) { /* the machine may have been busy with something else */
		rates->best = before;
		zipc_recheck(rates);
		rates->tried = 0;
		return;
	}
	if (!rates->recheck || rates->best != before)
		rates->recheck = ZIPC_RECHECK_FIRST;
	else
		rates->recheck = rates->recheck * 2 > ZIPC_RECHECK_MOST ? ZIPC_RECHECK_MOST : rates->recheck * 2;
	zipc_phase_enter(rates, ZIPC_PHASE_DECIDED);
	if (rates->recheck < rates->tried * ZIPC_RECHECK_SHARE)
		rates->recheck = rates->tried * ZIPC_RECHECK_SHARE;
	rates->since = rates->tried = 0;
}

static void zipc_phase_next(struct zipc_rates *rates)
{
	switch (rates->phase) {
	case ZIPC_PHASE_FIRST_ZIP:
		zipc_phase_enter(rates, ZIPC_PHASE_LAST_PROBE);
		break;
	case ZIPC_PHASE_SETTLE:
		zipc_phase_enter(rates, ZIPC_PHASE_FIRST_PROBE);
		break;
	case ZIPC_PHASE_FIRST_PROBE:
		zipc_phase_enter(rates, ZIPC_PHASE_LAST_ZIP);
		break;
	default:
		zipc_decide(rates);
		break;
	}
}

int zipc_policy_raw(struct zipc_judge *judge, uint64_t nbytes)
{
	struct zipc_rates *rates = &judge->classes[zipc_size_class(nbytes)];

	if (rates->phase != ZIPC_PHASE_DECIDED || rates->best != ZIPC_MODE_RAW || rates->since + 1 >= rates->recheck)
		return 0;
	rates->since++;
	return 1;
}

enum zipc_mode zipc_policy_choose(struct zipc_judge *judge, uint64_t nbytes)
{
	struct zipc_rates *rates = &judge->classes[zipc_size_class(nbytes)];
	enum zipc_mode mode;

	if (rates->phase == ZIPC_PHASE_DECIDED && ++rates->since >= rates->recheck)
		zipc_recheck(rates);
	if (rates->phase != ZIPC_PHASE_DECIDED && ++rates->spent > ZIPC_TRY_MOST)
		zipc_phase_next(rates);
	mode = zipc_phase_mode(rates);
	if (mode == ZIPC_MODE_RAW)
		return mode;
	rates->under_way++;
	if (rates->under_way > rates->peak)
		rates->peak = rates->under_way;
	return mode;
}

/* The rate of the measurements so far. The slowest is left out: one hiccup of the machine must not decide. */
static double zipc_sum_rate(const struct zipc_sum *sum)
{
	if (sum->count < 2 || sum->ns <= sum->worst.ns)
		return sum->bytes / sum->ns;
	return (sum->bytes - sum->worst.bytes) / (sum->ns - sum->worst.ns);
}

/* The last group is complete. The first one of a phase is not counted: its beginning belongs to the phase before. */
static void zipc_sum_close(struct zipc_sum *sum)
{
	const struct zipc_group *last = &sum->last;

	if (!sum->begun) {
		sum->begun = last->bytes > 0;
		return;
	}
	sum->count++;
	sum->bytes += last->bytes;
	sum->ns += last->ns;
	if (last->ns * sum->worst.bytes >= sum->worst.ns * last->bytes)
		sum->worst = *last;
}

/* One transfer more: part of the last group, if both seem to have ended at once. Returns 1 when a group was closed. */
static int zipc_sum_add(struct zipc_sum *sum, double bytes, double ns)
{
	struct zipc_group *last = &sum->last;

	if (ns * last->bytes * ZIPC_BUNCH < last->ns * bytes) {
		last->bytes += bytes;
		last->ns += ns;
		return 0;
	}
	zipc_sum_close(sum);
	*last = (struct zipc_group){bytes, ns};
	return 1;
}

/* As much was measured as an answer needs. */
static int zipc_sum_enough(const struct zipc_sum *sum)
{
	return (sum->count >= ZIPC_TRY && sum->bytes >= ZIPC_TRY_BYTES) || (sum->count == 2 && sum->bytes >= ZIPC_TRY_LARGE);
}

/* What is in use has been measured again: much slower than it was, it is compared again at once. */
static void zipc_policy_watch(struct zipc_rates *rates)
{
	double rate = zipc_sum_rate(&rates->sum);

	memset(&rates->sum, 0, sizeof(rates->sum));
	if (rate < rates->rate[ZIPC_MODE_ZIP] * ZIPC_DROP && rates->since >= ZIPC_DROP_AFTER)
		rates->since = rates->recheck;
}

static void zipc_policy_try(struct zipc_rates *rates, enum zipc_mode mode)
{
	int hopeless;

	if (!rates->sum.count)
		return;
	rates->rate[mode] = zipc_sum_rate(&rates->sum);
	hopeless = rates->phase == ZIPC_PHASE_LAST_ZIP && rates->sum.count >= ZIPC_TRY && zipc_hopeless(rates);
	if (zipc_sum_enough(&rates->sum) || hopeless)
		zipc_phase_next(rates);
}

/* How long the transfer had the link, and what comes after it is counted from its end. */
static uint64_t zipc_policy_service(struct zipc_judge *judge, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t start = start_ns > judge->end_ns ? start_ns : judge->end_ns;

	judge->end_ns = end_ns;
	return end_ns > start ? end_ns - start : 1;
}

void zipc_policy_done(struct zipc_judge *judge, uint64_t nbytes, enum zipc_mode mode, uint64_t start_ns, uint64_t end_ns)
{
	struct zipc_rates *rates = &judge->classes[zipc_size_class(nbytes)];
	uint64_t ns = zipc_policy_service(judge, start_ns, end_ns);

	if (rates->under_way)
		rates->under_way--;
	if (mode != zipc_phase_mode(rates))
		return; /* of an earlier phase */
	if (rates->phase == ZIPC_PHASE_SETTLE) {
		if (++rates->settled >= rates->peak && rates->settled > 1)
			zipc_phase_next(rates);
		return;
	}
	if (!zipc_sum_add(&rates->sum, (double)nbytes, (double)ns))
		return;
	if (rates->phase != ZIPC_PHASE_DECIDED)
		zipc_policy_try(rates, mode);
	else if (zipc_sum_enough(&rates->sum))
		zipc_policy_watch(rates);
}

void zipc_policy_lost(struct zipc_judge *judge, uint64_t nbytes, enum zipc_mode mode)
{
	struct zipc_rates *rates = &judge->classes[zipc_size_class(nbytes)];

	if (mode != ZIPC_MODE_RAW && rates->under_way)
		rates->under_way--;
}

void zipc_policy_undo(struct zipc_judge *judge, uint64_t nbytes, enum zipc_mode mode)
{
	struct zipc_rates *rates = &judge->classes[zipc_size_class(nbytes)];

	zipc_policy_lost(judge, nbytes, mode);
	if (rates->spent)
		rates->spent--;
}
