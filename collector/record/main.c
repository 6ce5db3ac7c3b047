/* SPDX-License-Identifier: Apache-2.0 */
/* argus-record: the recorder of one node and step; see doc/recorder.md. */
#include <config.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "collector/record/recorder.h"

static volatile sig_atomic_t stop;
static pid_t parent;

/* Who started us says so by sigqueue(), or by its death.  Anybody else's signal may be meant for the
 * job, which Slurm signals by its tree of processes (scancel -s TERM), and the job may go on. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    if (info->si_code == SI_QUEUE || getppid() != parent)
        stop = ARGUS_STOP_NOW;
    else if (!stop)
        stop = ARGUS_STOP_AFTER_RANKS;
}

static void usage(FILE *out)
{
    fputs("Usage: argus-record SPOOL\n"
          "       argus-record --drain SPOOL [DIR]\n"
          "Turns the rings of a step's spool into timelines, until SIGTERM and the ranks' end.\n\n"
          "  -d, --drain       only what is left in SPOOL (by a recorder that died, or of a step\n"
          "                    that never had one); DIR overrides the step's directory\n"
          "      --sysfs DIR   root of sysfs (default /sys)\n"
          "      --nvml FILE   NVML library (default libnvidia-ml.so.1)\n"
          "  -h, --help        this text\n"
          "  -V, --version     the version\n",
          out);
}

static int signals(void)
{
    /* What Slurm sends to a job (--signal, scancel) may reach its recorder, which is not meant. */
    /* A file beyond the user's limit (ulimit -f) is a write that fails, like one on a full disk. */
    static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGQUIT, SIGXFSZ};
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigset_t term;

    sigemptyset(&sa.sa_mask);
    if (sigaction(SIGTERM, &sa, NULL) < 0 || sigaction(SIGINT, &sa, NULL) < 0)
        return -1;
    sa = (struct sigaction){.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        sigaction(ignored[i], &sa, NULL);
    /* The plugin starts us with SIGTERM blocked: the step may be over before we got here. */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    /* Who started us waits for us; without it nobody tells when the step is over. */
    return prctl(PR_SET_PDEATHSIG, SIGTERM);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"drain", no_argument, NULL, 'd'},      {"sysfs", required_argument, NULL, 's'},
        {"nvml", required_argument, NULL, 'n'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},    {NULL, 0, NULL, 0}};
    struct argus_recorder_options options = {0};
    argus_error_t err = {""};
    int c;

    parent = getppid();
    while ((c = getopt_long(argc, argv, "dhV", longs, NULL)) != -1) {
        switch (c) {
        case 'd':
            options.drain = 1;
            break;
        case 's':
            options.sysfs = optarg;
            break;
        case 'n':
            options.nvml = optarg;
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'V':
            printf("argus-record %s\n", PACKAGE_VERSION);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (argc - optind < 1 || argc - optind > 1 + options.drain) {
        usage(stderr);
        return 2;
    }
    options.spool = argv[optind];
    options.dir = argc - optind > 1 ? argv[optind + 1] : NULL;
    /* HDF5's own file locking must not decide whether a job is traced. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    /* What a step needed goes back to the system after it, in whatever order it is freed. */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    if (signals() < 0) {
        fprintf(stderr, "argus-record: cannot set up signals\n");
        return 1;
    }
    if (!options.drain && getppid() != parent)
        stop = ARGUS_STOP_NOW; /* it died before we could ask to be told */
    if (argus_recorder_run(&options, &stop, &err) < 0) {
        fprintf(stderr, "argus-record: %s\n", err.text);
        return 1;
    }
    return 0;
}
