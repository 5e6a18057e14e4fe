/* SPDX-License-Identifier: BSD-3-Clause */
/* The code tables in working form. */
#include <pthread.h>

#include "zipc_split.h"
#include "zipc_tables.h"

static struct zipc_table tables[ZIPC_TABLES];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static uint32_t reverse_bits(uint32_t code, unsigned length)
{
	uint32_t reversed = 0;

	for (unsigned i = 0; i < length; i++)
		reversed |= (code >> i & 1) << (length - 1 - i);
	return reversed;
}

static void add_code(struct zipc_table *table, unsigned index, uint32_t code, unsigned length)
{
	uint32_t entry = length;

	if (index == ZIPC_TABLE_ESCAPE)
		entry |= ZIPC_DECODE_ESCAPE;
	else
		entry |= (index & 15) << 8 | index >> 4 << 16;
	table->encode[index] = code | length << 16;
	for (uint32_t i = code; i < 1u << ZIPC_LUT_BITS; i += 1u << length)
		table->decode[i] = entry;
}

static void make_table(struct zipc_table *table, const uint8_t lengths[256])
{
	uint32_t code = 0, escape;

	for (unsigned length = 1; length <= ZIPC_LUT_BITS; length++, code <<= 1)
		for (unsigned index = 0; index < 256; index++)
			if (lengths[index] == length)
				add_code(table, index, reverse_bits(code++, length), length);
	escape = table->encode[ZIPC_TABLE_ESCAPE] | ZIPC_ENCODE_ESCAPE;
	for (unsigned index = 0; index < 256; index++)
		if (!lengths[index] || index == ZIPC_TABLE_ESCAPE)
			table->encode[index] = escape;
}

static void make_tables(void)
{
	for (unsigned t = 0; t < ZIPC_TABLES; t++)
		make_table(&tables[t], zipc_table_lengths[t]);
}

const struct zipc_table *zipc_table_get(unsigned number)
{
	pthread_once(&tables_once, make_tables);
	return &tables[number];
}
