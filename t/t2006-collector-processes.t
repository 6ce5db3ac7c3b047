#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='Which processes are traced, and that none of them notices (simulated GPU)'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
dump="$ARGUS_BUILDDIR/collector_ringdump"
probe="$ARGUS_BUILDDIR/collector_probe"
simgpu="$ARGUS_BUILDDIR/contrib/simgpu"
python=${ARGUS_PYTHON:-python3}
"$python" -c 'import ctypes' 2>/dev/null && test_set_prereq PYTHON

unset RANK WORLD_SIZE LOCAL_RANK OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMIX_RANK PMI_RANK \
    PMI_SIZE SLURM_PROCID SLURM_NTASKS ARGUS_SOURCES

# traced CMD...: under the collector, with a fresh spool; rings as text in "ring"
traced() {
    rm -rf spool && mkdir spool
    env ARGUS_SPOOL="$PWD/spool" ARGUS_JOB=1 ARGUS_STEP=0 ARGUS_RANK=2 ARGUS_WORLD=4 \
        ARGUS_LOCAL_RANK=0 ARGUS_NODE=n0 CUDA_INJECTION64_PATH="$so" NCCL_PROFILER_PLUGIN="$so" \
        LD_LIBRARY_PATH="$simgpu" "$@"
    rc=$?
    "$dump" spool >ring
    return $rc
}

