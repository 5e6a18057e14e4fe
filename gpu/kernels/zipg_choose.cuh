/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an entropy encoder chooses: 256 exponents of each of the eight blocks, already in registers, give one histogram a
 * thread block. Every lane of a warp prices one of the 32 tables, every warp another base; the cheapest wins. The base of
 * a block then follows its own mean exponent, so that blocks of another scale share the table.
 */
#ifndef ZIPG_CHOOSE_CUH
#define ZIPG_CHOOSE_CUH

#include "zipg_unit.cuh"

/* Shared memory in words. */
#define ZIPG_HIST 0u           /* 256 bins and 32 that stay zero */
#define ZIPG_HIST_FRAME 288u   /* 256 bins of a sample that is the same for all thread blocks of a frame */
#define ZIPG_HIST_KEYS 544u    /* 8 prices */
#define ZIPG_HIST_RANDOM 552u  /* verdict about the frame, mean, number of samples */
#define ZIPG_HIST_WORDS 560u

struct zipg_choice {
	uint32_t table;
	uint32_t zero;         /* mode 1 */
	uint32_t base;         /* of this warp's block */
	uint32_t raw;          /* the group does not shrink */
	uint32_t frame_raw;    /* neither does the frame */
};

/* Mean * 16 of the exponents of two quads a lane, zeros left out; ~0 when there are too few. */
static ZIPG_DEVICE uint32_t zipg_block_mean(uint32_t a, uint32_t b)
{
	uint32_t zeros = zipg_zero_bytes(a) + zipg_zero_bytes(b), sum, n;

	sum = zipg_warp_add((zipg_sum_bytes(a) + zipg_sum_bytes(b)) | zeros << 20);
	n = 256 - (sum >> 20);
	return n < 24 ? ~0u : ((sum & 0xfffffu) * 16 + n / 2) / n;
}

/* Where lane l of one warp looks at the frame: a vector in 32 blocks spread over it, never at the same place of a block. */
static ZIPG_DEVICE const uint8_t *zipg_frame_sample(const struct zipg_place *at)
{
	uint32_t lane = zipg_lane();
	uint64_t block = (uint64_t)at->item->nblocks * (lane * 2 + 1) / 64;

	return at->plain + block * ZIPG_BLOCK + (lane * 37u + 11u) % 512u * 16u;
}

/* Whether the histogram of n samples is so flat that exponents are near ebits of entropy: its collision sum says so. */
static ZIPG_DEVICE int zipg_looks_random(int dt, const uint32_t *hist)
{
	uint32_t lane = zipg_lane(), n = 32u * 16u / (uint32_t)zipg_elem_bytes(dt), sum = 0;

	ZIPG_UNROLL
	for (int i = 0; i < 8; i++) {
		uint32_t h = hist[lane * 8 + i];

		sum += h * h;
	}
	return zipg_warp_add(sum) < n + n * n / (zipg_ebits(dt) == 8 ? 72u : zipg_ebits(dt) == 5 ? 23u : 12u);
}

/* Mean * 16 of the exponents around the most frequent one, zero left out unless there is nothing else. */
static ZIPG_DEVICE uint32_t zipg_group_mean(const uint32_t *hist, uint32_t *samples)
{
	uint32_t lane = zipg_lane(), best = 0, peak, sum = 0, n = 0, all = 0;

	ZIPG_UNROLL
	for (int i = 0; i < 8; i++) {
		uint32_t h = hist[lane * 8 + i], key = (h << 8) + lane * 8 + i;

		all += h;
		if ((lane | i) != 0 && h)
			best = best > key ? best : key;
	}
	peak = zipg_warp_max(best) & 0xffu;
	ZIPG_UNROLL
	for (int i = 0; i < 8; i++) {
		uint32_t e = lane * 8 + i, in = e + 10 >= peak && e <= peak + 10 && e, h = in ? hist[e] : 0;

		n += h;
		sum += h * e;
	}
	n = zipg_warp_add(n);
	sum = zipg_warp_add(sum);
	*samples = zipg_warp_add(all);
	return n ? (sum * 16 + n / 2) / n : 0;
}

static ZIPG_DEVICE int32_t zipg_clamp_base(int dt, int32_t base)
{
	if (zipg_ebits(dt) < 8)
		return base & (int32_t)zipg_emask(dt);
	return base < 0 ? 0 : base > 255 ? 255 : base;
}

/* What a lane knows about its table. Loaded early: the way to L2 is long. */
struct zipg_prices {
	uint32_t cost[8];      /* zipg_tables.cost, two in a word */
	uint32_t mean;
	uint32_t zero;
};

static ZIPG_DEVICE void zipg_load_prices(const struct zipg_tables *tables, struct zipg_prices *p)
{
	uint32_t t = zipg_lane();

	ZIPG_UNROLL
	for (int i = 0; i < 2; i++) {
		struct zipg_vec v = zipg_ld16((const uint8_t *)tables->cost[t] + 16 * i);

		ZIPG_UNROLL
		for (int k = 0; k < 4; k++)
			p->cost[4 * i + k] = v.w[k];
	}
	p->mean = zipg_ld1(&tables->mean[t]);
	p->zero = zipg_ld1(&tables->zero[t]);
}

