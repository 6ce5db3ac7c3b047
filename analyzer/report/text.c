/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal report: the verdict's card, its evidence, then what the rest of the data says. */
#include <config.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/page.h"
#include "analyzer/report/report.h"
#include "analyzer/report/stacks.h"
#include "analyzer/report/strips.h"
#include "analyzer/report/words.h"
#include "analyzer/util/replace.h"

#define LABEL 12         /* column of the card's values */
#define EVIDENCE_ROWS 16 /* lines of a table before "and N more" */
#define LIST_ROWS 12
#define STACK_ROWS 3 /* CPU stacks, the most frequent first */
#define CALLERS 4    /* of the innermost frame */

static enum argus_ink severity_ink(const struct argus_verdict *v)
{
    static const enum argus_ink ink[ARGUS_SEVERITY_COUNT] = {ARGUS_INK_PLAIN, ARGUS_INK_INFO,
                                                             ARGUS_INK_WARN, ARGUS_INK_BAD};

    if (v->kind == ARGUS_VERDICT_OK)
        return ARGUS_INK_GOOD;
    return (unsigned)v->severity < ARGUS_SEVERITY_COUNT ? ink[v->severity] : ARGUS_INK_PLAIN;
}

static void card_line(void *page, const char *label, const char *text)
{
    struct argus_page *p = page;

    argus_page_put(p, "  ");
    argus_page_ink(p, ARGUS_INK_DIM);
    argus_page_put(p, label);
    argus_page_ink(p, ARGUS_INK_PLAIN);
    argus_page_tab(p, LABEL);
    argus_page_wrap(p, LABEL, text);
}

static void title(struct argus_page *p, const struct argus_verdict *v)
{
    argus_page_ink(p, ARGUS_INK_BOLD);
    argus_page_put(p, "argus");
    argus_page_ink(p, ARGUS_INK_PLAIN);
    if (v->job.id && v->job.id[0])
        argus_page_printf(p, "  job %.40s", v->job.id);
    if (v->job.step && v->job.step[0])
        argus_page_printf(p, "  step %.24s", v->job.step);
    if (v->job.simulated) {
        argus_page_tab(p, p->options.columns - 13);
        argus_page_ink(p, ARGUS_INK_WARN);
        argus_page_put(p, "SIMULATED GPU");
        argus_page_ink(p, ARGUS_INK_PLAIN);
    }
    argus_page_put(p, "\n");
    argus_page_rule(p);
}

static void card(struct argus_page *p, const struct argus_verdict *v)
{
    argus_page_put(p, "  ");
    argus_page_ink(p, severity_ink(v));
    argus_page_put(p, argus_verdict_kind_name(v->kind));
    if (argus_verdict_is_fail_slow(v->kind))
        argus_page_printf(p, " (%s)", argus_severity_name(v->severity));
    argus_page_ink(p, ARGUS_INK_PLAIN);
    if (!isnan(v->confidence)) {
        argus_page_tab(p, p->options.columns - 15);
        argus_page_printf(p, "confidence %.2f", v->confidence);
    }
    argus_page_put(p, "\n\n");
    card_line(p, "what", argus_words_meaning(v));
    argus_words_facts(v, card_line, p);
}

static void next_steps(struct argus_page *p, const struct argus_verdict *v)
{
    if (v->n_next == 0)
        return;
    argus_page_heading(p, "What next");
    for (size_t i = 0; i < v->n_next; i++) {
        if (argus_words_is_command(v->next[i])) {
            argus_page_put(p, "  $ ");
            argus_page_command(p, 6, v->next[i]);
        } else {
            argus_page_put(p, "  - ");
            argus_page_wrap(p, 4, v->next[i]);
        }
    }
}

