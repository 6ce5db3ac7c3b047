/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROP_PAGES_SLOTS 16384u /* 1 MiB of slots: then our mapping of them is dropped */

/* Where to go on if a ring's pages vanish while they are read. */
static __thread sigjmp_buf vanished;
static __thread volatile sig_atomic_t guarded;

static void on_sigbus(int sig)
{
    if (guarded) {
        guarded = 0;
        siglongjmp(vanished, 1);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

void argus_ring_catch_sigbus(void)
{
    struct sigaction sa = {.sa_handler = on_sigbus};

    sigemptyset(&sa.sa_mask);
    sa.sa_flags = SA_NODEFER;
    sigaction(SIGBUS, &sa, NULL);
}

/* No early exit between the two, and nothing in between that must be undone. */
#define GUARD_BEGIN(r, err, what)                                                                  \
    do {                                                                                           \
        if (sigsetjmp(vanished, 0))                                                                \
            return argus_error((err), "the ring was cut short while its %s were read", (what));    \
        guarded = 1;                                                                               \
    } while (0)
#define GUARD_END() (guarded = 0)

static struct argus_ring_header *header_of(const struct argus_ring *r)
{
    return (struct argus_ring_header *)(void *)r->map;
}

static struct argus_record *slot_of(const struct argus_ring *r, uint64_t position)
{
    return (struct argus_record *)(void *)(r->map + r->slots_offset) + (position & (r->slots - 1));
}

static int check_header(struct argus_ring *r, const struct argus_ring_header *h, argus_error_t *err)
{
    uint64_t slot_bytes;

    if (h->magic != ARGUS_RING_MAGIC)
        return argus_error(err, "not a ring");
    if (h->version != ARGUS_RING_VERSION)
        return argus_error(err, "ring version %u, this recorder reads %d", h->version,
                           ARGUS_RING_VERSION);
    if (h->header_bytes != ARGUS_RING_HEADER_BYTES || h->record_bytes != ARGUS_RECORD_BYTES)
        return argus_error(err, "ring header of %u bytes, records of %u", h->header_bytes,
                           h->record_bytes);
    if (!h->slots || (h->slots & (h->slots - 1)) || h->slots > r->size / ARGUS_RECORD_BYTES)
        return argus_error(err, "ring of %llu slots in a file of %zu bytes",
                           (unsigned long long)h->slots, r->size);
    slot_bytes = h->slots * ARGUS_RECORD_BYTES;
    if (h->slots_offset < ARGUS_RING_HEADER_BYTES || h->slots_offset % ARGUS_RECORD_BYTES ||
        h->slots_offset > r->size - slot_bytes)
        return argus_error(err, "ring slots at %llu in a file of %zu bytes",
                           (unsigned long long)h->slots_offset, r->size);
    if (h->names_offset < h->slots_offset + slot_bytes || h->names_offset > r->size ||
        h->names_bytes > r->size - h->names_offset || h->names_offset % 8)
        return argus_error(err, "ring names at %llu, %u bytes, in a file of %zu bytes",
                           (unsigned long long)h->names_offset, h->names_bytes, r->size);
    r->slots = h->slots;
    r->slots_offset = h->slots_offset;
    r->names_offset = h->names_offset;
    r->names_bytes = h->names_bytes;
    r->pid_start = h->pid_start;
    r->created = h->created;
    return 0;
}

static int copy_header(struct argus_ring *r, struct argus_ring_header *copy, argus_error_t *err)
{
    GUARD_BEGIN(r, err, "header");
    memcpy(copy, r->map, sizeof(*copy));
    GUARD_END();
    return 0;
}

int argus_ring_open(struct argus_ring *r, const char *path, argus_error_t *err)
{
    struct argus_ring_header h;
    struct stat st;

    memset(r, 0, sizeof(*r));
    r->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0)
        return argus_error(err, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        argus_error(err, "%s: not a regular file", path);
        goto error;
    }
    if (st.st_size < ARGUS_RING_HEADER_BYTES || (uint64_t)st.st_size > (UINT64_C(1) << 40)) {
        argus_error(err, "%s: %lld bytes are no ring", path, (long long)st.st_size);
        goto error;
    }
    r->size = (size_t)st.st_size;
    r->map = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (r->map == MAP_FAILED) {
        r->map = NULL;
        argus_error(err, "%s: cannot map: %s", path, strerror(errno));
        goto error;
    }
    if (copy_header(r, &h, err) < 0 || check_header(r, &h, err) < 0) {
        argus_error_prefix(err, "%s", path);
        goto error;
    }
    r->cursor = r->released = h.tail;
    return 0;
error:
    argus_ring_close(r);
    return -1;
}

void argus_ring_close(struct argus_ring *r)
{
    if (r->map)
        munmap(r->map, r->size);
    if (r->fd >= 0)
        close(r->fd);
    memset(r, 0, sizeof(*r));
    r->fd = -1;
}

#define TERMINATE(field) ((field)[sizeof(field) - 1] = '\0')

int argus_ring_header(struct argus_ring *r, struct argus_ring_header *copy, argus_error_t *err)
{
    if (copy_header(r, copy, err) < 0)
        return -1;
    TERMINATE(copy->job);
    TERMINATE(copy->step);
    TERMINATE(copy->node);
    TERMINATE(copy->exe);
    TERMINATE(copy->gpu_uuid);
    TERMINATE(copy->gpu_name);
    TERMINATE(copy->gpu_pci);
    return 0;
}

int argus_ring_heartbeat(struct argus_ring *r, int64_t now, argus_error_t *err)
{
    GUARD_BEGIN(r, err, "header");
    __atomic_store_n(&header_of(r)->heartbeat, now, __ATOMIC_RELAXED);
    GUARD_END();
    return 0;
}

int argus_ring_seek(struct argus_ring *r, uint64_t cursor)
{
    if (cursor - r->released > r->slots)
        return -1;
    r->cursor = cursor;
    return 0;
}

uint64_t argus_ring_waiting(struct argus_ring *r)
{
    uint64_t head;

    GUARD_BEGIN(r, NULL, "header");
    head = __atomic_load_n(&header_of(r)->head, __ATOMIC_ACQUIRE);
    GUARD_END();
    return head - r->cursor <= r->slots ? head - r->cursor : 0;
}

int argus_ring_read(struct argus_ring *r, struct argus_record *records, size_t max, int dead,
                    size_t *n, uint64_t *torn, argus_error_t *err)
{
    uint64_t head, bad = 0;

    *n = 0;
    GUARD_BEGIN(r, err, "slots");
    head = __atomic_load_n(&header_of(r)->head, __ATOMIC_ACQUIRE);
    if (head - r->cursor > r->slots) {
        GUARD_END();
        return argus_error(err, "ring head %llu, tail %llu, %llu slots", (unsigned long long)head,
                           (unsigned long long)r->cursor, (unsigned long long)r->slots);
    }
    while (*n < max && r->cursor != head) {
        struct argus_record *slot = slot_of(r, r->cursor);
        uint64_t lap = r->cursor / r->slots;
        uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

        if (state == 2 * lap + 1) {
            records[(*n)++] = *slot;
        } else if (state == 2 * lap) {
            if (!dead)
                break;
            ++*torn;
        } else if (state !=
                   2 * lap + 2) { /* that one: read and released, but the tail was not moved */
            bad = state | 1;
            break;
        }
        r->cursor++;
    }
    GUARD_END();
    if (bad && !*n)
        return argus_error(err, "ring slot %llu is in state %llu",
                           (unsigned long long)(r->cursor & (r->slots - 1)),
                           (unsigned long long)bad);
    return 0;
}

/* The pages stay in the file; only our view of them goes, so that eight rings that were read
 * through do not count as the recorder's memory. */
static void drop_pages(struct argus_ring *r)
{
    uint64_t from = r->dropped_pages & (r->slots - 1);
    unsigned char *start = r->map + r->slots_offset + from * ARGUS_RECORD_BYTES;

    if (r->slots < DROP_PAGES_SLOTS || r->slots_offset % 4096)
        return;
    madvise(start, (size_t)DROP_PAGES_SLOTS * ARGUS_RECORD_BYTES, MADV_DONTNEED);
}

int argus_ring_release(struct argus_ring *r, int64_t heartbeat, argus_error_t *err)
{
    struct argus_ring_header *h = header_of(r);

    GUARD_BEGIN(r, err, "slots");
    for (; r->released != r->cursor; r->released++) {
        struct argus_record *slot = slot_of(r, r->released);
        uint64_t lap = r->released / r->slots;

        /* After a crash between the two the slot may be the next lap's already. */
        if (__atomic_load_n(&slot->state, __ATOMIC_RELAXED) <= 2 * lap + 1)
            __atomic_store_n(&slot->state, 2 * lap + 2, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&h->tail, r->released, __ATOMIC_RELEASE);
    __atomic_store_n(&h->heartbeat, heartbeat, __ATOMIC_RELAXED);
    while (r->released - r->dropped_pages >= DROP_PAGES_SLOTS) {
        drop_pages(r);
        r->dropped_pages += DROP_PAGES_SLOTS;
    }
    GUARD_END();
    return 0;
}

int argus_ring_name(struct argus_ring *r, uint32_t offset, char *out, size_t size)
{
    const unsigned char *names = r->map + r->names_offset;
    uint32_t length;
    size_t n;

    if (!size || offset == ARGUS_NAME_NONE || offset % 8 || offset > r->names_bytes ||
        r->names_bytes - offset < sizeof(length))
        return -1;
    GUARD_BEGIN(r, NULL, "names");
    memcpy(&length, names + offset, sizeof(length));
    if (length > r->names_bytes - offset - sizeof(length)) {
        GUARD_END();
        return -1;
    }
    n = length < size - 1 ? length : size - 1;
    memcpy(out, names + offset + sizeof(length), n);
    GUARD_END();
    out[n] = '\0';
    return (int)n;
}
