/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's event mask: a variable of its library, which it reads at each event.
 *
 * `links=N` changes it while communicators live: proxy events for ten seconds
 * every N minutes.  With its last communicator the library may go, too, so
 * its mask is forgotten before that finalize returns and taken again at the
 * next init.  A process may have more than one library.
 *
 * The lock is held for a few stores, by the worker and by threads that make
 * or end a communicator.  A forked child never takes it.
 */
#include "collector/inject/nccl.h"

#include <pthread.h>

#define LIBRARIES 8
#define WINDOW (10LL * 1000000000)
#define MASK_LINKS ((int)(NE_PROXY_OP | NE_PROXY_STEP))

struct argus_library {
    int *mask;      /* NULL: forgotten */
    unsigned comms; /* that have it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock. */
static struct argus_library libraries[LIBRARIES];
static int64_t toggle_at; /* monotonic; 0: not yet */
static bool open;         /* proxy events are on */

static struct argus_library *library_of(const int *mask)
{
    for (int i = 0; i < LIBRARIES; i++) {
        if (libraries[i].mask == mask)
            return &libraries[i];
    }
    return NULL;
}

struct argus_library *argus_mask_set(int *mask, int bits)
{
    struct argus_library *library = NULL;

    if (argus_identity.links)
        bits |= MASK_LINKS;
    if (argus_identity.links_every_min <= 0) {
        __atomic_store_n(mask, bits, __ATOMIC_RELAXED);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    library = library_of(mask);
    if (!library)
        library = library_of(NULL);
    if (library) {
        library->mask = mask;
        library->comms++;
        if (open)
            bits |= MASK_LINKS;
    }
    __atomic_store_n(mask, bits, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return library;
}

void argus_mask_gone(struct argus_library *library)
{
    if (!library || argus_dead())
        return;
    pthread_mutex_lock(&lock);
    if (library->comms && --library->comms == 0)
        library->mask = NULL;
    pthread_mutex_unlock(&lock);
}

struct argus_library *argus_mask_library(void *context)
{
    struct argus_library *library = context;

    return library >= libraries && library < libraries + LIBRARIES ? library : NULL;
}

static void toggle(void)
{
    open = !open;
    for (int i = 0; i < LIBRARIES; i++) {
        if (!libraries[i].mask)
            continue;
        if (open)
            __atomic_fetch_or(libraries[i].mask, MASK_LINKS, __ATOMIC_RELAXED);
        else
            __atomic_fetch_and(libraries[i].mask, ~MASK_LINKS, __ATOMIC_RELAXED);
    }
}

static bool any(void)
{
    for (int i = 0; i < LIBRARIES; i++) {
        if (libraries[i].mask)
            return true;
    }
    return false;
}

void argus_nccl_turn(struct argus_moment now)
{
    int64_t pause = 60LL * 1000000000 * argus_identity.links_every_min;

    if (pause <= 0)
        return;
    pthread_mutex_lock(&lock);
    if (any() && !argus_dead()) {
        if (!toggle_at) {
            toggle_at = now.mono + pause;
        } else if (now.mono >= toggle_at) {
            toggle();
            toggle_at = now.mono + (open ? WINDOW : pause);
        }
    }
    pthread_mutex_unlock(&lock);
}
