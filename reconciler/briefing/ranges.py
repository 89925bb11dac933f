"""Names with numbers, written short: ``stage-1..3,7`` and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*-)([1-9][0-9]*)")


def shortened(names: Iterable[str]) -> str:
    """Return names in one line: those with a number under their prefix, as ranges.

    A name without a number stands as it is; groups are parted by a space.
    """
    groups: dict[str, list[int]] = {}
    plain: list[str] = []
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            groups.setdefault(found[1], []).append(int(found[2]))
    return " ".join([*(f"{key}{_ranges(numbers)}" for key, numbers in groups.items()), *plain])


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}..{last}"
