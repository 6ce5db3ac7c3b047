/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <argus/record.h>

#include "analyzer/report/kernel_modes.h"
#include "analyzer/report/report.h"
#include "analyzer/report/test_model.h"
#include "analyzer/report/view.h"
#include "analyzer/report/words.h"
#include "analyzer/timeline/timeline_io.h"
#include "analyzer/verdict/build.h"

static char *text_of(const struct argus_verdict *v, const struct argus_model *m, int utf8,
                     int colour)
{
    struct argus_report_options options = {.utf8 = utf8, .colour = colour, .columns = 80};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(argus_report_text(out, v, m, &options), 0);
    fclose(out);
    return text;
}

/* Every line fits, and nothing but text and line feeds is there. */
static void check_lines(const char *text, int utf8)
{
    int width = 0;

    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s == '\n') {
            width = 0;
            continue;
        }
        assert_true(*s >= 0x20 && *s != 0x7f && (utf8 || *s < 0x80));
        width += (*s & 0xc0) != 0x80;
        if (width > 80)
            fail_msg("too wide: %.120s", (const char *)s - 80);
    }
}

static void every_case_at_every_size(void **state)
{
    static const int ranks[] = {1, 2, 8, 20, 64, 1024};

    (void)state;
    for (int kind = 0; kind < TEST_CASES; kind++) {
        for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
            int pp = kind == TEST_PIPELINE && ranks[i] >= 8 ? 4 : 1;
            struct argus_model *m = test_model_create((enum test_case)kind, ranks[i], 90, pp);
            struct argus_verdict *v = test_verdict_create((enum test_case)kind, m);

            for (int utf8 = 0; utf8 < 2; utf8++) {
                char *text = text_of(v, m, utf8, 0);

                check_lines(text, utf8);
                assert_non_null(strstr(text, argus_verdict_kind_name(v->kind)));
                assert_non_null(strstr(text, "SIMULATED GPU"));
                free(text);
            }
            argus_verdict_destroy(v);
            test_model_destroy(m);
        }
    }
}

