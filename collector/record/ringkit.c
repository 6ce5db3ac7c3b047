/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/ringkit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NAMES_BYTES (1u << 20)
#define STREAM_COMPUTE 7
#define STREAM_TP 20
#define STREAM_DP 21
#define STREAM_PP 22
#define COMM_TP 0x1111111111111111ULL
#define COMM_DP 0x2222222222222222ULL
#define COMM_PP 0x3333333333333333ULL
#define COMM_EP 0x4444444444444444ULL
#define BUFFER 2048u /* GPU records that a CUPTI buffer holds here */
#define LAYERS 24
#define BUCKETS 20 /* of gradients and of parameters, each of its own size */

enum name {
    N_GEMM,
    N_FWD,
    N_BWD,
    N_NORM,
    N_ELEMENT,
    N_EXPERT,
    N_ADAM,
    N_ALLREDUCE,
    N_REDUCESCATTER,
    N_ALLGATHER,
    N_SENDRECV,
    N_TINY,
    N_COUNT
};

static const char *const texts[N_COUNT] = {
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_kernel",
    "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsEEv",
    "_ZN5flash16flash_bwd_kernelI23Flash_bwd_kernel_traitsEEv",
    "_ZN10layer_norm19ln_fwd_kernelI13__nv_bfloat16EEv",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addEEEvi",
    "_ZN7cutlass6kernel12grouped_gemmIfEEv",
    "_ZN2at6native25multi_tensor_apply_kernelIfEEv",
    "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    "_Z40ncclDevKernel_ReduceScatter_Sum_f32_RING24ncclDevKernelArgsStorageILm4096EE",
    "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE",
    "_Z9tiny_stepPf"};

struct ringkit {
    unsigned char *map;
    size_t size;
    struct argus_ring_header *h;
    struct argus_record *slots;
    struct kit_options o;
    uint32_t names[N_COUNT];
    struct kit_totals totals;
    uint64_t random;
    int64_t now, comm_now; /* ends of the last work of the compute and of the other streams */
    uint32_t seq[4];
    struct argus_record buffer[BUFFER];
    size_t n_buffer;
    int wait;
    uint32_t node; /* of the graph */
};

static const char *const job_names[KIT_JOBS] = {"dense", "moe", "ddp", "storm", "graph"};

const char *kit_job_name(enum kit_job job)
{
    return job_names[job];
}

int kit_job_from_name(const char *name)
{
    for (int i = 0; i < KIT_JOBS; i++) {
        if (!strcmp(job_names[i], name))
            return i;
    }
    return -1;
}

/* ---- the ring ------------------------------------------------------------ */

static uint64_t start_time(void)
{
    char text[1024];
    unsigned long long start = 0;
    FILE *f = fopen("/proc/self/stat", "r");
    char *p;
    size_t n;

    if (!f)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p && sscanf(p, "%llu", &start) == 1 ? start : 0;
}

uint32_t ringkit_name(ringkit_t *k, const char *text)
{
    uint32_t length = (uint32_t)strlen(text), at = (uint32_t)k->h->names_tail;
    unsigned char *names = k->map + k->h->names_offset;

    if (at + 4 + length > k->h->names_bytes)
        return ARGUS_NAME_NONE;
    memcpy(names + at, &length, sizeof(length));
    memcpy(names + at + 4, text, length);
    k->h->names_tail = (at + 4 + length + 7) & ~7u;
    return at;
}

