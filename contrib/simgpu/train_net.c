/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks meet and agree on times: rank 0 writes its hub's port and a
 * random token into a file that the others find by the name of the run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "train_hub.h"

#define POLL_NS 2000000

struct net {
    int fd, rank;
    struct answer early[64]; /* answers to questions that nobody waits for yet */
    int early_count;
    struct hub hub;
};
void net_give_up(int rank, const char *format, ...)
{
    va_list args;
    char text[512];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "simtrain: rank %d: %s\n", rank, text);
    exit(1);
}

int64_t net_clock(clockid_t id)
{
    struct timespec ts;

    syscall(SYS_clock_gettime, id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int net_send(int fd, const void *data, size_t size)
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

int net_receive(int fd, void *data, size_t size)
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

void net_no_delay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void nap(int64_t ns)
{
    struct timespec ts = {.tv_nsec = ns};

    nanosleep(&ts, NULL);
}

void net_rendezvous_path(char *path, size_t size, const struct identity *self,
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

void net_number_nodes(struct peers *peers, char (*names)[NAME_MAX_BYTES], int world)
{
    peers->names = calloc((size_t)world, NAME_MAX_BYTES);
    peers->node_of = calloc((size_t)world, sizeof(int));
    if (!peers->names || !peers->node_of)
        net_give_up(0, "out of memory");
    for (int i = 0; i < world; i++) {
        int k = 0;

        while (k < peers->nodes && strcmp(peers->names[k], names[i]) != 0)
            k++;
        if (k == peers->nodes)
            memcpy(peers->names[peers->nodes++], names[i], NAME_MAX_BYTES);
        peers->node_of[i] = k;
    }
}

/* A stale file may lead to a stranger: whoever does not answer at once is none of ours. */
static int is_hub(int fd, uint64_t token)
{
    struct timeval patience = {.tv_sec = 5};
    uint64_t answer = 0;
    int ok;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ok = net_receive(fd, &answer, sizeof(answer)) == 0 && answer == token;
    patience.tv_sec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return ok;
}

static int try_connect(int port, uint64_t token, const struct identity *self)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct hello h = {.magic = MAGIC, .token = token, .rank = self->rank, .world = self->world};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    a.sin_port = htons((uint16_t)port);
    memcpy(h.node, self->node, sizeof(h.node));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || net_send(fd, &h, sizeof(h)) < 0 ||
        !is_hub(fd, token)) {
        close(fd);
        return -1;
    }
    net_no_delay(fd);
    return fd;
}

static void find_hub(struct net *net, const struct identity *self, const struct options *o,
                     struct peers *peers)
{
    int64_t deadline = net_clock(CLOCK_MONOTONIC) + (int64_t)o->timeout_s * 1000000000;
    char(*names)[NAME_MAX_BYTES] = calloc((size_t)self->world, NAME_MAX_BYTES);
    char path[4200];
    struct welcome w;
    int port;

    if (!names)
        net_give_up(self->rank, "out of memory");
    net_rendezvous_path(path, sizeof(path), self, o);
    for (net->fd = -1; net->fd < 0; nap(POLL_NS)) {
        if (read_rendezvous(path, &port, &peers->token) == 0) {
            net->fd = try_connect(port, peers->token, self);
            /* a hub that hangs up was another run's: its file is stale */
            if (net->fd >= 0 && net_receive(net->fd, &w, sizeof(w)) == 0 && w.magic == MAGIC)
                break;
            if (net->fd >= 0)
                close(net->fd);
            net->fd = -1;
        }
        if (net_clock(CLOCK_MONOTONIC) > deadline)
            net_give_up(self->rank, "rank 0 did not come within %d s (rendezvous %s)", o->timeout_s,
                        path);
    }
    if (net_receive(net->fd, names, (size_t)self->world * NAME_MAX_BYTES) < 0)
        net_give_up(self->rank, "rank 0 left during the rendezvous");
    peers->epoch = w.epoch;
    net_number_nodes(peers, names, self->world);
    free(names);
}

static void join_alone(const struct identity *self, struct peers *peers)
{
    char name[1][NAME_MAX_BYTES];

    memcpy(name[0], self->node, NAME_MAX_BYTES);
    peers->epoch = net_clock(CLOCK_REALTIME);
    peers->token = mix((uint64_t)peers->epoch, (uint64_t)getpid(), 1, 2);
    net_number_nodes(peers, name, 1);
}

struct net *net_join(const struct identity *self, const struct options *o, struct peers *peers)
{
    struct net *net = calloc(1, sizeof(*net));

    if (!net)
        net_give_up(self->rank, "out of memory");
    net->rank = self->rank;
    net->fd = -1;
    if (self->world == 1)
        join_alone(self, peers);
    else if (self->rank == 0)
        net->fd = hub_start(&net->hub, self, o, peers);
    else
        find_hub(net, self, o, peers);
    return net;
}

void net_post(struct net *net, uint64_t id, int members, int64_t time, int64_t extra)
{
    struct question q = {.id = id, .members = members, .time = time, .extra = extra};

    if (net_send(net->fd, &q, sizeof(q)) < 0)
        net_give_up(net->rank, "lost rank 0");
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
        if (net_receive(net->fd, &a, sizeof(a)) < 0)
            net_give_up(net->rank, "lost rank 0");
        if (a.id == EVENT_LOST)
            net_give_up(net->rank, "rank %lld is gone", (long long)a.time);
        if (a.id == id)
            break;
        if (net->early_count == (int)(sizeof(net->early) / sizeof(net->early[0])))
            net_give_up(net->rank, "too many open operations");
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
            hub_join(&net->hub);
        close(net->fd);
    }
    free(net);
}
