/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU stacks: what the host did while the GPU had nothing to do.
 *
 * Whether the GPU starved at a moment is known only when CUPTI has delivered
 * the kernels around it, up to two seconds later.  Samples are therefore held
 * until the flush after them, and then recorded if no kernel ran at their
 * time, or else at most once a second.  They are taken once a second, and ten
 * times a second for a while after the GPU was seen to starve.
 *
 * Threads: the main one, and those of torch's autograd engine.
 */
#include "collector/inject/inject.h"
#include "collector/inject/python.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MS 1000000LL
#define SLOW_NS (1000 * MS)
#define FAST_NS (100 * MS)
#define FAST_FOR_NS (60000 * MS)
#define STARVED_NS (50 * MS)
#define HELD 64
#define STACK_BYTES 4000
#define THREADS 64
#define TORN_LIMIT 100 /* in a row: this is not the interpreter we know */

struct sample {
    int64_t time;
    uint32_t tid, state, run_delay_us, length;
    char folded[STACK_BYTES];
};

static struct {
    struct sample held[HELD];
    unsigned first, count;
    int64_t last_plain; /* time of the last record that was not starved */
    int64_t checked;    /* the GPU's idleness was looked at up to here */
    int64_t fast_until; /* monotonic */
    uint64_t delay_before;
    unsigned torn;
    enum python_found python;
} hs;

static ssize_t read_task(uint32_t tid, const char *name, char *text, size_t size)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static void task_state(struct sample *s, bool main_thread)
{
    unsigned long long run, delay;
    char text[512], *p;

    if (read_task(s->tid, "stat", text, sizeof(text)) > 0 && (p = strrchr(text, ')')) && p[1])
        s->state = (unsigned char)p[2];
    if (main_thread && read_task(s->tid, "schedstat", text, sizeof(text)) > 0 &&
        sscanf(text, "%llu %llu", &run, &delay) == 2) {
        if (hs.delay_before && delay > hs.delay_before)
            s->run_delay_us = (uint32_t)((delay - hs.delay_before) / 1000);
        hs.delay_before = delay;
    }
}

static bool autograd(uint32_t tid)
{
    char comm[32];

    return read_task(tid, "comm", comm, sizeof(comm)) > 0 && strncmp(comm, "pt_autograd", 11) == 0;
}

static void record(const struct sample *s, bool starved)
{
    uint32_t folded = s->length ? argus_name_n(s->folded, s->length) : ARGUS_NAME_NONE;
    struct argus_record *r = argus_ring_claim(ARGUS_SOURCE_STACKS, ARGUS_REC_STACK, 0, argus_tid());

    if (!r)
        return;
    r->start = r->end = s->time;
    memset(&r->u, 0, sizeof(r->u));
    r->u.stack.folded = folded;
    r->u.stack.tid = s->tid;
    r->u.stack.state = s->state;
    r->u.stack.run_delay_us = s->run_delay_us;
    r->u.stack.starved = starved;
    argus_ring_commit(r, ARGUS_SOURCE_STACKS);
}

/* Everything that can be judged by now.  `until`: kernels that ended before
 * are known; 0 while there are none. */
static void judge(int64_t until, int64_t now)
{
    while (hs.count) {
        struct sample *s = &hs.held[hs.first];
        bool known = until && s->time + STARVED_NS < until;
        bool starved;

        if (!known && until && now - s->time < 5000 * MS)
            break;
        starved = known && argus_cupti_idle_at(s->time);
        if (starved) {
            record(s, true);
        } else if (s->length && s->time - hs.last_plain >= SLOW_NS) {
            record(s, false);
            hs.last_plain = s->time;
        }
        hs.first = (hs.first + 1) % HELD;
        hs.count--;
    }
}

static struct sample *next_place(void)
{
    struct sample *s;

    if (hs.count == HELD) {
        hs.first = (hs.first + 1) % HELD;
        hs.count--;
    }
    s = &hs.held[(hs.first + hs.count) % HELD];
    s->length = s->state = s->run_delay_us = 0;
    s->time = argus_now(CLOCK_REALTIME);
    return s;
}

static void sample_python(uint32_t main_tid)
{
    struct python_thread threads[THREADS];
    size_t n = argus_python_threads(threads, THREADS), length;

    for (size_t i = 0; i < n; i++) {
        struct sample *s;

        if (threads[i].tid != main_tid && !autograd(threads[i].tid))
            continue;
        s = next_place();
        s->tid = threads[i].tid;
        if (!argus_python_stack(&threads[i], s->folded, sizeof(s->folded), &length)) {
            hs.torn++;
            continue;
        }
        hs.torn = 0;
        s->length = (uint32_t)length;
        task_state(s, s->tid == main_tid);
        hs.count++;
    }
    hs.torn += n == 0;
}

static void sample(void)
{
    uint32_t main_tid = (uint32_t)getpid();
    struct sample *s;

    if (hs.python == PYTHON_NONE) {
        hs.python = argus_python_find();
        if (hs.python == PYTHON_UNKNOWN)
            argus_ring_standdown(ARGUS_SOURCE_STACKS, ARGUS_REASON_BAD_VERSION, 0);
        else if (hs.python == PYTHON_DENIED)
            argus_ring_standdown(ARGUS_SOURCE_STACKS, ARGUS_REASON_REFUSED, errno);
    }
    if (hs.python == PYTHON_KNOWN) {
        sample_python(main_tid);
        if (hs.torn > TORN_LIMIT) {
            hs.python = PYTHON_UNKNOWN;
            argus_ring_standdown(ARGUS_SOURCE_STACKS, ARGUS_REASON_BAD_VERSION, 0);
        }
        return;
    }
    /* No interpreter: the state of the main thread is still worth knowing,
     * but only where the GPU starves. */
    s = next_place();
    s->tid = main_tid;
    task_state(s, true);
    hs.count++;
}

/* Did the GPU starve between the last look and `until`? */
static void look(int64_t until, int64_t now_mono)
{
    int64_t idle = 0;

    if (!hs.checked || until - hs.checked > 10000 * MS)
        hs.checked = until - 1000 * MS;
    for (; hs.checked < until; hs.checked += 10 * MS) {
        idle = argus_cupti_idle_at(hs.checked) ? idle + 10 * MS : 0;
        if (idle >= STARVED_NS)
            hs.fast_until = now_mono + FAST_FOR_NS;
    }
}

static void *run(void *unused)
{
    struct timespec nap = {0, FAST_NS};
    int64_t next = 0;

    (void)unused;
    prctl(PR_SET_NAME, "argus-stacks", 0, 0, 0);
    while (!argus_dead()) {
        struct argus_moment now = argus_moment_now();
        int64_t until = argus_cupti_known_until();

        if (until)
            look(until, now.mono);
        if (now.mono >= next) {
            sample();
            next = now.mono + (now.mono < hs.fast_until ? FAST_NS : SLOW_NS);
        }
        judge(until, now.real);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

void argus_hoststack_start(void)
{
    if (!argus_source_wanted(ARGUS_SOURCE_STACKS))
        argus_ring_standdown(ARGUS_SOURCE_STACKS, ARGUS_REASON_OFF, 0);
    else
        argus_thread_start(run, NULL);
}
