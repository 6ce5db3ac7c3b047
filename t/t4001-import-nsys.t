#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus import nsys: recorded exports with known answers, and bad ones'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
dump=$ARGUS_BUILDDIR/timeline_dump
data=$ARGUS_TEST_DATA

test -d "$data/nsys" && test_set_prereq NSYS
command -v sqlite3 >/dev/null && test_set_prereq SQLITE3

test_expect_success NSYS 'mfu: two ranks, 33 matched sends and receives, nothing of TMPDIR left' '
    mkdir tmp &&
    TMPDIR=$PWD/tmp "$argus" import nsys "$data"/nsys/mfu_2gpu_before.sqlite.gz -o mfu >out 2>err &&
    grep "^2 ranks, 4010 GPU kernels" out &&
    grep "note: no communicators in the traces; all 2 ranks ran the same 33 collectives" err &&
    test -z "$(ls tmp)" &&
    for r in 0 1; do
        f=mfu/step-0/rank-0000$r.h5
        "$dump" $f comms name size rank members | grep -x "world	2	$r	0,1" &&
        "$dump" $f classes kind | cat -n | awk "\$2 == 2 {print \$1 - 1}" >ids &&
        "$dump" $f events start duration class_id seq |
            awk "NR == FNR { want[\$1]; next }
                 \$3 in want { printf \"%d %.0f %.0f\n\", \$4, substr(\$1, 8) + 0, \$2 }" ids - \
            >calls.$r && test "$(wc -l <calls.$r)" = 33 || return 1
    done
'

test_expect_success NSYS 'mfu: communication, waits, last arrivers and ends as is known' '
    awk "{ s += \$3 } END { exit !(s > 17.16e6 && s < 17.18e6) }" calls.0 &&
    awk "{ s += \$3 } END { exit !(s > 8.22e6 && s < 8.24e6) }" calls.1 &&
    join calls.0 calls.1 >both 2>/dev/null || { sort calls.0 >a && sort calls.1 >b && join a b >both; } &&
    awk "{ work = \$3 < \$5 ? \$3 : \$5; w0 += \$3 - work; w1 += \$5 - work; last += \$5 < \$3;
           d = (\$2 + \$3) - (\$4 + \$5); if (d < 0) d = -d; if (d > most) most = d; n++ }
         END { exit !(n == 33 && last == 22 && w0 > 10.4e6 && w0 < 11.4e6 && w1 > 2.3e6 &&
                      w1 < 2.6e6 && most < 27000) }" both
'

test_expect_success NSYS 'h100: 25.5 GB to each GPU, overheads and synchronisation where they belong' '
    "$argus" import nsys "$data"/nsys/h100_2gpu_1s.sqlite.gz -o h100 >out 2>err &&
    grep "^2 ranks, 3442 GPU kernels" out && test_must_be_empty err &&
    for r in 0 1; do
        f=h100/step-0/rank-0000$r.h5
        "$dump" $f classes kind func bytes | cat -n >classes &&
        "$dump" $f events class_id duration >events &&
        awk "NR == FNR { if (\$2 == 3 && \$3 == 1) bytes[\$1 - 1] = \$4; next }
             \$2 in bytes { sum += bytes[\$2]; busy += \$1 }
             END { exit !(sum > 25.4e9 && sum < 25.6e9 && busy > 900e6 && busy < 940e6) }" \
            classes events || return 1
    done &&
    test "$("$dump" h100/step-0/rank-00000.h5 steps comms)" = 0
'

# A small export by hand: schema 3 with the tables that an importer needs, and the payload of NCCL.
cat >tables.sql <<'SQL'
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
 deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
 demangledName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER,
 blockY INTEGER, blockZ INTEGER);
INSERT INTO StringIds VALUES (1, "gemm"), (2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
 (3, "cudaLaunchKernel_v7000"), (4, "ncclAllReduce"), (5, "ncclCommInitRank"),
 (6, "ncclDevKernel_SendRecv"), (7, "ncclSend"), (8, "ncclRecv"), (9, "cuLaunchKernelEx");
SQL
cat >events.sql <<'SQL'
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
 globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
 text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, jsonText TEXT, binaryData BLOB);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
 (1000, 2000, 0, 7, 11, 16777216, 1, 4, 1, 1, 128, 1, 1),
 (3000, 4000, 0, 9, 12, 16777216, 2, 8, 1, 1, 256, 1, 1),
 (5000, 6000, 0, 9, 13, 16777216, 6, 8, 1, 1, 256, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 510, 16777221, 11, 3),
 (610, 620, 16777221, 12, 9), (730, 740, 16777221, 13, 9);
