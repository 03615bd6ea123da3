"""Profiles a small Llama, chooses the schedule that is fastest with its costs, proves it, trains with it, and shows
what was simulated beside what was measured.

    torchrun --nproc-per-node 4 examples/python/choose_and_run.py            # gloo, on any machine
    torchrun --nproc-per-node 8 examples/python/choose_and_run.py nccl       # a GPU for each process

Rank 0 writes program.json, costs.json, measured.csv and report.html into the current folder.
"""

import os
import subprocess
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import ppsim
import ppsim.torch

WIDTH, HEADS, VOCABULARY, TOKENS, SEQUENCES = 128, 4, 512, 64, 2
MICROBATCHES, STEPS = 8, 6
CANDIDATES = {"1f1b": 1, "zb-h1": 1, "interleaved-1f1b": 2, "zb-v": 2}  # and stages on a rank


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        parts = self.query_key_value(x).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.before, self.between = Attention(), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.gate, self.up = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.before(x))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def stage(number: int, stages: int, layers: int) -> nn.Module:
    """A share of the layers, the embedding before the first and the head behind the last."""
    torch.manual_seed(number)
    parts: list[nn.Module] = [nn.Embedding(VOCABULARY, WIDTH)] if number == 0 else []
    parts += [Layer() for _ in range(layers // stages)]
    parts += [nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)] if number == stages - 1 else []
    return nn.Sequential(*parts)


def loss(logits: Any, targets: Any) -> Any:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def adam(parameters: list[Any]) -> Any:
    return torch.optim.AdamW(parameters, lr=1e-3)


def schedule(name: str, ranks: int, costs: ppsim.Costs | None = None) -> ppsim.Schedule:
    return ppsim.generate(name, ranks=ranks, microbatches=MICROBATCHES, costs=costs,
                          chunks=CANDIDATES[name] if name.startswith("interleaved") else None)


def batch(device: torch.device, step: int) -> tuple[Any, Any]:
    """The next token is the last one plus one."""
    torch.manual_seed(step)
    first = torch.randint(VOCABULARY, (MICROBATCHES * SEQUENCES, 1))
    tokens = (first + torch.arange(TOKENS + 1)) % VOCABULARY
    return tokens[:, :-1].to(device), tokens[:, 1:].to(device)


def my_stages(one: ppsim.Schedule, rank: int, device: torch.device) -> dict[int, nn.Module]:
    layers = 2 * one.ranks
    return {s: stage(s, one.stages, layers).to(device) for s, owner in enumerate(one.placement) if owner == rank}


def profiled(ranks: int, rank: int, device: torch.device) -> dict[str, ppsim.Costs]:
    """Of each candidate; those with the same stages on the same ranks share a measurement."""
    found: dict[tuple[int, ...], ppsim.Costs] = {}
    result = {}
    for name in CANDIDATES:
        one = schedule(name, ranks)
        key = tuple(one.placement)
        if key not in found:
            inputs, targets = (part[:SEQUENCES] for part in batch(device, 0))
            found[key] = ppsim.torch.profile(
                my_stages(one, rank, device), inputs, loss=loss, targets=targets, optimizer=adam
            )
        result[name] = found[key]
    return result


def main(backend: str) -> None:
    ppsim.torch.prepare(backend)  # before the devices are used: environment variables that NCCL and CUDA read once
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, device_id=device if backend == "nccl" else None)
    ranks, rank = dist.get_world_size(), dist.get_rank()

    costs = profiled(ranks, rank, device)
    programs = {
        name: ppsim.lower(schedule(name, ranks, costs[name]), costs=costs[name], with_=("reduce-grad", "opt"))
        for name in CANDIDATES
    }
    steps = {name: ppsim.simulate(program, costs=costs[name]) for name, program in programs.items()}
    best = min(steps, key=lambda name: steps[name].makespan_ns)
    program = programs[best]
    verdict = ppsim.check(program, transport=ppsim.torch.transport_of(backend))
    mine = my_stages(schedule(best, ranks, costs[best]), rank, device)

    with ppsim.torch.Runtime(program, mine, verdict, loss=loss, optimizer=adam, costs=costs[best]) as runtime:
        seconds, losses = [], []
        for number in range(STEPS):
            step = runtime.step(*batch(device, number))
            seconds.append(step.seconds)
            losses.append(step.loss)
        runtime.write_trace("measured.csv")
    if rank == 0:
        for name, run in steps.items():
            print(f"{name:18} simulated {run.makespan_ns / 1e6:8.2f} ms, bubble {100 * run.bubble_fraction:.0f} %")
        print(f"{best}: measured {1e3 * sorted(seconds)[len(seconds) // 2]:.2f} ms (median of {STEPS} steps)")
        overlay(program, costs[best])
    if losses[0] is not None:
        print(f"loss {float(losses[0]):.3f} -> {float(losses[-1]):.3f}")
    dist.destroy_process_group()


def overlay(program: ppsim.Program, costs: ppsim.Costs) -> None:
    """The measured step over the simulated one, as a page and as a table."""
    ppsim.write(program, "program.json")
    with open("costs.json", "w", encoding="utf-8") as file:
        file.write(costs.bound(program.compute_only()))
    command = [sys.executable, "-m", "ppsim", "simulate", "program.json", "--costs", "costs.json"]
    subprocess.run([*command, "--compare-trace", "measured.csv", "--report", "report.html"], check=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "gloo")
