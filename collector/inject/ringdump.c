/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the rings of a spool as text, for the script tests:
 *     collector_ringdump SPOOL
 * "ring key=value ...", then one line a record. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/inject/testkit.h"

static const char *const types[] = {
    "NONE", "KERNEL",    "MEMCPY", "MEMSET",    "GRAPH", "OVERHEAD", "SYNC",   "API", "COMM",
    "OP",   "OP_DETAIL", "LAUNCH", "PEER_WAIT", "MARK",  "STACK",    "ANCHOR", "GAP", "FLUSH"};

static void per_source(const char *key, const uint64_t *values)
{
    printf(" %s=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, key, values[0], values[1], values[2],
           values[3]);
}

static void header(const struct view *v)
{
    const struct argus_ring_header *h = v->header;

    printf("ring rank=%d world=%d local=%d device=%d job=%s step=%s node=%s exe=%s", h->rank,
           h->world, h->local_rank, h->device, h->job, h->step, h->node, h->exe);
    printf(" gpu=%s pci=%s driver=%u cupti=%u nccl=%u interface=%u simulated=%u", h->gpu_uuid,
           h->gpu_pci, h->driver_version, h->cupti_version, h->nccl_version, h->nccl_interface,
           h->simulated);
    printf(" slots=%" PRIu64 " names_bytes=%u end=%u", h->slots, h->names_bytes, h->end);
    printf(" standdown=%u,%u,%u,%u code=%d,%d,%d,%d", h->standdown[0], h->standdown[1],
           h->standdown[2], h->standdown[3], h->standdown_code[0], h->standdown_code[1],
           h->standdown_code[2], h->standdown_code[3]);
    per_source("records", h->records);
    per_source("dropped", h->dropped);
    per_source("invalid", h->invalid);
    printf(" names_dropped=%" PRIu64 "\n", h->names_dropped);
}

static void record(const struct view *v, const struct argus_record *r)
{
    printf("%s tid=%u flags=%u start=%" PRId64 " length=%" PRId64,
           r->type < sizeof(types) / sizeof(types[0]) ? types[r->type] : "?", r->tid, r->flags,
           r->start, r->end - r->start);
    switch (r->type) {
    case ARGUS_REC_KERNEL:
        printf(" stream=%u graph=%u name=%s", r->u.kernel.stream, r->u.kernel.graph,
               testkit_name(v, r->u.kernel.name));
        break;
    case ARGUS_REC_MEMCPY:
    case ARGUS_REC_MEMSET:
        printf(" bytes=%" PRIu64 " kind=%u", r->u.copy.bytes, r->u.copy.kind);
        break;
    case ARGUS_REC_OVERHEAD:
    case ARGUS_REC_API:
    case ARGUS_REC_SYNC:
        printf(" code=%u", r->u.host.code);
        break;
    case ARGUS_REC_COMM:
        printf(" comm=%" PRIx64 " ranks=%u rank=%u", r->u.comm.comm, r->u.comm.nranks,
               r->u.comm.rank);
        break;
    case ARGUS_REC_OP:
    case ARGUS_REC_OP_DETAIL:
    case ARGUS_REC_LAUNCH:
        printf(" comm=%" PRIx64 " func=%u count=%" PRIu64 " seq=%u peer=%d dtype=%u stream=%u",
               r->u.op.comm, r->u.op.func, r->u.op.count, r->u.op.seq, r->u.op.peer, r->u.op.dtype,
               r->u.op.stream);
        break;
    case ARGUS_REC_PEER_WAIT:
        printf(" peer=%d state=%u count=%u", r->u.peer.peer, r->u.peer.state, r->u.peer.count);
        break;
    case ARGUS_REC_MARK:
        printf(" level=%u domain=%s", r->u.mark.level, testkit_name(v, r->u.mark.domain));
        printf(" name=%s", testkit_name(v, r->u.mark.name));
        break;
    case ARGUS_REC_STACK:
        printf(" state=%c starved=%u folded=%s", r->u.stack.state ? (int)r->u.stack.state : '-',
               r->u.stack.starved, testkit_name(v, r->u.stack.folded));
        break;
    case ARGUS_REC_GAP:
        printf(" source=%u reason=%u", r->u.gap.source, r->u.gap.reason);
        break;
    default:
        break;
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct argus_record r;
    struct dirent *e;
    struct view v;
    DIR *dir;

    if (argc != 2 || !(dir = opendir(argv[1]))) {
        fprintf(stderr, "usage: collector_ringdump SPOOL\n");
        return 2;
    }
    while ((e = readdir(dir))) {
        size_t n = strlen(e->d_name);

        if (n <= 5 || strcmp(e->d_name + n - 5, ARGUS_RING_SUFFIX) != 0)
            continue;
        snprintf(v.path, sizeof(v.path), "%s/%s", argv[1], e->d_name);
        testkit_map(&v);
        header(&v);
        while (testkit_next(&v, &r))
            record(&v, &r);
        testkit_close(&v);
    }
    closedir(dir);
    return 0;
}
