/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.json to a verdict.  The file may be torn, foreign or hostile. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/verdict/build.h"
#include "analyzer/verdict/json.h"

#define LIST_MAX 1000000 /* elements of a list: more ranks than any machine has */
#define STRING_MAX 65536 /* bytes of a string */

struct reader {
    const char *file;
    argus_error_t *err;
    int failed;
};

static void bad(struct reader *r, const char *key, const char *what)
{
    if (!r->failed)
        argus_error(r->err, "%s: key \"%s\": %s", r->file, key, what);
    r->failed = 1;
}

/* The member, NULL when it is missing or null. */
static const json_t *member(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);

    return json_is_null(value) ? NULL : value;
}

static double number(struct reader *r, const json_t *o, const char *key)
{
    const json_t *value = member(o, key);

    if (!value)
        return NAN;
    if (!json_is_number(value)) {
        bad(r, key, "not a number");
        return NAN;
    }
    return json_number_value(value);
}

static double number_between(struct reader *r, const json_t *o, const char *key, double low,
                             double high)
{
    double x = number(r, o, key);

    if (!isnan(x) && !(x >= low && x <= high)) {
        bad(r, key, "out of range");
        return NAN;
    }
    return x;
}

static json_int_t integer(struct reader *r, const json_t *o, const char *key, json_int_t low,
                          json_int_t high, json_int_t missing)
{
    const json_t *value = member(o, key);

    if (!value)
        return missing;
    if (!json_is_integer(value) || json_integer_value(value) < low ||
        json_integer_value(value) > high) {
        bad(r, key, json_is_integer(value) ? "out of range" : "not an integer");
        return missing;
    }
    return json_integer_value(value);
}

static int index_of(struct reader *r, const json_t *o, const char *key)
{
    return (int)integer(r, o, key, ARGUS_UNKNOWN, INT_MAX, ARGUS_UNKNOWN);
}

static int small_count(struct reader *r, const json_t *o, const char *key)
{
    return (int)integer(r, o, key, 0, INT_MAX, 0);
}

/* NULL when missing.  Points into the document. */
static const char *string(struct reader *r, const json_t *value, const char *key)
{
    if (!value || json_is_null(value))
        return NULL;
    if (!json_is_string(value)) {
        bad(r, key, "not a string");
        return NULL;
    }
    if (json_string_length(value) > STRING_MAX ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        bad(r, key, "string too long or with a NUL in it");
        return NULL;
    }
    return json_string_value(value);
}

static void take(struct reader *r, const json_t *o, const char *key, char **place)
{
    const char *text = string(r, member(o, key), key);

    if (text && argus_verdict_set(place, text) < 0)
        bad(r, key, "no memory");
}

static const json_t *array(struct reader *r, const json_t *o, const char *key)
{
    const json_t *value = member(o, key);

    if (value && !json_is_array(value)) {
        bad(r, key, "not a list");
        return NULL;
    }
    if (json_array_size(value) > LIST_MAX) {
        bad(r, key, "list too long");
        return NULL;
    }
    return value;
}

static const json_t *object(struct reader *r, const json_t *value, const char *key)
{
    if (!value || json_is_null(value))
        return NULL;
    if (!json_is_object(value)) {
        bad(r, key, "not an object");
        return NULL;
    }
    return value;
}

static int word(struct reader *r, const json_t *o, const char *key,
                int (*from_name)(const char *name), int missing)
{
    const char *text = string(r, member(o, key), key);
    int value;

    if (!text)
        return missing;
    value = from_name(text);
    if (value < 0) {
        bad(r, key, "no such word");
        return missing;
    }
    return value;
}

static void read_culprits(struct reader *r, const json_t *o, struct argus_verdict *v,
                          struct argus_finding *f)
{
    const json_t *list = array(r, o, "culprits");

    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const json_t *c = object(r, json_array_get(list, i), "culprits");
        int rank = index_of(r, c, "rank"), local = index_of(r, c, "local_rank");
        const char *node = string(r, member(c, "node"), "node");
        const char *gpu = string(r, member(c, "gpu"), "gpu");

        if (!(f ? argus_finding_add_culprit(f, rank, local, node, gpu)
                : argus_verdict_add_culprit(v, rank, local, node, gpu)))
            bad(r, "culprits", "no memory");
    }
}

