"""Loads the compiled module, and Z3's library before it where PyPI's z3-solver has it.

The module looks beside itself for that library; a package in another folder than z3-solver (`--target`,
PYTHONPATH) finds it by its name once it is loaded.
"""

import ctypes
import importlib.util
import pathlib


def _load_z3() -> None:
    found = importlib.util.find_spec("z3")  # not imported: that takes a second
    for folder in (found.submodule_search_locations or []) if found else []:
        for library in pathlib.Path(folder, "lib").glob("libz3.so"):
            ctypes.CDLL(str(library))


try:
    from ppsim import _core
except ImportError:
    _load_z3()
    from ppsim import _core

__all__ = ["_core"]
