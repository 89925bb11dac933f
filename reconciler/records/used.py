"""What commands used of processors, memory and disks, as their shells told it in a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

#: What is told, in seconds and bytes; of several commands the largest counts, or their sum.
LARGEST = frozenset({"peak_memory_bytes"})
NAMES = ("cpu_seconds", "peak_memory_bytes", "written_bytes")
_TOLD = re.compile(r"([a-z_]+)=([0-9ms.,+]{1,60})")
#: As bash tells the time of processors: ``0m1.250s``; by the locale with a comma.
_SPAN = re.compile(r"([0-9]{1,9})m([0-9]{1,9}(?:[.,][0-9]{1,6})?)s")


def used_in(line: str) -> dict[str, float]:
    """Return by name what a line tells: ``cpu_seconds=1.2 peak_memory_bytes=4096``."""
    found: dict[str, float] = {}
    for name, text in _TOLD.findall(line):
        value = _number(text)
        if name in NAMES and value is not None:
            found[name] = value
    return found


def _number(text: str) -> float | None:
    spans = _SPAN.findall(text)
    if spans:
        return round(sum(60 * int(m) + float(s.replace(",", ".")) for m, s in spans), 3)
    with suppress(ValueError):
        return float(text)
    return None


def together(every: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return what several commands used together."""
    found: dict[str, float] = {}
    for one in every:
        for name, value in one.items():
            before = found.get(name, 0.0)
            found[name] = max(before, value) if name in LARGEST else round(before + value, 3)
    return found
