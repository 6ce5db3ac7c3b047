/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_totals FILE [--rows]: what a timeline adds up to, for the scripts; with --rows a hash of
 * each dataset, equal for equal rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/timeline/timeline_io.h"

static uint64_t hash(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 14695981039346656037ULL;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211ULL;
    return h;
}

/* Names by what they say: which number a string got depends on when health values came in between. */
static uint64_t hash_classes(argus_timeline_t *t, struct argus_class_row *rows, size_t n)
{
    uint64_t h = 0;

    for (size_t i = 0; i < n; i++) {
        const char *name = argus_timeline_string(t, rows[i].name);

        rows[i].name = 0;
        h = h * 31 + hash(&rows[i], sizeof(rows[i])) + hash(name, strlen(name));
    }
    return h;
}

int main(int argc, char **argv)
{
    argus_error_t err = {""};
    argus_timeline_t *t;
    struct argus_cluster_row *c;
    uint64_t count = 0, sum = 0;
    size_t n;

    if (argc < 2)
        return 2;
    t = argus_timeline_open(argv[1], &err);
    if (t && argc > 2 && !strcmp(argv[2], "health")) {
        printf("health=%zu\n", argus_timeline_rows(t, ARGUS_DS_HEALTH));
        argus_timeline_close(t);
        return 0;
    }
    if (!t || (!(c = argus_timeline_read_all(t, ARGUS_DS_CLUSTERS, 0, &n, &err)) && n)) {
        fprintf(stderr, "timeline_totals: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        count += c[i].count;
        sum += (uint64_t)c[i].sum;
    }
    free(c);
    printf("gpu=%llu ns=%llu steps=%zu sealed=%d end=%s records=%llu torn=%llu late=%llu "
           "dropped=%llu events=%zu\n",
           (unsigned long long)count, (unsigned long long)sum,
           argus_timeline_rows(t, ARGUS_DS_STEPS), argus_timeline_sealed(t), argus_timeline_end(t),
           (unsigned long long)argus_timeline_counters(t)->records,
           (unsigned long long)argus_timeline_counters(t)->torn,
           (unsigned long long)argus_timeline_counters(t)->late,
           (unsigned long long)argus_timeline_counters(t)->dropped,
           argus_timeline_rows(t, ARGUS_DS_EVENTS));
    for (int d = ARGUS_DS_COMMS; argc > 2 && d <= ARGUS_DS_MARKS; d++) {
        void *rows = argus_timeline_read_all(t, (enum argus_dataset)d, 0, &n, &err);

        uint64_t h = d == ARGUS_DS_CLASSES
                         ? hash_classes(t, rows, n)
                         : hash(rows, n * argus_timeline_row_bytes((enum argus_dataset)d));

        printf("%s rows=%zu hash=%016llx\n", argus_timeline_dataset_name((enum argus_dataset)d), n,
               (unsigned long long)h);
        free(rows);
    }
    argus_timeline_close(t);
    return 0;
}
