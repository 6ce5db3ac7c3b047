/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argus top --post: follows a running job and keeps its suspicion in the job's
 * Comment (scontrol), between other tools' text.  A suspicion that is gone, and
 * at the end whatever it wrote, is taken out again.  Silent: a job without
 * timelines yet, a scontrol that is missing or refused, are tried again at the
 * next look.
 */
#ifndef ARGUS_CLI_TOP_POST_H
#define ARGUS_CLI_TOP_POST_H

/* Returns on ARGUS_POST_OVER (argus/step.h), and on SIGTERM and SIGINT unless the caller ignored
 * them.  `what`: directory or job id; `interval`: seconds between two looks. */
void argus_top_post(const char *what, double interval);

#endif /* ARGUS_CLI_TOP_POST_H */
