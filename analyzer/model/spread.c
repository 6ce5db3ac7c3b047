/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdio.h>

#include "analyzer/model/spread.h"

#ifdef HAVE_MPI
#include <mpi.h>

#define PIECE ((size_t)1 << 28) /* bytes a message: counts are ints */

static int spread_rank, spread_size = 1, begun;

int argus_spread_begin(argus_error_t *err)
{
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return argus_error(err, "MPI_Init failed");
    begun = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &spread_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &spread_size);
    return 0;
}

void argus_spread_end(void)
{
    if (begun)
        MPI_Finalize();
    begun = 0;
}

int argus_spread_rank(void)
{
    return spread_rank;
}

int argus_spread_size(void)
{
    return spread_size;
}

int argus_spread_share(int value)
{
    if (begun)
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}

int argus_spread_agree(int failed)
{
    int any = failed;

    if (begun)
        MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any ? -1 : 0;
}

static void send_all(const void *data, size_t n)
{
    for (size_t at = 0; at < n; at += PIECE)
        MPI_Send((const char *)data + at, (int)(n - at < PIECE ? n - at : PIECE), MPI_BYTE, 0, 1,
                 MPI_COMM_WORLD);
}

static void receive_all(void *data, size_t n, int from)
{
    for (size_t at = 0; at < n; at += PIECE)
        MPI_Recv((char *)data + at, (int)(n - at < PIECE ? n - at : PIECE), MPI_BYTE, from, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void hand_over(argus_arena_t *arena, struct argus_digest *digests, size_t n)
{
    size_t used = argus_arena_used(arena);

    send_all(&used, sizeof(used));
    send_all(argus_arena_base(arena), used);
    for (size_t i = (size_t)spread_rank; i < n; i += (size_t)spread_size)
        send_all(&digests[i], sizeof(digests[i]));
}

static int take_over(argus_arena_t *arena, int slot, struct argus_digest *digests, size_t n,
                     int from, argus_error_t *err)
{
    size_t used = 0;
    void *base;

    receive_all(&used, sizeof(used), from);
    base = argus_arena_attach(arena, from, slot, used);
    if (!base) { /* its sender waits: nobody can go on */
        fprintf(stderr, "argus: process %d: no room for the %zu bytes that it read\n", from, used);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return argus_error(err, "process %d: no room for the %zu bytes that it read", from, used);
    }
    receive_all(base, used, from);
    for (size_t i = (size_t)from; i < n; i += (size_t)spread_size)
        receive_all(&digests[i], sizeof(digests[i]), from);
    return 0;
}

int argus_spread_collect(argus_arena_t *arena, int slot, struct argus_digest *digests, size_t n,
                         argus_error_t *err)
{
    int rc = 0;

    if (spread_rank != 0) {
        hand_over(arena, digests, n);
        return 0;
    }
    for (int p = 1; p < spread_size && rc == 0; p++)
        rc = take_over(arena, slot, digests, n, p, err);
    return rc;
}

#else

int argus_spread_begin(argus_error_t *err)
{
    return argus_error(err, "this argus was built without MPI (configure --with-mpi)");
}

void argus_spread_end(void)
{
}

int argus_spread_rank(void)
{
    return 0;
}

int argus_spread_size(void)
{
    return 1;
}

int argus_spread_share(int value)
{
    return value;
}

int argus_spread_agree(int failed)
{
    return failed ? -1 : 0;
}

int argus_spread_collect(argus_arena_t *arena, int slot, struct argus_digest *digests, size_t n,
                         argus_error_t *err)
{
    (void)arena;
    (void)slot;
    (void)digests;
    (void)n;
    (void)err;
    return 0;
}

#endif