static void read_link(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *o = object(r, member(root, "link"), "link"), *list;
    struct argus_link *l;

    if (!o)
        return;
    l = argus_verdict_set_link(v, string(r, member(o, "scope"), "scope"));
    if (!l) {
        bad(r, "link", "no memory");
        return;
    }
    take(r, o, "node", &l->node);
    take(r, o, "peer_node", &l->peer_node);
    take(r, o, "communicator", &l->communicator);
    l->rank = index_of(r, o, "rank");
    l->peer = index_of(r, o, "peer");
    l->factor = number_between(r, o, "factor", 0, 1e12);
    list = array(r, o, "candidates");
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const char *name = string(r, json_array_get(list, i), "candidates");

        if (!name || argus_link_add_candidate(l, name) < 0)
            bad(r, "candidates", "not a name");
    }
}

static void read_evidence(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *list = array(r, root, "evidence");

    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const json_t *o = object(r, json_array_get(list, i), "evidence");

        if (!argus_verdict_add_evidence(
                v, string(r, member(o, "signal"), "signal"), index_of(r, o, "rank"),
                string(r, member(o, "node"), "node"), number(r, o, "value"), number(r, o, "peers"),
                string(r, member(o, "unit"), "unit"), string(r, member(o, "note"), "note")))
            bad(r, "evidence", "no memory");
    }
}

static void read_findings(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *list = array(r, root, "findings");

    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const json_t *o = object(r, json_array_get(list, i), "findings");
        struct argus_finding *f = argus_verdict_add_finding(
            v,
            (enum argus_verdict_kind)word(r, o, "verdict", argus_verdict_kind_from_name,
                                          ARGUS_VERDICT_INSUFFICIENT_DATA),
            (enum argus_severity)word(r, o, "severity", argus_severity_from_name,
                                      ARGUS_SEVERITY_NONE));

        if (!f) {
            bad(r, "findings", "no memory");
            return;
        }
        read_culprits(r, o, v, f);
        take(r, o, "pattern", &f->pattern);
        take(r, o, "subkind", &f->subkind);
        take(r, o, "text", &f->text);
        f->onset_step = index_of(r, o, "onset_step");
        f->slowdown = number_between(r, o, "slowdown", 0, 1e12);
        f->gpu_hours = number_between(r, o, "gpu_hours", 0, 1e15);
    }
}

static void read_steps(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *list = array(r, root, "steps");

    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const json_t *o = object(r, json_array_get(list, i), "steps");

        if (!argus_verdict_add_step(
                v, string(r, member(o, "step"), "step"),
                (enum argus_verdict_kind)word(r, o, "verdict", argus_verdict_kind_from_name,
                                              ARGUS_VERDICT_INSUFFICIENT_DATA),
                (enum argus_severity)word(r, o, "severity", argus_severity_from_name,
                                          ARGUS_SEVERITY_NONE),
                number_between(r, o, "slowdown", 0, 1e12),
                number_between(r, o, "gpu_hours", 0, 1e15)))
            bad(r, "steps", "no memory");
    }
}

static void read_sentences(struct reader *r, const json_t *o, const char *key,
                           struct argus_verdict *v,
                           int (*add)(struct argus_verdict *, const char *, ...))
{
    const json_t *list = array(r, o, key);

    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const char *text = string(r, json_array_get(list, i), key);

        if (!text || add(v, "%s", text) < 0)
            bad(r, key, "not a sentence");
    }
}

static void read_job(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *o = object(r, member(root, "job"), "job"), *simulated = member(o, "simulated");
    const json_t *t = object(r, member(root, "topology"), "topology");

    take(r, o, "id", &v->job.id);
    take(r, o, "step", &v->job.step);
    v->job.ranks = small_count(r, o, "ranks");
    v->job.nodes = small_count(r, o, "nodes");
    v->job.gpus = small_count(r, o, "gpus");
    v->job.steps = small_count(r, o, "steps");
    v->job.step_ms_p50 = number_between(r, o, "step_ms_p50", 0, 1e15);
    v->job.gpu_hours = number_between(r, o, "gpu_hours", 0, 1e15);
    if (simulated && !json_is_boolean(simulated))
        bad(r, "simulated", "neither true nor false");
    v->job.simulated = json_is_true(simulated);
    v->topology.tp = small_count(r, t, "tp");
    v->topology.pp = small_count(r, t, "pp");
    v->topology.dp = small_count(r, t, "dp");
    v->topology.ep = small_count(r, t, "ep");
    take(r, t, "source", &v->topology.source);
}

