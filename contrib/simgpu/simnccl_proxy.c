/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the proxy: network progress by peer, where the mask asks for them. */
#include <string.h>
#include <unistd.h>

#include "simfault.h"
#include "simnccl_profiler.h"

void simnccl_proxy_report(struct simnccl_reporter *r, const struct simnccl_op *op, void *task,
                          const struct simnccl_timing *timing)
{
    (void)r;
    (void)op;
    (void)task;
    (void)timing;
}
