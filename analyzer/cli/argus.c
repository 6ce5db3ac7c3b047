/* SPDX-License-Identifier: Apache-2.0 */
/* argus(1): finds the subcommand and hands over. */
#include <config.h>
#include <cairo.h>
#include <curses.h>
#include <errno.h>
#include <gsl/gsl_version.h>
#include <hdf5.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"

static const struct argus_command commands[] = {
    {"analyze", "decide from timelines what made a job slow", argus_cmd_analyze},
    {"report", "show a verdict to people, as text or HTML", argus_cmd_report},
    {"top", "follow a running job", argus_cmd_top},
    {"run", "run a command under argus without Slurm", argus_cmd_run},
    {"import", "make timelines of torch.profiler or Nsight Systems traces", argus_cmd_import},
    {"export", "write a job for Perfetto or Prometheus", argus_cmd_export},
    {"annotate", "put a verdict that is on disk into accounting", argus_cmd_annotate},
    {"sweep", "finish and post what epilogs could not", argus_cmd_sweep},
    {"nodes", "which nodes were blamed, how often, in which jobs", argus_cmd_nodes},
    {"record", "the recorder of one node and step (started by the plugin and by run)",
     argus_cmd_record},
};

void argus_cli_error(const char *command, const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "argus %s: ", command);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int argus_cli_one_job(const char *command, int n)
{
    if (n == 1)
        return 0;
    argus_cli_error(command, "%s directory or job id; `argus %s --help` tells the options",
                    n > 1 ? "more than one" : "no", command);
    return -1;
}

FILE *argus_cli_stream(const char *path)
{
    struct stat st;

    if (!strcmp(path, "-"))
        return stdout;
    return stat(path, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? NULL : fopen(path, "w");
}

static void usage(FILE *out)
{
    fputs("Usage: argus COMMAND [OPTION...]\n"
          "Finds the GPU, link or host that makes a distributed training job slow.\n\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`argus COMMAND --help` tells its options; argus(1) is the manual.\n", out);
}

/* The first line is for scripts; the second says what was compiled in. */
static void version(void)
{
    printf("argus %s\n", PACKAGE_VERSION);
    printf("HDF5 %d.%d.%d, GSL %s, jansson %s, cairo %s, ncurses %s\n", H5_VERS_MAJOR,
           H5_VERS_MINOR, H5_VERS_RELEASE, GSL_VERSION, JANSSON_VERSION, CAIRO_VERSION_STRING,
           NCURSES_VERSION);
#ifdef HAVE_MPI
    puts("MPI yes");
#else
    puts("MPI no");
#endif
}

/* What could not be written was not said: no success.  A standard output that was closed from the
 * start and that nothing was written to is none of our business. */
static int finish(int rc)
{
    int failed = ferror(stdout);

    errno = 0;
    if ((fflush(stdout) || failed) && rc == ARGUS_EXIT_OK) {
        fprintf(stderr, "argus: standard output: %s\n", errno ? strerror(errno) : "cannot write");
        return ARGUS_EXIT_ERROR;
    }
    return rc;
}

int main(int argc, char **argv)
{
    char name[32];

    if (argc < 2) {
        usage(stderr);
        return ARGUS_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return finish(ARGUS_EXIT_OK);
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        version();
        return finish(ARGUS_EXIT_OK);
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (!strcmp(argv[1], commands[i].name)) {
            /* getopt's messages begin with it */
            snprintf(name, sizeof(name), "argus %s", commands[i].name);
            argv[1] = name;
            /* A file grown too large is an error of writing like another; what `run` and `record`
             * start is to find the signal as it was. */
            if (commands[i].run != argus_cmd_run && commands[i].run != argus_cmd_record)
                signal(SIGXFSZ, SIG_IGN);
            return finish(commands[i].run(argc - 1, argv + 1));
        }
    }
    fprintf(stderr, "argus: no command \"%s\"; `argus --help` lists them\n", argv[1]);
    return ARGUS_EXIT_USAGE;
}
