/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/summary/breakdown.h"

#include <stdlib.h>
#include <string.h>

/* Sub-kinds of CUPTI OVERHEAD that are the framework's doing: module and function loading, JIT. */
#define OVERHEAD_MODULE_LOADING 4
#define OVERHEAD_LAZY_LOADING 5

enum phase { PHASE_UNKNOWN = 0, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASE_COUNT };

/* Work space above this size is given back after the step. */
#define SCRATCH_KEEP (256u << 10)

static int reserve(struct argus_breakdown *b, size_t n)
{
    for (int lane = 0; lane < ARGUS_LANE_COUNT; lane++)
        b->n[lane] = 0;
    b->failed = 0;
    if (b->lead_capacity < n) {
        int64_t *lead = realloc(b->lead, n * sizeof(*lead));

        if (!lead)
            return -1;
        b->lead = lead;
        b->lead_capacity = n;
    }
    return 0;
}

static struct argus_span *next_span(struct argus_breakdown *b, int lane)
{
    if (b->n[lane] == b->capacity[lane]) {
        size_t capacity = b->capacity[lane] ? b->capacity[lane] + b->capacity[lane] / 2 : 256;
        struct argus_span *p = realloc(b->spans[lane], capacity * sizeof(*p));

        if (!p) {
            b->failed = 1;
            return NULL;
        }
        b->spans[lane] = p;
        b->capacity[lane] = capacity;
    }
    return &b->spans[lane][b->n[lane]++];
}

void argus_breakdown_trim(struct argus_breakdown *b)
{
    for (int lane = 0; lane < ARGUS_LANE_COUNT; lane++) {
        if (b->capacity[lane] * sizeof(struct argus_span) <= SCRATCH_KEEP)
            continue;
        free(b->spans[lane]);
        b->spans[lane] = NULL;
        b->capacity[lane] = 0;
    }
    if (b->lead_capacity * sizeof(*b->lead) > SCRATCH_KEEP) {
        free(b->lead);
        b->lead = NULL;
        b->lead_capacity = 0;
    }
}

/* Add [start, end) to a lane's union; starts come in order.  Returns what it added to it. */
static int64_t extend(struct argus_breakdown *b, int lane, int64_t start, int64_t end)
{
    struct argus_span *last = b->n[lane] ? &b->spans[lane][b->n[lane] - 1] : NULL;
    int64_t added;

    if (end <= start)
        return 0;
    if (!last || start > last->end) {
        last = next_span(b, lane);
        if (last)
            *last = (struct argus_span){start, end};
        return end - start;
    }
    if (end <= last->end)
        return 0;
    added = end - last->end;
    last->end = end;
    return added;
}

static int64_t total(const struct argus_breakdown *b, int lane)
{
    int64_t sum = 0;

    for (size_t i = 0; i < b->n[lane]; i++)
        sum += b->spans[lane][i].end - b->spans[lane][i].start;
    return sum;
}

/* Length of `a` outside of `b` and `c`; all three are disjoint and in order. */
static int64_t outside(const struct argus_span *a, size_t na, const struct argus_span *b, size_t nb,
                       const struct argus_span *c, size_t nc)
{
    int64_t sum = 0;
    size_t ib = 0, ic = 0;

    for (size_t i = 0; i < na; i++) {
        int64_t at = a[i].start;

        while (at < a[i].end) {
            int64_t next = a[i].end;

            while (ib < nb && b[ib].end <= at)
                ib++;
            while (ic < nc && c[ic].end <= at)
                ic++;
            if (ib < nb && b[ib].start <= at) {
                at = b[ib].end;
                continue;
            }
            if (ic < nc && c[ic].start <= at) {
                at = c[ic].end;
                continue;
            }
            if (ib < nb && b[ib].start < next)
                next = b[ib].start;
            if (ic < nc && c[ic].start < next)
                next = c[ic].start;
            sum += next - at;
            at = next;
        }
    }
    return sum;
}

static void count_event(const struct argus_pending *ev, const struct argus_class_brief *c,
                        struct argus_step_row *row)
{
    int64_t duration = ev->end - ev->start;

    switch (c->kind) {
    case ARGUS_CLASS_OVERHEAD:
        if (c->func == OVERHEAD_MODULE_LOADING || c->func == OVERHEAD_LAZY_LOADING)
            row->overhead += duration;
        break;
    case ARGUS_CLASS_ALLOC:
        row->alloc += duration;
        break;
    case ARGUS_CLASS_COPY:
        row->copies++;
        row->copy_bytes += (int64_t)c->bytes;
        break;
    case ARGUS_CLASS_COMM:
        row->comms++;
        break;
    case ARGUS_CLASS_COMPUTE:
    case ARGUS_CLASS_GRAPH:
        row->kernels++;
        break;
    default:
        break;
    }
}

