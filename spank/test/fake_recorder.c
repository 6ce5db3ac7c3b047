/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for argus-record in the plugin's tests: writes what it was given
 * (ids, groups, descriptors, signals, environment) into the spool and waits
 * for SIGTERM.  A file "behaviour" beside the spool tells it to act otherwise:
 * stubborn (ignores SIGTERM), dies (at once), leaves (a ring behind).
 */
#include <config.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t told;

static void on_term(int sig)
{
    (void)sig;
    told = 1;
}

static void report_ids(FILE *out)
{
    uid_t ruid, euid, suid;
    gid_t rgid, egid, sgid, groups[64];
    int n = getgroups(64, groups);

    getresuid(&ruid, &euid, &suid);
    getresgid(&rgid, &egid, &sgid);
    fprintf(out,
            "pid=%ld\nppid=%ld\nsid=%ld\nuids=%u,%u,%u\ngids=%u,%u,%u\ngroups=", (long)getpid(),
            (long)getppid(), (long)getsid(0), ruid, euid, suid, rgid, egid, sgid);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%u", i ? "," : "", groups[i]);
    fprintf(out, "\nroot_again=%d\n", setuid(0) == 0 || geteuid() == 0);
}

static void report_files(FILE *out)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char path[300], target[300];
        ssize_t n;
        int fd = atoi(e->d_name);

        if (e->d_name[0] == '.' || fd == dirfd(dir) || fd == fileno(out))
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        fprintf(out, "fd%d=%s\n", fd, target);
    }
    if (dir)
        closedir(dir);
}

static void report_signals(FILE *out)
{
    sigset_t mask;
    int blocked = 0, ignored = 0;

    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int sig = 1; sig < 32; sig++) {
        struct sigaction sa;

        blocked += sigismember(&mask, sig) == 1 && sig != SIGTERM;
        ignored += !sigaction(sig, NULL, &sa) && sa.sa_handler != SIG_DFL;
    }
    fprintf(out, "term_blocked=%d\n", sigismember(&mask, SIGTERM));
    fprintf(out, "blocked=%d\nignored=%d\nno_new_privs=%d\n", blocked, ignored,
            prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

int main(int argc, char **argv)
{
    char path[1024], cwd[256], behaviour[64] = "";
    mode_t mask = umask(077);
    sigset_t term;
    FILE *out;

    if (argc != 2)
        return 2;
    snprintf(path, sizeof(path), "%s/../../behaviour", argv[1]);
    out = fopen(path, "r");
    if (out) {
        if (!fgets(behaviour, sizeof(behaviour), out))
            behaviour[0] = '\0';
        fclose(out);
    }
    if (!strcmp(behaviour, "dies"))
        return 3;
    if (!strcmp(behaviour, "leaves")) {
        snprintf(path, sizeof(path), "%s/0-1.ring", argv[1]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    snprintf(path, sizeof(path), "%s/report", argv[1]);
    out = fopen(path, "w");
    if (!out)
        return 4;
    report_signals(out);
    signal(SIGTERM, strcmp(behaviour, "stubborn") ? on_term : SIG_IGN);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    report_ids(out);
    report_files(out);
    fprintf(out, "cwd=%s\numask=%03o\n", getcwd(cwd, sizeof(cwd)) ? cwd : "?", mask);
    for (char **e = environ; *e; e++)
        fprintf(out, "env_%s\n", *e);
    fputs("end=\n", out);
    fclose(out);
    while (!told)
        usleep(5000);
    return 0;
}