gpu_work='
import ctypes, os, sys, time
cuda = ctypes.CDLL(os.path.join("'"$simgpu"'", "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
cuda.simcu_stream_default.restype = ctypes.c_void_p
cuda.simcu_clock_start.argtypes = [ctypes.c_int64]
cuda.simcu_host_until.argtypes = [ctypes.c_int64]
cuda.simcu_host_now.restype = ctypes.c_int64
cuda.simcu_launch.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
three = (ctypes.c_uint32 * 3)(1, 1, 1)
def init():
    assert cuda.cuInit(0) == 0
    cuda.simcu_clock_start(int(time.time() * 1e9))
def launch(n):
    for i in range(n):
        cuda.simcu_launch(cuda.simcu_stream_default(), b"work", three, three, 1000)
        cuda.simcu_host_until(cuda.simcu_host_now() + 10000)
'

test_expect_success PYTHON 'a CUDA process that does no work leaves nothing behind' '
    traced "$python" -c "${gpu_work}init()" &&
    test -z "$(ls -A spool)"
'
test_expect_success PYTHON 'a rank: from the task, when nothing else names one' '
    traced "$python" -c "${gpu_work}init(); launch(100); time.sleep(0.3)" &&
    grep "^ring rank=2 world=4 local=0 .* job=1 step=0 node=n0" ring &&
    test $(grep -c "^KERNEL" ring) = 100
'
test_expect_success PYTHON 'torchrun below one task: RANK and LOCAL_RANK count' '
    traced env RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 "$python" -c "${gpu_work}init(); launch(10)" &&
    grep "^ring rank=5 world=8 local=1 " ring
'
test_expect_success PYTHON 'set by the program itself, after cuInit' '
    traced "$python" -c "${gpu_work}init(); os.environ.update(RANK=\"6\", WORLD_SIZE=\"8\"); launch(10)" &&
    grep "^ring rank=6 world=8 " ring
'
test_expect_success PYTHON 'mpirun below one task' '
    traced env OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK=3 \
        "$python" -c "${gpu_work}init(); launch(10)" &&
    grep "^ring rank=7 world=16 local=3 " ring
'
test_expect_success PYTHON 'a RANK that cannot be right is not believed' '
    traced env RANK=0 WORLD_SIZE=1 "$python" -c "${gpu_work}init(); launch(10)" &&
    grep "^ring rank=2 world=4 " ring &&
    traced env RANK=9 WORLD_SIZE=8 "$python" -c "${gpu_work}init(); launch(10)" &&
    grep "^ring rank=2 world=4 " ring &&
    traced env RANK=1x WORLD_SIZE=8 "$python" -c "${gpu_work}init(); launch(10)" &&
    grep "^ring rank=2 world=4 " ring
'
test_expect_success PYTHON 'forked data loaders: they work, the ring is the rank'\''s alone' '
    traced "$python" -c "${gpu_work}
init(); launch(10); time.sleep(0.2)
kids = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        launch(50)
        (os._exit if i % 2 else sys.exit)(7)
    kids.append(pid)
for pid in kids:
    assert os.waitpid(pid, 0)[1] >> 8 == 7
launch(10); time.sleep(0.2)" &&
    test $(grep -c "^ring " ring) = 1 &&
    test $(grep -c "^KERNEL" ring) = 20 &&
    grep "^ring .* end=16" ring
'
test_expect_success PYTHON 'a fork before the first record: the child may be the rank' '
    traced "$python" -c "${gpu_work}
if os.fork() == 0:
    init(); launch(25); time.sleep(0.3)
    sys.exit(0)
assert os.wait()[1] == 0" &&
    test $(grep -c "^ring " ring) = 1 &&
    test $(grep -c "^KERNEL" ring) = 25
'
test_expect_success PYTHON 'a spawned helper of a traced rank is passed over, also when it uses the GPU' '
    cat >helper.py <<-EOT &&
	${gpu_work}
	init(); launch(30); time.sleep(0.2)
	EOT
    sed "s/^	//" -i helper.py &&
    traced "$python" -c "${gpu_work}
import subprocess
init(); launch(10); time.sleep(0.3)
assert subprocess.call([sys.executable, \"helper.py\"]) == 0" &&
    test $(grep -c "^ring " ring) = 1 && test $(grep -c "^KERNEL" ring) = 10
'
test_expect_success PYTHON 'a compile worker is passed over' '
    traced "$python" -c "${gpu_work}init(); launch(10); time.sleep(0.2)" \
        torch/_inductor/compile_worker/__main__.py --workers=4 &&
    test -z "$(ls -A spool)"
'
test_expect_success PYTHON 'exec: two images, two rings, nothing overwritten' '
    traced "$python" -c "${gpu_work}
init(); launch(10); time.sleep(0.3)
os.execv(sys.executable, [sys.executable, \"helper.py\"])" &&
    test $(grep -c "^ring " ring) = 2 && test $(grep -c "^KERNEL" ring) = 40
'
test_expect_success PYTHON '64 MB of address space to spare: traced, and the rest is the program'\''s' '
    traced "$python" -c "${gpu_work}
import resource
pages = int(open(\"/proc/self/statm\").read().split()[0])
limit = pages * 4096 + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
init(); launch(100); time.sleep(0.3)
data = bytearray(24 << 20)
import threading
t = threading.Thread(target=lambda: None); t.start(); t.join()" &&
    grep "^ring rank=2 .* end=16" ring && test $(grep -c "^KERNEL" ring) = 100
'
test_expect_success PYTHON '2 MB of address space to spare: as without argus' '
    traced "$python" -c "${gpu_work}
import resource
pages = int(open(\"/proc/self/statm\").read().split()[0])
limit = pages * 4096 + (2 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
init(); launch(100)"
'
test_expect_success PYTHON 'a missing spool, and one that is no directory: as without argus' '
    env ARGUS_SPOOL="$PWD/nowhere" CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" \
        "$python" -c "${gpu_work}init(); launch(100)" >out 2>&1 &&
    test_must_be_empty out && test ! -e nowhere &&
    : >file &&
    env ARGUS_SPOOL="$PWD/file" CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" \
        "$python" -c "${gpu_work}init(); launch(100)" >out 2>&1 &&
    test_must_be_empty out
'
if test "$(id -u)" = 0; then
    # Root passes every permission; a read-only mount it does not pass.
    (unshare -m true) 2>/dev/null && test_set_prereq UNSHARE
else
    test_set_prereq NOT_ROOT
fi
test_expect_success PYTHON,NOT_ROOT 'a read-only spool: as without argus' '
    mkdir ro && chmod 555 ro &&
    env ARGUS_SPOOL="$PWD/ro" CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" \
        "$python" -c "${gpu_work}init(); launch(100)" >out 2>&1 &&
    test_must_be_empty out && test -z "$(ls -A ro)"
'
test_expect_success PYTHON,UNSHARE 'a read-only spool: as without argus' '
    mkdir ro && cat >ro.sh <<-\EOT &&
	mount -t tmpfs -o ro none "$1" && shift && exec "$@"
	EOT
    env ARGUS_SPOOL="$PWD/ro" CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" \
        unshare -m sh ro.sh "$PWD/ro" "$python" -c "${gpu_work}init(); launch(100)" >out 2>&1 &&
    test_must_be_empty out
'
test_expect_success PYTHON,UNSHARE 'a spool without room for the ring: a smaller one, or none' '
    mkdir tiny && cat >tiny.sh <<-\EOT &&
	mount -t tmpfs -o size=$2 none "$1" && "$3" -c "$4" && ls -A "$1" && "$5" "$1"
	EOT
    env ARGUS_SPOOL="$PWD/tiny" CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" \
        unshare -m sh tiny.sh "$PWD/tiny" 8m "$python" \
        "${gpu_work}init(); launch(100); time.sleep(0.3)" "$dump" >out 2>&1 &&
    grep "^ring .* slots=[0-9]*" out && test $(grep -c "^KERNEL" out) = 100 &&
    env ARGUS_SPOOL="$PWD/tiny" CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" \
        unshare -m sh tiny.sh "$PWD/tiny" 64k "$python" \
        "${gpu_work}init(); launch(100); time.sleep(0.3)" "$dump" >out 2>&1 &&
    test_must_be_empty out
'
test_expect_success PYTHON 'another libhdf5 in the process: nothing of ours meets it' '
    cat >hdf5.c <<-\EOT &&
	int H5open(void) { return 4711; }
	EOT
    ${CC:-cc} -shared -fPIC -o libhdf5.so.999 hdf5.c &&
    traced "$python" -c "${gpu_work}
h = ctypes.CDLL(\"$PWD/libhdf5.so.999\", mode=ctypes.RTLD_GLOBAL)
init(); launch(10)
assert h.H5open() == 4711" &&
    test $(grep -c "^KERNEL" ring) = 10
'
test_expect_success PYTHON 'signals go to the program, never to our threads' '
    traced "$python" -c "${gpu_work}
import signal, threading
got = []
signal.signal(signal.SIGUSR1, lambda *a: got.append(threading.current_thread() is threading.main_thread()))
init(); launch(10); time.sleep(0.3)
for i in range(20):
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.01)
assert len(got) == 20 and all(got)
blocked = []
for tid in os.listdir(\"/proc/self/task\"):
    status = open(\"/proc/self/task/%s/status\" % tid).read()
    if \"Name:	argus\" in status:
        mask = int(status.split(\"SigBlk:\")[1].split()[0], 16)
        blocked.append(mask & 0x7fffffff == 0x7fffffff & ~(1 << 8 | 1 << 18) or mask)
assert blocked and all(b is True for b in blocked), blocked"
'
for cause in "os._exit(3)" "os.abort()" "os.kill(os.getpid(), 15)" "os.kill(os.getpid(), 9)" \
    "ctypes.string_at(0)"; do
    test_expect_success PYTHON "an end by $cause: same status, the ring is kept" '
        code="init(); launch(500); time.sleep(1.3); sys.stdout.flush()
$cause" &&
        { LD_LIBRARY_PATH="$simgpu" "$python" -c "${gpu_work}$code" >/dev/null 2>&1; plain=$?; } &&
        { traced "$python" -c "${gpu_work}$code" >/dev/null 2>&1; with=$?; } &&
        test $plain = $with && test $plain != 0 &&
        test $(grep -c "^KERNEL" ring) -ge 400 &&
        grep "^ring .* end=0 " ring
    '
done
test_done
