/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks did, as timelines, through the same summary that the recorder uses. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary.h"
#include "analyzer/detect/testjob/jobsim_impl.h"

#define EPOCH 1700000000000000000LL

struct sink {
    struct job *j;
    const struct job_rank *r;
    argus_timeline_writer_t *w;
    argus_summary_t *s;
    uint32_t *comms; /* by group: row or ARGUS_NONE */
    uint32_t *seq;   /* by group */
    int64_t step_start;
    int steps;
};

static uint32_t text(struct sink *k, const char *s)
{
    return argus_timeline_add_string(k->w, s, strlen(s));
}

static int position(const struct job_group *g, int rank)
{
    for (int i = 0; i < g->size; i++)
        if (g->members[i] == rank)
            return i;
    return -1;
}

static const char *comm_name(int func)
{
    switch (func) {
    case ARGUS_FUNC_ALLREDUCE:
        return "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
    case ARGUS_FUNC_ALLTOALL:
    case ARGUS_FUNC_SEND:
    case ARGUS_FUNC_RECV:
        return "ncclDevKernel_SendRecv";
    default:
        return "ncclDevKernel_Generic";
    }
}

static uint32_t comm_row(struct sink *k, int group)
{
    const struct job_group *g = &k->j->groups[group];
    struct argus_comm_row row = {.hash = g->hash,
                                 .name = k->j->s.names ? text(k, g->name) : ARGUS_NONE,
                                 .size = (uint32_t)g->size,
                                 .rank = (uint32_t)position(g, k->r->rank),
                                 .nodes = g->inter ? 2 : 1,
                                 .members = ARGUS_NONE};

    if (k->comms[group] == ARGUS_NONE)
        k->comms[group] = argus_summary_comm(k->s, &row);
    return k->comms[group];
}

static uint32_t class_of(struct sink *k, const struct emitted *e)
{
    struct argus_class_row row = {.kind = (uint8_t)e->kind,
                                  .func = (uint8_t)e->func,
                                  .stream = (uint32_t)(7 + e->stream),
                                  .comm = ARGUS_NONE,
                                  .peer = -1,
                                  .bytes = e->bytes};

    switch (e->kind) {
    case ARGUS_CLASS_COMPUTE:
        row.name = text(k, job_kernels[e->type].name);
        row.family = (uint8_t)argus_kernel_family(job_kernels[e->type].name);
        row.grid[0] = e->grid;
        row.block[0] = job_kernels[e->type].block;
        row.grid[1] = row.grid[2] = row.block[1] = row.block[2] = 1;
        row.func = 0;
        break;
    case ARGUS_CLASS_COMM:
        row.name = text(k, comm_name(e->func));
        row.comm = comm_row(k, e->group);
        row.dtype = ARGUS_DTYPE_BF16;
        if (e->peer >= 0)
            row.peer = position(&k->j->groups[e->group], e->peer);
        if (e->peer >= 0 && k->j->s.fused) {
            row.peer = -1;
            row.func = ARGUS_FUNC_SENDRECV;
        }
        break;
    case ARGUS_CLASS_COPY:
        row.name = text(k, "Memcpy HtoD");
        row.func = 1; /* host to device */
        break;
    default:
        row.name = text(k, e->kind == ARGUS_CLASS_OVERHEAD ? "compile" : "cudaMalloc");
    }
    return argus_summary_class(k->s, &row);
}

static int by_start(const void *a, const void *b)
{
    const struct emitted *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->stream - y->stream;
}

/* One value at `time`. */
static int health_row(struct sink *k, const struct job_health *h, int64_t time, double value,
                      argus_error_t *err)
{
    struct argus_health_row row = {.time = time, .value = value};
    char uuid[64];

    snprintf(uuid, sizeof(uuid), "GPU-sim-%d", k->r->rank);
    row.metric = text(k, h->metric);
    row.device = text(k, h->device ? h->device : uuid);
    return argus_timeline_append(k->w, ARGUS_DS_HEALTH, &row, 1, err);
}

/* At the beginning of a step, or later. */
static int health(struct sink *k, int step, int64_t time, argus_error_t *err)
{
    for (size_t i = 0; i < k->j->s.n_health; i++) {
        const struct job_health *h = &k->j->s.health[i];

        if (h->device && k->r->local)
            continue;
        if (step == 0 && health_row(k, h, time - 1000000000, h->usual, err))
            return -1;
        if (step == h->from && h->rank == k->r->rank &&
            health_row(k, h, time + (int64_t)(h->late * 1e9), h->value, err))
            return -1;
    }
    return 0;
}

