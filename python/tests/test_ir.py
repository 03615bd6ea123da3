"""Schedules, Programs and files."""

import copy
import pickle
import subprocess
import sys

import numpy
import pytest

import ppsim
from ppsim.errors import from_core


def test_a_schedule_knows_its_shape_and_rows():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=2)
    assert (schedule.name, schedule.ranks, schedule.stages, schedule.microbatches) == ("1f1b", 2, 2, 2)
    assert schedule.rows == [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]]
    assert schedule.placement == [0, 1]
    assert len(schedule) == 8


def test_settings_reach_the_schedule():
    bounded = ppsim.generate("zb-greedy", ranks=4, microbatches=8, memory_limit=4)
    assert bounded != ppsim.generate("zb-greedy", ranks=4, microbatches=8, memory_limit=8)


def test_an_unknown_name_suggests_one():
    with pytest.raises(ppsim.Error, match="zb-h1") as caught:
        ppsim.generate("zb-hh1", ranks=4, microbatches=8)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "bad_argument"
    assert "zb-hh1" in str(caught.value)


def test_an_unknown_setting_names_those_there_are():
    with pytest.raises(ppsim.Error, match="memory_limit"):
        ppsim.generate("zb-greedy", ranks=4, microbatches=8, memory=4)


@pytest.mark.parametrize("wrong", ["2", 2.5, None, 0, -1])
def test_a_count_that_is_none_is_named(wrong):
    with pytest.raises(ppsim.Error, match="ranks is (no number of them|of another type)") as caught:
        ppsim.generate("1f1b", ranks=wrong, microbatches=2)
    assert caught.value.found == repr(wrong) and caught.value.expected


def test_counts_of_numpy_are_taken():
    ranks = numpy.int64(2)
    assert ppsim.generate("1f1b", ranks=ranks, microbatches=4) == ppsim.generate("1f1b", ranks=2, microbatches=4)


def test_lowering_adds_transfers_and_names_the_program():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=1)
    program = ppsim.lower(schedule)
    assert program.rows[0] == ["0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"]
    assert program.communicators == ["0>1", "1>0"]
    assert len(program.hash) == 32
    assert program.compute_only().rows == schedule.rows
    with_update = ppsim.lower(schedule, with_=["reduce-grad", "opt"])
    assert with_update != program
    assert ppsim.lower(schedule, communicators="per-rank").communicators == ["world"]


def test_a_program_says_how_long_sent_tensors_stay():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    plain = ppsim.lower(schedule)
    assert ppsim.lower(schedule, send_done_delay=0) == plain
    assert '"send_done_delay": 2' in ppsim.lower(schedule, send_done_delay=2).to_json()
    kept = ppsim.lower(schedule, send_done_delay="end")
    assert kept.rows == plain.rows and kept != plain
    jaxpp = ppsim.lower(schedule, target="jaxpp-0.9.2")
    assert '"send_done_delay": "end"' in jaxpp.to_json()
    assert ppsim.verify(schedule, target="jaxpp-0.9.2").ok
    with pytest.raises(ppsim.Error, match="end"):
        ppsim.lower(schedule, send_done_delay="never")


@pytest.mark.parametrize(
    "option, known",
    [
        ({"order": "by-heart"}, "just-in-time"),
        ({"communicators": "per-day"}, "per-edge"),
        ({"grouping": "friends"}, "paired"),
        ({"with_": ["lunch"]}, "reduce-grad"),
    ],
)
def test_lowering_refuses_unknown_words(option, known):
    with pytest.raises(ppsim.Error, match=known):
        ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=1), **option)


@pytest.mark.parametrize("make", [lambda s: s, ppsim.lower], ids=["schedule", "program"])
def test_values_compare_print_pickle_and_go_through_json(make):
    value = make(ppsim.generate("zb-v", ranks=4, microbatches=8))
    other = make(ppsim.generate("zb-v", ranks=4, microbatches=9))
    assert pickle.loads(pickle.dumps(value)) == value != other
    assert type(value).from_json(value.to_json()) == value
    assert hash(pickle.loads(pickle.dumps(value))) == hash(value)
    assert "4 ranks" in repr(value)
    assert value.svg().startswith("<")
    assert "<svg" in value._repr_html_()
    assert value != "something else"


def test_files_read_as_they_were_written(tmp_path):
    schedule = ppsim.generate("zb-v", ranks=4, microbatches=8)
    program = ppsim.lower(schedule)
    for name, value in (("s.json", schedule), ("s.csv", schedule), ("p.json", program), ("p.csv", program)):
        ppsim.write(value, tmp_path / name)
        assert ppsim.read(tmp_path / name) == value


