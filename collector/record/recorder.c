/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "collector/record/recorder.h"

#include <argus/step.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/util/stepconf.h"
#include "collector/record/files.h"
#include "collector/record/health.h"
#include "collector/record/poster.h"
#include "collector/record/settle.h"
#include "collector/record/source.h"

#define POLL_NS 50000000LL
#define SCAN_NS 200000000LL
#define FLUSH_NS 1000000000LL
#define HEALTH_NS 10000000000LL
#define LAST_SAMPLE_NS 1000000000LL
#define LAST_DRAIN_NS 2000000000LL
#define SOURCES_MAX 1024u
#define RING_NAME_MAX 200u
#define LOG_LINES_MAX 1000
#define PATH_BYTES 4096

struct recorder {
    const struct argus_recorder_options *opt;
    struct argus_stepconf conf;
    char dir[PATH_BYTES / 2];
    char step_dir[PATH_BYTES / 2 + 64];
    int writable;
    int asleep; /* a lazy step without a ring so far */
    int lock_fd;
    struct argus_stream_options stream;
    argus_source_t **sources; /* open ones */
    size_t n_sources;
    char **refused; /* names in the spool that are no rings */
    size_t n_refused;
    argus_health_t *health;
    int64_t asked_at; /* for a sample before a seal; 0: no such question is open */
    json_t *rings;    /* of the closed ones */
    json_t *errors;
    int log_lines;
    pid_t poster; /* 0: none */
};

static int64_t monotonic(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* A line in record-<node>.log, which is made for the first. */
static void say(struct recorder *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct recorder *r, const char *format, ...)
{
    char path[PATH_BYTES], text[1024], when[32];
    time_t now = time(NULL);
    struct tm tm;
    va_list ap;
    FILE *f = NULL;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (r->log_lines++ >= LOG_LINES_MAX)
        return;
    json_array_append_new(r->errors, json_string(text));
    if (r->writable) {
        snprintf(path, sizeof(path), "%s/record-%s.log", r->step_dir, r->conf.node);
        f = fopen(path, "ae");
    }
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now, &tm));
    if (f) {
        int bad = fprintf(f, "%s %s\n", when, text) < 0;
        struct stat st;

        if (fclose(f) != 0 || bad) {
            f = NULL; /* its disk is full, too */
            if (stat(path, &st) == 0 && st.st_size == 0)
                unlink(path);
        }
    }
    if (!f)
        fprintf(stderr, "%s %s\n", when, text);
}

/* ---- start -------------------------------------------------------------- */

static int read_conf(struct recorder *r, argus_error_t *err)
{
    char path[PATH_BYTES];
    struct argus_summary_options *s = &r->stream.summary;

    snprintf(path, sizeof(path), "%s/%s", r->opt->spool, ARGUS_STEP_CONF_NAME);
    if (argus_stepconf_read(AT_FDCWD, path, (uid_t)-1, &r->conf, err) < 0)
        return -1;
    if (!r->opt->dir && !r->conf.dir[0])
        return argus_error(err, "%s: no dir=", path);
    if ((size_t)snprintf(r->dir, sizeof(r->dir), "%s", r->opt->dir ? r->opt->dir : r->conf.dir) >=
        sizeof(r->dir))
        return argus_error(err, "%s: dir= is too long", path);
    snprintf(r->step_dir, sizeof(r->step_dir), "%s/step-%s", r->dir, r->conf.step);
    argus_summary_defaults(s);
    s->window = strcmp(r->conf.mode, "full") ? r->conf.window : 0;
    s->keep_bytes = (uint64_t)r->conf.keep_mb << 20;
    snprintf(r->stream.mode, sizeof(r->stream.mode), "%s", s->window ? "summary" : "full");
    r->stream.restart = r->conf.restart;
    snprintf(r->stream.job, sizeof(r->stream.job), "%s", r->conf.job);
    snprintf(r->stream.step, sizeof(r->stream.step), "%s", r->conf.step);
    snprintf(r->stream.node, sizeof(r->stream.node), "%s", r->conf.node);
    return 0;
}

