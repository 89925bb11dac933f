"""How a result came about, in words."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN, Amendment, Attempt, Stage, Workflow
from lifecycle.sweeps.definition import count_of, is_sweep, table_of


class Item(NamedTuple):
    """One thing of the account.

    ``kind``: log, amendment, unagreed, drift, verdict, judgement, stop, failure, stale, script,
    input, environment, taken over, adopted, kept tasks, edit, rewritten, module, journal, or
    changed, missing or touched result.
    ``person``: it waits for somebody. ``stage`` is the one that it is about, if one is.
    """

    kind: str
    subject: str
    text: str
    stage: str | None = None
    person: bool = True

    @property
    def is_of_files(self) -> bool:
        """Whether it is about files that changed, and what was computed from them."""
        return self.kind in ("drift", "stale") or self.kind.endswith(" result")

    def __str__(self) -> str:
        return " ".join(f"{self.kind} {self.subject}: {self.text}".split())


#: Seconds after the end of a job in which its files may still get their times: clocks differ.
_MARGIN = 2.0


def rewritten(stage: Stage, times: Mapping[str, float]) -> Iterator[str]:
    """Yield what of a completed stage's results is not what its job left, as far as is known.

    ``times`` are those of the files of which the log holds none, in seconds since the epoch.
    """
    attempt = stage.source
    if attempt is None:
        return
    for one in stage.attempts:
        for late in (one.tasks or {}).get("late", []):
            yield f"{late['path']} was written {late['seconds']} s after its task ended"
    own = table_of(stage.id) if is_sweep(stage.parameters) else ()  # written by wfctl, later
    for one in _sources(stage, attempt):
        left = _left(one)
        for result in one.results:
            if result["path"] not in own:
                yield from _of_result(one, result, left, times if one is attempt else {})


def _sources(stage: Stage, newest: Attempt) -> list[Attempt]:
    """Return the attempt behind the results of each earlier round, and the newest one."""
    last = {one.round: one for one in stage.attempts if one.results and one.round < newest.round}
    return [*(one for number, one in last.items() if number), newest]


def _of_result(
    attempt: Attempt,
    result: dict[str, Any],
    left: Mapping[str, dict[str, Any]],
    times: Mapping[str, float],
) -> Iterator[str]:
    path, end = result["path"], _end(attempt)
    there = left.get(path, {})
    if there.get("sha256") not in (None, result["sha256"]):
        yield f"{path} is not what {attempt.id} left: it was rewritten after its job ended"
        return
    written = there["mtime"] / 1e9 if there.get("mtime") else 0.0
    if there.get("sha256") is None:
        written = max(written, times.get(path, 0.0))
    if end is not None and written > end + _MARGIN:
        yield f"{path} was written {written - end:.0f} s after its job ended"


def _edited_journals(stage: Stage) -> Iterator[str]:
    """Yield which files, by which the tasks of a sweep tell their ends, others have changed."""
    for attempt in stage.attempts:
        for path in (attempt.tasks or {}).get("edited", []):
            yield f"{path} was edited; by it tasks of {attempt.id} tell how they ended"


def without_record(stage: Stage) -> list[str]:
    """Return the results of a completed stage of which nothing was taken at the end of its job."""
    attempt = stage.source
    if attempt is None or attempt.ended_at is None or stage.reused is not None:
        return []
    left = _left(attempt)
    return [one["path"] for one in attempt.results if "sha256" not in left.get(one["path"], {})]


def _left(attempt: Attempt) -> dict[str, dict[str, Any]]:
    """Return what was seen at the end of the job, by path: its outputs, or else all that it left.

    What the log of an earlier program holds has no digest.
    """
    seen = attempt.evidence or {} if attempt.action == "succeeded" else {}
    outputs = {one["path"]: one for one in seen.get("outputs", [])}
    known = {path: {k: v for k, v in one.items() if v is not None} for path, one in outputs.items()}
    return {one["path"]: one for one in attempt.left if not one.get("at")} | known


def _end(attempt: Attempt) -> float | None:
    """Return when the job ended and was collected, by the latest word, in seconds."""
    seen = attempt.evidence or {}
    said = [job.get("ended_at") for job in seen.get("jobs", [])]
    said += [(seen.get(name) or {}).get("mtime") for name in ("exit_marker", "done_marker")]
    ends = [one / 1e9 for one in said if one]
    if attempt.ended_at is not None:
        ends.append(datetime.fromisoformat(attempt.ended_at).timestamp())
    return max(ends, default=None)


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
    "mandate": "by {by}, which was granted beforehand",
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
        yield from (_item("kept tasks", stage, text) for text in describe_kept_tasks(stage))
        for one in stage.adopted:
            how = agreement(one["policy"], one["by"]) or "and nobody agreed to it"
            text = f"{', '.join(one['paths'])}: changed by hand and taken as it is, {how}"
            yield _item("adopted", stage, text)
        if stage.source is None:
            text = "completed by an imported record; nothing verified it"
            if paths := gone.get(stage.id):
                text = f"{missing(paths)}; an imported record alone calls it completed"
            yield _item("taken over", stage, text)
            continue
        yield from (_item("rewritten", stage, text) for text in rewritten(stage, times))
        yield from (_item("journal", stage, text) for text in _edited_journals(stage))
        yield from (_item("module", stage, text) for text in _shadowing(stage.source))
        for failed in _failed_before(stage):
            yield from _since(state, stage, failed, stage.source)


def describe_kept_tasks(stage: Stage) -> Iterator[str]:
    """Yield each decision that finished tasks of a stage count although their inputs changed."""
    for one in stage.kept_tasks:
        how = agreement(one["policy"], one["by"]) or "and nobody agreed to it"
        yield f"tasks finished by {one['attempt']} were kept although their inputs changed, {how}"


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
        and one.mandate is None
        and failed.started_at < (one.decided_at or "") <= now.started_at
        and one.scripts.get(path) == digest
        for one in state.amendments.values()
    )


def _item(kind: str, stage: Stage, text: str) -> Item:
    return Item(kind, stage.id, text, stage.id, person=False)


#: What stands for a value that the log does not hold.
SET = "set"


def variables_of(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return each variable with its value, or with `SET`; and the python3 that it finds."""
    found = dict.fromkeys(environment["names"], SET) | environment["values"]
    python = environment["python3"]
    return {**found, "python3": python} if python else found


