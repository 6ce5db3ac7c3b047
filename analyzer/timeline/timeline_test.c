/* SPDX-License-Identifier: Apache-2.0 */
/* Timeline files: what was written is read, after a seal, live and after a kill. */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/timeline/writer.h"

static char dir[64];

static char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static struct argus_timeline_info info_of(int rank)
{
    struct argus_timeline_info info = {.job = "4711",
                                       .step = "0",
                                       .rank = rank,
                                       .world = 8,
                                       .local_rank = rank % 4,
                                       .pid = 1234,
                                       .node = "n07",
                                       .gpu_uuid = "GPU-aaaa",
                                       .source = "argus",
                                       .mode = "summary",
                                       .window = 64};
    return info;
}

static struct argus_step_row step_row(int i)
{
    int64_t start = INT64_C(1764633600000000000) + i * INT64_C(1000000000);
    int64_t jitter = (int64_t)i * 7919 % 100000;

    return (struct argus_step_row){.start = start,
                                   .end = start + 990000000 + jitter,
                                   .compute = 700000000 + jitter,
                                   .comm = 200000000 - jitter,
                                   .exposed = 90000000,
                                   .idle = 200000000 + jitter,
                                   .anchor_seq = (uint64_t)i * 12,
                                   .step = i,
                                   .kernels = 300,
                                   .gap_class = 1,
                                   .flags = ARGUS_STEP_MARKED};
}

static void append_steps(argus_timeline_writer_t *w, int first, int n)
{
    argus_error_t err;

    for (int i = first; i < first + n; i++) {
        struct argus_step_row step = step_row(i);
        struct argus_step_comm_row comm[8];

        for (int c = 0; c < 8; c++)
            comm[c] = (struct argus_step_comm_row){.step = i,
                                                   .class_id = (uint32_t)c,
                                                   .count = 4,
                                                   .sum = 1000000 + i * 7919 % 10000 + c,
                                                   .min = 200000 + i * 31 % 1000,
                                                   .max = 300000 + i * 17 % 1000};
        assert_int_equal(argus_timeline_append(w, ARGUS_DS_STEPS, &step, 1, &err), 0);
        assert_int_equal(argus_timeline_append(w, ARGUS_DS_STEP_COMM, comm, 8, &err), 0);
    }
}

static void append_classes(argus_timeline_writer_t *w)
{
    argus_error_t err;
    char name[64];

    for (int c = 0; c < 40; c++) {
        struct argus_class_row row = {.kind = ARGUS_CLASS_COMPUTE,
                                      .dtype = 255,
                                      .grid = {(uint32_t)c, 2, 3},
                                      .block = {256, 1, 1},
                                      .comm = ARGUS_NONE,
                                      .peer = -1};

        snprintf(name, sizeof(name), "void kernel_%d<float>(float *)", c);
        row.name = argus_timeline_add_string(w, name, strlen(name));
        assert_int_equal(row.name, c);
        assert_int_equal(argus_timeline_append(w, ARGUS_DS_CLASSES, &row, 1, &err), 0);
    }
}

static void check_steps(argus_timeline_t *t, size_t want)
{
    argus_error_t err;
    struct argus_step_row *steps;
    size_t n;

    steps = argus_timeline_read_all(t, ARGUS_DS_STEPS, 0, &n, &err);
    assert_non_null(steps);
    assert_int_equal(n, want);
    for (size_t i = 0; i < n; i++) {
        struct argus_step_row expected = step_row((int)i);

        assert_memory_equal(&steps[i], &expected, sizeof(expected));
    }
    free(steps);
}

