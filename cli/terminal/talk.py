"""What wfctl says on stderr while it works: structured lines, for people and for programs.

On a terminal a line is a sentence, elsewhere a JSON object; what progress.log holds is said there
at the level debug alone. structlog is loaded with the first line, so a command that says nothing
does not wait for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cli.settings import LogLevel, Settings
from cli.terminal.output import escaped, harmless, is_colored
from projections.files.progress_log import message
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

    from cli.terminal.waiting import WaitingLine
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs

#: Event types that say more than that something went on.
_LEVELS = {
    "stage.failed": LogLevel.ERROR,
    "stage.blocked": LogLevel.WARNING,
    "drift.detected": LogLevel.WARNING,
}
#: Events that lead from one status to the next: the next one says what came of it.
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
#: ``scheme://user:password@host``, and a secret that follows its own name.
_IN_ADDRESS = r"(\w+://[^\s:/@]*):[^\s/@]+@"
_NAMES = r"pass(?:word|phrase|wd)?|\w*secret|\w*token|api[_-]?key|private[_-]?key"
_NAMED = rf"\b({_NAMES})(['\"]?\s*[:=]\s*['\"]?)[^\s'\",;]+"
_HIDDEN = "***"


class Talk:
    """Says on stderr what is going on, with the workflow and whatever it is about."""

    def __init__(self, settings: Settings, workflow: Callable[[], str]) -> None:
        self._settings = settings
        self._workflow = workflow
        self._waiting: WaitingLine | None = None

    def say(self, text: str, *, level: str = "info", **about: Any) -> None:
        """Say a sentence; ``about`` names what it is about: a stage, an attempt."""
        self._line(LogLevel(level), text, about)

    def tell(self, outcome: Outcome) -> None:
        """Tell people at a terminal what was just recorded, as the log says it.

        Elsewhere progress.log and the answer hold it: there it is debug, as everywhere what only
        leads from one status to the next.
        """
        for event in outcome.events:
            text = message(event, outcome.state)
            about = {
                "stage": event.data.get("stage"),
                "attempt": event.data.get("attempt"),
                "session": event.session,
                "type": event.type,
                "version": event.version,
            }
            level = _LEVELS.get(event.type, LogLevel.INFO)
            is_new = bool(text) and event.type not in _STEPS and sys.stderr.isatty()
            self._line(level if is_new else LogLevel.DEBUG, text or event.type, about)

    def waits(self, jobs: Jobs, state: Workflow, ids: Collection[str]) -> None:
        """Show which stages are waited for, unless only warnings are wanted."""
        if LogLevel.INFO.number < self._settings.log_level.number:
            return
        from service.root.disk import system_clock

        if self._waiting is None:
            from cli.terminal.waiting import WaitingLine
            from reconciler.control.job_output import Progress

            self._waiting = WaitingLine(Progress(jobs).of, self.say)
        self._waiting.show(state, ids, system_clock())

    def clear(self) -> None:
        """Take away the line that says what is waited for."""
        if self._waiting is not None:
            self._waiting.clear()

    def _line(self, level: LogLevel, text: str, about: dict[str, Any]) -> None:
        known = {key: value for key, value in about.items() if value is not None}
        if level.number >= self._settings.log_level.number:
            self.clear()
            self._logger.log(level.number, text, **(known if self._wants_keys else {}))

    @property
    def _wants_keys(self) -> bool:
        """Whether what a line is about is said beside the sentence, which names it too."""
        return not sys.stderr.isatty() or self._settings.log_level is LogLevel.DEBUG

    @cached_property
    def _logger(self) -> Any:
        import logging  # most commands say nothing

        import structlog

        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[structlog.processors.add_log_level, without_secrets, *self._rendered()],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        ).bind(**({"workflow": self._workflow()} if self._wants_keys else {}))

    def _rendered(self) -> list[Processor]:
        import structlog

        if sys.stderr.isatty():
            clock = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
            colors = is_colored(self._settings, is_terminal=True)
            people = structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)
            return [clock, people, lambda _logger, _method, line: harmless(str(line))]
        return [
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(ensure_ascii=False),
            lambda _logger, _method, line: escaped(str(line)),
        ]


def without_secrets(logger: Any, method: str, line: EventDict) -> EventDict:
    """Hide what follows the name of a secret, and the password of an address."""
    return {key: _hidden(key, value) for key, value in line.items()}


def _hidden(key: str, value: Any) -> Any:
    if re.fullmatch(_NAMES, key, re.IGNORECASE):
        return _HIDDEN
    if not isinstance(value, str):
        return value
    without = re.sub(_IN_ADDRESS, rf"\1:{_HIDDEN}@", value)
    return re.sub(_NAMED, rf"\1\2{_HIDDEN}", without, flags=re.IGNORECASE)
