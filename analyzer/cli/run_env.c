/* SPDX-License-Identifier: Apache-2.0 */
/* What `argus run` puts into a rank's environment: the plugin's variables. */
#include <config.h>
#include <argus/step.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/cli/run.h"

static void set_number(const char *name, int value, int overwrite)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, overwrite);
}

/* Each of the three only if the user has not set it; who stands down is noted in the spool. */
static void set_sources(const struct launch *l, const char *spool, int rank)
{
    static const char *const variables[][2] = {{"CUDA_INJECTION64_PATH", "cupti"},
                                               {"NCCL_PROFILER_PLUGIN", "nccl"},
                                               {"NVTX_INJECTION64_PATH", "nvtx"}};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        char path[160], line[64];
        int fd, n;

        if (!getenv(variables[i][0])) {
            setenv(variables[i][0], l->collector, 1);
            continue;
        }
        snprintf(path, sizeof(path), "%s/" ARGUS_STANDDOWN_NAME, spool);
        n = snprintf(line, sizeof(line), "rank=%d source=%s reason=user-set\n", rank,
                     variables[i][1]);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0)
            continue;
        if (write(fd, line, (size_t)n) != n)
            argus_cli_error("run", "%s: cannot write: %s", path, strerror(errno));
        close(fd);
    }
}

void argus_run_set_environment(const struct launch *l, int rank)
{
    int node = rank / l->per_node;
    char spool[128], name[64];

    argus_run_node_spool(l, node, spool, sizeof(spool));
    argus_run_node_name(l, node, name, sizeof(name));
    set_number("ARGUS_JOB", (int)getppid(), 1);
    setenv("ARGUS_STEP", "0", 1);
    setenv("ARGUS_SPOOL", spool, 1);
    setenv("ARGUS_DIR", l->dir, 1);
    setenv("ARGUS_NODE", name, 1);
    setenv("ARGUS_SOURCES", l->conf.sources, 1);
    set_number("ARGUS_RANK", rank, 1);
    set_number("ARGUS_WORLD", l->n, 1);
    set_number("ARGUS_LOCAL_RANK", rank % l->per_node, 1);
    /* several ranks cannot share what one of them had set */
    set_number("RANK", rank, l->n > 1);
    set_number("WORLD_SIZE", l->n, l->n > 1);
    set_number("LOCAL_RANK", rank % l->per_node, l->n > 1);
    set_number("LOCAL_WORLD_SIZE", argus_run_local_tasks(l, node), l->n > 1);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", l->port, 0);
    set_sources(l, spool, rank);
}
