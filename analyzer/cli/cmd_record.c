/* SPDX-License-Identifier: Apache-2.0 */
/* `argus record`: the recorder is a program of its own (nothing in the
 * analyzer links it); this hands over to it. */
#include <config.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"

int argus_cmd_record(int argc, char **argv)
{
    (void)argc;
    execv(ARGUS_PKGLIBEXECDIR "/argus-record", argv);
    argus_cli_error("record", "cannot start %s/argus-record: %s", ARGUS_PKGLIBEXECDIR,
                    strerror(errno));
    return ARGUS_EXIT_ERROR;
}
