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

#include "analyzer/verdict/build.h"
#include "analyzer/verdict/json.h"

static struct argus_verdict *straggler(void)
{
    struct argus_verdict *v = argus_verdict_create();
    struct argus_finding *f;
    struct argus_link *l;

    assert_non_null(v);
    v->kind = ARGUS_VERDICT_COMPUTE_STRAGGLER;
    v->severity = ARGUS_SEVERITY_CRITICAL;
    v->confidence = 0.97;
    assert_non_null(argus_verdict_add_culprit(v, 13, 5, "n07", "GPU-1"));
    v->onset_step = 412;
    v->slowdown = 1.31;
    v->gpu_hours = 42.1;
    v->share = 0.22;
    assert_int_equal(argus_verdict_set(&v->job.id, "4711"), 0);
    assert_int_equal(argus_verdict_set(&v->job.step, "0"), 0);
    v->job.ranks = 512;
    v->job.nodes = 64;
    v->job.gpus = 512;
    v->job.steps = 1842;
    v->job.step_ms_p50 = 1930.4;
    v->topology.tp = 8;
    v->topology.pp = 4;
    v->topology.dp = 16;
    v->topology.ep = 1;
    argus_verdict_set(&v->topology.source, "inferred");
    argus_verdict_set(&v->phase, "backward");
    argus_verdict_add_evidence(v, "compute_score", 13, NULL, 0.74, 1.0, "ratio", NULL);
    argus_verdict_add_evidence(v, "step_ms", ARGUS_UNKNOWN, "n07", 2.5, NAN, "ms", "a \"note\"");
    f = argus_verdict_add_finding(v, ARGUS_VERDICT_HOST_STALL, ARGUS_SEVERITY_WARN);
    assert_non_null(f);
    argus_finding_add_culprit(f, 0, ARGUS_UNKNOWN, NULL, NULL);
    argus_verdict_set(&f->pattern, "periodic");
    l = argus_verdict_set_link(v, "nic");
    l->factor = 3;
    argus_link_add_candidate(l, "n1");
    argus_link_add_candidate(l, "n3");
    argus_verdict_add_explained(v, "%d waits for nobody", 13);
    argus_verdict_add_rank_missing(v, 7);
    argus_verdict_add_node_missing(v, "n09");
    argus_verdict_add_note(v, "%s stood down", "cupti");
    argus_verdict_add_next(v, "scontrol update nodename=n07 state=drain");
    argus_verdict_add_step(v, "0", ARGUS_VERDICT_OK, ARGUS_SEVERITY_NONE, 1.0, 0.0);
    return v;
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int k = 0; k < ARGUS_VERDICT_COUNT; k++) {
        const char *name = argus_verdict_kind_name((enum argus_verdict_kind)k);

        assert_int_equal(argus_verdict_kind_from_name(name), k);
    }
    for (int s = 0; s < ARGUS_SEVERITY_COUNT; s++)
        assert_int_equal(argus_severity_from_name(argus_severity_name((enum argus_severity)s)), s);
    assert_int_equal(argus_verdict_kind_from_name("OK"), -1);
    assert_int_equal(argus_severity_from_name(NULL), -1);
    assert_string_equal(argus_verdict_kind_name((enum argus_verdict_kind)99), "unknown");
    assert_false(argus_verdict_is_fail_slow(ARGUS_VERDICT_OK));
    assert_false(argus_verdict_is_fail_slow(ARGUS_VERDICT_INSUFFICIENT_DATA));
    assert_true(argus_verdict_is_fail_slow(ARGUS_VERDICT_SPLIT));
}

static void json_has_the_promised_keys(void **state)
{
    struct argus_verdict *v = straggler();
    char *text = argus_verdict_to_json(v);

    (void)state;
    assert_non_null(text);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_non_null(strstr(text, "\"schema\": \"argus-verdict/1\""));
    assert_non_null(strstr(text, "\"confidence\": 0.97,"));
    assert_non_null(strstr(text, "\"local_rank\": 5"));
    assert_non_null(strstr(text, "\"stage\": null"));
    assert_non_null(strstr(text, "\"recovered_step\": null"));
    assert_non_null(strstr(text, "\"step_ms_p50\": 1930.4"));
    assert_non_null(strstr(text, "\"steps_compared\": 0"));
    assert_null(strstr(text, "simulated"));
    free(text);
    v->job.simulated = 1;
    text = argus_verdict_to_json(v);
    assert_non_null(strstr(text, "\"simulated\": true"));
    free(text);
    argus_verdict_destroy(v);
}

static void json_comes_back_the_same(void **state)
{
    struct argus_verdict *v = straggler(), *back;
    char *text = argus_verdict_to_json(v), *again;
    argus_error_t err;

    (void)state;
    back = argus_verdict_from_json(text, strlen(text), "x.json", &err);
    assert_non_null(back);
    again = argus_verdict_to_json(back);
    assert_string_equal(text, again);
    assert_int_equal(back->culprits[0].rank, 13);
    assert_string_equal(back->culprits[0].node, "n07");
    assert_float_equal(back->slowdown, 1.31, 1e-12);
    assert_int_equal(back->stage, ARGUS_UNKNOWN);
    assert_true(isnan(back->evidence[1].peers));
    assert_string_equal(back->link->candidates[1], "n3");
    assert_null(back->pattern);
    assert_int_equal(back->data_quality.ranks_missing[0], 7);
    argus_verdict_destroy(back);
    argus_verdict_destroy(v);
    free(text);
    free(again);
}

