"""Whether what was computed is still what the log holds of it, and from what it was computed.

A result is compared with the digest that was recorded when its stage was completed, what an
attempt read with the digest at its start. A file that has not been touched since needs no digest:
its change time tells, which nobody sets by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from stat import S_IFDIR
from typing import TYPE_CHECKING, Any

from lifecycle.errors import LifecycleError, NeedsConsent
from lifecycle.state.conditions import files_of_points
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep, table_of
from projections.screens.next_actions import is_due
from projections.words.account import Deviation, Seen
from projections.words.came_about import is_taken_over, without_record
from projections.words.text import epoch
from reconciler.attempt.paths import PREPARED
from reconciler.errors import ReconcilerError
from wording import Worded

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.reading.log import WorkflowLog
    from service.root.root import Root


#: Seconds before a record was made in which a file that it tells of may still have been written.
_MARGIN = 1.0
#: Bytes up to which a touched file is compared by its digest in a quick look too.
_QUICK = 64 * 10**6


class ChangedResult(NeedsConsent):
    """A stage would build on a result that is not what was verified."""

    code = "changed_result"

    def __init__(self, stage: str, found: list[Deviation]) -> None:
        listed = "; ".join(map(str, found))
        source = found[0].stage
        again = f"`wfctl verify {source} --restore` writes a table of tasks again; "
        again = again if any(one.path in table_of(one.stage) for one in found) else ""
        super().__init__(
            f"{stage} is not dispatched: {listed}. Put it back; {again}or `wfctl verify {source} "
            f'--adopt --reason "…"` takes it as it is; or `wfctl rerun {source} --reason "…"` '
            "computes it again.",
            stage=stage,
            changed=[one.to_dict() for one in found],
        )


class InputsChanged(Worded, NeedsConsent):
    """An attempt that ended without a result would be replaced by one that reads other files."""

    code = "inputs_changed"
    text = (
        "{stage}: {files:, } changed since {attempt} started, so {attempt} is not started again. "
        "Put the files back as they were, then `wfctl run`. To compute from the files as they are "
        "now: `wfctl stage fail {stage} --error TEXT`, then `wfctl stage retry {stage} --fix TEXT`."
    )
    stage: str
    attempt: str
    files: Sequence[str]


class StaleStages(NeedsConsent):
    """Results rest on what has changed since, and the workflow says that this stops it."""

    code = "stale_stages"

    def __init__(self, reasons: dict[str, list[str]], what_next: str) -> None:
        super().__init__(f"{told(reasons)}. {what_next}", stale=reasons)


def told(reasons: dict[str, list[str]]) -> str:
    """Say which stages are stale and why, on one line."""
    stages = "; ".join(f"{id_} ({', '.join(why)})" for id_, why in reasons.items())
    return f"stale: {stages}"


def deviations(
    root: Path, state: Workflow, *, deep: bool = False, only: Iterable[str] | None = None
) -> list[Deviation]:
    """Return what of the completed stages is not as the log holds it; ``deep``: by whole digests.

    ``only`` names the stages to look at.
    """
    stages = state.stages.values() if only is None else map(state.stage, only)
    found: list[Deviation] = []
    for stage in stages:
        if stage.status is Status.COMPLETED:
            found += changed_results(root, stage, deep=deep)
            if (source := stage.source) is not None:
                # What is reused was compared with its inputs when it was, by whole digests.
                since = (stage.started_at if stage.reused else None) or source.started_at
                found += _otherwise(root, stage, "input", source.inputs, since, deep)
    return found


def changed_inputs(root: Path, state: Workflow, ids: Iterable[str]) -> dict[str, list[str]]:
    """Return by sweep what its newest attempt read and is another now: its tasks count no longer.

    The files of its points are left out: they name tasks, which are not computed from them.
    """
    found: dict[str, list[str]] = {}
    for stage in map(state.stage, ids):
        if not (is_sweep(stage.parameters) and stage.attempts):
            continue
        newest, points = stage.attempts[-1], files_of_points(state, stage)
        read = [one for one in newest.inputs if one["path"] not in points]
        # Of an attempt that was imported nothing is known, its times neither.
        others = _otherwise(root, stage, "input", read, newest.started_at, False) if read else ()
        if paths := [one.path for one in others if one.kind == "changed"]:
            found[stage.id] = paths
    return found


def look(root: Root, log: WorkflowLog, state: Workflow) -> Seen:
    """Return what differs of completed stages, and which files are not as the log says."""
    from service.files.inspection import FilesInspection
    from service.reading.trust_marks import marks_of

    files = FilesInspection(root, log).looked()
    found = deviations(root.path, state)
    verdicts = dict(_other_verdicts(root.path, state))
    times = _times(root.path, state)
    # Where an imported record alone has them.
    taken = (stage for stage in state.stages.values() if is_taken_over(stage))
    missing = {one.id: [p for p in one.outputs if not (root.path / p).exists()] for one in taken}
    gone = {id_: paths for id_, paths in missing.items() if paths}
    marks = [one.to_item() for one in marks_of(root, log.store, log.stream)]
    failed = [one.id for one in state.stages.values() if one.status is Status.FAILED]
    inputs = changed_inputs(root.path, state, failed)
    return Seen(found, files, verdicts, times, gone, inputs, marks)


def _times(root: Path, state: Workflow) -> dict[str, float]:
    """Return when results were written of which nothing was taken at the end of their job.

    One that was written after its stage was completed is a deviation.
    """
    found = {}
    for stage in state.stages.values():
        last = epoch(stage.completed_at)
        if stage.status is not Status.COMPLETED or last is None:
            continue
        for path in without_record(stage):
            with suppress(OSError):
                written = (root / path).stat().st_mtime
                if written <= last:
                    found[path] = written
    return found


def _other_verdicts(root: Path, state: Workflow) -> Iterator[tuple[str, str]]:
    for stage in state.stages.values():
        if stage.status is Status.POST_PROCESSING and stage.retry_count:
            from reconciler.files.described import other_verdict

            if (found := other_verdict(root, state, stage)) is not None:
                yield stage.id, str(found).removeprefix(f"{stage.id}: ")


def changed_results(root: Path, stage: Stage, *, deep: bool = False) -> Iterator[Deviation]:
    """Yield the results of a completed stage that are not as they were when it was completed."""
    if stage.completed_at is not None:
        yield from _otherwise(root, stage, "result", stage.results, stage.completed_at, deep)


def _otherwise(
    root: Path, stage: Stage, what: str, recorded: Iterable[dict[str, Any]], since: str, deep: bool
) -> Iterator[Deviation]:
    attempt = stage.source.id if stage.source else None
    began = epoch(since)
    # Of an imported stage a person may have typed anything as its time: each file is looked at.
    for one in _suspects(root, recorded, (began or 0.0) - _MARGIN, deep):
        kind = _kind(root, one, deep)
        if kind is not None:
            after = None
            with suppress(OSError):
                written = (root / one["path"]).stat().st_ctime
                after = max(written - began, 0.0) if began is not None else None
            yield Deviation(stage.id, attempt, what, one["path"], kind, since, after)


def check_results(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `ChangedResult` where a stage would build on what is no longer what was computed."""
    for id_ in stage.depends_on:
        upstream = state.stage(id_)
        if upstream.status is not Status.COMPLETED:
            continue
        found = [one for one in changed_results(root, upstream) if one.kind != "touched"]
        if found:
            raise ChangedResult(stage.id, found)


