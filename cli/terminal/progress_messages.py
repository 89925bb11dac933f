"""Print progress messages on stderr, as sentences for people or JSON objects for programs.

A message at a terminal is a sentence. Elsewhere it is a JSON object, and events that progress.log
contains are printed only at the level debug. structlog is imported with the first message, because
commands without messages should not wait for the import.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cli.settings import LogLevel, Settings
from cli.terminal.output import escape_json, is_colored, remove_terminal_codes
from projections.files.progress_log import format_line_without_time
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

    from cli.terminal.progress_bars import ProgressBars
    from cli.terminal.progress_lines import ProgressLines
    from lifecycle.state.workflow import Workflow
    from reconciler.context import JobContext
    from reconciler.control.job_output import Progress

#: Event types whose messages have a higher level than info.
_LEVELS = {
    "stage.failed": LogLevel.ERROR,
    "stage.blocked": LogLevel.WARNING,
    "drift.detected": LogLevel.WARNING,
}
#: Event types between two statuses of a stage. They are not printed at level info, because the next
#: event reports the result.
_STEPS = frozenset(
    {
        "attempt.observed",
        "attempt.left",
        "cost.charged",
        "note.logged",
        "session.started",
        "session.ended",
        "stage.computed",
        "stage.prepared",
        "stage.readied",
    }
)
#: Patterns of passwords in URLs such as ``scheme://user:password@host``, and of secrets that follow
#: their name.
_IN_ADDRESS = r"(\w+://[^\s:/@]*):[^\s/@]+@"
_NAMES = r"pass(?:word|phrase|wd)?|\w*secret|\w*token|api[_-]?key|private[_-]?key"
_NAMED = rf"\b({_NAMES})(['\"]?\s*[:=]\s*['\"]?)[^\s'\",;]+"
_HIDDEN = "***"


class ProgressPrinter:
    """Prints progress messages on stderr. Each message names the workflow and its subject."""

    def __init__(self, settings: Settings, workflow: Callable[[], str]) -> None:
        self._settings = settings
        self._workflow = workflow
        self._waiting: ProgressBars | ProgressLines | None = None

    def say(self, text: str, *, level: str = "info", **about: Any) -> None:
        """Print a sentence. ``about`` names its subject, such as a stage or an attempt."""
        self._log_line(LogLevel(level), text, about)

    def tell(self, outcome: Outcome) -> None:
        """Print a message for each event that a command recorded.

        At a terminal, the text is that of progress.log. Elsewhere, the messages have the level
        debug, because progress.log and the answer of the command already contain the events. A
        larger request of resources is printed everywhere.
        """
        for event in outcome.events:
            text = format_line_without_time(event, outcome.state)
            about = {
                "stage": event.data.get("stage"),
                "attempt": event.data.get("attempt"),
                "session": event.session,
                "type": event.type,
                "version": event.version,
            }
            level = _LEVELS.get(event.type, LogLevel.INFO)
            is_growth = event.data.get("grown") is not None
            is_new = bool(text) and event.type not in _STEPS and sys.stderr.isatty()
            is_new = is_new or is_growth
            self._log_line(level if is_new else LogLevel.DEBUG, text or event.type, about)

    def waits(self, jobs: JobContext, state: Workflow, ids: Collection[str]) -> None:
        """Show the stages that wfctl waits for, if the log level includes info messages.

        If no stages are given, erase the stages that were shown.
        """
        if LogLevel.INFO.number < self._settings.log_level.number:
            return
        if not ids:
            self.clear()
            return
        if self._waiting is None:
            from reconciler.control.job_output import Progress

            self._waiting = self._choose_display(Progress(jobs))
        self._waiting.show(state, ids)

    def _choose_display(self, source: Progress) -> ProgressBars | ProgressLines:
        """Return an object that shows the progress of stages on this terminal or in this pipe."""
        from cli.terminal.progress_bars import ProgressBars, is_updatable_terminal
        from cli.terminal.progress_lines import ProgressLines

        if is_updatable_terminal():
            return ProgressBars(source, self._settings)
        return ProgressLines(source, self.say)

    def clear(self) -> None:
        """Erase the progress of the awaited stages from the terminal."""
        if self._waiting is not None:
            self._waiting.clear()

    def _log_line(self, level: LogLevel, text: str, about: dict[str, Any]) -> None:
        known = {key: value for key, value in about.items() if value is not None}
        if level.number >= self._settings.log_level.number:
            self.clear()
            self._logger.log(level.number, text, **(known if self._should_show_fields else {}))

    @property
    def _should_show_fields(self) -> bool:
        """Return whether messages contain their subject in separate fields.

        Messages outside a terminal and at the level debug have these fields in addition to the
        sentence.
        """
        return not sys.stderr.isatty() or self._settings.log_level is LogLevel.DEBUG

    @cached_property
    def _logger(self) -> Any:
        import logging  # most commands print no messages

        import structlog

        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                without_secrets,
                *self._build_processors(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        ).bind(**({"workflow": self._workflow()} if self._should_show_fields else {}))

    def _build_processors(self) -> list[Processor]:
        import structlog

        if sys.stderr.isatty():
            clock = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
            colors = is_colored(self._settings, is_terminal=True)
            people = structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)
            return [clock, people, lambda _logger, _method, line: remove_terminal_codes(str(line))]
        return [
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(ensure_ascii=False),
            lambda _logger, _method, line: escape_json(str(line)),
        ]


def without_secrets(logger: Any, method: str, line: EventDict) -> EventDict:
    """Return the log message with passwords and other secrets replaced by ``***``."""
    return {key: _hide_secrets(key, value) for key, value in line.items()}


def _hide_secrets(key: str, value: Any) -> Any:
    if re.fullmatch(_NAMES, key, re.IGNORECASE):
        return _HIDDEN
    if not isinstance(value, str):
        return value
    without = re.sub(_IN_ADDRESS, rf"\1:{_HIDDEN}@", value)
    return re.sub(_NAMED, rf"\1\2{_HIDDEN}", without, flags=re.IGNORECASE)