def test_a_file_that_cannot_be_read_says_where():
    with pytest.raises(ppsim.FileError) as caught:
        ppsim.read_text("0F0,0B0\n1F0,1X0\n", name="mine.csv")
    assert (caught.value.file, caught.value.row, caught.value.column) == ("mine.csv", 2, 2)
    assert caught.value.place == "mine.csv:2:2"
    with pytest.raises(ppsim.FileError, match="missing.csv"):
        ppsim.read("missing.csv")


def test_what_a_file_cannot_have_is_refused(tmp_path):
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=2)
    program = ppsim.lower(schedule)
    ppsim.write(schedule, tmp_path / "schedule.json")
    ppsim.write(program, tmp_path / "program.json")
    ppsim.write(program, tmp_path / "program.csv")
    for name in ("program.json", "program.csv"):
        for policy in ("per-rank", "per-pair"):
            assert ppsim.read(tmp_path / name, communicators=policy) == program.with_communicators(policy)
    with pytest.raises(ppsim.Error, match="a Schedule has no communicators .*schedule.json"):
        ppsim.read(tmp_path / "schedule.json", communicators="per-rank")
    for dialect in ("legacy", "zero-bubble"):
        with pytest.raises(ppsim.Error, match=f"alphabet of a CSV .found dialect='{dialect}' with "):
            ppsim.read_text(schedule.to_json(), dialect=dialect)
    assert ppsim.read(tmp_path / "schedule.json", dialect="torch") == schedule
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ppsim.FileError, match="broken.json"):
        ppsim.read(tmp_path / "broken.json")


def test_exceptions_pickle():
    with pytest.raises(ppsim.Error) as caught:
        ppsim.generate("1f1b", ranks=0, microbatches=1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert (str(again), again.code, again.found) == (str(caught.value), caught.value.code, caught.value.found)


@pytest.mark.parametrize(
    ("words", "in_a_call"),
    [
        ("or --dialect legacy", 'or dialect="legacy"'),
        ("--for torch-2.15.", 'target="torch-2.15".'),
        ("--ranks P --microbatches M or --ranks Pa", "ranks=P, microbatches=M or ranks= Pa"),
        ("--activation-limit, --memory-limit", "activation_limit=, memory_limit="),
        ("more nodes or --fix fsdp=on", "more nodes or fixed= fsdp=on"),
        ("my--model and my--x", "my--model and my--x"),
        ("--anything else", "--anything else"),
        ('no schedule "1f1b --order timed"', 'no schedule "1f1b --order timed"'),
        ("`nsys export --type sqlite`, --for-ever", "`nsys export --type sqlite`, --for-ever"),
        ("ppsim lower --for torch-2.15", "ppsim lower --for torch-2.15"),
    ],
)
def test_options_of_the_program_are_arguments_in_errors(words, in_a_call):
    error = from_core("bad_argument", words, "", 0, 0, "", words)
    assert error.message == error.expected == in_a_call


def test_what_was_found_is_told_as_it_was():
    texts = ("a --for b", "--order timed", "--x", "--model")
    found = [from_core("bad_argument", "", "", 0, 0, text, "").found for text in texts]
    assert found == ["a --for b", 'order="timed"', "--x", "--model"]


class NamedBuilder(ppsim.ScheduleBuilder):
    def __init__(self, author: str) -> None:
        super().__init__(ranks=1, stages=1, microbatches=1)
        self.author = author


def test_a_builder_of_a_subclass_is_copied_with_its_attributes():
    builder = NamedBuilder("someone")
    for again in (copy.copy(builder), pickle.loads(pickle.dumps(builder))):
        assert again.author == "someone" and again.forward(0, 0).backward(0, 0).build().ranks == 1
    assert not builder._rows[0], "the rows of a copy are its own"


def test_actions_are_arrays_without_copies():
    program = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=2))
    actions = program.actions
    assert [ppsim.op_kinds[kind] for kind in actions["kind"][:2]] == ["F", "SEND_F"]
    assert actions["microbatch"][:4].tolist() == [0, 0, 1, 1]
    assert program.first == [0, len(program) // 2, len(program)]
    assert len(program.instructions) == len(program)
    assert (program.instructions["action_count"] == 1).all()
    assert not actions.flags.writeable and not actions.flags.owndata
    again = program.actions
    assert numpy.shares_memory(actions, again)
    instructions = program.instructions
    assert not instructions.flags.writeable
    assert instructions["first_action"].tolist() == list(range(len(program)))
    del program
    assert actions["subject"][0] == 0  # the array keeps the Program
    assert instructions["first_action"][3] == 3


def test_a_builder_makes_what_generate_makes():
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=2, name="1f1b")
    for microbatch in range(2):
        builder.forward(0, microbatch)
    for microbatch in range(2):
        builder.backward(0, microbatch).forward(1, microbatch).backward(1, microbatch)
    assert builder.build() == ppsim.generate("1f1b", ranks=2, microbatches=2)