static void the_card_says_it_all(void **state)
{
    struct argus_model *m = test_model_create(TEST_STRAGGLER, 16, 300, 2);
    struct argus_verdict *v = test_verdict_create(TEST_STRAGGLER, m);
    char *text = text_of(v, m, 0, 0);

    (void)state;
    assert_non_null(strstr(text, "compute-straggler (critical)"));
    assert_non_null(strstr(text, "  kind      clock: all kernels are slower alike\n"));
    assert_non_null(strstr(text, "rank 10 on n02, GPU 2 (GPU-0a1b2c3d)"));
    assert_non_null(strstr(text, "step 100 of 300, persistent"));
    assert_non_null(strstr(text, "1.24x as long"));
    assert_non_null(strstr(text, "$ scontrol update nodename=n02 state=drain \\\n"));
    assert_non_null(strstr(text, "      reason=\"argus: compute straggler, job 4711\""));
    assert_non_null(strstr(text, "> rank 10 n02       ....................@"));
    assert_non_null(strstr(text, "^ step 100"));
    free(text);
    /* Without a model there is no picture, and nothing else is missing. */
    text = text_of(v, NULL, 0, 0);
    assert_null(strstr(text, "Step time"));
    assert_non_null(strstr(text, "compute_score"));
    free(text);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

static void colours_only_when_asked(void **state)
{
    struct argus_model *m = test_model_create(TEST_STRAGGLER, 8, 60, 1);
    struct argus_verdict *v = test_verdict_create(TEST_STRAGGLER, m);
    char *text = text_of(v, m, 1, 1);

    (void)state;
    assert_non_null(strstr(text, "\033[1;31mcompute-straggler"));
    free(text);
    text = text_of(v, m, 1, 0);
    assert_null(strchr(text, '\033'));
    free(text);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

/* What a job writes into names must not steer the reader's terminal. */
static void hostile_names_are_harmless(void **state)
{
    static const char evil[] = "n1\033[2J\x9b\xc2\x9b"
                               "31m\r\a\xff\xc3\xa9";
    struct argus_verdict *v = argus_verdict_create();
    char *text, *longer = calloc(1, 3000);

    (void)state;
    v->kind = ARGUS_VERDICT_HOST_STALL;
    argus_verdict_add_culprit(v, 1, 0, evil, evil);
    argus_verdict_add_evidence(v, evil, 1, evil, 1, 1, evil, evil);
    argus_verdict_add_note(v, "%s", evil);
    argus_verdict_add_next(v, "srun %s\n%s", evil, evil);
    argus_verdict_add_explained(v, "%s", evil);
    argus_verdict_set(&v->job.id, evil);
    argus_verdict_set(&v->subkind, evil);
    for (int utf8 = 0; utf8 < 2; utf8++) {
        text = text_of(v, NULL, utf8, 0);
        check_lines(text, utf8);
        assert_int_equal(strstr(text, "\xc3\xa9") != NULL, utf8);
        free(text);
    }
    memset(longer, 'x', 2999);
    argus_verdict_add_next(v, "srun %s", longer);
    argus_verdict_set(&v->job.step, longer);
    text = text_of(v, NULL, 1, 0);
    assert_non_null(strstr(text, longer));
    free(text);
    free(longer);
    argus_verdict_destroy(v);
}

static void views_keep_the_culprit(void **state)
{
    static const int ranks[] = {8, 64, 1024};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct argus_model *m = test_model_create(TEST_STRAGGLER, ranks[i], 120, 1);
        struct argus_verdict *v = test_verdict_create(TEST_STRAGGLER, m);
        struct argus_view *view = argus_view_create(m, v, ARGUS_VIEW_COMPUTE, 16, 40);
        size_t in_rows = 0, culprits = 0;

        assert_non_null(view);
        assert_true(view->n_rows <= 16 && view->n_columns == 40);
        for (size_t r = 0; r < view->n_rows; r++) {
            in_rows += view->rows[r].n_ranks;
            culprits += (size_t)view->rows[r].culprit;
            if (view->rows[r].culprit) {
                assert_float_equal(view->rows[r].value[39], 1.3, 0.03);
                assert_float_equal(view->rows[r].value[5], 1.0, 0.03);
            } else {
                assert_float_equal(view->rows[r].typical, 1.0, 0.03);
            }
        }
        assert_int_equal(in_rows, ranks[i]); /* every rank is in one row */
        assert_int_equal(culprits, 1);
        argus_view_destroy(view);
        argus_verdict_destroy(v);
        test_model_destroy(m);
    }
}

/* The one row that belongs to a culprit, in its last column. */
static float culprits_last(const struct argus_model *m, const struct argus_verdict *v)
{
    struct argus_view *view = argus_view_create(m, v, ARGUS_VIEW_COMPUTE, 16, 40);
    float value = NAN;

    assert_non_null(view);
    for (size_t r = 0; r < view->n_rows; r++) {
        if (view->rows[r].culprit)
            value = view->rows[r].value[view->n_columns - 1];
        else
            assert_float_equal(view->rows[r].typical, 1.0, 0.03);
    }
    argus_view_destroy(view);
    return value;
}

/* A slow rank shows by its whole excess where it has one peer, none, or one that is given as much work. */
static void few_peers_are_enough(void **state)
{
    static const enum argus_verdict_kind kinds[] = {ARGUS_VERDICT_COMPUTE_STRAGGLER,
                                                    ARGUS_VERDICT_WORKLOAD_IMBALANCE};

    (void)state;
    for (int n = 2; n <= 8; n += 6) {
        for (int k = 0; k < 2; k++) {
            struct argus_model *m = test_model_create(TEST_STRAGGLER, n, 120, 1);
            struct argus_verdict *v = test_verdict_create(TEST_STRAGGLER, m);
            int slow = v->culprits[0].rank, other[8], peers = 0;
            struct argus_peer_set sets[2] = {{.ranks = &slow, .n = 1}, {.ranks = other}};
            struct argus_peer_set *own = m->peer_sets;

            v->kind = kinds[k];
            assert_float_equal(culprits_last(m, v), 1.3, 0.03);
            for (int r = 0; r < n; r++)
                if (r != slow)
                    other[peers++] = r;
            sets[1].n = (size_t)peers;
            m->peer_sets = sets;
            m->n_peer_sets = 2;
            assert_float_equal(culprits_last(m, v), 1.3, 0.03);
            m->peer_sets = own;
            m->n_peer_sets = 1;
            argus_verdict_destroy(v);
            test_model_destroy(m);
        }
    }
}

static void slow_group_leads(void **state)
{
    struct argus_model *m = test_model_create(TEST_LINK, 32, 100, 4);
    struct argus_verdict *v = test_verdict_create(TEST_LINK, m);
    struct argus_view *view = argus_view_work(m, 3, 50);
    char *text, *at;
    int column = 0;

    (void)state;
    assert_non_null(view);
    assert_int_equal(view->n_rows, 3);
    assert_non_null(strstr(view->rows[0].label, "dp_0 all-reduce 64 MiB"));
    assert_float_equal(view->rows[0].typical, 3, 0.1);
    assert_float_equal(view->rows[1].typical, 1, 0.05);
    argus_view_destroy(view);
    /* On the terminal the label has its size, too, and the onset stands under its step. */
    v->onset_step = 40;
    text = text_of(v, m, 0, 0);
    check_lines(text, 0);
    assert_non_null(strstr(text, "  dp_0 all-reduce 64 MiB       @@@@"));
    at = strstr(text, "Transfer time against sibling groups");
    assert_non_null(at);
    at = strstr(at, "^ step 40");
    assert_non_null(at);
    while (column < 80 && at[-1 - column] != '\n')
        column++;
    assert_int_equal(column, 30 + 40 / 2);
    assert_non_null(strstr(text, "waiting (.), of a step\n"));
    assert_non_null(strstr(text, " compute 30.0 ms\n"));
    free(text);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

/* Sends of one pipeline, one of them over the network: it is no slow one of the others. */
static void ways_of_unlike_kind(void **state)
{
    struct argus_model *m = test_model_create(TEST_HEALTHY, 16, 100, 2);
    struct argus_view *view;
    static const int ends[2][2] = {{6, 7}, {0, 1}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct argus_comm_class *c = &m->comm_classes[i];

        /* Both groups have members on both nodes. */
        for (int k = 0; k < 8; k++)
            m->groups[i].members[k] = k < 7 ? k + i : 8 + i;
        m->groups[i].nodes = 2;
        c->func = ARGUS_FUNC_SEND;
        c->from = ends[i][0];
        c->to = ends[i][1];
        for (int k = 0; k < 100; k++)
            c->work[k] *= i ? 1.0F : 6.0F;
    }
    view = argus_view_work(m, 4, 50);
    assert_non_null(view);
    assert_int_equal(view->n_rows, 2);
    assert_float_equal(view->rows[0].typical, 1, 0.1);
    argus_view_destroy(view);
    /* Of two over the network the slow one is slow. */
    m->comm_classes[1].from = 6;
    m->comm_classes[1].to = 7;
    view = argus_view_work(m, 4, 50);
    assert_non_null(view);
    assert_float_equal(view->rows[0].typical, 6, 0.5);
    argus_view_destroy(view);
    test_model_destroy(m);
}

static void holes_are_no_data(void **state)
{
    struct argus_model *m = test_model_create(TEST_HEALTHY, 8, 60, 1);
    struct argus_verdict *v = test_verdict_create(TEST_HEALTHY, m);
    char *text;

    (void)state;
    for (int k = 0; k < 60; k++)
        for (int c = 0; c < ARGUS_COL_COUNT; c++)
            m->ranks[3].col[c][k] = NAN;
    text = text_of(v, m, 1, 0);
    check_lines(text, 1);
    free(text);
    for (int k = 0; k < 60; k++)
        m->use[k] = 0;
    text = text_of(v, m, 1, 0);
    assert_null(strstr(text, "Step time"));
    free(text);
    m->n_steps = 0;
    text = text_of(v, m, 1, 0);
    assert_non_null(strstr(text, "Data quality"));
    free(text);
    m->n_steps = 60;
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

static void figures(void **state)
{
    static const struct {
        double ns;
        const char *text;
    } cases[] = {{0, "0.00 ns"},     {999, "999 ns"},      {1500, "1.50 us"},
                 {1.93e9, "1.93 s"}, {12.34e6, "12.3 ms"}, {NAN, "-"}};
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        argus_words_duration(cases[i].ns, out, sizeof(out));
        assert_string_equal(out, cases[i].text);
    }
    argus_words_number(0.74, out, sizeof(out));
    assert_string_equal(out, "0.740");
    argus_words_number(36.77, out, sizeof(out));
    assert_string_equal(out, "36.8");
    argus_words_number(INFINITY, out, sizeof(out));
    assert_string_equal(out, "-");
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text;
    long n;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    n = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    return text;
}

static uint32_t intern(argus_timeline_writer_t *w, const char *s)
{
    return argus_timeline_add_string(w, s, strlen(s));
}

/* A rank with one kernel in two windows, the second `factor` longer, and CPU stacks. */
static void write_timeline(const char *path, int rank, double factor)
{
    struct argus_timeline_info info = {.rank = rank, .world = 8, .node = "n01", .source = "argus"};
    argus_timeline_writer_t *w = argus_timeline_create(path, &info, 1, NULL);
    struct argus_class_row class = {.kind = ARGUS_CLASS_COMPUTE,
                                    .grid = {108, 1, 1},
                                    .block = {256, 1, 1},
                                    .comm = ARGUS_NONE,
                                    .peer = -1};

    assert_non_null(w);
    class.name = intern(w, "gemm<\"a&b\">");
    assert_int_equal(argus_timeline_append(w, ARGUS_DS_CLASSES, &class, 1, NULL), 0);
    for (int k = 0; k < 2; k++) {
        int64_t p50 = (int64_t)(100000 * (k ? factor : 1));
        struct argus_cluster_row row = {.first_step = k * 32,
                                        .last_step = k * 32 + 31,
                                        .clusters = 1,
                                        .count = 320,
                                        .p50 = p50,
                                        .p99 = p50 * 11 / 10,
                                        .sum = p50 * 320,
                                        .min = p50 * 9 / 10,
                                        .max = p50 * 12 / 10};

        assert_int_equal(argus_timeline_append(w, ARGUS_DS_CLUSTERS, &row, 1, NULL), 0);
    }
    for (int i = 0; i < 30; i++) {
        static const char *const folded[] = {"main (train.py:1);step (train.py:9);collect (gc)",
                                             "main (train.py:1);step (train.py:9);log (w.py:3)",
                                             "main (train.py:1);<script>alert(1)</script>"};
        struct argus_stack_row row = {.time = i, .starved = i < 20, .step = i};

        row.folded = intern(w, folded[i < 15 ? 0 : i < 20 ? 1 : 2]);
        assert_int_equal(argus_timeline_append(w, ARGUS_DS_STACKS, &row, 1, NULL), 0);
    }
    assert_int_equal(argus_timeline_seal(w, "exit", NULL), 0);
}

static void html_reads_timelines(void **state)
{
    struct argus_model *m = test_model_create(TEST_STRAGGLER, 8, 64, 1);
    struct argus_verdict *v = test_verdict_create(TEST_STRAGGLER, m);
    char dir[] = "/tmp/argus-report-XXXXXX", path[64], page[64], *text;
    struct argus_kernel_modes *list;
    argus_error_t err = {""};
    size_t n;

    (void)state;
    assert_non_null(mkdtemp(dir));
    v->onset_step = 32;
    for (int r = 0; r < 8; r++) {
        snprintf(path, sizeof(path), "%s/rank-%05d.h5", dir, r);
        write_timeline(path, r, r == v->culprits[0].rank ? 1.5 : 1);
        m->ranks[r].path = strdup(path);
    }
    /* Only the window behind the onset counts. */
    list = argus_kernel_modes_load(m, (size_t)v->culprits[0].rank, 32, &n);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].n_modes, 1);
    assert_int_equal(list[0].modes[0].p50, 150000);
    argus_kernel_modes_free(list, n);

    snprintf(page, sizeof(page), "%s/report.html", dir);
    if (argus_report_html(page, v, m, &err) < 0)
        fail_msg("%s", err.text);
    text = slurp(page);
    assert_non_null(strstr(text, "id=\"kernels\""));
    assert_non_null(strstr(text, "gemm&lt;&quot;a&amp;b&quot;&gt;"));
    assert_non_null(strstr(text, "<td class=\"n\">150 us</td><td class=\"n\">100 us</td>"));
    assert_non_null(strstr(text, "id=\"stacks\""));
    /* Samples of a GPU that did not starve stay out, and with them what wants to be markup. */
    assert_non_null(
        strstr(text, "collect (gc)</td><td class=\"n\">15</td><td class=\"n\">75</td>"));
    assert_null(strstr(text, "<script"));
    free(text);
    /* The terminal names the frame that dominated, for a stall alone. */
    text = text_of(v, m, 0, 0);
    assert_null(strstr(text, "CPU stacks"));
    free(text);
    v->kind = ARGUS_VERDICT_HOST_STALL;
    text = text_of(v, m, 0, 0);
    check_lines(text, 0);
    assert_non_null(strstr(text, "CPU stacks of rank 5 while its GPU starved, 20 samples\n"
                                 "   75 % collect (gc)\n"
                                 "        in main (train.py:1); step (train.py:9)\n"
                                 "   25 % log (w.py:3)\n"));
    free(text);
    v->kind = ARGUS_VERDICT_COMPUTE_STRAGGLER;
    assert_int_equal(argus_report_html("/tmp/no/such/dir/x.html", v, m, &err), -1);
    assert_non_null(strstr(err.text, "/tmp/no/such/dir/x.html"));
    assert_int_equal(argus_report_write(dir, v, m, &err), 0);
    snprintf(path, sizeof(path), "%s/report.txt", dir);
    text = slurp(path);
    check_lines(text, 1);
    free(text);
    unlink(path);
    unlink(page);
    for (int r = 0; r < 8; r++)
        unlink(m->ranks[r].path);
    rmdir(dir);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

/* A ring over the ranks of group 0 whose proxies waited 2 ms a send, at the slow one's ends 9. */
static void write_waits(const char *path, const struct argus_model *m, int rank, int slow)
{
    const struct argus_group *g = &m->groups[0];
    struct argus_timeline_info info = {.rank = rank, .world = 32, .node = "n01", .source = "argus"};
    argus_timeline_writer_t *w = argus_timeline_create(path, &info, 1, NULL);
    struct argus_comm_row comm = {.hash = g->hash,
                                  .name = ARGUS_NONE,
                                  .size = g->size,
                                  .rank = (uint32_t)rank,
                                  .nodes = 2,
                                  .members = ARGUS_NONE};
    struct argus_class_row class = {
        .kind = ARGUS_CLASS_PEER_WAIT, .func = 9, .comm = 0, .peer = (rank + 1) % (int)g->size};
    int hot = rank == slow || class.peer == slow;

    assert_non_null(w);
    class.name = intern(w, "proxy wait");
    assert_int_equal(argus_timeline_append(w, ARGUS_DS_COMMS, &comm, 1, NULL), 0);
    assert_int_equal(argus_timeline_append(w, ARGUS_DS_CLASSES, &class, 1, NULL), 0);
    for (int k = 0; k < 64; k++) {
        struct argus_step_comm_row row = {.step = k, .class_id = 0, .count = 4};

        row.sum = 4 * (hot ? 9000000 : 2000000) + k; /* ns */
        assert_int_equal(argus_timeline_append(w, ARGUS_DS_STEP_COMM, &row, 1, NULL), 0);
    }
    assert_int_equal(argus_timeline_seal(w, "exit", NULL), 0);
}

/* Where proxies were listened to the matrix is theirs; where not, it is what the collectives say. */
static void ways_between_nodes(void **state)
{
    struct argus_model *m = test_model_create(TEST_LINK, 64, 64, 2);
    struct argus_verdict *v = test_verdict_create(TEST_LINK, m);
    char dir[] = "/tmp/argus-report-XXXXXX", path[64], page[64], *text, *a, *b;
    argus_error_t err = {""};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(page, sizeof(page), "%s/report.html", dir);
    if (argus_report_html(page, v, m, &err) < 0)
        fail_msg("%s", err.text);
    text = slurp(page);
    assert_null(strstr(text, "Ways between nodes"));
    free(text);
    for (int r = 0; r < 32; r++) {
        snprintf(path, sizeof(path), "%s/rank-%05d.h5", dir, r);
        write_waits(path, m, r, 16);
        free(m->ranks[r].path);
        m->ranks[r].path = strdup(path);
        m->ranks[r].has_peer_waits = 1;
    }
    if (argus_report_html(page, v, m, &err) < 0)
        fail_msg("%s", err.text);
    text = slurp(page);
    assert_non_null(strstr(text, "Ways between nodes"));
    assert_null(strstr(text, "Pairs of nodes"));
    a = strstr(text, "<td>rank 15 on n02</td><td>rank 16 on n03</td><td>dp_0</td>");
    b = strstr(text, "<td>rank 7 on n01</td><td>rank 8 on n02</td><td>dp_0</td>");
    assert_non_null(a);
    assert_non_null(b);
    assert_true(a < b); /* the slowest first */
    assert_non_null(strstr(a, "<td class=\"n\">9.00 ms</td><td class=\"n\">4.50</td>"));
    /* within a node nothing goes over the network: 16 to 17 is no row */
    assert_null(strstr(text, "<td>rank 16 on n03</td><td>rank 17"));
    free(text);
    unlink(page);
    for (int r = 0; r < 32; r++)
        unlink(m->ranks[r].path);
    rmdir(dir);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

/* Four stages, a node each: one slow way of the pipeline is not hidden by the quick ones. */
static void pairs_are_their_ends(void **state)
{
    struct argus_model *m = test_model_create(TEST_HEALTHY, 32, 64, 4);
    struct argus_verdict *v = test_verdict_create(TEST_LINK, m);
    char page[] = "/tmp/argus-report-XXXXXX", *text, *row;
    argus_error_t err = {""};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct argus_comm_class *c = &m->comm_classes[i];

        for (int k = 0; k < 4; k++)
            m->groups[i].members[k] = 8 * k;
        m->groups[i].size = 4;
        m->groups[i].nodes = 4;
        c->func = ARGUS_FUNC_SEND;
        c->from = i;
        c->to = (i + 1) % 4;
        for (int k = 0; k < 64; k++)
            c->work[k] *= i == 1 ? 3.0F : 1.0F;
    }
    close(mkstemp(page));
    if (argus_report_html(page, v, m, &err) < 0)
        fail_msg("%s", err.text);
    text = slurp(page);
    row = strstr(text, "<td>n02</td><td>n03</td>");
    assert_non_null(row);
    assert_memory_equal(row, "<td>n02</td><td>n03</td><td class=\"n\">3", 39);
    row = strstr(text, "<td>n01</td><td>n02</td>");
    assert_non_null(row);
    assert_memory_equal(row, "<td>n01</td><td>n02</td><td class=\"n\">1", 39);
    assert_null(strstr(text, "<td>n01</td><td>n03</td>")); /* nothing goes there */
    free(text);
    unlink(page);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

/* A slow link to the host makes its rank late, and shows in no collective. */
static void slow_copies_have_their_picture(void **state)
{
    struct argus_model *m = test_model_create(TEST_HEALTHY, 8, 60, 1);
    struct argus_verdict *v = test_verdict_create(TEST_HEALTHY, m);
    struct argus_link *link = argus_verdict_set_link(v, "pcie");
    char page[] = "/tmp/argus-report-XXXXXX", *text;
    argus_error_t err = {""};

    (void)state;
    v->kind = ARGUS_VERDICT_SLOW_LINK;
    argus_verdict_add_culprit(v, 3, 3, "n01", NULL);
    link->rank = 3;
    for (int r = 0; r < 8; r++)
        for (int k = 0; k < 60; k++)
            m->ranks[r].col[ARGUS_COL_COPY_BUSY][k] = r == 3 ? 6e7F : 2e6F;
    text = text_of(v, m, 0, 0);
    check_lines(text, 0);
    assert_null(strstr(text, "no rank is late"));
    assert_null(strstr(text, "Transfer time"));
    assert_non_null(strstr(text, "Time in copies against peers"));
    assert_non_null(strstr(text, "> rank 3               @@@@@@@@@@@@@@@@@@@@"));
    assert_non_null(strstr(text, "  rank 4               ...................."));
    assert_non_null(strstr(text, "1.00x to 30.00x"));
    free(text);
    close(mkstemp(page));
    if (argus_report_html(page, v, m, &err) < 0)
        fail_msg("%s", err.text);
    text = slurp(page);
    assert_non_null(strstr(text, "id=\"copies\""));
    free(text);
    unlink(page);
    argus_verdict_destroy(v);
    test_model_destroy(m);
}

static void steps_of_the_job_are_listed(void **state)
{
    struct argus_verdict *v = argus_verdict_create();
    char *text;

    (void)state;
    argus_verdict_add_step(v, "0", ARGUS_VERDICT_OK, ARGUS_SEVERITY_NONE, 1, 0);
    argus_verdict_add_step(v, "batch", ARGUS_VERDICT_SLOW_LINK, ARGUS_SEVERITY_WARN, 1.25, 3.5);
    text = text_of(v, NULL, 0, 0);
    check_lines(text, 0);
    assert_non_null(strstr(text, "  batch        slow-link            warn"));
    assert_non_null(strstr(text, "1.25x  3.50 GPU-hours"));
    free(text);
    argus_verdict_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_at_every_size),
        cmocka_unit_test(the_card_says_it_all),
        cmocka_unit_test(colours_only_when_asked),
        cmocka_unit_test(hostile_names_are_harmless),
        cmocka_unit_test(views_keep_the_culprit),
        cmocka_unit_test(few_peers_are_enough),
        cmocka_unit_test(slow_group_leads),
        cmocka_unit_test(ways_of_unlike_kind),
        cmocka_unit_test(pairs_are_their_ends),
        cmocka_unit_test(slow_copies_have_their_picture),

        cmocka_unit_test(holes_are_no_data),
        cmocka_unit_test(figures),
        cmocka_unit_test(html_reads_timelines),
        cmocka_unit_test(steps_of_the_job_are_listed),
        cmocka_unit_test(ways_between_nodes),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
