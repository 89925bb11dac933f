"""Print results as JSON, JSON lines or text. Messages for people go to stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from cli.settings import Color, Format, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.state.workflow import Workflow
    from projections.screens.next_actions import Surroundings
    from projections.words.account import FileCheckResult
    from projections.words.text import NextAction
    from service.reading.log import WorkflowLog
    from service.reading.point_in_history import Moment
    from service.root.root import Root

#: Pattern of the control codes that wfctl itself prints: styles, line ends and tabs.
_OURS = re.compile(r"(\x1b\[(?:[012]|(?:1;)?3[1-6])m|[\n\t])")
#: Maximum number of next actions in a shortened answer.
_FEW = 3
_EMPTY: tuple[Any, ...] = ("", [], {})


class LastEventInfo(NamedTuple):
    """The workflow id, and the version and position of the last event of its log.

    The output field ``_meta`` contains these values. All values are None for an empty log.
    """

    workflow: str | None = None
    version: int | None = None
    position: int | None = None


class AnswerContext(TypedDict, total=False):
    """Extra information to print with the result of a command.

    ``state`` is the state that the result shows, and ``view`` is the moment if no state is given.
    ``position`` is the log position of the last event. ``actions`` replaces the next actions that
    follow from the state. ``is_brief`` omits empty values. ``seen`` is the result of a check of the
    files. ``about`` is added to the field ``_meta``.
    """

    state: Workflow | None
    actions: Sequence[NextAction] | None
    position: int | None
    view: Moment | None
    is_brief: bool
    about: dict[str, Any]
    seen: FileCheckResult | None


class Output:
    """Prints the result of a command in the requested format.

    ``standing`` is a function that returns the last event of the log at a moment. It is called only
    to fill the output field ``_meta``. ``root`` and ``log`` belong to the workflow. They are needed
    because the suggested next actions also depend on files.
    """

    def __init__(
        self,
        settings: Settings,
        standing: Callable[[Moment | None], LastEventInfo] | None = None,
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
        """Return whether the output format is text, which is meant for people."""
        return self.settings.format is Format.TEXT

    def result(self, data: Any, text: Callable[[], str], **shown: Unpack[AnswerContext]) -> None:
        """Print the result of a command.

        In JSON, print ``data`` with metadata and next actions. In JSON lines, print only ``data``.
        For people, print the string that ``text`` returns.
        """
        if rendered := self.rendered(data, text, **shown):
            self.print(rendered)

    def rendered(self, data: Any, text: Callable[[], str], **shown: Unpack[AnswerContext]) -> str:
        """Return the output of `result` as a string, without a newline at the end."""
        if self.is_text:
            return text()
        is_brief, state = shown.get("is_brief", False), shown.get("state")
        if self.settings.format is Format.JSONL:
            return format_compact_json(drop_empty_values(data) if is_brief else data)
        actions = shown.get("actions")
        if actions is None:
            actions = self.next_actions(state, shown.get("seen")) if state is not None else ()
            actions = actions[:_FEW] if is_brief else actions
        meta = self._get_log_standing(state, shown.get("position"), shown.get("view"))._asdict()
        said = [action.to_dict() for action in actions]
        answer = build_success(data, said, {**meta, **shown.get("about", {})})
        return format_json_for_output(drop_empty_values(answer) if is_brief else answer)

    def print_change(
        self,
        data: Any,
        text: Callable[[], str],
        state: Workflow | None,
        *,
        is_rehearsal: bool = False,
        actions: Sequence[NextAction] | None = None,
        position: int | None = None,
    ) -> None:
        """Print the result of a change, in the same way as `result`.

        In text output, add a line with the next step.
        """
        seen = (
            None if actions is not None or state is None else self._inspect_files_if_needed(state)
        )

        def led_on() -> str:
            found = actions or ()
            if actions is None and state is not None and not is_rehearsal:
                found = self.next_actions(state, seen)
            return "\n".join([text(), *(f"next: {action}" for action in found[:1])])

        self.result(data, led_on, state=state, actions=actions, position=position, seen=seen)

    def _inspect_files_if_needed(self, state: Workflow) -> FileCheckResult | None:
        """Check the result files, if outdated results could decide the next action.

        Return None if no check is needed or if the output belongs to no workflow.
        """
        stops = state.session_config.get("stale") == "stop"
        if not (stops or state.workflow_status == "completed"):
            return None
        if self._root is None or self._log is None:
            return None
        from reconciler.files.freshness import find_log_differences

        return find_log_differences(self._root, self._log, state)

    def next_actions(
        self, state: Workflow, seen: FileCheckResult | None = None
    ) -> list[NextAction]:
        """Return the suggested next actions for a state of the workflow.

        They also depend on the files and on the background runner. ``seen`` is the result of a file
        check.
        """
        from projections.screens.next_actions import next_actions

        return next_actions(state, self.collect_surroundings(state, seen))

    def collect_surroundings(
        self, state: Workflow, seen: FileCheckResult | None = None
    ) -> Surroundings:
        """Return the circumstances outside the log that decide the next actions.

        They include missing files and a background runner that was killed. ``seen`` is the result
        of a check of all files.
        """
        from projections.screens.next_actions import Surroundings, dependencies_of_ready_stages

        if self._root is None:
            return Surroundings()

        from reconciler.files.stages_to_correct import find_stages_to_correct
        from service.files.stage_obstacles import read_surroundings

        path = self._root.path
        found = read_surroundings(self._root, state, self._log, seen)
        found = found._replace(
            lacking={**find_stages_to_correct(path, state), **found.lacking},
            launched=self._find_launch_differences(path, state),
        )
        if self._root.runner_record.exists():
            from reconciler.loop.background_runner import RUN_AUTONOMOUSLY, read_last_runner

            if (runner := read_last_runner(self._root)) is not None and runner.was_killed:
                found = found._replace(drive_again=RUN_AUTONOMOUSLY)
        if seen is not None or not (due := dependencies_of_ready_stages(state)):
            return found
        from reconciler.files.freshness import find_deviations

        return found._replace(beneath=find_deviations(path, state, only=due))

    def _find_launch_differences(self, root: Path, state: Workflow) -> dict[str, list[str]]:
        """Return the stages whose job was launched with values unlike the plan's.

        Only jobs that another program launched and whose outputs are not verified yet are included.
        The value for each stage is the list of its differing fields.
        """
        from lifecycle.state.status import Status

        taken_over = [
            stage
            for stage in state.stages.values()
            if stage.status is Status.POST_PROCESSING and stage.source and stage.source.taken_over
        ]
        if not taken_over:
            return {}
        from reconciler.files.described_submission import explain_launch_differences

        found = {stage.id: explain_launch_differences(root, state, stage) for stage in taken_over}
        return {id_: fields for id_, fields in found.items() if fields}

    def _get_log_standing(
        self, state: Workflow | None, position: int | None, view: Moment | None
    ) -> LastEventInfo:
        """Return the id, version and position to print in the output field ``_meta``.

        If the caller gives a position, use it together with the given state. Otherwise, read the
        log.
        """
        if self._standing is None or position is not None:
            head = state.head if state is not None else None
            return LastEventInfo(state.id if state is not None else None, head, position)
        found = self._standing(view)
        if state is None or state.head == found.version:
            return found
        if found.version is not None and state.head < found.version:
            from service.reading.point_in_history import Moment

            return self._standing(Moment(version=state.head))
        return LastEventInfo(state.id, state.head)

    def records(
        self,
        records: Iterable[dict[str, Any]],
        text: Callable[[dict[str, Any]], str],
        *,
        view: Moment | None = None,
    ) -> None:
        """Print a sequence of records.

        Text and JSON lines have one line for each record. JSON has a single document with all
        records.
        """
        if self.settings.format is Format.JSON:
            self.result(list(records), lambda: "", view=view)
            return
        for record in records:
            self.print(text(record) if self.is_text else format_compact_json(record))
            sys.stdout.flush()

    def print(self, text: str) -> None:
        """Print text without dangerous control codes.

        At a terminal, mark invisible characters.
        """
        styled = is_colored(self.settings, self.is_terminal) or self.is_terminal
        print(remove_terminal_codes(text, styled) if self.is_text else escape_json(text))

    def style(self, text: str, code: str) -> str:
        """Return ``text`` in an ANSI style such as ``1`` (bold) or ``31`` (red).

        If the output has no colours, return the text unchanged.
        """
        colored = is_colored(self.settings, self.is_terminal)
        return f"\x1b[{code}m{text}\x1b[0m" if colored else text

    @property
    def is_terminal(self) -> bool:
        """Return whether the output goes to a terminal, directly or through a pager."""
        return self.through_pager or sys.stdout.isatty()


def is_colored(settings: Settings, is_terminal: bool) -> bool:
    """Return whether the output has colours, according to the settings and the terminal."""
    if settings.color is not Color.AUTO:
        return settings.color is Color.ALWAYS
    return is_terminal and not os.environ.get("NO_COLOR")


def remove_terminal_codes(text: str, is_terminal: bool = True) -> str:
    """Return text without control codes that could clear a screen or hide other text.

    For a terminal, mark all invisible characters. Otherwise, mark only control characters.
    """
    if text.isprintable() and text.isascii():
        return text
    from projections.words.text import mark_control_characters, mark_invisible_characters

    if not is_terminal:
        return mark_control_characters(text)
    # The elements with an odd index are control codes of wfctl itself. Keep them unchanged.
    parts = _OURS.split(text)
    return "".join(
        part if own % 2 else mark_invisible_characters(part) for own, part in enumerate(parts)
    )


def escape_json(document: str) -> str:
    """Return an equivalent JSON document without characters that could control a terminal."""
    if document.isascii() and "\x7f" not in document:
        return document
    from projections.words.text import escape_invisible_in_json

    return escape_invisible_in_json(document)


def print_statement(statement: bytes) -> None:
    """Print the statement that a person must sign.

    If stdout is a terminal, escape invisible characters and print a note about them.
    """
    text = statement.decode()
    at_terminal = sys.stdout.isatty()
    sys.stdout.write(escape_json(text) if at_terminal else text)
    if at_terminal and escape_json(text) != text:
        print_message(
            "invisible characters are shown as escape codes; your signature covers the "
            "original bytes of the file"
        )


def print_message(text: str) -> None:
    """Print a message for a person on stderr."""
    print(remove_terminal_codes(text, sys.stderr.isatty()), file=sys.stderr, flush=True)


def build_success(
    data: Any, actions: Sequence[dict[str, Any]], meta: dict[str, Any]
) -> dict[str, Any]:
    """Return the JSON document for a command that succeeded."""
    return {"success": True, "data": data, "next_actions": list(actions), "_meta": meta}


def build_failure(
    code: str, message: str, data: dict[str, Any], actions: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the JSON document for a failed command. ``actions`` are possible next steps."""
    found = {"success": False, "error": {"code": code, "message": message, "data": data}}
    return {**found, "next_actions": list(actions)} if actions else found


def drop_empty_values(value: Any) -> Any:
    """Return JSON values without empty ones: null, ``""``, ``[]``, ``{}``."""
    if isinstance(value, dict):
        kept = {key: drop_empty_values(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None and one not in _EMPTY}
    if isinstance(value, (list, tuple)):
        return [drop_empty_values(one) for one in value]
    return value


def format_json_for_output(value: Any) -> str:
    """Return a value as JSON, indented if stdout is a terminal, otherwise on one line."""
    return format_indented_json(value) if sys.stdout.isatty() else format_compact_json(value)


def format_indented_json(value: Any) -> str:
    """Return a value as indented JSON text."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def format_compact_json(value: Any) -> str:
    """Return a value as JSON text on one line."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
