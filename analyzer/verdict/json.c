/* SPDX-License-Identifier: Apache-2.0 */
/* A verdict to verdict.json. */
#include <config.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/verdict/json.h"
#include "analyzer/util/jsontext.h"
#include "analyzer/util/replace.h"

#define DIGITS 10 /* significant digits of a number: 0.97 stays 0.97 */

static json_t *number_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *index_or_null(int x)
{
    return x == ARGUS_UNKNOWN ? json_null() : json_integer(x);
}

static json_t *count(uint64_t n)
{
    return json_integer((json_int_t)(n > INT64_MAX ? INT64_MAX : n));
}

static json_t *strings(char *const *list, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < n; i++)
        json_array_append_new(array, argus_json_text(list[i]));
    return array;
}

static json_t *culprits(const struct argus_culprit *list, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < n; i++)
        json_array_append_new(array, json_pack("{so so so so}", "rank", index_or_null(list[i].rank),
                                               "node", argus_json_text(list[i].node), "gpu",
                                               argus_json_text(list[i].gpu), "local_rank",
                                               index_or_null(list[i].local_rank)));
    return array;
}

static json_t *link_or_null(const struct argus_link *l)
{
    if (!l)
        return json_null();
    return json_pack("{so so so so so so so so}", "scope", argus_json_text(l->scope), "node",
                     argus_json_text(l->node), "rank", index_or_null(l->rank), "peer_node",
                     argus_json_text(l->peer_node), "peer", index_or_null(l->peer), "communicator",
                     argus_json_text(l->communicator), "candidates",
                     strings(l->candidates, l->n_candidates), "factor", number_or_null(l->factor));
}

static json_t *evidence(const struct argus_verdict *v)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < v->n_evidence; i++) {
        const struct argus_evidence_line *e = &v->evidence[i];
        json_t *line = json_pack("{so so so so so so}", "signal", argus_json_text(e->signal),
                                 "rank", index_or_null(e->rank), "node", argus_json_text(e->node),
                                 "value", number_or_null(e->value), "peers",
                                 number_or_null(e->peers), "unit", argus_json_text(e->unit));

        if (line && e->note)
            json_object_set_new(line, "note", argus_json_text(e->note));
        json_array_append_new(array, line);
    }
    return array;
}

static json_t *findings(const struct argus_verdict *v)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < v->n_findings; i++) {
        const struct argus_finding *f = &v->findings[i];

        json_array_append_new(
            array,
            json_pack("{ss ss so so so so so so so}", "verdict", argus_verdict_kind_name(f->kind),
                      "severity", argus_severity_name(f->severity), "culprits",
                      culprits(f->culprits, f->n_culprits), "pattern", argus_json_text(f->pattern),
                      "subkind", argus_json_text(f->subkind), "text", argus_json_text(f->text),
                      "onset_step", index_or_null(f->onset_step), "slowdown",
                      number_or_null(f->slowdown), "gpu_hours", number_or_null(f->gpu_hours)));
    }
    return array;
}

static json_t *job(const struct argus_verdict *v)
{
    json_t *o = json_pack("{so so si si si si so so}", "id", argus_json_text(v->job.id), "step",
                          argus_json_text(v->job.step), "ranks", v->job.ranks, "nodes",
                          v->job.nodes, "gpus", v->job.gpus, "steps", v->job.steps, "step_ms_p50",
                          number_or_null(v->job.step_ms_p50), "gpu_hours",
                          number_or_null(v->job.gpu_hours));

    if (o && v->job.simulated)
        json_object_set_new(o, "simulated", json_true());
    return o;
}

static json_t *data_quality(const struct argus_verdict *v)
{
    json_t *ranks = json_array();

    for (size_t i = 0; ranks && i < v->data_quality.n_ranks_missing; i++)
        json_array_append_new(ranks, json_integer(v->data_quality.ranks_missing[i]));
    return json_pack("{so so so so so so so si so}", "ranks_missing", ranks, "nodes_missing",
                     strings(v->data_quality.nodes_missing, v->data_quality.n_nodes_missing),
                     "dropped", count(v->data_quality.dropped), "invalid",
                     count(v->data_quality.invalid), "gaps", count(v->data_quality.gaps), "late",
                     count(v->data_quality.late), "torn", count(v->data_quality.torn),
                     "steps_compared", v->data_quality.steps_compared, "notes",
                     strings(v->data_quality.notes, v->data_quality.n_notes));
}

