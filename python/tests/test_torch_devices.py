"""What is for GPUs, on stand-ins for streams and devices: no GPU has run this."""

import contextlib
from types import SimpleNamespace

import pytest

from torch_runs.needed import torch_or_skip

torch_or_skip()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from ppsim.execution import Action  # noqa: E402
from ppsim.torch.meeting import default_backend  # noqa: E402
from ppsim.torch.perform import Performer  # noqa: E402
from ppsim.torch.transfers import _of_members_alone  # noqa: E402


class FakeStream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self._log = name, log

    def wait_stream(self, other: "FakeStream") -> None:
        self._log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def overlap(monkeypatch):
    """Runs overlapped pairs of ((stage, microbatch) of the forward, of the backward); gives what ran where."""
    log: list[str] = []
    here, now = FakeStream("here", log), []

    @contextlib.contextmanager
    def used(stream):
        now.append(stream.name)
        yield
        now.pop()

    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: here)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _: FakeStream("beside", log))
    monkeypatch.setattr(torch.cuda, "stream", used)
    stage = SimpleNamespace(device=torch.device("cuda"))
    performer = Performer(None, {0: stage, 1: stage}, None, None, None)
    for kind in "FB":
        performer._do[kind] = lambda action: log.append(f"{action.subject}{action.kind}{action.number} {now[-1]}")

    def run(forward: tuple[int, int], backward: tuple[int, int]) -> list[str]:
        log.clear()
        performer._overlap(_action("F", *forward), _action("B", *backward))
        assert (log[0], log[-1]) == ("beside waits for here", "here waits for beside")
        return log[1:-1]

    return run


def _action(kind: str, stage: int, microbatch: int) -> Action:
    return Action(kind=kind, subject=stage, number=microbatch, peer=-1, communicator=-1, peer_rank=-1)


def test_an_overlapped_pair_is_on_two_streams(overlap):
    """Autograd runs a backward where its forward ran."""
    for _ in range(2):  # steps
        assert overlap((0, 1), (1, 0)) == ["0F1 beside", "1B0 here"]
        assert overlap((1, 1), (0, 1)) == ["1F1 here", "0B1 beside"]
        assert overlap((0, 2), (1, 1)) == ["0F2 beside", "1B1 here"]


@pytest.fixture
def default_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.distributed_c10d._get_default_group()
    dist.destroy_process_group()


def test_groups_of_one_of_several_pipelines_are_not_split_off(default_group):
    """NCCL's split waits for all processes, and those of other pipelines do not come."""
    default_group.bound_device_id = torch.device("cuda", 0)
    with _of_members_alone() as device:
        assert device == torch.device("cuda", 0)
        assert default_group.bound_device_id is None
    assert default_group.bound_device_id == torch.device("cuda", 0)
    default_group.bound_device_id = None


@pytest.mark.parametrize("name", ["undefined", "cpu:gloo,cuda:nccl"])
def test_the_backend_of_a_group_for_any_device_is_that_of_the_modules(default_group, monkeypatch, name):
    assert default_backend({}) == "gloo"
    monkeypatch.setattr(dist, "get_backend", lambda: name)
    assert default_backend({0: torch.nn.Linear(1, 1)}) == "gloo"
    on_gpu = torch.nn.Module()
    monkeypatch.setattr(on_gpu, "parameters", lambda: iter([SimpleNamespace(is_cuda=True)]))
    assert default_backend({0: on_gpu}) == "nccl"
