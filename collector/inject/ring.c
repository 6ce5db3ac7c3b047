/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of the ring (include/argus/record.h).
 *
 * Opening happens on an application's thread at the first record of the
 * process and must be cheap: the file gets its full size as a hole, only the
 * header, the first slots and the first bytes of the name heap are reserved.
 * The worker reserves the rest a little later and only then gives the file
 * the name that the recorder looks for.  Until a part is reserved nobody
 * touches it (`limit`, `names_limit`): a full tmpfs is an error here, never a
 * SIGBUS there.
 */
#include "collector/inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_SLOTS 1024u
#define FIRST_NAMES (64u << 10)
#define MIN_SLOTS (1u << 14) /* 1 MB: below this a ring is of no use */
#define RESERVE_CHUNK (1u << 20)
#define OPEN_WAIT_NS 50000
#define MADVISE_POPULATE_WRITE 23 /* Linux 5.14; refused before, which is no harm */
#define OPEN_WAITS 100            /* 5 ms for the thread that opens; then the record is lost */

struct argus_ring argus_ring;

static struct {
    int fd;
    size_t bytes;
    char temp_path[384];
    char path[384];
} file = {.fd = -1};

/* What is known of the sources before there is a header. */
static uint32_t early_standdown[ARGUS_SOURCE_COUNT];
static int32_t early_code[ARGUS_SOURCE_COUNT];

