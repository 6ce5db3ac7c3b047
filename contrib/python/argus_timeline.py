#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read an Argus job with h5py: an example that needs nothing of Argus.

  argus_timeline.py DIR            a table: who computes longer, who waits less
  argus_timeline.py DIR --plot F   and a picture of compute by rank and step (needs matplotlib)

DIR is a directory of timelines, or a job directory with step-* in it.  The
format is described in argus-timeline(5).
"""
import argparse
import glob
import os
import sys

try:
    import h5py
    import numpy as np
except ImportError as e:
    raise SystemExit(f"argus_timeline.py: {e}; h5py and numpy are needed")

WARMUP, GAP, PARTIAL = 0x1, 0x2, 0x40  # flags of a step that is not compared


def timelines(directory):
    """Paths of the newest step's timelines, open ones of a running job included."""
    for d in [directory] + sorted(glob.glob(os.path.join(directory, "step-*")), key=os.path.getmtime, reverse=True):
        paths = sorted(glob.glob(os.path.join(d, "rank-*.h5")) + glob.glob(os.path.join(d, "rank-*.h5.open")))
        if paths:
            return paths
    raise SystemExit(f"{directory}: no timelines (rank-*.h5)")


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def strings(f):
    """All interned strings of a timeline, by id."""
    heap = f["strings"][:].tobytes()
    return [heap[o : o + n].decode(errors="replace") for o, n in zip(f["strings_index"]["offset"], f["strings_index"]["length"])]


def read_rank(path):
    """One rank: its number, node, and per step the compute and communication time in ns."""
    with h5py.File(path, "r", swmr=path.endswith(".open"), locking=False) as f:
        steps = f["steps"][:]
        good = steps[(steps["flags"] & (WARMUP | GAP | PARTIAL)) == 0]
        names, classes, clusters = strings(f), f["classes"][:], f["clusters"][:]
        total = {}  # kernel -> ns, over all windows
        for row in clusters:
            name = names[classes["name"][row["class_id"]]] if row["class_id"] < len(classes) else "?"
            total[name] = total.get(name, 0) + int(row["sum"])
        return {
            "rank": int(f.attrs["rank"]),
            "node": text(f.attrs["node"]),
            "simulated": bool(f.attrs["simulated"]),
            "step": good["step"],
            "duration": good["end"] - good["start"],
            "compute": good["compute"],
            "comm": good["comm"],
            "kernels": sorted(total.items(), key=lambda kv: -kv[1]),
        }


def table(ranks):
    print("  rank node             steps   step ms  compute ms     comm ms  longest kernel")
    for r in ranks:
        ms = [np.median(r[k]) / 1e6 if len(r[k]) else float("nan") for k in ("duration", "compute", "comm")]
        kernel = r["kernels"][0][0][:32] if r["kernels"] else "-"
        print(f"{r['rank']:6d} {r['node']:16.16s} {len(r['step']):5d} {ms[0]:9.2f} {ms[1]:11.2f} {ms[2]:11.2f}  {kernel}")
    compute = np.array([np.median(r["compute"]) if len(r["compute"]) else np.nan for r in ranks])
    typical = np.nanmedian(compute)
    slowest = ranks[int(np.nanargmax(compute))]
    print(f"\nlongest compute: rank {slowest['rank']} on {slowest['node']}, {np.nanmax(compute) / typical:.2f}x of the median rank")
    if ranks[0]["simulated"]:
        print("(the GPUs were a stand-in: SIMULATED)")


def plot(ranks, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    last = max(int(r["step"][-1]) for r in ranks if len(r["step"]))
    cells = np.full((len(ranks), last + 1), np.nan)
    for i, r in enumerate(ranks):
        cells[i, r["step"]] = r["compute"] / 1e6
    fig, ax = plt.subplots(figsize=(10, 1 + 0.2 * len(ranks)))
    image = ax.imshow(cells, aspect="auto", interpolation="nearest", cmap="cividis")
    ax.set_xlabel("step")
    ax.set_ylabel("rank")
    fig.colorbar(image, label="compute, ms")
    fig.savefig(path, dpi=120, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir")
    parser.add_argument("--plot", metavar="FILE")
    args = parser.parse_args()
    ranks = []
    for path in timelines(args.dir):
        try:
            ranks.append(read_rank(path))
        except (OSError, KeyError) as e:
            print(f"{path}: {e}", file=sys.stderr)
    if not ranks:
        raise SystemExit(f"{args.dir}: no timeline could be read")
    table(ranks)
    if args.plot:
        plot(ranks, args.plot)


if __name__ == "__main__":
    main()
