"""Does Megatron-LM read the layouts that ppsim prints as they are meant?  layouts.py PPSIM

Needs megatron-core from PyPI. Every layout is parsed by Megatron's own PipelineParallelLayerLayout and compared, stage by
stage, with how many layers ppsim puts there; stages are numbered along the model, and stage s is chunk s / p of rank s mod p.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable

import megatron.core
from megatron.core.transformer.enums import LayerType
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

MODELS = {"llama3-8b": 32, "llama3-70b": 80, "gpt3-175b": 96, "llama3.1-405b": 126}


def cases() -> Iterable[tuple[str, int, int, str]]:
    for model, layers in MODELS.items():
        for ranks in (2, 4, 8, 16):
            for chunks in (1, 2, 3, 5):
                for layout in ("even", "auto"):
                    if ranks * chunks <= layers:
                        yield model, ranks, chunks, layout


def printed(ppsim: str, model: str, ranks: int, chunks: int, layout: str) -> str:
    name = ["interleaved-1f1b", "--chunks", str(chunks)] if chunks > 1 else ["1f1b"]
    command = [ppsim, "simulate", *name, "--model", model, "--cluster", "dgx-h100", "--nodes", str(max(1, ranks // 8))]
    command += ["--tp", str(max(1, 8 // ranks)), "--pp", str(ranks), "--global-batch-size", str(2 * ranks), "--layout", layout]
    ended = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    return str(json.loads(ended.stdout)["layout"])


def stages_of(text: str) -> list[str]:
    """E, t and L of each stage, by the notation alone."""
    while "*" in text:
        text = re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), text)
        text = re.sub(r"([EtmL|])\*(\d+)", lambda found: found[1] * int(found[2]), text)
    return text.replace(",", "").split("|")


def read_by_megatron(text: str, ranks: int) -> list[str]:
    letters = {LayerType.embedding: "E", LayerType.decoder: "t", LayerType.mtp: "m", LayerType.loss: "L"}
    table = PipelineParallelLayerLayout.from_str(text, ranks).layout
    chunks = len(table[0])
    return ["".join(letters[layer] for layer in table[s % ranks][s // ranks]) for s in range(ranks * chunks)]


def main(ppsim: str) -> int:
    wrong, texts, count = [], set(), 0
    for model, ranks, chunks, layout in cases():
        text = printed(ppsim, model, ranks, chunks, layout)
        ours, theirs = stages_of(text), read_by_megatron(text, ranks)
        count, texts = count + 1, texts | {text}
        if ours != theirs or "".join(ours).count("t") != MODELS[model]:
            wrong.append(f"{model} p={ranks} v={chunks} {layout}: {text}: {theirs}")
    print(f"megatron-core {megatron.core.__version__}: {count} layouts, {len(texts)} different, {len(wrong)} read otherwise")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