static json_t *steps(const struct argus_verdict *v)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < v->n_steps; i++) {
        const struct argus_step_line *s = &v->steps[i];

        json_array_append_new(array, json_pack("{so ss ss so so}", "step", argus_json_text(s->step),
                                               "verdict", argus_verdict_kind_name(s->kind),
                                               "severity", argus_severity_name(s->severity),
                                               "slowdown", number_or_null(s->slowdown), "gpu_hours",
                                               number_or_null(s->gpu_hours)));
    }
    return array;
}

json_t *argus_verdict_to_object(const struct argus_verdict *v)
{
    json_t *o = json_object();
    int rc = 0;

    if (!o)
        return NULL;
    rc |= json_object_set_new(o, "schema", json_string(ARGUS_VERDICT_SCHEMA));
    rc |= json_object_set_new(o, "verdict", json_string(argus_verdict_kind_name(v->kind)));
    rc |= json_object_set_new(o, "severity", json_string(argus_severity_name(v->severity)));
    rc |= json_object_set_new(o, "confidence", number_or_null(v->confidence));
    rc |= json_object_set_new(o, "culprits", culprits(v->culprits, v->n_culprits));
    rc |= json_object_set_new(o, "stage", index_or_null(v->stage));
    rc |= json_object_set_new(o, "phase", argus_json_text(v->phase));
    rc |= json_object_set_new(o, "pattern", argus_json_text(v->pattern));
    rc |= json_object_set_new(o, "subkind", argus_json_text(v->subkind));
    rc |= json_object_set_new(o, "link", link_or_null(v->link));
    rc |= json_object_set_new(o, "onset_step", index_or_null(v->onset_step));
    rc |= json_object_set_new(o, "recovered_step", index_or_null(v->recovered_step));
    rc |= json_object_set_new(o, "slowdown", number_or_null(v->slowdown));
    rc |= json_object_set_new(o, "cost",
                              json_pack("{so so}", "gpu_hours", number_or_null(v->gpu_hours),
                                        "share", number_or_null(v->share)));
    rc |= json_object_set_new(o, "job", job(v));
    rc |= json_object_set_new(o, "topology",
                              json_pack("{si si si si so}", "tp", v->topology.tp, "pp",
                                        v->topology.pp, "dp", v->topology.dp, "ep", v->topology.ep,
                                        "source", argus_json_text(v->topology.source)));
    rc |= json_object_set_new(o, "evidence", evidence(v));
    rc |= json_object_set_new(o, "findings", findings(v));
    if (v->n_steps)
        rc |= json_object_set_new(o, "steps", steps(v));
    rc |= json_object_set_new(o, "explained", strings(v->explained, v->n_explained));
    rc |= json_object_set_new(o, "data_quality", data_quality(v));
    rc |= json_object_set_new(o, "next", strings(v->next, v->n_next));
    if (rc) {
        json_decref(o);
        return NULL;
    }
    return o;
}

char *argus_verdict_to_json(const struct argus_verdict *v)
{
    json_t *o = argus_verdict_to_object(v);
    char *text = NULL, *with_end;
    size_t length;

    if (o)
        text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
    json_decref(o);
    if (!text)
        return NULL;
    length = strlen(text);
    with_end = realloc(text, length + 2);
    if (!with_end) {
        free(text);
        return NULL;
    }
    memcpy(with_end + length, "\n", 2);
    return with_end;
}

int argus_verdict_write(const struct argus_verdict *v, const char *path, argus_error_t *err)
{
    struct argus_replacement r;
    char *text = argus_verdict_to_json(v);
    int rc;

    if (!text)
        return argus_error(err, "%s: no memory for the verdict", path);
    rc = argus_replace_open(&r, path, err);
    if (!rc) {
        fputs(text, r.out); /* what fails stays with the stream */
        rc = argus_replace_finish(&r, NULL, 1, err);
    }
    free(text);
    return rc;
}
