/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/inject/testkit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILDREN_MAX 16

const char *testkit_here;

void testkit_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "# %s:%d: %s\n", file, line, what);
    fflush(NULL);
    _exit(99);
}

const char *testkit_spool(void)
{
    static const char *const ranks[] = {"RANK",       "WORLD_SIZE",   "OMPI_COMM_WORLD_RANK",
                                        "PMIX_RANK",  "SLURM_PROCID", "SLURM_NTASKS",
                                        "LOCAL_RANK", "PMI_RANK",     "ARGUS_SOURCES"};
    const char *base = getenv("TMPDIR");
    char path[256];

    snprintf(path, sizeof(path), "%s/argus-test-XXXXXX", base && *base ? base : "/tmp");
    CHECK(mkdtemp(path) != NULL);
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        unsetenv(ranks[i]);
    setenv("ARGUS_SPOOL", path, 1);
    setenv("ARGUS_RANK", "3", 1);
    setenv("ARGUS_WORLD", "8", 1);
    setenv("ARGUS_LOCAL_RANK", "1", 1);
    setenv("ARGUS_NODE", "n07", 1);
    setenv("ARGUS_JOB", "4711", 1);
    setenv("ARGUS_STEP", "0", 1);
    return getenv("ARGUS_SPOOL");
}

void testkit_clean(const char *spool)
{
    DIR *dir = opendir(spool);
    struct dirent *e;
    char path[512];

    while (dir && (e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", spool, e->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(spool);
}

void testkit_conf(const char *spool, const char *text)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/step.conf", spool);
    f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

static pid_t begin(void (*body)(void *), void *argument)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(60);
        body(argument);
        exit(0);
    }
    return pid;
}

int testkit_child(void (*body)(void *), void *argument)
{
    pid_t pid = begin(body, argument);
    int status = 0;

    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

int testkit_children(void (*body)(void *), void *arguments, size_t bytes, size_t n)
{
    const char *mine = testkit_here;
    char spools[CHILDREN_MAX][256];
    pid_t pids[CHILDREN_MAX];
    int status, bad = 0;

    CHECK(n <= CHILDREN_MAX);
    for (size_t i = 0; i < n; i++) {
        snprintf(spools[i], sizeof(spools[i]), "%s", testkit_spool());
        testkit_here = spools[i];
        pids[i] = begin(body, (char *)arguments + i * bytes);
    }
    for (size_t i = 0; i < n; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        if (status != 0)
            fprintf(stderr, "# case %zu: status %d\n", i, status);
        bad = bad ? bad : status;
        testkit_clean(spools[i]);
    }
    testkit_here = mine;
    return bad;
}

int testkit_rings(const char *spool)
{
    DIR *dir = opendir(spool);
    struct dirent *e;
    int n = 0;

    while (dir && (e = readdir(dir))) {
        size_t length = strlen(e->d_name);

        n += length > 5 && strcmp(e->d_name + length - 5, ARGUS_RING_SUFFIX) == 0;
    }
    if (dir)
        closedir(dir);
    return n;
}

static bool find(struct view *view, const char *spool)
{
    DIR *dir = opendir(spool);
    struct dirent *e;
    bool found = false;

    while (!found && dir && (e = readdir(dir))) {
        size_t length = strlen(e->d_name);

        if (length > 5 && strcmp(e->d_name + length - 5, ARGUS_RING_SUFFIX) == 0) {
            snprintf(view->path, sizeof(view->path), "%s/%s", spool, e->d_name);
            found = true;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

void testkit_map(struct view *view)
{
    struct stat st;
    int fd = open(view->path, O_RDWR);

    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    view->bytes = (size_t)st.st_size;
    view->map = mmap(NULL, view->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(view->map != MAP_FAILED);
    close(fd);
    view->header = view->map;
    CHECK(view->header->magic == ARGUS_RING_MAGIC);
    CHECK(view->header->version == ARGUS_RING_VERSION);
    CHECK((view->header->slots & (view->header->slots - 1)) == 0);
    CHECK(view->header->slots_offset + view->header->slots * ARGUS_RECORD_BYTES <= view->bytes);
    CHECK(view->header->names_offset + view->header->names_bytes <= view->bytes);
    view->slots = (struct argus_record *)((char *)view->map + view->header->slots_offset);
}

bool testkit_open(struct view *view, const char *spool)
{
    struct timespec ts = {0, 10000000};

    for (int i = 0; !find(view, spool); i++) {
        if (i == 1500)
            return false;
        nanosleep(&ts, NULL);
    }
    testkit_map(view);
    return true;
}

void testkit_close(struct view *view)
{
    munmap(view->map, view->bytes);
}

bool testkit_next(struct view *view, struct argus_record *out)
{
    struct argus_ring_header *h = view->header;
    uint64_t position = h->tail, lap = position / h->slots;
    struct argus_record *slot = &view->slots[position % h->slots];

    if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != 2 * lap + 1)
        return false;
    *out = *slot;
    __atomic_store_n(&slot->state, 2 * lap + 2, __ATOMIC_RELEASE);
    __atomic_store_n(&h->tail, position + 1, __ATOMIC_RELEASE);
    return true;
}

const char *testkit_name(const struct view *view, uint32_t offset)
{
    static char text[8192];
    const struct argus_name *name =
        (const void *)((const char *)view->map + view->header->names_offset + offset);

    if (offset == ARGUS_NAME_NONE)
        return "(none)";
    CHECK(offset % 8 == 0 && offset + 4 + name->length <= view->header->names_bytes);
    CHECK(name->length < sizeof(text));
    memcpy(text, name->bytes, name->length);
    text[name->length] = '\0';
    return text;
}

int testkit_setup(void **state)
{
    (void)state;
    testkit_here = testkit_spool();
    return 0;
}

int testkit_teardown(void **state)
{
    (void)state;
    testkit_clean(testkit_here);
    return 0;
}

void testkit_renew(void)
{
    testkit_clean(testkit_here);
    testkit_here = testkit_spool();
}

void testkit_nap(int ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&ts, NULL);
}

void testkit_await(const uint64_t *counter, uint64_t value)
{
    for (int i = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) != value; i++) {
        CHECK(i < 1500);
        testkit_nap(10);
    }
}

unsigned testkit_count(struct view *view, enum argus_record_type type)
{
    struct argus_record r;
    unsigned n = 0;

    while (testkit_next(view, &r))
        n += r.type == type;
    return n;
}

/* Leak detection in forked children takes what other threads hold for lost. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
