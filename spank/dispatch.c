/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every symbol that Slurm looks for.  All return 0: a job never fails, a node
 * is never drained, because of this plugin.
 *
 * job_prolog and job_epilog are left out on purpose: their presence alone
 * costs a process per job and node, and takes variables from Epilog scripts.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/plugin.h"

SPANK_PLUGIN(argus, 1)

#if SLURM_VERSION_NUMBER >= 0x190500
/* If somebody writes "required": fail the job, do not drain the node. */
extern int slurm_spank_init_failure_mode;
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

struct argus_plugin argus_plugin;

/*
 * Listed by two paths the plugin is loaded twice, with statics of its own each
 * time.  The first one in a slurmstepd leaves its process id in slurmstepd's
 * environment, which no task inherits.
 */
#define LOADED "ARGUS_SPANK_LOADED"

static bool first_copy(void)
{
    const char *value = getenv(LOADED);
    char pid[16];

    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    if (value && !strcmp(value, pid))
        return false;
    return !setenv(LOADED, pid, 1);
}

static void be_quiet(const char *line)
{
    slurm_debug("%s", line);
}

static argus_keys_say_f *speaker(spank_context_t context)
{
    switch (context) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        return argus_local_say;
    case S_CTX_REMOTE:
        return argus_remote_say;
    default:
        return be_quiet;
    }
}

/* May come several times: from the environment, from the command line, and twice in slurmstepd. */
static int option(int val, const char *argument, int remote)
{
    static char last[256];
    struct argus_keys *keys = &argus_plugin.keys;
    argus_keys_say_f *say = speaker(remote ? S_CTX_REMOTE : S_CTX_LOCAL);
    char now[sizeof(last)];

    (void)val;
    snprintf(now, sizeof(now), "%s", argument ? argument : "");
    if (!strcmp(now, last))
        say = be_quiet;
    strcpy(last, now);
    /* The last one wins as a whole. */
    *keys = argus_plugin.site;
    argus_keys_option(keys, &argus_plugin.request, argument, say);
    return 0;
}

static struct spank_option argus_option = {
    .name = (char *)"argus",
    .arginfo = (char *)"on|off|summary|full|key=value,...",
    .usage = (char *)"find the GPU, link or host that slows this job down; "
                     "the verdict is in sacct's AdminComment",
    .has_arg = 2,
    .val = 0,
    .cb = option,
};

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
    spank_context_t context = spank_context();

    if (context == S_CTX_REMOTE && !argus_plugin.active && !first_copy())
        argus_plugin.initialised = true;
    if (argus_plugin.initialised) {
        slurm_verbose("argus: listed twice in plugstack.conf; this line is ignored");
        return 0;
    }
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
        return 0;
    argus_plugin.initialised = true;
    argus_plugin.active = context == S_CTX_REMOTE;
    argus_plugin.local = context == S_CTX_LOCAL;
    argus_keys_defaults(&argus_plugin.site);
    /* srun tells about the site's mistakes; sbatch and salloc have an srun to come. */
    argus_keys_plugstack(&argus_plugin.site, argc, argv,
                         context == S_CTX_ALLOCATOR ? be_quiet : speaker(context));
    argus_plugin.keys = argus_plugin.site;
    if (spank_option_register(sp, &argus_option) != ESPANK_SUCCESS)
        slurm_verbose("argus: --argus could not be registered");
    return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (argus_plugin.active)
        argus_remote_init_post_opt(sp);
    return 0;
}

int slurm_spank_local_user_init(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (argus_plugin.local)
        argus_local_user_init(sp);
    return 0;
}

int slurm_spank_user_init(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (argus_plugin.active)
        argus_remote_user_init(sp);
    return 0;
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (argus_plugin.active)
        argus_remote_task_init(sp);
    return 0;
}

int slurm_spank_task_exit(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (argus_plugin.active)
        argus_remote_task_exit(sp);
    return 0;
}

int slurm_spank_exit(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (argus_plugin.local)
        argus_local_exit();
    if (argus_plugin.active) {
        argus_remote_exit(sp);
        unsetenv(LOADED);
    }
    return 0;
}
