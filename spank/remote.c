/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurmstepd: decides whether the step is traced, prepares the node, starts
 * the recorder, gives every task its environment, and stops the recorder when
 * the last task has ended.
 *
 * The batch script and the shell of salloc count as a step of one task: what
 * they start without srun (torchrun, mpirun) is traced as step "batch" or
 * "interactive", and nothing is written if they start nothing of the kind.
 * Steps that srun starts from there are steps of their own.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/drop.h"
#include "spank/facts.h"
#include "spank/plugin.h"
#include "spank/recorder.h"
#include "spank/spool.h"

#ifndef ARGUS_RECORDER
#define ARGUS_RECORDER ARGUS_PKGLIBEXECDIR "/argus-record"
#endif

/* More tasks than this on a node are counted, not told apart. */
#define TASKS_MAX 4096

static struct {
    bool decided; /* init_post_opt has run */
    bool skip;    /* the extern step */
    bool traced;
    bool made; /* there is a marker, and a spool */
    struct argus_facts facts;
    struct argus_identity id;
    struct argus_recorder recorder;
    char spool[600];  /* the step's */
    char excuse[640]; /* for the user, from a hook where srun hears it */
    char *text;       /* of the marker, kept for a lazy step */
    uint32_t tasks_left;
    pid_t task_done;
    unsigned char exited[TASKS_MAX / 8];
} state = {.recorder = {.pidfd = -1}};

void argus_remote_say(const char *line)
{
    slurm_debug("%s", line);
}

/* One line: to the user if asked for by name, on one node, and to slurmd's log (slurm_error
 * would go to everybody). */
static void excuse(const char *reason, bool fault)
{
    const char *node = state.facts.node ? state.facts.node : state.facts.node_name;

    if (fault)
        slurm_info("argus: %s: %s; the step is not traced", node, reason);
    else
        slurm_verbose("argus: %s: %s; the step is not traced", node, reason);
    if (argus_plugin.request.given && state.facts.nodeid == 0)
        snprintf(state.excuse, sizeof(state.excuse), "argus: %.64s: %s; not traced", node, reason);
}

/* slurmd tells slurmstepd; the job's environment may say anything. */
static const char *node_name(void)
{
    static char host[256];
    const char *name = getenv("SLURMD_NODENAME");

    if (name)
        return name;
    if (gethostname(host, sizeof(host) - 1))
        return NULL;
    host[strcspn(host, ".")] = '\0';
    return host;
}

static int get_facts(spank_t sp, struct argus_facts *f)
{
    char **env = NULL;

    if (spank_get_item(sp, S_JOB_ID, &f->slurm_job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_STEPID, &f->slurm_step) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_UID, &f->uid) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_GID, &f->gid) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS)
        return -1;
    f->env = (const char *const *)env;
    if (spank_get_item(sp, S_JOB_NODEID, &f->nodeid) != ESPANK_SUCCESS)
        f->nodeid = 0;
    if (spank_get_item(sp, S_JOB_NNODES, &f->nnodes) != ESPANK_SUCCESS)
        f->nnodes = 1;
    if (spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &f->ntasks) != ESPANK_SUCCESS)
        f->ntasks = 1;
    if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &f->local_tasks) != ESPANK_SUCCESS)
        f->local_tasks = 1;
    if (spank_get_item(sp, S_JOB_ARRAY_ID, &f->array_job) != ESPANK_SUCCESS)
        f->array_job = f->slurm_job;
    /* Without an array: array id 0 by the header, task id NO_VAL by what Slurm does. */
    if (spank_get_item(sp, S_JOB_ARRAY_TASK_ID, &f->array_task) != ESPANK_SUCCESS || !f->array_job)
        f->array_task = ARGUS_NO_ARRAY;
    if (spank_get_item(sp, S_SLURM_VERSION, &f->slurm_version) != ESPANK_SUCCESS)
        f->slurm_version = NULL;
    f->node = node_name();
    f->owner = getpid();
    return 0;
}

