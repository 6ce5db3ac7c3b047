/* SPDX-License-Identifier: Apache-2.0 */
/* Rings as they come, and rings as nobody should send them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/record/ringkit.h"
#include "collector/record/source.h"

#define SLOTS 1024u

static char directory[64], path[128];

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/argus-ring-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/0-1.ring", directory);
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    return 0;
}

static void clean(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'/*", directory);
    assert_int_equal(system(command), 0);
}

static int tear_down(void **state)
{
    (void)state;
    clean();
    return rmdir(directory);
}

static ringkit_t *make(void)
{
    struct kit_options o = {.job = KIT_DENSE, .kernels = 100, .world = 1, .seed = 3};

    return ringkit_create(path, SLOTS, &o);
}

static struct argus_record numbered(int64_t i)
{
    return (struct argus_record){.type = ARGUS_REC_ANCHOR, .start = i, .end = i};
}

/* Many laps, read in odd portions: everything once, in order, and full means dropped. */
static void test_laps(void **state)
{
    ringkit_t *k = make();
    struct argus_record out[64], rec;
    argus_error_t err = {""};
    struct argus_ring r;
    uint64_t torn = 0;
    int64_t next = 0, put = 0;
    size_t n;

    (void)state;
    assert_non_null(k);
    assert_int_equal(argus_ring_open(&r, path, &err), 0);
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < round % 97; i++) {
            rec = numbered(put);
            put += ringkit_put(k, &rec);
        }
        assert_int_equal(argus_ring_read(&r, out, 1 + (size_t)round % 64, 0, &n, &torn, &err), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(out[i].start, next++);
        if (round % 5 == 0)
            assert_int_equal(argus_ring_release(&r, round, &err), 0);
    }
    assert_true(put > 20 * SLOTS);
    assert_int_equal(torn, 0);
    for (int i = 0; i < 2 * (int)SLOTS; i++) {
        rec = numbered(put);
        put += ringkit_put(k, &rec);
    }
    assert_true(ringkit_totals(k)->dropped > 0);
    assert_int_equal(argus_ring_waiting(&r), put - next);
    argus_ring_close(&r);
    ringkit_close(k);
    clean();
}

/* A slot that a dead process claimed is skipped; a living one is waited for. */
static void test_torn(void **state)
{
    ringkit_t *k = make();
    struct argus_record out[16], rec = numbered(1);
    argus_error_t err = {""};
    struct argus_ring r;
    uint64_t torn = 0;
    size_t n;

    (void)state;
    ringkit_put(k, &rec);
    ringkit_claim(k);
    ringkit_put(k, &rec);
    assert_int_equal(argus_ring_open(&r, path, &err), 0);
    argus_ring_read(&r, out, 16, 0, &n, &torn, &err);
    assert_int_equal(n, 1);
    argus_ring_read(&r, out, 16, 0, &n, &torn, &err);
    assert_int_equal(n, 0);
    assert_int_equal(torn, 0);
    argus_ring_read(&r, out, 16, 1, &n, &torn, &err);
    assert_int_equal(n, 1);
    assert_int_equal(torn, 1);
    assert_int_equal(argus_ring_release(&r, 1, &err), 0);
    assert_int_equal(ringkit_header(k)->tail, 3);
    argus_ring_close(&r);
    ringkit_close(k);
    clean();
}

/* A reader that died between reading and moving the tail: nothing twice, nothing lost, and slots
 * that were freed and taken again stay the producers'. */
