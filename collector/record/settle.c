/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "collector/record/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/timeline/timeline_io.h"

#define PATH_BYTES 4096

/* ---- the first word ------------------------------------------------------ */

/* Left by a recorder that was killed before its first checkpoint: everything in it is still in the
 * ring. */
static int is_orphan(const char *open_path, const struct argus_ring_header *h)
{
    argus_timeline_t *t;
    int orphan;

    if (h->tail)
        return 0;
    t = argus_timeline_open(open_path, NULL);
    orphan = t && argus_timeline_info(t)->pid == h->pid;
    argus_timeline_close(t);
    return orphan;
}

static int path_free(const char *path, const struct argus_ring_header *h)
{
    char open_path[PATH_BYTES + 8];

    snprintf(open_path, sizeof(open_path), "%s.open", path);
    if (access(path, F_OK) == 0)
        return 0;
    if (access(open_path, F_OK) < 0)
        return 1;
    return is_orphan(open_path, h) && unlink(open_path) == 0;
}

void argus_settle_first(const char *dir, const struct argus_ring_header *h, char *path, size_t size)
{
    int rank = h->rank > 0 ? h->rank : 0;

    snprintf(path, size, "%s/rank-%05d.h5", dir, rank);
    if (path_free(path, h) && h->rank >= 0)
        return;
    snprintf(path, size, "%s/rank-%05d.%d.h5", dir, rank, h->pid);
    for (int i = 1; !path_free(path, h) && i < 1000; i++)
        snprintf(path, size, "%s/rank-%05d.%d-%d.h5", dir, rank, h->pid, i);
}

/* ---- the last word ------------------------------------------------------- */

static json_int_t number(const json_t *ring, const char *key)
{
    return json_integer_value(json_object_get(ring, key));
}

static int is_main(const json_t *a, const json_t *b)
{
    if (!number(a, "comms") != !number(b, "comms"))
        return number(a, "comms") > 0;
    return number(a, "records") > number(b, "records");
}

/* At once where the file system can. */
static int exchange(const char *a, const char *b)
{
    char between[PATH_BYTES + 8];

    if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0)
        return 0;
    snprintf(between, sizeof(between), "%s.swap", a);
    return rename(a, between) < 0 || rename(b, a) < 0 || rename(between, b) < 0 ? -1 : 0;
}

static int swap_files(const char *dir, json_t *a, json_t *b, argus_error_t *err)
{
    char path_a[PATH_BYTES], path_b[PATH_BYTES];
    json_t *keep;

    snprintf(path_a, sizeof(path_a), "%s/%s", dir, json_string_value(json_object_get(a, "file")));
    snprintf(path_b, sizeof(path_b), "%s/%s", dir, json_string_value(json_object_get(b, "file")));
    if (exchange(path_a, path_b) < 0)
        return argus_error(err, "%s: cannot change places with %s: %s", path_a, path_b,
                           strerror(errno));
    keep = json_incref(json_object_get(a, "file"));
    json_object_set(a, "file", json_object_get(b, "file"));
    json_object_set_new(b, "file", keep);
    return 0;
}

int argus_settle_names(const char *dir, json_t *rings, argus_error_t *err)
{
    size_t n = json_array_size(rings);
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        json_t *holder = json_array_get(rings, i), *best = holder;
        char plain[64];

        snprintf(plain, sizeof(plain), "rank-%05d.h5", (int)number(holder, "rank"));
        if (strcmp(json_string_value(json_object_get(holder, "file")), plain))
            continue;
        for (size_t k = 0; k < n; k++) {
            json_t *other = json_array_get(rings, k);

            if (number(other, "rank") == number(holder, "rank") &&
                json_string_length(json_object_get(other, "file")) && is_main(other, best))
                best = other;
        }
        if (best != holder && swap_files(dir, holder, best, err) < 0)
            rc = -1;
    }
    return rc;
}
