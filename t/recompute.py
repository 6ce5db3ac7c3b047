#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recompute the numbers of a verdict from the timelines alone.

Usage: recompute.py DIR: DIR holds rank-*.h5 and verdict.json.  Prints a line
for every number; exit status 1 when one is off by more than a hundredth.
"""
import glob
import json
import sys

import h5py
import numpy as np

WARMUP, GAP, PARTIAL = 0x1, 0x2, 0x40
COMPUTE, COMM = 1, 2
ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, ALLTOALL = range(1, 7)
SEND, RECV = 9, 10


class Rank:
    def __init__(self, path):
        f = h5py.File(path, "r")
        self.rank = int(f.attrs["rank"])
        self.steps = f["steps"][:]
        self.step_comm = f["step_comm"][:]
        self.clusters = f["clusters"][:]
        self.classes = f["classes"][:]
        self.comms = f["comms"][:]
        index, heap = f["strings_index"][:], bytes(f["strings"][:])
        self.name = [heap[i["offset"]:i["offset"] + i["length"]].decode() for i in index]
        self.at = {int(s["step"]): s for s in self.steps}

    def value(self, column, k):
        s = self.at.get(k)
        if s is None:
            return np.nan
        return float(s["end"] - s["start"]) if column == "duration" else float(s[column])


def bandwidth(size, func, count, work):
    """algbw and busbw in GB/s by the convention of nccl-tests; bytes as a rank passes them."""
    n = float(size)
    data, factor = {
        BROADCAST: (count, 1), REDUCE: (count, 1), SEND: (count, 1), RECV: (count, 1),
        ALLREDUCE: (count, 2 * (n - 1) / n),
        ALLGATHER: (count * n, (n - 1) / n),
        REDUCESCATTER: (count * n, (n - 1) / n),
        ALLTOALL: (count * n, (n - 1) / n),
    }[func]
    return data / work, data / work * factor


class Job:
    def __init__(self, directory):
        self.ranks = [Rank(p) for p in sorted(glob.glob(directory + "/rank-*.h5"))]
        self.by_rank = {r.rank: r for r in self.ranks}
        last = max(int(r.steps["step"].max()) for r in self.ranks)
        bad = WARMUP | GAP | PARTIAL
        self.used = [k for k in range(last + 1)
                     if all(k in r.at and not r.at[k]["flags"] & bad for r in self.ranks)]

    def median_step(self):
        return np.median([np.median([r.value("duration", k) for r in self.ranks])
                          for k in self.used])

    def ratio(self, rank, first, end, column="compute"):
        """Median over steps of the rank's time over the median of its peers (all others)."""
        q = []
        for k in self.used:
            if first <= k < end:
                x = [r.value(column, k) for r in self.ranks
                     if len(self.ranks) >= 8 or r.rank != rank]
                q.append(self.by_rank[rank].value(column, k) / np.median(x))
        return np.median(q)

    def typical(self, rank, first, end):
        """Kernel class -> (typical duration, time) over the windows inside [first, end)."""
        r, out = self.by_rank[rank], {}
        for c in r.clusters:
            k = r.classes[c["class_id"]]
            if k["kind"] != COMPUTE or c["first_step"] < first or c["last_step"] >= end:
                continue
            key = (r.name[k["name"]], tuple(k["grid"]), tuple(k["block"]))
            window = out.setdefault(key, {}).setdefault((c["first_step"], c["last_step"]), [])
            window.append((int(c["count"]), float(c["p50"]), float(c["sum"])))
        result = {}
        for key, windows in out.items():
            calls = time = weighted = 0.0
            for modes in windows.values():
                n = sum(m[0] for m in modes)
                major = [m for m in modes if m[0] >= 0.03 * n]
                x = sum(m[0] * m[1] for m in major) / sum(m[0] for m in major)
                weighted += x * n
                calls += n
                time += sum(m[2] for m in modes)
            result[key] = (weighted / calls, time, calls)
        return result

    def score(self, rank, first, end):
        own = self.typical(rank, first, end)
        others = [self.typical(r.rank, first, end) for r in self.ranks if r.rank != rank]
        total = sum(t for _, t, n in own.values())
        num = den = 0.0
        worst = (0.0, None, None)
        for key, (x, time, calls) in own.items():
            ref = [o[key][0] for o in others if key in o]
            if not ref or calls < 5:
                continue
            ref = float(np.median(ref))
            num += time / total * ref / x
            den += time / total
            worst = max(worst, ((x - ref) * calls, x, ref), key=lambda w: w[0])
        return num / den, worst[1], worst[2]

    def idle(self, rank):
        r = self.by_rank[rank]
        base = {x.rank: np.median([x.value("idle", k) for k in self.used]) for x in self.ranks}
        usual = min(base[rank], np.median(list(base.values())))
        typical = self.median_step()
        stalls = [r.value("idle", k) - usual for k in self.used]
        stalls = [s for s in stalls if s >= max(1e6, 0.02 * typical)]
        return np.median(stalls), len(stalls)

    def link(self, first, end):
        """Median over steps of work / median work of the others of its shape; algbw; busbw."""
        work, shape = {}, {}
        for r in self.ranks:
            for row in r.step_comm:
                k = r.classes[row["class_id"]]
                if k["kind"] != COMM:
                    continue
                comm = r.comms[k["comm"]]
                key = (int(comm["hash"]), int(k["func"]), int(k["bytes"]))
                shape[key] = (int(comm["size"]), int(k["func"]), int(k["bytes"]))
                per = work.setdefault(key, {})
                step = int(row["step"])
                per[step] = min(per.get(step, 1 << 62), int(row["min"]))
        out = []
        for key, per in work.items():
            kin = [o for o in work if shape[o] == shape[key] and o != key]
            if len(kin) < 2:
                continue
            steps = [k for k in self.used if first <= k < end]
            ratio = np.median([per[k] / np.median([work[o][k] for o in kin]) for k in steps])
            algbw, busbw = bandwidth(*shape[key], np.median([per[k] for k in steps]))
            out.append((ratio, algbw, busbw))
        return max(out)


