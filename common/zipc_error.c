/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipc_error.h"

const char *zipc_strerror(int code)
{
	switch (code) {
	case ZIPC_OK:
		return "success";
#define ZIPC_ERROR_TEXT(name, value, text) \
	case value:                        \
		return text;
	ZIPC_ERRORS(ZIPC_ERROR_TEXT)
#undef ZIPC_ERROR_TEXT
	default:
		return "unknown error";
	}
}
