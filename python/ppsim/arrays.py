"""Memory of C++ objects as NumPy arrays, without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_LAYOUTS: dict[str, tuple[int, list[tuple[str, str, int]]]] = {
    # name: bytes of an item, then name, type and offset of each field; core, planner and python/src hold them
    "span": (32, [("start_ns", "<i8", 0), ("start_round", "<i4", 8), ("end_ns", "<i8", 16), ("end_round", "<i4", 24)]),
    "memory": (24, [("time_ns", "<i8", 0), ("round", "<i4", 8), ("bytes", "<i8", 16)]),
    "point": (
        40,
        [
            ("makespan_ns", "<i8", 0),
            ("rank_span_ns", "<i8", 8),
            ("ideal_ns", "<i8", 16),
            ("bubble_fraction", "<f8", 24),
            ("bubble_fraction_span", "<f8", 32),
        ],
    ),
    "action": (
        16,
        [("subject", "<i4", 0), ("microbatch", "<i4", 4), ("peer", "<i4", 8), ("slice", "<u2", 12), ("kind", "u1", 14)],
    ),
    "instruction": (
        16,
        [
            ("first_action", "<u4", 0),
            ("action_count", "<u2", 8),
            ("after_count", "<u2", 10),
            ("form", "u1", 12),
            ("blocking", "?", 13),
        ],
    ),
}


def structured(raw: Any, layout: str) -> NDArray[numpy.void]:
    """The bytes of an array of C++ items under the names of their fields."""
    import numpy  # not at the top: `import ppsim` stays fast

    size, fields = _LAYOUTS[layout]
    dtype = numpy.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [kind for _, kind, _ in fields],
            "offsets": [offset for _, _, offset in fields],
            "itemsize": size,
        }
    )
    view: NDArray[numpy.void] = numpy.asarray(raw).view(dtype)
    return view
