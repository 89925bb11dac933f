"""Parse and combine the processor time, memory and disk use that shells recorded."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress

#: Quantities for which the largest value of several commands is used. All other quantities are
#: summed.
LARGEST = frozenset({"peak_memory_bytes"})
NAMES = ("cpu_seconds", "peak_memory_bytes", "written_bytes")
_TOLD = re.compile(r"([a-z_]+)=([0-9ms.,+]{1,60})")
#: Matches a processor time as bash prints it, such as ``0m1.250s``. Some locales use a comma.
_SPAN = re.compile(r"([0-9]{1,9})m([0-9]{1,9}(?:[.,][0-9]{1,6})?)s")


def parse_resource_use(line: str) -> dict[str, float]:
    """Return the resource values in a line such as ``cpu_seconds=1.2 written_bytes=4096``."""
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


def combine_resource_use(
    every: Iterable[Mapping[str, float]], largest: Container[str] = LARGEST
) -> dict[str, float]:
    """Return the combined resource use of several commands.

    Values are summed, except those in ``largest``, for which the largest value is used.
    """
    found: dict[str, float] = {}
    for one in every:
        for name, value in one.items():
            before = found.get(name, 0.0)
            found[name] = max(before, value) if name in largest else round(before + value, 3)
    return found
