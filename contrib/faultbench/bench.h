/* SPDX-License-Identifier: Apache-2.0 */
/* Exam: what is true of a job, what was answered, and how that scores. */
#ifndef FAULTBENCH_BENCH_H
#define FAULTBENCH_BENCH_H

#include <argus/verdict.h>
#include <stdio.h>

#include "contrib/faultbench/job.h"

struct fb_truth {
    double slowdown; /* measured: mean step time against the same job without the fault */
    double loss_ms;  /* a step */
    int counts;      /* 1: dear enough (>= 3 %, >= 1 ms a step) that it has to be found */
    enum argus_verdict_kind kind;
    int also; /* a second verdict that is right too (small peer groups: split), -1 */
    int rank, node, stage, onset;
};

struct fb_answer {
    enum argus_verdict_kind kind;
    int culprit_right; /* of the ranks, node or stage that the truth names */
    int onset;
    double seconds;
    double slowdown;
};

/* Mean step time of the steps in which the fault acts, ns. */
double fb_mean_step(const struct fb_result *r, int from, int to);
void fb_truth_of(const struct fb_result *faulty, const struct fb_result *healthy,
                 struct fb_truth *t);
/* The job's timelines are made in `dir`, and stay there when they are to be kept. */
int fb_judge(const struct fb_result *r, const struct fb_truth *t, const char *dir, int keep,
             struct fb_answer *a, char *error, size_t error_size);

/* ---- rivals.c: published or customary rules, on the raw events ---------- */

enum fb_rule {
    FB_RULE_SLOWEST_STEP, /* blame the longest mean step time */
    FB_RULE_Z2,           /* z >= 2 on compute time */
    FB_RULE_CV15,         /* CV >= 0.15 on compute time, then the largest */
    FB_RULE_W1_IQR,       /* mean W1 above Q3 + 1.5 IQR, heaviest class (ARGUS paper) */
    FB_RULE_NVRX,         /* relative score < 0.75 against the minimum (NVRx) */
    FB_RULE_HTA,          /* last starter of the widest communication kernel (HTA) */
    FB_RULE_BUSBW,        /* kernel-time bus bandwidth under 0.8 of siblings (Inspector) */
    FB_RULE_COUNT
};
const char *fb_rule_name(enum fb_rule rule);
#define FB_BLAME_NOBODY (-1)
#define FB_BLAME_SEVERAL (-2)
#define FB_BLAME_GROUP(g) (-10 - (int)(g)) /* a communicator's link */
/* The rank the rule blames, or one of the above. */
int fb_rule_blame(const struct fb_result *r, enum fb_rule rule);

/* ---- score.c ------------------------------------------------------------ */

#define FB_MAGNITUDES 16

struct fb_score {
    /* [fault]: jobs that had to be found, found (right verdict), with the right culprit */
    int jobs[FB_FAULT_COUNT], found[FB_FAULT_COUNT], culprit[FB_FAULT_COUNT];
    int below[FB_FAULT_COUNT];        /* too cheap to count */
    int below_blamed[FB_FAULT_COUNT]; /* ... and yet a wrong verdict */
    int healthy_jobs, healthy_blamed;
    int confusion[FB_FAULT_COUNT][ARGUS_VERDICT_COUNT];
    double onset_error[FB_FAULT_COUNT];
    int onset_count[FB_FAULT_COUNT];
    /* smallest magnitude found */
    double magnitude[FB_FAULT_COUNT][FB_MAGNITUDES];
    int magnitude_jobs[FB_FAULT_COUNT][FB_MAGNITUDES],
        magnitude_found[FB_FAULT_COUNT][FB_MAGNITUDES];
    int magnitudes[FB_FAULT_COUNT];
    int rule_right[FB_FAULT_COUNT]
                  [FB_RULE_COUNT]; /* the rule blamed the right rank (nobody, if healthy) */
    int rule_jobs[FB_FAULT_COUNT];
    double seconds;
    int analyses;
};
void fb_score_add(struct fb_score *s, const struct fb_spec *spec, const struct fb_truth *t,
                  const struct fb_answer *a);
void fb_score_rules(struct fb_score *s, const struct fb_result *r, const struct fb_truth *t);
void fb_score_print(const struct fb_score *s, FILE *out);
int fb_score_json(const struct fb_score *s, const char *path);
/* Recall per fault and magnitude as a picture (SVG). */
int fb_score_picture(const struct fb_score *s, const char *path);
double fb_precision(const struct fb_score *s, enum fb_fault_kind kind);
double fb_recall(const struct fb_score *s, enum fb_fault_kind kind);
/* 0; -1 when a class lost more than noise allows against the recorded table (a JSON of this program). */
int fb_score_compare(const struct fb_score *s, const char *baseline, FILE *out);

#endif /* FAULTBENCH_BENCH_H */
