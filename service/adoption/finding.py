"""What an import finds in the files of somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Kind → what it means, in the order in which findings are shown: what says that a result may be
#: wrong comes first, what says that somebody wrote little comes last.
KINDS = {
    "other_workflow": "earlier versions of another workflow, which are not taken",
    "unreadable_version": "a committed version that cannot be read",
    "no_log": "no log that says what was",
    "missing_output": "an output is named but not there",
    "illegal_transition": "a change of status that the protocol does not have",
    "missing_step": "a status claimed without the step before it",
    "repeated_status": "a status claimed that was already so",
    "unknown_status": "a word that is no status",
    "unknown_stage": "a stage that the state does not have",
    "unamended_change": "a definition changed without an amendment",
    "uncounted_retry": "a retry that retry_count does not count",
    "unlogged_retry": "a retry_count that the log does not account for",
    "stale_launch": "launched_at is older than the attempt",
    "rewritten_log": "lines of an earlier version are gone",
    "begun_anew": "the files were gone, and the workflow begun anew under its id",
    "left_process": "running_process stands on a stage that is over",
    "missing_report": "the report that the log names is not there",
    "missing_machine": "the machine file that a profile names is not there",
    "session_gap": "a session number that does not follow",
    "out_of_order": "a time before one that stands above it",
    "future_time": "a time later than its file",
    "identical_times": "the same time for what cannot have been at once",
    "undated": "a line or field without a time that can be read",
    "no_seconds": "a time without seconds",
    "no_offset": "a time without offset",
    "missing_field": "a field that the protocol asks for",
    "named_paths": "paths that were given names, taken as a list",
    "unknown_field": "a field that the protocol does not have",
    "polling": "lines that only say that somebody looked",
}


@dataclass(frozen=True, slots=True)
class ImportFinding:
    """One finding: its kind, its place (file, lines from 1, commit), the evidence.

    ``count`` is how many lines or fields it stands for, the last one on ``last_line``.
    """

    kind: str
    file: str
    line: int
    evidence: str
    stage: str | None = None
    commit: str | None = None
    last_line: int | None = None
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "kind": self.kind,
            "file": self.file,
            "line": self.line,
            "last_line": self.last_line or self.line,
            "count": self.count,
            "stage": self.stage,
            "commit": self.commit,
            "evidence": self.evidence,
        }
