/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUPTI source: activity API without a subscriber.
 *
 * The subscriber slot is left to whoever wants it (torch.profiler gives up
 * on the GPU for the life of the process when it finds it taken).  But the
 * activity state is global to the process: another client's callbacks replace
 * ours, its Disable turns our kinds off, its cuptiFinalize wipes all.  So:
 *
 *   ACTIVE    our callbacks, our kinds
 *   YIELDED   another client has the callbacks: we call nothing of CUPTI that
 *             could disturb it, and look now and then whether it has finished
 *   STOPPED   for good: refused, its timestamps are useless, or other clients
 *             have kept all the buffers there may be
 *
 * Whether kernels are being traced by anyone can be asked without a
 * subscriber: KERNEL and CONCURRENT_KERNEL exclude each other, so enabling
 * KERNEL is refused exactly while CONCURRENT_KERNEL is on.
 */
#include "collector/inject/cupti.h"

#define SECOND 1000000000LL
#define FLUSH_EVERY (1 * SECOND)
#define SILENT_AFTER (30 * SECOND)
#define SILENT_ACTIVITY 200
#define RATIO_LEAST 1000
#define POOL_LIMIT 48 /* device buffers of 3.2 MB each */

struct cupti_pace argus_cupti_pace = {
    .quiet_after = 5 * SECOND,
    .poll_every = 5 * SECOND,
    .blind_wait = 60 * SECOND,
    .ratio_window = 5 * SECOND,
};
struct cupti_calls argus_cupti_calls;
uint32_t argus_cupti_version;

enum state { OFF = 0, ACTIVE, YIELDED, STOPPED };
enum remedy { REMEDY_NONE = 0, REMEDY_FLUSH, REMEDY_REENABLE, REMEDY_COARSE, REMEDY_STOP };

static const int kinds[] = {CK_CONCURRENT_KERNEL, CK_MEMCPY, CK_MEMSET, CK_MEMCPY2, CK_OVERHEAD};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct {
    int state;    /* atomic */
    int in_flush; /* atomic: the worker is inside CUPTI */
    bool enabled[KINDS];
    bool graphs_coarse;
    bool can_ask;           /* the KERNEL question works here */
    enum argus_reason lost; /* stopped after it had begun: from gap_from on there is nothing */
    struct cupti_counts counts;
    /* On the monotonic clock; the first four 0: not yet. */
    int64_t last_flush, last_record, last_poll, yielded_at, started;
    /* On the records' clock. */
    int64_t record_seen, gap_from;
    int64_t known_until; /* atomic */
    uint64_t activity_at_record, activity_at_poll;
    int64_t window_start;
    uint64_t window_seen, window_invalid;
    enum remedy remedy;
} cu;

static bool disable_is_safe(void)
{
    return argus_cupti_version != CV_13_0_GA;
}

/* Per function, without the API kinds themselves: enabling those would trace
 * every call of the process. */
static void trace_apis(uint8_t on)
{
    if (argus_cupti_version < CV_12_5 || !argus_cupti_calls.enable_runtime_api ||
        !argus_cupti_calls.enable_driver_api)
        return;
    argus_cupti_calls.enable_runtime_api(CB_RUNTIME_cudaMalloc, on);
    argus_cupti_calls.enable_runtime_api(CB_RUNTIME_cudaFree, on);
    argus_cupti_calls.enable_driver_api(CB_DRIVER_cuMemCreate, on);
    argus_cupti_calls.enable_driver_api(CB_DRIVER_cuMemRelease, on);
}

static void disable_kinds(void)
{
    if (!disable_is_safe())
        return;
    for (size_t i = 0; i < KINDS; i++) {
        if (cu.enabled[i])
            argus_cupti_calls.disable(kinds[i]);
    }
    if (cu.graphs_coarse)
        argus_cupti_calls.disable(CK_GRAPH_TRACE);
    trace_apis(0);
}

void argus_cupti_give_up(void)
{
    disable_kinds();
    __atomic_store_n(&cu.state, STOPPED, __ATOMIC_RELEASE);
}

