#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus import kineto: recorded traces with known answers, and bad ones'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
dump=$ARGUS_BUILDDIR/timeline_dump
data=$ARGUS_TEST_DATA

test -d "$data/slow-worker" && test_set_prereq SLOW_WORKER
test -d "$data/nccl-metadata" && test_set_prereq NCCL_METADATA
test -d "$data/dlrm" && test_set_prereq DLRM

# near WANT TOLERANCE: reads one number
near() {
    awk -v want="$1" -v by="$2" '{ d = $1 - want; if (d < 0) d = -d; exit !(NR == 1 && d <= by) }'
}

test_expect_success SLOW_WORKER 'slow-worker: every rank, 44 steps cut at the profiler marks' '
    "$argus" import kineto "$data"/slow-worker/rank-*.json.gz -o slow >out 2>err &&
    grep "^16 ranks, 116512 GPU kernels, 116512 events in slow$" out &&
    test_must_be_empty err &&
    test "$(ls slow/step-0/rank-*.h5 | wc -l)" = 16 &&
    for f in slow/step-0/rank-*.h5; do
        test "$("$dump" $f steps flags | sort -u)" = 20 &&
        test "$("$dump" $f steps step | wc -l)" = 44 || return 1
    done &&
    grep "\"source\": \"kineto\"" slow/job.json && grep "\"world\": 64" slow/job.json
'

mean_of() { # FILE KERNEL: mean duration in ms
    "$dump" "$1" classes name >names
    class=$(grep -n "^$2\$" names | head -1 | cut -d: -f1)
    "$dump" "$1" events class_id duration |
    awk -v c=$((class - 1)) '$2 == c { sum += $1; n++ } END { printf "%.1f\n", sum / n / 1e6 }'
}

test_expect_success SLOW_WORKER 'slow-worker: rank 0 computes as slowly as is known' '
    mean_of slow/step-0/rank-00000.h5 forward_microbatch | near 545.7 1.0 &&
    mean_of slow/step-0/rank-00004.h5 forward_microbatch | near 218 1.5 &&
    mean_of slow/step-0/rank-00012.h5 forward_microbatch | near 218 1.5
'

test_expect_success SLOW_WORKER 'slow-worker: groups agree over ranks, peers are ranks within them' '
    "$dump" slow/step-0/rank-00000.h5 comms hash name size rank members |
        grep "	pp_0_16	2	0	0,16$" >a &&
    "$dump" slow/step-0/rank-00016.h5 comms hash name size rank members |
        grep "	pp_0_16	2	1	0,16$" >b &&
    test "$(cut -f1 a)" = "$(cut -f1 b)" &&
    "$dump" slow/step-0/rank-00000.h5 classes func peer | grep -E "^9	1$" &&
    "$dump" slow/step-0/rank-00016.h5 classes func peer | grep -E "^10	0$" &&
    ! "$dump" slow/step-0/rank-00016.h5 comms hash | grep -v "^$(cut -f1 a)$" | grep -x "$(cut -f1 a)"
'

test_expect_success SLOW_WORKER 'slow-worker: the k-th send of rank 0 is the k-th receive of rank 16' '
    for r in 00000 00016; do
        "$dump" slow/step-0/rank-$r.h5 classes func peer | cat -n >classes.$r
    done &&
    send=$(awk "\$2 == 9 && \$3 == 1 { print \$1 - 1 }" classes.00000 | head -1) &&
    recv=$(awk "\$2 == 10 && \$3 == 0 { print \$1 - 1 }" classes.00016 | head -1) &&
    "$dump" slow/step-0/rank-00000.h5 events class_id seq | awk -v c=$send "\$1 == c {print \$2}" \
        >sends &&
    "$dump" slow/step-0/rank-00016.h5 events class_id seq | awk -v c=$recv "\$1 == c {print \$2}" \
        >recvs &&
    test "$(wc -l <sends)" -gt 100 && cmp sends recvs &&
    awk "\$1 != NR - 1 { exit 1 }" sends
'

