/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_BYTES_MAX ((size_t)1 << 30)
#define PATH_BYTES 4096

struct checkpoint { /* first in the state */
    uint64_t pid_start;
    int64_t created; /* with it: which ring this belongs to */
    uint64_t cursor;
    uint64_t device, inode; /* of the open timeline */
    char path[PATH_BYTES];  /* final name of the timeline */
};

static int state_path(const char *ring_path, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%s" ARGUS_STATE_SUFFIX, ring_path) < size ? 0 : -1;
}

void argus_checkpoint_remove(const char *ring_path)
{
    char path[PATH_BYTES + 16];

    if (state_path(ring_path, path, sizeof(path)) == 0)
        unlink(path);
}

static int is_file(const char *path, const struct checkpoint *c)
{
    struct stat st;

    return stat(path, &st) == 0 && (uint64_t)st.st_dev == c->device &&
           (uint64_t)st.st_ino == c->inode;
}

int argus_checkpoint_store(const char *ring_path, const struct argus_ring *ring,
                           argus_stream_t *stream, argus_error_t *err)
{
    struct checkpoint c = {
        .cursor = ring->cursor, .pid_start = ring->pid_start, .created = ring->created};
    char path[PATH_BYTES + 16];
    struct argus_blob b = {0};
    struct stat st;
    int rc = -1;

    snprintf(path, sizeof(path), "%s.open", argus_stream_path(stream));
    if (stat(path, &st) < 0)
        return argus_error(err, "%s: %s", path, strerror(errno));
    c.device = (uint64_t)st.st_dev;
    c.inode = (uint64_t)st.st_ino;
    snprintf(c.path, sizeof(c.path), "%s", argus_stream_path(stream));
    argus_blob_put(&b, &c, sizeof(c));
    argus_stream_save(stream, &b);
    if (state_path(ring_path, path, sizeof(path)) < 0 || argus_blob_store(&b, path) < 0)
        argus_error(err, "%s: cannot write: %s", path, strerror(errno));
    else
        rc = 0;
    argus_blob_free(&b);
    return rc;
}

/* The timeline that was open: under its own name, or put aside by a recorder that was killed while
 * it made it again.  In `old`, put aside. */
static int put_aside(const struct checkpoint *c, char *old, size_t size)
{
    char open_path[PATH_BYTES + 16];

    snprintf(old, size, "%s.recover", c->path);
    snprintf(open_path, sizeof(open_path), "%s.open", c->path);
    if (is_file(old, c))
        return 0;
    if (!is_file(open_path, c))
        return -1;
    return rename(open_path, old);
}

enum argus_checkpoint_found argus_checkpoint_load(const char *ring_path, struct argus_ring *ring,
                                                  const struct argus_ring_header *header,
                                                  const struct argus_stream_options *options,
                                                  argus_stream_t **stream, char *path, size_t size,
                                                  argus_error_t *err)
{
    char state[PATH_BYTES + 16], old[PATH_BYTES + 16];
    struct argus_blob b = {0};
    struct checkpoint c;
    enum argus_checkpoint_found found = ARGUS_CHECKPOINT_LOST;

    if (state_path(ring_path, state, sizeof(state)) < 0 || access(state, F_OK) < 0)
        return ARGUS_CHECKPOINT_NONE;
    if (argus_blob_load(&b, state, STATE_BYTES_MAX) < 0) {
        argus_error(err, "%s: damaged", state);
        goto out;
    }
    argus_blob_get(&b, &c, sizeof(c));
    c.path[sizeof(c.path) - 1] = '\0';
    if (b.failed || c.created != header->created || c.pid_start != header->pid_start) {
        argus_error(err, "%s: belongs to another ring", state);
        goto out;
    }
    if (put_aside(&c, old, sizeof(old)) < 0) {
        if (access(c.path, F_OK) == 0)
            found = ARGUS_CHECKPOINT_SEALED;
        else
            argus_error(err, "%s.open: is gone; what is left in the ring goes into a new file",
                        c.path);
        goto out;
    }
    if (argus_ring_seek(ring, c.cursor) < 0) {
        argus_error(err, "%s: does not fit its ring", state);
        goto out;
    }
    *stream = argus_stream_restore(options, c.path, old, header, ring, &b, err);
    if (!*stream) {
        argus_error_prefix(err, "%s", state);
        goto out;
    }
    snprintf(path, size, "%s", c.path);
    /* From here on the new timeline counts. */
    if (argus_checkpoint_store(ring_path, ring, *stream, err) == 0)
        unlink(old);
    found = ARGUS_CHECKPOINT_STREAM;
out:
    argus_blob_free(&b);
    if (found == ARGUS_CHECKPOINT_LOST)
        unlink(state);
    return found;
}