static int get_identity(spank_t sp, const struct argus_facts *f, struct argus_identity *id)
{
    gid_t *groups = NULL;
    int n = 0;

    id->uid = f->uid;
    id->gid = f->gid;
    if (spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &groups, &n) != ESPANK_SUCCESS || n < 0 ||
        !groups)
        n = 0;
    id->groups = calloc((size_t)n + 1, sizeof(*id->groups));
    if (!id->groups)
        return -1;
    memcpy(id->groups, groups ? groups : id->groups, (size_t)n * sizeof(*groups));
    id->ngroups = (size_t)n;
    return 0;
}

/* Is this step to be traced?  Cheap: most steps of a cluster end here. */
static bool wanted(struct argus_facts *f)
{
    const struct argus_keys *keys = &argus_plugin.keys;
    char why[320], reason[400];

    if (argus_plugin.request.off || argus_keys_is(&argus_plugin.site, ARGUS_KEY_MODE, "off")) {
        if (argus_plugin.request.given && !argus_plugin.request.off)
            excuse("plugstack.conf has mode=off", false);
        return false;
    }
    if (!argus_plugin.request.given &&
        (argus_keys_is(keys, ARGUS_KEY_DEFAULT, "off") || !argus_facts_gpus(f)))
        return false;
    argus_facts_names(f);
    if (!argus_keys_allowed(keys, f->partition, f->user, f->account, why, sizeof(why))) {
        snprintf(reason, sizeof(reason), "plugstack.conf has %s", why);
        excuse(reason, false);
        return false;
    }
    return true;
}

void argus_remote_init_post_opt(spank_t sp)
{
    struct argus_facts *f = &state.facts;
    argus_error_t err;
    char *text = NULL;

    if (state.decided)
        return;
    state.decided = true;
    if (get_facts(sp, f) || f->slurm_step == ARGUS_STEP_EXTERN) {
        state.skip = true;
        return;
    }
    if (!wanted(f))
        goto out;
    if (argus_facts_complete(f, &argus_plugin.keys, &err))
        goto error;
    if (get_identity(sp, f, &state.id)) {
        argus_error(&err, "out of memory");
        goto error;
    }
    text = argus_facts_text(f, &argus_plugin.keys, &err);
    if (!text)
        goto error;
    argus_spool_path(f, state.spool, sizeof(state.spool));
    if (argus_spool_create(f, text, (uint64_t)argus_keys_int(&argus_plugin.keys, ARGUS_KEY_RING_MB),
                           &state.id, &err))
        goto error;
    state.made = state.traced = true;
    state.tasks_left = f->local_tasks;
    if (f->lazy) {
        state.text = text;
        text = NULL;
    }
    goto out;
error:
    excuse(err.text, true);
out:
    free(text);
    f->env = NULL;
    f->node = f->slurm_version = NULL;
}

/*
 * A script or a shell may still make its directory writable, so it is traced all the same; where
 * it does not, nothing of what it starts itself can be written, and nobody else would say so.  Its
 * stderr is known to its task only: task_init tells.
 */
static void warn_of_dir(void)
{
    int rc = argus_recorder_check_dir(&state.id, state.spool, state.facts.dir);

    if (rc)
        snprintf(state.excuse, sizeof(state.excuse),
                 "argus: %.64s: cannot write %.480s: %s; not traced", state.facts.node_name,
                 state.facts.dir, strerror(rc));
}

void argus_remote_user_init(spank_t sp)
{
    const struct argus_recorder_start start = {
        .id = &state.id,
        .program = ARGUS_RECORDER,
        .spool = state.spool,
        /* A script or a shell may make its directory itself before it starts something. */
        .dir = state.facts.lazy ? NULL : state.facts.dir,
        .mask = state.facts.umask_bits,
        .stepd = state.facts.owner,
    };
    argus_error_t err;

    (void)sp;
    if (state.traced && !state.recorder.pid &&
        argus_recorder_start(&state.recorder, &start, &err)) {
        state.traced = false;
        excuse(err.text, true);
    }
    if (state.excuse[0] && !state.facts.lazy)
        slurm_spank_log("%s", state.excuse);
    state.excuse[0] = '\0';
    if (state.traced && state.facts.lazy && argus_plugin.request.given)
        warn_of_dir();
}