/* What the samples cost in this lane's table with its base moved by d, bits * 16, and that base. */
static ZIPG_DEVICE uint32_t zipg_price(int dt, const struct zipg_prices *p, const uint32_t *hist, uint32_t samples, uint32_t mean, int32_t d,
				       uint32_t *base_p)
{
	int32_t base = ((int32_t)mean - (int32_t)p->mean + 8 + 16 * 64) / 16 - 64 + d + (int32_t)p->zero;
	uint32_t cost = 0, covered = 0;

	base = zipg_clamp_base(dt, base);
	ZIPG_UNROLL
	for (int s = 0; s < 15; s++) {
		uint32_t e = (uint32_t)(base + s) - (p->zero && s), h;

		e = zipg_ebits(dt) < 8 ? e & zipg_emask(dt) : e;
		h = !p->zero ? hist[e] : s == 0 ? hist[0] : e ? hist[e] : 0;
		covered += h;
		cost += h * (p->cost[s >> 1] >> 16 * (s & 1) & 0xffffu);
	}
	*base_p = (uint32_t)base;
	return cost + (samples - covered) * (p->cost[7] >> 16);
}

/*
 * All threads call it with the first two quads of their block (active) and the ZIPG_HIST_WORDS at `shared`. On return `shared` may be
 * reused after a barrier.
 */
static ZIPG_DEVICE void zipg_choose(int dt, const struct zipg_job *job, const struct zipg_place *at, const uint32_t *w, int active,
				    uint32_t *shared, struct zipg_choice *c)
{
	uint32_t warp = zipg_warp(), lane = zipg_lane(), mine = ~0u, samples, mean, key, base, best, look[4] = { 0, 0, 0, 0 };
	struct zipg_prices prices;
	int32_t own;

	zipg_load_prices((const struct zipg_tables *)(uintptr_t)job->tables, &prices);
	if (warp == 7)
		zipg_load_rows(zipg_frame_sample(at), 1, 0, look);
	for (uint32_t i = zipg_tid(); i < ZIPG_HIST_KEYS; i += ZIPG_THREADS)
		shared[i] = 0;
	zipg_barrier();
	if (active) {
		uint32_t a = zipg_quad_exp(dt, w), b = zipg_quad_exp(dt, w + zipg_quad_words(dt));

		/* Half of them are enough to price tables, and atomics are dear. */
		zipg_count4(shared + ZIPG_HIST, a);
		mine = zipg_block_mean(a, b);
	}
	if (warp == 7) {
		ZIPG_UNROLL
		for (int i = 0; i < zipg_vec_quads(dt); i++)
			zipg_count4(shared + ZIPG_HIST_FRAME, zipg_quad_exp(dt, look + i * zipg_quad_words(dt)));
	}
	zipg_barrier();
	if (warp < 3) {
		mean = zipg_group_mean(shared + ZIPG_HIST, &samples);
		key = zipg_price(dt, &prices, shared + ZIPG_HIST, samples, mean, (int32_t)warp - 1, &base);
		best = zipg_warp_min(key << 5 | lane);
		if (lane == (best & 31u)) {
			shared[ZIPG_HIST_KEYS + warp] = best;
			shared[ZIPG_HIST_KEYS + 4 + warp] = base | prices.zero << 8;
			if (warp == 0) {
				shared[ZIPG_HIST_RANDOM + 1] = mean;
				shared[ZIPG_HIST_RANDOM + 2] = samples;
			}
		}
	} else if (warp == 3) {
		int random = zipg_looks_random(dt, shared + ZIPG_HIST_FRAME);

		if (lane == 0)
			shared[ZIPG_HIST_RANDOM] = (uint32_t)random;
	}
	zipg_barrier();
	mean = shared[ZIPG_HIST_RANDOM + 1];
	samples = shared[ZIPG_HIST_RANDOM + 2];
	best = shared[ZIPG_HIST_KEYS + 1];
	base = shared[ZIPG_HIST_KEYS + 5];
	ZIPG_UNROLL
	for (uint32_t i = 0; i < 3; i += 2) {
		key = shared[ZIPG_HIST_KEYS + i];
		if (key >> 5 < best >> 5) {
			best = key;
			base = shared[ZIPG_HIST_KEYS + 4 + i];
		}
	}
	c->table = best & 31u;
	c->zero = base >> 8;
	c->raw = best >> 5 >= samples * 16 * (uint32_t)zipg_ebits(dt);
	c->frame_raw = shared[ZIPG_HIST_RANDOM];
	own = mine == ~0u ? 0 : ((int32_t)mine - (int32_t)mean + 8 + 16 * 256) / 16 - 256;
	c->base = (uint32_t)zipg_clamp_base(dt, own + (int32_t)(base & 0xffu));
}

#endif
