"""How the environment of a job differs from that of the attempt before, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: What stands for a value that the log does not hold.
SET = "set"


def variables_of(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return each variable with its value, or with `SET`; and the python3 that it finds."""
    found = dict.fromkeys(environment["names"], SET) | environment["values"]
    python = environment["python3"]
    return {**found, "python3": python} if python else found


def changes(
    now: Mapping[str, Any] | None, before: Mapping[str, Any] | None, attempt: str
) -> Iterator[str]:
    """Yield what differs from the environment of an earlier attempt, a line a variable."""
    if now is None or before is None or now["sha256"] == before["sha256"]:
        return
    here, there = variables_of(now), variables_of(before)
    names = [
        name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)
    ]
    yield from (_change(name, here.get(name), there.get(name), attempt) for name in names)
    if not names:
        yield f"a variable has another value than in {attempt}; the log does not hold which"


def _change(name: str, now: str | None, before: str | None, attempt: str) -> str:
    was = "was not set" if before is None else f"was {before}"
    if now is None:
        return f"{name} is not set; in {attempt} it {was}"
    return f"{name if now == SET else f'{name}={now}'} {was} in {attempt}"
