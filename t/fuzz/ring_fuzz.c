/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damages what a user's process can put before the recorder: a ring, the
 * state that a killed recorder left beside it, and step.conf.  The recorder
 * must finish each spool in time, in bounds, with or without an error, and
 * every timeline that it writes must open.
 *
 * Usage: ring_fuzz [SECONDS [SEED]]
 */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <argus/record.h>
#include <argus/step.h>

#include "analyzer/timeline/timeline_io.h"
#include "collector/record/checkpoint.h"
#include "collector/record/recorder.h"
#include "collector/record/ringkit.h"
#include "collector/record/source.h"

#define SLOTS 1024
#define NAMES 65536
#define CASE_LIMIT_S 60
#define RING_NAME "0-7.ring"

struct bytes {
    unsigned char *data;
    size_t n;
};

static uint64_t state = 1;

static uint64_t next(uint64_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? state % limit : 0;
}

static void too_long(int signal)
{
    static const char text[] = "ring_fuzz: the recorder does not come to an end\n";

    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    abort();
}

static int save(const char *path, const struct bytes *b, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd >= 0 && write(fd, b->data, n) == (ssize_t)n ? 0 : -1;

    if (fd >= 0)
        close(fd);
    return rc;
}

static int load(const char *path, struct bytes *b)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = -1;

    b->data = NULL;
    b->n = 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 &&
        (b->data = malloc((size_t)st.st_size))) {
        b->n = (size_t)st.st_size;
        rc = read(fd, b->data, b->n) == (ssize_t)b->n ? 0 : -1;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    return ftw->level > 0 ? remove(path) : 0;
}

static void empty(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void name_path(void *arg, const struct argus_ring_header *h, char *path, size_t size)
{
    (void)h;
    snprintf(path, size, "%s/rank-00000.h5", (const char *)arg);
}

/* A ring of a few steps, half read by a recorder whose state is kept. */
static int make_samples(enum kit_job job, const char *spool, const char *out, struct bytes *ring,
                        struct bytes *saved)
{
    struct kit_options o = {
        .job = job, .kernels = 60, .world = 2, .seed = 7, .start = 1700000000000000000};
    struct argus_stream_options options = {
        .mode = "summary", .job = "1", .step = "0", .node = "n1"};
    char path[512], state_path[600];
    argus_error_t err = {""};
    argus_source_t *s;
    ringkit_t *k;
    int rc = -1;

    snprintf(path, sizeof(path), "%s/" RING_NAME, spool);
    snprintf(state_path, sizeof(state_path), "%s" ARGUS_STATE_SUFFIX, path);
    k = ringkit_create(path, SLOTS, &o);
    if (!k)
        return -1;
    for (int i = 0; i < 6; i++)
        ringkit_step(k, 0);
    argus_summary_defaults(&options.summary);
    s = argus_source_open(spool, RING_NAME, &options, &err);
    if (!s) {
        fprintf(stderr, "ring_fuzz: %s\n", err.text);
        ringkit_close(k);
        return -1;
    }
    argus_source_poll(s, &options, name_path, (void *)out, 1);
    rc = argus_source_checkpoint(s, 1, 1, &err);
    argus_source_destroy(s);
    for (int i = 0; i < 6; i++)
        ringkit_step(k, 0);
    ringkit_claim(k);
    ringkit_end(k, 1);
    ringkit_header(k)->pid = 0x7fffffff; /* nobody */
    ringkit_close(k);
    if (rc == 0)
        rc = load(path, ring);
    if (rc == 0) {
        /* A small heap of names: more rounds a second. */
        struct argus_ring_header *h = (void *)ring->data;

        h->names_bytes = NAMES;
        ring->n = h->names_offset + NAMES;
    }
    /* A job without anything to wait for may have no state yet. */
    if (rc == 0 && load(state_path, saved) < 0)
        saved->n = 0;
    empty(spool);
    empty(out);
    return rc;
}

/* Header, used slots and names are hit most; n is the new length. */
static size_t damage(struct bytes *b, size_t hot)
{
    size_t n = b->n;

    for (uint64_t i = 1 + next(6); i > 0; i--) {
        size_t range = next(4) ? (hot < n ? hot : n) : n;
        size_t at = next(next(8) ? range : 512 < n ? 512 : n);
        size_t length = 1 + next(24);
        uint64_t value;

        if (length > n - at)
            length = n - at;
        switch (next(8)) {
        case 0:
            b->data[at] ^= (unsigned char)(1u << next(8));
            break;
        case 1:
            memset(b->data + at, next(2) ? 0xff : 0, length);
            break;
        case 2:
            memmove(b->data + at, b->data + next(n - length + 1), length);
            break;
        case 3:
        case 4:
            /* A number that was never meant, where numbers stand. */
            at &= ~(size_t)7;
            value = next(2) ? next(1u << 20) : (uint64_t)1 << next(64);
            if (at + sizeof(value) <= n)
                memcpy(b->data + at, &value, sizeof(value));
            break;
        case 5:
            if (at + 64 <= n)
                b->data[at + next(64)] = (unsigned char)next(256);
            break;
        case 6:
            for (size_t k = 0; k < length; k++)
                b->data[at + k] = (unsigned char)next(256);
            break;
        default:
            if (next(6) == 0)
                n = 1 + next(n);
            break;
        }
    }
    return n;
}

static struct bytes copy_of(const struct bytes *b)
{
    struct bytes c = {malloc(b->n), b->n};

    if (!c.data)
        abort();
    memcpy(c.data, b->data, b->n);
    return c;
}

static int put(const char *dir, const char *name, const struct bytes *good, int damaged, size_t hot)
{
    struct bytes b = copy_of(good);
    size_t n = damaged ? damage(&b, hot) : b.n;
    char path[1024];
    int rc;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    rc = save(path, &b, n);
    free(b.data);
    return rc;
}

static unsigned long timelines;

static int open_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    size_t n = strlen(path);
    argus_error_t err = {""};
    argus_timeline_t *t;

    (void)st;
    (void)ftw;
    if (type != FTW_F || n < 3 || strcmp(path + n - 3, ".h5"))
        return 0;
    t = argus_timeline_open(path, &err);
    if (!t) {
        fprintf(stderr, "ring_fuzz: a timeline that the recorder wrote: %s\n", err.text);
        abort();
    }
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        size_t rows;

        free(argus_timeline_read_all(t, d, 1 << 20, &rows, &err));
    }
    argus_timeline_close(t);
    timelines++;
    return 0;
}

