"""Reuse kept outputs of an earlier successful attempt instead of computing a stage again.

The rules compare the definitions. This module compares the digests of the current inputs and of the
kept outputs. The outputs are copied into place and checked again before the reuse is recorded. The
kept files are not changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.basis import find_reusable_attempts, is_recheck_sufficient
from lifecycle.state.conditions import is_ready_with_earlier_results, list_needed_files
from lifecycle.state.workflow import Attempt, Stage, Workflow
from reconciler.attempt.file_digests import digests, has_recorded_content
from reconciler.attempt.markers import move_stale_files_aside
from reconciler.attempt.paths import ATTEMPTS, KEPT, iterate_forwarded_paths
from reconciler.context import JobContext
from reconciler.control.dispatch import move_old_outputs_aside
from reconciler.control.judge_attempts import check_unlogged_attempts
from reconciler.control.stop_jobs import stop_marked_attempts
from reconciler.errors import MissingInput
from reconciler.files.described_submission import get_stage_submission
from reconciler.files.freshness import check_upstream_results
from reconciler.verification.verify import build_completion, verify_stage
from service.root.atomic_files import sync_folder
from service.root.folder_entries import is_folder
from service.writing.stream_writer import WriteOptions
from service.writing.undecided_edits import check_no_undecided_edits
from service.writing.workflow_service import Outcome
from wording import TemplatedError

#: Maximum number of characters of a note about kept outputs that failed the checks.
_MAX_NOTE_LENGTH = 1_000


class NothingToReuse(TemplatedError, Refused):
    """No earlier attempt with the same definition and inputs has complete kept outputs."""

    code = "nothing_to_reuse"
    text = (
        "{stage}: no kept outputs can be reused: expected a completed attempt with the same "
        "definition and inputs, found {why}. Run `wfctl dispatch {stage}` to compute the "
        "stage."
    )
    untold = ("why",)
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class KeptOutputs:
    """The outputs of an earlier attempt that can be reused, and their current locations.

    The paths are relative to the root.
    """

    attempt: Attempt
    places: Mapping[str, str]

    def command(self, stage: str) -> p.OutputsReused:
        """Build the command that records the reuse of these outputs."""
        given = {"outputs": self.attempt.results, "inputs": self.attempt.inputs}
        return p.OutputsReused.model_validate({"stage": stage, "attempt": self.attempt.id, **given})


def find_kept_outputs(
    jobs: JobContext, state: Workflow, stage: Stage, named: str | None = None
) -> KeptOutputs | NothingToReuse:
    """Return the kept outputs of an earlier attempt that the stage can reuse.

    Uses the attempt ``named``, or the newest attempt with the same definition and inputs. If none
    is suitable, returns the error that explains why. The digests of all compared files are
    computed.
    """
    why = "no attempt with the current definition"
    for one in find_reusable_attempts(state, stage):
        if named not in (None, one.id):
            continue
        changed = _find_changed_inputs(jobs, state, stage, one)
        places = {} if changed else dict(_find_kept_places(jobs.root, stage, one))
        lost = [file["path"] for file in one.results if file["path"] not in places]
        if not changed and not lost:
            return KeptOutputs(one, places)
        why = f"that {one.id} used other inputs: {', '.join(changed)}"
        if not changed:
            why = f"that outputs of {one.id} no longer exist or were changed: {', '.join(lost)}"
    return NothingToReuse(stage.id, why)


def _find_changed_inputs(
    jobs: JobContext, state: Workflow, stage: Stage, one: Attempt
) -> list[str]:
    """Return the input files that differ between the attempt and a new computation."""
    given = get_stage_submission(jobs.root, state, stage, anew=True)
    given = {**given, "machine": {"local_root": str(jobs.root)}}
    try:
        sent = [os.path.relpath(path, jobs.root) for path in iterate_forwarded_paths(given)]
        now = digests(jobs.root, list(dict.fromkeys([*list_needed_files(state, stage), *sent])))
    except MissingInput as error:
        return [str(error.data.get("path", "an input that is missing"))]
    found = {i.path: i.sha256 for i in now}
    then = {i["path"]: i["sha256"] for i in one.inputs}
    return sorted(path for path in {*found, *then} if found.get(path) != then.get(path))


def _find_kept_places(root: Path, stage: Stage, one: Attempt) -> Iterator[tuple[str, str]]:
    """Yield each unchanged output of an attempt with its current location."""
    folders = [stage.id, *(f"{stage.id}.v{number}" for number in range(stage.kept, 0, -1))]
    for file in one.results:
        path = file["path"]
        moved = [path.replace(stage.id, folder, 1) for folder in folders]
        aside = [
            f"{folder}/{ATTEMPTS}/{later.name}/{KEPT}/{path}"
            for folder in folders
            for later in stage.attempts
        ]
        for place in (*(moved if path.startswith(f"{stage.id}/") else [path]), *aside):
            if has_recorded_content(root / place, file):
                yield path, place
                break


def reuse_outputs(jobs: JobContext, id_: str, named: str | None, options: WriteOptions) -> Outcome:
    """Copy the kept outputs of an earlier attempt into the stage's folder, and record the reuse.

    ``named`` is the id of the earlier attempt, or None for the newest one. The stage must be ready,
    and the copied outputs must be verified afterwards. Raises NothingToReuse, or the error of a
    violated rule.
    """
    options = options._replace(content={"reuse": id_, "attempt": named})
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    if not options.dry_run:
        check_no_undecided_edits(jobs.service, id_)
        stop_marked_attempts(jobs)
    with jobs.lock_stage(id_):
        state = jobs.service.state()
        kept = find_kept_outputs(jobs, state, state.stage(id_), named)
        if isinstance(kept, NothingToReuse):
            raise kept
        jobs.service.rehearse(kept.command(id_))
        if not options.dry_run:
            _put_in_place(jobs, state, state.stage(id_), kept)
        return jobs.service.handle(kept.command(id_), options=options)


def _put_in_place(jobs: JobContext, state: Workflow, stage: Stage, kept: KeptOutputs) -> None:
    """Copy kept outputs to the places where the stage writes them.

    Files that are already there are moved aside first.
    """
    check_upstream_results(jobs.root, state, stage)
    check_unlogged_attempts(jobs, state, stage)
    previous = stage.attempt.name if stage.attempt else None
    move_old_outputs_aside(jobs, state, stage)
    move_stale_files_aside(jobs.root, stage.id, [*stage.outputs, *kept.places], previous)
    # The files may just have been moved aside, so their locations are determined again.
    places = dict(_find_kept_places(jobs.root, stage, kept.attempt))
    for file in kept.attempt.results:
        path = file["path"]
        if path not in places:
            raise NothingToReuse(stage.id, f"that {path} no longer exists")
        source, target = jobs.root / places[path], jobs.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_folder(source):
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
            with target.open("rb") as copied:
                os.fsync(copied.fileno())
        sync_folder(target.parent)
        if not has_recorded_content(target, file):
            raise NothingToReuse(stage.id, f"that {path} changed while it was copied")


def reuse_if_configured(
    jobs: JobContext, id_: str, *, sync: bool = False, options: WriteOptions | None = None
) -> Outcome | None:
    """Reuse kept outputs for a ready stage, or return None if it must be computed.

    Outputs are reused if ``session_config.reuse`` is ``take``, or if only the success criteria have
    changed. In other cases, the user is informed that a reuse is possible. Kept outputs that fail
    the criteria are moved aside again. Every dispatch calls this function first.
    """
    state = jobs.service.state()
    stage = state.stage(id_)
    options = (options or WriteOptions())._replace(content={"dispatch": id_, "sync": sync})
    alone = is_ready_with_earlier_results(stage) and is_recheck_sufficient(state, stage)
    if not (alone and find_reusable_attempts(state, stage)):
        return None
    kept = find_kept_outputs(jobs, state, stage)
    if isinstance(kept, NothingToReuse):
        return None
    if state.session_config.get("reuse", "offer") != "take" and not stage.is_rejudged:
        jobs.say(
            f"{stage.id}: {kept.attempt.id} has the same definition and inputs, and its "
            "outputs are kept, but the stage is computed again. `wfctl stage reuse "
            f"{stage.id}` would reuse the outputs; 'session_config.reuse: take' always does so",
            stage=stage.id,
        )
        return None
    if options.dry_run:
        return jobs.service.handle(kept.command(id_), options=options)
    check_no_undecided_edits(jobs.service, id_)
    stop_marked_attempts(jobs)
    return _reuse_if_valid(jobs, state, stage, kept, options)


def _reuse_if_valid(
    jobs: JobContext, state: Workflow, stage: Stage, kept: KeptOutputs, options: WriteOptions
) -> Outcome | None:
    with jobs.lock_stage(stage.id):
        jobs.service.rehearse(kept.command(stage.id))
        _put_in_place(jobs, state, stage, kept)
        found = verify_stage(jobs, replace(stage, reused=kept.attempt.id))
        if found.problems:
            text = (
                f"the kept outputs of {kept.attempt.id} do not pass the checks: {found.problems}"[
                    :_MAX_NOTE_LENGTH
                ]
            )
            jobs.record(p.NoteLogged(stage=stage.id, text=f"{text}; the stage is computed"))
            return None
        outcome = jobs.service.handle(kept.command(stage.id), options=options)
        jobs.tell(outcome)
    now = outcome.state.stage(stage.id)
    # If a person or an agent must judge the outputs, the stage is not completed here and waits for
    # the judgement.
    with suppress(NeedsConsent):
        over = jobs.record(build_completion(jobs, now, found))
        events = (*outcome.events, *over.events)
        return outcome._replace(events=events, state=over.state, stands=over.stands)
    return outcome
