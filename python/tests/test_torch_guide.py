"""The first block of docs/torch.md runs as it stands, on four processes."""

import pathlib
import re

from torch_runs.needed import torch_or_skip

torch_or_skip()

from torch_runs.processes import values  # noqa: E402

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "torch.md"


def test_the_guide_runs_as_it_stands(tmp_path):
    block = re.findall(r"^```\n(import ppsim.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(block) == 1
    printed = values("guide:guide", 4, tmp_path, block[0])
    # The V ends where it begins: rank 0 has the last stage, and so the loss.
    assert [len([line for line in lines if line != "None"]) for lines in printed] == [2, 0, 0, 0]
    first, second = (float(re.findall(r"\d+\.\d+", line)[0]) for line in printed[0])
    assert 0 < second < 2 * first
