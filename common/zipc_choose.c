/* SPDX-License-Identifier: BSD-3-Clause */
/* Does a message become a transfer? By its size, the peer, the settings, its data, and what was measured (zipc_policy.c). */
#include "zipc_engine_priv.h"

const struct iovec *zipc_iov_largest(const struct iovec *iov, size_t niov)
{
	const struct iovec *best = iov;
	size_t i;

	for (i = 1; i < niov; i++)
		if (iov[i].iov_len > best->iov_len)
			best = &iov[i];
	return best;
}

int zipc_send_worth(struct zipc_engine *engine, const struct iovec *iov, size_t niov, enum zipc_dtype *dtype)
{
	const struct iovec *largest = zipc_iov_largest(iov, niov);
	uint64_t start = zipc_tick(engine);
	struct zipc_sample sample;
	float ratio;

	zipc_sample(largest->iov_base, largest->iov_len, engine->attr.dtype, &sample);
	engine->stats.sample_ns += zipc_tick(engine) - start;
	ratio = engine->attr.codec == ZIPC_CODEC_FIXED ? sample.ratio_fixed : sample.ratio_entropy;
	*dtype = sample.dtype;
	return sample.dtype != ZIPC_DTYPE_RAW && ratio <= ZIPC_RATIO_WORTH;
}

int zipc_peer_decodes(const struct zipc_engine *engine, const struct zipc_peer *peer, enum zipc_dtype dtype)
{
	return dtype == ZIPC_DTYPE_RAW || ((peer->dtypes >> dtype & 1) && (peer->codecs >> engine->attr.codec & 1));
}

/* 1 if the policy has a say in how such a message travels. */
int zipc_send_asks(const struct zipc_engine *engine, unsigned flags)
{
	return engine->attr.policy == ZIPC_POLICY_AUTO && !(flags & (ZIPC_SEND_FORCE | ZIPC_SEND_REPLY));
}

void zipc_send_unchoose(struct zipc_engine *engine, struct zipc_peer *peer, size_t nbytes, unsigned flags,
			enum zipc_mode mode)
{
	if (zipc_send_asks(engine, flags))
		zipc_policy_undo(&peer->judge, nbytes, mode);
}

int zipc_send_choose(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes,
		     unsigned flags, enum zipc_dtype *dtype, enum zipc_mode *mode)
{
	enum zipc_raw_reason reason;

	*mode = ZIPC_MODE_ZIP;
	if (nbytes < engine->attr.min_size && !(flags & ZIPC_SEND_FORCE))
		return 1 + ZIPC_RAW_SMALL;
	if (!zipc_peer_ready(peer))
		reason = ZIPC_RAW_PEER;
	else if ((flags & ZIPC_SEND_WRITE) && !(peer->flags & ZIPC_HELLO_RMA))
		reason = ZIPC_RAW_PEER;
	else if (!(flags & (ZIPC_SEND_TAGGED | ZIPC_SEND_WRITE)) && !(peer->flags & ZIPC_HELLO_UNTAGGED))
		reason = ZIPC_RAW_OFF;
	else if (flags & ZIPC_SEND_FORCE)
		return 0;
	else if (!engine->attr.host || engine->attr.codec == ZIPC_CODEC_RAW ||
		 zipc_pool_usable(&engine->send_pool) * 2 <= engine->send_pool.count)
		reason = ZIPC_RAW_OFF;
	else if (engine->attr.policy == ZIPC_POLICY_AUTO && zipc_policy_raw(&peer->judge, nbytes))
		reason = ZIPC_RAW_SLOW;
	/* Below a block nothing can shrink: forced down this far, the point is the protocol, not the ratio. */
	else if (nbytes >= ZIPC_MIN_CHUNK && !zipc_send_worth(engine, iov, niov, dtype) &&
		 engine->attr.policy != ZIPC_POLICY_ALWAYS)
		reason = ZIPC_RAW_DATA;
	else if (!zipc_peer_decodes(engine, peer, *dtype))
		reason = ZIPC_RAW_PEER;
	else if (engine->attr.policy != ZIPC_POLICY_AUTO)
		return 0;
	else if ((*mode = zipc_policy_choose(&peer->judge, nbytes)) == ZIPC_MODE_RAW)
		reason = ZIPC_RAW_SLOW;
	else
		return 0;
	return 1 + (int)reason;
}
