/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's hub: a thread with one TCP connection a rank.  A question names an
 * event and how many members it has; when the last member has asked, all of
 * them get the largest of the times they sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train_hub.h"

struct event {
    uint64_t id;
    int64_t time, extra;
    int members, asked;
    int *who;
    struct event *next;
};

static void write_rendezvous(const char *path, int port, uint64_t token)
{
    char temp[4300], line[64];
    int fd, n;

    snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
    unlink(temp);
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    n = snprintf(line, sizeof(line), "%d %016llx\n", port, (unsigned long long)token);
    if (fd < 0 || write(fd, line, (size_t)n) != n || rename(temp, path) < 0)
        net_give_up(0, "cannot write rendezvous file %s: %s", path, strerror(errno));
    close(fd);
}

static void tell_lost(struct hub *hub, int rank)
{
    struct answer a = {.id = EVENT_LOST, .time = rank};

    hub->lost = 1;
    for (int i = hub->world - 1; i >= 0; i--) /* rank 0 last: the hub goes with it */
        if (hub->fds[i] >= 0 && i != rank)
            net_send(hub->fds[i], &a, sizeof(a));
}

static struct event *find_event(struct hub *hub, const struct question *q, struct event ***slot)
{
    struct event **p = &hub->events[q->id % 256];

    while (*p && (*p)->id != q->id)
        p = &(*p)->next;
    if (!*p) {
        struct event *e = calloc(1, sizeof(*e));

        if (!e || !(e->who = calloc((size_t)q->members, sizeof(*e->who))))
            net_give_up(0, "out of memory");
        e->id = q->id;
        e->members = q->members;
        e->time = INT64_MIN;
        e->extra = INT64_MIN;
        *p = e;
    }
    *slot = p;
    return *p;
}

static void take_question(struct hub *hub, int rank, const struct question *q)
{
    struct event **slot, *e;
    struct answer a;

    if (q->id == EVENT_BYE) {
        hub->said_bye++;
        hub->fds[rank] = -1 - hub->fds[rank]; /* remembered for closing */
        return;
    }
    if (q->members < 1 || q->members > hub->world)
        net_give_up(0, "rank %d asks for %d members", rank, q->members);
    e = find_event(hub, q, &slot);
    if (e->members != q->members)
        net_give_up(0, "ranks do not agree on the members of an operation (rank %d)", rank);
    e->who[e->asked++] = rank;
    if (q->time > e->time)
        e->time = q->time;
    if (q->extra > e->extra)
        e->extra = q->extra;
    if (e->asked < e->members)
        return;
    a = (struct answer){.id = e->id, .time = e->time, .extra = e->extra};
    for (int i = 0; i < e->members; i++)
        if (hub->fds[e->who[i]] >= 0)
            net_send(hub->fds[e->who[i]], &a, sizeof(a));
    *slot = e->next;
    free(e->who);
    free(e);
}

struct inbox {
    char bytes[64 * sizeof(struct question)];
    size_t used;
};

static void serve_one(struct hub *hub, int rank, struct inbox *in, int epoll)
{
    int fd = hub->fds[rank];
    ssize_t n = recv(fd, in->bytes + in->used, sizeof(in->bytes) - in->used, MSG_DONTWAIT);
    size_t at = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        hub->fds[rank] = -1;
        hub->said_bye++;
        tell_lost(hub, rank);
        return;
    }
    in->used += (size_t)n;
    for (; in->used - at >= sizeof(struct question) && hub->fds[rank] >= 0;
         at += sizeof(struct question)) {
        struct question q;

        memcpy(&q, in->bytes + at, sizeof(q));
        take_question(hub, rank, &q);
    }
    if (hub->fds[rank] < 0)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    memmove(in->bytes, in->bytes + at, in->used - at);
    in->used -= at;
}

static void *hub_main(void *arg)
{
    struct hub *hub = arg;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct inbox *inboxes = calloc((size_t)hub->world, sizeof(*inboxes));
    struct epoll_event ready[64];

    if (epoll < 0 || !inboxes)
        net_give_up(0, "cannot start the hub: %s", strerror(errno));
    for (int i = 0; i < hub->world; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};

        epoll_ctl(epoll, EPOLL_CTL_ADD, hub->fds[i], &e);
    }
    while (hub->said_bye < hub->world) {
        int n = epoll_wait(epoll, ready, 64, -1);

        for (int i = 0; i < n; i++)
            if (hub->fds[ready[i].data.u32] >= 0)
                serve_one(hub, (int)ready[i].data.u32, &inboxes[ready[i].data.u32], epoll);
    }
    free(inboxes);
    close(epoll);
    return NULL;
}

