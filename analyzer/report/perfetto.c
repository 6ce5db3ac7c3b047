/* SPDX-License-Identifier: Apache-2.0 */
/* Kept windows as one trace for Perfetto. */
#include <config.h>
#include <argus/record.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/model.h"
#include "analyzer/report/perfetto.h"

#define ROWS_AT_ONCE 4096
#define WAIT_SHOWN_NS 20000 /* a shorter wait is clock residual */

static int rank_wanted(const struct argus_export_options *o, int rank)
{
    for (size_t i = 0; i < o->n_ranks; i++) {
        if (o->ranks[i] == rank)
            return 1;
    }
    return !o->ranks;
}

int argus_perfetto_step_wanted(const struct argus_export_options *o, int step)
{
    if (o->first_step < 0 && o->last_step < 0)
        return 1;
    return step >= 0 && step >= o->first_step && (o->last_step < 0 || step <= o->last_step);
}

static void progress(struct perfetto *p)
{
    p->done++;
    if (p->options->progress)
        p->options->progress(p->options->progress_arg, p->done, 2 * p->n_ranks);
}

static int keep_call(struct perfetto *p, const struct argus_call *call)
{
    if (p->n_calls == p->calls_size) {
        size_t more = p->calls_size ? p->calls_size * 2 : 4096;
        struct argus_call *c = realloc(p->calls, more * sizeof(*c));

        if (!c)
            return -1;
        p->calls = c;
        p->calls_size = more;
    }
    p->calls[p->n_calls++] = *call;
    return 0;
}

static int tables_read(struct tables *t, argus_timeline_t *file, argus_error_t *err)
{
    t->classes = argus_timeline_read_all(file, ARGUS_DS_CLASSES, 1u << 22, &t->n_classes, err);
    t->comms = t->classes
                   ? argus_timeline_read_all(file, ARGUS_DS_COMMS, 1u << 20, &t->n_comms, err)
                   : NULL;
    return t->comms ? 0 : -1;
}

static void tables_free(struct tables *t)
{
    free(t->classes);
    free(t->comms);
}

const struct argus_comm_row *argus_perfetto_comm_of(const struct tables *t, uint32_t class_id)
{
    uint32_t comm = class_id < t->n_classes ? t->classes[class_id].comm : ARGUS_NONE;

    return comm < t->n_comms ? &t->comms[comm] : NULL;
}

int argus_perfetto_visit_events(struct perfetto *p, size_t rank, argus_timeline_t *file,
                                const struct tables *t, event_visitor *each, argus_error_t *err)
{
    size_t rows = argus_timeline_rows(file, ARGUS_DS_EVENTS), n;
    struct argus_event_row *buffer = malloc(ROWS_AT_ONCE * sizeof(*buffer));
    int rc = 0;

    if (!buffer)
        return argus_error(err, "%s: out of memory", p->ranks[rank].path);
    for (size_t first = 0; first < rows && rc == 0; first += n) {
        n = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        rc = argus_timeline_read(file, ARGUS_DS_EVENTS, first, n, buffer, err);
        for (size_t i = 0; i < n && rc == 0; i++) {
            if (buffer[i].class_id >= t->n_classes || buffer[i].duration < 0 ||
                !argus_perfetto_step_wanted(p->options, buffer[i].step))
                continue;
            if (each(p, rank, file, t, &buffer[i]) != 0)
                rc = argus_error(err, "%s: out of memory", p->ranks[rank].path);
        }
    }
    free(buffer);
    return rc;
}

static int collect_event(struct perfetto *p, size_t rank, argus_timeline_t *file,
                         const struct tables *t, const struct argus_event_row *ev)
{
    const struct argus_class_row *c = &t->classes[ev->class_id];
    const struct argus_comm_row *comm = argus_perfetto_comm_of(t, ev->class_id);
    struct argus_call call = {.rank = (uint32_t)rank,
                              .seq = ev->seq,
                              .func = c->func,
                              .bytes = c->bytes,
                              .start = ev->start,
                              .end = ev->start + ev->duration};

    (void)file;
    if (ev->start < p->base)
        p->base = ev->start;
    if (c->kind != ARGUS_CLASS_COMM || !comm || !comm->hash || ev->seq == ARGUS_NONE ||
        c->func == ARGUS_FUNC_SEND || c->func == ARGUS_FUNC_RECV)
        return 0;
    call.hash = comm->hash;
    call.size = comm->size;
    return keep_call(p, &call);
}