static void round_trip(int steps)
{
    struct argus_timeline_counters counters = {
        .records = 7, .dropped_source = {1, 2, 3}, .standdown = {0, 0, 0, 7}};
    struct argus_timeline_info info = info_of(3);
    struct argus_class_row *classes;
    argus_timeline_writer_t *w;
    argus_timeline_t *t;
    argus_error_t err;
    struct stat st;
    size_t n;

    w = argus_timeline_create(path_of("rank-00003.h5"), &info, 1, &err);
    assert_non_null(w);
    append_classes(w);
    append_steps(w, 0, steps);
    argus_timeline_set_counters(w, &counters);
    snprintf(info.gpu_name, sizeof(info.gpu_name), "learnt later");
    argus_timeline_set_info(w, &info);
    assert_int_equal(argus_timeline_flush(w, &err), 0);
    assert_int_equal(argus_timeline_seal(w, "exit", &err), 0);
    assert_int_equal(access(path_of("rank-00003.h5.open"), F_OK), -1);
    assert_int_equal(access(path_of("rank-00003.h5.tmp"), F_OK), -1);
    assert_int_equal(stat(path_of("rank-00003.h5"), &st), 0);
    print_message("# %d steps, 8 collective classes each: %ld bytes, %ld a step\n", steps,
                  (long)st.st_size, steps ? (long)st.st_size / steps : 0);

    t = argus_timeline_open(path_of("rank-00003.h5"), &err);
    if (!t)
        fail_msg("%s", err.text);
    assert_int_equal(argus_timeline_sealed(t), 1);
    assert_string_equal(argus_timeline_end(t), "exit");
    assert_memory_equal(argus_timeline_counters(t), &counters, sizeof(counters));
    assert_memory_equal(argus_timeline_info(t), &info, sizeof(info));
    check_steps(t, (size_t)steps);
    assert_int_equal(argus_timeline_rows(t, ARGUS_DS_STEP_COMM), steps * 8);
    assert_int_equal(argus_timeline_rows(t, ARGUS_DS_EVENTS), 0);
    classes = argus_timeline_read_all(t, ARGUS_DS_CLASSES, 0, &n, &err);
    assert_int_equal(n, 40);
    assert_int_equal(classes[7].grid[0], 7);
    assert_string_equal(argus_timeline_string(t, classes[7].name), "void kernel_7<float>(float *)");
    assert_string_equal(argus_timeline_string(t, 40), "");
    assert_string_equal(argus_timeline_string(t, ARGUS_NONE), "");
    free(classes);
    if (steps > 2) {
        struct argus_step_row two[2], expected = step_row(1);

        assert_int_equal(argus_timeline_read(t, ARGUS_DS_STEPS, 1, 2, two, &err), 0);
        assert_memory_equal(&two[0], &expected, sizeof(expected));
    }
    assert_int_equal(argus_timeline_read(t, ARGUS_DS_STEPS, (size_t)steps, 1, &st, &err), -1);
    argus_timeline_close(t);
}

static void written_is_read(void **state)
{
    (void)state;
    round_trip(0);
    round_trip(1);
    round_trip(60);
    round_trip(128);
    round_trip(1000);
    round_trip(5000);
}

static void equal_strings_are_one(void **state)
{
    struct argus_timeline_info info = info_of(0);
    argus_error_t err;
    argus_timeline_writer_t *w = argus_timeline_create(path_of("rank-00000.h5"), &info, 1, &err);

    (void)state;
    assert_non_null(w);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < 20000; i++) {
            char name[32];

            snprintf(name, sizeof(name), "s%u", i);
            assert_int_equal(argus_timeline_add_string(w, name, strlen(name)), i);
        }
    }
    assert_int_equal(argus_timeline_add_string(w, "", 0), 20000);
    assert_int_equal(argus_timeline_add_string(w, "", 0), 20000);
    assert_int_equal(argus_timeline_seal(w, "exit", &err), 0);
    argus_timeline_t *t = argus_timeline_open(path_of("rank-00000.h5"), &err);
    assert_non_null(t);
    assert_string_equal(argus_timeline_string(t, 19999), "s19999");
    assert_string_equal(argus_timeline_string(t, 0), "s0");
    assert_string_equal(argus_timeline_string(t, 20000), "");
    argus_timeline_close(t);
}