/* One recorder a spool; the lock goes with the process. */
static int take_lock(struct recorder *r, argus_error_t *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_BYTES], text[32];
    int n;

    snprintf(path, sizeof(path), "%s/%s", r->opt->spool, ARGUS_RECORD_PID_NAME);
    r->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r->lock_fd < 0)
        return argus_error(err, "%s: cannot open: %s", path, strerror(errno));
    if (fcntl(r->lock_fd, F_SETLK, &lock) < 0)
        return argus_error(err, "%s: another recorder is at work here", path);
    n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(r->lock_fd, 0) < 0 || pwrite(r->lock_fd, text, (size_t)n, 0) != n)
        return argus_error(err, "%s: cannot write: %s", path, strerror(errno));
    return 0;
}

static int write_object(struct recorder *r, const char *path, json_t *object, int once)
{
    argus_error_t err = {""};
    int rc = argus_files_write(path, object, once, &err);

    json_decref(object);
    if (rc < 0)
        say(r, "%s", err.text);
    return rc;
}

/* No directory: the rings are emptied all the same, and what is lost is counted by the ranks'
 * recorder, not by the ranks. */
static void prepare_directory(struct recorder *r)
{
    char path[PATH_BYTES];
    argus_error_t err = {""};

    if (argus_files_mkdir(r->step_dir, &err) < 0) {
        say(r, "%s", err.text);
        return;
    }
    r->writable = 1;
    snprintf(path, sizeof(path), "%s/job.json", r->dir);
    write_object(r, path, argus_files_job(&r->conf), 1);
    if (r->conf.nodeid == 0) {
        snprintf(path, sizeof(path), "%s/step.json", r->step_dir);
        write_object(r, path, argus_files_step(&r->conf), 1);
        /* Before the first timeline is opened: it inherits none. */
        if (!strcmp(r->conf.live, "on") && !r->opt->drain && !r->poster)
            r->poster = argus_poster_start(r->step_dir);
    }
}

/* ---- sources ------------------------------------------------------------ */

static int is_known(const struct recorder *r, const char *name)
{
    for (size_t i = 0; i < r->n_sources; i++) {
        if (!strcmp(argus_source_name(r->sources[i]), name))
            return 1;
    }
    for (size_t i = 0; i < r->n_refused; i++) {
        if (!strcmp(r->refused[i], name))
            return 1;
    }
    return 0;
}

static void refuse(struct recorder *r, const char *name, const char *why)
{
    char **p = realloc(r->refused, (r->n_refused + 1) * sizeof(*p));

    say(r, "%s", why);
    if (!p)
        return;
    r->refused = p;
    r->refused[r->n_refused] = strdup(name);
    r->n_refused += r->refused[r->n_refused] != NULL;
}

/* The first ring of a batch script or a shell: only now is there anything to write.  Its restart
 * count came into step.conf with the task. */
static void wake(struct recorder *r)
{
    struct argus_stepconf old = r->conf;
    argus_error_t err = {""};

    if (!r->asleep)
        return;
    r->asleep = 0;
    if (read_conf(r, &err) < 0) {
        argus_stepconf_clear(&r->conf);
        r->conf = old;
        say(r, "%s", err.text);
    } else {
        argus_stepconf_clear(&old);
    }
    prepare_directory(r);
}

static void scan(struct recorder *r)
{
    const size_t suffix = strlen(ARGUS_RING_SUFFIX);
    argus_error_t err = {""};
    struct dirent *e;
    DIR *d = opendir(r->opt->spool);

    if (!d)
        return;
    while ((e = readdir(d)) && r->n_sources + r->n_refused < SOURCES_MAX) {
        size_t n = strlen(e->d_name);
        argus_source_t *s, **p;

        if (n <= suffix || n > RING_NAME_MAX || strcmp(e->d_name + n - suffix, ARGUS_RING_SUFFIX) ||
            e->d_name[0] == '.' || is_known(r, e->d_name))
            continue;
        wake(r);
        err.text[0] = '\0';
        s = argus_source_open(r->opt->spool, e->d_name, &r->stream, &err);
        if (!s) {
            refuse(r, e->d_name, err.text);
            continue;
        }
        if (err.text[0])
            say(r, "%s", err.text);
        p = realloc(r->sources, (r->n_sources + 1) * sizeof(*p));
        if (!p) {
            argus_source_destroy(s);
            break;
        }
        r->sources = p;
        r->sources[r->n_sources++] = s;
    }
    closedir(d);
}

static void name_timeline(void *arg, const struct argus_ring_header *h, char *path, size_t size)
{
    const struct recorder *r = arg;

    argus_settle_first(r->step_dir, h, path, size);
}

