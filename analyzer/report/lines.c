/* SPDX-License-Identifier: Apache-2.0 */
/* The three lines at the end of a step. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/report/report.h"
#include "analyzer/report/words.h"

#define LINE 1024

/* Names come from the job: a line stays one line, and nothing talks to the terminal. */
static void plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

static void second_line(const struct argus_verdict *v, char *out, size_t size)
{
    char who[LINE / 4], since[LINE / 4], cost[LINE / 4];

    if (argus_verdict_is_fail_slow(v->kind)) {
        argus_words_who(v, who, sizeof(who));
        argus_words_since(v, since, sizeof(since));
        argus_words_cost(v, cost, sizeof(cost));
        if (v->onset_step == ARGUS_UNKNOWN)
            snprintf(out, size, "%s; %s; %s", who, since, cost);
        else
            snprintf(out, size, "%s; since %s; %s", who, since, cost);
        return;
    }
    argus_words_job(v, who, sizeof(who));
    if (v->kind == ARGUS_VERDICT_INSUFFICIENT_DATA && v->subkind)
        snprintf(out, size, "%s; missing: %s", who, v->subkind);
    else
        snprintf(out, size, "%s", who);
}

int argus_report_summary(FILE *out, const struct argus_verdict *v, const char *dir)
{
    char first[LINE], second[LINE], third[2 * LINE], all[4 * LINE + 64];
    int fault = argus_verdict_is_fail_slow(v->kind);

    snprintf(first, sizeof(first), "%s%s%s%s: %s%s", argus_verdict_kind_name(v->kind),
             fault ? " (" : "", fault ? argus_severity_name(v->severity) : "", fault ? ")" : "",
             argus_words_meaning(v), v->job.simulated ? " [SIMULATED GPU]" : "");
    second_line(v, second, sizeof(second));
    snprintf(third, sizeof(third),
             "report: argus report %s (or its report.html), when the job is over", dir);
    plain(first);
    plain(second);
    plain(third);
    /* In one piece: all of it or nothing, whatever else writes there. */
    snprintf(all, sizeof(all), "argus: %s\nargus: %s\nargus: %s\n", first, second, third);
    return fputs(all, out) < 0 || fflush(out) ? -1 : 0;
}