static int each_file(struct perfetto *p,
                     int (*work)(struct perfetto *p, size_t rank, argus_timeline_t *file,
                                 const struct tables *t, argus_error_t *err),
                     argus_error_t *err)
{
    for (size_t i = 0; i < p->n_ranks; i++) {
        argus_timeline_t *file = argus_timeline_open(p->ranks[i].path, err);
        struct tables t = {0};
        int rc = file ? tables_read(&t, file, err) : -1;

        if (rc == 0)
            rc = work(p, i, file, &t, err);
        tables_free(&t);
        argus_timeline_close(file);
        if (rc != 0)
            return -1;
        progress(p);
    }
    return 0;
}

static int collect_file(struct perfetto *p, size_t rank, argus_timeline_t *file,
                        const struct tables *t, argus_error_t *err)
{
    return argus_perfetto_visit_events(p, rank, file, t, collect_event, err);
}

/* The trace's microseconds of a time of rank `r`. */
double argus_perfetto_trace_us(const struct perfetto *p, size_t r, int64_t time)
{
    return ((double)(time - p->base) + p->clocks.offset[r]) / 1e3;
}

static const char *name_of_comm(const struct perfetto *p, uint64_t hash)
{
    for (size_t i = 0; i < p->n_names; i++) {
        if (p->names[i].hash == hash)
            return p->names[i].name;
    }
    return "";
}

/* The first name that a rank gives. */
static int learn_names(struct perfetto *p, argus_timeline_t *file, const struct tables *t)
{
    for (size_t i = 0; i < t->n_comms; i++) {
        const char *name = argus_timeline_string(file, t->comms[i].name);
        struct comm_name *more;

        if (!*name || *name_of_comm(p, t->comms[i].hash))
            continue;
        more = realloc(p->names, (p->n_names + 1) * sizeof(*more));
        if (!more)
            return -1;
        p->names = more;
        p->names[p->n_names].hash = t->comms[i].hash;
        p->names[p->n_names].name = strdup(name);
        if (!p->names[p->n_names].name)
            return -1;
        p->n_names++;
    }
    return 0;
}

static int write_file(struct perfetto *p, size_t r, argus_timeline_t *file, const struct tables *t,
                      argus_error_t *err)
{
    const struct argus_timeline_info *info = argus_timeline_info(file);

    trace_process(&p->out, info, r);
    if (learn_names(p, file, t) != 0)
        return argus_error(err, "out of memory");
    /* Steps first: they say how far marks and counters may reach. */
    if (argus_perfetto_write_steps(p, r, file, err) != 0 ||
        argus_perfetto_visit_events(p, r, file, t, argus_perfetto_write_event, err) != 0 ||
        argus_perfetto_write_marks(p, r, file, err) != 0 ||
        argus_perfetto_write_health(p, r, file, err) != 0)
        return -1;
    trace_process_end(&p->out, info->rank);
    return trace_failed(&p->out) ? argus_error(err, "cannot write the trace") : 0;
}

static struct trace_point point_of(const struct perfetto *p, const struct argus_call *call)
{
    return (struct trace_point){p->ranks[call->rank].rank, call->track,
                                argus_perfetto_trace_us(p, call->rank, call->start)};
}

static void write_busbw(struct perfetto *p, const struct argus_call *call, int64_t work, double us)
{
    double factor = argus_busbw_factor((int)call->func, call->size);
    const char *name = name_of_comm(p, call->hash);
    char text[128];

    if (factor <= 0 || !call->bytes || work <= 0)
        return;
    if (*name)
        snprintf(text, sizeof(text), "busbw %.64s (GB/s)", name);
    else
        snprintf(text, sizeof(text), "busbw %016llx (GB/s)", (unsigned long long)call->hash);
    trace_counter(&p->out, TRACE_COMMUNICATORS, text, us,
                  (double)call->bytes / (double)work * factor);
}

/* Arrows from who came last to who waited, and what the network gave. */
static void write_call(struct perfetto *p, const struct argus_call *calls, size_t run)
{
    struct trace_point from, to;
    int64_t work = INT64_MAX;
    size_t last = 0;

    for (size_t i = 0; i < run; i++) {
        if (calls[i].func != calls[0].func || (i && calls[i].rank == calls[i - 1].rank))
            return; /* calls that do not match are not connected */
        if (calls[i].end - calls[i].start < work) {
            work = calls[i].end - calls[i].start;
            last = i;
        }
    }
    from = point_of(p, &calls[last]);
    for (size_t i = 0; i < run; i++) {
        if (i == last || calls[i].end - calls[i].start - work < WAIT_SHOWN_NS)
            continue;
        to = point_of(p, &calls[i]);
        if (to.us < from.us)
            to.us = from.us; /* an arrow points forward, into the wait */
        trace_arrow(&p->out, &from, &to);
    }
    if (calls[0].size == run)
        write_busbw(p, &calls[0], work, from.us + (double)work / 1e3);
}