static void evidence(struct argus_page *p, const struct argus_verdict *v)
{
    char value[32], peers[32];

    if (v->n_evidence == 0)
        return;
    argus_page_heading(p, "Evidence");
    argus_page_ink(p, ARGUS_INK_DIM);
    argus_page_printf(p, "  %-30s %6s %-14s %10s %10s\n", "signal", "rank", "node", "value",
                      "peers");
    argus_page_ink(p, ARGUS_INK_PLAIN);
    for (size_t i = 0; i < v->n_evidence && i < EVIDENCE_ROWS; i++) {
        const struct argus_evidence_line *e = &v->evidence[i];
        char signal[96], rank[16] = "";

        snprintf(signal, sizeof(signal), e->unit && e->unit[0] ? "%.60s [%.16s]" : "%.60s",
                 e->signal ? e->signal : "?", e->unit);
        if (e->rank != ARGUS_UNKNOWN)
            snprintf(rank, sizeof(rank), "%d", e->rank);
        argus_words_number(e->value, value, sizeof(value));
        argus_words_number(e->peers, peers, sizeof(peers));
        argus_page_printf(p, "  %-30.30s %6s %-14.14s %10s %10s\n", signal, rank,
                          e->node ? e->node : "", value, peers);
        if (e->note) {
            argus_page_tab(p, 6);
            argus_page_wrap(p, 6, e->note);
        }
    }
    if (v->n_evidence > EVIDENCE_ROWS)
        argus_page_printf(p, "  and %zu more in verdict.json\n", v->n_evidence - EVIDENCE_ROWS);
}

static void sentences(struct argus_page *p, const char *heading, char *const *list, size_t n)
{
    if (n == 0)
        return;
    argus_page_heading(p, heading);
    for (size_t i = 0; i < n && i < LIST_ROWS; i++) {
        argus_page_put(p, "  - ");
        argus_page_wrap(p, 4, list[i]);
    }
    if (n > LIST_ROWS)
        argus_page_printf(p, "  and %zu more in verdict.json\n", n - LIST_ROWS);
}

/* "  in a; b": those who called the innermost frame, `n` bytes of the folded stack; a few of them tell where. */
static void callers(struct argus_page *p, const char *folded, size_t n)
{
    size_t first = n;
    char *text;

    for (int k = 0; k < CALLERS && first > 0; k++)
        while (--first > 0 && folded[first] != ';')
            ;
    first += folded[first] == ';';
    if (n <= first || !(text = calloc(1, 4 + 2 * (n - first))))
        return;
    strcpy(text, "in ");
    for (size_t i = first, at = 3; i < n; i++) {
        text[at++] = folded[i];
        if (folded[i] == ';')
            text[at++] = ' ';
    }
    argus_page_tab(p, 8);
    argus_page_wrap(p, 8, text);
    free(text);
}

/* What the host was doing while its GPU starved. */
static void stacks(struct argus_page *p, const struct argus_verdict *v, const struct argus_model *m)
{
    struct argus_stacks *s = argus_strips_is_stall(v->kind) ? argus_stacks_load(m, v) : NULL;
    char heading[96], samples[32];

    if (!s)
        return;
    argus_words_count((long)s->samples, "sample", samples, sizeof(samples));
    snprintf(heading, sizeof(heading), "CPU stacks of rank %d%s, %s", s->rank,
             s->starved ? " while its GPU starved" : "", samples);
    argus_page_heading(p, heading);
    for (size_t i = 0; i < s->n && i < STACK_ROWS; i++) {
        const char *inner = strrchr(s->items[i].folded, ';');

        argus_page_printf(p, "  %3.0f %%", 100 * s->items[i].samples / s->samples);
        argus_page_tab(p, 8);
        argus_page_wrap(p, 8, inner ? inner + 1 : s->items[i].folded);
        if (inner)
            callers(p, s->items[i].folded, (size_t)(inner - s->items[i].folded));
    }
    argus_stacks_destroy(s);
}

static void findings(struct argus_page *p, const struct argus_verdict *v)
{
    char who[256], detail[512];

    if (v->n_findings == 0)
        return;
    argus_page_heading(p, "Also found");
    for (size_t i = 0; i < v->n_findings && i < LIST_ROWS; i++) {
        const struct argus_finding *f = &v->findings[i];

        argus_words_culprits(f->culprits, f->n_culprits, who, sizeof(who));
        snprintf(detail, sizeof(detail), "%s (%s)%s%s%s%s", argus_verdict_kind_name(f->kind),
                 argus_severity_name(f->severity), who[0] ? ": " : "", who, f->pattern ? ", " : "",
                 f->pattern ? f->pattern : "");
        argus_page_put(p, "  - ");
        argus_page_wrap(p, 4, detail);
        if (f->text) {
            argus_page_tab(p, 4);
            argus_page_wrap(p, 4, f->text);
        }
    }
}

