/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of one node know of a step: the marker that the plugin
 * leaves for the epilog, and the same text as "step.conf" in the step's spool
 * for the collector and the recorder.
 *
 *   <spool>/jobs/<job>/<step>      marker, root:root 0600, directories 0700
 *   <spool>/<job>.<step>/          the step's spool, the user's, 0700
 *     step.conf                    copy of the marker
 *     standdown                    lines "rank=13 source=cupti reason=user-set"
 *     record.pid                   the recorder's process id
 *     <rank>-<pid>.ring            one a traced process (record.h)
 *
 * For a component of a heterogeneous job <job> reads "<leader>+<component>".
 * <step> is a number, "batch" or "interactive".
 *
 * Text: one "key=value" a line, LF, no blanks around '=', no quoting; a value
 * ends at LF.  Unknown keys are skipped, a missing key has its default.  The
 * file is at most ARGUS_STEP_CONF_MAX bytes.  Written whole, then renamed.
 */
#ifndef ARGUS_STEP_H
#define ARGUS_STEP_H

#include <signal.h>

#define ARGUS_STEP_CONF_VERSION 1
#define ARGUS_STEP_CONF_MAX 65536
#define ARGUS_STEP_CONF_NAME "step.conf"
#define ARGUS_STANDDOWN_NAME "standdown"
#define ARGUS_RECORD_PID_NAME "record.pid"
#define ARGUS_MARKER_DIR "jobs"
#define ARGUS_DONE_DIR ".done"

/*
 * With live=on the recorder runs `argus top --post`; this signal tells it that the step is over,
 * also when the recorder dies.  Not SIGTERM: that, sent to a step (scancel -s TERM), reaches both
 * of them, and the step may go on.
 */
#define ARGUS_POST_OVER SIGRTMIN

/*
 * Keys:
 *   version=1
 *   job step het             het: component number or "-"
 *   slurm_job                the id that Slurm's Epilog knows (a component's own)
 *   array_job array_task     "-" when the job is no array task
 *   restart                  SLURM_RESTART_COUNT, 0
 *   user uid gid cluster
 *   node nodeid nnodes nodes this node's name and index; the job's node list as Slurm writes it ("n[1-4]")
 *   step_nodes               the same of the step alone
 *   lazy                     on: the step is a batch script or a shell; nothing is written unless a ring appears
 *   ntasks local_tasks       tasks of the step, of the step on this node
 *   dir                      job directory, expanded; "-rN" is appended when restart = N > 0
 *   started                  CLOCK_REALTIME ns
 *   argus slurm              versions
 *   default mode sources links window keep_mb ring_mb info warn critical floor_ms min_steps comment
 *   drain_s deadline_s summary live      effective keys (design: plugstack keys)
 */

#endif /* ARGUS_STEP_H */
