/* SPDX-License-Identifier: BSD-3-Clause */
/* Error codes of common/: pinned values, because the control protocol carries them. */
#ifndef ZIPC_ERROR_H
#define ZIPC_ERROR_H

#define ZIPC_ERRORS(X)                                             \
	X(ZIPC_ERR_INVAL, -1, "bad argument")                      \
	X(ZIPC_ERR_SPACE, -2, "output buffer too small")           \
	X(ZIPC_ERR_AGAIN, -3, "resources exhausted, try again")    \
	X(ZIPC_ERR_MAGIC, -4, "bad magic")                         \
	X(ZIPC_ERR_VERSION, -5, "unknown version")                 \
	X(ZIPC_ERR_DTYPE, -6, "bad dtype")                         \
	X(ZIPC_ERR_CODEC, -7, "bad codec")                         \
	X(ZIPC_ERR_FLAGS, -8, "bad flags")                         \
	X(ZIPC_ERR_SIZE, -9, "bad size")                           \
	X(ZIPC_ERR_RESERVED, -10, "reserved bytes are not zero")   \
	X(ZIPC_ERR_OFFSET, -11, "offset outside the variable part") \
	X(ZIPC_ERR_TABLE, -12, "bad code table")                   \
	X(ZIPC_ERR_MODE, -13, "bad block mode")                    \
	X(ZIPC_ERR_SYMBOL, -14, "exponent out of range")           \
	X(ZIPC_ERR_STREAM, -15, "bit stream does not match its length") \
	X(ZIPC_ERR_TRUNC, -16, "message longer than the buffer")   \
	X(ZIPC_ERR_PEER, -17, "peer lost, restarted or unknown")         \
	X(ZIPC_ERR_PROTO, -18, "control message out of order")     \
	X(ZIPC_ERR_NET, -19, "network error")                      \
	X(ZIPC_ERR_NOMEM, -20, "out of memory")                    \
	X(ZIPC_ERR_CANCELED, -21, "canceled")                      \
	X(ZIPC_ERR_KEY, -22, "no memory registered under this key") \
	X(ZIPC_ERR_ACCES, -23, "memory registered without this access")

enum zipc_error {
	ZIPC_OK = 0,
#define ZIPC_ERROR_ENUM(name, value, text) name = value,
	ZIPC_ERRORS(ZIPC_ERROR_ENUM)
#undef ZIPC_ERROR_ENUM
};

/* A short English text for a code, "unknown error" for anything else. Never NULL. */
const char *zipc_strerror(int code);

#endif