static void *give_up(void *unused)
{
    (void)unused;
    argus_cupti_give_up();
    return NULL;
}

static void requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    static int tried;

    /* The first record of the process is on its way. */
    if (unlikely(!argus_ring_is_open()) && !argus_dead() &&
        !__atomic_exchange_n(&tried, 1, __ATOMIC_ACQ_REL) && argus_ring_open())
        argus_thread_start(give_up, NULL);
    argus_pool_requested(buffer, size, max_records);
}

static int enable_kinds(void)
{
    int rc;

    for (size_t i = 0; i < KINDS; i++) {
        rc = argus_cupti_calls.enable(kinds[i]);
        cu.enabled[i] = rc == CU_OK;
        if (rc != CU_OK && i == 0)
            return rc;
    }
    if (cu.graphs_coarse)
        argus_cupti_calls.enable(CK_GRAPH_TRACE);
    trace_apis(1);
    return CU_OK;
}

static void set_attributes(void)
{
    size_t limit = POOL_LIMIT, size = sizeof(limit);
    uint8_t yes = 1;

    argus_cupti_calls.set_attribute(CA_DEVICE_BUFFER_POOL_LIMIT, &size, &limit);
    size = sizeof(yes);
    argus_cupti_calls.set_attribute(CA_ZEROED_OUT, &size, &yes);
}

/* True when nobody traces kernels now.  Asked only where it is known to work. */
static bool nobody_traces(void)
{
    if (argus_cupti_calls.enable(CK_KERNEL) != CU_OK)
        return false;
    argus_cupti_calls.disable(CK_KERNEL);
    return true;
}

static int arm(void)
{
    int rc;

    set_attributes();
    rc = argus_cupti_calls.register_callbacks(requested, argus_pool_completed);
    if (rc == CU_OK)
        rc = enable_kinds();
    return rc;
}

static void refuse(enum argus_reason reason, int code)
{
    __atomic_store_n(&cu.state, STOPPED, __ATOMIC_RELEASE);
    argus_ring_standdown(ARGUS_SOURCE_CUPTI, reason, code);
    argus_standdown_note(ARGUS_SOURCE_CUPTI, reason, code);
    argus_debug("cupti: reason %d, code %d: no GPU records", (int)reason, code);
}

void argus_cupti_start(void)
{
    enum argus_reason reason;
    int rc;

    if (argus_cupti_load(&argus_cupti_calls, &reason)) {
        refuse(reason, 0);
        return;
    }
    if (argus_cupti_calls.get_version(&argus_cupti_version) != CU_OK ||
        argus_cupti_version < CV_11_2) {
        refuse(ARGUS_REASON_BAD_VERSION, (int)argus_cupti_version);
        return;
    }
    if (argus_pool_init(argus_cupti_version < CV_12_9)) {
        refuse(ARGUS_REASON_REFUSED, CU_MAX_LIMIT_REACHED);
        return;
    }
    cu.counts.device = -1;
    rc = arm();
    if (rc != CU_OK) {
        refuse(rc == CU_MULTIPLE_SUBSCRIBERS ? ARGUS_REASON_OTHER_CLIENT : ARGUS_REASON_REFUSED,
               rc);
        return;
    }
    if (disable_is_safe()) {
        cu.can_ask = !nobody_traces();
        argus_debug("cupti: kinds %s be asked for", cu.can_ask ? "can" : "cannot");
        if (!cu.can_ask)
            argus_cupti_calls.enable(CK_CONCURRENT_KERNEL);
    } else {
        /* Known to dead-lock in Disable: traced, but never switched off. */
        argus_ring_standdown(ARGUS_SOURCE_CUPTI, ARGUS_REASON_BAD_VERSION,
                             (int)argus_cupti_version);
    }
    cu.started = argus_now(CLOCK_MONOTONIC);
    __atomic_store_n(&cu.state, ACTIVE, __ATOMIC_RELEASE);
}

