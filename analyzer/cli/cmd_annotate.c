/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argus annotate: put a verdict that is on disk into accounting.  Root reads
 * it as the directory's owner, and believes it only for jobs of that owner.
 */
#include <config.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/epilog/jobs.h"
#include "analyzer/model/jobdir.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/comment.h"
#include "analyzer/verdict/json.h"
#include "spank/drop.h"

#define NAME "annotate"
#define LINE_MAX_BYTES (ARGUS_COMMENT_MAX + 64)

static void usage(FILE *out)
{
    fputs("Usage: argus annotate [--job ID] [--comment FIELD] DIR|JOBID\n"
          "Puts the verdict of a job directory into the job's accounting comment, where\n"
          "other text is kept and an older verdict replaced.\n\n"
          "  --job ID          the job (default: the one that the verdict names)\n"
          "  --comment FIELD   admin, system or comment (default admin)\n"
          "  --wait S          try for S seconds while accounting lags (default 30)\n"
          "  --slurm-path LIST directories of sacct and sacctmgr, parted by ':'\n"
          "  -n, --dry-run     print the line and post nothing\n",
          out);
}

/* "JOB LINE" of the verdict in `dir`, into `text`. */
static int read_verdict(const char *dir, char *text, size_t size, argus_error_t *err)
{
    struct argus_verdict *v;
    char *path, *line;
    int rc = -1;

    if (asprintf(&path, "%s/verdict.json", dir) < 0)
        return argus_error(err, "out of memory");
    v = argus_verdict_read(path, err);
    free(path);
    if (!v)
        return -1;
    free(v->job.dir);
    v->job.dir = realpath(dir, NULL);
    line = argus_comment_format(v);
    if (!line)
        argus_error(err, "out of memory");
    else if (snprintf(text, size, "%s %s", v->job.id ? v->job.id : "-", line) >= (int)size)
        argus_error(err, "%s/verdict.json: an endless job id", dir);
    else
        rc = 0;
    free(line);
    argus_verdict_destroy(v);
    return rc;
}

/* Become the owner for good; the process does nothing else afterwards. */
static int become(const struct stat *owner)
{
    struct passwd *pw = getpwuid(owner->st_uid);
    struct argus_identity id = {.uid = owner->st_uid, .gid = pw ? pw->pw_gid : owner->st_gid};
    gid_t groups[1024];
    int n = 1024;

    id.groups = groups;
    if (pw && getgrouplist(pw->pw_name, pw->pw_gid, groups, &n) >= 0)
        id.ngroups = (size_t)n;
    return argus_drop_become(&id);
}

/* read_verdict() in a process of the directory's owner, when we are root. */
static int read_as_owner(const char *dir, uid_t *owner, char *text, size_t size, argus_error_t *err)
{
    struct stat st;
    ssize_t n = 0;
    int fd[2], status;
    pid_t pid;

    if (stat(dir, &st) < 0)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    *owner = st.st_uid;
    if (geteuid() != 0)
        return read_verdict(dir, text, size, err);
    if (pipe(fd) < 0)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    pid = fork();
    if (pid == 0) {
        int rc = become(&st) ? argus_error(err, "%s: cannot become its owner", dir)
                             : read_verdict(dir, text, size, err);

        if (rc < 0)
            argus_cli_error(NAME, "%s", err->text);
        else if (write(fd[1], text, strlen(text)) < 0)
            rc = -1;
        _exit(rc < 0);
    }
    close(fd[1]);
    /* One write of less than PIPE_BUF bytes: one read. */
    if (pid > 0)
        n = read(fd[0], text, size - 1);
    close(fd[0]);
    text[n > 0 ? n : 0] = '\0';
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status || n <= 0)
        return argus_error(err, "%s: no verdict", dir);
    return 0;
}

struct found {
    const char *id;
    uid_t uid;
    struct argus_target target;
    int n;
};