test_expect_success NCCL_METADATA 'nccl-metadata: functions, sizes, types and groups of all 21 collectives' '
    "$argus" import kineto "$data"/nccl-metadata/nccl_data.json.gz -o nccl >out 2>err &&
    test_must_be_empty err &&
    f=nccl/step-0/rank-00000.h5 &&
    test "$("$dump" $f steps comms | tr "\n" " ")" = "7 7 7 " &&
    "$dump" $f comms name size rank members | grep "^0	2	0	0,1$" &&
    "$dump" $f classes kind func dtype bytes flags >classes &&
    awk "\$1 == 2" classes >comm && test "$(wc -l <comm)" = 7 &&
    grep "^2	1	7	0	26550272$" comm &&
    ! awk "\$4 != 0 || \$5 == 0 || \$2 == 0 || \$3 == 255" comm | grep .
'

test_expect_success NCCL_METADATA 'nccl-metadata: the third step reduces as slowly as is known' '
    f=nccl/step-0/rank-00000.h5 &&
    "$dump" $f classes kind func | cat -n | awk "\$2 == 2 && \$3 == 1 {print \$1 - 1}" >ids &&
    "$dump" $f events start duration class_id step seq |
        awk "NR == FNR { want[\$1]; next } \$3 in want && n[\$4]++ < 3 { print \$4, \$2 / 1e6 }" \
            ids - >three &&
    awk "\$1 == 2 && (\$2 < 5.7 || \$2 > 6.1) || \$1 < 2 && (\$2 < 0.5 || \$2 > 3.4) { exit 1 }
         END { exit NR != 9 }" three
'

test_expect_success NCCL_METADATA 'nccl-metadata: times are nanoseconds since 1970' '
    "$dump" nccl/step-0/rank-00000.h5 steps start | head -1 |
        awk "{ exit !(\$1 > 1716423322000000000 && \$1 < 1716423324000000000) }"
'

test_expect_success DLRM 'dlrm: all ranks of one step, one communicator assumed and said so' '
    mkdir dlrm.in && tar -xzf "$data"/dlrm/dlrm_kineto.tar.gz -C dlrm.in &&
    "$argus" import kineto dlrm.in/*/*.json -o dlrm >out 2>err &&
    grep "^8 ranks, 2104 GPU kernels" out &&
    grep "note: no communicators in the traces; all 8 ranks ran the same 8 collectives" err &&
    for r in 0 1 2 3 4 5 6 7; do
        f=dlrm/step-0/rank-0000$r.h5
        "$dump" $f comms name size rank members | grep -x "world	8	$r	0,1,2,3,4,5,6,7" &&
        test "$("$dump" $f steps comms)" = 8 || return 1
    done
'

test_expect_success DLRM 'dlrm: collectives end together; rank 7 comes last to the first by 7.5 ms' '
    for r in 0 1 2 3 4 5 6 7; do
        f=dlrm/step-0/rank-0000$r.h5
        "$dump" $f classes kind | cat -n | awk "\$2 == 2 {print \$1 - 1}" >ids &&
        "$dump" $f events start duration class_id seq |
            awk -v r=$r "NR == FNR { want[\$1]; next }
                         \$3 in want { printf \"%d %d %.0f %.0f\n\", \$4, r, substr(\$1, 9) + 0,
                                       \$2 }" ids - || return 1
    done | sort -n -k1,1 -k2,2 >calls &&
    test "$(wc -l <calls)" = 64 &&
    awk "{ end = \$3 + \$4; if (!(\$1 in low) || end < low[\$1]) low[\$1] = end;
           if (end > high[\$1]) high[\$1] = end }
         END { for (c in low) if (high[c] - low[c] > 8000) exit 1 }" calls &&
    for c in 0 1 2 3 4; do
        test "$(awk "\$1 == $c" calls | sort -n -k4,4 | head -1 | cut -d" " -f2)" = 7 || return 1
    done &&
    awk "\$1 == 0" calls | sort -n -k3,3 | awk "{ start[NR] = \$3; rank[NR] = \$2 }
         END { d = start[8] - start[1]; exit !(rank[8] == 7 && d > 7.4e6 && d < 7.7e6) }"
'

test_expect_success DLRM 'ranks that disagree are not matched, and that is said' '
    "$argus" import kineto dlrm.in/*/worker[0-2]*.json -o part >out 2>err &&
    grep "those are not matched$" err &&
    test "$("$dump" part/step-0/rank-00001.h5 comms hash | wc -l)" = 0
'

# What the next tests need of a trace.
kernel() { # START DURATION NAME [ARGS]
    printf '{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":7,"ts":%s,"dur":%s,"args":{"stream":7%s}}' \
        "$3" "$1" "$2" "$4"
}