/* A step's mark ends where the next one begins. */
static int step_mark(struct sink *k, const int64_t *clock, int64_t now, argus_error_t *err)
{
    char name[32];
    struct argus_mark_row row = {.start = *clock + k->step_start,
                                 .end = *clock + now,
                                 .domain = ARGUS_NONE,
                                 .kind = ARGUS_MARK_STEP};
    int n = k->steps++;

    if (health(k, n, *clock + now, err))
        return -1;
    k->step_start = now;
    if (!n || !k->j->s.marks)
        return 0;
    snprintf(name, sizeof(name), "ProfilerStep#%d", n - 1);
    row.name = text(k, name);
    return argus_summary_mark(k->s, &row, err);
}

static int feed(struct sink *k, struct job_rank *r, argus_error_t *err)
{
    int64_t clock = EPOCH;
    uint64_t rng = k->j->s.seed + 977u * (uint64_t)r->node;

    if (k->j->s.clock_ms > 0)
        clock += (int64_t)((2 * job_uniform(&rng) - 1) * k->j->s.clock_ms * 1e6);
    qsort(r->events, r->n_events, sizeof(*r->events), by_start);
    for (size_t i = 0; i < r->n_events; i++) {
        const struct emitted *e = &r->events[i];
        struct argus_event_row row;

        if (e->kind < 0) {
            if (step_mark(k, &clock, e->start, err))
                return -1;
            continue;
        }
        row = (struct argus_event_row){.start = clock + e->start,
                                       .duration = e->duration > 0 ? e->duration : 1,
                                       .class_id = class_of(k, e),
                                       .stream = (uint32_t)(7 + e->stream),
                                       .seq = ARGUS_NONE};

        if (e->kind == ARGUS_CLASS_COMM)
            row.seq = k->seq[e->group]++;
        if (argus_summary_event(k->s, &row, err))
            return -1;
    }
    return argus_summary_finish(k->s, err);
}

static int write_rank(struct job *j, struct job_rank *r, const char *dir, argus_error_t *err)
{
    struct argus_timeline_info info = {.rank = r->rank,
                                       .world = j->s.world,
                                       .local_rank = r->local,
                                       .pid = 1000 + r->rank,
                                       .simulated = 1,
                                       .window = j->s.window,
                                       .source = "testjob",
                                       .mode = "summary",
                                       .job = "1",
                                       .step = "0"};
    struct argus_timeline_counters counters = {.records = r->n_events};
    struct argus_summary_options options;
    struct sink k = {.j = j, .r = r};
    char path[4096];
    int rc = -1;

    snprintf(info.node, sizeof(info.node), "n%02d", r->node);
    snprintf(info.gpu_uuid, sizeof(info.gpu_uuid), "GPU-sim-%d", r->rank);
    snprintf(info.gpu_name, sizeof(info.gpu_name), "simulated");
    snprintf(path, sizeof(path), "%s/" ARGUS_TIMELINE_NAME, dir, r->rank);
    k.comms = malloc(((size_t)j->n_groups + 1) * sizeof(uint32_t));
    k.seq = calloc((size_t)j->n_groups + 1, sizeof(uint32_t));
    if (!k.comms || !k.seq) {
        argus_error(err, "job: no memory");
        goto out;
    }
    for (int g = 0; g < j->n_groups; g++)
        k.comms[g] = ARGUS_NONE;
    argus_summary_defaults(&options);
    options.window = j->s.window;
    if (!(k.w = argus_timeline_create(path, &info, 1, err)) ||
        !(k.s = argus_summary_create(&options, k.w, err)) || feed(&k, r, err))
        goto out;
    argus_timeline_set_counters(k.w, &counters);
    rc = argus_timeline_seal(k.w, "exit", err);
    k.w = NULL;
out:
    argus_summary_destroy(k.s);
    argus_timeline_abandon(k.w);
    free(k.comms);
    free(k.seq);
    return rc;
}

int job_write(struct job *j, const char *dir, argus_error_t *err)
{
    for (int r = 0; r < j->s.world; r++)
        if (r != j->s.skip_rank && write_rank(j, &j->ranks[r], dir, err))
            return -1;
    return 0;
}
