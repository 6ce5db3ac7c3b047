/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's activity records into ours.  Runs on the worker only. */
#include "collector/inject/cupti.h"

#include <stdlib.h>

#define DAY_NS (86400LL * 1000000000)
#define AHEAD_NS (3600LL * 1000000000)

#define BATCH 32

struct reader {
    int64_t now;
    bool final;
    uint32_t tid;
    struct cupti_counts *counts;
    unsigned used;
    struct argus_record batch[BATCH];
};

/* Times that a record may carry: set, not a sentinel, in order, not older than
 * a day and not from the future, an hour's step of the clock apart. */
static bool times(struct reader *r, const uint8_t *record, size_t start_at, size_t end_at,
                  int64_t *start, int64_t *end)
{
    uint64_t s = cf_u64(record, start_at), e = cf_u64(record, end_at);

    if (likely(s - (uint64_t)(r->now - DAY_NS) < (uint64_t)(DAY_NS + AHEAD_NS) &&
               e - s < (uint64_t)DAY_NS)) {
        *start = (int64_t)s;
        *end = (int64_t)e;
        return true;
    }
    if (r->final && s != 0 && e == 0)
        return false;
    r->counts->invalid++;
    return false;
}

static void flush_batch(struct reader *r)
{
    if (r->used)
        argus_ring_write(ARGUS_SOURCE_CUPTI, r->batch, r->used);
    r->used = 0;
}

/* The next record to fill in; it goes out with its batch. */
static struct argus_record *next(struct reader *r, enum argus_record_type type, int64_t start,
                                 int64_t end)
{
    struct argus_record *out;

    if (unlikely(r->used == BATCH))
        flush_batch(r);
    out = &r->batch[r->used++];
    out->type = (uint16_t)type;
    out->flags = 0;
    out->tid = r->tid;
    out->start = start;
    out->end = end;
    return out;
}

static void gpu_record(struct reader *r, uint32_t device, int64_t start, int64_t end)
{
    argus_cupti_busy(start, end);
    if (end > r->counts->newest_end)
        r->counts->newest_end = end;
    if (unlikely(r->counts->device < 0))
        r->counts->device = (int)device;
}

static uint16_t narrow(uint32_t v)
{
    return v > UINT16_MAX ? UINT16_MAX : (uint16_t)v;
}

static void kernel(struct reader *r, const uint8_t *in)
{
    struct argus_record *out;
    struct argus_rec_kernel *k;
    int64_t start, end;
    uint32_t name;

    r->counts->seen++;
    if (!times(r, in, KERNEL_START, KERNEL_END, &start, &end))
        return;
    name = argus_name_cached(cf_pointer(in, KERNEL_NAME));
    out = next(r, ARGUS_REC_KERNEL, start, end);
    gpu_record(r, cf_u32(in, KERNEL_DEVICE), start, end);
    k = &out->u.kernel;
    k->name = name;
    k->stream = cf_u32(in, KERNEL_STREAM);
    k->grid_x = cf_u32(in, KERNEL_GRID_X);
    k->grid_y = narrow(cf_u32(in, KERNEL_GRID_Y));
    k->grid_z = narrow(cf_u32(in, KERNEL_GRID_Z));
    k->block_x = narrow(cf_u32(in, KERNEL_BLOCK_X));
    k->block_y = narrow(cf_u32(in, KERNEL_BLOCK_Y));
    k->block_z = narrow(cf_u32(in, KERNEL_BLOCK_Z));
    k->device = narrow(cf_u32(in, KERNEL_DEVICE));
    k->graph = cf_u32(in, KERNEL_GRAPH);
    k->graph_node = cf_u32(in, KERNEL_GRAPH_NODE);
}

static void copy(struct reader *r, const uint8_t *in, bool peer)
{
    struct argus_record *out;
    struct argus_rec_copy *c;
    int64_t start, end;

    r->counts->seen++;
    if (!times(r, in, MEMCPY_START, MEMCPY_END, &start, &end))
        return;
    out = next(r, ARGUS_REC_MEMCPY, start, end);
    gpu_record(r, cf_u32(in, MEMCPY_DEVICE), start, end);
    c = &out->u.copy;
    c->bytes = cf_u64(in, MEMCPY_BYTES);
    c->stream = cf_u32(in, MEMCPY_STREAM);
    c->graph = cf_u32(in, peer ? PEER_GRAPH : MEMCPY_GRAPH);
    c->kind = cf_u8(in, MEMCPY_COPY_KIND);
    c->src_kind = cf_u8(in, MEMCPY_SRC_KIND);
    c->dst_kind = cf_u8(in, MEMCPY_DST_KIND);
    c->pad = 0;
    c->device = narrow(cf_u32(in, MEMCPY_DEVICE));
    c->peer_device = c->device;
    if (peer)
        c->peer_device = narrow(cf_u32(
            in, cf_u32(in, PEER_SRC_DEVICE) == c->device ? PEER_DST_DEVICE : PEER_SRC_DEVICE));
    c->pad2[0] = c->pad2[1] = 0;
}