/* A source's first failure, once. */
static void complain(struct recorder *r, argus_source_t *s)
{
    const char *text = argus_source_failure(s);

    if (text)
        say(r, "%s", text);
}

static void close_source(struct recorder *r, size_t i)
{
    argus_error_t err = {""};
    argus_source_t *s = r->sources[i];

    argus_source_seal(s, r->opt->drain, &err);
    complain(r, s);
    json_array_append_new(r->rings, argus_source_json(s));
    argus_source_destroy(s);
    r->sources[i] = r->sources[--r->n_sources];
}

static size_t poll_all(struct recorder *r, int64_t now)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_sources; i++)
        n += argus_source_poll(r->sources[i], &r->stream, name_timeline, r, now);
    return n;
}

static void flush_all(struct recorder *r, int64_t now)
{
    for (size_t i = 0; i < r->n_sources; i++) {
        argus_error_t err = {""};

        if (argus_source_flush(r->sources[i], &err) == 0)
            argus_source_checkpoint(r->sources[i], now, 0, &err);
        complain(r, r->sources[i]);
    }
}

/* ---- end ---------------------------------------------------------------- */

static void write_node(struct recorder *r)
{
    char path[PATH_BYTES];
    json_t *o;

    if (!r->writable)
        return;
    o = json_pack("{s:s s:s s:s s:i s:i s:b s:o s:O s:O}", "schema", "argus-node/1", "node",
                  r->conf.node, "step", r->conf.step, "nodeid", r->conf.nodeid, "local_tasks",
                  r->conf.local_tasks, "drained", r->opt->drain, "standdown",
                  argus_files_standdown(r->opt->spool), "rings", r->rings, "errors", r->errors);
    snprintf(path, sizeof(path), "%s/node-%s.json", r->step_dir, r->conf.node);
    write_object(r, path, o, 0);
}

/* A GPU's values go to every rank on it, a port's to the node's first rank. */
static void write_health(void *arg, const struct argus_health_value *v)
{
    struct recorder *r = arg;
    argus_source_t *first = NULL;
    int gpu = !strncmp(v->metric, "gpu_", 4);

    for (size_t i = 0; i < r->n_sources; i++) {
        argus_source_t *s = r->sources[i];

        if (!argus_source_stream(s))
            continue;
        if (gpu && !strcmp(argus_source_uuid(s), v->device))
            argus_stream_health(argus_source_stream(s), v->metric, v->device, v->time, v->value);
        if (!first || argus_source_local_rank(s) < argus_source_local_rank(first))
            first = s;
    }
    if (!gpu && first)
        argus_stream_health(argus_source_stream(first), v->metric, v->device, v->time, v->value);
}

/* Nothing is asked before there is a timeline to write the answer to. */
static void look_after(struct recorder *r)
{
    int any = 0;

    for (size_t i = 0; i < r->n_sources; i++)
        any |= argus_source_stream(r->sources[i]) != NULL;
    if (any && !r->health && !r->opt->drain)
        r->health = argus_health_start(r->opt->sysfs, r->opt->nvml, HEALTH_NS);
    if (!any || !r->health)
        return;
    for (size_t i = 0; i < r->n_sources; i++) {
        if (!argus_source_stream(r->sources[i]))
            continue;
        argus_source_refresh(r->sources[i]);
        argus_health_watch(r->health, argus_source_uuid(r->sources[i]));
    }
    argus_health_take(r->health, write_health, r);
}

static void ask_health(struct recorder *r, int64_t now)
{
    if (!r->health)
        return;
    argus_health_ask(r->health);
    r->asked_at = now;
}

/* Has every open timeline the health of its end?  What does not come soon is not waited for; while
 * a question is open no other is asked, so that a driver that hangs delays one seal, not each. */
static int sampled(struct recorder *r, int64_t now)
{
    int answered;

    if (!r->health)
        return 1;
    if (!r->asked_at)
        ask_health(r, now);
    answered = argus_health_answered(r->health);
    if (!answered && now - r->asked_at < LAST_SAMPLE_NS)
        return 0;
    argus_health_take(r->health, write_health, r);
    if (answered)
        r->asked_at = 0;
    return 1;
}

