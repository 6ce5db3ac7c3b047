/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/util/replace.h"

static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};

#define N_SIGNALS (sizeof(ending_signals) / sizeof(ending_signals[0]))

/* What a signal handler has to find is nobody's argument. */
static struct {
    char *volatile temporary; /* NULL: none is being written */
    struct sigaction before[N_SIGNALS];
} guard;

/* End as the signal would have ended us, but for the file. */
static void remove_and_end(int sig)
{
    int saved = errno;

    if (guard.temporary)
        unlink(guard.temporary);
    errno = saved;
    raise(sig); /* SA_RESETHAND: by now it ends us */
}

/* Signals that are ignored or somebody's own stay what they are. */
static void begin_guard(char *temporary)
{
    struct sigaction ours = {.sa_handler = remove_and_end, .sa_flags = SA_RESETHAND | SA_NODEFER};

    sigemptyset(&ours.sa_mask);
    guard.temporary = temporary;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (sigaction(ending_signals[i], NULL, &guard.before[i]) == 0 &&
            guard.before[i].sa_handler == SIG_DFL)
            sigaction(ending_signals[i], &ours, NULL);
    }
}

static void end_guard(const char *temporary)
{
    if (!temporary || guard.temporary != temporary)
        return;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (guard.before[i].sa_handler == SIG_DFL)
            sigaction(ending_signals[i], &guard.before[i], NULL);
    }
    guard.temporary = NULL;
}

static void clear(struct argus_replacement *r)
{
    end_guard(r->temporary);
    free(r->path);
    free(r->temporary);
    *r = (struct argus_replacement){NULL, NULL, NULL};
}

int argus_replace_open(struct argus_replacement *r, const char *path, argus_error_t *err)
{
    int rc;

    *r = (struct argus_replacement){NULL, strdup(path), NULL};
    if (asprintf(&r->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0)
        r->temporary = NULL;
    if (!r->path || !r->temporary) {
        clear(r);
        return argus_error(err, "%s: no memory to write it", path);
    }
    unlink(r->temporary); /* of an earlier process with our id */
    if (!guard.temporary)
        begin_guard(r->temporary);
    r->out = fopen(r->temporary, "wxe");
    if (r->out)
        return 0;
    rc = argus_error(err, "%s: cannot be written: %s", path, strerror(errno));
    clear(r);
    return rc;
}

int argus_replace_finish(struct argus_replacement *r, const char *why, int durable,
                         argus_error_t *err)
{
    int rc = 0;

    if (!why && (fflush(r->out) || ferror(r->out) || (durable && fsync(fileno(r->out)))))
        why = strerror(errno);
    if (fclose(r->out) && !why)
        why = strerror(errno);
    if (!why && rename(r->temporary, r->path))
        why = strerror(errno);
    if (why) {
        rc = argus_error(err, "%s: cannot be written: %s", r->path, why);
        unlink(r->temporary);
    }
    clear(r);
    return rc;
}
