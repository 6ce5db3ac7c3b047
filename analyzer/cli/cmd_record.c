/* SPDX-License-Identifier: Apache-2.0 */
/* `argus record`: the recorder is a program of its own (nothing in the
 * analyzer links it); this hands over to it. */
#include <config.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"

int argus_cmd_record(int argc, char **argv)
{
    const char *dir = getenv("ARGUS_LIBEXECDIR");
    char path[PATH_MAX];

    (void)argc;
    snprintf(path, sizeof(path), "%s/argus-record", dir && *dir ? dir : ARGUS_PKGLIBEXECDIR);
    execv(path, argv);
    argus_cli_error("record", "cannot start %s: %s", path, strerror(errno));
    return ARGUS_EXIT_ERROR;
}
