"""Gradients and steps of `ppsim.torch.Runtime` on GPUs, or on one GPU that two processes share.

python studies/torch-runtime/gpu.py RESULTS.json                                  # NCCL; needs PyTorch 2.11 or later with CUDA
python studies/torch-runtime/gpu.py RESULTS.json --backend gloo --device cpu      # a rehearsal without a GPU

Each case runs in processes of its own with a limit of time, and RESULTS.json has every case that is over, the newest
last: what a later one does to the machine takes nothing away. Where there are fewer GPUs than processes, they share: NCCL
takes them for two hosts (NCCL_HOSTID) and sends over the loopback device. Then nothing here is a time of a real pipeline,
but `profile` and the step are measured alike.
"""

import argparse
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import time
import traceback
from typing import Any

SCHEDULES = ("gpipe", "1f1b", "zb-h1", "zb-v")
#: Gradients alone: pinned, repeated, and on two streams.
MORE = (("1f1b", {"offload": "all"}), ("1f1b", {"recompute": "full"}), ("dualpipe-v", {}))
RANKS, MICROBATCHES, STEPS = 2, 8, 11
CLOSE = 1e-12


def cases(chosen: list[str], what: list[str]) -> list[dict[str, Any]]:
    gradients = [{"what": "gradients", "schedule": name, "lowering": {}} for name in chosen]
    more = [{"what": "gradients", "schedule": name, "lowering": lowering} for name, lowering in MORE]
    every = gradients + [{"what": "step", "schedule": name, "lowering": {}} for name in chosen] + more
    return [case for case in every if case["what"] in what]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(rank: int, port: int, shared: bool) -> dict[str, str]:
    """shared: several processes have one GPU."""
    found = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    alone = {"NCCL_HOSTID": f"ppsim-{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
    return os.environ | found | (alone if shared else {})


def run(case: dict[str, Any], options: argparse.Namespace, shared: bool) -> dict[str, Any]:
    """Returns the answer of rank 0 to a case, or the reason for having none."""
    begin, port = time.monotonic(), free_port()
    command = [sys.executable, __file__, "--case", json.dumps(case), "--backend", options.backend,
               "--device", options.device, "--width", str(options.width), "--rows", str(options.rows)]
    processes = [
        subprocess.Popen(command, env=environment(rank, port, shared), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    ended = []
    for process in processes:
        try:
            ended.append(process.communicate(timeout=max(1.0, options.limit - (time.monotonic() - begin))))
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            ended.append(process.communicate())
    result: dict[str, Any] = {"seconds": round(time.monotonic() - begin, 1), "exit_codes": [p.returncode for p in processes]}
    said = [line for line in ended[0][0].splitlines() if line.startswith("{")]
    if any(result["exit_codes"]) or not said:
        late = result["seconds"] >= options.limit
        return result | {"failed": f"not over after {options.limit} s" if late else "see errors",
                         "errors": [error[-3000:] for _, error in ended]}
    return result | json.loads(said[-1])


def facts(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "backend": options.backend, "device": platform.processor() or "cpu",
                             "ranks": RANKS, "microbatches": MICROBATCHES, "width": options.width, "rows": options.rows,
                             "load": os.getloadavg()}
    if options.device == "cuda":
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        found |= {"device": names, "shared": len(names) < RANKS, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return found


def write(path: pathlib.Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(result, indent=1) + "\n")
    new.replace(path)


def lead(options: argparse.Namespace) -> int:
    """All cases one after another. Returns: how many were not as they should be."""
    result: dict[str, Any] = facts(options) | {"cases": []}
    wrong = 0
    for case in cases(options.schedules, options.what):
        one = case | run(case, options, bool(result.get("shared")))
        result["cases"].append(one)
        write(pathlib.Path(options.results), result)
        wrong += not one.get("good", False)
        shown = {key: value for key, value in one.items() if key not in ("errors", "exit_codes", "lowering")}
        print(json.dumps(shown | one["lowering"]), *one.get("errors", []), sep="\n", flush=True)
    return wrong


def model(width: int, layers: int, dtype: Any, seed: int) -> Any:
    from torch import nn

    import torch

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width, dtype=dtype)
            self.up, self.down = nn.Linear(width, 4 * width, dtype=dtype), nn.Linear(4 * width, width, dtype=dtype)

        def forward(self, x: Any) -> Any:
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    torch.manual_seed(seed)
    return nn.Sequential(*(Layer() for _ in range(layers)))


def gradients(case: dict[str, Any], options: argparse.Namespace, device: Any) -> dict[str, Any]:
    """In float64, beside those of the module without a pipeline on the same device."""
    import torch
    import torch.distributed as dist

    import ppsim
    import ppsim.torch

    schedule = ppsim.generate(case["schedule"], ranks=RANKS, microbatches=MICROBATCHES)
    program = ppsim.lower(schedule, with_=("reduce-grad",), **case["lowering"])
    parts = [model(64, 1, torch.float64, stage).to(device) for stage in range(schedule.stages)]
    torch.manual_seed(100)
    inputs, targets = (torch.randn(16 * MICROBATCHES, 64, dtype=torch.float64) for _ in range(2))
    rank = dist.get_rank()
    mine = {stage: parts[stage] for stage, owner in enumerate(schedule.placement) if owner == rank}
    proof = ppsim.check(program, transport=ppsim.torch.transport_of(options.backend))
    with ppsim.torch.Runtime(program, mine, proof, loss=torch.nn.functional.mse_loss, deadline_s=60) as runtime:
        for _ in range(3):  # the later ones find memory and kernels that others have used
            for part in mine.values():
                part.zero_grad()
            runtime.step(inputs, targets)
    found = [p.grad.clone() for part in mine.values() for p in part.parameters()]
    for part in parts:
        part.zero_grad()
    for x, target in zip(inputs.to(device).chunk(MICROBATCHES), targets.to(device).chunk(MICROBATCHES), strict=True):
        for part in parts:
            x = part(x)
        (torch.nn.functional.mse_loss(x, target) / MICROBATCHES).backward()
    expected = [p.grad for part in mine.values() for p in part.parameters()]
    worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))
    every: list[Any] = [None] * RANKS
    dist.all_gather_object(every, worst)
    return {"largest_difference": max(every), "good": max(every) <= CLOSE}


def step(case: dict[str, Any], options: argparse.Namespace, device: Any) -> dict[str, Any]:
    """Measured beside simulated from `profile`."""
    import torch
    import torch.distributed as dist

    import ppsim
    import ppsim.torch

    def sgd(parameters: list[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=1e-4)

    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    schedule = ppsim.generate(case["schedule"], ranks=RANKS, microbatches=MICROBATCHES)
    layers, rank = 4 * RANKS // schedule.stages, dist.get_rank()
    mine = {stage: model(options.width, layers, dtype, stage).to(device)
            for stage, owner in enumerate(schedule.placement) if owner == rank}
    inputs, targets = (torch.randn(options.rows * MICROBATCHES, options.width, dtype=dtype, device=device) for _ in range(2))
    loss, rows = torch.nn.functional.mse_loss, options.rows
    costs = ppsim.torch.profile(mine, inputs[:rows], loss=loss, targets=targets[:rows], optimizer=sgd)
    program = ppsim.lower(schedule, costs=costs, with_=("reduce-grad", "opt"))
    proof = ppsim.check(program, transport=ppsim.torch.transport_of(options.backend))
    with ppsim.torch.Runtime(program, mine, proof, loss=loss, optimizer=sgd, kept_traces=STEPS, costs=costs) as runtime:
        for _ in range(STEPS):
            dist.barrier()  # simulated ranks begin together, too
            runtime.step(inputs, targets)
        traces, own = runtime.traces(), runtime.costs()
    steps = [max(int(row.split(",")[5]) for row in trace.splitlines()[1:]) for trace in traces[1:]]
    measured = statistics.median(steps)

    def error(simulated: ppsim.Costs) -> float:
        return round(100 * (ppsim.simulate(program, costs=simulated).makespan_ns / measured - 1), 2)

    return {"measured_ms": measured / 1e6, "slowest_ms": max(steps) / 1e6, "fastest_ms": min(steps) / 1e6,
            "error_percent": error(costs), "error_from_its_own_steps_percent": error(own), "good": True}


def work(options: argparse.Namespace) -> None:
    """One process of a case."""
    import ppsim.torch

    ppsim.torch.prepare(options.backend)
    import torch
    import torch.distributed as dist

    device = torch.device("cpu")
    if options.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend, device_id=device if options.backend == "nccl" else None)
    case = json.loads(options.case)
    found = (gradients if case["what"] == "gradients" else step)(case, options, device)
    print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", help="JSON file that every case is added to")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--schedules", nargs="+", default=list(SCHEDULES))
    parser.add_argument("--what", nargs="+", choices=("gradients", "step"), default=["gradients", "step"])
    parser.add_argument("--limit", type=float, default=180, help="seconds for each case")
    parser.add_argument("--width", type=int, help="of the layers whose step is measured; default: 2048, on a CPU 256")
    parser.add_argument("--rows", type=int, help="of a microbatch; default: 4096, on a CPU 96")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if (options.backend == "nccl") != (options.device == "cuda"):
        parser.error("nccl sends from GPUs, and gloo here from CPUs: --backend gloo --device cpu, or neither")
    options.width = options.width or (2048 if options.device == "cuda" else 256)
    options.rows = options.rows or (4096 if options.device == "cuda" else 96)
    if options.case:
        try:
            work(options)
        except BaseException:
            traceback.print_exc()
            raise
        return 0
    if not options.results:
        parser.error("RESULTS.json is missing")
    return 1 if lead(options) else 0


if __name__ == "__main__":
    sys.exit(main())
