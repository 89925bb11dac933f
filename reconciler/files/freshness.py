"""Check whether results and their inputs are unchanged since the log recorded them.

A result is compared with the digest from the completion of its stage, an input with the digest from
the start of its attempt. The digest is computed only if the file's change time is newer than the
record. This is safe, because a user cannot set the change time of a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from stat import S_IFDIR
from typing import TYPE_CHECKING, Any

from eventstore.disk_space import describe_full_disk, has_no_free_bytes
from lifecycle.errors import NeedsConsent
from lifecycle.state.conditions import list_points_files
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import sweep_table_paths
from lifecycle.words.metrics import lies_in
from projections.words.account import Deviation, FileCheckResult
from projections.words.result_origin import (
    AttentionItem,
    is_imported_as_completed,
    list_unrecorded_results,
)
from projections.words.text import parse_time_to_epoch
from service.root.folder_entries import exists, is_file, is_folder
from wording import TemplatedError

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.reading.log import WorkflowLog
    from service.root.root import Root


#: Seconds before the time of a record. Files with a change time in this interval are compared too.
_TIME_MARGIN = 1.0
#: Maximum size in bytes of a file whose digest is compared in a quick check if its change time is
#: new.
_MAX_QUICK_BYTES = 64 * 10**6


class ChangedResult(NeedsConsent):
    """A stage must not start, because a result that it would use has changed."""

    code = "changed_result"

    def __init__(self, stage: str, found: list[Deviation]) -> None:
        listed = "; ".join(map(str, found))
        source = found[0].stage
        adopt = f'or accept the changed file with `wfctl verify {source} --adopt --reason "…"`; '
        adopt = adopt if any(one.kind != "deleted" for one in found) else ""
        again = f"run `wfctl verify {source} --restore` to write a table of tasks again; "
        again = again if any(one.path in sweep_table_paths(one.stage) for one in found) else ""
        super().__init__(
            f"{stage} is not started, because a result it uses has changed: {listed}. Restore "
            f"the file; {again}{adopt}or compute it again with `wfctl rerun {source} --reason "
            '"…"`.',
            stage=stage,
            changed=[one.to_dict() for one in found],
        )


class InputsChanged(TemplatedError, NeedsConsent):
    """An attempt must not be started again, because its input files have changed."""

    code = "inputs_changed"
    text = (
        "{stage}: {attempt} is not started again, because {files:, } changed since it "
        "started. Restore the old files and run `wfctl run`. To compute with the new files, "
        "run `wfctl stage fail {stage} --error TEXT`, then `wfctl stage retry {stage} --fix "
        "TEXT`."
    )
    stage: str
    attempt: str
    files: Sequence[str]


class StaleStages(NeedsConsent):
    """Results are outdated, and the workflow is configured to stop in this case."""

    code = "stale_stages"

    def __init__(self, reasons: dict[str, list[str]], what_next: str) -> None:
        super().__init__(f"{format_stale_stages(reasons)}. {what_next}", stale=reasons)


def format_stale_stages(reasons: dict[str, list[str]]) -> str:
    """Return one line that names outdated stages and the reason for each."""
    stages = "; ".join(f"{id_} ({', '.join(why)})" for id_, why in reasons.items())
    return f"stale: {stages}"


def find_deviations(
    root: Path, state: Workflow, *, deep: bool = False, only: Iterable[str] | None = None
) -> list[Deviation]:
    """Return the results and inputs of completed stages that have changed.

    ``only`` names the stages to check. With ``deep``, the digests of all files are compared, not
    only of files with a new change time.
    """
    stages = state.stages.values() if only is None else map(state.stage, only)
    deleted = [one for stage in state.stages.values() for one in stage.deleted]
    found: list[Deviation] = []
    for stage in stages:
        if stage.status is Status.COMPLETED:
            found += find_changed_results(root, stage, deep=deep)
            if (source := stage.source) is not None:
                # When outputs are reused, the inputs are compared completely, so only changes after
                # that time matter.
                since = (stage.started_at if stage.reused else None) or source.started_at
                other = _find_differing_files(root, stage, "input", source.inputs, since, deep)
                found += _omit_recorded_deletions(other, source.inputs, deleted)
    return found


def find_changed_inputs(root: Path, state: Workflow, ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the changed input files of the newest attempt of each sweep, by stage.

    Such changes make the results of tasks invalid. Files with the points are not included, because
    a task depends only on its own point.
    """
    found: dict[str, list[str]] = {}
    for stage in (one for one in map(state.stage, ids) if one.attempts):
        newest = stage.attempts[-1]
        read = stage.work.task_inputs(newest.inputs, list_points_files(state, stage))
        # An imported attempt has no recorded inputs and perhaps no valid start time, so it is
        # skipped.
        others = (
            _find_differing_files(root, stage, "input", read, newest.started_at, False)
            if read
            else ()
        )
        if paths := [one.path for one in others if one.kind == "changed"]:
            found[stage.id] = paths
    return found


