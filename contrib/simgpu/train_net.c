/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks meet and agree on times.
 *
 * Rank 0 runs a hub: a thread with one TCP connection a rank.  It writes its
 * port and a random token into a file that the others find by the name of the
 * run.  A question names an event and how many members it has; when the last
 * member has asked, all of them get the largest of the times they sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simtrain.h"

#define MAGIC 0x53494d5452414e31ULL
#define EVENT_LOST UINT64_MAX
#define EVENT_BYE (UINT64_MAX - 1)
#define POLL_NS 2000000

struct hello {
    uint64_t magic, token;
    int32_t rank, world;
    char node[NAME_MAX_BYTES];
};
struct welcome {
    uint64_t magic;
    int64_t epoch;
};
struct question {
    uint64_t id;
    int64_t time, extra;
    int32_t members, pad;
};
struct answer {
    uint64_t id;
    int64_t time, extra;
};

struct event {
    uint64_t id;
    int64_t time, extra;
    int members, asked;
    int *who;
    struct event *next;
};

struct hub {
    pthread_t thread;
    int listener, world, present, said_bye, lost;
    int *fds;
    struct event *events[256];
    char path[4200];
};

struct net {
    int fd, rank;
    struct answer early[64]; /* answers to questions that nobody waits for yet */
    int early_count;
    struct hub hub;
};

