/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: what analyze decides, what verdict.json ("argus-verdict/1")
 * holds, what the accounting comment says.
 *
 * verdict.json keys and the comment's grammar are promises to users; the
 * struct below is how the parts of argus hand a verdict to one another
 * (arbiter -> JSON, comment, report; JSON -> report, epilog, history).
 * Durations: ns unless the name says otherwise.  Unknown numbers are NAN,
 * unknown ranks and steps ARGUS_UNKNOWN, unknown strings NULL.  A verdict owns
 * everything it points to; argus_verdict_destroy() frees it.
 */
#ifndef ARGUS_VERDICT_H
#define ARGUS_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#define ARGUS_VERDICT_SCHEMA "argus-verdict/1"
#define ARGUS_COMMENT_TAG "argus:1"
#define ARGUS_COMMENT_MAX 250 /* bytes, without the terminating NUL */
#define ARGUS_UNKNOWN (-1)

enum argus_verdict_kind {
    ARGUS_VERDICT_INSUFFICIENT_DATA = 0,
    ARGUS_VERDICT_OK,
    ARGUS_VERDICT_COMPUTE_STRAGGLER,
    ARGUS_VERDICT_SLOW_LINK,
    ARGUS_VERDICT_HOST_STALL,
    ARGUS_VERDICT_DATA_STALL,
    ARGUS_VERDICT_JIT_STALL,
    ARGUS_VERDICT_ALLOCATOR_STALL,
    ARGUS_VERDICT_PIPELINE_IMBALANCE,
    ARGUS_VERDICT_WORKLOAD_IMBALANCE,
    ARGUS_VERDICT_MOE_IMBALANCE,
    ARGUS_VERDICT_UNIFORM_SLOWDOWN,
    ARGUS_VERDICT_SPLIT,
    ARGUS_VERDICT_COUNT
};

enum argus_severity {
    ARGUS_SEVERITY_NONE = 0,
    ARGUS_SEVERITY_INFO,
    ARGUS_SEVERITY_WARN,
    ARGUS_SEVERITY_CRITICAL,
    ARGUS_SEVERITY_COUNT
};

/* One blamed rank; "culprits":[{"rank":13,"node":"n07","gpu":"GPU-...","local_rank":5}] */
struct argus_culprit {
    int rank; /* ARGUS_UNKNOWN: the node as a whole */
    int local_rank;
    char *node;
    char *gpu;
};

/* "link": null | {"scope":"gpu|pcie|nic|node|pair|fabric","node":...,"rank":...,"peer_node":...,"peer":...,
 *                 "communicator":"dp_0","candidates":["n1","n3"],"factor":3.0}
 * candidates: "one of {...}" when that is all the data says; else empty. */
struct argus_link {
    char *scope;
    char *node;
    char *peer_node;
    char *communicator;
    int rank;
    int peer;
    double factor; /* work / expected work */
    char **candidates;
    size_t n_candidates;
};

/* "evidence":[{"signal":...,"rank":13,"node":...,"value":0.74,"peers":1.0,"unit":"ratio","note":...}] */
struct argus_evidence_line {
    char *signal;
    char *unit;
    char *note; /* may be NULL */
    char *node; /* may be NULL */
    int rank;   /* ARGUS_UNKNOWN: not of one rank */
    double value;
    double peers; /* the same signal's reference; NAN: none */
};

/* "findings": further faults, costliest first; also a slow rank nobody waits for. */
struct argus_finding {
    enum argus_verdict_kind kind;
    enum argus_severity severity;
    struct argus_culprit *culprits;
    size_t n_culprits;
    char *
        pattern; /* "persistent", "periodic", "rotating", "growing", "episode", "ramp", "spike" or NULL */
    char *subkind; /* "clock", "memory", "one-class", "shared-gpu", ... or NULL */
    char *text;    /* one sentence or NULL */
    int onset_step;
    double slowdown; /* 1.0: costs nothing */
    double gpu_hours;
};

/* "steps": in the job's verdict.json only, one line a step that has a verdict:
 * [{"step":"0","verdict":"ok","severity":"none","slowdown":1.0,"gpu_hours":0.0}] */
struct argus_step_line {
    char *step;
    enum argus_verdict_kind kind;
    enum argus_severity severity;
    double slowdown;
    double gpu_hours;
};

struct argus_verdict {
    enum argus_verdict_kind kind;
    enum argus_severity severity;
    double confidence; /* 0..1 */
    struct argus_culprit *culprits;
    size_t n_culprits;
    int stage;     /* pipeline stage, ARGUS_UNKNOWN: null */
    char *phase;   /* "data","forward","backward","optimizer","communication" or NULL */
    char *pattern; /* as in a finding */
    char *subkind;
    struct argus_link *link; /* NULL: null */
    int onset_step;
    int recovered_step;
    double slowdown;  /* T / T without this fault, >= 1; NAN: null */
    double gpu_hours; /* "cost": lost to this fault */
    double share;     /* "cost": of the job's GPU-hours */

    struct { /* "job" */
        char *id;
        char *step;
        char *dir; /* the job directory, for the comment's dir= ; not in JSON's "job" */
        int ranks, nodes, gpus;
        int steps;
        double step_ms_p50;
        double gpu_hours; /* whole step */
        int simulated;    /* 1: stand-in GPU; "simulated":true and said in every report */
    } job;
    struct { /* "topology" */
        int tp, pp, dp, ep;
        char *source; /* "inferred", "names", "option" */
    } topology;

    struct argus_evidence_line *evidence;
    size_t n_evidence;
    struct argus_finding *findings;
    size_t n_findings;
    struct argus_step_line *steps;
    size_t n_steps;
    char **explained; /* sentences */
    size_t n_explained;
    struct { /* "data_quality" */
        int *ranks_missing;
        size_t n_ranks_missing;
        char **nodes_missing; /* "nodes_missing": no .done of these */
        size_t n_nodes_missing;
        uint64_t dropped, invalid, gaps, late, torn;
        int steps_compared;
        char **notes; /* sentences: sources that stood down, unmatched calls ... */
        size_t n_notes;
    } data_quality;
    char **next; /* ready commands or advice */
    size_t n_next;
};

/* Names as they stand in JSON and in the comment: "compute-straggler", "critical". */
const char *argus_verdict_kind_name(enum argus_verdict_kind kind);
const char *argus_severity_name(enum argus_severity severity);
int argus_verdict_kind_from_name(const char *name); /* -1: no such */
int argus_severity_from_name(const char *name);     /* -1: no such */
int argus_verdict_is_fail_slow(
    enum argus_verdict_kind kind); /* exit status 3 of analyze --exit-code */

#endif /* ARGUS_VERDICT_H */
