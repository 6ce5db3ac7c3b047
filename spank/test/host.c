/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/test/host.h"

struct host host;

static void *plugin, *copy;
static int handle; /* its address is the spank_t */

/* --- What Slurm exports ---------------------------------------------------- */

spank_context_t spank_context(void)
{
    return host.context;
}

int spank_remote(spank_t sp)
{
    (void)sp;
    return host.context == S_CTX_REMOTE;
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
    (void)sp;
    host.option = opt;
    host.options++;
    return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
    spank_err_t rc = ESPANK_SUCCESS;
    va_list ap;

    (void)sp;
    va_start(ap, item);
    switch (item) {
    case S_JOB_ID:
        *va_arg(ap, uint32_t *) = host.job;
        break;
    case S_JOB_STEPID:
        *va_arg(ap, uint32_t *) = host.step;
        break;
    case S_JOB_NODEID:
        *va_arg(ap, uint32_t *) = host.nodeid;
        break;
    case S_JOB_NNODES:
        *va_arg(ap, uint32_t *) = host.nnodes;
        break;
    case S_JOB_TOTAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = host.ntasks;
        break;
    case S_JOB_LOCAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = host.local_tasks;
        break;
    case S_JOB_ARRAY_ID:
        *va_arg(ap, uint32_t *) = host.array_id;
        break;
    case S_JOB_ARRAY_TASK_ID:
        *va_arg(ap, uint32_t *) = host.array_task;
        break;
    case S_JOB_UID:
        *va_arg(ap, uid_t *) = host.uid;
        break;
    case S_JOB_GID:
        *va_arg(ap, gid_t *) = host.gid;
        break;
    case S_JOB_SUPPLEMENTARY_GIDS:
        *va_arg(ap, gid_t **) = host.groups;
        *va_arg(ap, int *) = host.ngroups;
        break;
    case S_JOB_ENV:
        *va_arg(ap, char ***) = host.env;
        break;
    case S_TASK_ID:
        *va_arg(ap, int *) = host.task;
        break;
    case S_SLURM_VERSION:
        *va_arg(ap, const char **) = "0.0.0-host";
        break;
    default:
        rc = ESPANK_BAD_ARG;
    }
    va_end(ap);
    return rc;
}

static int env_find(const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; host.env[i]; i++) {
        if (!strncmp(host.env[i], name, n) && host.env[i][n] == '=')
            return i;
    }
    return -1;
}

spank_err_t spank_getenv(spank_t sp, const char *name, char *buf, int len)
{
    int i = env_find(name);

    (void)sp;
    if (i < 0)
        return ESPANK_ENV_NOEXIST;
    if (snprintf(buf, (size_t)len, "%s", host.env[i] + strlen(name) + 1) >= len)
        return ESPANK_NOSPACE;
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *name)
{
    int i = env_find(name);

    (void)sp;
    if (i >= 0) {
        free(host.env[i]);
        for (; host.env[i]; i++)
            host.env[i] = host.env[i + 1];
    }
    return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
    if (env_find(name) >= 0 && !overwrite)
        return ESPANK_ENV_EXISTS;
    spank_unsetenv(sp, name);
    for (int i = 0; i + 1 < HOST_ENV_MAX; i++) {
        if (!host.env[i])
            return asprintf(&host.env[i], "%s=%s", name, value) < 0 ? ESPANK_ERROR : ESPANK_SUCCESS;
    }
    return ESPANK_ERROR;
}

static void put(char *text, const char *format, va_list ap)
{
    size_t n = strlen(text);

    vsnprintf(text + n, HOST_LOG_MAX - n, format, ap);
    n = strlen(text);
    snprintf(text + n, HOST_LOG_MAX - n, "\n");
}

#define LOGGER(name, text)                                                                         \
    void name(const char *format, ...)                                                             \
    {                                                                                              \
        va_list ap;                                                                                \
                                                                                                   \
        va_start(ap, format);                                                                      \
        put(text, format, ap);                                                                     \
        va_end(ap);                                                                                \
    }

LOGGER(slurm_spank_log, host.said)
LOGGER(slurm_error, host.said)
LOGGER(slurm_info, host.log)
LOGGER(slurm_verbose, host.log)
LOGGER(slurm_debug, host.log)

/* --- The step --------------------------------------------------------------- */