def test_a_builder_takes_the_placement_from_the_ranks():
    builder = ppsim.ScheduleBuilder(ranks=2, stages=4, microbatches=1)
    for stage, rank in enumerate([0, 1, 1, 0]):
        builder.forward(stage, 0, rank=rank)
    for stage in reversed(range(4)):
        builder.backward_input(stage, 0).backward_weight(stage, 0)
    assert builder.build().placement == [0, 1, 1, 0]


def test_a_builder_names_every_broken_rule():
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=1)
    builder.forward(0, 0).forward(0, 0).backward(1, 0)
    with pytest.raises(ppsim.IllFormed) as caught:
        builder.build()
    assert caught.value.code == "ill_formed"
    assert "0F0" in str(caught.value) and "1F0" in str(caught.value)


def test_a_builder_refuses_what_is_out_of_range():
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=1)
    with pytest.raises(ppsim.Error, match="no such stage"):
        builder.forward(2, 0)
    with pytest.raises(ppsim.Error, match="no such rank"):
        builder.forward(0, 0, rank=2)


def test_a_refused_call_leaves_a_builder_as_it_was():
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=2)
    refused = [
        lambda: builder.forward(0, 0, rank=9), lambda: builder.forward(0, "x", rank=1), lambda: builder.forward(0, 2, rank=1),
        lambda: builder.forward(0, 0, rank=1, slice=5), lambda: builder.forward(0, 0, rank=1, slice=-3),
        lambda: builder.overlap((0, 0), (1, 5), rank=1), lambda: builder.overlap((0, 0), (1, 0), rank=1, slices=(0, 1)),
        lambda: builder.idle(2),
    ]
    for call in refused:
        with pytest.raises(ppsim.Error):
            call()
    for microbatch in range(2):
        builder.forward(0, microbatch)
    for microbatch in range(2):
        builder.backward(0, microbatch).forward(1, microbatch).backward(1, microbatch)
    assert builder.build().placement == [0, 1]


def test_a_builder_needs_one_of_each():
    for name in ("ranks", "stages", "microbatches", "slices"):
        with pytest.raises(ppsim.Error, match=f"a pipeline needs {name} .found 0"):
            ppsim.ScheduleBuilder(**{"ranks": 1, "stages": 1, "microbatches": 1, name: 0})


def test_a_placement_is_of_all_stages():
    with pytest.raises(ppsim.Error, match="a placement has the rank of each stage .found 2 ranks, expected 3"):
        ppsim.ScheduleBuilder(ranks=2, stages=3, microbatches=1, placement=[0, 1])
    with pytest.raises(ppsim.Error, match="no such rank .found 2, expected 0 to 1"):
        ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=1, placement=[0, 2])


def test_pairs_of_slices_are_built():
    builder = ppsim.ScheduleBuilder(ranks=1, stages=1, microbatches=2, slices=2)
    builder.forward(0, 0).forward(0, 0, slice=1)
    builder.overlap((0, 1), (0, 0), slices=(0, 1)).overlap((0, 1), (0, 0), slices=(1, 0))
    schedule = builder.backward(0, 1, slice=1).backward(0, 1).build()
    assert schedule.rows[0][2:4] == ["(0F1.0;0B0.1)OVERLAP_F_B", "(0F1.1;0B0.0)OVERLAP_F_B"]
    assert ppsim.check(schedule)


def test_rows_that_wait_for_each_other_are_a_schedule_and_hang_when_lowered():
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=2)
    builder.forward(0, 0).backward(0, 0).forward(0, 1).backward(0, 1)
    schedule = builder.forward(1, 0).forward(1, 1).backward(1, 0).backward(1, 1).build()
    for call in (ppsim.lower, ppsim.simulate, ppsim.check):
        with pytest.raises(ppsim.Deadlock):
            call(schedule)


def test_routes_make_two_directions():
    builder = ppsim.ScheduleBuilder(
        ranks=2,
        stages=4,
        microbatches=2,
        placement=[0, 1, 1, 0],
        edges=[(0, 1), (2, 3)],
        routes=[[0, 1], [2, 3]],
        microbatch_routes=[0, 1],
        blocks=[[0, 3], [1, 2]],
    )
    builder.forward(0, 0).forward(2, 1).forward(1, 0).forward(3, 1)
    builder.backward(1, 0).backward(3, 1).backward(0, 0).backward(2, 1)
    assert ppsim.check(builder.build())