test_expect_success 'fractions of microseconds are exact, old categories are known' '
    { printf "{\"traceEvents\":[" && kernel 1700000000000000.123 10.5 a && echo , &&
      kernel 1700000000000020 0.001 b | sed s/\"kernel\"/\"Kernel\"/ && echo "]}"; } >rank3.json &&
    "$argus" import kineto rank3.json -o exact >out &&
    "$dump" exact/step-0/rank-00003.h5 events start duration >got &&
    printf "1700000000000000123	10500\n1700000000000020000	1\n" >want && test_cmp want got
'

test_expect_success 'inf and nan, which JSON does not know, do no harm; names with them stay' '
    { printf "{\"traceEvents\":[" && kernel 1 2 nan ",\"x\":inf,\"y\":-inf,\"z\":[NaN,Infinity]" &&
      echo , && kernel 1e1 2 "a:inf,b" ",\"w\":nan" && echo "]}"; } >inf.json &&
    "$argus" import kineto inf.json -o inf >out &&
    "$dump" inf/step-0/rank-00000.h5 classes name >got && printf "nan\na:inf,b\n" >want &&
    test_cmp want got
'

test_expect_success 'the host is in the name that torch gives a file' '
    { printf "{\"distributedInfo\":{\"rank\":0,\"world_size\":1},\"traceEvents\":[" && kernel 1 2 a &&
      echo "]}"; } >gpu_node-07.site_4711.1694128201553.pt.trace.json &&
    "$argus" import kineto gpu_node-07.site_4711.1694128201553.pt.trace.json -o host >out &&
    "$dump" host/step-0/rank-00000.h5 >info &&
    grep "^@node	gpu_node-07.site$" info && grep "^@pid	4711$" info &&
    for name in worker7_step_12.1694128201553 a.1694128201553 a_1.77 _1.1694128201553; do
        cp gpu_node-07.site_4711.1694128201553.pt.trace.json $name.pt.trace.json &&
        "$argus" import -f kineto $name.pt.trace.json -o host >out &&
        "$dump" host/step-0/rank-00000.h5 | grep "^@node	$" || return 1
    done
'

test_expect_success 'such a word may lie across two reads' '
    for pad in $(seq 262026 262040); do
        { printf "{\"traceEvents\":[%${pad}s" "" && kernel 1 2 k ",\"x\":-inf" && echo "]}"; } >across.json &&
        "$argus" import kineto across.json -f -o across >out || return 1
    done
'

test_expect_success 'a trace of one unmarked step has one step' '
    test "$("$dump" exact/step-0/rank-00003.h5 steps start end)" = \
        "1700000000000000123	1700000000000020002" # the last event is inside
'

test_expect_success 'events in any order, unknown keys, top-level list of events' '
    { printf "[" && kernel 30 1 c && echo , && kernel 10 1 a ",\"odd\":[[{}],{\"a\":null}]" &&
      echo , && kernel 20 1 b && echo "]"; } >list.json &&
    "$argus" import kineto list.json -o list >out &&
    test "$("$dump" list/step-0/rank-00000.h5 events start | tr "\n" " ")" = "10000 20000 30000 "
'

test_expect_success 'what stands within another argument is none of ours' '
    { printf "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"ts\":1,\"dur\":2,\"args\":" &&
      echo "{\"stream\":7,\"x\":{\"stream\":99},\"grid\":[2,1,1]}}]}"; } >inner.json &&
    "$argus" import kineto inner.json -o inner && test "$("$dump" inner/step-0/rank-00000.h5 events stream)" = 7 &&
    test "$("$dump" inner/step-0/rank-00000.h5 classes grid)" = 2,1,1
'

test_expect_success 'a shortened list of ranks is completed, the launch tells the stream' '
    { printf "{\"distributedInfo\":{\"rank\":33,\"world_size\":64},\"traceEvents\":[" &&
      kernel 10 5 ncclDevKernel_AllReduce_Sum_bf16_RING_LL ",\"correlation\":4,
        \"Collective name\":\"allreduce\",\"In msg nelems\":1000,\"Out msg nelems\":1000,
        \"dtype\":\"BFloat16\",\"Group size\":32,\"Process Group Name\":\"7\",
        \"Process Group Ranks\":\"[1, 3, 5, ..., 63]\"" &&
      printf ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernelExC\",\"pid\":9,\"tid\":9,\"ts\":2,\"dur\":1,\"args\":{\"correlation\":4}}]}"; } >short.json &&
    "$argus" import kineto short.json -o short >out &&
    "$dump" short/step-0/rank-00033.h5 comms size rank members >comm &&
    grep "^32	16	1,3,5,.*,61,63$" comm &&
    test "$("$dump" short/step-0/rank-00033.h5 classes kind bytes dtype | sed -n 2p)" = "2	9	2000" &&
    test "$("$dump" short/step-0/rank-00033.h5 events stream | tr "\n" " ")" = "7 7 "