static int find(const struct argus_job *job, void *arg)
{
    struct found *f = arg;

    if (strcmp(job->raw, f->id) && strcmp(job->id, f->id))
        return 0;
    f->uid = job->uid;
    argus_job_target(job, &f->target);
    f->n++;
    return 0;
}

static int is_job_id(const char *text)
{
    return text[0] && strlen(text) < 48 && !text[strspn(text, "0123456789_+")];
}

static int is_seconds(const char *text)
{
    return text[0] && strlen(text) < 9 && !text[strspn(text, "0123456789")];
}

static int annotate(const struct argus_slurm *slurm, const char *dir, const char *job, int field,
                    int wait_s, int dry, argus_error_t *err)
{
    char text[LINE_MAX_BYTES], *line;
    struct found f = {0};
    uid_t owner = (uid_t)-1;

    if (read_as_owner(dir, &owner, text, sizeof(text), err) < 0)
        return -1;
    line = strchr(text, ' ');
    if (!line)
        return argus_error(err, "%s: no verdict", dir);
    *line++ = '\0';
    if (argus_comment_validate(line, err) < 0)
        return argus_error_prefix(err, "%s", dir);
    f.id = job ? job : text;
    if (!is_job_id(f.id))
        return argus_error(err, "%s: \"%.40s\" is no job id; use --job", dir, f.id);
    if (dry) {
        printf("%s %s\n", f.id, line);
        return 0;
    }
    if (argus_jobs_each(slurm, NULL, f.id, find, &f, err) < 0)
        return -1;
    if (!f.n)
        return argus_error(err, "job %s: accounting does not know it", f.id);
    if (f.uid != owner)
        return argus_error(err, "job %s is not of the user that %s belongs to", f.id, dir);
    if (argus_accounting_post_retry(slurm, &f.target, (enum argus_field)field, line, wait_s, err) !=
        ARGUS_POST_DONE)
        return -1;
    printf("%s %s\n", f.target.id, line);
    return 0;
}

enum { OPT_JOB = 256, OPT_COMMENT, OPT_WAIT, OPT_PATH };

int argus_cmd_annotate(int argc, char **argv)
{
    static const struct option longs[] = {
        {"job", required_argument, NULL, OPT_JOB},
        {"comment", required_argument, NULL, OPT_COMMENT},
        {"wait", required_argument, NULL, OPT_WAIT},
        {"slurm-path", required_argument, NULL, OPT_PATH},
        {"dry-run", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct argus_slurm slurm = {.slurm_conf = getenv("SLURM_CONF")};
    int c, field = ARGUS_FIELD_ADMIN, wait_s = 30, dry = 0, rc;
    const char *job = NULL;
    argus_error_t err = {""};
    char *dir = NULL;

    while ((c = getopt_long(argc, argv, "nh", longs, NULL)) != -1) {
        switch (c) {
        case OPT_JOB:
            job = optarg;
            break;
        case OPT_COMMENT:
            field = argus_field_from_name(optarg);
            if (field < 0 || field == ARGUS_FIELD_NONE) {
                argus_cli_error(NAME, "--comment %s: admin, system or comment expected", optarg);
                return ARGUS_EXIT_USAGE;
            }
            break;
        case OPT_WAIT:
            if (!is_seconds(optarg)) {
                argus_cli_error(NAME, "--wait %s: a number of seconds expected", optarg);
                return ARGUS_EXIT_USAGE;
            }
            wait_s = atoi(optarg);
            break;
        case OPT_PATH:
            slurm.path = optarg;
            break;
        case 'n':
            dry = 1;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (argus_cli_one_job(NAME, argc - optind))
        return ARGUS_EXIT_USAGE;
    rc = argus_jobdir_resolve(argv[optind], &dir, &err);
    if (rc == 0)
        rc = annotate(&slurm, dir, job, field, wait_s, dry, &err);
    free(dir);
    if (rc < 0)
        argus_cli_error(NAME, "%s", err.text);
    return rc < 0 ? ARGUS_EXIT_ERROR : ARGUS_EXIT_OK;
}
