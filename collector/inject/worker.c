/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's one thread.  Started at the first record, it publishes the
 * ring and then, ten times a second, takes what CUPTI has given back, asks
 * for more once a second, and writes a clock anchor every ten seconds.
 */
#include "collector/inject/inject.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURN_MS 100
#define ANCHOR_NS (10LL * 1000000000)
#define STACK_BYTES (1u << 20)
#define STACK_SMALL (256u << 10)

static int stop;     /* atomic, futex */
static int finished; /* atomic, futex */

/* The clock of the futex time-out is monotonic. */
static void wait_while(int *word, int value, int64_t ns)
{
    struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    if (ns > 0)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static void wake(int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

static void anchor(void)
{
    struct argus_record *r = argus_ring_claim(ARGUS_SOURCE_CUPTI, ARGUS_REC_ANCHOR, 0, argus_tid());

    if (!r)
        return;
    memset(&r->u, 0, sizeof(r->u));
    r->u.anchor.monotonic_raw = argus_now(CLOCK_MONOTONIC_RAW);
    r->start = r->end = argus_now(CLOCK_REALTIME);
    r->u.anchor.cupti = argus_cupti_timestamp();
    argus_ring_commit(r, ARGUS_SOURCE_CUPTI);
}

static void set_end(enum argus_reason reason)
{
    __atomic_store_n(&argus_ring.header->end, reason, __ATOMIC_RELEASE);
}

static void *run(void *unused)
{
    int64_t next_anchor = 0;
    struct argus_moment now;

    (void)unused;
    prctl(PR_SET_NAME, "argus", 0, 0, 0);
    if (argus_ring_publish()) {
        argus_cupti_give_up();
        __atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
        wake(&finished);
        return NULL;
    }
    argus_hoststack_start();
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        now = argus_moment_now();
        argus_cupti_turn(now);
        argus_nccl_turn(now);
        if (now.mono >= next_anchor) {
            anchor();
            next_anchor = now.mono + ANCHOR_NS;
        }
        wait_while(&stop, 0, TURN_MS * 1000000LL);
    }
    argus_cupti_finish();
    anchor();
    set_end(ARGUS_REASON_EXIT);
    __atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
    wake(&finished);
    return NULL;
}

int argus_thread_start(void *(*function)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;
    int rc;

    if (pthread_attr_init(&attributes))
        return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes,
                              argus_memory_slack() / 64 > STACK_BYTES ? STACK_BYTES : STACK_SMALL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, &attributes, function, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return rc ? -1 : 0;
}

int argus_worker_start(void)
{
    return argus_thread_start(run, NULL);
}

void argus_worker_finish(unsigned deadline_ms)
{
    int64_t deadline = argus_now(CLOCK_MONOTONIC) + deadline_ms * 1000000LL;

    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    wake(&stop);
    while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE)) {
        int64_t left = deadline - argus_now(CLOCK_MONOTONIC);

        if (left <= 0) {
            argus_debug("exit: CUPTI does not return");
            argus_cupti_abandon();
            set_end(ARGUS_REASON_EXIT_DEADLINE);
            break;
        }
        wait_while(&finished, 0, left);
    }
    __atomic_store_n(&argus_dead_flag, 1, __ATOMIC_RELEASE);
}
