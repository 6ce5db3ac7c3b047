/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto files of one job.  One file is in memory at a time.  Traces without
 * collective metadata can only be matched when every rank ran the same
 * collectives, which is known after the last file: such files are read twice.
 */
#include <config.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/import.h"

struct progress_of_file {
    import_progress *call;
    void *arg;
    size_t file, files;
};

static void file_progress(void *arg, double done)
{
    struct progress_of_file *p = arg;

    p->call(p->arg, ((double)p->file + done) / (double)p->files);
}

/* torch names its files HOST_PID.TIME.pt.trace.json when nobody else does. */
static void host_of_name(struct import_trace *t, const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *end = strstr(name, ".pt.trace.json"), *dot, *pid;

    if (!end || import_rank_of_name(path) >= 0)
        return;
    for (dot = end; dot > name && isdigit((unsigned char)dot[-1]); dot--)
        ;
    if (end - dot < 10 || dot == name || dot[-1] != '.') /* the time, in ms or ns */
        return;
    for (pid = --dot; pid > name && isdigit((unsigned char)pid[-1]); pid--)
        ;
    if (pid == dot || pid - name < 2 || pid[-1] != '_')
        return;
    snprintf(t->node, sizeof(t->node), "%.*s", (int)(pid - 1 - name), name);
    t->pid = (int)(strtol(pid, NULL, 10) & 0x7fffffff);
}

static int settle_rank(struct import_trace *t, const char *const *files, size_t i, size_t n,
                       const struct import_state *states, argus_error_t *err)
{
    host_of_name(t, files[i]);
    if (t->rank < 0)
        t->rank = import_rank_of_name(files[i]);
    if (t->rank < 0 && n == 1)
        t->rank = 0;
    if (t->rank < 0)
        return argus_error(
            err, "%s: neither its distributedInfo nor its name (rank-N) tells the rank", files[i]);
    for (size_t j = 0; j < i; j++) {
        if (states[j].rank == t->rank)
            return argus_error(err, "%s and %s both are of rank %d", files[j], files[i], t->rank);
    }
    return 0;
}

static int first_pass(const char *const *files, size_t n, const struct import_output *out,
                      import_progress *progress, void *arg, struct import_state *states,
                      struct import_report *report, argus_error_t *err)
{
    for (size_t i = 0; i < n; i++) {
        struct progress_of_file p = {progress, arg, i, n};
        struct import_trace t;
        int rc = import_kineto_read(files[i], &t, progress ? file_progress : NULL, &p, err);

        if (rc == 0)
            rc = settle_rank(&t, files, i, n, states, err);
        if (rc == 0) {
            states[i].rank = t.rank;
            states[i].world = t.world;
            states[i].first_step = import_first_step(&t);
            states[i].unmatched = t.unmatched;
            states[i].unmatched_sum = t.unmatched_sum;
            if (!t.world)
                t.world = (int)n;
            if (!t.unmatched || n == 1)
                rc = import_state_write(&t, out, 0, &states[i], report, err);
        }
        import_trace_free(&t);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int second_pass(const char *const *files, size_t n, const struct import_output *out,
                       struct import_state *states, struct import_report *report,
                       argus_error_t *err)
{
    int world = import_states_agree(states, n);

    import_states_note(states, n, report);
    for (size_t i = 0; i < n; i++) {
        struct import_trace t;
        int rc;

        if (states[i].written)
            continue;
        rc = import_kineto_read(files[i], &t, NULL, NULL, err);
        if (rc == 0) {
            t.rank = states[i].rank;
            host_of_name(&t, files[i]);
            if (!t.world)
                t.world = (int)n;
            rc = import_state_write(&t, out, world, &states[i], report, err);
        }
        import_trace_free(&t);
        if (rc != 0)
            return -1;
    }
    return 0;
}

int import_kineto(const char *const *files, size_t n, const struct import_output *out,
                  import_progress *progress, void *arg, struct import_report *report,
                  argus_error_t *err)
{
    struct import_job job = {.source = "kineto", .ranks = (int)n, .files = files, .n_files = n};
    struct import_state *states = calloc(n + 1, sizeof(*states));
    int rc = -1;

    memset(report, 0, sizeof(*report));
    report->files = n;
    if (!states)
        return argus_error(err, "out of memory");
    if (import_prepare(out, err) != 0)
        goto out;
    rc = first_pass(files, n, out, progress, arg, states, report, err);
    if (rc == 0)
        rc = second_pass(files, n, out, states, report, err);
    if (rc == 0) {
        job.world = states[0].world ? states[0].world : (int)n;
        rc = import_job_write(out, &job, err);
    }
    if (rc != 0) /* half a job reads like a whole one */
        import_states_undo(states, n, out);
out:
    free(states);
    return rc;
}
