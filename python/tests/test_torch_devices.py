"""Code for GPUs, on stand-ins for streams and devices: no GPU has run this."""

import contextlib
from types import SimpleNamespace

import pytest

from torch_runs.needed import torch_or_skip

torch_or_skip()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import ppsim  # noqa: E402
from ppsim.execution import Action, Plan  # noqa: E402
from ppsim.torch.devices import HostMemory, device_of, warm_up  # noqa: E402
from ppsim.torch.meeting import default_backend  # noqa: E402
from ppsim.torch.perform import Performer  # noqa: E402
from ppsim.torch.stage import Stage  # noqa: E402
from ppsim.torch.transfers import Transfers, _of_members_alone  # noqa: E402


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
    name_of = dist.distributed_c10d._hash_ranks_to_str
    names = {name_of([0, 1])}
    for name in ("1 world", "2 world"):
        with _of_members_alone(name) as device:
            assert device == torch.device("cuda", 0)
            assert default_group.bound_device_id is None
            names.add(dist.distributed_c10d._hash_ranks_to_str([0, 1]))
    assert len(names) == 3, "a destroyed group's name would be used again"
    assert dist.distributed_c10d._hash_ranks_to_str is name_of
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


def test_a_rank_computes_on_one_device():
    assert device_of([torch.nn.Identity()], "gloo") == torch.device("cpu")
    assert device_of([torch.nn.Identity(), torch.nn.Linear(1, 1, device="meta")], "gloo") == torch.device("meta")
    only_buffers = torch.nn.BatchNorm1d(1, affine=False, device="meta")
    assert device_of([only_buffers], "gloo") == torch.device("meta")
    with pytest.raises(ppsim.Error, match="several devices.*found cpu, meta"):
        device_of([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1, device="meta")], "gloo")


@pytest.mark.parametrize("number, loss", [(0, None), (1, None), (2, torch.nn.functional.mse_loss)])
@pytest.mark.parametrize("splits", [False, True])
def test_a_warm_up_leaves_nothing_behind(number, loss, splits):
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
    module[0].weight.grad = torch.ones(3, 3)
    before = [tensor.clone() for tensor in module.state_dict().values()]
    calls = []
    module.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    moved = frozenset([2]) if number else frozenset()
    stage = Stage(number, module, is_first=number == 0, loss=loss, trains=True, splits=splits, moved=moved)
    random = torch.get_rng_state()
    saved = warm_up(stage, (torch.zeros(4, 3),), torch.zeros(4, 3))
    assert (saved > 0) == bool(number)
    assert calls == [True] * (2 if splits else 1)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(map(torch.equal, before, module.state_dict().values()))
    assert torch.equal(module[0].weight.grad, torch.ones(3, 3)) and module[0].bias.grad is None
    assert not stage.cells


def test_host_memory_is_there_before_the_first_offload(monkeypatch):
    program = ppsim.lower(ppsim.generate("1f1b", ranks=4, microbatches=8), offload="all")
    plan, memory, made = Plan(program, 0, "nccl"), HostMemory(), []
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda size, dtype, pin_memory: made.append(size) or empty(size, dtype=dtype))
    memory.reserve(plan, {0: 64}, pinned=False)
    in_flight = most = 0
    for action in plan.actions():
        in_flight += {"OFFLOAD": 1, "RELOAD": -1}.get(action.kind, 0)
        most = max(most, in_flight)
    assert made == [64] * most and 0 < most < 8
    memory.reserve(plan, {0: 64}, pinned=False)  # as a step takes and gives it
    assert len(made) == most


def test_all_members_of_a_communicator_of_nccl_meet_before_its_channels_open(monkeypatch):
    """It connects at its first call, and then waits for all members: in a step some might never come."""
    program = ppsim.lower(ppsim.generate("chimera", ranks=2, microbatches=4), with_="reduce-grad", communicators="per-rank")
    met = []
    work = SimpleNamespace(wait=lambda: None)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "new_group", lambda ranks, group_desc, **_: group_desc)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group, async_op: met.append(group) or work)
    monkeypatch.setattr(dist, "P2POp", lambda call, tensor, peer, group: group)
    monkeypatch.setattr(dist, "batch_isend_irecv", lambda ends: met.append("channel") or [work])
    for backend, meets in (("nccl", True), ("gloo", False)):
        met.clear()
        transfers = Transfers(Plan(program, 0, "nccl"), [0, 1], backend, torch.device("cpu"))
        transfers.warm_up()
        groups = met[: met.index("channel")]
        assert groups == ([f"ppsim {name}" for name in program.communicators] if meets else [])
