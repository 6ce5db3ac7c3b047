/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/epilog/jobs.h"
#include "analyzer/epilog/spawn.h"
#include "analyzer/epilog/user.h"
#include "analyzer/epilog/worker.h"
#include "analyzer/verdict/comment.h"
#include "spank/drop.h"

#define NICE 10
#define GROUPS_MAX 65536
/* An entry whose work keeps failing is given up: its node's memory is needed. */
#define ATTEMPTS_MAX 48
#define AGE_MAX_S (7 * 86400)

static void complain(const struct argus_worker *worker, int priority, const char *name,
                     const char *text)
{
    char line[ARGUS_MESSAGE_MAX + ARGUS_QUEUE_NAME_MAX + 128];

    snprintf(line, sizeof(line), "job %.*s: %s", (int)strcspn(name, "."), name, text);
    worker->log(worker->log_arg, priority, line);
}

/* slurmd may be protected from the OOM killer; the analysis goes before the node's next job. */
static void be_killed_first(void)
{
    static const char score[] = "500";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t rc = write(fd, score, sizeof(score) - 1);

        (void)rc;
        close(fd);
    }
}

void argus_worker_be_modest(void)
{
    const struct rlimit none = {0, 0};
    cpu_set_t allowed, one;
    int last = -1;

    be_killed_first();
    setpriority(PRIO_PROCESS, 0, NICE);
    setrlimit(RLIMIT_CORE, &none);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &allowed))
                last = cpu;
        }
    }
    if (last >= 0) {
        CPU_ZERO(&one);
        CPU_SET(last, &one);
        sched_setaffinity(0, sizeof(one), &one);
    }
#ifdef SYS_ioprio_set
    syscall(SYS_ioprio_set, 1 /* process */, 0, 3 << 13 /* idle */);
#endif
}

/* ------------------------------------------------------------------------
 * The user half's process
 */

static int identity(const struct argus_stepconf *step, struct argus_identity *id,
                    argus_error_t *err)
{
    const struct passwd *pw;
    int n = 64;

    if (step->uid == (uid_t)-1 || step->gid == (gid_t)-1)
        return argus_error(err, "the marker names no user");
    id->uid = step->uid;
    id->gid = step->gid;
    id->ngroups = 0;
    id->groups = malloc(GROUPS_MAX * sizeof(*id->groups));
    if (!id->groups)
        return argus_error(err, "out of memory");
    pw = geteuid() == 0 ? getpwuid(step->uid) : NULL;
    if (pw) {
        n = GROUPS_MAX;
        if (getgrouplist(pw->pw_name, step->gid, id->groups, &n) >= 0 && n > 0)
            id->ngroups = (size_t)n;
    }
    return 0;
}

static void limit(int resource, rlim_t value)
{
    const struct rlimit l = {value, value};

    setrlimit(resource, &l);
}