static void gap(int64_t from, int64_t to, enum argus_reason reason)
{
    struct argus_record *r;

    if (to <= from || !(r = argus_ring_claim(ARGUS_SOURCE_CUPTI, ARGUS_REC_GAP, 0, argus_tid())))
        return;
    r->start = from;
    r->end = to;
    memset(&r->u, 0, sizeof(r->u));
    r->u.gap.source = ARGUS_SOURCE_CUPTI;
    r->u.gap.reason = reason;
    argus_ring_commit(r, ARGUS_SOURCE_CUPTI);
}

static void flush_mark(int64_t when)
{
    struct argus_record *r = argus_ring_claim(ARGUS_SOURCE_CUPTI, ARGUS_REC_FLUSH, 0, argus_tid());

    if (!r)
        return;
    r->start = r->end = when;
    memset(&r->u, 0, sizeof(r->u));
    argus_ring_commit(r, ARGUS_SOURCE_CUPTI);
}

static void drain(struct argus_moment now, bool final)
{
    uint64_t seen = cu.counts.seen;
    uint8_t *buffer;
    size_t valid;
    int i;

    while ((i = argus_pool_next(&buffer, &valid)) >= 0) {
        argus_cupti_parse(buffer, valid, now.real, final, &cu.counts);
        argus_pool_recycle(i, valid);
    }
    if (cu.counts.seen != seen) {
        cu.last_record = now.mono;
        cu.record_seen = now.real;
        cu.activity_at_record = __atomic_load_n(&argus_activity, __ATOMIC_RELAXED);
    }
}

static void flush(struct argus_moment now, uint32_t flags)
{
    size_t dropped = 0;

    __atomic_store_n(&cu.in_flush, 1, __ATOMIC_RELEASE);
    argus_cupti_calls.flush_all(flags);
    if (argus_cupti_calls.dropped && argus_cupti_calls.dropped(NULL, 0, &dropped) == CU_OK &&
        dropped)
        argus_ring_drop(ARGUS_SOURCE_CUPTI, dropped);
    __atomic_store_n(&cu.in_flush, 0, __ATOMIC_RELEASE);
    drain(now, flags & CF_FLUSH_FORCED);
    flush_mark(now.real);
    cu.last_flush = now.mono;
    if (cu.counts.seen)
        __atomic_store_n(&cu.known_until, now.real, __ATOMIC_RELAXED);
}

static void stop(enum argus_reason reason, int code)
{
    argus_ring_standdown(ARGUS_SOURCE_CUPTI, reason, code);
    cu.lost = reason;
    __atomic_store_n(&cu.state, STOPPED, __ATOMIC_RELEASE);
}

/* Bad timestamps come in floods once device buffers go wrong.  One remedy a
 * window, each stronger than the one before. */
static void watch_validity(struct argus_moment now)
{
    uint64_t seen = cu.counts.seen - cu.window_seen;
    uint64_t invalid = cu.counts.invalid - cu.window_invalid;

    if (now.mono - cu.window_start < argus_cupti_pace.ratio_window)
        return;
    cu.window_start = now.mono;
    cu.window_seen = cu.counts.seen;
    cu.window_invalid = cu.counts.invalid;
    if (seen < RATIO_LEAST || invalid * 100 <= seen)
        return;
    cu.remedy++;
    if (!disable_is_safe() && (cu.remedy == REMEDY_REENABLE || cu.remedy == REMEDY_COARSE))
        cu.remedy = REMEDY_STOP;
    argus_debug("cupti: %llu of %llu timestamps are unusable, remedy %d",
                (unsigned long long)invalid, (unsigned long long)seen, (int)cu.remedy);
    switch (cu.remedy) {
    case REMEDY_FLUSH:
        flush(now, 0);
        break;
    case REMEDY_COARSE:
        cu.graphs_coarse = true;
        /* fall through */
    case REMEDY_REENABLE:
        disable_kinds();
        flush(now, 0);
        enable_kinds();
        break;
    default:
        disable_kinds();
        cu.gap_from = cu.counts.newest_end;
        stop(ARGUS_REASON_INVALID_TIMES, 0);
        break;
    }
}

