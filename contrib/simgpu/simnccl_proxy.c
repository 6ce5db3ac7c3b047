/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the proxy: the network's progress by peer, where the mask asks for
 * them.  They come from a thread of their own whose clock reads the time at
 * which the proxy would have seen them.
 *
 * A ring operation has one send to the next member and one receive from the
 * previous, in STEPS steps, where those members are on other nodes.  In a step
 * of length T/STEPS the sender waits for its GPU until the ring has brought the
 * data and then for the network as long as the edge takes: only where the slow
 * edge is does SendWait fill the step.  The receiver waits for its peer.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simfault.h"
#include "simnccl_profiler.h"

#define STEPS 4
#define QUEUE 256

struct job {
    struct simnccl_reporter *reporter;
    void *task;
    struct simnccl_timing timing;
    int peer, send;
    uint64_t bytes;
    int64_t edge_ns;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job jobs[QUEUE];
    unsigned head, tail; /* next to write, next to do */
    int running;
} proxy = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void at(int64_t t)
{
    simcu_thread_time(t);
}

static void state_at(int64_t t, void *handle, int state, uint64_t bytes, int step)
{
    at(t);
    simnccl_event_state(handle, state, bytes, step);
}

static void send_step(const struct job *j, void *handle, int64_t t, int64_t length, int64_t wait,
                      int step)
{
    int64_t edge = j->edge_ns / STEPS < length ? j->edge_ns / STEPS : length;

    state_at(t, handle, STATE_SEND_GPU_WAIT, 0, step);
    if (wait > 0)
        state_at(t, handle, STATE_SEND_PEER_WAIT, 0, step);
    state_at(t + wait + length - edge, handle, STATE_SEND_WAIT, j->bytes / STEPS, step);
    at(t + wait + length);
}

static void receive_step(const struct job *j, void *handle, int64_t t, int64_t length, int64_t wait,
                         int step)
{
    int64_t end = t + wait + length;

    state_at(t, handle, STATE_RECV_WAIT, 0, step);
    state_at(end - 2000, handle, STATE_RECV_FLUSH_WAIT, j->bytes / STEPS, step);
    state_at(end - 1000, handle, STATE_RECV_GPU_WAIT, j->bytes / STEPS, step);
    at(end);
}

/* The members that came late make the first step long. */
static void report_steps(const struct job *j, void *op)
{
    int64_t length = (j->timing.end - j->timing.last_arrival) / STEPS, t = j->timing.start;

    for (int step = 0; step < STEPS; step++) {
        int64_t wait = step == 0 ? j->timing.last_arrival - j->timing.start : 0;
        struct descriptor d;
        void *handle;

        at(t);
        simnccl_event_begin(&d, j->reporter, EVENT_PROXY_STEP, op);
        simnccl_event_put32(&d, 24, step);
        simnccl_event_start(j->reporter, &d, EVENT_PROXY_STEP, &handle);
        if (j->send)
            send_step(j, handle, t, length, wait, step);
        else
            receive_step(j, handle, t, length, wait, step);
        simnccl_event_stop(handle);
        if (simfault_find("nccl-late-state"))
            simnccl_event_state(handle, STATE_SEND_WAIT, 0, step);
        t += wait + length;
    }
}

static void report(const struct job *j)
{
    int foreign = simfault_find("nccl-foreign-pid") != NULL;
    struct descriptor d;
    void *op;

    at(j->timing.start);
    /* With PXN the proxy serves another process: its parent pointer is that one's. */
    simnccl_event_begin(&d, j->reporter, EVENT_PROXY_OP,
                        foreign ? (void *)(uintptr_t)0xdead0000beefULL : j->task);
    simnccl_event_put32(&d, 24, foreign ? (int)getppid() : (int)getpid());
    simnccl_event_put32(&d, 32, j->peer);
    simnccl_event_put32(&d, 36, STEPS);
    simnccl_event_put32(&d, 40, (int32_t)(j->bytes / STEPS));
    simnccl_event_put32(&d, 44, j->send);
    simnccl_event_start(j->reporter, &d, EVENT_PROXY_OP, &op);
    simnccl_event_state(op, STATE_PROXY_OP_IN_PROGRESS, 0, 0);
    if (simnccl_event_wanted(EVENT_PROXY_STEP))
        report_steps(j, op);
    at(j->timing.end);
    simnccl_event_stop(op);
}

static void *proxy_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&proxy.lock);
    for (;;) {
        struct job j;

        while (proxy.tail == proxy.head)
            pthread_cond_wait(&proxy.changed, &proxy.lock);
        j = proxy.jobs[proxy.tail % QUEUE];
        pthread_mutex_unlock(&proxy.lock);
        report(&j);
        pthread_mutex_lock(&proxy.lock);
        proxy.tail++;
        pthread_cond_broadcast(&proxy.changed);
    }
    return NULL;
}

static void hand_over(const struct job *j)
{
    pthread_t thread;

    pthread_mutex_lock(&proxy.lock);
    if (!proxy.running && pthread_create(&thread, NULL, proxy_main, NULL) == 0) {
        pthread_detach(thread);
        proxy.running = 1;
    }
    while (proxy.running && proxy.head - proxy.tail == QUEUE)
        pthread_cond_wait(&proxy.changed, &proxy.lock);
    if (proxy.running)
        proxy.jobs[proxy.head++ % QUEUE] = *j;
    pthread_cond_broadcast(&proxy.changed);
    pthread_mutex_unlock(&proxy.lock);
}

void simnccl_proxy_drain(void)
{
    pthread_mutex_lock(&proxy.lock);
    while (proxy.running && proxy.tail != proxy.head)
        pthread_cond_wait(&proxy.changed, &proxy.lock);
    pthread_mutex_unlock(&proxy.lock);
}

/* A task may be forgotten by its plugin once it was stopped, so the handle of
 * its proxy operations is read no later than that: NCCL does the same. */
static void report_edge(struct simnccl_reporter *r, const struct simnccl_op *op, void *task,
                        const struct simnccl_timing *timing, int peer, int send)
{
    const struct simnccl_comm_config *c = r->config;
    struct job j = {.reporter = r, .task = task, .timing = *timing, .peer = peer, .send = send};

    j.bytes = op->count * simnccl_dtype_bytes(op->dtype);
    if (!c->edge || peer == c->rank)
        return;
    j.edge_ns =
        send ? c->edge(c->user, c->rank, peer, j.bytes) : c->edge(c->user, peer, c->rank, j.bytes);
    if (j.edge_ns >= 0)
        hand_over(&j);
}

void simnccl_proxy_report(struct simnccl_reporter *r, const struct simnccl_op *op, void *task,
                          const struct simnccl_timing *timing)
{
    int n = r->config->ranks, me = r->config->rank;

    if (!simnccl_event_wanted(EVENT_PROXY_OP | EVENT_PROXY_STEP))
        return;
    if (op->func == SIMNCCL_SEND || op->func == SIMNCCL_RECV) {
        report_edge(r, op, task, timing, op->peer, op->func == SIMNCCL_SEND);
        return;
    }
    report_edge(r, op, task, timing, (me + 1) % n, 1);
    report_edge(r, op, task, timing, (me + n - 1) % n, 0);
}
