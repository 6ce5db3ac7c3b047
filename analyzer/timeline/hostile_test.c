/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed HDF5 that is no timeline, or lies: each is refused with file and object. */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/timeline/layout.h"

/* HDF5 loses memory when it gives a damaged file up. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

static char dir[64], path[128];

static const struct tl_state good_state = {
    .format = ARGUS_TIMELINE_FORMAT, .version = ARGUS_TIMELINE_VERSION, .sealed = 1, .end = "exit"};
static const struct argus_timeline_info good_info = {.world = 1};
static const struct argus_timeline_counters good_counters;

/* A file with all attributes and every dataset but `without`. */
static hid_t begin(int without)
{
    hid_t file;

    assert_int_equal(tl_library(NULL), 0);
    file = tl_create_file(path, 0);
    assert_true(file >= 0);
    assert_int_equal(tl_attributes_create(file, tl_state_members, tl_n_state_members, &good_state),
                     0);
    assert_int_equal(tl_attributes_create(file, tl_info_members, tl_n_info_members, &good_info), 0);
    assert_int_equal(
        tl_attributes_create(file, tl_counter_members, tl_n_counter_members, &good_counters), 0);
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        if (d != without)
            H5Dclose(tl_create_dataset(file, d, 0, 16));
    }
    return file;
}

static void refused(hid_t file, const char *why)
{
    argus_timeline_t *t;
    argus_error_t err;

    if (file >= 0)
        assert_true(H5Fclose(file) >= 0);
    t = argus_timeline_open(path, &err);
    if (t) {
        argus_timeline_close(t);
        fail_msg("opened, should say: %s", why);
    }
    if (!strstr(err.text, path) || !strstr(err.text, why))
        fail_msg("says \"%s\", should say: %s", err.text, why);
}

static hid_t dataset(hid_t file, const char *name, hid_t type, hsize_t rows, hsize_t chunk)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &rows, NULL), dset;

    if (chunk)
        H5Pset_chunk(dcpl, 1, &chunk);
    dset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Pclose(dcpl);
    H5Sclose(space);
    return dset;
}

static void the_plain_file_is_taken(void **state)
{
    argus_timeline_t *t;
    argus_error_t err;

    (void)state;
    H5Fclose(begin(-1));
    t = argus_timeline_open(path, &err);
    if (!t)
        fail_msg("%s", err.text);
    argus_timeline_close(t);
}