static void lost_gap(struct argus_moment now)
{
    cu.last_poll = now.mono;
    gap(cu.gap_from, now.real, cu.lost);
    cu.gap_from = now.real;
}

static void rearm(struct argus_moment now)
{
    int rc;

    if (!argus_pool_renew()) {
        argus_debug("cupti: other clients have all the buffers");
        stop(ARGUS_REASON_OTHER_CLIENT, CU_MAX_LIMIT_REACHED);
        lost_gap(now);
        return;
    }
    rc = arm();
    if (rc != CU_OK) {
        argus_debug("cupti: refused again, code %d", rc);
        argus_ring_standdown(ARGUS_SOURCE_CUPTI, ARGUS_REASON_OTHER_CLIENT, rc);
        if (cu.state != YIELDED) {
            cu.yielded_at = now.mono;
            __atomic_store_n(&cu.state, YIELDED, __ATOMIC_RELEASE);
        }
        return;
    }
    gap(cu.gap_from, now.real, ARGUS_REASON_OTHER_CLIENT);
    cu.last_record = now.mono;
    cu.record_seen = now.real;
    cu.gap_from = now.real;
    cu.activity_at_record = __atomic_load_n(&argus_activity, __ATOMIC_RELAXED);
    argus_ring_standdown(ARGUS_SOURCE_CUPTI, ARGUS_REASON_NONE, 0);
    __atomic_store_n(&cu.state, ACTIVE, __ATOMIC_RELEASE);
    argus_debug("cupti: armed again");
}

/* Quiet for a while.  Idle GPU, kinds switched off by somebody, or somebody
 * else's callbacks? */
static void watch_quiet(struct argus_moment now)
{
    uint64_t activity = __atomic_load_n(&argus_activity, __ATOMIC_RELAXED);

    if (!cu.last_record) {
        if (now.mono - cu.started > SILENT_AFTER && activity > SILENT_ACTIVITY &&
            argus_ring_standdown_of(ARGUS_SOURCE_CUPTI) == ARGUS_REASON_NONE)
            argus_ring_standdown(ARGUS_SOURCE_CUPTI, ARGUS_REASON_SILENT, 0);
        return;
    }
    if (now.mono - cu.last_record < argus_cupti_pace.quiet_after ||
        now.mono - cu.last_poll < argus_cupti_pace.poll_every)
        return;
    cu.last_poll = now.mono;
    cu.gap_from = cu.record_seen;
    if (cu.can_ask && nobody_traces()) {
        rearm(now);
    } else if (activity - cu.activity_at_record > SILENT_ACTIVITY / 10) {
        /* Collectives go on, kernels are traced, and none reaches us. */
        argus_debug("cupti: another client has the callbacks");
        argus_ring_standdown(ARGUS_SOURCE_CUPTI, ARGUS_REASON_OTHER_CLIENT, 0);
        gap(cu.gap_from, now.real, ARGUS_REASON_OTHER_CLIENT);
        cu.gap_from = now.real;
        cu.yielded_at = now.mono;
        __atomic_store_n(&cu.state, YIELDED, __ATOMIC_RELEASE);
    }
}

static void yielded_turn(struct argus_moment now)
{
    if (now.mono - cu.last_poll < argus_cupti_pace.poll_every)
        return;
    cu.last_poll = now.mono;
    if (cu.can_ask ? nobody_traces() : now.mono - cu.yielded_at > argus_cupti_pace.blind_wait) {
        rearm(now);
        return;
    }
    gap(cu.gap_from, now.real, ARGUS_REASON_OTHER_CLIENT);
    cu.gap_from = now.real;
}

/* What the header says of this source. */
static void describe(void)
{
    if (argus_ring.header->cupti_version == 0)
        argus_ring.header->cupti_version = argus_cupti_version;
    if (cu.counts.device >= 0 && argus_ring.header->device < 0)
        argus_device_identify(cu.counts.device);
}