static void close_finished(struct recorder *r, int64_t now)
{
    int any = 0;

    for (size_t i = 0; i < r->n_sources && !any; i++)
        any = argus_source_finished(r->sources[i], now);
    if (!any || !sampled(r, now))
        return;
    for (size_t i = r->n_sources; i > 0; i--) {
        if (argus_source_finished(r->sources[i - 1], now))
            close_source(r, i - 1);
    }
}

static uint64_t behind(const struct recorder *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->n_sources; i++)
        n += argus_source_behind(r->sources[i]);
    return n;
}

/* Until nothing comes any more; of a process that goes on, for a moment.  What was in the rings at
 * the beginning is read for as long as it gets less, be the storage as slow as it may. */
static void last_drain(struct recorder *r)
{
    int64_t until, now;
    uint64_t left;
    int idle = 0;
    struct timespec nap = {.tv_nsec = 20000000};

    scan(r);
    /* The tasks are dead: what has no ring by now gets none. */
    if (!r->n_sources)
        return;
    for (size_t i = 0; i < r->n_sources; i++)
        argus_source_mark(r->sources[i]);
    /* The devices answer while the rings are emptied; of a step that was over before the first look
     * they are known only now. */
    poll_all(r, monotonic());
    look_after(r);
    ask_health(r, monotonic());
    left = behind(r);
    until = monotonic() + LAST_DRAIN_NS;
    for (now = monotonic(); now < until && idle < 3; now = monotonic()) {
        int all = 1;

        if (poll_all(r, now)) {
            idle = 0;
            if (behind(r) < left)
                until = monotonic() + LAST_DRAIN_NS;
            left = behind(r);
            continue;
        }
        for (size_t i = 0; i < r->n_sources; i++)
            all &= argus_source_finished(r->sources[i], now);
        idle += all;
        if (idle < 3)
            nanosleep(&nap, NULL);
    }
    nap.tv_nsec = 5000000;
    while (!sampled(r, monotonic()))
        nanosleep(&nap, NULL);
}

/* Does a process live that has a ring? */
static int anybody(struct recorder *r, int64_t now)
{
    scan(r); /* it may be a moment old */
    for (size_t i = 0; i < r->n_sources; i++) {
        if (argus_source_alive(r->sources[i], now))
            return 1;
    }
    return 0;
}

static void run(struct recorder *r, const volatile sig_atomic_t *stop)
{
    struct timespec nap = {.tv_nsec = POLL_NS};
    int64_t scanned = 0, flushed = 0;

    while (*stop != ARGUS_STOP_NOW) {
        int64_t now = monotonic();

        if (*stop == ARGUS_STOP_AFTER_RANKS && !anybody(r, now))
            break;

        if (now - scanned >= SCAN_NS) {
            scan(r);
            scanned = now;
        }
        poll_all(r, now);
        if (now - flushed >= FLUSH_NS) {
            look_after(r);
            flush_all(r, now);
            close_finished(r, now);
            flushed = now;
        }
        nanosleep(&nap, NULL);
    }
}

int argus_recorder_run(const struct argus_recorder_options *options,
                       const volatile sig_atomic_t *stop, argus_error_t *err)
{
    struct recorder r = {.opt = options, .lock_fd = -1};
    int rc = -1;

    r.rings = json_array();
    r.errors = json_array();
    argus_ring_catch_sigbus();
    if (read_conf(&r, err) < 0 || take_lock(&r, err) < 0)
        goto out;
    r.asleep = !strcmp(r.conf.lazy, "on");
    if (!r.asleep)
        prepare_directory(&r);
    if (!options->drain)
        run(&r, stop);
    argus_poster_tell(r.poster);
    last_drain(&r);
    while (r.n_sources)
        close_source(&r, r.n_sources - 1);
    if (r.writable) {
        argus_error_t e = {""};

        if (argus_settle_names(r.step_dir, r.rings, &e) < 0)
            say(&r, "%s", e.text);
        write_node(&r);
    }
    argus_health_stop(r.health);
    argus_poster_wait(r.poster);
    rc = 0;
out:
    while (r.n_sources)
        argus_source_destroy(r.sources[--r.n_sources]);
    for (size_t i = 0; i < r.n_refused; i++)
        free(r.refused[i]);
    free(r.refused);
    free(r.sources);
    json_decref(r.rings);
    json_decref(r.errors);
    argus_stepconf_clear(&r.conf);
    if (r.lock_fd >= 0)
        close(r.lock_fd);
    return rc;
}
