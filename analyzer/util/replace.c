/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/util/replace.h"

static void clear(struct argus_replacement *r)
{
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
