/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank, one communicator: COUNT sends to itself and their receives, for t/gpu/run.sh.  A
 * collective of one rank would not do: NCCL makes it a copy and tells its profiler nothing.
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100;
    float *from, *to;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    double begin;
    int version = 0;

    ncclGetVersion(&version);
    if (cudaStreamCreate(&stream) != cudaSuccess || cudaMalloc(&from, 1 << 20) != cudaSuccess ||
        cudaMalloc(&to, 1 << 20) != cudaSuccess || ncclGetUniqueId(&id) != ncclSuccess ||
        ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess)
        return 3;
    begin = seconds();
    for (long i = 0; i < count; i++) {
        if (ncclGroupStart() != ncclSuccess ||
            ncclSend(from, 1000, ncclFloat, 0, comm, stream) != ncclSuccess ||
            ncclRecv(to, 1000, ncclFloat, 0, comm, stream) != ncclSuccess ||
            ncclGroupEnd() != ncclSuccess)
            return 4;
    }
    cudaStreamSynchronize(stream);
    printf("nccl=%d calls=%ld per_call_ns=%.0f\n", version, 2 * count,
           (seconds() - begin) * 1e9 / (2 * count));
    ncclCommDestroy(comm);
    return 0;
}
