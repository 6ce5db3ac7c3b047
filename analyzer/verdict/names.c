/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts and severities by name. */
#include <config.h>
#include <argus/verdict.h>
#include <string.h>

static const char *const kinds[ARGUS_VERDICT_COUNT] = {
    [ARGUS_VERDICT_INSUFFICIENT_DATA] = "insufficient-data",
    [ARGUS_VERDICT_OK] = "ok",
    [ARGUS_VERDICT_COMPUTE_STRAGGLER] = "compute-straggler",
    [ARGUS_VERDICT_SLOW_LINK] = "slow-link",
    [ARGUS_VERDICT_HOST_STALL] = "host-stall",
    [ARGUS_VERDICT_DATA_STALL] = "data-stall",
    [ARGUS_VERDICT_JIT_STALL] = "jit-stall",
    [ARGUS_VERDICT_ALLOCATOR_STALL] = "allocator-stall",
    [ARGUS_VERDICT_PIPELINE_IMBALANCE] = "pipeline-imbalance",
    [ARGUS_VERDICT_WORKLOAD_IMBALANCE] = "workload-imbalance",
    [ARGUS_VERDICT_MOE_IMBALANCE] = "moe-imbalance",
    [ARGUS_VERDICT_UNIFORM_SLOWDOWN] = "uniform-slowdown",
    [ARGUS_VERDICT_SPLIT] = "split",
};

static const char *const severities[ARGUS_SEVERITY_COUNT] = {"none", "info", "warn", "critical"};

static int find(const char *const *names, int n, const char *name)
{
    for (int i = 0; name && i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

const char *argus_verdict_kind_name(enum argus_verdict_kind kind)
{
    return (unsigned)kind < ARGUS_VERDICT_COUNT ? kinds[kind] : "unknown";
}

const char *argus_severity_name(enum argus_severity severity)
{
    return (unsigned)severity < ARGUS_SEVERITY_COUNT ? severities[severity] : "unknown";
}

int argus_verdict_kind_from_name(const char *name)
{
    return find(kinds, ARGUS_VERDICT_COUNT, name);
}

int argus_severity_from_name(const char *name)
{
    return find(severities, ARGUS_SEVERITY_COUNT, name);
}

int argus_verdict_is_fail_slow(enum argus_verdict_kind kind)
{
    return kind != ARGUS_VERDICT_OK && kind != ARGUS_VERDICT_INSUFFICIENT_DATA;
}