static int listen_loopback(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 || listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        net_give_up(0, "cannot listen on loopback: %s", strerror(errno));
    *port = ntohs(a.sin_port);
    return fd;
}

/* The next rank that knows the token, -1: somebody else, or nobody in time. */
static int accept_rank(struct hub *hub, uint64_t token, int world, struct hello *h)
{
    struct pollfd p = {.fd = hub->listener, .events = POLLIN};
    struct timeval patience = {.tv_sec = 5};
    int fd;

    if (poll(&p, 1, 100) <= 0)
        return -1;
    fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    net_no_delay(fd);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (net_receive(fd, h, sizeof(*h)) < 0 || h->magic != MAGIC || h->token != token) {
        close(fd);
        return -1;
    }
    patience.tv_sec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    h->node[sizeof(h->node) - 1] = '\0';
    if (h->world != world || h->rank <= 0 || h->rank >= world || hub->fds[h->rank] >= 0)
        net_give_up(0, "a rank %d of %d wants to join a run of %d", h->rank, h->world, world);
    if (net_send(fd, &token, sizeof(token)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void gather_ranks(struct hub *hub, const struct identity *self, const struct options *o,
                         uint64_t token, char (*names)[NAME_MAX_BYTES])
{
    int64_t deadline = net_clock(CLOCK_MONOTONIC) + (int64_t)o->timeout_s * 1000000000;

    for (hub->present = 1; hub->present < self->world;) {
        struct hello h;
        int fd = accept_rank(hub, token, self->world, &h);

        if (fd >= 0) {
            hub->fds[h.rank] = fd;
            memcpy(names[h.rank], h.node, NAME_MAX_BYTES);
            hub->present++;
        } else if (net_clock(CLOCK_MONOTONIC) > deadline) {
            unlink(hub->path);
            net_give_up(0, "only %d of %d ranks came within %d s (rendezvous %s)", hub->present,
                        self->world, o->timeout_s, hub->path);
        }
    }
}

int hub_start(struct hub *hub, const struct identity *self, const struct options *o,
              struct peers *peers)
{
    char(*names)[NAME_MAX_BYTES] = calloc((size_t)self->world, NAME_MAX_BYTES);
    struct welcome w = {.magic = MAGIC};
    int port, pair[2];

    hub->world = self->world;
    hub->fds = malloc((size_t)self->world * sizeof(int));
    if (!names || !hub->fds || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        net_give_up(0, "cannot start the hub: %s", strerror(errno));
    for (int i = 0; i < self->world; i++)
        hub->fds[i] = -1;
    hub->fds[0] = pair[0];
    memcpy(names[0], self->node, NAME_MAX_BYTES);
    peers->token = mix((uint64_t)net_clock(CLOCK_REALTIME), (uint64_t)getpid(), 1, 2);
    hub->listener = listen_loopback(&port);
    net_rendezvous_path(hub->path, sizeof(hub->path), self, o);
    write_rendezvous(hub->path, port, peers->token);
    gather_ranks(hub, self, o, peers->token, names);
    unlink(hub->path);
    close(hub->listener);
    peers->epoch = w.epoch = net_clock(CLOCK_REALTIME);
    for (int i = 1; i < self->world; i++)
        if (net_send(hub->fds[i], &w, sizeof(w)) < 0 ||
            net_send(hub->fds[i], names, (size_t)self->world * NAME_MAX_BYTES) < 0)
            net_give_up(0, "rank %d left during the rendezvous", i);
    net_number_nodes(peers, names, self->world);
    free(names);
    if (pthread_create(&hub->thread, NULL, hub_main, hub) != 0)
        net_give_up(0, "cannot start the hub's thread");
    return pair[1];
}

void hub_join(struct hub *hub)
{
    pthread_join(hub->thread, NULL);
    for (int i = 0; i < hub->world; i++)
        if (hub->fds[i] < -1)
            close(-1 - hub->fds[i]);
    free(hub->fds);
}
