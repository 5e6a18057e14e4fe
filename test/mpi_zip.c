/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an MPI program does, with every byte checked: point to point of many sizes, probes, derived datatypes, collectives, one-
 * sided.
 *
 * usage: mpirun -n N mpi_zip [LARGEST]   where LARGEST is the most bytes of a message (default 256 MiB)
 *        mpirun -n N mpi_zip floats      only some messages of 4 MiB of Gaussian bf16, for who counts bytes on the wire
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucx_data.h"
#include "zipt_data.h"

#define SIGMA 0.02
#define TAG 7

static int rank, ranks;
static size_t largest = (size_t)256 << 20;

#define CHECK(condition, ...)                                                                  \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: rank %d: %s failed: ", __FILE__, __LINE__, rank, #condition); \
			fprintf(stderr, __VA_ARGS__);                                          \
			fputc('\n', stderr);                                                   \
			MPI_Abort(MPI_COMM_WORLD, 1);                                          \
		}                                                                              \
	} while (0)

static uint8_t *buffer(size_t nbytes)
{
	uint8_t *buf = malloc(nbytes ? nbytes : 1);

	CHECK(buf, "no memory for %zu bytes", nbytes);
	return buf;
}

static void check_filled(const void *got, size_t nbytes, uint64_t seed, const char *what)
{
	CHECK(ucx_filled(got, nbytes, seed), "%s: %zu bytes, seed %llu", what, nbytes, (unsigned long long)seed);
}

/* Every rank sends to the next, and receives from the one before, at once. */
static void test_ring(size_t nbytes, uint64_t seed)
{
	uint8_t *out = buffer(nbytes), *in = buffer(nbytes);
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int count;

	ucx_fill(out, nbytes, seed + (uint64_t)rank);
	memset(in, 0xa5, nbytes);
	MPI_Irecv(in, (int)nbytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)nbytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, statuses);
	MPI_Get_count(&statuses[0], MPI_BYTE, &count);
	CHECK((size_t)count == nbytes, "%d of %zu bytes", count, nbytes);
	check_filled(in, nbytes, seed + (uint64_t)before, "ring");
	free(in);
	free(out);
}

static void test_sizes(void)
{
	static const size_t around[] = {0, 1, 2, 3, 7, 64, 1000, 8192, 65536, 131072, 1048576, 4194304, 16777216, 67108864, 268435456};
	uint64_t seed = 1;
	size_t i;

	for (i = 0; i < sizeof(around) / sizeof(around[0]) && around[i] <= largest; i++) {
		test_ring(around[i], seed++);
		if (around[i] < 4096 || around[i] > 4194304)
			continue;
		test_ring(around[i] - 1, seed++);
		test_ring(around[i] + 1, seed++);
	}
}

/* Many at once, of all sizes, received in the order of their tags from the last to the first. */
static void test_reversed(void)
{
	enum { COUNT = 24 };
	static const size_t sizes[] = {100, 70000, 300000, 1000000};
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
	MPI_Request requests[2 * COUNT];
	uint8_t *out[COUNT], *in[COUNT];

	for (i = 0; i < COUNT; i++) {
		out[i] = buffer(sizes[i % 4]);
		in[i] = buffer(sizes[i % 4]);
		ucx_fill(out[i], sizes[i % 4], (uint64_t)(100 + i + rank));
		MPI_Isend(out[i], (int)sizes[i % 4], MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[i]);
	}
	for (i = COUNT - 1; i >= 0; i--)
		MPI_Irecv(in[i], (int)sizes[i % 4], MPI_BYTE, before, i, MPI_COMM_WORLD, &requests[COUNT + i]);
	MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
	for (i = 0; i < COUNT; i++) {
		check_filled(in[i], sizes[i % 4], (uint64_t)(100 + i + before), "reversed");
		free(in[i]);
		free(out[i]);
	}
}

