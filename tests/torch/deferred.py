"""Counts the effects of deferred receives (defer_pp_recv) on PyTorch's schedules.

deferred.py PPSIM RESULTS lowers every schedule of several stages a rank twice, by PyTorch's own functions, with receives
where its default lowering has them and with deferred ones, verifies all files under every communicator policy, and
writes the counts as JSON. scripts/test_torch --deferred makes the environment for it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.distributed.pipelining import schedules

import generators
import hangs

RANKS = (2, 3, 4, 5, 6, 8)
MICROBATCHES = range(1, 17)
SCHEDULES = ("gpipe", "looped-bfs", "interleaved-1f1b", "interleaved-zb", "zb-v", "dualpipe-v")
POLICIES = ("per-rank", "per-pair", "per-edge", "per-stage-edge")


def _of_single_stages(schedule):
    """PyTorch runs a schedule of one stage a rank by hand; this is the lowering that its order would get otherwise."""
    schedule.stage_index_to_group_rank = {rank: rank for rank in schedule.pipeline_order}
    rows = {rank: [a for a in row if a and a.microbatch_index is not None] for rank, row in schedule.pipeline_order.items()}
    rows = schedules._add_send_recv(rows, stage_to_rank=lambda stage: stage, num_stages=len(rows))
    return schedules._add_wait_send(rows) if hasattr(schedules, "_add_wait_send") else rows


def lowered(schedule, receives):
    """PyTorch's compute_comms rows, its receives as lowered or deferred."""
    rows = getattr(schedule, "pipeline_order_with_comms", None) or _of_single_stages(schedule)
    if receives == "deferred":
        rows = schedules._defer_recv_ops(rows, stage_to_rank=lambda s: schedule.stage_index_to_group_rank[s])
    return rows


def write_rows(rows, path):
    lines = (",".join(map(str, rows[rank])) for rank in sorted(rows))
    path.write_text("".join(line + "\r\n" for line in lines))


def _make_files(name, folder):
    """Two files for each combination that PyTorch accepts; returns their number and that of refusals."""
    made = refused = 0
    for ranks in RANKS:
        for microbatches in MICROBATCHES:
            for chunks in generators.GENERATORS[name][1] or (1,):
                try:
                    schedule = generators.generate(name, ranks, microbatches, chunks)
                except (ValueError, AssertionError):
                    refused += 1
                    continue
                made += 1
                for receives in ("default", "deferred"):
                    path = folder / receives / f"p{ranks}-n{microbatches:02}-v{chunks}.csv"
                    write_rows(lowered(schedule, receives), path)
    return made, refused


def _verify(ppsim, folder):
    properties = "well_formed,matched,deadlock_free"
    command = [ppsim, "verify", str(folder), "--communicators", "all", "--properties", properties, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["results"]


def _kind(result):
    """A file that mixes tensors up may hang as well, which ppsim does not ask, and hangs.py does."""
    hangs_too = hangs.hangs(Path(result["file"]), result["communicators"])
    if "mis-order" == (kind := _verdict(result)):
        return "mis-order and deadlock" if hangs_too else kind
    if hangs_too != (kind == "deadlock"):
        raise AssertionError(f"{result['file']}, {result['communicators']}: ppsim says {kind}, hangs.py does not")
    return kind


def _verdict(result):
    if result["verdict"] == "proved":
        return "proved"
    if result["verdict"] != "refuted":
        return "undecided"
    refuted = [name for name, p in result["properties"].items() if p["verdict"] == "refuted"]
    if refuted == ["deadlock_free"]:
        return "deadlock"
    return "mis-order" if refuted == ["matched"] else "other"


def _size(case):
    return tuple(int(part[1:]) for part in case.split("-"))


def _summary(results):
    """For each policy how many files there are of each kind, and the smallest one."""
    found = {policy: {} for policy in POLICIES}
    for result in results:
        kind, case = _kind(result), Path(result["file"]).stem
        entry = found[result["communicators"]].setdefault(kind, {"count": 0, "smallest": case})
        entry["count"] += 1
        entry["smallest"] = min(entry["smallest"], case, key=_size)
    return found


def check(ppsim, name):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for receives in ("default", "deferred"):
            (folder / receives).mkdir()
        made, refused = _make_files(name, folder)
        found = {"files": made, "refused_by_pytorch": refused}
        for receives in ("default", "deferred"):
            found[receives] = _summary(_verify(ppsim, folder / receives))
    return found


def main(ppsim, results):
    found, good = {"versions": {"torch": torch.__version__, "ppsim": generators.version_of(ppsim)}}, True
    for name in SCHEDULES:
        found[name] = result = check(ppsim, name)
        good &= all(set(of_policy) == {"proved"} for of_policy in result["default"].values())
        print(f"{name}: {result['files']} files a lowering, {result['refused_by_pytorch']} refused", flush=True)
        for policy, kinds in result["deferred"].items():
            print("   deferred", policy, {kind: entry["count"] for kind, entry in kinds.items()}, flush=True)
    Path(results).write_text(json.dumps(found, indent=1) + "\n")
    print(f"default lowering: {'every file is proved under every policy' if good else 'NOT all proved'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