INSERT INTO NVTX_EVENTS VALUES
 (100, 200, 59, NULL, 16777221, 5, 1, NULL, x'efbeadde00000000040000000200000000000000'),
 (600, 650, 59, NULL, 16777221, 4, 1,
  '{"NCCL communicator ID": 3735928559, "Message size [bytes]": 4096}', NULL),
 (700, 705, 59, NULL, 16777221, 7, 1, NULL, x'efbeadde00000000002000000000000003000000'),
 (706, 710, 59, NULL, 16777221, 8, 1, NULL, x'efbeadde00000000002000000000000001000000'),
 (50, 900, 59, "train_step 1", 16777221, NULL, NULL, NULL, NULL),
 (60, 70, 59, "aten::add, op_id = 77", 16777221, NULL, NULL, NULL, NULL);
SQL

test_expect_success SQLITE3 'payloads of NCCL give communicator, message, peers; JSON or binary' '
    cat tables.sql events.sql | sqlite3 payload.sqlite &&
    "$argus" import nsys payload.sqlite -o payload >out 2>err && test_must_be_empty err &&
    f=payload/step-0/rank-00000.h5 &&
    test "$("$dump" $f comms hash size rank)" = "3735928559	4	2" &&
    "$dump" $f classes kind func comm bytes name >classes &&
    grep "^2	1	ncclDevKernel_AllReduce_Sum_f32_RING_LL	0	4096$" classes &&
    grep "^2	11	ncclDevKernel_SendRecv	0	8192$" classes &&
    "$dump" $f marks name kind | grep "train_step 1" && ! "$dump" $f marks name | grep aten
'

test_expect_success SQLITE3 'tables that an older export lacks are no error' '
    { cat tables.sql; echo "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
      (1000, 2000, 1, 7, 11, 16777216, 1, 4, 1, 1, 128, 1, 1),
      (1000, 2000, 0, 7, 11, 16777216, 1, 4, 1, 1, 128, 1, 1);"; } | sqlite3 old.sqlite &&
    "$argus" import nsys old.sqlite -o old >out && grep "^2 ranks, 2 GPU kernels" out
'

test_expect_success SQLITE3 'the export is neither changed nor joined by other files' '
    mkdir alone && cp payload.sqlite alone && cksum alone/* >before &&
    "$argus" import nsys alone/payload.sqlite -o again >out &&
    cksum alone/* >after && cmp before after
'

fails() { # FILES...: import fails with one line, leaves nothing
    rm -rf bad && test_expect_code 1 "$argus" import nsys "$@" -o bad >out 2>err &&
    test "$(wc -l <err)" = 1 && ! test -e bad && cat err
}

test_expect_success SQLITE3 'bad exports: one clear line each' '
    echo hello >text.sqlite && fails text.sqlite | grep "text.sqlite: not an SQLite export" &&
    : >empty.sqlite && fails empty.sqlite | grep "empty.sqlite: .*not an export" &&
    sqlite3 other.sqlite "CREATE TABLE a (b)" && fails other.sqlite | grep "not an export" &&
    sqlite3 nokernel.sqlite <tables.sql && fails nokernel.sqlite | grep "no GPU kernels" &&
    gzip -c payload.sqlite | head -c 400 >cut.sqlite.gz && fails cut.sqlite.gz | grep "truncated" &&
    head -c 5000 payload.sqlite >cut.sqlite && fails cut.sqlite | grep "cut.sqlite: " &&
    sqlite3 nostrings.sqlite "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end)" &&
    fails nostrings.sqlite | grep "nostrings.sqlite: no table StringIds" &&
    cp payload.sqlite notime.sqlite && sqlite3 notime.sqlite "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1" &&
    fails notime.sqlite | grep "notime.sqlite: no kernel of GPU 0 and process 1 has usable times" &&
    fails missing.sqlite | grep "No such file" && fails . | grep "not a regular file" &&
    sqlite3 view.sqlite "CREATE TABLE StringIds (id, value);
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start" &&
    fails view.sqlite | grep "not an export"
'

# The file alone would be read as it was before, or as it never was.
test_expect_success SQLITE3 'changes that are only beside the export are not left out in silence' '
    for s in wal journal; do
        cp payload.sqlite half.sqlite && echo changes >half.sqlite-$s &&
        fails half.sqlite | grep "half.sqlite: half.sqlite-$s holds changes" && : >half.sqlite-$s &&
        rm -rf emptied && "$argus" import nsys half.sqlite -o emptied && rm half.sqlite-$s || return 1
    done
'

test_expect_success SQLITE3 'processes of kernels: with the bits of a thread, or none' '
    for pid in "globalPid + 5" NULL; do
        cp payload.sqlite pid.sqlite && rm -rf pid &&
        sqlite3 pid.sqlite "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = $pid" &&
        "$argus" import nsys pid.sqlite -o pid >out && grep "^1 rank, 3 GPU kernels" out || return 1
    done
'

test_done
