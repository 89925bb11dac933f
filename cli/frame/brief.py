"""Answers that fit a budget of tokens: of many records the newest, of long ones the beginning.

It is loaded if a budget was named. An answer without a budget has every key of its command, empty
or not: scripts read keys, and a missing one is an error in most languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cli.settings import Format
from cli.terminal.output import Output, compact, lean
from reconciler.briefing.briefing import TOKEN, tokens
from service.reading.moment import Moment

Record = dict[str, Any]
#: Characters of a text, and entries of a list, that a brief record shows.
_TEXT, _ENTRIES = 160, 8


class Newest:
    """The newest of many records, oldest first, as many as fit a budget of tokens.

    ``short`` makes of a record what programs are shown; ``text`` is the line for people.
    """

    def __init__(
        self,
        output: Output,
        short: Callable[[Record], Record],
        text: Callable[[Record], str],
        view: Moment | None = None,
    ) -> None:
        self._output = output
        self._short = short
        self._text = text
        self._view = view

    def print(self, records: Iterable[Record], budget: int) -> None:
        """Print what fits, and how many records do not."""
        every = list(records)
        lines = self._that_fit(every, budget)
        while lines and tokens(self._rendered(lines, len(every))) > budget:
            lines = lines[1:]
        self._output.print(self._rendered(lines, len(every)))

    def _that_fit(self, records: Sequence[Record], budget: int) -> list[Any]:
        room = budget * TOKEN
        shown: list[Any] = []
        for record in reversed(records):
            line = self._line(record)
            room -= len((line if isinstance(line, str) else compact(line)).encode()) + 1
            if room < 0:
                break
            shown.append(line)
        return shown[::-1]

    def _line(self, record: Record) -> Any:
        if self._output.is_text:
            return clipped(self._text(record))
        return clipped(lean(self._short(record)))

    def _rendered(self, shown: list[Any], of: int) -> str:
        if self._output.settings.format is Format.JSONL:
            return "\n".join(map(compact, shown))
        left_out = of - len(shown)
        head = [f"({left_out} older left out)"] if left_out else []
        return self._output.rendered(
            shown,
            lambda: "\n".join([*head, *shown]),
            view=self._view,
            is_brief=True,
            about={"left_out": left_out},
        )


def clipped(value: Any) -> Any:
    """Return plain JSON values with long texts and long lists cut, each marked where it is."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"{value[: _TEXT - 1]}…"
    if isinstance(value, dict):
        return {key: clipped(one) for key, one in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - _ENTRIES} more"] if len(value) > _ENTRIES else []
        return [*map(clipped, value[:_ENTRIES]), *more]
    return value
