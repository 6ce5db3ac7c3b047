/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/health.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collector/record/health_sources.h"

#define VALUES_MAX 8192 /* not taken yet */
#define KNOWN_MAX 4096  /* device x metric */
#define REPEAT_NS 60000000000LL
#define WATCHED_MAX 64
#define STOP_WAIT_S 1
#define FIRST_WAIT_NS 1000000000LL /* doubles up to the period: a short job has a series, too */

struct known {
    char metric[ARGUS_HEALTH_METRIC_BYTES];
    char device[ARGUS_HEALTH_DEVICE_BYTES];
    double value;
    int64_t time;
};

struct argus_health {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, gone;
    char *sysfs, *nvml;
    int64_t period;
    int stop, running;
    unsigned asked, answered; /* numbers of samples out of turn */
    char watched[WATCHED_MAX][ARGUS_HEALTH_DEVICE_BYTES];
    int n_watched;
    struct argus_health_value *values;
    size_t n_values;
    /* the thread's own */
    struct known *known;
    size_t n_known;
    int64_t now;
};

static int64_t realtime(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Worth handing over: new, changed, or last seen a minute ago.  An XID is an event: always. */
static int is_news(struct argus_health *h, const char *device, const char *metric, double value)
{
    struct known *k;

    for (size_t i = 0; i < h->n_known; i++) {
        k = &h->known[i];
        if (strcmp(k->metric, metric) || strcmp(k->device, device))
            continue;
        if (k->value == value && h->now - k->time < REPEAT_NS && strcmp(metric, "gpu_xid"))
            return 0;
        k->value = value;
        k->time = h->now;
        return 1;
    }
    if (h->n_known == KNOWN_MAX)
        return 0;
    k = &h->known[h->n_known++];
    snprintf(k->metric, sizeof(k->metric), "%s", metric);
    snprintf(k->device, sizeof(k->device), "%s", device);
    k->value = value;
    k->time = h->now;
    return 1;
}

static void add(void *arg, const char *device, const char *metric, double value)
{
    struct argus_health *h = arg;

    if (!is_news(h, device, metric, value))
        return;
    pthread_mutex_lock(&h->lock);
    if (h->n_values < VALUES_MAX) {
        struct argus_health_value *v = &h->values[h->n_values++];

        snprintf(v->metric, sizeof(v->metric), "%s", metric);
        snprintf(v->device, sizeof(v->device), "%s", device);
        v->time = h->now;
        v->value = value;
    }
    pthread_mutex_unlock(&h->lock);
}

static void sample(struct argus_health *h, argus_nvml_t *nvml)
{
    char uuid[ARGUS_HEALTH_DEVICE_BYTES];

    h->now = realtime();
    for (int i = 0; nvml; i++) {
        pthread_mutex_lock(&h->lock);
        uuid[0] = '\0';
        if (i < h->n_watched)
            memcpy(uuid, h->watched[i], sizeof(uuid));
        pthread_mutex_unlock(&h->lock);
        if (!uuid[0])
            break;
        argus_nvml_sample(nvml, uuid, add, h);
    }
    if (nvml)
        argus_nvml_events(nvml, add, h);
    argus_ports_sample(h->sysfs, add, h);
}

static void *run(void *arg)
{
    struct argus_health *h = arg;
    argus_nvml_t *nvml = NULL;
    int64_t at = realtime(), wait = FIRST_WAIT_NS;
    int tried = 0, stop = 0;

    while (!stop) {
        struct timespec until;
        int watched;
        unsigned asked;

        pthread_mutex_lock(&h->lock);
        watched = h->n_watched;
        asked = h->asked;
        pthread_mutex_unlock(&h->lock);
        if (watched && !tried) { /* no GPU in use: the driver is left alone */
            nvml = argus_nvml_open(h->nvml);
            tried = 1;
        }
        sample(h, nvml);
        if (h->now >= at) { /* not out of turn */
            wait = wait < h->period ? wait : h->period;
            at = realtime() + wait;
            wait *= 2;
        }
        until.tv_sec = at / 1000000000;
        until.tv_nsec = at % 1000000000;
        pthread_mutex_lock(&h->lock);
        h->answered = asked;
        while (!h->stop && h->n_watched == watched && h->asked == asked &&
               pthread_cond_timedwait(&h->wake, &h->lock, &until) != ETIMEDOUT)
            ;
        stop = h->stop;
        pthread_mutex_unlock(&h->lock);
    }
    argus_nvml_close(nvml);
    pthread_mutex_lock(&h->lock);
    h->running = 0;
    pthread_cond_signal(&h->gone);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void destroy(struct argus_health *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->wake);
    pthread_cond_destroy(&h->gone);
    free(h->values);
    free(h->known);
    free(h->sysfs);
    free(h->nvml);
    free(h);
}

argus_health_t *argus_health_start(const char *sysfs, const char *nvml, int64_t period_ns)
{
    struct argus_health *h = calloc(1, sizeof(*h));
    sigset_t all, before;

    if (!h)
        return NULL;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, NULL);
    pthread_cond_init(&h->gone, NULL);
    h->period = period_ns;
    h->sysfs = strdup(sysfs ? sysfs : "/sys");
    h->nvml = nvml ? strdup(nvml) : NULL;
    h->values = malloc(VALUES_MAX * sizeof(*h->values));
    h->known = malloc(KNOWN_MAX * sizeof(*h->known));
    h->running = 1;
    h->asked = 1; /* the first one is never out of turn */
    /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!h->sysfs || !h->values || !h->known || pthread_create(&h->thread, NULL, run, h) != 0) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        destroy(h);
        return NULL;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return h;
}

void argus_health_watch(argus_health_t *h, const char *uuid)
{
    int known = !uuid[0];

    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < h->n_watched && !known; i++)
        known = !strcmp(h->watched[i], uuid);
    if (!known && h->n_watched < WATCHED_MAX) {
        snprintf(h->watched[h->n_watched++], sizeof(h->watched[0]), "%s", uuid);
        pthread_cond_signal(&h->wake);
    }
    pthread_mutex_unlock(&h->lock);
}

void argus_health_ask(argus_health_t *h)
{
    pthread_mutex_lock(&h->lock);
    h->asked++;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

int argus_health_answered(argus_health_t *h)
{
    int answered;

    pthread_mutex_lock(&h->lock);
    answered = h->answered == h->asked;
    pthread_mutex_unlock(&h->lock);
    return answered;
}

void argus_health_take(argus_health_t *h, argus_health_f f, void *arg)
{
    struct argus_health_value *values = NULL;
    size_t n;

    pthread_mutex_lock(&h->lock);
    n = h->n_values;
    if (n)
        values = malloc(n * sizeof(*values));
    if (values) {
        memcpy(values, h->values, n * sizeof(*values));
        h->n_values = 0;
    }
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; values && i < n; i++)
        f(arg, &values[i]);
    free(values);
}

void argus_health_stop(argus_health_t *h)
{
    struct timespec until;
    int gone;

    if (!h)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_WAIT_S;
    pthread_mutex_lock(&h->lock);
    h->stop = 1;
    pthread_cond_signal(&h->wake);
    while (h->running && pthread_cond_timedwait(&h->gone, &h->lock, &until) != ETIMEDOUT)
        ;
    gone = !h->running;
    pthread_mutex_unlock(&h->lock);
    if (!gone) { /* in the driver; it still holds h */
        pthread_detach(h->thread);
        return;
    }
    pthread_join(h->thread, NULL);
    destroy(h);
}
