/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the collector's unit tests: a private spool, a child process a case
 * (the collector's state lives as long as its process), and a plain reader of
 * the ring that shares no code with the recorder.
 */
#ifndef ARGUS_COLLECTOR_TESTKIT_H
#define ARGUS_COLLECTOR_TESTKIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "argus/record.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            testkit_fail(__FILE__, __LINE__, #condition);                                          \
    } while (0)

struct view {
    void *map;
    size_t bytes;
    struct argus_ring_header *header;
    struct argus_record *slots;
    char path[512];
};

void testkit_fail(const char *file, int line, const char *what) __attribute__((noreturn));
/* Makes "<tmp>/argus-test-XXXXXX", puts it into ARGUS_SPOOL, clears the rank
 * variables and sets rank 3 of 8.  Returns the path. */
const char *testkit_spool(void);
/* Removes a spool and what is in it. */
void testkit_clean(const char *spool);
/* For cmocka: a new spool before each test, away after it. */
extern const char *testkit_here;
int testkit_setup(void **state);
int testkit_teardown(void **state);
/* The same between two cases of one test. */
void testkit_renew(void);
/* Writes step.conf. */
void testkit_conf(const char *spool, const char *text);
/* Runs a function in a forked child; returns waitpid()'s status. */
int testkit_child(void (*body)(void *), void *argument);
/* Runs it for each of `n` arguments of `bytes` bytes, all at the same time, each in a
 * child with a spool of its own; returns the first status that is not zero. */
int testkit_children(void (*body)(void *), void *arguments, size_t bytes, size_t n);
void testkit_nap(int ms);
/* Waits, fifteen seconds at most, until a counter in the ring's header says so. */
void testkit_await(const uint64_t *counter, uint64_t value);
/* The number of rings in a spool. */
int testkit_rings(const char *spool);
/* Maps the n-th ring (any order), waiting up to fifteen seconds for it. */
bool testkit_open(struct view *view, const char *spool);
/* Maps view->path. */
void testkit_map(struct view *view);
void testkit_close(struct view *view);
/* Consumes one committed record into `out`; false when there is none. */
bool testkit_next(struct view *view, struct argus_record *out);
/* A name's bytes as a string in a static buffer. */
const char *testkit_name(const struct view *view, uint32_t offset);
/* How many records of a type are waiting, consuming all. */
unsigned testkit_count(struct view *view, enum argus_record_type type);

#endif /* ARGUS_COLLECTOR_TESTKIT_H */