def find_log_differences(root: Root, log: WorkflowLog, state: Workflow) -> FileCheckResult:
    """Return all files of the workflow that differ from the log.

    These are changed results of completed stages, changed inputs, scripts and checks, manual edits,
    an edited plan file, and signs that the log itself was changed.
    """
    from service.files.inspection import FilesInspection
    from service.files.plan_file_record import find_edited_plan_file
    from service.reading.trust_marks import find_tamper_evidence

    files = FilesInspection(root, log).describe_file_problems()
    found = find_deviations(root.path, state)
    verdicts = dict(_find_changed_verdicts(root.path, state))
    times = _find_unrecorded_times(root.path, state)
    # An imported record may state that a stage is completed without an attempt. No results are
    # recorded for such a stage, so only the existence of its outputs is checked.
    taken = (stage for stage in state.stages.values() if is_imported_as_completed(stage))
    missing = {one.id: [p for p in one.outputs if not exists(root.path / p)] for one in taken}
    gone = {id_: paths for id_, paths in missing.items() if paths}
    marks = [one.to_item() for one in find_tamper_evidence(root, log.store, log.stream)]
    failed = [one.id for one in state.stages.values() if one.status is Status.FAILED]
    inputs = find_changed_inputs(root.path, state, failed)
    scripts = _find_changed_scripts(root.path, state)
    against = [*marks, *find_edited_plan_file(root), *_find_full_disk(root, state)]
    return FileCheckResult(found, files, verdicts, times, gone, inputs, scripts, against)


def _find_changed_scripts(root: Path, state: Workflow) -> list[AttentionItem]:
    """Return the scripts that differ from the log.

    If the log contains no scripts, returns an empty list without slow imports.
    """
    if not (state.scripts or any(one.attempts for one in state.stages.values())):
        return []
    from reconciler.files.changed_scripts import find_changed_scripts

    return list(find_changed_scripts(root, state))


def _find_full_disk(root: Root, state: Workflow) -> Iterator[AttentionItem]:
    """Yield a problem if the disk is full and the workflow is not finished."""
    # A read-only file system also reports no free bytes, but this is not a problem to report.
    if not state.is_finished and os.access(root.path, os.W_OK) and has_no_free_bytes(root.path):
        text = f"{describe_full_disk(root.path)}; free some space and repeat the command"
        yield AttentionItem("root", str(root.path), text, person=False)


def _find_unrecorded_times(root: Path, state: Workflow) -> dict[str, float]:
    """Return the change times of results for which the log has no time, by path.

    A result that was written after the completion of its stage is omitted, because it is reported
    as changed.
    """
    found = {}
    for stage in state.stages.values():
        last = parse_time_to_epoch(stage.completed_at)
        if stage.status is not Status.COMPLETED or last is None:
            continue
        for path in list_unrecorded_results(stage):
            with suppress(OSError):
                written = (root / path).stat().st_mtime
                if written <= last:
                    found[path] = written
    return found


def _find_changed_verdicts(root: Path, state: Workflow) -> Iterator[tuple[str, str]]:
    for stage in state.stages.values():
        if stage.status is Status.POST_PROCESSING and stage.retry_count:
            from reconciler.files.script_consent import find_changed_verify_scripts

            if (found := find_changed_verify_scripts(root, state, stage)) is not None:
                yield stage.id, str(found).removeprefix(f"{stage.id}: ")


def find_changed_results(root: Path, stage: Stage, *, deep: bool = False) -> Iterator[Deviation]:
    """Yield the results of a completed stage that were changed after its completion."""
    if stage.completed_at is not None:
        found = _find_differing_files(
            root, stage, "result", stage.results, stage.completed_at, deep
        )
        yield from _omit_recorded_deletions(found, stage.results, stage.deleted)


def _omit_recorded_deletions(
    found: Iterable[Deviation],
    recorded: Iterable[dict[str, Any]],
    deleted: Sequence[dict[str, Any]],
) -> Iterable[Deviation]:
    """Remove missing files from the deviations if their deletion was recorded."""
    if not deleted:
        return found
    digests = {one["path"]: one["sha256"] for one in recorded}
    known = {one["path"] for one in deleted if digests.get(one["path"]) == one["sha256"]}
    return [one for one in found if one.kind != "missing" or one.path not in known]


