/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer of rings for t/gpu/run.sh, where there is no recorder (no HDF5):
 * empties every ring of a spool until SIGTERM, then prints what it saw.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "argus/record.h"

#define RINGS 64

static struct ring {
    char name[256];
    struct argus_ring_header *header;
    struct argus_record *slots;
} rings[RINGS];
static int ring_count;
static uint64_t types[32], gap_ns, named_streams;
static int64_t newest_kernel;
static volatile sig_atomic_t stop;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

static void attach(const char *spool, const char *name)
{
    struct ring *r = &rings[ring_count];
    char path[1024];
    struct stat st;
    void *map;
    int fd;

    for (int i = 0; i < ring_count; i++) {
        if (strcmp(rings[i].name, name) == 0)
            return;
    }
    snprintf(path, sizeof(path), "%s/%s", spool, name);
    fd = open(path, O_RDWR);
    if (ring_count == RINGS || fd < 0 || fstat(fd, &st))
        return;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    snprintf(r->name, sizeof(r->name), "%s", name);
    r->header = map;
    r->slots = (struct argus_record *)((char *)map + r->header->slots_offset);
    ring_count++;
}

static void look(const char *spool)
{
    DIR *dir = opendir(spool);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        size_t n = strlen(e->d_name);

        if (n > 5 && strcmp(e->d_name + n - 5, ARGUS_RING_SUFFIX) == 0)
            attach(spool, e->d_name);
    }
    if (dir)
        closedir(dir);
}

static void empty(struct ring *r)
{
    struct argus_ring_header *h = r->header;
    uint64_t p = h->tail;

    for (;; p++) {
        struct argus_record *s = &r->slots[p % h->slots];
        uint64_t lap = p / h->slots;

        if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != 2 * lap + 1)
            break;
        types[s->type % 32]++;
        if (s->type == ARGUS_REC_KERNEL && s->end > newest_kernel)
            newest_kernel = s->end;
        if (s->type == ARGUS_REC_GAP)
            gap_ns += (uint64_t)(s->end - s->start);
        if (s->type == ARGUS_REC_LAUNCH && s->u.op.stream)
            named_streams++;
        __atomic_store_n(&s->state, 2 * lap + 2, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&h->tail, p, __ATOMIC_RELEASE);
}

static void report(void)
{
    uint64_t dropped = 0, invalid = 0;
    const struct argus_ring_header *h = ring_count ? rings[0].header : NULL;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);

    for (int i = 0; i < ring_count; i++) {
        dropped += rings[i].header->dropped[ARGUS_SOURCE_CUPTI];
        invalid += rings[i].header->invalid[ARGUS_SOURCE_CUPTI];
    }
    printf("rings=%d kernels=%" PRIu64 " memcpys=%" PRIu64 " memsets=%" PRIu64 " graphs=%" PRIu64
           " overheads=%" PRIu64 " apis=%" PRIu64,
           ring_count, types[ARGUS_REC_KERNEL], types[ARGUS_REC_MEMCPY], types[ARGUS_REC_MEMSET],
           types[ARGUS_REC_GRAPH], types[ARGUS_REC_OVERHEAD], types[ARGUS_REC_API]);
    printf(" comms=%" PRIu64 " ops=%" PRIu64 " details=%" PRIu64 " launches=%" PRIu64
           " streams=%" PRIu64 " gaps=%" PRIu64 " gap_s=%.1f dropped=%" PRIu64 " invalid=%" PRIu64,
           types[ARGUS_REC_COMM], types[ARGUS_REC_OP], types[ARGUS_REC_OP_DETAIL],
           types[ARGUS_REC_LAUNCH], named_streams, types[ARGUS_REC_GAP], (double)gap_ns * 1e-9,
           dropped, invalid);
    /* For how long there has been no kernel. */
    printf(" stacks=%" PRIu64 " quiet_s=%.1f", types[ARGUS_REC_STACK],
           (double)now.tv_sec - (double)newest_kernel * 1e-9);
    if (h)
        printf(" end=%u standdown=%u code=%d cupti=%u nccl=%u interface=%u uuid=%s", h->end,
               h->standdown[0], h->standdown_code[0], h->cupti_version, h->nccl_version,
               h->nccl_interface, h->gpu_uuid[0] ? h->gpu_uuid : "-");
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct timespec nap = {0, 10000000};

    if (argc != 2)
        return 2;
    signal(SIGTERM, on_term);
    for (;;) {
        bool last = stop;

        look(argv[1]);
        for (int i = 0; i < ring_count; i++)
            empty(&rings[i]);
        if (last)
            break;
        nanosleep(&nap, NULL);
    }
    report();
    return 0;
}
