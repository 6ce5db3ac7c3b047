/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argus-epilog(8): slurm.conf's Epilog= on every node.
 *
 * It looks for markers of the job that is over, moves them into the queue and
 * leaves the work to a process of its own, so that the node is free at once.
 * Whatever happens the exit status is 0: anything else would drain the node.
 */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/epilog/spawn.h"
#include "analyzer/epilog/worker.h"
#include "analyzer/util/hostlist.h"
#include "spank/drop.h"

/* A dead file system below the spool must not hold the node. */
#define ALARM_S 20

struct options {
    const char *spool, *node, *log, *policy;
    struct argus_worker worker;
    int foreground;
};

/* `arg`: a file, or NULL for syslog. */
static void log_text(void *arg, int priority, const char *text)
{
    const char *log_file = arg;
    char stamp[32];
    struct tm tm;
    time_t now;
    int fd;

    if (!log_file) {
        syslog(priority, "%s", text);
        return;
    }
    fd = open(log_file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    now = time(NULL);
    gmtime_r(&now, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &tm);
    dprintf(fd, "%s argus-epilog[%ld]: %s\n", stamp, (long)getpid(), text);
    close(fd);
}

static void usage(void)
{
    fputs("Usage: argus-epilog [OPTION...]\n"
          "Slurm's epilog of argus: Epilog=" ARGUS_SBINDIR "/argus-epilog in slurm.conf.\n\n"
          "  --spool DIR       the plugin's spool, %n is the node (default " ARGUS_SPOOL_DEFAULT
          ")\n"
          "  --slurm-path LIST directories of sacct and sacctmgr, parted by ':'\n"
          "  --memory MB       address space of an analysis, 0: no limit (default 8192)\n"
          "  --analysis-s N    longest time of an analysis (default 1800)\n"
          "  --post-s N        how long posting is tried before it is left to\n"
          "                    `argus sweep` (default 300)\n"
          "  --policy FILE     drain nodes that verdicts keep blaming, as FILE says\n"
          "  --log FILE        log there instead of to syslog\n"
          "  --foreground      do not detach; for tests\n"
          "  --analyze FILE, --record FILE   other programs than those installed; for tests\n"
          "  --help, --version\n\n"
          "The job and the node are taken from SLURM_JOB_ID and SLURMD_NODENAME.\n"
          "The exit status is always 0.\n",
          stdout);
}

static int number(const char *text, int *value)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 0 || n > 10000000)
        return -1;
    *value = (int)n;
    return 0;
}

enum {
    OPT_SPOOL = 256,
    OPT_PATH,
    OPT_MEMORY,
    OPT_ANALYSIS,
    OPT_POST,
    OPT_LOG,
    OPT_POLICY,
    OPT_FOREGROUND,
    OPT_ANALYZE,
    OPT_RECORD,
    OPT_HELP,
    OPT_VERSION
};

/* 1 go on, 0 nothing more to do. */
static int parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"spool", required_argument, NULL, OPT_SPOOL},
        {"slurm-path", required_argument, NULL, OPT_PATH},
        {"memory", required_argument, NULL, OPT_MEMORY},
        {"analysis-s", required_argument, NULL, OPT_ANALYSIS},
        {"post-s", required_argument, NULL, OPT_POST},
        {"log", required_argument, NULL, OPT_LOG},
        {"policy", required_argument, NULL, OPT_POLICY},
        {"foreground", no_argument, NULL, OPT_FOREGROUND},
        {"analyze", required_argument, NULL, OPT_ANALYZE},
        {"record", required_argument, NULL, OPT_RECORD},
        {"help", no_argument, NULL, OPT_HELP},
        {"version", no_argument, NULL, OPT_VERSION},
        {NULL, 0, NULL, 0},
    };
    int c, bad = 0;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case OPT_SPOOL:
            o->spool = optarg;
            break;
        case OPT_PATH:
            o->worker.slurm.path = optarg;
            break;
        case OPT_MEMORY:
            bad |= number(optarg, &o->worker.memory_mb) < 0;
            break;
        case OPT_ANALYSIS:
            bad |= number(optarg, &o->worker.analyze_s) < 0;
            break;
        case OPT_POST:
            bad |= number(optarg, &o->worker.post_s) < 0;
            break;
        case OPT_POLICY:
            o->policy = optarg;
            break;
        case OPT_LOG:
            o->log = optarg;
            break;
        case OPT_FOREGROUND:
            o->foreground = 1;
            break;
        case OPT_ANALYZE:
            o->worker.analyze = optarg;
            break;
        case OPT_RECORD:
            o->worker.record = optarg;
            break;
        case OPT_HELP:
            usage();
            return 0;
        case OPT_VERSION:
            printf("argus-epilog %s\n", PACKAGE_VERSION);
            return 0;
        default:
            bad = 1;
        }
    }
    o->worker.log_arg = (void *)o->log;
    if (bad || optind < argc) {
        log_text((void *)o->log, LOG_ERR,
                 "bad option or value in slurm.conf's Epilog; defaults are used for it");
        fputs("argus-epilog: bad option or value; --help lists them\n", stderr);
    }
    return 1;
}

