"""How many tasks of a sweep stand where, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lifecycle.sweeps.ranges import count_of

_BAR = 20


def counts_of(seen: Mapping[str, Any]) -> dict[str, int]:
    """Return how many tasks stand where, by an attempt's ``tasks`` as the log has them."""
    found = {name: count_of(seen.get(name, "")) for name in ("done", "failed", "lost", "running")}
    found["waiting"] = max(0, seen["total"] - sum(found.values()))
    return found


def line_of(counts: Mapping[str, int]) -> str:
    """Return a bar and the counts that are not zero: ``[#####.....] 50 of 100 done, 2 failed``."""
    total = sum(counts.values())
    filled = _BAR * counts["done"] // total if total else 0
    others = [f"{number:,} {state}" for state, number in counts.items() if number]
    said = [one for one in others if not one.endswith(" done")]
    bar = "#" * filled + "." * (_BAR - filled)
    return ", ".join([f"[{bar}] {counts['done']:,} of {total:,} done", *said])
