/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subcommands of argus.  One file each, cmd_<name>.c; the table in argus.c is
 * the only place that lists them.
 *
 * A command gets argv with argv[0] = its own name ("analyze"), prints results
 * on stdout and messages on stderr through argus_cli_error(), and returns the
 * exit status: 0 done, 1 error, 2 usage, 3 see analyze --exit-code.
 */
#ifndef ARGUS_CLI_H
#define ARGUS_CLI_H

#include <stdio.h>

#include "analyzer/util/error.h"

#define ARGUS_EXIT_OK 0
#define ARGUS_EXIT_ERROR 1
#define ARGUS_EXIT_USAGE 2
#define ARGUS_EXIT_FAIL_SLOW 3

struct argus_command {
    const char *name;
    const char *summary; /* one line for `argus --help` */
    int (*run)(int argc, char **argv);
};

/* "argus analyze: TEXT" on stderr. */
void argus_cli_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* 0, or -1 told: so many operands are left where one job is expected. */
int argus_cli_one_job(const char *command, int n);

/* Where output to `path` goes that must not be written by way of a temporary file and rename: "-"
 * is stdout, a device or a pipe is opened (the caller closes it).  NULL: it is neither. */
FILE *argus_cli_stream(const char *path);

int argus_cmd_run(int argc, char **argv);
int argus_cmd_import(int argc, char **argv);
int argus_cmd_analyze(int argc, char **argv);
int argus_cmd_report(int argc, char **argv);
int argus_cmd_export(int argc, char **argv);
int argus_cmd_top(int argc, char **argv);
int argus_cmd_nodes(int argc, char **argv);
int argus_cmd_annotate(int argc, char **argv);
int argus_cmd_sweep(int argc, char **argv);
int argus_cmd_record(int argc, char **argv);

#endif /* ARGUS_CLI_H */
