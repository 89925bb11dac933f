"""What was tried of a stage before: each fix, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle.state.workflow import Stage
from service.reading.log import WorkflowLog

#: Lines of a file that an agent is shown, and characters of each.
_LINES = 15
_WIDTH = 300
#: Bytes from the end of a file in which they are looked for.
_BYTES = 16_384
#: Characters of a failure that stands behind a fix.
_ERROR = 300


@dataclass(frozen=True, slots=True)
class Try:
    """A fix in somebody's words, and what came of it; None where nothing has yet."""

    retry: int
    fix: str
    outcome: str | None = None


def tries_of(log: WorkflowLog, stage: str) -> list[Try]:
    """Return every fix of a stage that the log holds, the oldest first."""
    found: list[Try] = []
    for event in log.store.read(log.stream):
        if event.data.get("stage") != stage:
            continue
        if event.type == "stage.retried":
            found.append(Try(event.data["retry"], event.data["fix"]))
        elif event.type in ("stage.failed", "stage.completed") and found and not found[-1].outcome:
            found[-1] = replace(found[-1], outcome=_outcome(event.type, event.data))
    return found


def said_of_failure(log: WorkflowLog, stage: str) -> str | None:
    """Return what the newest failure of a stage was told with, whole; None without any."""
    failed = [e for e in log.store.read(log.stream) if e.type == "stage.failed"]
    own = [one for one in failed if one.data["stage"] == stage]
    return own[-1].data.get("output") if own else None


def _outcome(type_: str, data: dict[str, object]) -> str:
    return "it went well" if type_ == "stage.completed" else f"failed: {data['error']!s:.{_ERROR}}"


def last_lines(root: Path, stage: Stage) -> dict[str, str]:
    """Return the end of what the stage's job wrote on its outputs, by path; empty where nothing."""
    found = {f"{stage.id}/{name}": _end(root / stage.id / name) for name in ("log", "err")}
    return {path: text for path, text in found.items() if text}


def _end(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _BYTES))
        text = file.read().decode("utf-8", "replace")
    lines = [line.rstrip()[:_WIDTH] for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-_LINES:])