/* The receiver learns the size from a probe, and takes messages of one sender in their order. */
static void test_probe(void)
{
	static const size_t sizes[] = {0, 5, 200000, 17, 3000000};
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, count;
	MPI_Request requests[5];
	uint8_t *out[5], *in;
	MPI_Message message;
	MPI_Status status;
	size_t i;

	for (i = 0; i < 5; i++) {
		out[i] = buffer(sizes[i]);
		ucx_fill(out[i], sizes[i], 200 + i + (uint64_t)rank);
		MPI_Isend(out[i], (int)sizes[i], MPI_BYTE, next, TAG, MPI_COMM_WORLD, &requests[i]);
	}
	for (i = 0; i < 5; i++) {
		if (i % 2)
			MPI_Mprobe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
		else
			MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK((size_t)count == sizes[i], "probe says %d of %zu bytes", count, sizes[i]);
		in = buffer(sizes[i]);
		if (i % 2)
			MPI_Mrecv(in, count, MPI_BYTE, &message, &status);
		else
			MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
		check_filled(in, sizes[i], 200 + i + (uint64_t)before, "probe");
		free(in);
	}
	MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
	for (i = 0; i < 5; i++)
		free(out[i]);
}

/* A column of a matrix to a row, and blocks of different lengths. */
static void test_datatypes(void)
{
	enum { ROWS = 1500, COLUMNS = 400 };
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
	int lengths[64], places[64], total = 0;
	float *matrix = (float *)(void *)buffer(ROWS * COLUMNS * sizeof(float));
	float *theirs = (float *)(void *)buffer(ROWS * COLUMNS * sizeof(float));
	float *row = (float *)(void *)buffer(ROWS * COLUMNS * sizeof(float));
	MPI_Datatype columns, blocks;

	zipt_fill(matrix, ROWS * COLUMNS * sizeof(float), ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, SIGMA, 300 + (uint64_t)rank);
	zipt_fill(theirs, ROWS * COLUMNS * sizeof(float), ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, SIGMA, 300 + (uint64_t)before);
	MPI_Type_vector(ROWS, COLUMNS / 2, COLUMNS, MPI_FLOAT, &columns);
	MPI_Type_commit(&columns);
	MPI_Sendrecv(matrix, 1, columns, next, TAG, row, ROWS * COLUMNS / 2, MPI_FLOAT, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (i = 0; i < ROWS; i++)
		CHECK(!memcmp(row + i * COLUMNS / 2, theirs + i * COLUMNS, COLUMNS / 2 * sizeof(float)), "row %d", i);
	for (i = 0; i < 64; i++) {
		lengths[i] = 1 + i * 97 % 4000;
		places[i] = i * 8000;
		total += lengths[i];
	}
	MPI_Type_indexed(64, lengths, places, MPI_FLOAT, &blocks);
	MPI_Type_commit(&blocks);
	memset(row, 0, ROWS * COLUMNS * sizeof(float));
	MPI_Sendrecv(matrix, total, MPI_FLOAT, next, TAG, row, 1, blocks, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (i = 0, total = 0; i < 64; total += lengths[i], i++)
		CHECK(!memcmp(row + places[i], theirs + total, (size_t)lengths[i] * sizeof(float)), "block %d", i);
	MPI_Type_free(&columns);
	MPI_Type_free(&blocks);
	free(row);
	free(theirs);
	free(matrix);
}

static void test_collectives(size_t nbytes)
{
	size_t words = nbytes / 4, i;
	uint8_t *own = buffer(nbytes), *all = buffer(nbytes * (size_t)ranks), *many = buffer(nbytes * (size_t)ranks);
	uint32_t *sum = (uint32_t *)(void *)buffer(nbytes), *want = (uint32_t *)(void *)buffer(nbytes);
	int r, root;

	for (root = 0; root < ranks; root++) {
		ucx_fill(own, nbytes, 400 + (uint64_t)(rank == root ? root : 99));
		MPI_Bcast(own, (int)nbytes, MPI_BYTE, root, MPI_COMM_WORLD);
		check_filled(own, nbytes, 400 + (uint64_t)root, "bcast");
	}
	ucx_fill(own, nbytes, 500 + (uint64_t)rank);
	MPI_Allgather(own, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, MPI_COMM_WORLD);
	for (r = 0; r < ranks; r++)
		check_filled(all + (size_t)r * nbytes, nbytes, 500 + (uint64_t)r, "allgather");
	for (r = 0; r < ranks; r++)
		ucx_fill(many + (size_t)r * nbytes, nbytes, 600 + (uint64_t)(rank * ranks + r));
	MPI_Alltoall(many, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, MPI_COMM_WORLD);
	for (r = 0; r < ranks; r++)
		check_filled(all + (size_t)r * nbytes, nbytes, 600 + (uint64_t)(r * ranks + rank), "alltoall");
	/* Sums of the bits as integers are the same in any order. */
	ucx_fill(own, nbytes, 500 + (uint64_t)rank);
	memset(want, 0, nbytes);
	for (r = 0; r < ranks; r++) {
		ucx_fill(many, nbytes, 500 + (uint64_t)r);
		for (i = 0; i < words; i++)
			want[i] += ((uint32_t *)(void *)many)[i];
	}
	MPI_Allreduce(own, sum, (int)words, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	CHECK(!memcmp(sum, want, 4 * words), "allreduce of %zu words", words);
	MPI_Reduce(own, sum, (int)words, MPI_UINT32_T, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
	CHECK(rank != ranks - 1 || !memcmp(sum, want, 4 * words), "reduce of %zu words", words);
	MPI_Gather(own, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (r = 0; r < ranks && !rank; r++)
		check_filled(all + (size_t)r * nbytes, nbytes, 500 + (uint64_t)r, "gather");
	MPI_Scatter(all, (int)nbytes, MPI_BYTE, many, (int)nbytes, MPI_BYTE, 0, MPI_COMM_WORLD);
	check_filled(many, nbytes, 500 + (uint64_t)rank, "scatter");
	free(want);
	free(sum);
	free(many);
	free(all);
	free(own);
}

/* Puts into the next one's window and gets from it. */
static void test_windows(size_t nbytes)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	uint8_t *window, *out = buffer(nbytes), *in = buffer(nbytes);
	MPI_Win win;

	MPI_Win_allocate((MPI_Aint)(2 * nbytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	MPI_Win_fence(0, win);
	ucx_fill(out, nbytes, 700 + (uint64_t)rank);
	MPI_Put(out, (int)nbytes, MPI_BYTE, next, (MPI_Aint)nbytes, (int)nbytes, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check_filled(window + nbytes, nbytes, 700 + (uint64_t)before, "put");
	MPI_Win_fence(0, win);
	MPI_Get(in, (int)nbytes, MPI_BYTE, next, (MPI_Aint)nbytes, (int)nbytes, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check_filled(in, nbytes, 700 + (uint64_t)rank, "get");
	MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
	MPI_Put(out, (int)nbytes, MPI_BYTE, next, 0, (int)nbytes, MPI_BYTE, win);
	MPI_Win_flush(next, win);
	MPI_Get(in, (int)nbytes, MPI_BYTE, next, 0, (int)nbytes, MPI_BYTE, win);
	MPI_Win_unlock(next, win);
	check_filled(in, nbytes, 700 + (uint64_t)rank, "get after flush");
	MPI_Win_free(&win);
	free(in);
	free(out);
}

static void test_floats(void)
{
	enum { COUNT = 16, NBYTES = 4194304 };
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
	uint8_t *out = buffer(NBYTES), *in = buffer(NBYTES), *want = buffer(NBYTES);

	zipt_fill(out, NBYTES, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, SIGMA, 1 + (uint64_t)rank);
	zipt_fill(want, NBYTES, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, SIGMA, 1 + (uint64_t)before);
	for (i = 0; i < COUNT; i++) {
		memset(in, 0, NBYTES);
		MPI_Sendrecv(out, NBYTES, MPI_BYTE, next, TAG, in, NBYTES, MPI_BYTE, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(!memcmp(in, want, NBYTES), "message %d", i);
	}
	free(want);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {4, 4096, 100000, 2097152};
	size_t i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1 && !strcmp(argv[1], "floats")) {
		test_floats();
		MPI_Finalize();
		return 0;
	}
	if (argc > 1)
		largest = strtoull(argv[1], NULL, 0);
	test_sizes();
	test_reversed();
	test_probe();
	test_datatypes();
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		test_collectives(sizes[i]);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !getenv("MPI_ZIP_NO_WINDOWS"); i++)
		test_windows(sizes[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("mpi_zip: all right, %d ranks, messages up to %zu bytes\n", ranks, largest);
	MPI_Finalize();
	return 0;
}
