"""How results came about: what somebody who looks at them afterwards has to know.

What one login does to itself cannot all be prevented; what the log has of it is told here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN, Amendment, Attempt, Stage, Workflow
from projections.words.items import Item
from projections.words.rewritten import edited_journals, rewritten

#: What decides which program runs, by the beginnings of the names of variables.
_INTERPRETER = ("PATH", "PYTHON", "python3", "LD_", "CONDA_", "VIRTUAL_ENV")
#: Modules that come with Python, and those that it imports before any script.
_OWN = sys.stdlib_module_names | {"sitecustomize", "usercustomize"}
_LIES = "lies where a script imports from"
#: Missing outputs that are named.
_NAMED = 5
#: How each policy gives the name of the person who approved.
_POLICIES = {
    "terminal": "at a terminal, as {by} by the caller's own word: this policy proves no person",
    "trust": "by {by}, on trust: this policy asks for no person",
    "signature": "signed by {by}",
}


def came_about(
    state: Workflow, times: Mapping[str, float], gone: Mapping[str, Sequence[str]]
) -> Iterator[Item]:
    """Yield what of each completed stage is not as its record alone would have it.

    ``times`` are those of results of which nothing was taken at the end of their job, ``gone`` are
    outputs of stages that were taken over, where they are not there.
    """
    if state.plan is None and state.consent != "trust":  # which says it of itself
        text = "nobody agreed to it: nobody was asked when the workflow began"
        yield Item("unagreed", PLAN, text, person=False)
    for stage in state.stages.values():
        if stage.status is not Status.COMPLETED:
            continue
        for one in stage.adopted:
            how = agreement(one["policy"], one["by"]) or "and nobody agreed to it"
            text = f"{', '.join(one['paths'])}: changed by hand and taken as it is, {how}"
            yield _item("adopted", stage, text)
        if stage.source is None:
            yield _item("taken over", stage, _taken_over(gone.get(stage.id)))
            continue
        yield from (_item("rewritten", stage, text) for text in rewritten(stage, times))
        yield from (_item("journal", stage, text) for text in edited_journals(stage))
        yield from (_item("module", stage, text) for text in _shadowing(stage.source))
        for failed in _failed_before(stage):
            yield from _since(state, stage, failed, stage.source)


def decided_edits(edits: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    """Yield the hand edits of files that were decided, and how anybody agreed to it."""
    for one in edits:
        how = agreement(one["policy"], one["by"]) or "and nobody agreed to it"
        text = f"a hand edit was dismissed, {how}"
        if one["how"] == "adopted":
            text = "a hand edit was adopted as far as the rules allow; no person is asked for that"
        yield Item("edit", one["file"], text, person=False)


def is_taken_over(stage: Stage) -> bool:
    """Whether a stage is completed by the word of an imported record alone: it has no attempt."""
    return stage.status is Status.COMPLETED and stage.source is None


def _taken_over(gone: Sequence[str] | None) -> str:
    if gone:
        return f"{missing(gone)}; an imported record alone calls it completed"
    return "completed by an imported record; nothing verified it"


def missing(gone: Sequence[str]) -> str:
    """Say which outputs are missing, the first of them by name."""
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    return f"outputs missing: {', '.join(gone[:_NAMED])}{more}"


def decided(amendment: Amendment) -> str:
    """Return how an amendment was decided: the status, and what is known of who did it."""
    by = amendment.approved_by
    how = agreement(amendment.policy, by) or (f"by {by}" if by else "")
    return f"{amendment.status} {how}".rstrip()


def decisions(state: Workflow) -> dict[str, list[str]]:
    """Return how the plan and the amendments were decided: the words → the amendments."""
    found: dict[str, list[str]] = {}
    for one in state.amendments.values():
        if one.status != "proposed":
            found.setdefault(decided(one), []).append(one.id)
    return found


def agreement(policy: str | None, by: str | None) -> str | None:
    """Return how somebody agreed under a policy; None if nobody's agreement is recorded."""
    return None if by is None or policy not in _POLICIES else _POLICIES[policy].format(by=by)


def _failed_before(stage: Stage) -> Iterator[Attempt]:
    for attempt in stage.attempts:
        if attempt is stage.source:
            return
        if attempt.outcome == "failed" or attempt.is_refuted:
            yield attempt


def _since(state: Workflow, stage: Stage, failed: Attempt, now: Attempt) -> Iterator[Item]:
    """Yield what differs from an attempt that failed, unless a person agreed to it since."""
    from projections.words.environments import changes  # only where something failed before

    for path in sorted(now.scripts.keys() | failed.scripts.keys()):
        old, new = failed.scripts.get(path), now.scripts.get(path)
        if old != new and not _was_agreed_to(state, path, new, failed, now):
            yield _item("script", stage, _was_another(path, failed))
    yield from (_item("input", stage, text) for text in _inputs(state, failed, now))
    if failed.beside is not None and now.beside is not None:
        for path in sorted(now.beside.keys() | failed.beside.keys()):
            if not _was_agreed_to(state, path, now.beside.get(path), failed, now):
                yield from _of_module(stage, path, now.beside.get(path), failed)
    for line in changes(now.environment, failed.environment, failed.id):
        if line.startswith(_INTERPRETER):
            yield _item("environment", stage, f"{line}, which failed")


def _of_module(stage: Stage, path: str, new: str | None, failed: Attempt) -> Iterator[Item]:
    old = (failed.beside or {}).get(path)
    if old is None:
        yield _item("module", stage, f"{path} {_LIES}, and did not in {failed.id}, which failed")
    elif old != new:
        yield _item("module", stage, _was_another(path, failed))


def _inputs(state: Workflow, failed: Attempt, now: Attempt) -> Iterator[str]:
    """Yield the inputs from outside that are other files than those of the failed attempt."""
    made = {path for one in state.stages.values() for path in one.outputs}
    before = {one["path"]: one["sha256"] for one in failed.inputs}
    for one in now.inputs:
        path = one["path"]
        is_told = path not in made and path not in now.scripts  # a stage's result, or a script
        if is_told and before.get(path, one["sha256"]) != one["sha256"]:
            yield _was_another(path, failed)


def _was_another(path: str, failed: Attempt) -> str:
    return f"{path} was another file in {failed.id}, which failed"


def _shadowing(attempt: Attempt) -> Iterator[str]:
    """Yield the files that Python would take for its own modules, or run before any script."""
    for path in attempt.beside or ():
        file = PurePosixPath(path)
        name = file.parent.name if file.name == "__init__.py" else file.name.partition(".")[0]
        if name in _OWN:
            yield f"{path} {_LIES}, and has the name of a module of Python's own"


def _was_agreed_to(
    state: Workflow, path: str, digest: str | None, failed: Attempt, now: Attempt
) -> bool:
    """Whether somebody approved the file as it is, between the two attempts."""
    return any(
        one.policy is not None
        and failed.started_at < (one.decided_at or "") <= now.started_at
        and one.scripts.get(path) == digest
        for one in state.amendments.values()
    )


def _item(kind: str, stage: Stage, text: str) -> Item:
    return Item(kind, stage.id, text, stage.id, person=False)
