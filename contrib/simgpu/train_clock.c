/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In this process CLOCK_REALTIME is the virtual host clock, so that what a
 * profiler stamps on the CPU side stands in the same time as the GPU's
 * records.  The other clocks stay real: they measure waiting.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simcu.h"

SIMCU_API int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t now;

    if ((id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) && (now = simcu_clock_now()) != 0) {
        now = simcu_visible(now);
        ts->tv_sec = now / 1000000000;
        ts->tv_nsec = now % 1000000000;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, id, ts);
}
