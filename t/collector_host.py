# SPDX-License-Identifier: Apache-2.0
"""A host that feeds the stand-in GPU and then starves it, in named functions."""
import ctypes
import os
import sys
import time

cuda = ctypes.CDLL(os.path.join(sys.argv[1], "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
cuda.simcu_clock_start.argtypes = [ctypes.c_int64]
cuda.simcu_host_until.argtypes = [ctypes.c_int64]
cuda.simcu_stream_default.restype = ctypes.c_void_p
cuda.simcu_launch.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p,
                              ctypes.c_int64]
three = (ctypes.c_uint32 * 3)(1, 1, 1)
seconds = float(sys.argv[2])


def now():
    return time.time_ns() if hasattr(time, "time_ns") else int(time.time() * 1e9)


def launch(stream, ns):
    cuda.simcu_host_until(now())
    cuda.simcu_launch(stream, b"busy_kernel", three, three, ns)


def feed_the_gpu(stream):
    for _ in range(20):
        launch(stream, 15000000)
        time.sleep(0.015)


def read_next_shard():
    time.sleep(0.4)


def load_batch():
    read_next_shard()


def train():
    stream = cuda.simcu_stream_default()
    end = time.time() + seconds
    while time.time() < end:
        feed_the_gpu(stream)
        load_batch()


assert cuda.cuInit(0) == 0
cuda.simcu_clock_start(now())
train()
