/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer without zip sends messages of its own making to the transport's id. */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ucx_data.h"
#include "ucx_zip.h"
#include "zipt_data.h"

/* What a peer could say: our header, sometimes right, and anything behind it. */
static size_t hostile_message(uint8_t *msg, uint64_t *state, uint64_t own_id, uint64_t their_id, const struct side *side)
{
	uint64_t r = zipt_random(state), id = r % 3 ? own_id : r % 2 ? their_id : zipt_random(state);
	size_t len = (zipt_random(state) >> 20) % 200, i;
	static const uint8_t control[] = {0x5a, 0x50, 1}; /* of the engine: magic and version */

	for (i = 0; i < 600; i++)
		msg[i] = (uint8_t)(zipt_random(state) >> 33 & (r & 64 ? 0xff : 3));
	msg[0] = (uint8_t)(r >> 8) % 10;
	msg[1] = r & 128 ? msg[1] : 1;
	memset(msg + 2, 0, 2);
	memcpy(msg + 8, &id, sizeof(id));
	if (msg[0] == 2) { /* hello */
		memcpy(msg + 16, &id, sizeof(id));
		msg[24] = (uint8_t)side->attr.device_addr_len;
		msg[25] = (uint8_t)side->attr.iface_addr_len;
		uct_iface_get_device_address(side->iface, (void *)(msg + 26));
		uct_iface_get_address(side->iface, (void *)(msg + 26 + side->attr.device_addr_len));
		len = r & 0xe00 ? 26 + side->attr.device_addr_len + side->attr.iface_addr_len : 16 + len;
	} else if (msg[0] == 3) {
		memcpy(msg + 16, control, sizeof(control));
		msg[19] = (uint8_t)(r >> 16) % 12;
		len = 16 + ((uint8_t[]){0, 0, 64, 48, 32, 24, 24, 16, 168, 160, 48, 16})[msg[19]];
		memcpy(msg + 20, &(uint32_t){(uint32_t)(len - 16)}, 4);
		memcpy(msg + 24, &id, sizeof(id));
	} else if (msg[0] >= 4 && (r & 0x1000)) { /* addresses that are right, with keys that are not */
		memcpy(msg + 16, &side->theirs.address, 8);
		len = 16 + len;
	}
	return len;
}

static ucs_status_t hostile_am(void *arg, void *data, size_t len, unsigned flags)
{
	(void)arg;
	(void)data;
	(void)len;
	(void)flags;
	return UCS_OK;
}

/* The pieces of a file, as the body of messages of every type; and with the engine's own header before them. */
static void hostile_file(struct side *side, const uint8_t *bytes, size_t nbytes, uint64_t own_id)
{
	uint8_t msg[1024] = {0};
	size_t at, n;

	msg[1] = 1;
	memcpy(msg + 8, &own_id, sizeof(own_id));
	for (at = 0; at < nbytes; at += 37) {
		n = nbytes - at < 600 ? nbytes - at : 600;
		memcpy(msg + 16, bytes + at, n);
		for (msg[0] = 0; msg[0] < 10; msg[0]++)
			side_am(side, UCX_AM_SHARED, msg, 16 + n);
		msg[0] = 3;
		for (msg[19] = 1; msg[19] < 10; msg[19]++) {
			memcpy(msg + 16, "\x5a\x50\x01", 3);
			memcpy(msg + 20, &(uint32_t){(uint32_t)n}, 4);
			memcpy(msg + 24, &own_id, sizeof(own_id));
			if (n >= 16)
				side_am(side, UCX_AM_SHARED, msg, 16 + n);
		}
		uct_worker_progress(side->worker);
	}
}

/* What the fuzzer of the engine's control messages knows (test/corpus). */
static void hostile_corpus(struct side *side, uint64_t own_id)
{
	static uint8_t bytes[1 << 16];
	const char *name = getenv("ZIP_CORPUS");
	DIR *dir = opendir(name ? name : "");
	struct dirent *entry;
	int files = 0;

	SIDE_CHECK(dir, "ZIP_CORPUS=%s is not a folder of files", name ? name : "");
	while ((entry = readdir(dir))) {
		char path[PATH_MAX];
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", name, entry->d_name);
		file = fopen(path, "rb");
		SIDE_CHECK(file, "%s", path);
		hostile_file(side, bytes, fread(bytes, 1, sizeof(bytes), file), own_id);
		fclose(file);
		files++;
	}
	closedir(dir);
	SIDE_CHECK(files >= 10 && !side->errors, "%d files, %u errors", files, side->errors);
}

static void hostile_attack(int socket)
{
	struct side side;
	uint64_t state = 77, own_id = 0x1122334455667788, their_id;
	uint8_t msg[1024];
	int i;

	side_open(&side, socket, lower, devices[0]);
	SIDE_OK(uct_iface_set_am_handler(side.iface, UCX_AM_SHARED, hostile_am, NULL, 0)); /* it is answered */
	SIDE_CHECK(recv(socket, &side.theirs, sizeof(side.theirs), MSG_WAITALL) == (ssize_t)sizeof(side.theirs), "the victim is gone");
	memcpy(&their_id, side.theirs.iface, sizeof(their_id));
	memmove(side.theirs.iface, side.theirs.iface + 9, SIDE_ADDR_MAX - 9); /* the lower transport's own */
	side_connect(&side);
	for (i = 0; i < 40000 && !side.errors; i++) {
		size_t len = hostile_message(msg, &state, own_id, their_id, &side);

		side_am(&side, UCX_AM_SHARED, msg, len);
		if (i % 64 == 0)
			uct_worker_progress(side.worker);
	}
	SIDE_CHECK(i == 40000, "the victim hung up after %d messages", i);
	hostile_corpus(&side, own_id);
	side_sync(&side, 'x');
	side_sync(&side, 'y');
	side_close(&side);
}

void ucx_test_hostile(int socket)
{
	struct side side;
	struct side_card ours = {0};
	uint8_t *buf = malloc(MIB);

	if (side_number == 1) {
		hostile_attack(socket);
		free(buf);
		return;
	}
	side_open(&side, socket, "zip", devices[0]);
	SIDE_OK(uct_iface_set_am_handler(side.iface, UCX_AM_SHARED, hostile_am, NULL, 0));
	side.length = MIB;
	side.memory = calloc(1, MIB);
	SIDE_OK(uct_md_mem_reg(side.md, side.memory, MIB, UCT_MD_MEM_ACCESS_ALL, &side.memh));
	SIDE_OK(uct_md_mkey_pack(side.md, side.memh, ours.key));
	SIDE_OK(uct_iface_get_device_address(side.iface, (void *)ours.device));
	SIDE_OK(uct_iface_get_address(side.iface, (void *)ours.iface));
	ours.address = (uintptr_t)side.memory;
	SIDE_CHECK(write(socket, &ours, sizeof(ours)) == (ssize_t)sizeof(ours), "write");
	side_sync(&side, 'x');
	/* It still works, here with itself. */
	side.theirs = ours;
	SIDE_OK(uct_rkey_unpack(side.component, ours.key, &side.rkey));
	side_connect(&side);
	for (size_t i = 0; i < MIB; i++)
		SIDE_CHECK(!side.memory[i], "byte %zu was written", i);
	ucx_fill(buf, MIB, 3);
	SIDE_OK(side_put(&side, buf, MIB, NULL, ours.address, side.rkey.rkey));
	SIDE_CHECK(ucx_filled(side.memory, MIB, 3), "a put after all that");
	side_sync(&side, 'y');
	side_close(&side);
	free(buf);
}