void argus_cupti_turn(struct argus_moment now)
{
    switch (__atomic_load_n(&cu.state, __ATOMIC_ACQUIRE)) {
    case ACTIVE:
        drain(now, false);
        argus_pool_top_up();
        /* Never before a buffer was asked for: in a process that does not
         * use the GPU this call can wait for ever. */
        if (argus_pool_ever_requested() && now.mono - cu.last_flush >= FLUSH_EVERY)
            flush(now, 0);
        watch_validity(now);
        if (cu.state == ACTIVE)
            watch_quiet(now);
        break;
    case YIELDED:
        drain(now, false);
        yielded_turn(now);
        break;
    case STOPPED:
        drain(now, false);
        if (cu.lost && now.mono - cu.last_poll >= argus_cupti_pace.poll_every)
            lost_gap(now);
        break;
    default:
        break;
    }
    describe();
}

void argus_cupti_finish(void)
{
    struct argus_moment now = argus_moment_now();

    switch (__atomic_load_n(&cu.state, __ATOMIC_ACQUIRE)) {
    case ACTIVE:
        if (argus_pool_ever_requested()) {
            __atomic_store_n(&cu.in_flush, 1, __ATOMIC_RELEASE);
            disable_kinds();
            flush(now, CF_FLUSH_FORCED);
        }
        break;
    case YIELDED:
        gap(cu.gap_from, now.real, ARGUS_REASON_OTHER_CLIENT);
        drain(now, true);
        break;
    case STOPPED:
        drain(now, true);
        if (cu.lost)
            lost_gap(now);
        break;
    default:
        break;
    }
    describe();
}

void argus_cupti_abandon(void)
{
    /* Only while the worker hangs inside CUPTI does nobody parse. */
    if (__atomic_load_n(&cu.in_flush, __ATOMIC_ACQUIRE))
        drain(argus_moment_now(), true);
}

int64_t argus_cupti_timestamp(void)
{
    uint64_t t;

    if (!argus_cupti_calls.get_timestamp || argus_cupti_calls.get_timestamp(&t) != CU_OK)
        return 0;
    return (int64_t)t;
}

int64_t argus_cupti_known_until(void)
{
    return __atomic_load_n(&cu.known_until, __ATOMIC_RELAXED);
}

/* ---- streams ---- */

#define STREAMS 1024
#define STREAM_FRESH 10 /* seconds: a handle may be reused for another stream */

static struct {
    uintptr_t key;  /* atomic; stream + 1, 0: free */
    uint64_t value; /* atomic; second of the lookup above, id below */
} streams[STREAMS];

uint32_t argus_cupti_stream(void *stream, int64_t now)
{
    uintptr_t key = (uintptr_t)stream + 1, seen;
    uint32_t second = (uint32_t)(now / SECOND), id = 0;
    uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15ULL) >> 50) & (STREAMS - 1);
    uint64_t value;

    if (!argus_cupti_calls.stream_id || __atomic_load_n(&cu.state, __ATOMIC_RELAXED) == OFF)
        return 0;
    for (unsigned probe = 0; probe < 16; probe++, i = (i + 1) & (STREAMS - 1)) {
        seen = __atomic_load_n(&streams[i].key, __ATOMIC_ACQUIRE);
        if (!seen && __atomic_compare_exchange_n(&streams[i].key, &seen, key, false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            seen = key;
        if (seen != key)
            continue;
        value = __atomic_load_n(&streams[i].value, __ATOMIC_RELAXED);
        if (likely((uint32_t)value && second - (uint32_t)(value >> 32) < STREAM_FRESH))
            return (uint32_t)value;
        if (argus_cupti_calls.stream_id(NULL, stream, 0, &id) != CU_OK)
            id = 0;
        __atomic_store_n(&streams[i].value, (uint64_t)second << 32 | id, __ATOMIC_RELAXED);
        return id;
    }
    return argus_cupti_calls.stream_id(NULL, stream, 0, &id) == CU_OK ? id : 0;
}