/*
 * Slurm tells a batch step only in its task's environment that the job was
 * restarted, after the marker and step.conf were written.  The recorder reads
 * step.conf again when the first ring appears; the marker is mended at the end.
 */
static void note_restart(spank_t sp, char *dir, size_t size)
{
    char value[16], *text;
    unsigned long restart;
    size_t used = strlen(dir);

    if (!state.text || state.facts.restart ||
        spank_getenv(sp, "SLURM_RESTART_COUNT", value, sizeof(value)) != ESPANK_SUCCESS)
        return;
    restart = strtoul(value, NULL, 10);
    if (!restart || restart > 100)
        return;
    text = argus_facts_restarted(state.text, (unsigned)restart);
    if (text && !argus_spool_restart(state.spool, text, (unsigned)restart))
        snprintf(dir + used, size - used, "-r%lu", restart);
    free(text);
}

static void mend_marker(void)
{
    unsigned restart = argus_spool_restarted(&state.facts, &state.id);
    argus_error_t err;
    char *text;

    if (!restart)
        return;
    text = argus_facts_restarted(state.text, restart);
    if (text && argus_spool_remark(&state.facts, text, &err))
        slurm_info("argus: %s", err.text);
    free(text);
}

void argus_remote_task_init(spank_t sp)
{
    struct argus_taskenv t = {
        .keys = &argus_plugin.keys,
        .spool = state.spool,
        .dir = state.facts.dir,
        .job = state.facts.job,
        .step = state.facts.step,
        .node = state.facts.node_name,
        .speak = argus_plugin.request.given && state.facts.nodeid == 0,
    };
    char inherited[8];

    /* A second line in plugstack.conf calls a second time in the same task. */
    if (state.skip || state.task_done == getpid())
        return;
    state.task_done = getpid();
    /* The script's own stderr, whatever the level of Slurm's log. */
    if (state.excuse[0])
        dprintf(STDERR_FILENO, "%s\n", state.excuse);
    if (state.traced) {
        note_restart(sp, state.facts.dir, sizeof(state.facts.dir));
        argus_taskenv_set(sp, &t);
    }
    if (!state.traced &&
        spank_getenv(sp, "ARGUS_SPOOL", inherited, sizeof(inherited)) != ESPANK_ENV_NOEXIST)
        argus_taskenv_clear(sp, &argus_plugin.keys);
}

/* Once for each task, however often the hook is called for it. */
static bool first_exit(int task)
{
    if (task < 0 || task >= TASKS_MAX)
        return true;
    if (state.exited[task / 8] & (1 << (task % 8)))
        return false;
    state.exited[task / 8] |= (unsigned char)(1 << (task % 8));
    return true;
}

static void stop_recorder(void)
{
    long wait_ms = 1000 * argus_keys_int(&argus_plugin.keys, ARGUS_KEY_DRAIN_S);

    if (state.recorder.pid && argus_recorder_stop(&state.recorder, wait_ms))
        slurm_verbose("argus: the recorder did not finish within %ld ms; the epilog will", wait_ms);
}

void argus_remote_task_exit(spank_t sp)
{
    int task = -1;

    if (!state.traced)
        return;
    if (spank_get_item(sp, S_TASK_ID, &task) != ESPANK_SUCCESS)
        task = -1;
    if (!first_exit(task))
        return;
    if (state.tasks_left)
        state.tasks_left--;
    if (!state.tasks_left)
        stop_recorder();
}

void argus_remote_exit(spank_t sp)
{
    (void)sp;
    /* A step whose tasks never started ends here. */
    stop_recorder();
    if (state.made && state.text)
        mend_marker();
    if (state.made)
        argus_spool_finish(&state.facts, &state.id, !state.traced);
    state.made = state.traced = false;
    free(state.text);
    state.text = NULL;
    free(state.id.groups);
    memset(&state.id, 0, sizeof(state.id));
}
