/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython stacks from outside the interpreter: plain reads of its structures
 * through the kernel, so that a pointer that has just become wrong is an
 * error and not a crash.  No GIL, no call into the interpreter.
 */
#ifndef ARGUS_COLLECTOR_PYTHON_H
#define ARGUS_COLLECTOR_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum python_found {
    PYTHON_NONE = 0,    /* no interpreter in this process (yet) */
    PYTHON_KNOWN = 1,   /* 3.8 to 3.13 with the GIL */
    PYTHON_UNKNOWN = 2, /* another minor, free-threaded, or a debug build */
    PYTHON_DENIED = 3   /* the kernel does not let us read ourselves */
};

/* Looks for the interpreter once it has symbols; call again while NONE. */
enum python_found argus_python_find(void);

struct python_thread {
    uintptr_t state; /* PyThreadState */
    uint32_t tid;
};
/* Threads of the first interpreter; the number stored.  0: torn, or none. */
size_t argus_python_threads(struct python_thread *threads, size_t max);
/* "outermost;...;innermost" of a thread, not terminated beyond `length`.
 * False when the sample is torn: nothing may be made of it. */
bool argus_python_stack(const struct python_thread *thread, char *text, size_t size,
                        size_t *length);

#endif /* ARGUS_COLLECTOR_PYTHON_H */
