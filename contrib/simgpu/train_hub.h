/* SPDX-License-Identifier: Apache-2.0 */
/* Between a rank's side of the net (train_net.c) and rank 0's hub (train_hub.c). */
#ifndef TRAIN_HUB_H
#define TRAIN_HUB_H

#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "simtrain.h"

#define MAGIC 0x53494d5452414e31ULL
#define EVENT_LOST UINT64_MAX
#define EVENT_BYE (UINT64_MAX - 1)

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

struct event;

struct hub {
    pthread_t thread;
    int listener, world, present, said_bye, lost;
    int *fds; /* [world]; below -1: said good-bye, -1 - fd */
    struct event *events[256];
    char path[4200];
};

/* Waits for all ranks and starts the thread; returns rank 0's own connection. */
int hub_start(struct hub *hub, const struct identity *self, const struct options *o,
              struct peers *peers);
void hub_join(struct hub *hub);

/* The file by which the ranks find the hub: a port and a random token. */
void net_rendezvous_path(char *path, size_t size, const struct identity *self,
                         const struct options *o);

/* Numbers the nodes in the order of their first ranks. */
void net_number_nodes(struct peers *peers, char (*names)[NAME_MAX_BYTES], int world);

/* Prints one line and exits with status 1. */
__attribute__((format(printf, 2, 3), noreturn)) void net_give_up(int rank, const char *format, ...);
int64_t net_clock(clockid_t id);
int net_send(int fd, const void *data, size_t size);
int net_receive(int fd, void *data, size_t size);
void net_no_delay(int fd);

#endif /* TRAIN_HUB_H */