static void other_steps(struct argus_page *p, const struct argus_verdict *v)
{
    char hours[32];

    if (v->n_steps < 2)
        return;
    argus_page_heading(p, "Steps of the job");
    for (size_t i = 0; i < v->n_steps && i < 2 * LIST_ROWS; i++) {
        const struct argus_step_line *s = &v->steps[i];

        argus_words_number(s->gpu_hours, hours, sizeof(hours));
        argus_page_printf(p, "  %-12.12s %-20s %-9s", s->step ? s->step : "?",
                          argus_verdict_kind_name(s->kind), argus_severity_name(s->severity));
        if (isfinite(s->slowdown))
            argus_page_printf(p, " %6.2fx  %s GPU-hours", s->slowdown, hours);
        argus_page_put(p, "\n");
    }
}

static void data_quality(struct argus_page *p, const struct argus_verdict *v)
{
    char line[512];

    argus_page_heading(p, "Data quality");
    snprintf(line, sizeof(line),
             "%d steps compared; records dropped %" PRIu64 ", invalid %" PRIu64 ", late %" PRIu64
             ", torn %" PRIu64 "; gaps %" PRIu64,
             v->data_quality.steps_compared, v->data_quality.dropped, v->data_quality.invalid,
             v->data_quality.late, v->data_quality.torn, v->data_quality.gaps);
    argus_page_put(p, "  ");
    argus_page_wrap(p, 2, line);
    if (v->data_quality.n_ranks_missing) {
        argus_page_printf(p, "  ranks without a timeline:");
        for (size_t i = 0; i < v->data_quality.n_ranks_missing && i < 8; i++)
            argus_page_printf(p, " %d", v->data_quality.ranks_missing[i]);
        if (v->data_quality.n_ranks_missing > 8)
            argus_page_printf(p, " and %zu more", v->data_quality.n_ranks_missing - 8);
        argus_page_put(p, "\n");
    }
    for (size_t i = 0; i < v->data_quality.n_nodes_missing && i < LIST_ROWS; i++)
        argus_page_printf(p, "  no data of node %.60s\n", v->data_quality.nodes_missing[i]);
    for (size_t i = 0; i < v->data_quality.n_notes && i < LIST_ROWS; i++) {
        argus_page_put(p, "  - ");
        argus_page_wrap(p, 4, v->data_quality.notes[i]);
    }
}

int argus_report_text(FILE *out, const struct argus_verdict *v, const struct argus_model *m,
                      const struct argus_report_options *options)
{
    struct argus_page p;

    argus_page_begin(&p, out, options);
    title(&p, v);
    card(&p, v);
    next_steps(&p, v);
    evidence(&p, v);
    if (m) {
        stacks(&p, v, m);
        argus_strips(&p, v, m);
    }
    findings(&p, v);
    sentences(&p, "Explained by it", v->explained, v->n_explained);
    other_steps(&p, v);
    data_quality(&p, v);
    return fflush(out) || ferror(out) ? -1 : 0;
}

static int write_text(const char *path, const struct argus_verdict *v, const struct argus_model *m,
                      argus_error_t *err)
{
    struct argus_report_options options = {.utf8 = 1, .columns = 80};
    struct argus_replacement r;

    if (argus_replace_open(&r, path, err))
        return -1;
    argus_report_text(r.out, v, m, &options); /* what fails stays with the stream */
    return argus_replace_finish(&r, NULL, 0, err);
}

int argus_report_write(const char *dir, const struct argus_verdict *v, const struct argus_model *m,
                       argus_error_t *err)
{
    char *text = NULL, *html = NULL;
    int rc = -1;

    if (asprintf(&text, "%s/report.txt", dir) < 0)
        text = NULL;
    if (asprintf(&html, "%s/report.html", dir) < 0)
        html = NULL;
    if (!text || !html)
        argus_error(err, "%s: no memory for the report", dir);
    else
        rc = write_text(text, v, m, err) || argus_report_html(html, v, m, err) ? -1 : 0;
    free(text);
    free(html);
    return rc;
}