static void attributes(void **state)
{
    hid_t file, space, type, attr;

    (void)state;
    file = begin(-1);
    H5Adelete(file, "rank");
    refused(file, "attribute \"rank\" is missing");
    file = begin(-1);
    H5Adelete(file, "format");
    refused(file, "attribute \"format\" is missing");
    file = begin(-1);
    H5Adelete(file, "node"); /* a string of variable length */
    type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    space = H5Screate(H5S_SCALAR);
    attr = H5Acreate2(file, "node", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Aclose(attr);
    refused(file, "attribute \"node\" has an unexpected type");
    file = begin(-1);
    H5Adelete(file, "records"); /* a string where a number should be */
    H5Tset_size(type, 8);
    attr = H5Acreate2(file, "records", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Aclose(attr);
    refused(file, "attribute \"records\" has an unexpected type");
    H5Tclose(type);
    H5Sclose(space);
    file = begin(-1);
    H5Adelete(file, "version");
    space = H5Screate(H5S_SCALAR);
    attr = H5Acreate2(file, "version", H5T_STD_U32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attr, H5T_STD_U32LE, &(uint32_t){99});
    H5Aclose(attr);
    H5Sclose(space);
    refused(file, "attribute \"version\" is 99");
}

static void replace_int(hid_t file, const char *name, int32_t value)
{
    hid_t space = H5Screate(H5S_SCALAR), attr;

    H5Adelete(file, name);
    attr = H5Acreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attr, H5T_STD_I32LE, &value);
    H5Aclose(attr);
    H5Sclose(space);
}

/* Every rank that is missing is listed: a world of thousands of millions would fill the memory. */
static void worlds(void **state)
{
    argus_timeline_t *t;
    argus_error_t err;
    hid_t file;

    (void)state;
    file = begin(-1);
    replace_int(file, "world", INT32_MAX);
    refused(file, "attribute \"world\" is 2147483647");
    file = begin(-1);
    replace_int(file, "world", ARGUS_WORLD_MAX + 1);
    refused(file, "attribute \"world\" is 1048577");
    file = begin(-1);
    replace_int(file, "rank", ARGUS_WORLD_MAX);
    refused(file, "attribute \"rank\" is 1048576");
    file = begin(-1);
    replace_int(file, "rank", -1);
    refused(file, "is negative");
    file = begin(-1);
    replace_int(file, "world", ARGUS_WORLD_MAX);
    H5Fclose(file);
    t = argus_timeline_open(path, &err);
    if (!t)
        fail_msg("%s", err.text);
    argus_timeline_close(t);
}

static void links_and_types(void **state)
{
    hid_t file, group, type;

    (void)state;
    refused(begin(ARGUS_DS_STEPS), "dataset \"steps\" is missing");
    file = begin(ARGUS_DS_STEPS);
    H5Lcreate_external("/etc/passwd", "/x", file, "steps", H5P_DEFAULT, H5P_DEFAULT);
    refused(file, "dataset \"steps\" is a link to elsewhere");
    file = begin(ARGUS_DS_STEPS);
    H5Lcreate_soft("/events", file, "steps", H5P_DEFAULT, H5P_DEFAULT);
    refused(file, "dataset \"steps\" is a link to elsewhere");
    file = begin(ARGUS_DS_STEPS);
    group = H5Gcreate2(file, "steps", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    refused(file, "dataset \"steps\" cannot be opened");
    file = begin(ARGUS_DS_STEPS);
    H5Dclose(dataset(file, "steps", H5T_STD_I64LE, 8, 8));
    refused(file, "dataset \"steps\" has an unexpected row type");
    file = begin(ARGUS_DS_STEPS);
    H5Dclose(dataset(file, "steps", tl_row_type(ARGUS_DS_EVENTS), 8, 8));
    refused(file, "dataset \"steps\" has an unexpected row type");
    file = begin(ARGUS_DS_COMMS); /* the right names, one in another type */
    type = H5Tcreate(H5T_COMPOUND, 64);
    for (unsigned i = 0; i < tl_tables[ARGUS_DS_COMMS].n_members; i++)
        H5Tinsert(type, tl_tables[ARGUS_DS_COMMS].members[i].name, i * 8,
                  i ? H5T_STD_U32LE : H5T_IEEE_F64LE);
    H5Dclose(dataset(file, "comms", type, 8, 8));
    H5Tclose(type);
    refused(file, "dataset \"comms\" has an unexpected row type");
}

static void layouts(void **state)
{
    hsize_t dims[2] = {4, 4}, chunk = 1 << 20, rows = 1 << 20;
    hid_t file, dcpl, space, type = tl_row_type(ARGUS_DS_EVENTS);

    (void)state;
    file = begin(ARGUS_DS_EVENTS);
    H5Dclose(dataset(file, "events", type, 8, 0));
    refused(file, "dataset \"events\" is not chunked");
    file = begin(ARGUS_DS_EVENTS);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(dcpl, "/etc/passwd", 0, 8 * 32);
    space = H5Screate_simple(1, &(hsize_t){8}, NULL);
    H5Dclose(H5Dcreate2(file, "events", type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(dcpl);
    refused(file, "dataset \"events\" is not chunked");
    file = begin(ARGUS_DS_EVENTS);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 2, dims);
    space = H5Screate_simple(2, dims, NULL);
    H5Dclose(H5Dcreate2(file, "events", type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(dcpl);
    refused(file, "dataset \"events\" is not chunked");
    file = begin(ARGUS_DS_EVENTS);
    H5Dclose(dataset(file, "events", type, rows, chunk));
    refused(file, "dataset \"events\" has chunks of an unexpected size");
    file = begin(ARGUS_DS_EVENTS);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, &(hsize_t){8});
    H5Pset_fletcher32(dcpl);
    space = H5Screate_simple(1, &(hsize_t){8}, NULL);
    H5Dclose(H5Dcreate2(file, "events", type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(dcpl);
    refused(file, "dataset \"events\" has filters other than");
    file = begin(ARGUS_DS_EVENTS);
    H5Dclose(dataset(file, "events", type, (hsize_t)1 << 60, 16));
    refused(file, "dataset \"events\" claims more rows than");
}

/* Opened, but the rows are not there or are not what they claim: the read is refused. */
static void read_refused(hid_t file, enum argus_dataset which)
{
    argus_timeline_t *t;
    argus_error_t err;
    size_t n;

    assert_true(H5Fclose(file) >= 0);
    t = argus_timeline_open(path, &err);
    if (!t)
        fail_msg("%s", err.text);
    assert_null(argus_timeline_read_all(t, which, 0, &n, &err));
    if (!strstr(err.text, path) || !strstr(err.text, tl_tables[which].name) ||
        !strstr(err.text, "is damaged at row 0"))
        fail_msg("says \"%s\"", err.text);
    argus_timeline_close(t);
}

static void chunks(void **state)
{
    static unsigned char zeros[1 << 20];
    unsigned char packed[8192], bomb[4096];
    uLongf n = sizeof(bomb);
    hid_t file, dset;

    (void)state;
    file = begin(ARGUS_DS_EVENTS); /* a chunk that was never written */
    H5Dclose(tl_create_dataset(file, ARGUS_DS_EVENTS, 64, 64));
    read_refused(file, ARGUS_DS_EVENTS);
    file = begin(ARGUS_DS_EVENTS); /* not a zlib stream */
    dset = tl_create_dataset(file, ARGUS_DS_EVENTS, 64, 64);
    memset(packed, 0x55, sizeof(packed));
    assert_true(H5Dwrite_chunk(dset, H5P_DEFAULT, 0, &(hsize_t){0}, 100, packed) >= 0);
    H5Dclose(dset);
    read_refused(file, ARGUS_DS_EVENTS);
    file = begin(ARGUS_DS_EVENTS); /* larger than any chunk of that size */
    dset = tl_create_dataset(file, ARGUS_DS_EVENTS, 64, 64);
    assert_true(H5Dwrite_chunk(dset, H5P_DEFAULT, 0, &(hsize_t){0}, sizeof(packed), packed) >= 0);
    H5Dclose(dset);
    read_refused(file, ARGUS_DS_EVENTS);
    file = begin(ARGUS_DS_EVENTS); /* inflates to a thousand times the chunk */
    dset = tl_create_dataset(file, ARGUS_DS_EVENTS, 64, 64);
    assert_int_equal(compress2(bomb, &n, zeros, sizeof(zeros), 9), Z_OK);
    assert_true(H5Dwrite_chunk(dset, H5P_DEFAULT, 0, &(hsize_t){0}, n, bomb) >= 0);
    H5Dclose(dset);
    read_refused(file, ARGUS_DS_EVENTS);
    file = begin(ARGUS_DS_EVENTS); /* "not filtered", but of another size */
    dset = tl_create_dataset(file, ARGUS_DS_EVENTS, 64, 64);
    assert_true(H5Dwrite_chunk(dset, H5P_DEFAULT, 3, &(hsize_t){0}, 77, packed) >= 0);
    H5Dclose(dset);
    read_refused(file, ARGUS_DS_EVENTS);
}

static void put_rows(hid_t file, enum argus_dataset which, const void *rows, uint64_t n)
{
    hid_t dset = tl_create_dataset(file, which, n, (uint32_t)n);

    assert_true(H5Dwrite(dset, tl_row_type(which), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) >= 0);
    H5Dclose(dset);
}

static void strings(void **state)
{
    struct argus_string_row index[2] = {{.offset = 0, .length = 3}, {.offset = 2, .length = 9}};
    hid_t file;

    (void)state;
    for (int i = 0; i < 4; i++) {
        file = begin(ARGUS_DS_STRINGS);
        H5Ldelete(file, "strings_index", H5P_DEFAULT);
        put_rows(file, ARGUS_DS_STRINGS, "abcd", 4);
        put_rows(file, ARGUS_DS_STRINGS_INDEX, index, 2);
        refused(file, "dataset \"strings_index\" points outside");
        index[1].offset = i == 0   ? UINT64_MAX
                          : i == 1 ? UINT64_MAX - 3
                                   : 1; /* at last: overlapping */
        index[1].length = i == 0 ? UINT32_MAX : i == 1 ? 8 : 3;
    }
}

/* Numbers that no sum or difference is safe with. */
static void values(void **state)
{
    static const int64_t wide[] = {INT64_MAX, ARGUS_TIME_MIN - 1, ARGUS_TIME_MAX + 1, 0};
    static const int32_t narrow[] = {0, 0, 0, INT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        struct argus_step_row rows[4] = {{.start = 1}, {.start = 2}, {.start = 3}, {.start = 4}};
        const char *why = wide[i] ? "\"steps\": \"end\" of row 2 is out of range"
                                  : "\"steps\": \"step\" of row 2 is out of range";
        argus_timeline_t *t;
        argus_error_t err;
        size_t n;
        hid_t file;

        rows[2].end = wide[i];
        rows[2].step = narrow[i];
        file = begin(ARGUS_DS_STEPS);
        put_rows(file, ARGUS_DS_STEPS, rows, 4);
        H5Fclose(file);
        t = argus_timeline_open(path, &err);
        if (!t)
            fail_msg("%s", err.text);
        assert_int_equal(argus_timeline_read(t, ARGUS_DS_STEPS, 0, 2, rows, &err), 0);
        assert_null(argus_timeline_read_all(t, ARGUS_DS_STEPS, 0, &n, &err));
        if (!strstr(err.text, path) || !strstr(err.text, why))
            fail_msg("says \"%s\"", err.text);
        argus_timeline_close(t);
    }
}

/* Wider rows with our members elsewhere, as a later version may write them. */
static void later_versions_are_read(void **state)
{
    struct wide {
        double other;
        struct argus_anchor_row ours;
        uint32_t more;
    } rows[40];
    hid_t file, type = H5Tcreate(H5T_COMPOUND, sizeof(struct wide)), dset;
    struct argus_anchor_row *got;
    argus_timeline_t *t;
    argus_error_t err;
    size_t n;

    (void)state;
    H5Tinsert(type, "other", offsetof(struct wide, other), H5T_IEEE_F64LE);
    H5Tinsert(type, "cupti", offsetof(struct wide, ours.cupti), H5T_STD_I64LE);
    H5Tinsert(type, "realtime", offsetof(struct wide, ours.realtime), H5T_STD_I64LE);
    H5Tinsert(type, "monotonic_raw", offsetof(struct wide, ours.monotonic_raw), H5T_STD_I64LE);
    H5Tinsert(type, "more", offsetof(struct wide, more), H5T_STD_U32LE);
    memset(rows, 0, sizeof(rows));
    for (int i = 0; i < 40; i++)
        rows[i].ours = (struct argus_anchor_row){i, i * 2, i * 3};
    file = begin(ARGUS_DS_ANCHORS);
    dset = dataset(file, "anchors", type, 40, 16);
    assert_true(H5Dwrite(dset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) >= 0);
    H5Dclose(dset);
    H5Fclose(file);
    H5Tclose(type);
    t = argus_timeline_open(path, &err);
    if (!t)
        fail_msg("%s", err.text);
    got = argus_timeline_read_all(t, ARGUS_DS_ANCHORS, 0, &n, &err);
    if (!got)
        fail_msg("%s", err.text);
    assert_int_equal(n, 40);
    for (int i = 0; i < 40; i++)
        assert_memory_equal(&got[i], &rows[i].ours, sizeof(*got));
    free(got);
    argus_timeline_close(t);
}

/* None of that took much memory. */
static void memory_is_bounded(void **state)
{
    struct rusage usage;

    (void)state;
    getrusage(RUSAGE_SELF, &usage);
    print_message("# peak %ld MiB\n", usage.ru_maxrss >> 10);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(usage.ru_maxrss < 128 << 10);
#endif
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/argus-hostile-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/rank-00000.h5", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plain_file_is_taken),
        cmocka_unit_test(attributes),
        cmocka_unit_test(worlds),
        cmocka_unit_test(links_and_types),
        cmocka_unit_test(layouts),
        cmocka_unit_test(chunks),
        cmocka_unit_test(strings),
        cmocka_unit_test(values),
        cmocka_unit_test(later_versions_are_read),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests_name("hostile timelines", tests, make_dir, remove_dir);
}