def test_an_older_alphabet_is_read_where_the_newer_one_makes_no_schedule():
    for name in ("zb-h1", "1f1b"):
        schedule = ppsim.generate(name, ranks=2, microbatches=4)
        assert ppsim.read_text(schedule.to_csv("legacy")) == schedule
        assert ppsim.read_text(schedule.to_csv("torch")) == schedule
        with pytest.raises(ppsim.Error, match='dialect="legacy"') as caught:
            ppsim.read_text(schedule.to_csv("legacy"), dialect="torch")
        assert str(caught.value).count('dialect="legacy"') == 1
    with pytest.raises(ppsim.FileError, match="an action"):
        ppsim.read_text("0F0,nonsense\n")


@pytest.mark.parametrize("target", ppsim.targets())
@pytest.mark.parametrize("options", [
    {"with_": "load"}, {"with_": "unshard"}, {"with_": "reduce-grad"}, {"with_": "opt"}, {"with_": ("opt", "clip")},
    {"recompute": "full"}, {"offload": "all"}, {"grouping": "paired"}, {"receive_buffers": 1}, {"send_done_delay": "end"},
    {"send_done_delay": 2}, {"order": "just-in-time"}, {"communicators": "per-rank"},
], ids=str)
def test_a_target_takes_what_the_program_takes(target, options, tmp_path):
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    words = [f"--{key.rstrip('_').replace('_', '-')}={value if isinstance(value, str | int) else ','.join(value)}"
             for key, value in options.items()]
    file = tmp_path / "lowered.json"
    command = [sys.executable, "-m", "ppsim", "lower", "1f1b", "--ranks=2", "--microbatches=4", f"--for={target}", *words]
    done = subprocess.run([*command, "-o", file], capture_output=True, text=True)
    if done.returncode == 0:
        ppsim.write(ppsim.lower(schedule, target=target, **options), tmp_path / "ours.json", target=target)
        assert (tmp_path / "ours.json").read_text() == file.read_text()
        return
    with pytest.raises(ppsim.Error) as refused:
        ppsim.lower(schedule, target=target, **options)
    assert refused.value.message in done.stderr


def test_a_target_takes_what_it_adds_itself():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    lowered = ppsim.lower(schedule, order="timed", communicators="per-edge", target="torch-2.15", with_=("reduce-grad",))
    assert lowered == ppsim.lower(schedule, order="timed", communicators="per-edge", target="torch-2.15")


@pytest.mark.parametrize("with_", ["reduce-grad", "opt", "clip"])
def test_what_follows_a_backward_needs_one(with_):
    schedule = ppsim.generate("forward-only", ranks=2, microbatches=2)
    with pytest.raises(ppsim.Error, match="need a backward"):
        ppsim.lower(schedule, with_=with_)
    assert ppsim.lower(schedule, with_=["load", "unshard"])


@pytest.mark.parametrize("name", ["order", "communicators", "send_done_delay", "recompute", "offload", "grouping"])
@pytest.mark.parametrize("target", [None, "torch-2.15"])
def test_an_empty_text_is_no_option(name, target):
    with pytest.raises(ppsim.Error):
        ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=2), target=target, **{name: ""})


def test_a_file_has_a_dialect_or_a_target(tmp_path):
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=2)
    with pytest.raises(ppsim.Error, match="a target decides this .found dialect"):
        ppsim.write(schedule, tmp_path / "x.csv", dialect="legacy", target="torch-2.15")
    ppsim.write(schedule, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes() == schedule.to_csv().encode()


def test_weights_of_the_ends_are_tied_and_summed_once_or_for_every_microbatch():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=3)
    counts = {}
    for way in ("reduce-grad", "reduce-grad-each-microbatch"):
        program = ppsim.lower(schedule, with_=[way, "opt"], tied=True)
        assert ppsim.verify(program)
        assert ppsim.Program.from_json(program.to_json()) == program
        counts[way] = [sum("2REDUCE_GRAD" in text for text in row) for row in program.rows]
    assert counts == {"reduce-grad": [1, 1], "reduce-grad-each-microbatch": [3, 3]}
    with pytest.raises(ppsim.Error, match="for every microbatch"):
        ppsim.lower(schedule, with_="reduce-grad-each-microbatch")


def test_side_edges_are_those_of_the_builder():
    builder = ppsim.ScheduleBuilder(ranks=3, stages=3, microbatches=1, side_edges=[(0, 2)])
    for stage in range(3):
        builder.forward(stage, 0)
    for stage in reversed(range(3)):
        builder.backward(stage, 0)
    program = ppsim.lower(builder.build())
    assert program.side_edges == [(0, 2)]
    assert program == ppsim.lower(ppsim.generate("1f1b", ranks=3, microbatches=1, graph="index"))
