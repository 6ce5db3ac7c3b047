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

#include "analyzer/report/report.h"
#include "analyzer/report/test_model.h"
#include "analyzer/report/view.h"
#include "analyzer/report/words.h"
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

static void slow_group_leads(void **state)
{
    struct argus_model *m = test_model_create(TEST_LINK, 32, 100, 4);
    struct argus_view *view = argus_view_work(m, 3, 50);

    (void)state;
    assert_non_null(view);
    assert_int_equal(view->n_rows, 3);
    assert_non_null(strstr(view->rows[0].label, "dp_0 all-reduce 64 MiB"));
    assert_float_equal(view->rows[0].typical, 3, 0.1);
    assert_float_equal(view->rows[1].typical, 1, 0.05);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_at_every_size), cmocka_unit_test(the_card_says_it_all),
        cmocka_unit_test(colours_only_when_asked),  cmocka_unit_test(hostile_names_are_harmless),
        cmocka_unit_test(views_keep_the_culprit),   cmocka_unit_test(slow_group_leads),
        cmocka_unit_test(holes_are_no_data),        cmocka_unit_test(figures),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