int main(int argc, char **argv)
{
    static const char conf_text[] =
        "version=1\njob=1\nstep=0\nhet=-\nslurm_job=1\nuser=nobody\nuid=0\ngid=0\ncluster=c\n"
        "node=n1\nnodeid=0\nnnodes=2\nnodes=n[1-2]\nstep_nodes=n[1-2]\nntasks=2\nlocal_tasks=1\n"
        "dir=/nonexistent\nstarted=1700000000000000000\nmode=summary\nwindow=4\nkeep_mb=64\n"
        "ring_mb=1\nlazy=off\ncomment=admin\n";
    const struct bytes conf = {(unsigned char *)conf_text, sizeof(conf_text) - 1};
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    struct bytes ring[KIT_JOBS], saved[KIT_JOBS];
    char top[64], spool[80], out[80], path[96];
    int terminal;
    const volatile sig_atomic_t stop = 0;
    unsigned long cases = 0;
    time_t start;
    const char *tmp = getenv("TMPDIR");

    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x6a09e667f3bcc909u;
    if (!state)
        state = 1;
    snprintf(top, sizeof(top), "%.40s/argus-ring-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(top))
        return 1;
    printf("# seed %llu, in %s (messages)\n", (unsigned long long)state, top);
    fflush(stdout);
    snprintf(spool, sizeof(spool), "%s/spool", top);
    snprintf(out, sizeof(out), "%s/out", top);
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    signal(SIGALRM, too_long);
    if (mkdir(spool, 0700) < 0 || mkdir(out, 0700) < 0)
        return 1;
    for (int j = 0; j < KIT_JOBS; j++) {
        if (make_samples((enum kit_job)j, spool, out, &ring[j], &saved[j]) < 0) {
            fputs("ring_fuzz: no samples\n", stderr);
            return 1;
        }
    }
    /* What the recorder says, and a sanitizer when it stops us: a finding leaves it there. */
    snprintf(path, sizeof(path), "%s/messages", top);
    terminal = dup(STDERR_FILENO);
    if (terminal < 0 || !freopen(path, "a", stderr))
        return 1;
    setvbuf(stderr, NULL, _IONBF, 0); /* abort() writes nothing out */
    start = time(NULL);
    while (difftime(time(NULL), start) < seconds) {
        struct argus_recorder_options o = {.spool = spool,
                                           .dir = out,
                                           .drain = 1,
                                           .sysfs = "/nonexistent",
                                           .nvml = "/nonexistent"};
        uint64_t j = next(KIT_JOBS), what = next(8);
        argus_error_t err = {""};

        if (put(spool, ARGUS_STEP_CONF_NAME, &conf, what == 0, conf.n) < 0 ||
            put(spool, RING_NAME, &ring[j], what != 1,
                ARGUS_RING_HEADER_BYTES + SLOTS * ARGUS_RECORD_BYTES + 4096) < 0 ||
            (what < 3 && saved[j].n &&
             put(spool, RING_NAME ARGUS_STATE_SUFFIX, &saved[j], what == 1, saved[j].n) < 0))
            return 1;
        alarm(CASE_LIMIT_S);
        argus_recorder_run(&o, &stop, &err);
        nftw(out, open_one, 16, FTW_PHYS);
        alarm(0);
        empty(spool);
        empty(out);
        if (ftruncate(STDERR_FILENO, 0) < 0)
            return 1;
        cases++;
    }
    fflush(stderr);
    dup2(terminal, STDERR_FILENO);
    close(terminal);
    empty(top);
    rmdir(top);
    for (int j = 0; j < KIT_JOBS; j++) {
        free(ring[j].data);
        free(saved[j].data);
    }
    printf("1..1\n%s 1 - %lu damaged spools, %lu timelines came of them\n",
           timelines ? "ok" : "not ok", cases, timelines);
    return timelines ? 0 : 1;
}