def main():
    job = Job(sys.argv[1])
    verdict = json.load(open(sys.argv[1] + "/verdict.json"))
    onset = verdict["onset_step"] if verdict["onset_step"] is not None else 0
    end = verdict["recovered_step"] if verdict["recovered_step"] is not None else 1 << 30
    bad = checked = 0

    def check(what, said, found):
        nonlocal bad, checked
        wrong = not abs(said / found - 1) < 0.01
        bad += wrong
        checked += 1
        print("%-24s %14.6g %14.6g%s" % (what, said, found, "  OFF" if wrong else ""))

    check("step_ms_p50", verdict["job"]["step_ms_p50"], job.median_step() / 1e6)
    check("steps_compared", verdict["data_quality"]["steps_compared"], len(job.used))
    hours = np.mean([float((r.steps["end"] - r.steps["start"]).sum()) for r in job.ranks])
    check("job.gpu_hours", verdict["job"]["gpu_hours"], hours * len(job.ranks) / 3.6e12)
    if verdict["cost"]["share"] > 0:
        check("cost.gpu_hours", verdict["cost"]["gpu_hours"],
              verdict["cost"]["share"] * verdict["job"]["gpu_hours"])
    for e in verdict["evidence"]:
        signal, rank, value = e["signal"], e["rank"], e["value"]
        if signal == "compute_ratio":
            check(signal, value, job.ratio(rank, onset, end))
        elif signal == "compute_score" and onset == 0:
            score, x, ref = job.score(rank, 3, end)
            check(signal, value, score)
        elif signal == "kernel_us" and onset == 0:
            score, x, ref = job.score(rank, 3, end)
            check(signal, value, x / 1e3)
            check("kernel_us of peers", e["peers"], ref / 1e3)
        elif signal == "idle_gap_ms":
            check(signal, value, job.idle(rank)[0] / 1e6)
        elif signal == "stalled_steps":
            check(signal, value, job.idle(rank)[1])
        elif signal == "link_residual":
            check(signal, value, job.link(onset, end)[0])
        elif signal in ("algbw_gbps", "busbw_gbps"):
            ratio, algbw, busbw = job.link(onset, end)
            bw = algbw if signal == "algbw_gbps" else busbw
            check(signal, value, bw)
            check(signal + " of peers", e["peers"], bw * ratio)
    print("%d numbers, %d off" % (checked, bad))
    return 1 if bad or checked < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