static int node_of(char ***nodes, size_t *n, const char *name)
{
    char **more;

    if (!*name)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        if (!strcmp((*nodes)[i], name))
            return (int)i;
    }
    more = realloc(*nodes, (*n + 1) * sizeof(*more));
    if (!more)
        return -1;
    *nodes = more;
    more[*n] = strdup(name);
    return more[*n] ? (int)(*n)++ : -1;
}

static int list_files(struct perfetto *p, const char *dir, argus_error_t *err)
{
    char **paths, **nodes = NULL;
    size_t n, n_nodes = 0, unread = 0;
    int rc = argus_timeline_list(dir, &paths, &n, err);

    if (rc != 0)
        return -1;
    p->ranks = calloc(n + 1, sizeof(*p->ranks));
    if (!p->ranks)
        rc = argus_error(err, "%s: out of memory", dir);
    for (size_t i = 0; i < n && rc == 0; i++) {
        argus_timeline_t *file = argus_timeline_open(paths[i], err);

        if (!file) {
            unread++;
            if (p->options->left_out)
                p->options->left_out(err->text);
        } else if (rank_wanted(p->options, argus_timeline_info(file)->rank)) {
            struct rank_file *r = &p->ranks[p->n_ranks++];

            r->rank = argus_timeline_info(file)->rank;
            r->node = node_of(&nodes, &n_nodes, argus_timeline_info(file)->node);
            r->path = paths[i];
            paths[i] = NULL;
        }
        argus_timeline_close(file);
    }
    for (size_t i = 0; i < n_nodes; i++)
        free(nodes[i]);
    free(nodes);
    argus_timeline_list_free(paths, n);
    if (rc == 0 && !p->n_ranks)
        rc = argus_error(err,
                         !n            ? "%s: no timelines"
                         : unread == n ? "%s: no timeline can be read"
                                       : "%s: none of the ranks asked for",
                         dir);
    return rc;
}

static int align(struct perfetto *p, argus_error_t *err)
{
    int *node = malloc((p->n_ranks + 1) * sizeof(*node));
    int rc;

    if (!node)
        return argus_error(err, "out of memory");
    for (size_t i = 0; i < p->n_ranks; i++)
        node[i] = p->ranks[i].node;
    argus_calls_sort(p->calls, p->n_calls);
    rc = argus_clocks_align(p->calls, p->n_calls, node, p->n_ranks, &p->clocks);
    free(node);
    return rc == 0 ? 0 : argus_error(err, "out of memory");
}

static void write_other(struct perfetto *p)
{
    trace_other_begin(&p->out);
    trace_other_number(&p->out, "clock_realtime_ns", p->base);
    trace_other_number(&p->out, "clock_calls", (int64_t)p->clocks.calls);
    trace_other_number(&p->out, "clock_residual_ns", (int64_t)llround(p->clocks.residual));
    for (size_t i = 0; i < p->n_ranks; i++) {
        char key[48];

        snprintf(key, sizeof(key), "clock_offset_ns_rank_%d", p->ranks[i].rank);
        trace_other_number(&p->out, key, (int64_t)llround(p->clocks.offset[i]));
    }
}

int argus_export_perfetto(const char *dir, const struct argus_export_options *options, FILE *out,
                          argus_error_t *err)
{
    struct perfetto p = {.options = options, .base = INT64_MAX};
    int rc = -1;

    if (list_files(&p, dir, err) != 0 || each_file(&p, collect_file, err) != 0)
        goto out;
    if (p.base == INT64_MAX) {
        argus_error(err, "%s: no events of these steps and ranks were kept", dir);
        goto out;
    }
    if (align(&p, err) != 0)
        goto out;
    if (trace_begin(&p.out, out, p.n_ranks) != 0) {
        argus_error(err, "out of memory");
        goto out;
    }
    if (each_file(&p, write_file, err) != 0)
        goto out;
    for (size_t i = 0, run; i < p.n_calls; i += run) {
        run = argus_calls_run(p.calls, p.n_calls, i);
        write_call(&p, p.calls + i, run);
    }
    write_other(&p);
    rc = trace_end(&p.out) == 0 ? 0 : argus_error(err, "cannot write the trace");
out:
    trace_free(&p.out);
    argus_clocks_clear(&p.clocks);
    for (size_t i = 0; i < p.n_ranks; i++)
        free(p.ranks[i].path);
    for (size_t i = 0; i < p.n_names; i++)
        free(p.names[i].name);
    free(p.names);
    free(p.ranks);
    free(p.calls);
    return rc;
}