static _Noreturn void user_half(const struct argus_worker *worker,
                                const struct argus_queue_entry *entry, int conclude, int fd)
{
    struct argus_identity id = {0};
    argus_error_t err = {""};
    struct argus_work work = {
        .entry = entry,
        .spool = worker->queue ? worker->queue->path : "",
        .conclude = conclude,
        .analyze = worker->analyze,
        .record = worker->record,
        .slurm_conf = worker->slurm.slurm_conf,
        .analyze_s = worker->analyze_s,
    };
    char text[64];
    int e;

    setsid();
    argus_drop_signals();
    e = argus_drop_files(fd);
    if (e || identity(&entry->steps[0], &id, &err) < 0)
        _exit(2);
    if (worker->memory_mb)
        limit(RLIMIT_AS, (rlim_t)worker->memory_mb << 20);
    limit(RLIMIT_CPU, (rlim_t)worker->analyze_s);
    if (chdir("/") < 0)
        _exit(2);
    e = argus_drop_become(&id);
    free(id.groups);
    if (e) {
        snprintf(text, sizeof(text), "E cannot become the user: %s", strerror(e));
        send(fd, text, strlen(text), MSG_NOSIGNAL);
        _exit(2);
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    work.socket = fd;
    _exit(argus_user_work(&work));
}

/* ------------------------------------------------------------------------
 * What it says
 */

static int list_holds(const struct argus_hostlist *nodes, const struct argus_comment_names *names,
                      argus_error_t *err)
{
    for (size_t i = 0; i < names->n; i++) {
        if (argus_hostlist_find(nodes, names->name[i]) < 0)
            return argus_error(err, "the verdict names node %.64s, which is not the job's",
                               names->name[i]);
    }
    return 0;
}

struct record {
    const struct argus_target *target;
    int whole; /* the job's other components, too */
    struct argus_hostlist nodes;
    uid_t uid;
    int foreign;    /* another user's */
    int vague;      /* nobody's yet: slurmdbd has seen the job's end before its beginning */
    int superseded; /* it ran again since */
};

static int add_nodes(const struct argus_job *job, void *arg)
{
    struct record *r = arg;
    struct argus_hostlist names;
    int rc = 0, same = !strcmp(job->raw, r->target->raw);

    if (!same && !r->whole)
        return 0;
    if (job->uid != r->uid && (job->uid == 0 || job->uid == (uid_t)-1))
        r->vague = 1;
    else
        r->foreign |= job->uid != r->uid;
    r->superseded |= same && r->target->started && job->start > r->target->started + 1;
    if (argus_hostlist_expand(job->nodes, ARGUS_HOSTLIST_MAX, &names, NULL) < 0)
        return 0;
    if (!r->nodes.n) {
        argus_hostlist_clear(&r->nodes);
        r->nodes = names;
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        rc = argus_hostlist_add(&r->nodes, names.names[i]);
    argus_hostlist_clear(&names);
    return rc;
}

/*
 * Accounting alone is believed about the job's nodes: the marker's list is from the job's
 * environment, where a user may write any, as he may write another user's job as the first
 * component of his.  0 the job is the user's and the line names none but its nodes, -1 not so,
 * 1 nobody can say now.
 */
static int check_nodes(const struct argus_worker *worker, const struct argus_stepconf *step,
                       const struct argus_target *target, const struct argus_comment *comment,
                       argus_error_t *err)
{
    int het = strcmp(step->het, "-") != 0, rc = 1;
    struct record r = {.target = target, .whole = het, .uid = step->uid};

    if (!het && !comment->node.n && !comment->peer.n && !comment->oneof.n)
        return 0;
    if (argus_jobs_each(&worker->slurm, NULL, het ? target->raw : target->id, add_nodes, &r, err) ==
        0) {
        if (r.foreign)
            rc = argus_error(err, "job %s is another user's", target->raw);
        else if (r.superseded)
            rc = argus_error(err, "job %s: it ran again since", target->id);
        else if (r.vague)
            argus_error(err, "job %s: its user is not in accounting yet", target->id);
        else if (!r.nodes.n)
            argus_error(err, "job %s: its nodes are not in accounting yet", target->id);
        else
            rc = list_holds(&r.nodes, &comment->node, err) == 0 &&
                         list_holds(&r.nodes, &comment->peer, err) == 0 &&
                         list_holds(&r.nodes, &comment->oneof, err) == 0
                     ? 0
                     : -1;
    }
    argus_hostlist_clear(&r.nodes);
    return rc;
}

static void find_target(const struct argus_stepconf *step, struct argus_target *target)
{
    /* A heterogeneous job has one verdict; it stands with the leader. */
    int leader = (int)strcspn(step->job, "+");

    snprintf(target->raw, sizeof(target->raw), "%.*s", leader, step->job);
    if (strcmp(step->array_task, "-") && strcmp(step->array_job, "-"))
        snprintf(target->id, sizeof(target->id), "%.30s_%.30s", step->array_job, step->array_task);
    else if (step->job[leader])
        snprintf(target->id, sizeof(target->id), "%s+0", target->raw);
    else
        snprintf(target->id, sizeof(target->id), "%s", target->raw);
    target->started = step->started / 1000000000;
}

/* Does the site's policy say something about the node that this verdict blames? */
static void follow_policy(const struct argus_worker *worker, const char *name, const char *job,
                          const char *line)
{
    char node[ARGUS_COMMENT_NAME], text[ARGUS_COMMENT_NAME + 64];
    argus_error_t err = {""};
    int rc = argus_policy_apply(&worker->policy, &worker->slurm, job, line, node, &err);

    if (rc < 0)
        complain(worker, LOG_WARNING, name, err.text);
    if (rc > 0) {
        snprintf(text, sizeof(text), "node %s drained, as the policy says", node);
        complain(worker, LOG_NOTICE, name, text);
    }
}

/* Check and post a line.  1: it is settled, 0: later. */
static int post(const struct argus_worker *worker, const struct argus_queue_entry *entry,
                const char *line)
{
    const struct argus_stepconf *step = &entry->steps[entry->n_steps - 1];
    int field = argus_field_from_name(step->comment), rc = 0;
    /* Nobody reads the nodes of a line that is not posted but the policy. */
    int heard = field != ARGUS_FIELD_NONE || worker->policy.drain_after;
    struct argus_comment comment;
    struct argus_target target;
    argus_error_t err = {""};
    enum argus_post_status status;

    if (argus_comment_validate(line, &err) < 0 || argus_comment_parse(line, &comment, &err) < 0) {
        complain(worker, LOG_WARNING, entry->name, err.text);
        return 1;
    }
    find_target(step, &target);
    if (heard)
        rc = check_nodes(worker, step, &target, &comment, &err);
    for (int waited = 0, pause = 1; rc > 0 && waited + pause <= worker->post_s; pause *= 2) {
        nanosleep(&(struct timespec){.tv_sec = pause}, NULL);
        waited += pause;
        rc = check_nodes(worker, step, &target, &comment, &err);
    }
    if (rc) {
        complain(worker, rc < 0 ? LOG_WARNING : LOG_INFO, entry->name, err.text);
        return rc < 0;
    }
    status =
        argus_accounting_post_retry(&worker->slurm, &target, field, line, worker->post_s, &err);
    if (status == ARGUS_POST_DONE) {
        complain(worker, LOG_INFO, entry->name, line);
        follow_policy(worker, entry->name, target.id, line);
    } else {
        complain(worker, status == ARGUS_POST_LATER ? LOG_INFO : LOG_WARNING, entry->name,
                 err.text);
    }
    return status != ARGUS_POST_LATER;
}

/* Text from the user half for the log: printable, one line. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
            *text = '?';
    }
}

/* How an attempt ended that did not finish the entry. */
struct ending {
    char why[ARGUS_MESSAGE_MAX]; /* what went wrong last, which is told with what becomes of it */
    int excused;                 /* accounting was the reason, not the job: no attempt of it */
};

/* What was to be told last is told, if anything. */
static void tell(const struct argus_worker *worker, const struct argus_queue_entry *entry,
                 struct ending *end)
{
    if (end->why[0])
        complain(worker, LOG_WARNING, entry->name, end->why);
    end->why[0] = '\0';
}

/* Listen until it is finished, gone, or out of time.  1: the entry may go; 0: `end` says why not. */
static int listen_to(const struct argus_worker *worker, const struct argus_queue_entry *entry,
                     int fd, struct ending *end)
{
    const struct argus_stepconf *first = &entry->steps[0];
    long limit_s = 2L * first->deadline_s + worker->analyze_s + worker->post_s + 120;
    struct timespec start, now;
    int posted = 0;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        char message[ARGUS_MESSAGE_MAX];
        ssize_t n;

        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > limit_s) {
            tell(worker, entry, end);
            snprintf(end->why, sizeof(end->why), "no end of the analysis");
            return 0;
        }
        if (poll(&p, 1, 1000) <= 0)
            continue;
        n = recv(fd, message, sizeof(message) - 1, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        message[n] = '\0';
        tell(worker, entry, end);
        if (message[0] == 'F')
            return 1;
        if (message[0] == 'E') {
            make_printable(message);
            snprintf(end->why, sizeof(end->why), "%s", n > 2 ? message + 2 : "?");
        } else if (message[0] == 'V' && message[1] == ' ') {
            /* One line a job, whatever the other side thinks. */
            int settled = !posted && post(worker, entry, message + 2);

            posted = 1;
            end->excused = !settled;
            send(fd, settled ? "P" : "L", 1, MSG_NOSIGNAL);
        }
    }
}

/* Have the user half work; 1: the entry may go; 0: `end` says why not, if anybody knows. */
static int work_on(const struct argus_worker *worker, const struct argus_queue_entry *entry,
                   int conclude, struct ending *end)
{
    int pair[2], finished, status;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        snprintf(end->why, sizeof(end->why), "socketpair: %s", strerror(errno));
        return 0;
    }
    pid = fork();
    if (pid < 0) {
        snprintf(end->why, sizeof(end->why), "fork: %s", strerror(errno));
        close(pair[0]);
        close(pair[1]);
        return 0;
    }
    if (pid == 0)
        user_half(worker, entry, conclude, pair[1]);
    close(pair[1]);
    finished = listen_to(worker, entry, pair[0], end);
    close(pair[0]);
    /* A program that it started itself has a time limit of the processor's, and loses its pipes. */
    if (finished && argus_spawn_reap(pid, ARGUS_SPAWN_KILLED_S, &status) == 0)
        return 1;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    if (argus_spawn_reap(pid, ARGUS_SPAWN_KILLED_S, &status) < 0 && !finished) {
        tell(worker, entry, end);
        snprintf(end->why, sizeof(end->why), "its process %ld cannot be killed", (long)pid);
    }
    return finished;
}