static void existing_is_refused(void **state)
{
    struct argus_timeline_info info = info_of(5);
    argus_error_t err;
    argus_timeline_writer_t *w = argus_timeline_create(path_of("rank-00005.h5"), &info, 0, &err);

    (void)state;
    assert_non_null(w);
    assert_null(argus_timeline_create(path_of("rank-00005.h5"), &info, 0, &err));
    assert_non_null(strstr(err.text, "rank-00005.h5.open: exists"));
    assert_int_equal(argus_timeline_seal(w, "exit", &err), 0);
    assert_null(argus_timeline_create(path_of("rank-00005.h5"), &info, 0, &err));
    assert_null(argus_timeline_create("/nonexistent/rank-00005.h5", &info, 0, &err));
    assert_non_null(strstr(err.text, "/nonexistent/rank-00005.h5.tmp: cannot create"));
    print_message("# %s\n", err.text);
}

static void live_file_is_refreshed(void **state)
{
    struct argus_timeline_info info = info_of(6);
    argus_error_t err;
    argus_timeline_writer_t *w;
    argus_timeline_t *t;
    const char *first;

    (void)state;
    w = argus_timeline_create(path_of("rank-00006.h5"), &info, 1, &err);
    assert_non_null(w);
    append_classes(w);
    append_steps(w, 0, 300);
    assert_int_equal(argus_timeline_flush(w, &err), 0);
    assert_true(argus_timeline_bytes(w) > 0);
    t = argus_timeline_open(path_of("rank-00006.h5.open"), &err);
    if (!t)
        fail_msg("%s", err.text);
    assert_int_equal(argus_timeline_sealed(t), 0);
    assert_string_equal(argus_timeline_end(t), "");
    check_steps(t, 300);
    first = argus_timeline_string(t, 3);
    assert_string_equal(first, "void kernel_3<float>(float *)");
    assert_int_equal(argus_timeline_refresh(t, &err), 0);
    assert_int_equal(argus_timeline_add_string(w, "later", 5), 40);
    append_steps(w, 300, 700);
    assert_int_equal(argus_timeline_seal(w, "exit", &err), 0);
    assert_int_equal(argus_timeline_refresh(t, &err), 1);
    assert_int_equal(argus_timeline_sealed(t), 1);
    check_steps(t, 1000);
    assert_string_equal(first, "void kernel_3<float>(float *)");
    assert_string_equal(argus_timeline_string(t, 40), "later");
    assert_int_equal(argus_timeline_refresh(t, &err), 0);
    argus_timeline_close(t);
}

/* A step every two seconds, flushed as it comes: what is rewritten stays within the budget of 2.7 KB a
 * rank and step while the file is written, and is gone when it is sealed. */
static void flushing_often_wastes_little(void **state)
{
    struct argus_timeline_info info = info_of(8);
    const int steps = 1500;
    argus_timeline_writer_t *w;
    argus_timeline_t *t;
    argus_error_t err;
    uint64_t live;
    struct stat st;

    (void)state;
    w = argus_timeline_create(path_of("rank-00008.h5"), &info, 1, &err);
    assert_non_null(w);
    append_classes(w);
    for (int i = 0; i < steps; i++) {
        append_steps(w, i, 1);
        w->partial_at -= 2; /* two seconds later */
        assert_int_equal(argus_timeline_flush(w, &err), 0);
    }
    live = argus_timeline_bytes(w);
    assert_true(live / (uint64_t)steps < 1500);
    assert_int_equal(argus_timeline_seal(w, "exit", &err), 0);
    assert_int_equal(stat(path_of("rank-00008.h5"), &st), 0);
    print_message("# %d flushes: %lu bytes while written, %ld sealed\n", steps, (unsigned long)live,
                  (long)st.st_size);
    assert_true(st.st_size < 80000);
    t = argus_timeline_open(path_of("rank-00008.h5"), &err);
    assert_non_null(t);
    check_steps(t, (size_t)steps);
    assert_int_equal(argus_timeline_rows(t, ARGUS_DS_STEP_COMM), steps * 8);
    argus_timeline_close(t);
}

