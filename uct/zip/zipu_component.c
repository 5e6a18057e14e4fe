/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings, and the entry into UCX's lists when the module is loaded. */
#include <string.h>

#include "zipu.h"

static const char *zipu_codec_names[] = {"raw", "fixed", "entropy", NULL};
static const char *zipu_dtype_names[] = {"auto", "bf16", "fp16", "fp32", "e4m3", "e5m2", NULL};
static const char *zipu_policy_names[] = {"auto", "ratio", "always", NULL};

_Static_assert(ZIPC_CODEC_ENTROPY == 2 && ZIPC_CODEC_COUNT == 3, "zipu_codec_names lists the codecs by their numbers");
_Static_assert(ZIPC_DTYPE_E5M2 == 5 && ZIPC_DTYPE_COUNT == 6, "zipu_dtype_names lists the dtypes by their numbers");
_Static_assert(ZIPC_POLICY_ALWAYS == 2, "zipu_policy_names lists the policies by their numbers");

ucs_config_field_t zipu_md_config_table[] = {
	{"", "", NULL, ucs_offsetof(struct zipu_md_config, super), UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

	{"TL", "dc,ud,srd,tcp",
	 "Transports to stack on, in order of preference: the first that has a device is taken. Any that connects interfaces\n"
	 "(not pairs of endpoints) can be named.",
	 ucs_offsetof(struct zipu_md_config, tl), UCS_CONFIG_TYPE_STRING_ARRAY},

	{"STAT_PAGE", "y", "Let zip_stat of the same user see counters, through a file in /dev/shm.",
	 ucs_offsetof(struct zipu_md_config, stat_page), UCS_CONFIG_TYPE_BOOL},

	{NULL},
};

ucs_config_field_t zipu_iface_config_table[] = {
	{"", "", NULL, ucs_offsetof(struct zipu_iface_config, super), UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

	{"MIN_SIZE", "64k", "Puts and gets of at least this many bytes may travel compressed.",
	 ucs_offsetof(struct zipu_iface_config, min_size), UCS_CONFIG_TYPE_MEMUNITS},

	{"CODEC", "entropy", "Codec: entropy (smallest), fixed (fastest), raw (none).",
	 ucs_offsetof(struct zipu_iface_config, codec), UCS_CONFIG_TYPE_ENUM(zipu_codec_names)},

	{"DTYPE", "auto", "What the data is: auto (found from a sample), or a type. A wrong one costs ratio, never bits.",
	 ucs_offsetof(struct zipu_iface_config, dtype), UCS_CONFIG_TYPE_ENUM(zipu_dtype_names)},

	{"CHUNK", "1m", "Largest piece of a message that is coded and sent at once; a multiple of 8192 bytes.",
	 ucs_offsetof(struct zipu_iface_config, chunk), UCS_CONFIG_TYPE_MEMUNITS},

	{"STAGING", "32m", "Staging memory of an interface for sending, and as much for receiving.",
	 ucs_offsetof(struct zipu_iface_config, staging), UCS_CONFIG_TYPE_MEMUNITS},

	{"HOST", "y", "Compress host memory.",
	 ucs_offsetof(struct zipu_iface_config, host), UCS_CONFIG_TYPE_BOOL},

	{"VERIFY", "n", "Decode every chunk and compare before it is sent.",
	 ucs_offsetof(struct zipu_iface_config, verify), UCS_CONFIG_TYPE_BOOL},

	{"STATS", "n", "Take times as well, and print an interface's counters to stderr when it closes.",
	 ucs_offsetof(struct zipu_iface_config, stats), UCS_CONFIG_TYPE_BOOL},

	{"POLICY", "auto",
	 "When to compress: auto (where it is measured to be faster), ratio (whenever the data shrinks), always (for tests).",
	 ucs_offsetof(struct zipu_iface_config, policy), UCS_CONFIG_TYPE_ENUM(zipu_policy_names)},

	{NULL},
};

static ucs_status_t zipu_query_devices(uct_md_h md, uct_tl_device_resource_t **devices, unsigned *count)
{
	return zipu_lower_devices(zipu_of(md, zipu_md, super), devices, count);
}

static uct_tl_t zipu_tl = {
	.name = ZIPU_NAME,
	.query_devices = zipu_query_devices,
	.iface_open = zipu_iface_open,
	.config = {
		.name = "zip transport",
		.prefix = "ZIP_",
		.table = zipu_iface_config_table,
		.size = sizeof(struct zipu_iface_config),
	},
};

/* The module stays loaded to the end: there is no way to take a component out of UCX's list. */
static void __attribute__((constructor)) zipu_load(void)
{
	uct_component_register(&zipu_component);
	uct_tl_register(&zipu_component, &zipu_tl);
}
