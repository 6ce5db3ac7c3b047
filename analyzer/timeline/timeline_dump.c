/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_dump FILE                     rows of each dataset, attributes
 * timeline_dump FILE DATASET [MEMBER...] rows as tab-separated values
 * timeline_dump --layout                 every dataset, member and attribute
 * timeline_dump --sample FILE sealed|open|killed   a timeline with rows in every dataset
 *
 * For the tests.  Strings stand for ids where the member is one.
 */
#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <unistd.h>

#include "analyzer/timeline/layout.h"

static void print_value(const struct tl_member *m, const unsigned char *row, argus_timeline_t *t)
{
    const unsigned char *p = row + m->offset;

    for (unsigned i = 0; i < m->count; i++) {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        double f64;

        if (i)
            putchar(',');
        switch (m->type) {
        case TL_U8:
            memcpy(&u8, p + i, sizeof(u8));
            printf("%u", u8);
            break;
        case TL_U16:
            memcpy(&u16, p + 2 * i, sizeof(u16));
            printf("%u", u16);
            break;
        case TL_U32:
            memcpy(&u32, p + 4 * i, sizeof(u32));
            if (t && (!strcmp(m->name, "name") || !strcmp(m->name, "members") ||
                      !strcmp(m->name, "domain")))
                printf("%s", u32 == ARGUS_NONE ? "-" : argus_timeline_string(t, u32));
            else if (u32 == ARGUS_NONE)
                printf("-");
            else
                printf("%u", u32);
            break;
        case TL_I32:
            memcpy(&i32, p + 4 * i, sizeof(i32));
            printf("%" PRId32, i32);
            break;
        case TL_U64:
            memcpy(&u64, p + 8 * i, sizeof(u64));
            printf("%" PRIu64, u64);
            break;
        case TL_I64:
            memcpy(&i64, p + 8 * i, sizeof(i64));
            printf("%" PRId64, i64);
            break;
        case TL_F64:
            memcpy(&f64, p + 8 * i, sizeof(f64));
            printf("%.17g", f64);
            break;
        default:
            printf("%s", (const char *)p);
            return;
        }
    }
}

static int print_rows(argus_timeline_t *t, const char *name, char **members, int n_members)
{
    argus_error_t err;
    unsigned char *rows;
    int d;
    size_t n;

    for (d = 0; d < ARGUS_DS_COUNT && strcmp(tl_tables[d].name, name); d++)
        ;
    if (d == ARGUS_DS_COUNT || !tl_tables[d].members) {
        fprintf(stderr, "timeline_dump: no dataset \"%s\" of rows\n", name);
        return 2;
    }
    rows = argus_timeline_read_all(t, (enum argus_dataset)d, 0, &n, &err);
    if (!rows) {
        fprintf(stderr, "timeline_dump: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        const char *tab = "";

        for (unsigned m = 0; m < tl_tables[d].n_members; m++) {
            int wanted = !n_members;

            for (int k = 0; k < n_members; k++)
                wanted |= !strcmp(members[k], tl_tables[d].members[m].name);
            if (!wanted)
                continue;
            fputs(tab, stdout);
            print_value(&tl_tables[d].members[m], rows + i * tl_tables[d].row_bytes, t);
            tab = "\t";
        }
        putchar('\n');
    }
    free(rows);
    return 0;
}

static void print_attributes(const struct tl_member *m, size_t n, const void *base)
{
    for (size_t i = 0; i < n; i++) {
        printf("@%s\t", m[i].name);
        print_value(&m[i], base, NULL);
        putchar('\n');
    }
}

static void print_layout(void)
{
    const struct tl_member *attributes[] = {tl_state_members, tl_info_members, tl_counter_members};
    const size_t n[] = {tl_n_state_members, tl_n_info_members, tl_n_counter_members};

    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        printf("%s\n", tl_tables[d].name);
        for (unsigned m = 0; m < tl_tables[d].n_members; m++)
            printf("%s\t%s\n", tl_tables[d].name, tl_tables[d].members[m].name);
    }
    for (int a = 0; a < 3; a++) {
        for (size_t i = 0; i < n[a]; i++)
            printf("@%s\n", attributes[a][i].name);
    }
}

#define SAMPLE_ROWS 200

/* Values that differ between rows and members: byte i of a row is i * 7 + row, ids stay small. */
static int make_sample(const char *path, const char *how)
{
    struct argus_timeline_info info = {.job = "4711",
                                       .step = "0",
                                       .rank = 3,
                                       .world = 8,
                                       .node = "n07",
                                       .gpu_name = "none",
                                       .source = "argus",
                                       .mode = "summary",
                                       .window = 64};
    struct argus_timeline_counters counters = {.records = 12, .dropped_source = {1, 2, 3}};
    argus_timeline_writer_t *w;
    unsigned char row[256];
    argus_error_t err;

    w = argus_timeline_create(path, &info, 1, &err);
    if (!w)
        goto error;
    argus_timeline_set_counters(w, &counters);
    for (int i = 0; i < SAMPLE_ROWS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "name %d", i);
        if (argus_timeline_add_string(w, name, strlen(name)) != (uint32_t)i)
            goto error;
        for (int d = ARGUS_DS_COMMS; d < ARGUS_DS_COUNT; d++) {
            for (size_t b = 0; b < tl_tables[d].row_bytes; b++)
                row[b] = (unsigned char)((b * 7 + (size_t)i) % 32);
            if (argus_timeline_append(w, d, row, 1, &err) != 0)
                goto error;
        }
    }
    if (!strcmp(how, "sealed"))
        return argus_timeline_seal(w, "exit", &err);
    if (argus_timeline_flush(w, &err) != 0)
        goto error;
    if (!strcmp(how, "killed"))
        raise(SIGKILL);
    argus_timeline_abandon(w);
    return 0;
error:
    fprintf(stderr, "timeline_dump: %s\n", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    argus_timeline_t *t;
    argus_error_t err;
    int rc = 0;

    if (argc == 2 && !strcmp(argv[1], "--layout")) {
        print_layout();
        return 0;
    }
    if (argc == 4 && !strcmp(argv[1], "--sample"))
        return make_sample(argv[2], argv[3]);
    if (argc < 2) {
        fputs("usage: timeline_dump FILE [DATASET [MEMBER...]] | --layout\n", stderr);
        return 2;
    }
    t = argus_timeline_open(argv[1], &err);
    if (!t) {
        fprintf(stderr, "timeline_dump: %s\n", err.text);
        return 1;
    }
    if (argc > 2) {
        rc = print_rows(t, argv[2], argv + 3, argc - 3);
    } else {
        for (int d = 0; d < ARGUS_DS_COUNT; d++)
            printf("%s\t%zu\n", tl_tables[d].name, argus_timeline_rows(t, d));
        printf("@sealed\t%d\n@end\t%s\n", argus_timeline_sealed(t), argus_timeline_end(t));
        print_attributes(tl_info_members, tl_n_info_members, argus_timeline_info(t));
        print_attributes(tl_counter_members, tl_n_counter_members, argus_timeline_counters(t));
    }
    argus_timeline_close(t);
    return rc;
}
