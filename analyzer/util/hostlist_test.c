/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/util/hostlist.h"

static void expands(const char *text, const char *expected)
{
    struct argus_hostlist list;
    argus_error_t err = {""};
    char *joined;

    if (argus_hostlist_expand(text, 1000, &list, &err) < 0)
        fail_msg("%s", err.text);
    joined = argus_hostlist_join(&list);
    assert_string_equal(joined, expected);
    free(joined);
    argus_hostlist_clear(&list);
}

static void refuses(const char *text, const char *why)
{
    struct argus_hostlist list;
    argus_error_t err = {""};

    assert_int_equal(argus_hostlist_expand(text, 1000, &list, &err), -1);
    assert_non_null(strstr(err.text, why));
    assert_null(list.names);
    assert_int_equal(list.n, 0);
}

static void test_lists(void **state)
{
    (void)state;
    expands("n1", "n1");
    expands("n[1-4]", "n1,n2,n3,n4");
    expands("n[1-2,7],m[08-10]", "n1,n2,n7,m08,m09,m10");
    expands("login,gpu-a.site_x", "login,gpu-a.site_x");
    expands("r[1-2]c[0-1]", "r1c0,r1c1,r2c0,r2c1");
    expands("n[3]x", "n3x");
    expands("n[0999-1001]", "n0999,n1000,n1001");
    expands("n[1-2],n2,n1", "n1,n2");
    expands("[1-2]", "1,2");
}

static void test_refused(void **state)
{
    (void)state;
    refuses("", "not a node name");
    refuses("n1,", "not a node name");
    refuses(",n1", "not a node name");
    refuses("n[1-4", "']' is missing");
    refuses("n]", "not a node name");
    refuses("n[]", "not a range");
    refuses("n[1-]", "not a range");
    refuses("n[4-1]", "not a range");
    refuses("n[1,]", "not a range");
    refuses("n[1-2-3]", "not a range");
    refuses("n[a]", "not a range");
    refuses("n[[1]]", "not a range");
    refuses("n 1", "not a node name");
    refuses("../n1", "not a node name");
    refuses("-n1", "not a node name");
    refuses("n1\nn2", "not a node name");
    refuses("n[12345678901]", "not a range");
}

static void test_bounds(void **state)
{
    struct argus_hostlist list;
    char longest[ARGUS_HOST_NAME_MAX + 2];

    (void)state;
    refuses("n[1-1001]", "too many nodes");
    refuses("n[0-999999999]", "too many nodes");
    refuses("a[0-99]b[0-99]c[0-99]d[0-99]", "too many nodes");
    memset(longest, 'a', sizeof(longest));
    longest[ARGUS_HOST_NAME_MAX + 1] = '\0';
    refuses(longest, "too long");
    longest[ARGUS_HOST_NAME_MAX] = '\0';
    expands(longest, longest);
    assert_int_equal(argus_hostlist_expand("n[1-1000]", 1000, &list, NULL), 0);
    assert_int_equal(list.n, 1000);
    assert_int_equal(argus_hostlist_find(&list, "n1000"), 999);
    assert_int_equal(argus_hostlist_find(&list, "n1001"), -1);
    assert_int_equal(argus_hostlist_add(&list, "n5"), 0);
    assert_int_equal(argus_hostlist_add(&list, "x"), 0);
    assert_int_equal(list.n, 1001);
    argus_hostlist_clear(&list);
    argus_hostlist_clear(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests_name("hostlist", tests, NULL, NULL);
}