static size_t page_up(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

static int reserve(int fd, size_t offset, size_t bytes)
{
    int rc;

    do {
        rc = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (rc == EINTR);
    if (rc)
        errno = rc;
    return rc ? -1 : 0;
}

static void fill_header(struct argus_ring_header *h, const struct argus_identity *id,
                        uint64_t slots, uint32_t names_bytes)
{
    h->version = ARGUS_RING_VERSION;
    h->header_bytes = ARGUS_RING_HEADER_BYTES;
    h->record_bytes = ARGUS_RECORD_BYTES;
    h->names_bytes = names_bytes;
    h->slots = slots;
    h->slots_offset = ARGUS_RING_HEADER_BYTES;
    h->names_offset = h->slots_offset + slots * ARGUS_RECORD_BYTES;
    h->pid = getpid();
    h->ppid = getppid();
    h->pid_start = id->pid_start;
    h->created = argus_now(CLOCK_REALTIME);
    h->rank = id->rank;
    h->world = id->world;
    h->local_rank = id->local_rank;
    h->device = -1;
    memcpy(h->job, id->job, sizeof(h->job));
    memcpy(h->step, id->step, sizeof(h->step));
    memcpy(h->node, id->node, sizeof(h->node));
    memcpy(h->exe, id->exe, sizeof(h->exe));
    for (int i = 0; i < ARGUS_SOURCE_COUNT; i++) {
        h->standdown[i] = __atomic_load_n(&early_standdown[i], __ATOMIC_RELAXED);
        h->standdown_code[i] = __atomic_load_n(&early_code[i], __ATOMIC_RELAXED);
    }
    h->names_tail = 8;
    __atomic_store_n(&h->magic, ARGUS_RING_MAGIC, __ATOMIC_RELEASE);
}

static int make_file(const struct argus_identity *id, uint64_t slots, uint32_t names_bytes)
{
    struct argus_ring_header *h;
    size_t names_offset = ARGUS_RING_HEADER_BYTES + (size_t)slots * ARGUS_RECORD_BYTES;
    size_t bytes = page_up(names_offset + names_bytes);
    struct rlimit most;
    void *map;
    int fd;

    /* Growing a file beyond the user's limit is no error but a signal that ends the rank. */
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
        bytes > most.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    snprintf(file.temp_path, sizeof(file.temp_path), "%s/.%d-%d.new", id->spool, id->rank,
             (int)getpid());
    unlink(file.temp_path);
    fd = open(file.temp_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) ||
        reserve(fd, 0, ARGUS_RING_HEADER_BYTES + FIRST_SLOTS * ARGUS_RECORD_BYTES) ||
        reserve(fd, names_offset, FIRST_NAMES))
        goto error;
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        goto error;
    /* The ring is the recorder's business; a core dump need not carry it. */
    madvise(map, bytes, MADV_DONTDUMP);
    h = map;
    fill_header(h, id, slots, names_bytes);
    file.fd = fd;
    file.bytes = bytes;
    argus_ring.header = h;
    argus_ring.slots = (struct argus_record *)((char *)map + h->slots_offset);
    argus_ring.names = (char *)map + h->names_offset;
    argus_ring.mask = slots - 1;
    argus_ring.shift = (unsigned)__builtin_ctzll(slots);
    __atomic_store_n(&argus_ring.limit, FIRST_SLOTS, __ATOMIC_RELEASE);
    __atomic_store_n(&argus_ring.names_limit, FIRST_NAMES, __ATOMIC_RELEASE);
    return 0;
error:
    argus_debug("ring %s: %s", file.temp_path, strerror(errno));
    close(fd);
    unlink(file.temp_path);
    return -1;
}

static int open_once(void)
{
    uint64_t slots;
    uint32_t names_bytes;
    size_t slack;

    if (argus_identity_read(&argus_identity))
        return -1;
    argus_user_settings();
    slots = argus_identity.ring_slots;
    names_bytes = argus_identity.names_bytes;
    slack = argus_memory_slack();
    while (slots > MIN_SLOTS && slots * ARGUS_RECORD_BYTES > slack / 4)
        slots /= 2;
    if (names_bytes > slack / 16)
        names_bytes = 256u << 10;
    for (; slots >= MIN_SLOTS; slots /= 2) {
        if (make_file(&argus_identity, slots, names_bytes) == 0)
            return 0;
        if (errno != ENOMEM && errno != ENOSPC && errno != EFBIG)
            return -1;
    }
    return -1;
}

int argus_ring_open(void)
{
    int expected = RING_NONE;
    int saved = errno;

    if (argus_dead())
        return -1;
    if (__atomic_compare_exchange_n(&argus_ring.state, &expected, RING_OPENING, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        argus_hooks_install();
        if (open_once()) {
            __atomic_store_n(&argus_ring.state, RING_FAILED, __ATOMIC_RELEASE);
        } else {
            argus_ring.name_overflow = argus_name("(name table full)");
            __atomic_store_n(&argus_ring.state, RING_OPEN, __ATOMIC_RELEASE);
            if (argus_worker_start()) {
                __atomic_store_n(&argus_ring.state, RING_FAILED, __ATOMIC_RELEASE);
                unlink(file.temp_path);
            } else {
                argus_exit_install();
            }
        }
        expected = __atomic_load_n(&argus_ring.state, __ATOMIC_ACQUIRE);
        errno = saved;
        return expected == RING_OPEN ? 0 : -1;
    }
    for (int i = 0; expected == RING_OPENING && i < OPEN_WAITS; i++) {
        struct timespec ts = {0, OPEN_WAIT_NS};

        nanosleep(&ts, NULL);
        expected = __atomic_load_n(&argus_ring.state, __ATOMIC_ACQUIRE);
    }
    errno = saved;
    return expected == RING_OPEN ? 0 : -1;
}

static uint64_t floor_pow2(uint64_t n)
{
    return n ? 1ULL << (63 - __builtin_clzll(n)) : 0;
}

/* Reserves [from, from + bytes) of the file piece by piece, so that producers
 * may use what is there already.  Returns how much was reserved. */
static size_t reserve_pieces(size_t from, size_t bytes, size_t done, bool is_slots)
{
    while (done < bytes) {
        size_t piece = bytes - done < RESERVE_CHUNK ? bytes - done : RESERVE_CHUNK;

        if (reserve(file.fd, from + done, piece))
            break;
        done += piece;
        if (is_slots)
            /* A power of two: should the ring have to shrink, positions below
             * it lie in the same slots before and after. */
            __atomic_store_n(&argus_ring.limit, floor_pow2(done / ARGUS_RECORD_BYTES),
                             __ATOMIC_RELEASE);
        else
            __atomic_store_n(&argus_ring.names_limit, done, __ATOMIC_RELEASE);
    }
    return done;
}

static int link_final(void)
{
    const struct argus_identity *id = &argus_identity;

    /* link(2), not rename(2): a process that called exec() has the same pid
     * and must not replace the ring it left behind. */
    for (unsigned i = 0; i < 64; i++) {
        if (i == 0)
            snprintf(file.path, sizeof(file.path), "%s/%d-%d" ARGUS_RING_SUFFIX, id->spool,
                     id->rank, (int)getpid());
        else
            snprintf(file.path, sizeof(file.path), "%s/%d-%d.%u" ARGUS_RING_SUFFIX, id->spool,
                     id->rank, (int)getpid(), i);
        if (link(file.temp_path, file.path) == 0) {
            unlink(file.temp_path);
            return 0;
        }
        if (errno != EEXIST)
            break;
    }
    file.path[0] = '\0';
    return -1;
}

int argus_ring_publish(void)
{
    struct argus_ring_header *h = argus_ring.header;
    size_t want = (size_t)h->slots * ARGUS_RECORD_BYTES;
    size_t got, names;
    int rc = -1;

    names = reserve_pieces(h->names_offset, h->names_bytes, FIRST_NAMES, false);
    got = reserve_pieces(h->slots_offset, want, FIRST_SLOTS * ARGUS_RECORD_BYTES, true);
    if (got < want) {
        h->slots = floor_pow2(got / ARGUS_RECORD_BYTES);
        argus_debug("ring %s: memory is short, %llu slots", file.temp_path,
                    (unsigned long long)h->slots);
        __atomic_store_n(&argus_ring.mask, h->slots - 1, __ATOMIC_RELAXED);
        __atomic_store_n(&argus_ring.shift, (unsigned)__builtin_ctzll(h->slots), __ATOMIC_RELAXED);
    }
    /* The memory is there; map it now and not fault by fault under the records. */
    if (got == want && names == h->names_bytes)
        madvise(argus_ring.header, file.bytes, MADVISE_POPULATE_WRITE);
    h->names_bytes = (uint32_t)names;
    if (link_final()) {
        argus_debug("ring %s: %s", file.temp_path, strerror(errno));
        __atomic_store_n(&argus_ring.state, RING_FAILED, __ATOMIC_RELEASE);
        unlink(file.temp_path);
    } else {
        __atomic_store_n(&argus_ring.limit, UINT64_MAX, __ATOMIC_RELEASE);
        rc = 0;
    }
    close(file.fd);
    file.fd = -1;
    return rc;
}

struct argus_record *argus_ring_claim(enum argus_source source, enum argus_record_type type,
                                      uint32_t flags, uint32_t tid)
{
    struct argus_record *slot;
    uint64_t position, limit, lap, state;

    if (unlikely(!argus_ring_is_open()) && argus_ring_open())
        goto lost;
    if (unlikely(__atomic_load_n(&argus_dead_flag, __ATOMIC_RELAXED)))
        return NULL;
    limit = __atomic_load_n(&argus_ring.limit, __ATOMIC_ACQUIRE);
    position = __atomic_load_n(&argus_ring.header->head, __ATOMIC_RELAXED);
    for (;;) {
        if (unlikely(position >= limit))
            goto lost;
        lap = position >> __atomic_load_n(&argus_ring.shift, __ATOMIC_RELAXED);
        slot = &argus_ring.slots[position & __atomic_load_n(&argus_ring.mask, __ATOMIC_RELAXED)];
        state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        if (likely(state == 2 * lap)) {
            if (likely(__atomic_compare_exchange_n(&argus_ring.header->head, &position,
                                                   position + 1, false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_RELAXED)))
                break;
            continue;
        }
        if (state < 2 * lap)
            goto lost; /* still the previous lap's: the consumer is behind */
        /* Somebody was faster and is done already. */
        position = __atomic_load_n(&argus_ring.header->head, __ATOMIC_RELAXED);
    }
    slot->type = (uint16_t)type;
    slot->flags = (uint16_t)flags;
    slot->tid = tid;
    return slot;
lost:
    argus_ring_drop(source, 1);
    return NULL;
}

/* How many consecutive positions from `position` on are free, at most `want`.
 * The consumer frees in order: a free slot tells of all those before it. */
static unsigned free_run(uint64_t position, unsigned want, uint64_t limit)
{
    uint64_t mask = __atomic_load_n(&argus_ring.mask, __ATOMIC_RELAXED);
    unsigned shift = __atomic_load_n(&argus_ring.shift, __ATOMIC_RELAXED);

    if (position >= limit)
        return 0;
    if (want > limit - position)
        want = (unsigned)(limit - position);
    for (; want > 0; want /= 2) {
        uint64_t last = position + want - 1;

        if (__atomic_load_n(&argus_ring.slots[last & mask].state, __ATOMIC_ACQUIRE) ==
            2 * (last >> shift))
            return want;
    }
    return 0;
}

static void write_run(uint64_t position, const struct argus_record *records, unsigned n)
{
    uint64_t mask = __atomic_load_n(&argus_ring.mask, __ATOMIC_RELAXED);
    unsigned shift = __atomic_load_n(&argus_ring.shift, __ATOMIC_RELAXED);

    for (unsigned i = 0; i < n; i++, position++) {
        struct argus_record *slot = &argus_ring.slots[position & mask];

        memcpy((char *)slot + sizeof(slot->state), (const char *)&records[i] + sizeof(slot->state),
               sizeof(*slot) - sizeof(slot->state));
        __atomic_store_n(&slot->state, 2 * (position >> shift) + 1, __ATOMIC_RELEASE);
    }
}

void argus_ring_write(enum argus_source source, const struct argus_record *records, unsigned count)
{
    uint64_t *head = &argus_ring.header->head;
    uint64_t position, limit;
    unsigned n;

    if (!argus_ring_is_open() || argus_dead())
        return;
    while (count > 0) {
        limit = __atomic_load_n(&argus_ring.limit, __ATOMIC_ACQUIRE);
        position = __atomic_load_n(head, __ATOMIC_RELAXED);
        n = free_run(position, count, limit);
        if (n == 0) {
            /* Full, unless the position is an old one. */
            if (position != __atomic_load_n(head, __ATOMIC_RELAXED))
                continue;
            argus_ring_drop(source, count);
            return;
        }
        if (!__atomic_compare_exchange_n(head, &position, position + n, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        write_run(position, records, n);
        __atomic_fetch_add(&argus_ring.header->records[source], n, __ATOMIC_RELAXED);
        records += n;
        count -= n;
    }
}

void argus_ring_drop(enum argus_source source, uint64_t count)
{
    if (argus_dead())
        return;
    if (argus_ring_is_open())
        __atomic_fetch_add(&argus_ring.header->dropped[source], count, __ATOMIC_RELAXED);
}

void argus_ring_invalid(enum argus_source source, uint64_t count)
{
    if (argus_ring_is_open() && !argus_dead())
        __atomic_fetch_add(&argus_ring.header->invalid[source], count, __ATOMIC_RELAXED);
}

void argus_ring_standdown(enum argus_source source, enum argus_reason reason, int code)
{
    __atomic_store_n(&early_standdown[source], reason, __ATOMIC_RELAXED);
    __atomic_store_n(&early_code[source], code, __ATOMIC_RELAXED);
    if (argus_ring_is_open() && !argus_dead()) {
        __atomic_store_n(&argus_ring.header->standdown[source], reason, __ATOMIC_RELAXED);
        __atomic_store_n(&argus_ring.header->standdown_code[source], code, __ATOMIC_RELAXED);
    }
}

enum argus_reason argus_ring_standdown_of(enum argus_source source)
{
    return (enum argus_reason)__atomic_load_n(&early_standdown[source], __ATOMIC_RELAXED);
}

const char *argus_ring_path(void)
{
    return file.path;
}
