#!/usr/bin/env python3
"""Reads the machine code of the compiled kernels: in bf16 each takes 16 bytes at once, and none divides 64 bits or computes
in float64 but those that are named here. Arguments: the kernels' objects. Exit code 0: so it is, 1: it is not, 77: there is no
cuobjdump, and nothing was looked at."""

import glob
import os
import re
import shutil
import subprocess
import sys

# Once a token, or once an update: by one thread each.
MAY_DIVIDE = {"draw_tokens_kernel"}
# The norm of all gradients is summed in float64, and an update's factors are made by one thread.
MAY_USE_FLOAT64 = {"partial_norm_kernel", "whole_norm_kernel", "add_norm_kernel", "descend_factors_kernel"}
# Loads and stores of 16 bytes, at least: as many as a thread's part has in the source, of bf16 one for a pack of 8 and of
# float32 two. A compiler unrolls loops, and then there are more; of the norms and of start_state_kernel clang 19 joins some, so
# these have what it leaves. What else there is reads few numbers, or from everywhere.
PACKED = {
    "accumulate_kernel": (2, 1), "adamw_kernel": (8, 7), "apply_gain_kernel": (2, 1), "causal_softmax_backward_kernel": (4, 1),
    "causal_softmax_kernel": (3, 1), "close_loss_kernel": (1, 1), "draw_weights_kernel": (0, 1), "embed_kernel": (2, 1),
    "gain_gradient_kernel": (1, 1), "gate_backward_kernel": (3, 2), "gate_kernel": (2, 1),
    "long_norm_backward_kernel": (9, 3), "long_norm_forward_kernel": (3, 2), "merge_loss_kernel": (2, 1),
    "momentum_kernel": (6, 5), "norm_backward_kernel": (11, 6), "norm_forward_kernel": (7, 8), "open_loss_kernel": (2, 1),
    "partial_largest_kernel": (1, 0), "partial_norm_kernel": (1, 0), "position_gradient_kernel": (2, 1),
    "quantize_kernel": (1, 0), "row_loss_kernel": (3, 1), "start_state_kernel": (1, 2), "store_sums_kernel": (2, 1),
    "sum_parts_kernel": (2, 1), "target_weights_kernel": (0, 1), "token_gradient_kernel": (2, 1),
}
OF_SUMS = {"accumulate_kernel", "partial_norm_kernel", "gain_gradient_kernel"}


def find_cuobjdump():
    """Beside nvcc, or in a Python package that brings one."""
    found = shutil.which("cuobjdump") or os.environ.get("PPSIM_CUOBJDUMP")
    places = ["/usr/local/cuda/bin/cuobjdump", "/opt/*/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump",
              sys.prefix + "/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump"]
    return found or next((file for place in places for file in sorted(glob.glob(place)) if os.access(file, os.X_OK)), None)


def kernels_of(cuobjdump, file):
    """Yields (name, mangled name, instructions)."""
    text = subprocess.run([cuobjdump, "-sass", file], check=True, capture_output=True, text=True).stdout
    for part in text.split("Function : ")[1:]:
        mangled, _, code = part.partition("\n")
        # nvcc names the anonymous namespace after the file, clang does not.
        name = next(filter(None, (re.search(where + r"\d([a-z]\w*?_kernel)", mangled)
                                  for where in (r"_cu_[0-9a-f]{8}\d*", r"_GLOBAL__N_1\d*", ""))), None)
        yield (name.group(1) if name else mangled.strip()), mangled.strip(), code


def faults(name, mangled, code):
    """Yields the faults of a kernel's code."""
    exact = "_kernelIm" in mangled  # the ring, which only tests compute in
    stored = "Bf16" in mangled or name in OF_SUMS or "_kernelILb1E" in mangled
    found = [len(re.findall(what + r"G?\.E\.128", code)) for what in ("LD", "ST")]
    if name not in MAY_USE_FLOAT64 and re.search(r"\bD(ADD|MUL|FMA|SETP)\b|\bMUFU\.\w*64H?\b", code):
        yield "computes in float64"
    # The reciprocal that the routine for 64 bits begins with; 32 bits have I2F.U32.RP.
    if name not in MAY_DIVIDE and not exact and "I2F.U64.RP" in code:
        yield "divides 64 bits"
    if "Lb1E" not in mangled or exact or not stored:
        return
    for does, count, expected in zip(("reads", "writes"), found, PACKED.get(name, (0, 0))):
        if count < expected:
            yield f"{does} 16 bytes at once in {count} places, expected at least {expected}"


def main():
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        print("SKIPPED: no cuobjdump: neither in PATH, nor beside nvcc, nor in a package of Triton; "
              "PPSIM_CUOBJDUMP names one", file=sys.stderr)
        return 77
    seen, bad = set(), 0
    for file in sys.argv[1:]:
        for name, mangled, code in kernels_of(cuobjdump, file):
            seen.add(name)
            for fault in faults(name, mangled, code):
                print(f"{os.path.basename(file)}: {name} {fault} ({mangled})")
                bad += 1
    for name in sorted((PACKED.keys() | MAY_DIVIDE | MAY_USE_FLOAT64) - seen):
        print(f"no kernel is called {name}")
        bad += 1
    print(f"{len(seen)} kernels, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
