/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes took part in a job under argus. */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/epilog/user.h"

#define STEP_PREFIX "step-"
#define STEP_FILE "step.json"
#define STEPS_MAX 4096
#define STEP_BYTES_MAX (1 << 20)

static int add_list(struct argus_hostlist *to, const char *text)
{
    struct argus_hostlist names;
    int rc = 0;

    /* What the recorder wrote lies in the user's hands: a bad list adds nothing. */
    if (argus_hostlist_expand(text, ARGUS_HOSTLIST_MAX, &names, NULL) < 0)
        return 0;
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        rc = argus_hostlist_add(to, names.names[i]);
    argus_hostlist_clear(&names);
    return rc;
}

static int add_json(struct argus_hostlist *to, const json_t *value)
{
    const json_t *name;
    size_t i;

    if (json_is_string(value))
        return add_list(to, json_string_value(value));
    json_array_foreach(value, i, name)
    {
        if (json_is_string(name) && add_list(to, json_string_value(name)) < 0)
            return -1;
    }
    return 0;
}

/* The nodes of one step, from <base>/<step>/step.json. */
static int add_step(struct argus_hostlist *to, int base, const char *step)
{
    int dir = openat(base, step, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1, rc = 0;
    json_t *root = NULL, *nodes;
    struct stat st;
    FILE *f = NULL;

    if (dir >= 0)
        fd = openat(dir, STEP_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= STEP_BYTES_MAX)
        f = fdopen(fd, "r");
    if (f)
        root = json_loadf(f, JSON_REJECT_DUPLICATES, NULL);
    if (root) {
        nodes = json_object_get(root, "step_nodes");
        rc = add_json(to, nodes ? nodes : json_object_get(root, "nodes"));
    }
    json_decref(root);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    return rc;
}

static int add_steps(struct argus_hostlist *to, const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0, rc = 0;

    while (d && rc == 0 && n < STEPS_MAX && (e = readdir(d))) {
        if (strncmp(e->d_name, STEP_PREFIX, sizeof(STEP_PREFIX) - 1))
            continue;
        rc = add_step(to, dirfd(d), e->d_name);
        n++;
    }
    if (d)
        closedir(d);
    return rc;
}

int argus_user_nodes(const struct argus_work *work, struct argus_hostlist *nodes,
                     argus_error_t *err)
{
    const struct argus_queue_entry *entry = work->entry;
    const struct argus_stepconf *first = &entry->steps[0];
    struct argus_hostlist used = {0}, all = {0};
    int rc = work->conclude ? 0 : argus_hostlist_add(&used, first->node);

    *nodes = (struct argus_hostlist){0};
    for (size_t i = 0; rc == 0 && i < entry->n_steps; i++)
        rc = add_list(&used, entry->steps[i].step_nodes);
    if (rc == 0)
        rc = add_steps(&used, first->dir);
    /* In the job's order, so that all nodes agree on who is first. */
    if (rc == 0 && first->nodes[0] &&
        argus_hostlist_expand(first->nodes, ARGUS_HOSTLIST_MAX, &all, NULL) < 0)
        all.n = 0;
    for (size_t i = 0; rc == 0 && i < all.n; i++) {
        if (argus_hostlist_find(&used, all.names[i]) >= 0)
            rc = argus_hostlist_add(nodes, all.names[i]);
    }
    /* Nodes of other components of a heterogeneous job. */
    for (size_t i = 0; rc == 0 && i < used.n; i++)
        rc = argus_hostlist_add(nodes, used.names[i]);
    argus_hostlist_clear(&used);
    argus_hostlist_clear(&all);
    if (rc < 0) {
        argus_hostlist_clear(nodes);
        return argus_error(err, "out of memory");
    }
    return 0;
}