void host_setenv(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

void host_arg(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    if (host.argc < 16 && vasprintf(&host.argv[host.argc], format, ap) >= 0)
        host.argc++;
    va_end(ap);
}

static const char *builddir(void)
{
    const char *dir = getenv("ARGUS_BUILDDIR");

    return dir ? dir : ".";
}

void host_copy(const char *name, char *to, size_t size)
{
    char from[1024], buffer[65536];
    int in, out;
    ssize_t n = -1;

    snprintf(from, sizeof(from), "%s/spank/%s", builddir(), name);
    snprintf(to, size, "%s/copy%d", host.root, host.copies++);
    in = open(from, O_RDONLY);
    out = open(to, O_CREAT | O_WRONLY, 0755);
    while (in >= 0 && out >= 0 && (n = read(in, buffer, sizeof(buffer))) > 0) {
        if (write(out, buffer, (size_t)n) != n)
            break;
    }
    if (n != 0) {
        fprintf(stderr, "%s: cannot be copied\n", from);
        abort();
    }
    close(in);
    close(out);
}

void host_setup(void)
{
    char recorder[128];

    memset(&host, 0, sizeof(host));
    host.context = S_CTX_REMOTE;
    host.job = host.array_id = 77;
    host.array_task = 0xfffffffe;
    host.nnodes = 1;
    host.ntasks = host.local_tasks = 2;
    host.lines = 1;
    host.uid = getuid() ? getuid() : 65534;
    host.gid = getuid() ? getgid() : 65534;
    if (getuid() == 0) {
        host.groups[0] = 65534;
        host.groups[1] = 54321;
        host.ngroups = 2;
    }
    strcpy(host.root, "/tmp/argus-spank-XXXXXX");
    if (!mkdtemp(host.root) || chmod(host.root, 0755))
        abort();
    snprintf(host.spool, sizeof(host.spool), "%s/spool", host.root);
    host_arg("spool=%s", host.spool);
    host_arg("collector=%s/collector.so", host.root);
    host_arg("dir=%%w/%%u/%%j");
    if (close(creat(host.argv[1] + strlen("collector="), 0644)))
        abort();
    /* dir=, without its last part. */
    snprintf(recorder, sizeof(recorder), "%s/nobody", host.root);
    if (getuid() == 0 && (mkdir(recorder, 0755) || chown(recorder, host.uid, host.gid)))
        abort();
    /* The user may not be able to reach the build directory. */
    host_copy("fake_recorder", recorder, sizeof(recorder));
    setenv("ARGUS_TEST_RECORDER", recorder, 1);
    unsetenv("ARGUS_SPANK_LOADED");
    setenv("SLURMD_NODENAME", "n7", 1);
    host_setenv("SLURM_SUBMIT_DIR", host.root);
    host_setenv("SLURM_JOB_ID", "77");
    host_setenv("SLURM_JOB_NODELIST", "n[6-7]");
    host_setenv("SLURM_STEP_NODELIST", "n7");
    host_setenv("SLURM_CLUSTER_NAME", "tst");
    host_setenv("SLURM_JOB_PARTITION", "debug");
    host_setenv("SLURM_NTASKS", "2");
    host_setenv("SLURM_UMASK", "0027");
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    char name[512];

    while (dir && (e = readdir(dir))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        if (unlink(name))
            remove_tree(name);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

void host_teardown(void)
{
    remove_tree(host.root);
    for (int i = 0; host.env[i]; i++)
        free(host.env[i]);
    for (int i = 0; i < host.argc; i++)
        free(host.argv[i]);
}

void host_load(void)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/spank/.libs/spank_check.so", builddir());
    plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (host.copy[0])
        copy = dlopen(host.copy, RTLD_LAZY | RTLD_LOCAL);
    if (!plugin || (host.copy[0] && !copy)) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
}

void host_unload(void)
{
    dlclose(plugin);
    if (copy)
        dlclose(copy);
    plugin = copy = NULL;
}

/* Once for each line of plugstack.conf. */
static void call_in(void *object, const char *name, int lines)
{
    spank_f *hook = (spank_f *)dlsym(object, name);

    for (int i = 0; hook && i < lines; i++) {
        if (hook((spank_t)&handle, host.argc, host.argv)) {
            fprintf(stderr, "%s returned an error\n", name);
            abort();
        }
    }
}

static void call(const char *name)
{
    call_in(plugin, name, host.lines);
    if (copy)
        call_in(copy, name, 1);
}

void host_init(void)
{
    call("slurm_spank_init");
}

int host_option(const char *argument)
{
    return host.option->cb(host.option->val, argument, host.context == S_CTX_REMOTE);
}

void host_post_opt(void)
{
    call("slurm_spank_init_post_opt");
}

void host_local_user_init(void)
{
    call("slurm_spank_local_user_init");
}

void host_user_init(void)
{
    if (getuid() == 0 && seteuid(host.uid))
        abort();
    call("slurm_spank_user_init");
    if (getuid() == 0 && seteuid(0))
        abort();
}

static int contained(void *hook)
{
    call(hook);
    _exit(0);
}

static void call_contained(const char *hook)
{
    size_t size = 1 << 20;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t pid = clone(contained, stack + size, CLONE_VM | SIGCHLD, (void *)hook);

    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        abort();
    munmap(stack, size);
}

void host_user_init_contained(void)
{
    if (getuid() == 0 && seteuid(host.uid))
        abort();
    call_contained("slurm_spank_user_init");
    if (getuid() == 0 && seteuid(0))
        abort();
}

static int enter_jail(void)
{
    char jail[128];

    snprintf(jail, sizeof(jail), "%s/jail", host.root);
    return mkdir(jail, 0755) || chroot(jail) || chdir("/");
}

void host_task(int task, char *env, size_t size)
{
    FILE *back = tmpfile();
    char number[16];
    size_t n;
    pid_t pid;

    if (!back || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        host.task = task;
        snprintf(number, sizeof(number), "%d", task);
        host_setenv("SLURM_PROCID", number);
        host_setenv("SLURM_LOCALID", number);
        host.said[0] = '\0';
        if (host.chroot_away && enter_jail())
            _exit(1);
        if (getuid() == 0 &&
            (setgroups((size_t)host.ngroups, host.groups) ||
             setresgid(host.gid, host.gid, host.gid) || setresuid(host.uid, host.uid, host.uid)))
            _exit(1);
        call("slurm_spank_task_init");
        for (int i = 0; host.env[i]; i++)
            fprintf(back, "%s\n", host.env[i]);
        fprintf(back, "said=%s", host.said);
        fflush(back);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    rewind(back);
    n = fread(env, 1, size - 1, back);
    env[n] = '\0';
    fclose(back);
}

void host_task_here(int task)
{
    host.task = task;
    call("slurm_spank_task_init");
}

void host_task_exit(int task)
{
    host.task = task;
    call("slurm_spank_task_exit");
}

void host_task_exit_contained(int task)
{
    host.task = task;
    call_contained("slurm_spank_task_exit");
}

void host_exit(void)
{
    call("slurm_spank_exit");
}

void host_start(const char *argument)
{
    host_load();
    host_init();
    host_option(argument);
    host_post_opt();
    host_user_init();
}

void host_stop(void)
{
    for (uint32_t i = 0; i < host.local_tasks; i++)
        host_task_exit((int)i);
    host_exit();
    host_unload();
}

/* --- Looking ---------------------------------------------------------------- */

const char *host_value(const char *text, const char *name)
{
    static char value[4096];
    size_t n = strlen(name), len;

    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (!strncmp(p, name, n) && p[n] == '=') {
            len = strcspn(p + n + 1, "\n");
            if (len >= sizeof(value))
                len = sizeof(value) - 1;
            memcpy(value, p + n + 1, len);
            value[len] = '\0';
            return value;
        }
    }
    return NULL;
}

bool host_exists(const char *format, ...)
{
    char path[512];
    struct stat st;
    va_list ap;

    va_start(ap, format);
    vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    return !lstat(path, &st);
}

bool host_read_report(const char *path, char *text, size_t size)
{
    for (int i = 0; i < 500; i++) {
        FILE *f = fopen(path, "r");
        size_t n = f ? fread(text, 1, size - 1, f) : 0;

        if (f)
            fclose(f);
        text[n] = '\0';
        if (strstr(text, "\nend=\n"))
            return true;
        usleep(10000);
    }
    return false;
}

/* A zombie counts as gone: whoever is its parent has not looked yet. */
bool host_gone(pid_t pid, int ms)
{
    for (int i = 0; i <= ms / 10; i++) {
        char path[64], text[512] = "";
        const char *state;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
        f = fopen(path, "r");
        if (!f)
            return true;
        state = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
        fclose(f);
        if (!state || state[2] == 'Z' || state[2] == 'X')
            return true;
        usleep(10000);
    }
    return false;
}

pid_t host_recorder_pid(void)
{
    char path[256], text[65536];
    const char *pid;

    snprintf(path, sizeof(path), "%s/77.0/report", host.spool);
    if (!host_read_report(path, text, sizeof(text)))
        return -1;
    pid = host_value(text, "pid");
    return pid ? (pid_t)atol(pid) : -1;
}

int host_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}
