/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With live=on: `argus top --post` beside the recorder of the step's first
 * node.  It writes what it suspects into the running job's comment, takes that
 * back when the step is over, and ends when the recorder does, however that
 * ends.  Without the program nothing is posted, and nothing else changes.
 */
#ifndef ARGUS_RECORD_POSTER_H
#define ARGUS_RECORD_POSTER_H

#include <sys/types.h>

/* 0: it could not be started. */
pid_t argus_poster_start(const char *step_dir);
/* The step is over.  Accepts 0. */
void argus_poster_tell(pid_t pid);
/* At most a second; a poster that takes longer ends by itself.  Accepts 0. */
void argus_poster_wait(pid_t pid);

#endif /* ARGUS_RECORD_POSTER_H */
