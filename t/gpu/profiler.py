# SPDX-License-Identifier: Apache-2.0
"""A torch.profiler window in the middle of a job that argus traces."""
import time

import torch
from torch.profiler import ProfilerActivity, profile

a = torch.randn(512, 512, device="cuda")


def work(seconds):
    end = time.time() + seconds
    while time.time() < end:
        torch.mm(a, a)
        torch.cuda.synchronize()


work(4)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    work(8)
seen = sum(e.count for e in p.key_averages() if getattr(e, "device_time_total", 0)
           or getattr(e, "cuda_time_total", 0))
work(14)
print("profiler_events=%d" % seen)