static void nothing_known_is_valid(void **state)
{
    struct argus_verdict *v = argus_verdict_create(), *back;
    char *text = argus_verdict_to_json(v);
    argus_error_t err;

    (void)state;
    back = argus_verdict_from_json(text, strlen(text), "x", &err);
    assert_non_null(back);
    assert_int_equal(back->kind, ARGUS_VERDICT_INSUFFICIENT_DATA);
    assert_true(isnan(back->slowdown));
    argus_verdict_destroy(back);
    argus_verdict_destroy(v);
    argus_verdict_destroy(NULL);
    free(text);
}

static void foreign_bytes_stay_json(void **state)
{
    struct argus_verdict *v = argus_verdict_create(), *back;
    argus_error_t err;
    char *text;

    (void)state;
    argus_verdict_add_culprit(v, 0, 0, "n\xff\xfe", "gpu\"\n");
    text = argus_verdict_to_json(v);
    back = argus_verdict_from_json(text, strlen(text), "x", &err);
    assert_non_null(back);
    assert_string_equal(back->culprits[0].node, "n??");
    assert_string_equal(back->culprits[0].gpu, "gpu\"\n");
    argus_verdict_destroy(back);
    argus_verdict_destroy(v);
    free(text);
}

static void bad_json_is_named(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line"},
        {"{", "line"},
        {"[]", "not a JSON object"},
        {"{}", "\"schema\""},
        {"{\"schema\":\"argus-verdict/2\"}", "\"schema\""},
        {"{\"schema\":\"argus-verdict/1\"}", "\"verdict\": missing"},
#define HEAD "{\"schema\":\"argus-verdict/1\",\"verdict\":\"ok\""
        {"{\"schema\":\"argus-verdict/1\",\"verdict\":\"fine\"}", "\"verdict\": no such word"},
        {HEAD ",\"verdict\":\"ok\"}", "duplicate"},
        {HEAD ",\"severity\":7}", "\"severity\": not a string"},
        {HEAD ",\"confidence\":1.5}", "\"confidence\": out of range"},
        {HEAD ",\"confidence\":\"high\"}", "\"confidence\": not a number"},
        {HEAD ",\"culprits\":{}}", "\"culprits\": not a list"},
        {HEAD ",\"culprits\":[5]}", "\"culprits\": not an object"},
        {HEAD ",\"culprits\":[{\"rank\":1.5}]}", "\"rank\": not an integer"},
        {HEAD ",\"culprits\":[{\"rank\":99999999999}]}", "\"rank\": out of range"},
        {HEAD ",\"culprits\":[{\"node\":[]}]}", "\"node\": not a string"},
        {HEAD ",\"link\":[]}", "\"link\": not an object"},
        {HEAD ",\"link\":{\"candidates\":[null]}}", "\"candidates\""},
        {HEAD ",\"explained\":[1]}", "\"explained\""},
        {HEAD ",\"job\":{\"ranks\":-1}}", "\"ranks\": out of range"},
        {HEAD ",\"job\":{\"simulated\":1}}", "\"simulated\""},
        {HEAD ",\"data_quality\":{\"ranks_missing\":[\"a\"]}}", "\"ranks_missing\""},
        {HEAD ",\"findings\":[{\"verdict\":\"x\"}]}", "no such word"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        argus_error_t err = {""};

        assert_null(argus_verdict_from_json(cases[i].text, strlen(cases[i].text),
                                            "job/verdict.json", &err));
        if (!strstr(err.text, cases[i].says) || !strstr(err.text, "job/verdict.json"))
            fail_msg("case %zu says: %s", i, err.text);
    }
    /* What a newer argus may add is skipped. */
    struct argus_verdict *v;
    v = argus_verdict_from_json(HEAD ",\"new\":[1,{}]}", strlen(HEAD ",\"new\":[1,{}]}"), "x",
                                NULL);
    assert_non_null(v);
    assert_int_equal(v->kind, ARGUS_VERDICT_OK);
    argus_verdict_destroy(v);
}

static void every_truncation_is_refused(void **state)
{
    struct argus_verdict *v = straggler();
    char *text = argus_verdict_to_json(v);

    (void)state;
    for (size_t n = 0; n + 2 < strlen(text); n++)
        assert_null(argus_verdict_from_json(text, n, "x", NULL));
    free(text);
    argus_verdict_destroy(v);
}

static void files(void **state)
{
    char dir[] = "/tmp/argus-verdict-XXXXXX", path[64];
    struct argus_verdict *v = straggler(), *back;
    argus_error_t err = {""};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/verdict.json", dir);
    assert_null(argus_verdict_read(path, &err));
    assert_non_null(strstr(err.text, path));
    assert_int_equal(argus_verdict_write(v, path, &err), 0);
    assert_int_equal(argus_verdict_write(v, path, &err), 0);
    back = argus_verdict_read(path, &err);
    assert_non_null(back);
    argus_verdict_destroy(back);
    assert_null(argus_verdict_read(dir, &err));
    assert_non_null(strstr(err.text, "not a file"));
    unlink(path);
    rmdir(dir);
    assert_int_equal(argus_verdict_write(v, path, &err), -1);
    assert_non_null(strstr(err.text, path));
    argus_verdict_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),          cmocka_unit_test(json_has_the_promised_keys),
        cmocka_unit_test(json_comes_back_the_same),    cmocka_unit_test(nothing_known_is_valid),
        cmocka_unit_test(foreign_bytes_stay_json),     cmocka_unit_test(bad_json_is_named),
        cmocka_unit_test(every_truncation_is_refused), cmocka_unit_test(files),
    };

    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