__attribute__((format(printf, 2, 3), noreturn)) static void give_up(int rank, const char *format,
                                                                    ...)
{
    va_list args;
    char text[512];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "simtrain: rank %d: %s\n", rank, text);
    exit(1);
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;

    syscall(SYS_clock_gettime, id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void nap(int64_t ns)
{
    struct timespec ts = {.tv_nsec = ns};

    nanosleep(&ts, NULL);
}

static int send_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size > 0) {
        ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

static int receive_all(int fd, void *data, size_t size)
{
    char *p = data;

    while (size > 0) {
        ssize_t n = recv(fd, p, size, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

static void no_delay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/*
 * The file by which the ranks find the hub.
 */
static void rendezvous_path(char *path, size_t size, const struct identity *self,
                            const struct options *o)
{
    const char *tmp = getenv("TMPDIR");
    uint64_t h = 0xcbf29ce484222325ULL;

    if (o->rendezvous[0]) {
        snprintf(path, size, "%s", o->rendezvous);
        return;
    }
    for (const char *p = self->run; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3ULL;
    snprintf(path, size, "%s/simtrain-%u-%016llx", tmp && *tmp ? tmp : "/tmp", (unsigned)geteuid(),
             (unsigned long long)h);
}

static void write_rendezvous(const char *path, int port, uint64_t token)
{
    char temp[4300], line[64];
    int fd, n;

    snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
    unlink(temp);
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    n = snprintf(line, sizeof(line), "%d %016llx\n", port, (unsigned long long)token);
    if (fd < 0 || write(fd, line, (size_t)n) != n || rename(temp, path) < 0)
        give_up(0, "cannot write rendezvous file %s: %s", path, strerror(errno));
    close(fd);
}

/* -1: not there (yet), or not ours. */
static int read_rendezvous(const char *path, int *port, uint64_t *token)
{
    unsigned long long value;
    struct stat st;
    char line[64] = "";
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int ok;

    if (fd < 0)
        return -1;
    ok = fstat(fd, &st) == 0 && st.st_uid == geteuid() && read(fd, line, sizeof(line) - 1) > 0 &&
         sscanf(line, "%d %llx", port, &value) == 2;
    close(fd);
    if (!ok)
        return -1;
    *token = value;
    return 0;
}

/*
 * The hub.
 */
static void tell_lost(struct hub *hub, int rank)
{
    struct answer a = {.id = EVENT_LOST, .time = rank};

    hub->lost = 1;
    for (int i = hub->world - 1; i >= 0; i--) /* rank 0 last: the hub goes with it */
        if (hub->fds[i] >= 0 && i != rank)
            send_all(hub->fds[i], &a, sizeof(a));
}

static struct event *find_event(struct hub *hub, const struct question *q, struct event ***slot)
{
    struct event **p = &hub->events[q->id % 256];

    while (*p && (*p)->id != q->id)
        p = &(*p)->next;
    if (!*p) {
        struct event *e = calloc(1, sizeof(*e));

        if (!e || !(e->who = calloc((size_t)q->members, sizeof(*e->who))))
            give_up(0, "out of memory");
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
        give_up(0, "rank %d asks for %d members", rank, q->members);
    e = find_event(hub, q, &slot);
    if (e->members != q->members)
        give_up(0, "ranks do not agree on the members of an operation (rank %d)", rank);
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
            send_all(hub->fds[e->who[i]], &a, sizeof(a));
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
        give_up(0, "cannot start the hub: %s", strerror(errno));
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
        give_up(0, "cannot listen on loopback: %s", strerror(errno));
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
    no_delay(fd);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (receive_all(fd, h, sizeof(*h)) < 0 || h->magic != MAGIC || h->token != token) {
        close(fd);
        return -1;
    }
    patience.tv_sec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    h->node[sizeof(h->node) - 1] = '\0';
    if (h->world != world || h->rank <= 0 || h->rank >= world || hub->fds[h->rank] >= 0)
        give_up(0, "a rank %d of %d wants to join a run of %d", h->rank, h->world, world);
    return fd;
}

static void number_nodes(struct peers *peers, char (*names)[NAME_MAX_BYTES], int world)
{
    peers->names = calloc((size_t)world, NAME_MAX_BYTES);
    peers->node_of = calloc((size_t)world, sizeof(int));
    if (!peers->names || !peers->node_of)
        give_up(0, "out of memory");
    for (int i = 0; i < world; i++) {
        int k = 0;

        while (k < peers->nodes && strcmp(peers->names[k], names[i]) != 0)
            k++;
        if (k == peers->nodes)
            memcpy(peers->names[peers->nodes++], names[i], NAME_MAX_BYTES);
        peers->node_of[i] = k;
    }
}

static void gather_ranks(struct hub *hub, const struct identity *self, const struct options *o,
                         uint64_t token, char (*names)[NAME_MAX_BYTES])
{
    int64_t deadline = clock_ns(CLOCK_MONOTONIC) + (int64_t)o->timeout_s * 1000000000;

    for (hub->present = 1; hub->present < self->world;) {
        struct hello h;
        int fd = accept_rank(hub, token, self->world, &h);

        if (fd >= 0) {
            hub->fds[h.rank] = fd;
            memcpy(names[h.rank], h.node, NAME_MAX_BYTES);
            hub->present++;
        } else if (clock_ns(CLOCK_MONOTONIC) > deadline) {
            unlink(hub->path);
            give_up(0, "only %d of %d ranks came within %d s (rendezvous %s)", hub->present,
                    self->world, o->timeout_s, hub->path);
        }
    }
}

static void start_hub(struct net *net, const struct identity *self, const struct options *o,
                      struct peers *peers)
{
    struct hub *hub = &net->hub;
    char(*names)[NAME_MAX_BYTES] = calloc((size_t)self->world, NAME_MAX_BYTES);
    struct welcome w = {.magic = MAGIC};
    int port, pair[2];

    hub->world = self->world;
    hub->fds = malloc((size_t)self->world * sizeof(int));
    if (!names || !hub->fds || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        give_up(0, "cannot start the hub: %s", strerror(errno));
    for (int i = 0; i < self->world; i++)
        hub->fds[i] = -1;
    hub->fds[0] = pair[0];
    net->fd = pair[1];
    memcpy(names[0], self->node, NAME_MAX_BYTES);
    peers->token = mix((uint64_t)clock_ns(CLOCK_REALTIME), (uint64_t)getpid(), 1, 2);
    hub->listener = listen_loopback(&port);
    rendezvous_path(hub->path, sizeof(hub->path), self, o);
    write_rendezvous(hub->path, port, peers->token);
    gather_ranks(hub, self, o, peers->token, names);
    unlink(hub->path);
    close(hub->listener);
    peers->epoch = w.epoch = clock_ns(CLOCK_REALTIME);
    for (int i = 1; i < self->world; i++)
        if (send_all(hub->fds[i], &w, sizeof(w)) < 0 ||
            send_all(hub->fds[i], names, (size_t)self->world * NAME_MAX_BYTES) < 0)
            give_up(0, "rank %d left during the rendezvous", i);
    number_nodes(peers, names, self->world);
    free(names);
    if (pthread_create(&hub->thread, NULL, hub_main, hub) != 0)
        give_up(0, "cannot start the hub's thread");
}

/*
 * A rank's side.
 */
static int try_connect(int port, uint64_t token, const struct identity *self)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct hello h = {.magic = MAGIC, .token = token, .rank = self->rank, .world = self->world};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    a.sin_port = htons((uint16_t)port);
    memcpy(h.node, self->node, sizeof(h.node));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || send_all(fd, &h, sizeof(h)) < 0) {
        close(fd);
        return -1;
    }
    no_delay(fd);
    return fd;
}

static void find_hub(struct net *net, const struct identity *self, const struct options *o,
                     struct peers *peers)
{
    int64_t deadline = clock_ns(CLOCK_MONOTONIC) + (int64_t)o->timeout_s * 1000000000;
    char(*names)[NAME_MAX_BYTES] = calloc((size_t)self->world, NAME_MAX_BYTES);
    char path[4200];
    struct welcome w;
    int port;

    if (!names)
        give_up(self->rank, "out of memory");
    rendezvous_path(path, sizeof(path), self, o);
    for (net->fd = -1; net->fd < 0; nap(POLL_NS)) {
        if (read_rendezvous(path, &port, &peers->token) == 0) {
            net->fd = try_connect(port, peers->token, self);
            /* a hub that hangs up was another run's: its file is stale */
            if (net->fd >= 0 && receive_all(net->fd, &w, sizeof(w)) == 0 && w.magic == MAGIC)
                break;
            if (net->fd >= 0)
                close(net->fd);
            net->fd = -1;
        }
        if (clock_ns(CLOCK_MONOTONIC) > deadline)
            give_up(self->rank, "rank 0 did not come within %d s (rendezvous %s)", o->timeout_s,
                    path);
    }
    if (receive_all(net->fd, names, (size_t)self->world * NAME_MAX_BYTES) < 0)
        give_up(self->rank, "rank 0 left during the rendezvous");
    peers->epoch = w.epoch;
    number_nodes(peers, names, self->world);
    free(names);
}

static void join_alone(const struct identity *self, struct peers *peers)
{
    char name[1][NAME_MAX_BYTES];

    memcpy(name[0], self->node, NAME_MAX_BYTES);
    peers->epoch = clock_ns(CLOCK_REALTIME);
    peers->token = mix((uint64_t)peers->epoch, (uint64_t)getpid(), 1, 2);
    number_nodes(peers, name, 1);
}

struct net *net_join(const struct identity *self, const struct options *o, struct peers *peers)
{
    struct net *net = calloc(1, sizeof(*net));

    if (!net)
        give_up(self->rank, "out of memory");
    net->rank = self->rank;
    net->fd = -1;
    if (self->world == 1)
        join_alone(self, peers);
    else if (self->rank == 0)
        start_hub(net, self, o, peers);
    else
        find_hub(net, self, o, peers);
    return net;
}

void net_post(struct net *net, uint64_t id, int members, int64_t time, int64_t extra)
{
    struct question q = {.id = id, .members = members, .time = time, .extra = extra};

    if (send_all(net->fd, &q, sizeof(q)) < 0)
        give_up(net->rank, "lost rank 0");
}

static int take_early(struct net *net, uint64_t id, struct answer *a)
{
    for (int i = 0; i < net->early_count; i++) {
        if (net->early[i].id != id)
            continue;
        *a = net->early[i];
        net->early[i] = net->early[--net->early_count];
        return 1;
    }
    return 0;
}

void net_collect(struct net *net, uint64_t id, int64_t *time, int64_t *extra)
{
    struct answer a;

    while (!take_early(net, id, &a)) {
        if (receive_all(net->fd, &a, sizeof(a)) < 0)
            give_up(net->rank, "lost rank 0");
        if (a.id == EVENT_LOST)
            give_up(net->rank, "rank %lld is gone", (long long)a.time);
        if (a.id == id)
            break;
        if (net->early_count == (int)(sizeof(net->early) / sizeof(net->early[0])))
            give_up(net->rank, "too many open operations");
        net->early[net->early_count++] = a;
    }
    *time = a.time;
    *extra = a.extra;
}

void net_leave(struct net *net, int world)
{
    int64_t time, extra;

    if (world > 1) {
        net_post(net, EVENT_BYE - 1, world, 0, 0);
        net_collect(net, EVENT_BYE - 1, &time, &extra);
        net_post(net, EVENT_BYE, 1, 0, 0);
        if (net->rank == 0)
            pthread_join(net->hub.thread, NULL);
        close(net->fd);
        for (int i = 0; net->rank == 0 && i < world; i++)
            if (net->hub.fds[i] < -1)
                close(-1 - net->hub.fds[i]);
        free(net->hub.fds);
    }
    free(net);
}
