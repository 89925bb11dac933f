"""Answers that fit a budget of tokens: of many records the newest, of long ones the beginning.

It is loaded if a budget was named. An answer without a budget has every key of its command, empty
or not: scripts read keys, and a missing one is an error in most languages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cli.settings import Format
from cli.terminal.output import Output, compact, lean
from reconciler.briefing.shorten import TOKEN, tokens
from service.reading.moment import Moment

Record = dict[str, Any]
#: Characters of a text, and entries of a list, that a brief record shows.
_TEXT, _ENTRIES = 160, 8


def print_newest(
    output: Output,
    records: Iterable[Record],
    budget: int,
    told: tuple[Callable[[Record], Record], Callable[[Record], str]],
    view: Moment | None = None,
) -> None:
    """Print the newest of many records, oldest first, as many as fit a budget of tokens.

    ``told``: what makes of a record what programs are shown, and the line for people.
    """
    every, room, shown = list(records), budget * TOKEN, deque[Any]()
    short, text = told
    for record in reversed(every):
        line = _clipped(text(record) if output.is_text else lean(short(record)))
        room -= len((line if isinstance(line, str) else compact(line)).encode()) + 1
        if room < 0:
            break
        shown.appendleft(line)
    while tokens(rendered := _rendered(output, list(shown), len(every), view)) > budget and shown:
        shown.popleft()
    output.print(rendered)


def _rendered(output: Output, shown: list[Any], of: int, view: Moment | None) -> str:
    """Return the records that are shown, and how many are not."""
    if output.settings.format is Format.JSONL:
        return "\n".join(map(compact, shown))
    left_out = of - len(shown)
    head = [f"({left_out} older left out)"] if left_out else []
    return output.rendered(
        shown,
        lambda: "\n".join([*head, *shown]),
        view=view,
        is_brief=True,
        about={"left_out": left_out},
    )


def _clipped(value: Any) -> Any:
    """Return plain JSON values with long texts and long lists cut, each marked where it is."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"{value[: _TEXT - 1]}…"
    if isinstance(value, dict):
        return {key: _clipped(one) for key, one in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - _ENTRIES} more"] if len(value) > _ENTRIES else []
        return [*map(_clipped, value[:_ENTRIES]), *more]
    return value
