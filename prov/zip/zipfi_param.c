/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: FI_ZIP_* through fi_param, so that `fi_info -e` lists them. */
#include <string.h>

#include "zipfi.h"

struct zipfi_param zipfi_param;

/* Only for its name: libfabric makes FI_ZIP_* of it, where the provider's own would give FI_OFI_ZIP_*. */
static struct fi_provider zipfi_settings = {.name = "zip"};

void zipfi_param_define(void)
{
	fi_param_define(&zipfi_settings, "min_size", FI_PARAM_SIZE_T,
			"Messages of at least this many bytes may travel compressed (default: 65536)");
	fi_param_define(&zipfi_settings, "codec", FI_PARAM_STRING,
			"Codec: entropy (smallest), fixed (fastest), raw (none) (default: entropy)");
	fi_param_define(&zipfi_settings, "dtype", FI_PARAM_STRING,
			"What the data is: auto, bf16, fp16, fp32, e4m3, e5m2. A wrong one costs ratio, never bits (default: auto)");
	fi_param_define(&zipfi_settings, "chunk", FI_PARAM_SIZE_T,
			"Largest piece of a message that is coded and sent at once, bytes, a multiple of 8192 (default: 1048576)");
	fi_param_define(&zipfi_settings, "staging", FI_PARAM_SIZE_T,
			"Staging memory of an endpoint for sending, bytes, and as much for receiving (default: 33554432)");
	fi_param_define(&zipfi_settings, "device_staging", FI_PARAM_SIZE_T,
			"Device memory that staging may take on one GPU in this process, bytes (default: 167772160)");
	fi_param_define(&zipfi_settings, "host", FI_PARAM_BOOL, "Compress host memory (default: yes)");
	fi_param_define(&zipfi_settings, "rma", FI_PARAM_STRING,
			"Writes to and reads from remote memory: auto (compressed where that pays), off (always as they are) "
			"(default: auto)");
	fi_param_define(&zipfi_settings, "verify", FI_PARAM_BOOL,
			"Decode every chunk and compare before it is sent (default: no)");
	fi_param_define(&zipfi_settings, "stats", FI_PARAM_STRING,
			"Counters: on (take times as well, and print a table to stderr when a domain closes), times (only take times, "
			"for programs that read them), off (default: off)");
	fi_param_define(&zipfi_settings, "stat_page", FI_PARAM_BOOL,
			"Let zip_stat of the same user see counters, through a file in /dev/shm (default: yes)");
	fi_param_define(&zipfi_settings, "relaxed_order", FI_PARAM_BOOL,
			"Compress although an endpoint with RMA has an order (reads or writes after sends) that a transfer breaks; for "
			"FI_HOOK=zip, where the core offers orders that nobody has asked for (default: no)");
	fi_param_define(&zipfi_settings, "policy", FI_PARAM_STRING,
			"When to compress: auto (where it is measured to be faster), ratio (whenever the data shrinks), always (for "
			"tests) (default: auto)");
}

static int zipfi_param_size(const char *name, size_t least, size_t most, size_t unit, size_t *value)
{
	size_t given = *value;

	if (fi_param_get(&zipfi_settings, name, &given))
		return 0;
	if (given < least || given > most || given % unit) {
		ZIPFI_WARN(CORE, "FI_ZIP setting %s=%zu is not allowed: %zu to %zu, a multiple of %zu\n", name, given, least,
			   most, unit);
		return -FI_EINVAL;
	}
	*value = given;
	return 0;
}

static int zipfi_param_bool(const char *name, int *value)
{
	int ret = fi_param_get(&zipfi_settings, name, value);

	if (ret == -FI_EINVAL)
		ZIPFI_WARN(CORE, "FI_ZIP setting %s: allowed are 0, 1, no, yes, off, on, false, true\n", name);
	return ret == -FI_EINVAL ? ret : 0;
}

static int zipfi_param_codec(void)
{
	char *text = NULL;
	int codec;

	if (fi_param_get(&zipfi_settings, "codec", &text) || !text)
		return 0;
	codec = zipc_codec_parse(text);
	if (codec < 0) {
		ZIPFI_WARN(CORE, "FI_ZIP_CODEC=%s is not allowed: entropy, fixed, raw\n", text);
		return -FI_EINVAL;
	}
	zipfi_param.codec = (enum zipc_codec)codec;
	return 0;
}

