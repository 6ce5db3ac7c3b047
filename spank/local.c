/* SPDX-License-Identifier: Apache-2.0 */
/* srun, sbatch and salloc: the only place where the plugin speaks by itself. */
#include <config.h>

#include "spank/plugin.h"

void argus_local_say(const char *line)
{
    slurm_spank_log("%s", line);
}