def check_inputs_unchanged(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `InputsChanged` if a file that the newest attempt read differs from its record.

    Files that name the points of a map are not compared: the tasks are not computed from them.
    """
    newest, points = stage.attempts[-1], files_of_points(state, stage)
    read = [one for one in newest.inputs if one["path"] not in points]
    started = epoch(newest.started_at) or 0.0
    suspects = _suspects(root, read, started - _MARGIN, False)
    if changed := [one["path"] for one in suspects if _kind(root, one, True) is not None]:
        raise InputsChanged(stage.id, newest.id, changed)


def _suspects(
    root: Path, recorded: Iterable[dict[str, Any]], limit: float, deep: bool
) -> Iterator[dict[str, Any]]:
    """Yield the files that may be others than those recorded; ``deep``: all of them."""
    # It goes over each file of each stage: no object is made of a path, nothing is asked twice.
    stat, top = os.stat, f"{root}/"
    for one in recorded:
        place = top + one["path"]
        try:
            found = stat(place)
        except OSError:
            yield one
            continue
        touched = found.st_ctime >= limit
        if not (touched or deep) and found.st_mode & S_IFDIR:
            below = (f"{at}/{name}" for at, *names in os.walk(place) for name in chain(*names))
            touched = any(os.lstat(path).st_ctime >= limit for path in below)
        if touched or deep:
            yield one


def _kind(root: Path, recorded: dict[str, Any], deep: bool) -> str | None:
    """Return what a file that may be another one is; None if it is as recorded."""
    if not (root / recorded["path"]).exists():
        return "missing"
    if recorded["size"] > _QUICK and not deep:
        return "touched"
    from reconciler.attempt.markers import is_as  # only where a file was touched

    return None if is_as(root / recorded["path"], recorded) else "changed"


def unrecorded(root: Root, state: Workflow, found: Iterable[Deviation]) -> list[Payload]:
    """Return the commands that record which results are not as recorded, where it is news.

    Roots of one log on several hosts each hold what was computed there: what is merely not in
    this one is no news of it.
    """
    seen: dict[str, dict[str, str]] = {}
    for one in found:
        if one.what == "result" and one.kind != "touched":
            seen.setdefault(one.stage, {})[one.path] = one.kind
    return [
        _changed(root.path, stage.id, seen.get(stage.id, {}))
        for stage in state.stages.values()
        if {one["path"]: one["kind"] for one in stage.changed} != seen.get(stage.id, {})
        and ("changed" in seen.get(stage.id, {}).values() or _was_computed_here(root, stage))
    ]


def _was_computed_here(root: Root, stage: Stage) -> bool:
    attempt = stage.attempt
    if attempt is None or attempt.root == str(root.path):
        return True
    from service.root.root import was_here

    return was_here(root, attempt.root, attempt.host)


def _changed(root: Path, stage: str, kinds: dict[str, str]) -> Payload:
    from lifecycle.payload import models as p  # few looks find anything
    from reconciler.attempt.markers import digests

    files: list[dict[str, Any]] = []
    for path, kind in kinds.items():
        place = root / path
        there = kind == "changed" and (place.is_file() or place.is_dir())
        now = digests(root, [path]) if there else ()
        size, sha256 = (now[0].size, now[0].sha256) if now else (None, None)
        files.append({"path": path, "kind": kind, "size": size, "sha256": sha256})
    return p.ResultsChanged.model_validate({"stage": stage, "files": files})


#: Stages that are looked at, and characters of what is wrong with one.
_FEW, _SHOWN = 3, 200


def unfit(root: Path, state: Workflow) -> dict[str, str]:
    """Return what must be corrected before the first stages that are due can be submitted.

    Only what a person wrote is looked at: submissions, profiles, resources, paths of inputs.
    """
    found = {}
    due = (stage for stage in state.stages.values() if is_due(state, stage))
    for stage in (one for one in islice(due, _FEW) if _is_own(root, state, one)):
        from reconciler.files.described import submission_of  # few stages have anything of the kind

        try:
            submission_of(root, state, stage, anew=stage.regenerate)
        except (ReconcilerError, LifecycleError, OSError) as error:
            found[stage.id] = f"a correction: {str(getattr(error, 'message', error))[:_SHOWN]}"
            continue
        path = state.profile(stage).get("config_path")
        if isinstance(path, str) and not (root / Path(path).expanduser()).exists():
            found[stage.id] = f"the machine file {path}, which is missing"
    return found


def _is_own(root: Path, state: Workflow, stage: Stage) -> bool:
    """Whether there is something of the kind that is not as wfctl makes it."""
    if not stage.parameters.get("command"):
        return (root / stage.id / PREPARED).is_file()
    profile = state.profile(stage)
    return (
        "resource_overrides" in stage.parameters
        or "config_path" in profile
        or "config" not in profile
        or profile.get("type") == "remote"
        or any(".." in path for path in stage.inputs)
        or (root / stage.id / PREPARED).is_file()
    )