def told_code(code: Mapping[str, Any]) -> str:
    """Return of which commit the files of an attempt were, and which were not as it has them."""
    commit, others = code["commit"], differing(code)
    return f"{commit}, and not as it is there: {others}" if others else str(commit)


def differing(code: Mapping[str, Any]) -> str:
    """Return the files of an attempt that were not as their commit has them, empty if all were."""
    return ", ".join(code["files"]) or ("other files of the repository" if code["dirty"] else "")


def changes(
    now: Mapping[str, Any] | None, before: Mapping[str, Any] | None, attempt: str
) -> Iterator[str]:
    """Yield what differs from the environment of an earlier attempt, a line a variable."""
    if now is None or before is None or now["sha256"] == before["sha256"]:
        return
    here, there = variables_of(now), variables_of(before)
    names = [
        name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)
    ]
    yield from (_change(name, here.get(name), there.get(name), attempt) for name in names)
    if not names:
        yield f"a variable has another value than in {attempt}; the log does not hold which"


def _change(name: str, now: str | None, before: str | None, attempt: str) -> str:
    was = "was not set" if before is None else f"was {before}"
    if now is None:
        return f"{name} is not set; in {attempt} it {was}"
    return f"{name if now == SET else f'{name}={now}'} {was} in {attempt}"


_BAR = 20


def counts_of(seen: Mapping[str, Any]) -> dict[str, int]:
    """Return how many tasks stand where, by an attempt's ``tasks`` as the log has them."""
    found = {name: count_of(seen.get(name, "")) for name in ("done", "failed", "lost", "running")}
    found["waiting"] = max(0, seen["total"] - sum(found.values()))
    return found


def line_of(counts: Mapping[str, int]) -> str:
    """Return a bar and the counts that are not zero: ``[#####.....] 50 of 100 done, 2 failed``."""
    total = sum(counts.values())
    filled = _BAR * counts["done"] // total if total else 0
    others = [f"{number:,} {state}" for state, number in counts.items() if number]
    said = [one for one in others if not one.endswith(" done")]
    bar = "#" * filled + "." * (_BAR - filled)
    return ", ".join([f"[{bar}] {counts['done']:,} of {total:,} done", *said])