/* A large file is closed where it is: no second copy of much data. */
static void large_file_is_sealed_in_place(void **state)
{
    struct argus_timeline_info info = info_of(9);
    struct argus_event_row ev[512];
    argus_timeline_writer_t *w;
    argus_timeline_t *t;
    argus_error_t err;
    struct stat before, after;
    uint64_t seed = 1;

    (void)state;
    w = argus_timeline_create(path_of("rank-00009.h5"), &info, 1, &err);
    assert_non_null(w);
    append_steps(w, 0, 200);
    for (int i = 0; i < 2000; i++) {
        for (int k = 0; k < 512; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            ev[k] = (struct argus_event_row){.start = (int64_t)(seed >> 3),
                                             .duration = (int64_t)(seed >> 40),
                                             .seq = ARGUS_NONE};
        }
        assert_int_equal(argus_timeline_append(w, ARGUS_DS_EVENTS, ev, 512, &err), 0);
    }
    assert_int_equal(argus_timeline_flush(w, &err), 0);
    assert_int_equal(stat(path_of("rank-00009.h5.open"), &before), 0);
    assert_true(before.st_size > 8 << 20);
    assert_int_equal(argus_timeline_seal(w, "exit", &err), 0);
    assert_int_equal(stat(path_of("rank-00009.h5"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    t = argus_timeline_open(path_of("rank-00009.h5"), &err);
    assert_non_null(t);
    check_steps(t, 200);
    assert_int_equal(argus_timeline_rows(t, ARGUS_DS_EVENTS), 2000 * 512);
    assert_int_equal(argus_timeline_read(t, ARGUS_DS_EVENTS, 1999 * 512, 512, ev, &err), 0);
    assert_int_equal(ev[511].start, (int64_t)(seed >> 3));
    assert_int_equal(argus_timeline_sealed(t), 1);
    argus_timeline_close(t);
}

static int fill_until_full(const char *path)
{
    struct argus_timeline_info info = info_of(10);
    struct rlimit limit = {300 << 10, 300 << 10};
    argus_timeline_writer_t *w;
    argus_error_t err = {""};
    uint64_t seed = 1;
    int failed = 0;

    signal(SIGXFSZ, SIG_IGN);
    w = argus_timeline_create(path, &info, 1, &err);
    if (!w || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    for (int i = 0; i < 200000 && failed < 3; i++) {
        struct argus_event_row ev;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ev = (struct argus_event_row){.start = (int64_t)(seed >> 3), .seq = (uint32_t)seed};
        w->partial_at -= 2;
        if (argus_timeline_append(w, ARGUS_DS_EVENTS, &ev, 1, &err) != 0 ||
            (i % 4096 == 0 && argus_timeline_flush(w, &err) != 0))
            failed++;
    }
    if (failed < 3 || !strstr(err.text, "rank-00010.h5.open: cannot"))
        return 3;
    limit.rlim_cur = 4096; /* no room for the compact copy either */
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    if (argus_timeline_seal(w, "exit", &err) == 0)
        return 4;
    return strstr(err.text, "rank-00010.h5") ? 0 : 5;
}

/* The process lives on, is told, and what was flushed before stays readable. */
static void full_disk_is_an_error(void **state)
{
    struct argus_event_row *events;
    argus_timeline_t *t;
    argus_error_t err;
    int status;
    size_t n;
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(fill_until_full(path_of("rank-00010.h5")));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(access(path_of("rank-00010.h5"), F_OK), -1);
    assert_int_equal(access(path_of("rank-00010.h5.tmp"), F_OK), -1);
    t = argus_timeline_open(path_of("rank-00010.h5.open"), &err);
    if (!t)
        fail_msg("%s", err.text);
    events = argus_timeline_read_all(t, ARGUS_DS_EVENTS, 0, &n, &err);
    if (!events)
        fail_msg("%s", err.text);
    assert_true(n >= 4096);
    free(events);
    argus_timeline_close(t);
}

/* The child writes and flushes until it is killed; it tells how many rows each
 * flush had for certain. */
static void write_until_killed(int fd)
{
    struct argus_timeline_info info = info_of(7);
    argus_error_t err;
    argus_timeline_writer_t *w = argus_timeline_create(path_of("rank-00007.h5"), &info, 1, &err);

    if (!w)
        _exit(2);
    append_classes(w);
    for (int i = 0;; i++) {
        uint32_t whole = (uint32_t)i * 100 / 32 * 32;

        append_steps(w, i * 100, 100);
        if (argus_timeline_flush(w, &err) != 0)
            _exit(3);
        if (write(fd, &whole, sizeof(whole)) != sizeof(whole))
            _exit(4);
    }
}

static void killed_writer_leaves_a_good_file(void **state)
{
    (void)state;
    srand(4711);
    for (int round = 0; round < 30; round++) {
        argus_timeline_t *t;
        argus_error_t err;
        uint32_t rows = 0, last = 0;
        int fd[2], status;
        pid_t pid;

        unlink(path_of("rank-00007.h5.open"));
        assert_int_equal(pipe(fd), 0);
        pid = fork();
        if (pid == 0)
            write_until_killed(fd[1]);
        close(fd[1]);
        assert_int_equal(read(fd[0], &rows, sizeof(rows)), sizeof(rows));
        usleep((useconds_t)(rand() % 20000));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        while (read(fd[0], &rows, sizeof(rows)) == sizeof(rows))
            last = rows;
        close(fd[0]);
        t = argus_timeline_open(path_of("rank-00007.h5.open"), &err);
        if (!t)
            fail_msg("round %d: %s", round, err.text);
        assert_true(argus_timeline_rows(t, ARGUS_DS_STEPS) >= last);
        check_steps(t, argus_timeline_rows(t, ARGUS_DS_STEPS));
        assert_string_equal(argus_timeline_string(t, 39), "void kernel_39<float>(float *)");
        argus_timeline_close(t);
    }
}

static void directory_is_listed_by_rank(void **state)
{
    const char *names[] = {"rank-00010.h5",      "rank-00002.h5.open", "rank-00002.h5",
                           "rank-00001.h5.open", "rank-x.h5",          "rank-00003.h5.tmp",
                           "verdict.json",       "rank-100000.h5"};
    argus_error_t err;
    char sub[128], file[256], **paths;
    size_t n;

    (void)state;
    snprintf(sub, sizeof(sub), "%s/list", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(file, sizeof(file), "%s/%s", sub, names[i]);
        close(open(file, O_CREAT | O_WRONLY, 0600));
    }
    assert_int_equal(argus_timeline_list(sub, &paths, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_non_null(strstr(paths[0], "/rank-00001.h5.open"));
    assert_string_equal(strrchr(paths[1], '/'), "/rank-00002.h5");
    assert_string_equal(strrchr(paths[2], '/'), "/rank-00010.h5");
    assert_string_equal(strrchr(paths[3], '/'), "/rank-100000.h5");
    argus_timeline_list_free(paths, n);
    assert_int_equal(argus_timeline_list("/nonexistent", &paths, &n, &err), -1);
    assert_non_null(strstr(err.text, "/nonexistent"));
}

static void other_files_are_refused(void **state)
{
    argus_error_t err;
    int fd;

    (void)state;
    assert_null(argus_timeline_open(path_of("none.h5"), &err));
    assert_non_null(strstr(err.text, "none.h5: No such file"));
    assert_null(argus_timeline_open(dir, &err));
    assert_non_null(strstr(err.text, "not a regular file"));
    fd = open(path_of("text.h5"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, "hello", 5), 5);
    close(fd);
    assert_null(argus_timeline_open(path_of("text.h5"), &err));
    assert_non_null(strstr(err.text, "text.h5: cannot open as a timeline"));
    print_message("# %s\n", err.text);
    assert_int_equal(mkfifo(path_of("fifo.h5"), 0600), 0);
    assert_null(argus_timeline_open(path_of("fifo.h5"), &err));
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/argus-timeline-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read),
        cmocka_unit_test(equal_strings_are_one),
        cmocka_unit_test(existing_is_refused),
        cmocka_unit_test(live_file_is_refreshed),
        cmocka_unit_test(flushing_often_wastes_little),
        cmocka_unit_test(large_file_is_sealed_in_place),
        cmocka_unit_test(full_disk_is_an_error),
        cmocka_unit_test(killed_writer_leaves_a_good_file),
        cmocka_unit_test(directory_is_listed_by_rank),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests_name("timeline", tests, make_dir, remove_dir);
}
