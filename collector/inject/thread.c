/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we keep of an application's thread.
 *
 * No __thread variables: in a library that is loaded late, the first touch by
 * a thread allocates.  pthread_getspecific() on one of the early keys does
 * not, and costs two loads.
 */
#include "collector/inject/inject.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 512

static struct argus_thread threads[THREADS];
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int have_key;

static void release(void *value)
{
    struct argus_thread *t = value;

    t->depth = 0;
    t->tid = 0;
    __atomic_store_n(&t->used, 0, __ATOMIC_RELEASE);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, release) == 0;
}

static struct argus_thread *take(void)
{
    for (unsigned i = 0; i < THREADS; i++) {
        int expected = 0;

        if (__atomic_load_n(&threads[i].used, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&threads[i].used, &expected, 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            threads[i].tid = (uint32_t)syscall(SYS_gettid);
            threads[i].depth = 0;
            return &threads[i];
        }
    }
    return NULL;
}

struct argus_thread *argus_thread_self(void)
{
    struct argus_thread *t;

    pthread_once(&once, make_key);
    if (unlikely(!have_key))
        return NULL;
    t = pthread_getspecific(key);
    if (likely(t != NULL))
        return t;
    t = take();
    if (t && pthread_setspecific(key, t)) {
        release(t);
        t = NULL;
    }
    return t;
}

uint32_t argus_tid(void)
{
    struct argus_thread *t = argus_thread_self();

    return likely(t != NULL) ? t->tid : (uint32_t)syscall(SYS_gettid);
}

void argus_thread_forget(void)
{
    if (have_key)
        pthread_setspecific(key, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        threads[i].used = 0;
}
