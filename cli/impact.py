"""An amendment and its impact in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lifecycle.evolve_amendments import KEYED
from lifecycle.impact import Impact
from lifecycle.workflow import Amendment
from service.amendments import Question


def told(question: Question) -> str:
    """Return what a person is shown before the answer."""
    amendment = question.amendment
    what = f"{amendment.id} ({amendment.kind}, {where(amendment)}): {amendment.description}"
    lines = [
        f"Amendment proposed: {what}",
        *(f"  {line}" for line in changes(amendment)),
        f"Reason: {amendment.reason or 'none given'}",
        f"Impact: {'; '.join(consequences(question.impact))}",
    ]
    return "\n".join(_printable(line) for line in lines)


def _printable(text: str) -> str:
    """Spell control characters out: a proposal must not paint over what the terminal shows."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def where(amendment: Amendment) -> str:
    """Return the stage, or that it is the whole workflow."""
    return amendment.stage or "workflow"


def changes(amendment: Amendment) -> list[str]:
    """Return a line for each changed value: place, old, new."""
    lines = []
    for field, change in amendment.changes.items():
        leaves = change if field in KEYED else {"": change}
        for key, leaf in leaves.items():
            place = f"{field}.{key}" if key else field
            lines.append(f"{place}: {_spelled(leaf, 'old')} -> {_spelled(leaf, 'new')}")
    if amendment.insert is not None:
        lines.append(f"new stage: {json.dumps(amendment.insert, ensure_ascii=False)}")
    for stage, change in amendment.rewired.items():
        lines.append(f"{stage}.depends_on: {_spelled(change, 'old')} -> {_spelled(change, 'new')}")
    return lines


def _spelled(leaf: dict[str, Any], key: str) -> str:
    return json.dumps(leaf[key], ensure_ascii=False) if key in leaf else "(nothing)"


def consequences(impact: Impact) -> list[str]:
    """Return what an approval would bring about, a sentence each."""
    return list(_consequences(impact)) or ["no result is affected"]


def _consequences(impact: Impact) -> Iterator[str]:
    if impact.invalidated:
        yield f"invalidates {', '.join(impact.invalidated)}"
    held = [s for s in impact.affected if s not in impact.invalidated and s not in impact.stopped]
    if held:
        yield f"also affects {', '.join(held)}"
    for stage, attempt in impact.stopped.items():
        yield f"stops {stage}" + (f" ({attempt})" if attempt else "")
    for stage in impact.outdated:
        yield f"{stage} goes on, and its result will not count"
    for stage, folder in impact.kept.items():
        yield f"keeps {stage}/ as {folder}/"
    if impact.seconds:
        yield f"throws away {sum(impact.seconds.values()):.0f} s of computing"