static void test_second_reader(void **state)
{
    ringkit_t *k = make();
    struct argus_record out[SLOTS], rec;
    argus_error_t err = {""};
    struct argus_ring r;
    uint64_t torn = 0, cursor;
    size_t n;

    (void)state;
    for (int64_t i = 0; i < 600; i++) {
        rec = numbered(i);
        ringkit_put(k, &rec);
    }
    assert_int_equal(argus_ring_open(&r, path, &err), 0);
    argus_ring_read(&r, out, 500, 0, &n, &torn, &err);
    cursor = r.cursor;
    argus_ring_release(&r, 1, &err);
    ringkit_header(k)->tail = 100; /* as if it had not been moved all the way */
    argus_ring_close(&r);
    for (int64_t i = 600; i < 600 + 900; i++) {
        rec = numbered(i);
        ringkit_put(k, &rec);
    }
    assert_int_equal(argus_ring_open(&r, path, &err), 0);
    assert_int_equal(argus_ring_seek(&r, cursor), 0);
    argus_ring_read(&r, out, SLOTS, 0, &n, &torn, &err);
    assert_int_equal(n, 1500 - ringkit_totals(k)->dropped - 500);
    assert_int_equal(out[0].start, 500);
    argus_ring_release(&r, 1, &err);
    argus_ring_read(&r, out, SLOTS, 0, &n, &torn, &err);
    assert_int_equal(n, 0);
    assert_int_equal(argus_ring_waiting(&r), 0);
    argus_ring_close(&r);
    ringkit_close(k);
    clean();
}

static void test_refused(void **state)
{
    static const struct {
        size_t offset, size;
        uint64_t value;
    } bad[] = {
        {offsetof(struct argus_ring_header, magic), 8, 1},
        {offsetof(struct argus_ring_header, version), 4, 9},
        {offsetof(struct argus_ring_header, header_bytes), 4, 64},
        {offsetof(struct argus_ring_header, record_bytes), 4, 32},
        {offsetof(struct argus_ring_header, slots), 8, 0},
        {offsetof(struct argus_ring_header, slots), 8, 1000},
        {offsetof(struct argus_ring_header, slots), 8, 1ULL << 63},
        {offsetof(struct argus_ring_header, slots_offset), 8, 0},
        {offsetof(struct argus_ring_header, slots_offset), 8, 4097},
        {offsetof(struct argus_ring_header, slots_offset), 8, UINT64_MAX - 63},
        {offsetof(struct argus_ring_header, names_offset), 8, 4096},
        {offsetof(struct argus_ring_header, names_offset), 8, UINT64_MAX - 7},
        {offsetof(struct argus_ring_header, names_bytes), 4, UINT32_MAX},
    };
    struct argus_ring r;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ringkit_t *k = make();
        argus_error_t err = {""};

        memcpy((char *)ringkit_header(k) + bad[i].offset, &bad[i].value, bad[i].size);
        assert_int_equal(argus_ring_open(&r, path, &err), -1);
        assert_non_null(strstr(err.text, path));
        ringkit_close(k);
        unlink(path);
    }
    assert_int_equal(argus_ring_open(&r, directory, NULL), -1);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(argus_ring_open(&r, path, NULL), -1);
    clean();
}

/* Cut short while it is mapped: an error, not the end of the recorder. */
static void test_cut_short(void **state)
{
    ringkit_t *k = make();
    struct argus_record out[16], rec = numbered(1);
    argus_error_t err = {""};
    struct argus_ring r;
    uint64_t torn = 0;
    char name[64];
    size_t n;

    (void)state;
    argus_ring_catch_sigbus(); /* cmocka has a handler of its own for each test */
    for (int i = 0; i < 500; i++)
        ringkit_put(k, &rec);
    ringkit_close(k);
    assert_int_equal(argus_ring_open(&r, path, &err), 0);
    assert_int_equal(argus_ring_read(&r, out, 16, 0, &n, &torn, &err), 0);
    assert_int_equal(truncate(path, 8192), 0);
    while (argus_ring_read(&r, out, 16, 0, &n, &torn, &err) == 0 && n)
        ;
    assert_non_null(strstr(err.text, "cut short"));
    assert_int_equal(argus_ring_name(&r, 8, name, sizeof(name)), -1);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(argus_ring_release(&r, 1, &err), -1);
    argus_ring_close(&r);
    clean();
}