static int zipfi_param_policy(void)
{
	static const char *const names[] = {"auto", "ratio", "always"};
	char *text = NULL;
	int i;

	if (fi_param_get(&zipfi_settings, "policy", &text) || !text)
		return 0;
	for (i = 0; i < 3 && strcmp(text, names[i]); i++)
		;
	if (i == 3) {
		ZIPFI_WARN(CORE, "FI_ZIP_POLICY=%s is not allowed: auto, ratio, always\n", text);
		return -FI_EINVAL;
	}
	zipfi_param.policy = (enum zipc_policy)i;
	return 0;
}

static int zipfi_param_rma(void)
{
	char *text = NULL;

	if (fi_param_get(&zipfi_settings, "rma", &text) || !text || !strcmp(text, "auto"))
		return 0;
	if (strcmp(text, "off")) {
		ZIPFI_WARN(CORE, "FI_ZIP_RMA=%s is not allowed: auto, off\n", text);
		return -FI_EINVAL;
	}
	zipfi_param.rma = 0;
	return 0;
}

static int zipfi_param_dtype(void)
{
	char *text = NULL;
	int dtype;

	if (fi_param_get(&zipfi_settings, "dtype", &text) || !text || !strcmp(text, "auto"))
		return 0;
	dtype = zipc_dtype_parse(text);
	if (dtype <= 0) {
		ZIPFI_WARN(CORE, "FI_ZIP_DTYPE=%s is not allowed: auto, bf16, fp16, fp32, e4m3, e5m2\n", text);
		return -FI_EINVAL;
	}
	zipfi_param.dtype = (enum zipc_dtype)dtype;
	return 0;
}

static int zipfi_param_stats(void)
{
	static const struct {
		const char *text;
		enum zipfi_stats value;
	} names[] = {
		{"off", ZIPFI_STATS_OFF}, {"0", ZIPFI_STATS_OFF}, {"no", ZIPFI_STATS_OFF}, {"false", ZIPFI_STATS_OFF},
		{"on", ZIPFI_STATS_ON}, {"1", ZIPFI_STATS_ON}, {"yes", ZIPFI_STATS_ON}, {"true", ZIPFI_STATS_ON},
		{"times", ZIPFI_STATS_TIMES},
	};
	char *text = NULL;
	size_t i;

	if (fi_param_get(&zipfi_settings, "stats", &text) || !text)
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcasecmp(text, names[i].text))
			continue;
		zipfi_param.stats = names[i].value;
		return 0;
	}
	ZIPFI_WARN(CORE, "FI_ZIP_STATS=%s is not allowed: off, on, times\n", text);
	return -FI_EINVAL;
}

int zipfi_param_read(void)
{
	int bad = 0;

	zipfi_param = (struct zipfi_param){
		.min_size = 65536, .chunk = 1048576, .staging = 33554432,
		.codec = ZIPC_CODEC_ENTROPY, .dtype = ZIPC_DTYPE_RAW, .host = 1, .stat_page = 1, .rma = 1,
		.device_staging = 167772160,
	};
	bad |= zipfi_param_size("min_size", 1, SIZE_MAX, 1, &zipfi_param.min_size);
	bad |= zipfi_param_size("chunk", 8192, 64u << 20, 8192, &zipfi_param.chunk);
	bad |= zipfi_param_size("staging", 2 * zipfi_param.chunk, SIZE_MAX / 4, 1, &zipfi_param.staging);
	bad |= zipfi_param_size("device_staging", 0, SIZE_MAX / 4, 1, &zipfi_param.device_staging);
	bad |= zipfi_param_codec();
	bad |= zipfi_param_dtype();
	bad |= zipfi_param_rma();
	bad |= zipfi_param_bool("host", &zipfi_param.host);
	bad |= zipfi_param_bool("verify", &zipfi_param.verify);
	bad |= zipfi_param_stats();
	bad |= zipfi_param_bool("stat_page", &zipfi_param.stat_page);
	bad |= zipfi_param_bool("relaxed_order", &zipfi_param.relaxed);
	bad |= zipfi_param_policy();
	return bad ? -FI_EINVAL : 0;
}