static void read_quality(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *o = object(r, member(root, "data_quality"), "data_quality"), *list;

    v->data_quality.dropped = (uint64_t)integer(r, o, "dropped", 0, INT64_MAX, 0);
    v->data_quality.invalid = (uint64_t)integer(r, o, "invalid", 0, INT64_MAX, 0);
    v->data_quality.gaps = (uint64_t)integer(r, o, "gaps", 0, INT64_MAX, 0);
    v->data_quality.late = (uint64_t)integer(r, o, "late", 0, INT64_MAX, 0);
    v->data_quality.torn = (uint64_t)integer(r, o, "torn", 0, INT64_MAX, 0);
    v->data_quality.steps_compared = small_count(r, o, "steps_compared");
    list = array(r, o, "ranks_missing");
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const json_t *rank = json_array_get(list, i);

        if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
            json_integer_value(rank) > INT_MAX ||
            argus_verdict_add_rank_missing(v, (int)json_integer_value(rank)) < 0)
            bad(r, "ranks_missing", "not a rank");
    }
    list = array(r, o, "nodes_missing");
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        const char *name = string(r, json_array_get(list, i), "nodes_missing");

        if (!name || argus_verdict_add_node_missing(v, name) < 0)
            bad(r, "nodes_missing", "not a name");
    }
    read_sentences(r, o, "notes", v, argus_verdict_add_note);
}

static void read_root(struct reader *r, const json_t *root, struct argus_verdict *v)
{
    const json_t *cost = object(r, member(root, "cost"), "cost");
    const char *schema = string(r, member(root, "schema"), "schema");

    if (!schema || strcmp(schema, ARGUS_VERDICT_SCHEMA)) {
        bad(r, "schema", "not \"" ARGUS_VERDICT_SCHEMA "\": no verdict of argus");
        return;
    }
    if (!member(root, "verdict"))
        bad(r, "verdict", "missing");
    v->kind = (enum argus_verdict_kind)word(r, root, "verdict", argus_verdict_kind_from_name,
                                            ARGUS_VERDICT_INSUFFICIENT_DATA);
    v->severity = (enum argus_severity)word(r, root, "severity", argus_severity_from_name,
                                            ARGUS_SEVERITY_NONE);
    v->confidence = number_between(r, root, "confidence", 0, 1);
    read_culprits(r, root, v, NULL);
    v->stage = index_of(r, root, "stage");
    take(r, root, "phase", &v->phase);
    take(r, root, "pattern", &v->pattern);
    take(r, root, "subkind", &v->subkind);
    read_link(r, root, v);
    v->onset_step = index_of(r, root, "onset_step");
    v->recovered_step = index_of(r, root, "recovered_step");
    v->slowdown = number_between(r, root, "slowdown", 0, 1e12);
    v->gpu_hours = number_between(r, cost, "gpu_hours", 0, 1e15);
    v->share = number_between(r, cost, "share", 0, 1);
    read_job(r, root, v);
    read_evidence(r, root, v);
    read_findings(r, root, v);
    read_steps(r, root, v);
    read_sentences(r, root, "explained", v, argus_verdict_add_explained);
    read_quality(r, root, v);
    read_sentences(r, root, "next", v, argus_verdict_add_next);
}

struct argus_verdict *argus_verdict_from_json(const char *text, size_t length, const char *name,
                                              argus_error_t *err)
{
    struct reader r = {.file = name, .err = err};
    struct argus_verdict *v = NULL;
    json_error_t where;
    json_t *root;

    if (length > ARGUS_VERDICT_JSON_MAX) {
        argus_error(err, "%s: larger than %u MiB, no verdict", name, ARGUS_VERDICT_JSON_MAX >> 20);
        return NULL;
    }
    root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        argus_error(err, "%s: line %d: %s", name, where.line, where.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        argus_error(err, "%s: not a JSON object", name);
    } else if (!(v = argus_verdict_create())) {
        argus_error(err, "%s: no memory", name);
    } else {
        read_root(&r, root, v);
        if (r.failed) {
            argus_verdict_destroy(v);
            v = NULL;
        }
    }
    json_decref(root);
    return v;
}

struct argus_verdict *argus_verdict_read(const char *path, argus_error_t *err)
{
    struct argus_verdict *v = NULL;
    struct stat st;
    char *text = NULL;
    size_t have = 0;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0) {
        argus_error(err, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)ARGUS_VERDICT_JSON_MAX) {
        argus_error(err, "%s: %s", path,
                    S_ISREG(st.st_mode) ? "too large for a verdict" : "not a file");
        goto out;
    }
    text = malloc((size_t)st.st_size + 1);
    if (!text) {
        argus_error(err, "%s: no memory", path);
        goto out;
    }
    while (have < (size_t)st.st_size && (n = read(fd, text + have, (size_t)st.st_size - have)) > 0)
        have += (size_t)n;
    if (n < 0)
        argus_error(err, "%s: %s", path, strerror(errno));
    else
        v = argus_verdict_from_json(text, have, path, err);
out:
    free(text);
    if (fd >= 0)
        close(fd);
    return v;
}