'

test_expect_success 'traces that begin at different steps: said' '
    for r in 0 1; do
        { printf "{\"distributedInfo\":{\"rank\":$r,\"world_size\":2},\"traceEvents\":[" &&
          printf "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1$r\",\"tid\":1,\"ts\":1,\"dur\":50}," &&
          kernel 10 5 a && echo "]}"; } >begin$r.json || return 1
    done &&
    "$argus" import kineto begin0.json begin1.json -o begin >out 2>err &&
    grep "begin at different steps (rank 0: 10, rank 1: 11)" err
'

fails() { # FILES...: import fails with one line, leaves nothing
    rm -rf bad && test_expect_code 1 "$argus" import kineto "$@" -o bad >out 2>err &&
    test "$(wc -l <err)" = 1 && ! test -e bad && cat err
}

test_expect_success 'bad traces: one clear line each, nothing left behind' '
    echo "{\"traceEvents\":[" >cut.json && fails cut.json | grep "cut.json: .*truncated" &&
    gzip -c rank3.json >whole.json.gz &&
    head -c 60 whole.json.gz >cut.json.gz && fails cut.json.gz | grep "cut.json.gz: .*truncated\|unexpected end" &&
    echo "{\"a\":1}" >other.json && fails other.json | grep "other.json: no \"traceEvents\"" &&
    echo "{\"traceEvents\":[]}" >empty.json && fails empty.json | grep "empty.json: no GPU kernels" &&
    echo "{]" >syntax.json && fails syntax.json | grep "syntax.json: not valid JSON" &&
    : >nothing.json && fails nothing.json | grep "nothing.json: " &&
    fails missing.json | grep "missing.json: No such file" &&
    fails . | grep "not a regular file" &&
    for base in 9223372036854775807 -9223372036854775808 2000000000000000001; do
        { printf "{\"baseTimeNanoseconds\":$base,\"traceEvents\":[" && kernel 2000000000000000 5 a && echo "]}"; } >base.json &&
        fails base.json | grep "base.json: \"baseTimeNanoseconds\" is out of range" || return 1
    done &&
    { printf "{\"traceEvents\":[" && kernel \"10\" 5 a && echo "]}"; } >text.json &&
    fails text.json | grep "text.json: no GPU kernels .* but for 1 events without usable times" &&
    awk "BEGIN { for (i = 0; i < 2000; i++) printf \"[\" }" >deep.json &&
    fails deep.json | grep "deep.json: nested more than 1024 deep" &&
    cp rank3.json a-rank3.json && fails rank3.json a-rank3.json | grep "both are of rank 3" &&
    cp rank3.json noname.json && fails list.json noname.json | grep "tells the rank"
'

test_expect_success 'bad traces: what the directory held before stays' '
    mkdir -p mine/step-0 && test_expect_code 1 "$argus" import kineto cut.json -o mine && test -d mine/step-0 &&
    echo "{}" >mine/job.json && test_expect_code 1 "$argus" import kineto cut.json -o mine && test -f mine/job.json
'

test_expect_success 'existing timelines are kept unless --force' '
    test_expect_code 1 "$argus" import kineto rank3.json -o exact 2>err &&
    grep "rank-00003.h5: exists already" err &&
    "$dump" exact/step-0/rank-00003.h5 >/dev/null &&
    "$argus" import kineto rank3.json -o exact --force
'

test_expect_success 'usage errors exit with 2' '
    test_expect_code 2 "$argus" import 2>err && test_expect_code 2 "$argus" import perf x -o d 2>err &&
    grep "no format \"perf\"" err && test_expect_code 2 "$argus" import kineto rank3.json 2>err &&
    grep "no output directory" err && test_expect_code 2 "$argus" import kineto -o d 2>err &&
    test_expect_code 2 "$argus" import kineto --what -o d 2>err &&
    "$argus" import --help | grep "Usage: argus import"
'

test_done
