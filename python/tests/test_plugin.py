"""What `ppsim --plugin FILE.py` asks of a file."""

import json

import pytest

import ppsim
from ppsim import plugin, registry

FILE = '''
import ppsim

def two_by_two(ranks, microbatches, *, style="narrow"):
    """Forwards, then backwards.

    More of it."""
    if microbatches % 2:
        raise ValueError("microbatches must be even")
    return ppsim.generate("gpipe", ranks=ranks, microbatches=microbatches)

ppsim.register("two-by-two", two_by_two)
'''


def answer(capsys):
    text = capsys.readouterr().out
    assert text.startswith(f"{plugin.BEGIN}\n") and text.endswith(f"{plugin.END}\n")
    return text[len(plugin.BEGIN) + 1 : -len(plugin.END) - 1]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    yield str(path)
    registry.unregister("two-by-two")


def test_lists_what_the_file_registers(file, capsys):
    assert plugin.main([file]) == 0
    assert answer(capsys) == "two-by-two\tForwards, then backwards.\n"


def test_generates_it_as_native_json(file, capsys):
    assert plugin.main([file, "two-by-two", "ranks=2", "microbatches=4", "style=wide"]) == 0
    text = answer(capsys)
    assert json.loads(text)["rows"][0][:4] == ["0F0", "0F1", "0F2", "0F3"]
    assert text == ppsim.generate("gpipe", ranks=2, microbatches=4).to_json()


def test_says_in_a_line_what_is_wrong(file, capsys):
    assert plugin.main([file, "two-by-two", "ranks=2", "microbatches=3"]) == 1
    assert capsys.readouterr().out == "ValueError: microbatches must be even\n"
    assert plugin.main(["nowhere.py"]) == 1
    assert "nowhere.py" in capsys.readouterr().out


def test_what_the_file_prints_is_no_answer(file, capsys):
    with open(file, "a", encoding="utf-8") as more:
        more.write('import warnings\nwarnings.warn("old")\nprint("hello")\n')
    assert plugin.main([file]) == 0
    assert answer(capsys) == "two-by-two\tForwards, then backwards.\n"