/* Remove the steps' spools, which the user half has emptied. */
static void remove_spools(const struct argus_worker *worker, const struct argus_queue_entry *entry)
{
    char name[128];

    for (size_t i = 0; i < entry->n_steps; i++) {
        if (entry->reused && entry->reused[i])
            continue;
        snprintf(name, sizeof(name), "%.64s.%.32s", entry->steps[i].job, entry->steps[i].step);
        if (unlinkat(worker->queue->spool, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            complain(worker, LOG_WARNING, entry->name, "its spool is not empty");
    }
}

/* One line for what is not finished: why, and what becomes of it.  1: it is given up. */
static int leave_or_give_up(const struct argus_worker *worker,
                            const struct argus_queue_entry *entry, int attempts,
                            const struct ending *end)
{
    int old = argus_queue_age(entry->name) > AGE_MAX_S;
    int over = old || (attempts >= ATTEMPTS_MAX && !end->excused);
    char text[ARGUS_MESSAGE_MAX + 64], which[32] = "";

    if (!end->excused)
        snprintf(which, sizeof(which), "%s attempt %d of %d", over ? " at" : ",",
                 attempts < ATTEMPTS_MAX ? attempts : ATTEMPTS_MAX, ATTEMPTS_MAX);
    snprintf(text, sizeof(text), "%s%s%s%s", end->why, end->why[0] ? "; " : "",
             over ? "given up" : "left for argus sweep", which);
    complain(worker, LOG_WARNING, entry->name, text);
    if (end->excused)
        argus_queue_excuse(worker->queue, entry);
    return over;
}

int argus_worker_run(const struct argus_worker *worker, const char *name)
{
    struct ending end = {.why = ""};
    struct argus_queue_entry entry;
    argus_error_t err = {""};
    int finished = 0, one_user = 1, attempts;
    int rc = argus_queue_lock(worker->queue, name, &entry, &err);

    if (rc < 0) {
        /* Nothing in it can be read: nothing can be done for it. */
        complain(worker, LOG_WARNING, name, err.text);
        argus_queue_remove(worker->queue, &entry, NULL);
    }
    if (rc <= 0)
        return rc < 0;
    for (size_t i = 1; i < entry.n_steps; i++)
        one_user &= entry.steps[i].uid == entry.steps[0].uid;
    /* It counts from now on: this process may not see the end of it. */
    attempts = argus_queue_attempt(worker->queue, &entry);
    if (!one_user)
        snprintf(end.why, sizeof(end.why), "its markers name two users");
    else if (attempts > ATTEMPTS_MAX)
        snprintf(end.why, sizeof(end.why), "the last attempt came to no end");
    else
        finished = work_on(worker, &entry, 0, &end);
    if (!finished)
        finished = leave_or_give_up(worker, &entry, attempts, &end);
    if (finished) {
        remove_spools(worker, &entry);
        if (argus_queue_remove(worker->queue, &entry, &err) < 0)
            complain(worker, LOG_WARNING, name, err.text);
    }
    argus_queue_unlock(&entry);
    return finished;
}

int argus_worker_conclude(const struct argus_worker *worker, const struct argus_queue_entry *entry)
{
    struct ending end = {.why = ""};
    int finished = work_on(worker, entry, 1, &end);

    tell(worker, entry, &end);
    return finished;
}
