#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='Timeline files: other tools read them, alive, torn and sealed'

. /usr/share/sharness/sharness.sh

dump=$ARGUS_BUILDDIR/timeline_dump
python=${ARGUS_PYTHON:-python3}

command -v h5dump >/dev/null && command -v h5ls >/dev/null && test_set_prereq H5TOOLS
"$python" -c 'import h5py, numpy' 2>/dev/null && test_set_prereq H5PY

test_expect_success 'timelines are written: sealed, open, and by a writer that is killed' '
    "$dump" --sample rank-00001.h5 sealed &&
    "$dump" --sample rank-00002.h5 open &&
    (exec "$dump" --sample rank-00003.h5 killed; true) 2>/dev/null;
    test -f rank-00001.h5 && test -f rank-00002.h5.open && test -f rank-00003.h5.open &&
    ! ls *.tmp 2>/dev/null
'

test_expect_success 'a sealed file is compact and carries no mark of a writer' '
    test "$(od -An -tu1 -j8 -N1 rank-00001.h5 | tr -d " ")" = 3 &&
    test "$(od -An -tu1 -j11 -N1 rank-00001.h5 | tr -d " ")" = 0 &&
    test "$(wc -c <rank-00001.h5)" -lt 40000
'

test_expect_success 'our reader finds the same rows in all three' '
    for f in rank-00001.h5 rank-00002.h5.open rank-00003.h5.open; do
        for d in comms classes steps step_comm clusters events marks stacks health anchors gaps
        do
            "$dump" $f $d >$f.$d && test "$(wc -l <$f.$d)" = 200 || return 1
        done &&
        "$dump" $f >$f.summary || return 1
    done &&
    for d in comms classes steps step_comm clusters events marks stacks health anchors gaps; do
        cmp rank-00001.h5.$d rank-00002.h5.open.$d && cmp rank-00001.h5.$d rank-00003.h5.open.$d ||
        return 1
    done &&
    grep "^@sealed.1$" rank-00001.h5.summary && grep "^@end.exit$" rank-00001.h5.summary &&
    grep "^@sealed.0$" rank-00003.h5.open.summary && grep "^@dropped_source.1,2,3,0,0,0,0,0$" \
        rank-00003.h5.open.summary
'

test_expect_success 'reading a torn file does not change it' '
    cksum rank-00003.h5.open >before &&
    "$dump" rank-00003.h5.open steps >/dev/null &&
    cksum rank-00003.h5.open >after && cmp before after
'

test_expect_success H5TOOLS 'h5dump and h5ls show every dataset, member and attribute' '
    for f in rank-00001.h5 rank-00002.h5.open rank-00003.h5.open; do
        h5ls $f >ls && h5dump -H $f >header || return 1
        "$dump" --layout | while read -r dataset member; do
            case $dataset in
            @*) grep -q "ATTRIBUTE \"${dataset#@}\"" header ;;
            *)  grep -q "^$dataset " ls &&
                { test -z "$member" || grep -q "\"$member\";" header; } ;;
            esac || { echo "$f: no $dataset $member"; exit 1; }
        done || return 1
    done
'

test_expect_success H5TOOLS 'h5dump prints the values' '
    h5dump -d steps -s 7 -c 1 rank-00003.h5.open >value &&
    start=$("$dump" rank-00003.h5.open steps start | sed -n 8p) &&
    grep -q " $start," value
'

cat >compare.py <<'PY'
import h5py, subprocess, sys
dump, path = sys.argv[1:]
f = h5py.File(path, "r", swmr=path.endswith(".open"))
heap, index = f["strings"][:].tobytes(), f["strings_index"][:]
name = lambda i: heap[index[i]["offset"]:][:index[i]["length"]].decode() if i < len(index) else ""
for d in f:
    if d in ("strings", "strings_index"):
        continue
    rows = f[d][:]
    ours = subprocess.run([dump, path, d], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    assert len(rows) == len(ours) == 200, (d, len(rows), len(ours))
    for row, line in zip(rows, ours):
        for member, text in zip(rows.dtype.names, line.split("\t")):
            value = row[member]
            if member in ("name", "members", "domain"):
                assert name(int(value)) == text or value >= len(index), (d, member, value, text)
            elif getattr(value, "shape", ()):
                assert ",".join(str(x) for x in value) == text, (d, member)
            elif value.dtype.kind == "f":
                assert float(text) == float(value), (d, member, value, text)
            else:
                assert str(int(value)) == text, (d, member, value, text)
assert f.attrs["node"].rstrip(b"\0") == b"n07" and f.attrs["records"] == 12
PY

test_expect_success H5PY 'h5py reads the same values as our reader' '
    for f in rank-00001.h5 rank-00002.h5.open rank-00003.h5.open; do
        "$python" compare.py "$dump" $f || return 1
    done
'

test_expect_success 'argus-timeline(5) tells every dataset, member and attribute' '
    "$dump" --layout >layout &&
    awk "/^\.SS /{set=\$2} /^\.SH ROOT/{set=\"@\"} /^\.SH DATASETS/{set=\"\"} /^\.B /{print set, \$2}" \
        "$ARGUS_SRCDIR/doc/argus-timeline.5" >told &&
    sed -n "s/^\.SS //p" "$ARGUS_SRCDIR/doc/argus-timeline.5" >sets &&
    while read -r dataset member; do
        case $dataset in
        @*) grep -qx "@ ${dataset#@}" told ;;
        *)  grep -qx "$dataset" sets &&
            { test -z "$member" || grep -qx "$dataset $member" told; } ;;
        esac || { echo "not told: $dataset $member"; return 1; }
    done <layout
'

test_done
