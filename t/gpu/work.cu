/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU work for t/gpu/run.sh.  Prints "key=value ..." on one line.
 *
 *     work launch COUNT NS            COUNT kernels of NS nanoseconds, one stream
 *     work graph NODES REPLAYS NS     a graph of NODES kernels, replayed
 *     work threads THREADS COUNT NS   THREADS threads, a stream each
 *     work copies COUNT BYTES         copies both ways, between, and memsets
 *     work end HOW                    1000 kernels, then return, _exit, term, kill, fork, abort
 *     work about                      name and versions
 */
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "work: %s: %s\n", #call, cudaGetErrorString(e_));                      \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static __global__ void spin(long long cycles)
{
    long long begin = clock64();

    while (clock64() - begin < cycles)
        ;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static long long cycles_of(double ns)
{
    int khz = 0;

    CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    return (long long)(ns * khz * 1e-6);
}

static double free_mb(void)
{
    size_t available, total;

    CHECK(cudaMemGetInfo(&available, &total));
    return available / 1048576.0;
}

static void launches(cudaStream_t stream, long count, long long cycles)
{
    for (long i = 0; i < count; i++) {
        spin<<<1, 32, 0, stream>>>(cycles);
        if (i % 1000 == 999)
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
}

static int launch(long count, double ns)
{
    long long cycles = cycles_of(ns);
    cudaStream_t stream;
    double begin;

    CHECK(cudaStreamCreate(&stream));
    launches(stream, 2000, cycles);
    begin = seconds();
    launches(stream, count, cycles);
    printf("wall=%.6f kernels=%ld per_kernel_ns=%.1f\n", seconds() - begin, count + 2000,
           (seconds() - begin) * 1e9 / count);
    return 0;
}

static int graph(int nodes, long replays, double ns)
{
    long long cycles = cycles_of(ns);
    cudaGraphExec_t exec;
    cudaStream_t stream;
    cudaGraph_t captured;
    double begin, before;

    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < nodes; i++)
        spin<<<1, 32, 0, stream>>>(cycles);
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&exec, captured, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    before = free_mb();
    begin = seconds();
    for (long i = 0; i < replays; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
        if (i % 20 == 19)
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    printf("wall=%.6f kernels=%ld per_kernel_ns=%.1f gpu_mb_grown=%.0f\n", seconds() - begin,
           (long)nodes * (replays + 1), (seconds() - begin) * 1e9 / ((double)nodes * replays),
           before - free_mb());
    return 0;
}

static int threads(int n, long count, double ns)
{
    long long cycles = cycles_of(ns);
    std::vector<std::thread> all;
    double begin = seconds();

    for (int i = 0; i < n; i++)
        all.emplace_back([=] {
            cudaStream_t stream;

            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            launches(stream, count, cycles);
        });
    for (auto &t : all)
        t.join();
    printf("wall=%.6f kernels=%ld\n", seconds() - begin, n * count);
    return 0;
}

static int copies(long count, size_t bytes)
{
    char *device, *other, *host;

    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMalloc(&other, bytes));
    CHECK(cudaMallocHost(&host, bytes));
    for (long i = 0; i < count; i++) {
        CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpyAsync(other, device, bytes, cudaMemcpyDeviceToDevice));
        CHECK(cudaMemcpyAsync(host, other, bytes, cudaMemcpyDeviceToHost));
        CHECK(cudaMemsetAsync(other, 0, bytes));
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(other));
    printf("copies=%ld memsets=%ld\n", 3 * count, count);
    return 0;
}

static int end(const char *how)
{
    cudaStream_t stream;

    CHECK(cudaStreamCreate(&stream));
    launches(stream, 1000, cycles_of(2000));
    sleep(3);
    if (strcmp(how, "fork") == 0) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0)
            exit(7);
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status) == 7 ? 0 : 1;
    }
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "abort") == 0)
        abort();
    return 0;
}

static int about(void)
{
    cudaDeviceProp p;
    int driver = 0, runtime = 0;

    CHECK(cudaGetDeviceProperties(&p, 0));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    printf("%s, driver API %d.%d, runtime %d.%d\n", p.name, driver / 1000, driver % 1000 / 10,
           runtime / 1000, runtime % 1000 / 10);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "about";

    if (strcmp(what, "launch") == 0 && argc == 4)
        return launch(atol(argv[2]), atof(argv[3]));
    if (strcmp(what, "graph") == 0 && argc == 5)
        return graph(atoi(argv[2]), atol(argv[3]), atof(argv[4]));
    if (strcmp(what, "threads") == 0 && argc == 5)
        return threads(atoi(argv[2]), atol(argv[3]), atof(argv[4]));
    if (strcmp(what, "copies") == 0 && argc == 4)
        return copies(atol(argv[2]), (size_t)atol(argv[3]));
    if (strcmp(what, "end") == 0 && argc == 3)
        return end(argv[2]);
    if (strcmp(what, "about") == 0)
        return about();
    fprintf(stderr, "usage: work launch|graph|threads|copies|end|about ...\n");
    return 2;
}