ringkit_t *ringkit_create(const char *path, uint64_t slots, const struct kit_options *o)
{
    ringkit_t *k = calloc(1, sizeof(*k));
    struct timespec ts;
    char temp[4200];
    int fd = -1;

    if (!k)
        return NULL;
    k->size = ARGUS_RING_HEADER_BYTES + slots * ARGUS_RECORD_BYTES + NAMES_BYTES;
    snprintf(temp, sizeof(temp), "%s.new", path);
    fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || (errno = posix_fallocate(fd, 0, (off_t)k->size)) != 0)
        goto error;
    k->map = mmap(NULL, k->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (k->map == MAP_FAILED) {
        k->map = NULL;
        goto error;
    }
    close(fd);
    fd = -1;
    k->h = (struct argus_ring_header *)(void *)k->map;
    k->slots = (struct argus_record *)(void *)(k->map + ARGUS_RING_HEADER_BYTES);
    k->o = *o;
    k->random = o->seed * 2 + 1;
    clock_gettime(CLOCK_REALTIME, &ts);
    k->now = o->start ? o->start : (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    *k->h = (struct argus_ring_header){.magic = ARGUS_RING_MAGIC,
                                       .version = ARGUS_RING_VERSION,
                                       .header_bytes = ARGUS_RING_HEADER_BYTES,
                                       .record_bytes = ARGUS_RECORD_BYTES,
                                       .names_bytes = NAMES_BYTES,
                                       .slots = slots,
                                       .slots_offset = ARGUS_RING_HEADER_BYTES,
                                       .names_offset =
                                           ARGUS_RING_HEADER_BYTES + slots * ARGUS_RECORD_BYTES,
                                       .pid = (int32_t)getpid(),
                                       .ppid = (int32_t)getppid(),
                                       .pid_start = start_time(),
                                       .created = k->now,
                                       .rank = o->rank,
                                       .world = o->world,
                                       .local_rank = o->rank,
                                       .names_tail = 8};
    snprintf(k->h->node, sizeof(k->h->node), "here");
    snprintf(k->h->exe, sizeof(k->h->exe), "ringgen");
    snprintf(k->h->gpu_name, sizeof(k->h->gpu_name), "none (generated records)");
    k->h->simulated = 1;
    for (int i = 0; i < N_COUNT; i++)
        k->names[i] = ringkit_name(k, texts[i]);
    if (rename(temp, path) < 0)
        goto error;
    return k;
error:
    if (fd >= 0)
        close(fd);
    ringkit_close(k);
    return NULL;
}

void ringkit_close(ringkit_t *k)
{
    if (k && k->map)
        munmap(k->map, k->size);
    free(k);
}

struct argus_ring_header *ringkit_header(ringkit_t *k)
{
    return k->h;
}

const struct kit_totals *ringkit_totals(const ringkit_t *k)
{
    return &k->totals;
}

static int is_gpu(int type)
{
    return type == ARGUS_REC_KERNEL || type == ARGUS_REC_MEMCPY || type == ARGUS_REC_MEMSET ||
           type == ARGUS_REC_OVERHEAD;
}

int ringkit_put(ringkit_t *k, const struct argus_record *rec)
{
    uint64_t p = k->h->head, lap = p / k->h->slots;
    struct argus_record *slot = &k->slots[p & (k->h->slots - 1)];

    while (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != 2 * lap) {
        struct timespec nap = {.tv_nsec = 1000000};

        if (!k->wait) {
            k->h->dropped[ARGUS_SOURCE_CUPTI]++;
            k->totals.dropped++;
            return 0;
        }
        nanosleep(&nap, NULL);
    }
    __atomic_store_n(&k->h->head, p + 1, __ATOMIC_RELEASE);
    memcpy((char *)slot + 8, (const char *)rec + 8, sizeof(*rec) - 8);
    __atomic_store_n(&slot->state, 2 * lap + 1, __ATOMIC_RELEASE);
    k->h->records[ARGUS_SOURCE_CUPTI]++;
    k->totals.records++;
    if (is_gpu(rec->type)) {
        k->totals.gpu++;
        k->totals.kernels += rec->type == ARGUS_REC_KERNEL;
        k->totals.gpu_ns += (uint64_t)(rec->end - rec->start);
    }
    return 1;
}

void ringkit_claim(ringkit_t *k)
{
    __atomic_store_n(&k->h->head, k->h->head + 1, __ATOMIC_RELEASE);
}

/* ---- a job --------------------------------------------------------------- */

static uint32_t random_below(ringkit_t *k, uint32_t n)
{
    k->random = k->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(k->random >> 33) % n;
}

/* +- 2 %, now and then a straggler of its own. */
static int64_t noisy(ringkit_t *k, int64_t ns)
{
    int64_t v = ns - ns / 50 + (int64_t)random_below(k, (uint32_t)(ns / 25 + 1));

    return random_below(k, 2000) ? v : v * 3;
}

static void flush(ringkit_t *k)
{
    struct argus_record rec = {.type = ARGUS_REC_FLUSH};

    for (size_t i = 0; i < k->n_buffer; i++)
        ringkit_put(k, &k->buffer[i]);
    k->n_buffer = 0;
    rec.start = rec.end = k->now > k->comm_now ? k->now : k->comm_now;
    ringkit_put(k, &rec);
}

static void gpu(ringkit_t *k, const struct argus_record *rec)
{
    k->buffer[k->n_buffer++] = *rec;
    if (k->n_buffer == BUFFER)
        flush(k);
}

static struct argus_record kernel_record(ringkit_t *k, enum name name, uint32_t grid,
                                         uint32_t stream)
{
    struct argus_record rec = {.type = ARGUS_REC_KERNEL, .tid = 1};

    rec.u.kernel = (struct argus_rec_kernel){.name = k->names[name],
                                             .stream = stream,
                                             .grid_x = grid,
                                             .grid_y = 1,
                                             .grid_z = 1,
                                             .block_x = 256,
                                             .block_y = 1,
                                             .block_z = 1};
    if (k->o.job == KIT_GRAPH) {
        rec.u.kernel.graph = 11;
        rec.u.kernel.graph_node = ++k->node;
    }
    return rec;
}

static void compute(ringkit_t *k, enum name name, uint32_t grid, int64_t ns)
{
    struct argus_record rec = kernel_record(k, name, grid, STREAM_COMPUTE);

    rec.start = k->now + 800;
    rec.end = rec.start + noisy(k, ns);
    k->now = rec.end;
    gpu(k, &rec);
}

/* A call, and its kernel: on its own stream, behind the compute before it; `blocking`: what comes
 * next waits for it. */
static void collective(ringkit_t *k, int c, int func, enum name name, uint64_t bytes,
                       uint32_t stream, int64_t ns, int blocking, int peer)
{
    static const uint64_t comms[] = {COMM_TP, COMM_DP, COMM_PP, COMM_EP};
    struct argus_record op = {.type = ARGUS_REC_OP, .flags = ARGUS_FLAG_API, .tid = 1};
    struct argus_record rec = kernel_record(k, name, 16, stream);
    int captured = k->o.job == KIT_GRAPH;

    if (!captured || k->totals.steps == 0) {
        op.start = op.end = k->now - 1000000;
        op.flags |= captured ? ARGUS_FLAG_GRAPH_CAPTURED : 0;
        op.u.op = (struct argus_rec_op){.comm = comms[c],
                                        .count = bytes / 2,
                                        .seq = k->seq[c]++,
                                        .peer = peer,
                                        .func = (uint8_t)func,
                                        .dtype = ARGUS_DTYPE_BF16};
        ringkit_put(k, &op);
        op.type = ARGUS_REC_LAUNCH;
        op.flags = 0;
        memset(&op.u, 0, sizeof(op.u));
        op.u.op.stream = stream;
        ringkit_put(k, &op);
    }
    rec.start = (k->now > k->comm_now ? k->now : k->comm_now) + 2000;
    /* up to a third of it is waiting for others */
    rec.end = rec.start + noisy(k, ns) + (int64_t)random_below(k, (uint32_t)(ns / 2 + 1));
    k->comm_now = rec.end;
    if (blocking)
        k->now = rec.end;
    gpu(k, &rec);
}

static void copy(ringkit_t *k, uint64_t bytes, int64_t ns)
{
    struct argus_record rec = {.type = ARGUS_REC_MEMCPY, .tid = 1};

    rec.start = k->now + 1000;
    rec.end = rec.start + noisy(k, ns);
    rec.u.copy = (struct argus_rec_copy){.bytes = bytes, .stream = STREAM_COMPUTE, .kind = 1};
    k->now = rec.end;
    gpu(k, &rec);
}

/* `n` kernels of a layer's pass, of some hundred shapes. */
static void layer(ringkit_t *k, int pass, unsigned n, int l)
{
    for (unsigned i = 0; i < n; i++) {
        switch (i % 5) {
        case 0:
            compute(k, N_GEMM, 256 + 64 * (i % 20 / 5) + (uint32_t)(pass + 2 * (l % 4)),
                    140000 + 20000 * (i % 20 / 5));
            break;
        case 1:
            compute(k, pass ? N_BWD : N_FWD, 512, 90000);
            break;
        case 2:
            compute(k, N_NORM, 1024 + (uint32_t)pass, 12000);
            break;
        default:
            compute(k, N_ELEMENT, 2048 + 256 * (i % 5) + 16 * (uint32_t)(l % 4), 8000);
        }
    }
}

static void transformer(ringkit_t *k)
{
    const unsigned micro = 8, layers = LAYERS / 4;
    unsigned each = k->o.kernels / (micro * layers * 2), left = each ? each : 1;

    copy(k, 1 << 20, 60000);
    for (unsigned m = 0; m < micro; m++) {
        collective(k, 2, ARGUS_FUNC_RECV, N_SENDRECV, 8 << 20, STREAM_PP, 90000, 1, 0);
        for (unsigned l = 0; l < layers; l++) {
            layer(k, 0, left, (int)l);
            collective(k, 0, ARGUS_FUNC_ALLREDUCE, N_ALLREDUCE, 16 << 20, STREAM_TP, 70000, 1, -1);
            if (k->o.job == KIT_MOE) {
                uint64_t bytes = (4u << 20) + ((uint64_t)random_below(k, 4096) << 10);

                collective(k, 3, ARGUS_FUNC_ALLTOALL, N_SENDRECV, bytes, STREAM_TP, 110000, 1, -1);
                compute(k, N_EXPERT, 64 + random_below(k, 32), 260000);
            }
        }
        for (unsigned l = 0; l < layers; l++) {
            layer(k, 1, left, (int)l);
            collective(k, 0, ARGUS_FUNC_ALLREDUCE, N_ALLREDUCE, 16 << 20, STREAM_TP, 70000, 1, -1);
        }
        collective(k, 2, ARGUS_FUNC_SEND, N_SENDRECV, 8 << 20, STREAM_PP, 90000, 1, 1);
    }
    for (int b = 0; b < BUCKETS; b++)
        collective(k, 1, ARGUS_FUNC_REDUCESCATTER, N_REDUCESCATTER, (40u + (uint32_t)b) << 20,
                   STREAM_DP, 900000, 1, -1);
    for (int i = 0; i < 24; i++)
        compute(k, N_ADAM, 320, 70000);
    for (int b = 0; b < BUCKETS; b++)
        collective(k, 1, ARGUS_FUNC_ALLGATHER, N_ALLGATHER, (20u + (uint32_t)b) << 20, STREAM_DP,
                   500000, 1, -1);
    compute(k, N_ADAM, 8, 3000); /* the masters' copy back */
}

static void ddp(ringkit_t *k)
{
    unsigned each = k->o.kernels / (2 * LAYERS);

    copy(k, 1 << 20, 60000);
    for (int l = 0; l < LAYERS; l++)
        layer(k, 0, each ? each : 1, l);
    for (int l = 0; l < LAYERS; l++) {
        layer(k, 1, each ? each : 1, l);
        collective(k, 1, ARGUS_FUNC_ALLREDUCE, N_ALLREDUCE, (25u << 20) + 4096u * (uint32_t)l,
                   STREAM_DP, 600000, 0, -1);
    }
    if (k->comm_now > k->now)
        k->now = k->comm_now;
    for (int i = 0; i < 12; i++)
        compute(k, N_ADAM, 320, 70000);
}

static void storm(ringkit_t *k)
{
    for (unsigned i = 0; i < k->o.kernels; i++)
        compute(k, N_TINY, 1 + i % 50, 5000);
    compute(k, N_ADAM, 320, 5000);
}

void ringkit_step(ringkit_t *k, int wait)
{
    k->wait = wait;
    k->node = 0;
    if (k->o.job == KIT_STORM)
        storm(k);
    else if (k->o.job == KIT_DDP)
        ddp(k);
    else
        transformer(k);
    k->totals.steps++;
}

void ringkit_end(ringkit_t *k, int orderly)
{
    flush(k);
    flush(k);
    if (orderly)
        k->h->end = ARGUS_REASON_EXIT;
}