static int job_id(const char *text, uint64_t *id)
{
    if (!text || !isdigit((unsigned char)text[0]) || strlen(text) > 18 ||
        text[strspn(text, "0123456789")])
        return -1;
    *id = strtoull(text, NULL, 10);
    return 0;
}

/* Time is over: the node must not be drained for it. */
static void give_up(int sig)
{
    (void)sig;
    _exit(0);
}

/* The caller goes on in the detached process; the first one ends here. */
static void detach(void)
{
    pid_t pid = fork();

    if (pid > 0) {
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    if (pid < 0)
        _exit(0);
    /* slurmd waits for the end of our output and kills our process group. */
    setsid();
    if (fork() != 0)
        _exit(0);
    argus_drop_signals();
}

int main(int argc, char **argv)
{
    struct options o = {
        .spool = ARGUS_SPOOL_DEFAULT,
        .worker = ARGUS_WORKER_DEFAULTS,
    };
    struct sigaction wake = {.sa_handler = give_up};
    const char *slurm_conf = getenv("SLURM_CONF");
    char name[ARGUS_QUEUE_NAME_MAX];
    struct argus_queue queue;
    argus_error_t err = {""};
    uint64_t id;
    int rc;

    sigemptyset(&wake.sa_mask);
    sigaction(SIGALRM, &wake, NULL);
    alarm(ALARM_S);
    umask(077);
    o.worker.analyze = ARGUS_BINDIR "/argus";
    o.worker.record = ARGUS_PKGLIBEXECDIR "/argus-record";
    o.worker.log = log_text;
    openlog("argus-epilog", LOG_PID, LOG_DAEMON);
    if (!parse(argc, argv, &o))
        return 0;
    o.node = getenv("SLURMD_NODENAME");
    if (job_id(getenv("SLURM_JOB_ID"), &id) < 0 || !argus_host_name_valid(o.node)) {
        fputs("argus-epilog: SLURM_JOB_ID and SLURMD_NODENAME must be set; slurmd does it\n",
              stderr);
        return 0;
    }
    rc = argus_queue_open(&queue, o.spool, o.node, &err);
    if (rc > 0)
        rc = argus_queue_take(&queue, id, name, &err);
    if (rc < 0)
        log_text((void *)o.log, LOG_WARNING, err.text);
    if (rc <= 0)
        return 0;

    o.worker.queue = &queue;
    o.worker.slurm.slurm_conf = slurm_conf;
    if (!o.foreground) {
        detach();
        /* The queue's descriptors must stay; 0, 1 and 2 are slurmd's. */
        for (int fd = 0; fd < 3; fd++) {
            int null = open("/dev/null", O_RDWR);

            if (null >= 0 && null != fd) {
                dup2(null, fd);
                close(null);
            }
        }
        argus_worker_be_modest();
    }
    alarm(0);
    if (o.policy && argus_policy_read(o.policy, geteuid(), &o.worker.policy, &err) < 0)
        log_text((void *)o.log, LOG_WARNING, err.text);
    argus_worker_run(&o.worker, name);
    argus_queue_close(&queue);
    return 0;
}