/* An idle interval that ended with the work of `class_id`. */
static void idle_interval(int64_t from, int64_t to, uint32_t class_id, int64_t step_start,
                          struct argus_step_row *row)
{
    if (to - from <= row->gap)
        return;
    row->gap = to - from;
    row->gap_offset = from - step_start;
    row->gap_class = class_id;
}

static enum phase next_phase(enum phase phase, const struct argus_class_brief *c)
{
    if (c->family == ARGUS_FAMILY_OPTIMIZER)
        return PHASE_OPTIMIZER;
    if (c->phase == ARGUS_CLASS_BACKWARD)
        return PHASE_BACKWARD;
    if (c->phase == ARGUS_CLASS_FORWARD)
        return PHASE_FORWARD;
    return phase;
}

/* Kernels whose names tell a phase carry the ones between them along.  What precedes the first
 * told kernel belongs to the forward pass if there is a told backward pass, else to nothing. */
static void assign_phases(const int64_t compute[PHASE_COUNT], int told, struct argus_step_row *row)
{
    row->optimizer = compute[PHASE_OPTIMIZER];
    if (!told)
        return;
    row->forward = compute[PHASE_UNKNOWN] + compute[PHASE_FORWARD];
    row->backward = compute[PHASE_BACKWARD];
}

int argus_breakdown_step(struct argus_breakdown *b, const struct argus_pending *events, size_t n,
                         const struct argus_class_brief *classes, int64_t start, int64_t end,
                         struct argus_step_row *row)
{
    int64_t compute[PHASE_COUNT] = {0};
    int64_t all_end = start, exposed_or_compute;
    enum phase phase = PHASE_UNKNOWN;
    int told = 0, first = 1;

    if (reserve(b, n) < 0)
        return -1;
    row->start = start;
    row->end = end;
    row->gap_class = ARGUS_NONE;
    for (int lane = 0; lane < ARGUS_LANE_COUNT; lane++) {
        int64_t until = b->busy_until[lane] < end ? b->busy_until[lane] : end;

        extend(b, lane, start, until);
        if (until > all_end)
            all_end = until;
    }
    first = all_end == start;
    for (size_t i = 0; i < n; i++) {
        const struct argus_pending *ev = &events[i];
        const struct argus_class_brief *c = &classes[ev->class_id];
        int64_t ev_end = ev->end < end ? ev->end : end, added;

        b->lead[i] = 0;
        count_event(ev, c, row);
        if (c->lane >= ARGUS_LANE_COUNT)
            continue;
        if (ev->start > all_end) {
            idle_interval(all_end, ev->start, ev->class_id, start, row);
            if (first)
                row->head_idle = ev->start - all_end;
            if (c->lane == ARGUS_LANE_COMM) {
                b->lead[i] = ev->start - all_end;
                row->lead_idle += b->lead[i];
            }
        }
        first = 0;
        if (ev_end > all_end)
            all_end = ev_end;
        if (ev->end > b->busy_until[c->lane])
            b->busy_until[c->lane] = ev->end;
        added = extend(b, c->lane, ev->start, ev_end);
        if (c->lane == ARGUS_LANE_COMPUTE) {
            phase = next_phase(phase, c);
            told |= phase == PHASE_BACKWARD || phase == PHASE_FORWARD;
            compute[phase] += added;
        }
    }
    if (b->failed)
        return -1;
    if (end > all_end)
        idle_interval(all_end, end, ARGUS_NONE, start, row);
    if (first)
        row->head_idle = end - start;
    assign_phases(compute, told, row);
    row->compute = total(b, ARGUS_LANE_COMPUTE);
    row->comm = total(b, ARGUS_LANE_COMM);
    row->copy_busy = total(b, ARGUS_LANE_COPY);
    row->exposed = outside(b->spans[ARGUS_LANE_COMM], b->n[ARGUS_LANE_COMM],
                           b->spans[ARGUS_LANE_COMPUTE], b->n[ARGUS_LANE_COMPUTE], NULL, 0);
    row->copy =
        outside(b->spans[ARGUS_LANE_COPY], b->n[ARGUS_LANE_COPY], b->spans[ARGUS_LANE_COMPUTE],
                b->n[ARGUS_LANE_COMPUTE], b->spans[ARGUS_LANE_COMM], b->n[ARGUS_LANE_COMM]);
    exposed_or_compute = row->compute + row->exposed;
    row->idle = end - start - exposed_or_compute - row->copy;
    return 0;
}

void argus_breakdown_free(struct argus_breakdown *b)
{
    for (int lane = 0; lane < ARGUS_LANE_COUNT; lane++)
        free(b->spans[lane]);
    free(b->lead);
    memset(b, 0, sizeof(*b));
}
