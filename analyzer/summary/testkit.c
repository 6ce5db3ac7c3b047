/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <argus/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/summary/testkit.h"

void kit_open(struct kit *k, const struct argus_summary_options *options)
{
    struct argus_timeline_info info = {.job = "1", .step = "0", .world = 1, .source = "argus"};
    argus_error_t err = {""};

    memset(k, 0, sizeof(*k));
    k->now = 1000000000000000000;
    k->random = 1;
    snprintf(k->dir, sizeof(k->dir), "/tmp/argus-summary-XXXXXX");
    assert_non_null(mkdtemp(k->dir));
    snprintf(k->path, sizeof(k->path), "%s/rank-00000.h5", k->dir);
    k->w = argus_timeline_create(k->path, &info, 0, &err);
    if (!k->w)
        fail_msg("%s", err.text);
    k->s = argus_summary_create(options, k->w, &err);
    if (!k->s)
        fail_msg("%s", err.text);
    k->comm = kit_comm(k, 0x1234, 8);
}

uint32_t kit_kernel(struct kit *k, const char *name, uint32_t grid)
{
    struct argus_class_row row = {.kind = ARGUS_CLASS_COMPUTE,
                                  .family = (uint8_t)argus_kernel_family(name),
                                  .flags = argus_kernel_phase(name),
                                  .stream = 7,
                                  .grid = {grid, 1, 1},
                                  .block = {256, 1, 1},
                                  .comm = ARGUS_NONE,
                                  .peer = -1,
                                  .dtype = ARGUS_DTYPE_UNKNOWN};

    row.name = argus_timeline_add_string(k->w, name, strlen(name));
    return argus_summary_class(k->s, &row);
}

uint32_t kit_comm(struct kit *k, uint64_t hash, uint32_t size)
{
    struct argus_comm_row row = {
        .hash = hash, .size = size, .name = ARGUS_NONE, .members = ARGUS_NONE};

    return argus_summary_comm(k->s, &row);
}

uint32_t kit_collective(struct kit *k, uint32_t comm, int func, uint64_t bytes)
{
    struct argus_class_row row = {.kind = ARGUS_CLASS_COMM,
                                  .func = (uint8_t)func,
                                  .dtype = ARGUS_DTYPE_BF16,
                                  .stream = 20 + comm,
                                  .comm = comm,
                                  .bytes = bytes,
                                  .peer = -1};

    row.name = argus_timeline_add_string(k->w, "nccl", 4);
    return argus_summary_class(k->s, &row);
}

void kit_call(struct kit *k, uint32_t class_id, int64_t idle, int64_t duration, uint32_t seq)
{
    struct argus_event_row ev = {
        .start = k->now + idle, .duration = duration, .class_id = class_id, .seq = seq};
    argus_error_t err = {""};

    if (argus_summary_event(k->s, &ev, &err) < 0)
        fail_msg("%s", err.text);
    k->now = ev.start + duration;
    k->events++;
    k->total += (uint64_t)duration;
}

void kit_run(struct kit *k, uint32_t class_id, int64_t idle, int64_t duration)
{
    const struct argus_class_row *row = argus_summary_class_row(k->s, class_id);
    uint32_t seq = ARGUS_NONE;

    if (row->kind == ARGUS_CLASS_COMM && row->comm == k->comm)
        seq = k->seq++;
    kit_call(k, class_id, idle, duration, seq);
}

uint32_t kit_random(struct kit *k, uint32_t n)
{
    k->random = k->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(k->random >> 33) % n;
}

argus_timeline_t *kit_read(struct kit *k)
{
    argus_error_t err = {""};
    argus_timeline_t *t;

    if (argus_summary_finish(k->s, &err) < 0 || argus_timeline_seal(k->w, "exit", &err) < 0)
        fail_msg("%s", err.text);
    argus_summary_destroy(k->s);
    t = argus_timeline_open(k->path, &err);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

void *kit_rows(argus_timeline_t *t, enum argus_dataset dataset, size_t *n)
{
    argus_error_t err = {""};
    void *rows = argus_timeline_read_all(t, dataset, 0, n, &err);

    if (!rows && err.text[0])
        fail_msg("%s", err.text);
    return rows;
}

void kit_close(struct kit *k, argus_timeline_t *t)
{
    argus_timeline_close(t);
    unlink(k->path);
    rmdir(k->dir);
}
