/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a report of a constructed job: report_show CASE RANKS STEPS STAGES [--ascii|--html FILE|--json FILE]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/report.h"
#include "analyzer/report/test_model.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/json.h"

int main(int argc, char **argv)
{
    int kind = argc > 4 ? test_case_from_name(argv[1]) : -1, rc = 1;
    struct argus_report_options options = {.utf8 = 1, .columns = 80};
    struct argus_model *m;
    struct argus_verdict *v;

    if (kind < 0 || atoi(argv[2]) < 1 || atoi(argv[3]) < 4 || atoi(argv[4]) < 1) {
        fprintf(stderr,
                "usage: report_show CASE RANKS STEPS STAGES [--ascii|--html FILE|--json FILE]\n");
        return 2;
    }
    m = test_model_create((enum test_case)kind, atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    v = test_verdict_create((enum test_case)kind, m);
    options.utf8 = !(argc > 5 && !strcmp(argv[5], "--ascii"));
    if (argc > 6 && !strcmp(argv[5], "--html")) {
        argus_error_t err;

        rc = argus_report_html(argv[6], v, m, &err) < 0;
        if (rc)
            fprintf(stderr, "report_show: %s\n", err.text);
    } else if (argc > 6 && !strcmp(argv[5], "--json")) {
        argus_error_t err;

        rc = argus_verdict_write(v, argv[6], &err) < 0;
        if (rc)
            fprintf(stderr, "report_show: %s\n", err.text);
    } else {
        rc = argus_report_text(stdout, v, m, &options) < 0;
    }
    test_model_destroy(m);
    argus_verdict_destroy(v);
    return rc;
}