def _find_differing_files(
    root: Path, stage: Stage, what: str, recorded: Iterable[dict[str, Any]], since: str, deep: bool
) -> Iterator[Deviation]:
    attempt = stage.source.id if stage.source else None
    began = parse_time_to_epoch(since)
    # The start time of an imported stage may be missing or wrong. Without a time, every file is
    # checked.
    for one in _find_possibly_changed_files(root, recorded, (began or 0.0) - _TIME_MARGIN, deep):
        kind = _classify_change(root, one, deep)
        if kind is not None:
            after = None
            with suppress(OSError):
                written = (root / one["path"]).stat().st_ctime
                after = max(written - began, 0.0) if began is not None else None
            yield Deviation(stage.id, attempt, what, one["path"], kind, since, after)


def check_upstream_results(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `ChangedResult` if a stage would use a result that has changed.

    A result whose deletion was recorded counts as changed only if it is an input of the stage and
    does not exist.
    """
    for id_ in stage.depends_on:
        upstream = state.stage(id_)
        if upstream.status is not Status.COMPLETED:
            continue
        found = [one for one in find_changed_results(root, upstream) if one.kind != "touched"]
        found += _find_deleted_inputs(root, upstream, stage)
        if found:
            raise ChangedResult(stage.id, found)


def _find_deleted_inputs(root: Path, upstream: Stage, stage: Stage) -> Iterator[Deviation]:
    """Yield deleted results of ``upstream`` that ``stage`` needs and that do not exist."""
    attempt = upstream.source.id if upstream.source else None
    for one in upstream.deleted:
        path = one["path"]
        is_read = any(lies_in(path, own) or lies_in(own, path) for own in stage.inputs)
        if is_read and not exists(root / path):
            yield Deviation(upstream.id, attempt, "result", path, "deleted", one["at"])


def check_inputs_unchanged(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `InputsChanged` if an input of the stage's newest attempt has changed.

    Files with the points of a sweep are not compared, because a task depends only on its own point.
    """
    newest, points = stage.attempts[-1], list_points_files(state, stage)
    read = [one for one in newest.inputs if one["path"] not in points]
    started = parse_time_to_epoch(newest.started_at) or 0.0
    suspects = _find_possibly_changed_files(root, read, started - _TIME_MARGIN, False)
    if changed := [
        one["path"] for one in suspects if _classify_change(root, one, True) is not None
    ]:
        raise InputsChanged(stage.id, newest.id, changed)


def _find_possibly_changed_files(
    root: Path, recorded: Iterable[dict[str, Any]], limit: float, deep: bool
) -> Iterator[dict[str, Any]]:
    """Yield the recorded files that may have changed: missing or with a new change time.

    With ``deep``, yields all files.
    """
    # This loop visits every file of every stage, so path strings are used instead of slower path
    # objects.
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


def _classify_change(root: Path, recorded: dict[str, Any], deep: bool) -> str | None:
    """Return how a file changed (missing, touched or changed), or None if it did not."""
    if not exists(root / recorded["path"]):
        return "missing"
    if recorded["size"] > _MAX_QUICK_BYTES and not deep:
        return "touched"
    from reconciler.attempt.file_digests import has_recorded_content

    return None if has_recorded_content(root / recorded["path"], recorded) else "changed"


def build_change_records(root: Root, state: Workflow, found: Iterable[Deviation]) -> list[Payload]:
    """Return the commands that record newly found changes of results.

    The same log may be used in roots on several hosts, and each root has only the results that were
    computed there. A result that is only missing in a root that did not compute it is not recorded.
    """
    seen: dict[str, dict[str, str]] = {}
    for one in found:
        if one.what == "result" and one.kind != "touched":
            seen.setdefault(one.stage, {})[one.path] = one.kind
    return [
        _build_change_record(root.path, stage.id, seen.get(stage.id, {}))
        for stage in state.stages.values()
        if {one["path"]: one["kind"] for one in stage.changed} != seen.get(stage.id, {})
        and ("changed" in seen.get(stage.id, {}).values() or _was_computed_here(root, stage))
    ]


def _was_computed_here(root: Root, stage: Stage) -> bool:
    attempt = stage.attempt
    if attempt is None or attempt.root == str(root.path):
        return True
    from service.root.root import has_former_place

    return has_former_place(root, attempt.root, attempt.host)


def _build_change_record(root: Path, stage: str, kinds: dict[str, str]) -> Payload:
    from lifecycle.payload import models as p  # few checks find a problem
    from reconciler.attempt.file_digests import digests

    files: list[dict[str, Any]] = []
    for path, kind in kinds.items():
        place = root / path
        there = kind == "changed" and (is_file(place) or is_folder(place))
        now = digests(root, [path]) if there else ()
        size, sha256 = (now[0].size, now[0].sha256) if now else (None, None)
        files.append({"path": path, "kind": kind, "size": size, "sha256": sha256})
    return p.ResultsChanged.model_validate({"stage": stage, "files": files})
