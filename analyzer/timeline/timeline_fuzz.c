/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_fuzz [SECONDS [SEED]]: reads damaged copies of good timelines.
 *
 * Bytes are flipped, ranges zeroed, copied or filled, the file cut or
 * extended; in half of the rounds the checksums of HDF5's metadata are left
 * alone only by luck, so most damage is found by HDF5, the rest by us.  A
 * round passes when the reader returns; what it returns does not matter.
 */
#include <config.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/timeline/timeline_io.h"

/* HDF5 loses memory when it gives a damaged file up. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

static uint64_t state;

static uint64_t next(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

static int make(const char *path, int live)
{
    struct argus_timeline_info info = {.job = "1", .step = "0", .world = 2, .node = "n1"};
    argus_timeline_writer_t *w = argus_timeline_create(path, &info, 1, NULL);
    char name[64];

    if (!w)
        return -1;
    for (uint32_t i = 0; i < 300; i++) {
        struct argus_class_row class = {.kind = ARGUS_CLASS_COMM, .grid = {i, 1, 1}, .comm = 0};
        struct argus_comm_row comm = {.hash = i + 1, .size = 2, .members = ARGUS_NONE};
        struct argus_step_row step = {.start = i * 1000, .end = i * 1000 + 900, .step = (int)i};
        struct argus_step_comm_row step_comm = {.step = (int)i, .class_id = i, .count = 1};
        struct argus_cluster_row cluster = {.last_step = (int)i, .class_id = i, .count = 1};
        struct argus_event_row event = {.start = i * 1000, .duration = 900, .class_id = i};
        struct argus_mark_row mark = {.start = i, .end = i + 1};
        struct argus_health_row health = {.time = i, .value = i * 0.5};
        struct argus_gap_row gap = {.start = i};

        snprintf(name, sizeof(name), "kernel number %u of the file", i);
        class.name = argus_timeline_add_string(w, name, strlen(name));
        if (argus_timeline_append(w, ARGUS_DS_COMMS, &comm, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_CLASSES, &class, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_STEPS, &step, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_STEP_COMM, &step_comm, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_CLUSTERS, &cluster, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_EVENTS, &event, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_MARKS, &mark, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_HEALTH, &health, 1, NULL) != 0 ||
            argus_timeline_append(w, ARGUS_DS_GAPS, &gap, 1, NULL) != 0)
            return -1;
    }
    if (!live)
        return argus_timeline_seal(w, "exit", NULL);
    argus_timeline_abandon(w);
    return 0;
}

static unsigned char *load(const char *path, size_t *n)
{
    struct stat st;
    unsigned char *bytes = NULL;
    int fd = open(path, O_RDONLY);

    if (fd >= 0 && fstat(fd, &st) == 0 && (bytes = malloc((size_t)st.st_size))) {
        *n = (size_t)st.st_size;
        if (read(fd, bytes, *n) != (ssize_t)*n) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

static size_t damage(unsigned char *b, size_t n)
{
    size_t at, length;

    for (uint64_t i = 1 + next(4); i > 0; i--) {
        at = next(next(2) ? n : n < 4096 ? n : 4096);
        length = 1 + next(16);
        if (length > n - at)
            length = n - at;
        switch (next(6)) {
        case 0:
            b[at] ^= (unsigned char)(1u << next(8));
            break;
        case 1:
            b[at] = (unsigned char)next(256);
            break;
        case 2:
            memset(b + at, next(2) ? 0xff : 0, length);
            break;
        case 3:
            memmove(b + at, b + next(n - length + 1), length);
            break;
        case 4:
            for (size_t k = 0; k < length; k++)
                b[at + k] = (unsigned char)next(256);
            break;
        default:
            if (next(4) == 0)
                n = 1 + next(n);
            break;
        }
    }
    return n;
}

static void read_everything(const char *path)
{
    argus_error_t err;
    argus_timeline_t *t = argus_timeline_open(path, &err);

    if (!t)
        return;
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        size_t n;
        void *rows = argus_timeline_read_all(t, d, 1 << 20, &n, &err);

        if (rows && d == ARGUS_DS_CLASSES) {
            for (size_t i = 0; i < n; i++)
                (void)strlen(argus_timeline_string(t, ((struct argus_class_row *)rows)[i].name));
        }
        free(rows);
    }
    argus_timeline_refresh(t, &err);
    argus_timeline_close(t);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    char dir[] = "/tmp/argus-fuzz-XXXXXX", path[64], open_path[64];
    unsigned char *good[2], *bad;
    size_t size[2], n;
    unsigned long rounds = 0;
    time_t start = time(NULL);
    int fd, rc = 1;

    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x9e3779b97f4a7c15u;
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/rank-0.h5", dir);
    snprintf(open_path, sizeof(open_path), "%s/rank-0.h5.open", dir);
    if (make(path, 0) != 0 || !(good[0] = load(path, &size[0])) || unlink(path) != 0 ||
        make(path, 1) != 0 || !(good[1] = load(open_path, &size[1]))) {
        fputs("timeline_fuzz: cannot make a timeline\n", stderr);
        return 1;
    }
    bad = malloc(size[0] > size[1] ? size[0] : size[1]);
    while (bad && difftime(time(NULL), start) < seconds) {
        int live = rounds % 2 != 0;

        memcpy(bad, good[live], size[live]);
        n = damage(bad, size[live]);
        fd = open(live ? open_path : path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (fd < 0 || write(fd, bad, n) != (ssize_t)n)
            goto out;
        close(fd);
        read_everything(live ? open_path : path);
        rounds++;
    }
    printf("1..1\nok 1 - %lu damaged timelines were read or refused\n", rounds);
    rc = 0;
out:
    unlink(path);
    unlink(open_path);
    rmdir(dir);
    free(good[0]);
    free(good[1]);
    free(bad);
    return rc;
}