static void memset_record(struct reader *r, const uint8_t *in)
{
    struct argus_record *out;
    struct argus_rec_copy *c;
    int64_t start, end;

    r->counts->seen++;
    if (!times(r, in, MEMSET_START, MEMSET_END, &start, &end))
        return;
    out = next(r, ARGUS_REC_MEMSET, start, end);
    gpu_record(r, cf_u32(in, MEMSET_DEVICE), start, end);
    c = &out->u.copy;
    memset(c, 0, sizeof(*c));
    c->bytes = cf_u64(in, MEMSET_BYTES);
    c->stream = cf_u32(in, MEMSET_STREAM);
    c->graph = cf_u32(in, MEMSET_GRAPH);
    c->dst_kind = (uint8_t)cf_u16(in, MEMSET_MEMORY_KIND);
    c->device = narrow(cf_u32(in, MEMSET_DEVICE));
    c->peer_device = c->device;
}

static void graph(struct reader *r, const uint8_t *in)
{
    struct argus_record *out;
    int64_t start, end;

    r->counts->seen++;
    if (!times(r, in, GRAPH_START, GRAPH_END, &start, &end))
        return;
    out = next(r, ARGUS_REC_GRAPH, start, end);
    gpu_record(r, cf_u32(in, GRAPH_DEVICE), start, end);
    memset(&out->u, 0, sizeof(out->u));
    out->u.kernel.stream = cf_u32(in, GRAPH_STREAM);
    out->u.kernel.graph = cf_u32(in, GRAPH_ID);
    out->u.kernel.device = narrow(cf_u32(in, GRAPH_DEVICE));
}

/* CUPTI names threads by pthread_self(); asking it for thread ids instead
 * would change what other clients read, so the thread stays ours. */
static void host(struct reader *r, enum argus_record_type type, uint32_t code, uint32_t stream,
                 int64_t start, int64_t end)
{
    struct argus_record *out = next(r, type, start, end);

    memset(&out->u, 0, sizeof(out->u));
    out->u.host.code = code;
    out->u.host.stream = stream;
}

static void overhead(struct reader *r, const uint8_t *in)
{
    uint32_t kind = cf_u32(in, OVERHEAD_KIND);
    int64_t start, end;

    /* Ours to free from 13.0 on; the field does not exist before. */
    if (kind == CO_COMMAND_BUFFER_FULL && argus_cupti_version >= CV_13_0_GA)
        free(cf_pointer(in, OVERHEAD_DATA));
    /* "0 and 0" is CUPTI's way to say that it did not measure. */
    if (cf_u64(in, OVERHEAD_START) == 0 && cf_u64(in, OVERHEAD_END) == 0)
        return;
    if (times(r, in, OVERHEAD_START, OVERHEAD_END, &start, &end))
        host(r, ARGUS_REC_OVERHEAD, kind == 1 ? 4 : kind >> 16, 0, start, end);
}

static void api(struct reader *r, const uint8_t *in, int kind)
{
    uint32_t cbid = cf_u32(in, API_CBID), code = 0;
    int64_t start, end;

    if (kind == CK_RUNTIME && cbid == CB_RUNTIME_cudaMalloc)
        code = ARGUS_API_MALLOC;
    else if (kind == CK_RUNTIME && cbid == CB_RUNTIME_cudaFree)
        code = ARGUS_API_FREE;
    else if (kind == CK_DRIVER && cbid == CB_DRIVER_cuMemCreate)
        code = ARGUS_API_MALLOC;
    else if (kind == CK_DRIVER && cbid == CB_DRIVER_cuMemRelease)
        code = ARGUS_API_FREE;
    if (code && times(r, in, API_START, API_END, &start, &end))
        host(r, ARGUS_REC_API, code, 0, start, end);
}

static void synchronization(struct reader *r, const uint8_t *in)
{
    int64_t start, end;

    if (times(r, in, SYNC_START, SYNC_END, &start, &end))
        host(r, ARGUS_REC_SYNC, cf_u32(in, SYNC_TYPE), cf_u32(in, SYNC_STREAM), start, end);
}

static void one(struct reader *r, const uint8_t *record)
{
    uint32_t kind = cf_u32(record, 0);

    switch (kind) {
    case CK_CONCURRENT_KERNEL:
    case CK_KERNEL:
        kernel(r, record);
        break;
    case CK_MEMCPY:
        copy(r, record, false);
        break;
    case CK_MEMCPY2:
        copy(r, record, true);
        break;
    case CK_MEMSET:
        memset_record(r, record);
        break;
    case CK_GRAPH_TRACE:
        graph(r, record);
        break;
    case CK_OVERHEAD:
        overhead(r, record);
        break;
    case CK_RUNTIME:
    case CK_DRIVER:
        api(r, record, (int)kind);
        break;
    case CK_SYNCHRONIZATION:
        synchronization(r, record);
        break;
    default: /* another client's kind: none of ours */
        break;
    }
}

void argus_cupti_parse(uint8_t *buffer, size_t valid, int64_t now, bool final,
                       struct cupti_counts *counts)
{
    struct reader r;
    uint8_t *record = NULL;
    uint64_t invalid = counts->invalid;

    r.now = now;
    r.final = final;
    r.tid = argus_tid();
    r.counts = counts;
    r.used = 0;
    while (argus_cupti_calls.next_record(buffer, valid, &record) == CU_OK && record)
        one(&r, record);
    flush_batch(&r);
    if (counts->invalid != invalid)
        argus_ring_invalid(ARGUS_SOURCE_CUPTI, counts->invalid - invalid);
}
