"""Printing: one JSON envelope, bare JSON lines, or text for people. Talk goes to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.settings import Color, Format, Settings
from lifecycle.workflow import Workflow
from projections.next_actions import NextAction, next_actions

if TYPE_CHECKING:
    from service.moment import Moment

#: Control characters, but for the ends of lines, tabs, and the styles that are set here: others
#: hide words.
_STEERING = re.compile(r"\x1b(?!\[(?:[012]|(?:1;)?3[1-6])m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")

#: What JSON may hold as it is and a terminal obeys: DEL, and the controls above the ASCII ones.
_OBEYED = re.compile(r"[\x7f-\x9f]")


class Standing(NamedTuple):
    """Where a log stands, as ``_meta`` says it; all None where it holds nothing."""

    workflow: str | None = None
    version: int | None = None
    position: int | None = None


class Output:
    """Prints a command's result in the format that was asked for.

    ``standing`` looks where the log stands at a moment; it is asked only where ``_meta`` is
    printed.
    """

    def __init__(
        self, settings: Settings, standing: Callable[[Moment | None], Standing] | None = None
    ) -> None:
        self.settings = settings
        self._standing = standing
        self.through_pager = False

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self.settings.format is Format.TEXT

    def result(
        self,
        data: Any,
        text: Callable[[], str],
        *,
        state: Workflow | None = None,
        actions: Sequence[NextAction] | None = None,
        position: int | None = None,
        view: Moment | None = None,
    ) -> None:
        """Print ``data`` as the envelope or as one line, or ``text()`` for people.

        ``view`` is the moment that is shown, where there is no ``state`` of it.
        """
        shown = self.rendered(
            data, text, state=state, actions=actions, position=position, view=view
        )
        if shown:
            self.print(shown)

    def rendered(
        self,
        data: Any,
        text: Callable[[], str],
        *,
        state: Workflow | None = None,
        actions: Sequence[NextAction] | None = None,
        position: int | None = None,
        view: Moment | None = None,
    ) -> str:
        """Return what `result` prints, without the newline at its end."""
        if self.is_text:
            return text()
        if self.settings.format is Format.JSONL:
            return compact(data)
        if actions is None:
            actions = next_actions(state) if state is not None else ()
        meta = self._meta(state, position, view)
        return pretty(success(data, [action._asdict() for action in actions], meta._asdict()))

    def _meta(self, state: Workflow | None, position: int | None, view: Moment | None) -> Standing:
        """Return what was shown: the state and the position given, else what the log says."""
        if self._standing is None or position is not None:
            head = state.head if state is not None else None
            return Standing(state.id if state is not None else None, head, position)
        found = self._standing(view)
        if state is None or state.head == found.version:
            return found
        if found.version is not None and state.head < found.version:
            from service.moment import Moment

            return self._standing(Moment(version=state.head))
        return Standing(state.id, state.head)

    def records(
        self,
        records: Iterable[dict[str, Any]],
        text: Callable[[dict[str, Any]], str],
        *,
        view: Moment | None = None,
    ) -> None:
        """Print a sequence: one line each (text, jsonl), or one envelope that holds them all."""
        if self.settings.format is Format.JSON:
            self.result(list(records), lambda: "", view=view)
            return
        for record in records:
            self.print(text(record) if self.is_text else compact(record))
            sys.stdout.flush()

    def print(self, text: str) -> None:
        """Print what was rendered; at a terminal nothing that steers it."""
        if self.is_terminal:
            text = harmless(text) if self.is_text else escaped(text)
        print(text)

    def style(self, text: str, code: str) -> str:
        """Return ``text`` in an ANSI style (``1`` bold, ``31`` red …) where colours are used."""
        return f"\x1b[{code}m{text}\x1b[0m" if self._colored else text

    @property
    def _colored(self) -> bool:
        if self.settings.color is not Color.AUTO:
            return self.settings.color is Color.ALWAYS
        return self.is_terminal and not os.environ.get("NO_COLOR")

    @property
    def is_terminal(self) -> bool:
        """Whether what is printed goes to a terminal, through a pager too."""
        return self.through_pager or sys.stdout.isatty()


def harmless(text: str) -> str:
    """Return what a terminal may be given: words of others must not clear it or paint over it."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(document: str) -> str:
    """Return JSON of the same value, in which nothing steers a terminal."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def say(text: str) -> None:
    """Talk to the person on stderr."""
    print(harmless(text) if sys.stderr.isatty() else text, file=sys.stderr, flush=True)


def success(data: Any, actions: Sequence[dict[str, Any]], meta: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of a command that went well."""
    return {
        "success": True,
        "data": data,
        "next_actions": list(actions),
        "_meta": meta,
    }


def failure(code: str, message: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of a command that failed."""
    return {"success": False, "error": {"code": code, "message": message, "data": data}}


def pretty(value: Any) -> str:
    """Return JSON for people and programs."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def compact(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
