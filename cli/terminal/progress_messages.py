"""Progress messages on stderr: structured lines for people and programs.

On a terminal, a line is a sentence, elsewhere a JSON object. Events that are in progress.log are
then printed only at level debug. structlog is imported with the first line, so that silent commands
do not wait for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cli.settings import LogLevel, Settings
from cli.terminal.output import escape_json, is_colored, remove_terminal_codes
from projections.files.progress_log import format_message
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

    from cli.terminal.waiting import WaitingLine
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs

#: Event types with a higher level than ordinary progress.
_LEVELS = {
    "stage.failed": LogLevel.ERROR,
    "stage.blocked": LogLevel.WARNING,
    "drift.detected": LogLevel.WARNING,
}
#: Events between two statuses: the next event reports their result.
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
#: ``scheme://user:password@host``, and a secret after its name.
_IN_ADDRESS = r"(\w+://[^\s:/@]*):[^\s/@]+@"
_NAMES = r"pass(?:word|phrase|wd)?|\w*secret|\w*token|api[_-]?key|private[_-]?key"
_NAMED = rf"\b({_NAMES})(['\"]?\s*[:=]\s*['\"]?)[^\s'\",;]+"
_HIDDEN = "***"


class Talk:
    """Prints progress messages on stderr, with the workflow and the subject."""

    def __init__(self, settings: Settings, workflow: Callable[[], str]) -> None:
        self._settings = settings
        self._workflow = workflow
        self._waiting: WaitingLine | None = None

    def say(self, text: str, *, level: str = "info", **about: Any) -> None:
        """Print a sentence. ``about`` names its subject: a stage, an attempt."""
        self._log_line(LogLevel(level), text, about)

    def tell(self, outcome: Outcome) -> None:
        """Print the recorded events to people at a terminal, in the words of the log.

        Elsewhere, progress.log and the answer contain them, so their level is debug. Steps between
        two statuses always have the level debug.
        """
        for event in outcome.events:
            text = format_message(event, outcome.state)
            about = {
                "stage": event.data.get("stage"),
                "attempt": event.data.get("attempt"),
                "session": event.session,
                "type": event.type,
                "version": event.version,
            }
            level = _LEVELS.get(event.type, LogLevel.INFO)
            is_new = bool(text) and event.type not in _STEPS and sys.stderr.isatty()
            self._log_line(level if is_new else LogLevel.DEBUG, text or event.type, about)

    def waits(self, jobs: Jobs, state: Workflow, ids: Collection[str]) -> None:
        """Show the stages that wfctl waits for, unless only warnings are wanted."""
        if LogLevel.INFO.number < self._settings.log_level.number:
            return
        from service.root.atomic_files import system_clock

        if self._waiting is None:
            from cli.terminal.waiting import WaitingLine
            from reconciler.control.job_output import Progress

            self._waiting = WaitingLine(Progress(jobs).of, self.say)
        self._waiting.show(state, ids, system_clock())

    def clear(self) -> None:
        """Remove the line that shows what wfctl waits for."""
        if self._waiting is not None:
            self._waiting.clear()

    def _log_line(self, level: LogLevel, text: str, about: dict[str, Any]) -> None:
        known = {key: value for key, value in about.items() if value is not None}
        if level.number >= self._settings.log_level.number:
            self.clear()
            self._logger.log(level.number, text, **(known if self._wants_keys else {}))

    @property
    def _wants_keys(self) -> bool:
        """Return whether lines name their subject also as keys, in addition to the sentence."""
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
        ).bind(**({"workflow": self._workflow()} if self._wants_keys else {}))

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
    """Return the log line with values of secrets and passwords in URLs hidden."""
    return {key: _hide_secrets(key, value) for key, value in line.items()}


def _hide_secrets(key: str, value: Any) -> Any:
    if re.fullmatch(_NAMES, key, re.IGNORECASE):
        return _HIDDEN
    if not isinstance(value, str):
        return value
    without = re.sub(_IN_ADDRESS, rf"\1:{_HIDDEN}@", value)
    return re.sub(_NAMED, rf"\1\2{_HIDDEN}", without, flags=re.IGNORECASE)