static void test_names(void **state)
{
    ringkit_t *k = make();
    struct argus_ring_header *h = ringkit_header(k);
    uint32_t at = ringkit_name(k, "a kernel's name"), lie = h->names_bytes - 8, length = 100;
    struct argus_ring r;
    char name[64];

    (void)state;
    assert_int_equal(argus_ring_open(&r, path, NULL), 0);
    assert_int_equal(argus_ring_name(&r, at, name, sizeof(name)), 15);
    assert_string_equal(name, "a kernel's name");
    assert_int_equal(argus_ring_name(&r, at, name, 5), 4);
    assert_int_equal(argus_ring_name(&r, 0, name, sizeof(name)), -1);
    assert_int_equal(argus_ring_name(&r, at + 1, name, sizeof(name)), -1);
    assert_int_equal(argus_ring_name(&r, h->names_bytes, name, sizeof(name)), -1);
    assert_int_equal(argus_ring_name(&r, UINT32_MAX - 7, name, sizeof(name)), -1);
    memcpy((char *)h + h->names_offset + lie, &length, sizeof(length));
    assert_int_equal(argus_ring_name(&r, lie, name, sizeof(name)), -1);
    argus_ring_close(&r);
    ringkit_close(k);
    clean();
}

static void name_it(void *arg, const struct argus_ring_header *h, char *out, size_t size)
{
    (void)arg;
    (void)h;
    snprintf(out, size, "%s/rank-00000.h5", directory);
}

/* Bytes of slots, names and header are turned at random: whatever the records say, the source is
 * read to an end and sealed, and the timeline opens. */
static void test_fuzz(void **state)
{
    struct argus_stream_options o;
    uint64_t random = 88172645463325252ULL;
    const char *rounds = getenv("ARGUS_FUZZ_ROUNDS");

    (void)state;
    memset(&o, 0, sizeof(o));
    argus_summary_defaults(&o.summary);
    snprintf(o.mode, sizeof(o.mode), "summary");
    for (int round = 0; round < (rounds ? atoi(rounds) : 60); round++) {
        struct kit_options ko = {.job = (enum kit_job)(round % KIT_JOBS),
                                 .kernels = 100,
                                 .world = 1,
                                 .seed = (uint64_t)round};
        ringkit_t *k = ringkit_create(path, 8192, &ko);
        struct argus_ring_header *h = ringkit_header(k);
        argus_error_t err = {""};
        argus_timeline_t *t;
        argus_source_t *s;
        char file[128];
        struct stat st;

        for (int i = 0; i < 12; i++)
            ringkit_step(k, 0);
        assert_int_equal(stat(path, &st), 0);
        for (int i = 0; i < 1 + round * 8; i++) {
            uint64_t at;

            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            /* three of four in slots and names: a bad header is refused at once */
            at = round % 4 ? 4096 + random % ((uint64_t)st.st_size - 4096)
                           : random % (uint64_t)st.st_size;
            ((unsigned char *)h)[at] = (unsigned char)(random >> 40);
        }
        h->pid = 0x7ffffffe; /* nobody */
        ringkit_close(k);
        s = argus_source_open(directory, "0-1.ring", &o, &err);
        if (s) {
            for (int64_t now = 1; now < 40; now++) {
                argus_source_poll(s, &o, name_it, NULL, now * 1000000000);
                argus_source_flush(s, &err);
                argus_source_checkpoint(s, now * 1000000000, 1, &err);
            }
            argus_source_seal(s, 1, &err);
            argus_source_destroy(s);
            snprintf(file, sizeof(file), "%s/rank-00000.h5", directory);
            if (access(file, F_OK) == 0) {
                t = argus_timeline_open(file, &err);
                if (!t)
                    fail_msg("%s", err.text);
                argus_timeline_close(t);
            }
        }
        clean();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_laps),          cmocka_unit_test(test_torn),
        cmocka_unit_test(test_second_reader), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut_short),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_fuzz),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
