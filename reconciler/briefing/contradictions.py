"""Contradictions: where what is so and what was said of it do not fit together.

Each goes by one finding (see `reconciler.briefing.denials`) or by the state alone, and by times
that were recorded, never by a clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lifecycle.state.workflow import Workflow
from reconciler.briefing.ranges import shortened


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Things of one kind that do not fit; ``subjects`` are stages or files."""

    kind: str
    subjects: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"kind": self.kind, "subjects": shortened(self.subjects), "text": self.text}


def of_state(state: Workflow) -> Iterator[Contradiction]:
    """Yield the files that somebody else changed and nobody has decided on."""
    for drift in state.drifts:
        text = f"it was {drift.kind} by somebody else; `wfctl drift show` says how"
        yield Contradiction("drift", (drift.file,), text)
