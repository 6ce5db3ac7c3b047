/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the collector gets in, and how it gets out of the way: the driver's
 * entry point, fork and exit.
 */
#include "collector/inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "argus/step.h"

#define EXIT_DEADLINE_MS 2000
#define OUR_NAME "libargus-collector"

int argus_dead_flag;
uint64_t argus_activity;

static int cupti_started;

ARGUS_EXPORT int InitializeInjection(void);

bool argus_dead(void)
{
    return __atomic_load_n(&argus_dead_flag, __ATOMIC_RELAXED) != 0;
}

void argus_debug(const char *format, ...)
{
    static int enabled = -1;
    char text[512];
    va_list ap;
    int n, m;

    if (enabled < 0) {
        const char *value = getenv("ARGUS_DEBUG");

        enabled = value && *value && strcmp(value, "0") != 0;
    }
    if (!enabled)
        return;
    n = snprintf(text, sizeof(text) - 1, "argus[%d]: ", (int)getpid());
    va_start(ap, format);
    m = vsnprintf(text + n, sizeof(text) - 1 - (size_t)n, format, ap);
    va_end(ap);
    n += m < 0 ? 0 : m;
    if ((size_t)n > sizeof(text) - 2)
        n = sizeof(text) - 2;
    text[n++] = '\n';
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return;
}

static const char *reason_name(enum argus_reason reason)
{
    switch (reason) {
    case ARGUS_REASON_USER_SET:
        return "user-set";
    case ARGUS_REASON_NO_LIBRARY:
        return "no-library";
    case ARGUS_REASON_REFUSED:
        return "refused";
    case ARGUS_REASON_OTHER_CLIENT:
        return "other-client";
    case ARGUS_REASON_BAD_VERSION:
        return "bad-version";
    default:
        return "other";
    }
}

void argus_standdown_note(enum argus_source source, enum argus_reason reason, int code)
{
    static const char *const names[] = {"cupti", "nccl", "nvtx", "stacks"};
    struct argus_identity id;
    char path[320], line[128];
    int fd, n;

    if (argus_identity_read(&id))
        return;
    snprintf(path, sizeof(path), "%s/" ARGUS_STANDDOWN_NAME, id.spool);
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    n = snprintf(line, sizeof(line), "rank=%d source=%s reason=%s code=%d\n", id.rank,
                 names[source], reason_name(reason), code);
    if (write(fd, line, (size_t)n) < 0)
        argus_debug("%s: %s", path, strerror(errno));
    close(fd);
}

/* A variable that the user had set to another library: that source stood down
 * before we were loaded. */
static void user_set(enum argus_source source, const char *variable)
{
    const char *value = getenv(variable), *base;

    if (!value || !*value || argus_ring_standdown_of(source) != ARGUS_REASON_NONE ||
        !argus_source_wanted(source))
        return;
    base = strrchr(value, '/');
    base = base ? base + 1 : value;
    if (strncmp(base, OUR_NAME, sizeof(OUR_NAME) - 1) != 0)
        argus_ring_standdown(source, ARGUS_REASON_USER_SET, 0);
}

void argus_user_settings(void)
{
    user_set(ARGUS_SOURCE_CUPTI, "CUDA_INJECTION64_PATH");
    user_set(ARGUS_SOURCE_NCCL, "NCCL_PROFILER_PLUGIN");
    user_set(ARGUS_SOURCE_NVTX, "NVTX_INJECTION64_PATH");
}

static void at_exit(void)
{
    if (argus_dead() || !argus_ring_is_open())
        return;
    argus_worker_finish(EXIT_DEADLINE_MS);
}

/*
 * A child of a process that is being traced does nothing: its ring is the
 * parent's, CUPTI does not survive a fork.  A child forked before anything
 * began (a launcher that merely loaded us) starts afresh.
 */
static void in_child(void)
{
    if (__atomic_load_n(&argus_ring.state, __ATOMIC_RELAXED) != RING_NONE || cupti_started)
        __atomic_store_n(&argus_dead_flag, 1, __ATOMIC_RELAXED);
    else
        argus_thread_forget();
}

static void install(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void argus_exit_install(void)
{
    atexit(at_exit);
}

void argus_hooks_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, install);
}

/* Records need a spool to go to.  Asked before anything is switched on: a
 * compile worker or a read-only spool costs nothing at all. */
static bool worth_it(void)
{
    struct argus_identity id;

    return argus_identity_read(&id) == 0 && access(id.spool, W_OK | X_OK) == 0;
}

/* The driver calls this in the first cuInit() of every process that inherited
 * CUDA_INJECTION64_PATH.  Anything but success would make it complain. */
int InitializeInjection(void)
{
    int saved = errno;

    if (argus_dead() || cupti_started || !argus_source_wanted(ARGUS_SOURCE_CUPTI)) {
        if (!argus_source_wanted(ARGUS_SOURCE_CUPTI))
            argus_ring_standdown(ARGUS_SOURCE_CUPTI, ARGUS_REASON_OFF, 0);
        return 1;
    }
    if (worth_it()) {
        cupti_started = 1;
        argus_hooks_install();
        argus_cupti_start();
    }
    errno = saved;
    return 1;
}
