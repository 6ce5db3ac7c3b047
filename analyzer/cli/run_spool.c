/* SPDX-License-Identifier: Apache-2.0 */
/* Places of `argus run`: programs, the job directory, a spool a node. */
#include <config.h>
#include <argus/step.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/cli/run.h"

/* ---- where things are --------------------------------------------------- */

static int locate(char *out, size_t size, const char *variable, const char *dir, const char *name)
{
    const char *v = getenv(variable);

    if ((size_t)snprintf(out, size, "%s/%s", v && *v ? v : dir, name) >= size ||
        access(out, R_OK) < 0) {
        argus_cli_error("run", "%s: %s", out, strerror(errno));
        return -1;
    }
    return 0;
}

int argus_run_find_parts(struct launch *l)
{
    if (locate(l->recorder, sizeof(l->recorder), "ARGUS_LIBEXECDIR", ARGUS_PKGLIBEXECDIR,
               "argus-record") < 0)
        return -1;
    return locate(l->collector, sizeof(l->collector), "ARGUS_LIBDIR", ARGUS_LIBDIR "/argus",
                  "libargus-collector.so");
}

/* Nothing that step.conf, a text of lines, could not hold. */
static int has_control(const char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name < ' ' || *name == 0x7f)
            return 1;
    }
    return 0;
}

int argus_run_check_name(const char *dir)
{
    if (dir[0] && !has_control(dir))
        return 0;
    argus_cli_error("run", dir[0] ? "--dir: a line break or another control character in the name"
                                  : "--dir: no name given");
    return -1;
}

int argus_run_make_directory(struct launch *l, const char *dir)
{
    char cwd[PATH_MAX], path[PATH_MAX], *slash;
    struct stat st;

    if (!getcwd(cwd, sizeof(cwd))) {
        argus_cli_error("run", "cannot tell the current directory: %s", strerror(errno));
        return -1;
    }
    if ((size_t)(dir[0] == '/' ? snprintf(path, sizeof(path), "%s", dir)
                               : snprintf(path, sizeof(path), "%s/%s", cwd, dir)) >= sizeof(path)) {
        argus_cli_error("run", "%s: the name is too long", dir);
        return -1;
    }
    if (has_control(path)) {
        argus_cli_error("run", "the current directory has a control character in its name; "
                               "give --dir from the root on");
        return -1;
    }
    for (slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST) {
            argus_cli_error("run", "%s: cannot make the directory: %s", path, strerror(errno));
            return -1;
        }
        if (!slash)
            break;
        *slash = '/';
    }
    if (!realpath(path, l->dir) || stat(l->dir, &st) < 0 ||
        (!S_ISDIR(st.st_mode) && (errno = ENOTDIR))) {
        argus_cli_error("run", "%s: %s", path, strerror(errno));
        return -1;
    }
    if (has_control(l->dir)) {
        argus_cli_error("run", "%s: leads to a name with a control character", path);
        return -1;
    }
    return 0;
}

/* A directory with an earlier run in it would mix two jobs' ranks. */
int argus_run_check_empty(const struct launch *l)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/step-0", l->dir);
    if (access(path, F_OK) < 0)
        return 0;
    argus_cli_error("run", "%s: holds an earlier run; give another --dir", l->dir);
    return -1;
}

void argus_run_free_port(char *out, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(out, size, "29500");
    if (fd < 0)
        return;
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &length) == 0)
        snprintf(out, size, "%d", ntohs(a.sin_port));
    close(fd);
}

/* ---- the spools --------------------------------------------------------- */

void argus_run_node_name(const struct launch *l, int node, char *out, size_t size)
{
    if (l->nodes > 1)
        snprintf(out, size, "node%d", node);
    else
        snprintf(out, size, "%s", l->host);
}

void argus_run_node_spool(const struct launch *l, int node, char *out, size_t size)
{
    snprintf(out, size, "%s/%d", l->spool, node);
}

int argus_run_local_tasks(const struct launch *l, int node)
{
    int left = l->n - node * l->per_node;

    return left < l->per_node ? left : l->per_node;
}

static int write_conf(const struct launch *l, int node, char *text, size_t size)
{
    const struct passwd *pw = getpwuid(getuid());
    char name[64], path[128];
    struct timespec now;
    FILE *f;

    argus_run_node_name(l, node, name, sizeof(name));
    argus_run_node_spool(l, node, path, sizeof(path));
    if (mkdir(path, 0700) < 0)
        goto error;
    strcat(path, "/" ARGUS_STEP_CONF_NAME);
    f = fmemopen(text, size, "w");
    if (!f)
        goto error;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(f,
            "version=%d\njob=%ld\nstep=0\nuser=%s\nuid=%ld\ngid=%ld\nnode=%s\nnodeid=%d\n"
            "nnodes=%d\nntasks=%d\nlocal_tasks=%d\ndir=%s\nstarted=%lld\nargus=%s\n",
            ARGUS_STEP_CONF_VERSION, (long)getpid(), pw ? pw->pw_name : "", (long)getuid(),
            (long)getgid(), name, node, l->nodes, l->n, argus_run_local_tasks(l, node), l->dir,
            (long long)now.tv_sec * 1000000000LL + now.tv_nsec, PACKAGE_VERSION);
    if (l->nodes > 1)
        fprintf(f, "nodes=node[0-%d]\n", l->nodes - 1);
    else
        fprintf(f, "nodes=%s\n", name);
    for (int i = 0; i < l->n_settings; i++)
        fprintf(f, "%s\n", l->settings[i]);
    fclose(f);
    f = fopen(path, "wxe");
    if (!f)
        goto error;
    fputs(text, f);
    if (fclose(f) == 0)
        return 0;
error:
    argus_cli_error("run", "%s: cannot write: %s", path, strerror(errno));
    return -1;
}

int argus_run_make_spools(struct launch *l)
{
    static char text[ARGUS_STEP_CONF_MAX];
    argus_error_t err = {""};

    snprintf(l->spool, sizeof(l->spool), ARGUS_RUN_SPOOLS "/" ARGUS_RUN_PREFIX "%ld.XXXXXX",
             (long)getpid());
    if (!mkdtemp(l->spool)) {
        argus_cli_error("run", "%s: cannot make the directory: %s", l->spool, strerror(errno));
        l->spool[0] = '\0';
        return -1;
    }
    argus_run_lock(l->spool); /* until we end, however that is */
    for (int node = 0; node < l->nodes; node++) {
        if (write_conf(l, node, text, sizeof(text)) < 0)
            return -1;
        /* A bad option is told here, once, and not by each recorder. */
        if (node == 0 && argus_stepconf_parse(text, strlen(text), "option", &l->conf, &err) < 0) {
            argus_cli_error("run", "%s", err.text);
            return -1;
        }
    }
    return 0;
}

void argus_run_remove_spool(const char *path)
{
    char file[PATH_MAX];
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            snprintf(file, sizeof(file), "%s/%s", path, e->d_name) >= (int)sizeof(file))
            continue;
        unlink(file); /* ".N-PID.new": a rank that died before its ring had its name */
    }
    if (d)
        closedir(d);
    rmdir(path);
}

void argus_run_remove_spools(const struct launch *l)
{
    char path[128];

    for (int node = 0; l->spool[0] && node < l->nodes; node++) {
        argus_run_node_spool(l, node, path, sizeof(path));
        argus_run_remove_spool(path);
    }
    if (l->spool[0])
        rmdir(l->spool);
}
