/* SPDX-License-Identifier: Apache-2.0 */
/* What the importers share beyond one rank: which ranks are done, what had to
 * be assumed of all of them, job.json. */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/import/import.h"

/* "rank-12.json.gz", "worker7_step...": the number behind the word; -1: none. */
int import_rank_of_name(const char *path)
{
    static const char *const words[] = {"rank", "worker"};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = strstr(name, words[i]);

        if (!at)
            continue;
        at += strlen(words[i]);
        if (*at == '-' || *at == '_' || *at == '.')
            at++;
        if (isdigit((unsigned char)*at)) {
            long rank = strtol(at, NULL, 10);

            if (rank < ARGUS_WORLD_MAX) /* else a time, or the like */
                return (int)rank;
        }
    }
    return -1;
}

int import_state_write(struct import_trace *t, const struct import_output *out, int world,
                       struct import_state *state, struct import_report *report, argus_error_t *err)
{
    report->kernels += t->kernels;
    report->events += t->n_events;
    report->invalid += t->invalid;
    report->ranks++;
    if (import_trace_write(t, out, world, err) != 0)
        return -1;
    state->written = 1;
    return 0;
}

/* Every rank of the job is here and ran the same collectives in the same order? */
int import_states_agree(const struct import_state *states, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!states[i].unmatched || states[i].unmatched != states[0].unmatched ||
            states[i].unmatched_sum != states[0].unmatched_sum ||
            (states[i].world && (size_t)states[i].world != n) || (size_t)states[i].rank >= n)
            return 0;
    }
    return 1;
}

static void note(struct import_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct import_report *report, const char *format, ...)
{
    size_t used = strlen(report->note);
    va_list ap;

    if (used)
        used += (size_t)snprintf(report->note + used, sizeof(report->note) - used, "; ");
    if (used >= sizeof(report->note))
        return;
    va_start(ap, format);
    vsnprintf(report->note + used, sizeof(report->note) - used, format, ap);
    va_end(ap);
}

void import_states_note(const struct import_state *states, size_t n, struct import_report *report)
{
    size_t without = 0;

    for (size_t i = 0; i < n; i++)
        without += states[i].unmatched != 0;
    if (without && n == 1)
        note(report, "the communicators of %zu collectives are not known", states[0].unmatched);
    else if (without && import_states_agree(states, n))
        note(report,
             "no communicators in the traces; all %zu ranks ran the same %zu collectives, taken as "
             "one communicator of all; message sizes are unknown",
             n, states[0].unmatched);
    else if (without)
        note(report,
             "no communicators for some collectives of %zu of %zu ranks, and the ranks ran "
             "different ones: those are not matched",
             without, n);
    for (size_t i = 1; i < n; i++) {
        if (states[i].first_step != states[0].first_step) {
            note(report,
                 "the traces begin at different steps (rank %d: %ld, rank %d: %ld): their steps do "
                 "not line up",
                 states[0].rank, states[0].first_step, states[i].rank, states[i].first_step);
            break;
        }
    }
}

void import_states_undo(const struct import_state *states, size_t n,
                        const struct import_output *out)
{
    char path[4096];

    for (size_t i = 0; i < n; i++) {
        if (states[i].written && import_path(out, states[i].rank, path, sizeof(path), NULL) == 0)
            unlink(path);
    }
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

int import_job_write(const struct import_output *out, const struct import_job *job,
                     argus_error_t *err)
{
    char path[4096], temp[4200];
    json_t *files = json_array(), *root;
    int n = snprintf(path, sizeof(path), "%s/job.json", out->dir), rc = 0;

    if (n < 0 || (size_t)n >= sizeof(path)) {
        json_decref(files);
        return argus_error(err, "%s: path is too long", out->dir);
    }
    for (size_t i = 0; i < job->n_files; i++)
        json_array_append_new(files, json_stringn_nocheck(base_name(job->files[i]),
                                                          strlen(base_name(job->files[i]))));
    root = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:o}", "schema", "argus-job/1", "source",
                     job->source, "job", "", "step", "0", "ranks", job->ranks, "world", job->world,
                     "argus", PACKAGE_VERSION, "files", files);
    snprintf(temp, sizeof(temp), "%s.tmp", path);
    if (!root || json_dump_file(root, temp, JSON_INDENT(1)) != 0 || rename(temp, path) != 0) {
        rc = argus_error(err, "%s: cannot write: %s", path, strerror(errno));
        unlink(temp);
    }
    json_decref(root);
    return rc;
}
