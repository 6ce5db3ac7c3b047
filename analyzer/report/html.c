/* SPDX-License-Identifier: Apache-2.0 */
/* The HTML report: one file that needs nothing else. */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"
#include "analyzer/report/words.h"
#include "analyzer/util/replace.h"

#define LIST_MAX 200 /* lines of a list that names ranks or sentences */

static const char style[] =
    ":root{color-scheme:light}"
    "body{margin:0 auto;max-width:62rem;padding:1rem 1.2rem 3rem;background:#fff;color:#1b1b1b;"
    "font:15px/1.5 system-ui,'Segoe UI','Liberation Sans','DejaVu Sans',sans-serif}"
    "h1{font-size:1.15rem;margin:.2rem 0 1rem;font-weight:600}"
    "h2{font-size:1.1rem;margin:2.2rem 0 .3rem;border-bottom:1px solid "
    "#d9d9d9;padding-bottom:.2rem}"
    ".how{color:#5a5a5a;margin:.2rem 0 .6rem;max-width:48rem}"
    ".card{border:1px solid #bbb;border-left:.6rem solid #5a5a5a;border-radius:4px;"
    "padding:.6rem 1rem 1rem}"
    ".card.ok{border-left-color:#1a6b2f}.card.info{border-left-color:#0b4f8a}"
    ".card.warn{border-left-color:#b26a00}.card.critical{border-left-color:#b3261e}"
    ".verdict{font-size:1.5rem;font-weight:700;margin:.2rem 0}"
    ".verdict small{font-size:.95rem;font-weight:400;color:#5a5a5a;margin-left:.6rem}"
    "dl{display:grid;grid-template-columns:7rem 1fr;gap:.15rem .6rem;margin:.6rem 0 0}"
    "dt{color:#5a5a5a}dd{margin:0}"
    ".badge{background:#b26a00;color:#fff;border-radius:3px;padding:.1rem .5rem;font-weight:600;"
    "font-size:.85rem;margin-left:.6rem}"
    "pre{background:#f4f4f2;border:1px solid #ddd;border-radius:3px;padding:.5rem "
    ".7rem;margin:.3rem 0;"
    "white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.4 ui-monospace,'DejaVu Sans Mono',"
    "monospace}"
    "img{max-width:100%;height:auto;display:block}"
    "figure{margin:0}figcaption{font:12px/1.3 ui-monospace,'DejaVu Sans Mono',monospace;"
    "overflow-wrap:anywhere}"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(22rem,1fr));gap:1rem}"
    "details{margin:.4rem 0}summary{cursor:pointer;color:#0b4f8a}"
    ".scroll{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:13px;margin:.4rem 0}"
    "th,td{text-align:left;padding:.15rem .7rem .15rem 0;border-bottom:1px solid #e6e6e6;"
    "vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "th.culprit{color:#b3261e}ul{margin:.3rem 0;padding-left:1.3rem}"
    "@media "
    "print{body{max-width:none;padding:0;font-size:11px}section,.card,figure{break-inside:avoid}"
    "details:not([open])>summary{display:none}h2{margin-top:1rem}}";

static void head(struct html *h)
{
    html_put(h, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "img-src data:; style-src 'unsafe-inline'\"><meta name=\"generator\" "
                "content=\"argus " PACKAGE_VERSION "\"><title>argus: ");
    html_text(h, argus_verdict_kind_name(h->v->kind));
    if (h->v->job.id && h->v->job.id[0])
        html_textf(h, ", job %s", h->v->job.id);
    /* An empty icon: the browser must not go and look for one. */
    html_put(h, "</title><link rel=\"icon\" href=\"data:,\"><style>");
    html_put(h, style);
    html_put(h, "</style></head>\n<body><main>\n<h1>argus");
    if (h->v->job.id && h->v->job.id[0])
        html_textf(h, " \xc2\xb7 job %s", h->v->job.id);
    if (h->v->job.step && h->v->job.step[0])
        html_textf(h, " \xc2\xb7 step %s", h->v->job.step);
    if (h->v->job.simulated)
        html_put(h, " <span class=\"badge\">SIMULATED GPU</span>");
    html_put(h, "</h1>\n");
}

static void entry(void *arg, const char *name, const char *text)
{
    struct html *h = arg;

    html_put(h, "<dt>");
    html_textf(h, "%c%s", toupper((unsigned char)name[0]), name + 1);
    html_put(h, "</dt><dd>");
    html_text(h, text);
    html_put(h, "</dd>");
}

static void card(struct html *h)
{
    const struct argus_verdict *v = h->v;
    const char *look = v->kind == ARGUS_VERDICT_OK ? "ok" : argus_severity_name(v->severity);

    fprintf(h->out, "<div class=\"card %s\" id=\"verdict\"><p class=\"verdict\">", look);
    html_text(h, argus_verdict_kind_name(v->kind));
    html_put(h, "<small>");
    if (argus_verdict_is_fail_slow(v->kind))
        html_textf(h, "%s, ", argus_severity_name(v->severity));
    if (!isnan(v->confidence))
        html_textf(h, "confidence %.2f", v->confidence);
    html_put(h, "</small></p>\n<p>");
    html_text(h, argus_words_meaning(v));
    html_put(h, "</p><dl>");
    argus_words_facts(v, entry, h);
    html_put(h, "</dl></div>\n");
}

static void next_steps(struct html *h)
{
    if (h->v->n_next == 0)
        return;
    html_section(h, "next", "What next", NULL);
    for (size_t i = 0; i < h->v->n_next; i++) {
        int command = argus_words_is_command(h->v->next[i]);

        html_put(h, command ? "<pre>" : "<p>");
        html_text(h, h->v->next[i]);
        html_put(h, command ? "</pre>\n" : "</p>\n");
    }
    html_section_end(h);
}

static void evidence(struct html *h)
{
    static const char *const columns[] = {"signal", "rank", "node", "value", "peers", "unit", ""};

    if (h->v->n_evidence == 0)
        return;
    html_section(h, "evidence", "Evidence", NULL);
    html_table(h, NULL, columns, 7);
    for (size_t i = 0; i < h->v->n_evidence && i < LIST_MAX; i++) {
        const struct argus_evidence_line *e = &h->v->evidence[i];
        char rank[16] = "";

        if (e->rank != ARGUS_UNKNOWN)
            snprintf(rank, sizeof(rank), "%d", e->rank);
        html_row(h);
        html_cell(h, e->signal);
        html_cell(h, rank);
        html_cell(h, e->node);
        html_cell_number(h, e->value);
        html_cell_number(h, e->peers);
        html_cell(h, e->unit);
        html_cell(h, e->note);
        html_row_end(h);
    }
    html_table_end(h, 0);
    html_section_end(h);
}

static void list(struct html *h, char *const *lines, size_t n)
{
    html_put(h, "<ul>");
    for (size_t i = 0; i < n && i < LIST_MAX; i++) {
        html_put(h, "<li>");
        html_text(h, lines[i]);
        html_put(h, "</li>\n");
    }
    if (n > LIST_MAX)
        html_textf(h, "and %zu more in verdict.json", n - LIST_MAX);
    html_put(h, "</ul>\n");
}

static void findings(struct html *h)
{
    static const char *const columns[] = {"verdict", "severity",    "who",       "pattern",
                                          "since",   "slow-down x", "GPU-hours", ""};
    char who[512];

    if (h->v->n_findings) {
        html_section(h, "findings", "Also found", NULL);
        html_table(h, NULL, columns, 8);
        for (size_t i = 0; i < h->v->n_findings && i < LIST_MAX; i++) {
            const struct argus_finding *f = &h->v->findings[i];

            argus_words_culprits(f->culprits, f->n_culprits, who, sizeof(who));
            html_row(h);
            html_cell(h, argus_verdict_kind_name(f->kind));
            html_cell(h, argus_severity_name(f->severity));
            html_cell(h, who);
            html_cell(h, f->pattern);
            html_cell_number(h, f->onset_step == ARGUS_UNKNOWN ? NAN : f->onset_step);
            html_cell_number(h, f->slowdown);
            html_cell_number(h, f->gpu_hours);
            html_cell(h, f->text);
            html_row_end(h);
        }
        html_table_end(h, 0);
        html_section_end(h);
    }
    if (h->v->n_explained) {
        html_section(h, "explained", "Explained by it", NULL);
        list(h, h->v->explained, h->v->n_explained);
        html_section_end(h);
    }
}

static void other_steps(struct html *h)
{
    static const char *const columns[] = {"step", "verdict", "severity", "slow-down x",
                                          "GPU-hours lost"};

    if (h->v->n_steps < 2)
        return;
    html_section(h, "job-steps", "Steps of the job", "This page shows the costliest.");
    html_table(h, NULL, columns, 5);
    for (size_t i = 0; i < h->v->n_steps && i < LIST_MAX; i++) {
        const struct argus_step_line *s = &h->v->steps[i];

        html_row(h);
        html_cell(h, s->step);
        html_cell(h, argus_verdict_kind_name(s->kind));
        html_cell(h, argus_severity_name(s->severity));
        html_cell_number(h, s->slowdown);
        html_cell_number(h, s->gpu_hours);
        html_row_end(h);
    }
    html_table_end(h, 0);
    html_section_end(h);
}

static void data_quality(struct html *h)
{
    const struct argus_verdict *v = h->v;

    html_section(h, "quality", "Data quality", NULL);
    html_put(h, "<p>");
    html_textf(h,
               "%d steps compared. Records dropped %" PRIu64 ", invalid %" PRIu64 ", late %" PRIu64
               ", torn %" PRIu64 "; gaps %" PRIu64 ".",
               v->data_quality.steps_compared, v->data_quality.dropped, v->data_quality.invalid,
               v->data_quality.late, v->data_quality.torn, v->data_quality.gaps);
    html_put(h, "</p>\n");
    if (v->data_quality.n_ranks_missing) {
        html_put(h, "<p>Ranks without a timeline:");
        for (size_t i = 0; i < v->data_quality.n_ranks_missing && i < LIST_MAX; i++)
            html_textf(h, " %d", v->data_quality.ranks_missing[i]);
        html_put(h, "</p>\n");
    }
    if (v->data_quality.n_nodes_missing) {
        html_put(h, "<p>No data of these nodes:</p>");
        list(h, v->data_quality.nodes_missing, v->data_quality.n_nodes_missing);
    }
    if (v->data_quality.n_notes)
        list(h, v->data_quality.notes, v->data_quality.n_notes);
    html_section_end(h);
}

static void page(struct html *h)
{
    head(h);
    card(h);
    next_steps(h);
    evidence(h);
    if (h->m) {
        html_steps(h);
        html_stages(h);
        html_heat_maps(h);
        html_kernels(h);
        html_collectives(h);
        html_stacks(h);
    }
    findings(h);
    other_steps(h);
    data_quality(h);
    html_put(h, "</main></body></html>\n");
}

int argus_report_html_to(FILE *out, const struct argus_verdict *v, const struct argus_model *m,
                         argus_error_t *err)
{
    struct html h = {.v = v, .m = m, .out = out};

    page(&h);
    if (h.failed)
        return argus_error(err, "no memory for a picture");
    return fflush(out) || ferror(out) ? argus_error(err, "%s", strerror(errno)) : 0;
}

int argus_report_html(const char *path, const struct argus_verdict *v, const struct argus_model *m,
                      argus_error_t *err)
{
    struct argus_replacement r;
    struct html h = {.v = v, .m = m};

    if (argus_replace_open(&r, path, err))
        return -1;
    h.out = r.out;
    page(&h);
    return argus_replace_finish(&r, h.failed ? "no memory for a picture" : NULL, 0, err);
}
