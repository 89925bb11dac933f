"""Printing: one JSON envelope, bare JSON lines, or text for people. Talk goes to stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from cli.settings import Color, Format, Settings

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from projections.screens.next_actions import Surroundings
    from projections.words.account import Seen
    from projections.words.text import NextAction
    from service.reading.log import WorkflowLog
    from service.reading.moment import Moment
    from service.root.root import Root

#: What a line of ours may hold beside what can be seen: its end, tabs, and the styles set here.
_OURS = re.compile(r"(\x1b\[(?:[012]|(?:1;)?3[1-6])m|[\n\t])")
#: Next actions that a brief answer has, and what it leaves out.
_FEW = 3
_EMPTY: tuple[Any, ...] = ("", [], {})


class LogStanding(NamedTuple):
    """Where a log stands, as ``_meta`` says it; all None if it holds nothing."""

    workflow: str | None = None
    version: int | None = None
    position: int | None = None


class Shown(TypedDict, total=False):
    """What is told beside an answer.

    ``view`` is the moment that is shown, where there is no ``state`` of it; ``position`` that of
    the last event. ``actions`` lead on, else those of the state. ``is_brief``: nothing empty is
    printed. ``seen`` is what a look at the files found. ``about`` is for ``_meta``.
    """

    state: Workflow | None
    actions: Sequence[NextAction] | None
    position: int | None
    view: Moment | None
    is_brief: bool
    about: dict[str, Any]
    seen: Seen | None


class Output:
    """Prints a command's result in the format that was asked for.

    ``standing`` looks where the log stands at a moment; it is asked only where ``_meta`` is
    printed. ``root`` is the workflow's, whose files its next actions go by too, and its ``log``.
    """

    def __init__(
        self,
        settings: Settings,
        standing: Callable[[Moment | None], LogStanding] | None = None,
        root: Root | None = None,
        log: WorkflowLog | None = None,
    ) -> None:
        self.settings = settings
        self._standing = standing
        self._root = root
        self._log = log
        self.through_pager = False

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self.settings.format is Format.TEXT

    def result(self, data: Any, text: Callable[[], str], **shown: Unpack[Shown]) -> None:
        """Print ``data`` as the envelope or as one line, or ``text()`` for people."""
        if rendered := self.rendered(data, text, **shown):
            self.print(rendered)

    def rendered(self, data: Any, text: Callable[[], str], **shown: Unpack[Shown]) -> str:
        """Return what `result` prints, without the last newline."""
        if self.is_text:
            return text()
        is_brief, state = shown.get("is_brief", False), shown.get("state")
        if self.settings.format is Format.JSONL:
            return compact(lean(data) if is_brief else data)
        actions = shown.get("actions")
        if actions is None:
            actions = self.next_actions(state, shown.get("seen")) if state is not None else ()
            actions = actions[:_FEW] if is_brief else actions
        meta = self._meta(state, shown.get("position"), shown.get("view"))._asdict()
        said = [action.to_dict() for action in actions]
        answer = success(data, said, {**meta, **shown.get("about", {})})
        return as_json(lean(answer) if is_brief else answer)

    def changed(
        self,
        data: Any,
        text: Callable[[], str],
        state: Workflow | None,
        *,
        is_rehearsal: bool = False,
        actions: Sequence[NextAction] | None = None,
        position: int | None = None,
    ) -> None:
        """Print as `result` what a change did; for people the last line leads on from there."""
        seen = None if actions is not None or state is None else self._looked(state)

        def led_on() -> str:
            found = actions or ()
            if actions is None and state is not None and not is_rehearsal:
                found = self.next_actions(state, seen)
            return "\n".join([text(), *(f"next: {action}" for action in found[:1])])

        self.result(data, led_on, state=state, actions=actions, position=position, seen=seen)

    def _looked(self, state: Workflow) -> Seen | None:
        """Look at the files where what is stale decides what is next: a report, or no session."""
        stops = state.session_config.get("stale") == "stop"
        if not (stops or state.workflow_status == "completed"):
            return None
        if self._root is None or self._log is None:
            return None
        from reconciler.files.freshness import look

        return look(self._root, self._log, state)

    def next_actions(self, state: Workflow, seen: Seen | None = None) -> list[NextAction]:
        """Return what leads on from a state, as it is around it now."""
        from projections.screens.next_actions import next_actions

        return next_actions(state, self.around(state, seen))

    def around(self, state: Workflow, seen: Seen | None = None) -> Surroundings:
        """Return what is so around the workflow; ``seen`` where all of its files were looked at."""
        from projections.screens.next_actions import Surroundings, built_on

        if self._root is None:
            return Surroundings()
        from dataclasses import replace

        from reconciler.files.freshness import unfit
        from service.files.surroundings import surroundings

        path = self._root.path
        found = surroundings(self._root, state, self._log, seen)
        found = replace(found, lacking={**unfit(path, state), **found.lacking})
        if self._root.runner_record.exists():
            from reconciler.loop.detached import RUN_AUTONOMOUSLY, last_runner

            if (runner := last_runner(self._root)) is not None and runner.was_killed:
                found = replace(found, drive_again=RUN_AUTONOMOUSLY)
        if seen is not None or not (due := built_on(state)):
            return found
        from reconciler.files.freshness import deviations

        return replace(found, beneath=deviations(path, state, only=due))

    def _meta(
        self, state: Workflow | None, position: int | None, view: Moment | None
    ) -> LogStanding:
        """Return what was shown: the state and the position given, else what the log says."""
        if self._standing is None or position is not None:
            head = state.head if state is not None else None
            return LogStanding(state.id if state is not None else None, head, position)
        found = self._standing(view)
        if state is None or state.head == found.version:
            return found
        if found.version is not None and state.head < found.version:
            from service.reading.moment import Moment

            return self._standing(Moment(version=state.head))
        return LogStanding(state.id, state.head)

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
        """Print what was rendered: nothing that steers, at a terminal nothing unseen either."""
        styled = is_colored(self.settings, self.is_terminal) or self.is_terminal
        print(harmless(text, styled) if self.is_text else escaped(text))

    def style(self, text: str, code: str) -> str:
        """Return ``text`` in an ANSI style (``1`` bold, ``31`` red …) where colours are used."""
        colored = is_colored(self.settings, self.is_terminal)
        return f"\x1b[{code}m{text}\x1b[0m" if colored else text

    @property
    def is_terminal(self) -> bool:
        """Whether what is printed goes to a terminal, through a pager too."""
        return self.through_pager or sys.stdout.isatty()


def is_colored(settings: Settings, is_terminal: bool) -> bool:
    """Whether what is printed to a terminal, or to something else, has colours."""
    if settings.color is not Color.AUTO:
        return settings.color is Color.ALWAYS
    return is_terminal and not os.environ.get("NO_COLOR")


def harmless(text: str, is_terminal: bool = True) -> str:
    """Return what may be printed: words of others must not clear a screen or paint over it.

    At a terminal whatever cannot be seen becomes a sign, elsewhere control characters alone.
    """
    if text.isprintable() and text.isascii():
        return text
    from projections.words.text import marked, uncontrolled

    if not is_terminal:
        return uncontrolled(text)
    # Every second part is one of ours.
    parts = _OURS.split(text)
    return "".join(part if own % 2 else marked(part) for own, part in enumerate(parts))


def escaped(document: str) -> str:
    """Return JSON of the same value, in which nothing steers a terminal."""
    if document.isascii() and "\x7f" not in document:
        return document
    from projections.words.text import spelled_json

    return spelled_json(document)


def print_statement(statement: bytes) -> None:
    """Print what is to be signed, byte for byte; at a terminal nothing of it steers that."""
    text = statement.decode()
    at_terminal = sys.stdout.isatty()
    sys.stdout.write(escaped(text) if at_terminal else text)
    if at_terminal and escaped(text) != text:
        say("some letters cannot be seen and are spelled; what is signed are the bytes of a file")


def say(text: str) -> None:
    """Talk to the person on stderr."""
    print(harmless(text, sys.stderr.isatty()), file=sys.stderr, flush=True)


def success(data: Any, actions: Sequence[dict[str, Any]], meta: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of a command that went well."""
    return {"success": True, "data": data, "next_actions": list(actions), "_meta": meta}


def failure(
    code: str, message: str, data: dict[str, Any], actions: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the envelope of a command that failed; ``actions`` are what may be done instead."""
    found = {"success": False, "error": {"code": code, "message": message, "data": data}}
    return {**found, "next_actions": list(actions)} if actions else found


def lean(value: Any) -> Any:
    """Return plain JSON values without what is empty: null, ``""``, ``[]``, ``{}``."""
    if isinstance(value, dict):
        kept = {key: lean(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None and one not in _EMPTY}
    if isinstance(value, (list, tuple)):
        return [lean(one) for one in value]
    return value


def as_json(value: Any) -> str:
    """Return JSON: indented where a person reads it at a terminal, else on one line."""
    return pretty(value) if sys.stdout.isatty() else compact(value)


def pretty(value: Any) -> str:
    """Return JSON for people."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def compact(value: Any) -> str:
    """Return JSON on one line."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
