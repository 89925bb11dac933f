"""Kept outputs of an earlier good attempt, in place of a computation from the same.

The rules compare the definition. Here the files are compared by whole digests: what a computation
would be sent now, and the outputs where they are kept. Copies are put in place and digested again
before anything is recorded; what is kept stays as it is.
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
from lifecycle.state.conditions import has_results_kept, is_judged_alone, needed_by, reusable
from lifecycle.state.workflow import Attempt, Stage, Workflow
from reconciler.attempt.markers import clear_stale, digests, is_as
from reconciler.attempt.paths import ATTEMPTS, KEPT, forwarded
from reconciler.context import Jobs
from reconciler.control.dispatch import make_room
from reconciler.control.stopping import stop_all
from reconciler.control.strangers import check_strangers
from reconciler.errors import MissingInput
from reconciler.files.described import submission_of
from reconciler.files.freshness import check_results
from reconciler.verification.verify import completion, verify
from service.root.disk import sync_folder
from service.writing.amendments import check_edits
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import Worded

#: Characters of what was wrong with kept outputs that a note holds.
_NOTE = 1_000


class NothingToReuse(Worded, Refused):
    """No earlier attempt computed from what the stage would compute from now, or none is whole."""

    code = "nothing_to_reuse"
    text = (
        "{stage}: expected a good attempt that computed from the same, with its outputs kept; "
        "found {why}. `wfctl dispatch {stage}` computes."
    )
    untold = ("why",)
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class KeptOutputs:
    """Outputs of an attempt, and where each lies now; paths relative to the root."""

    attempt: Attempt
    places: Mapping[str, str]

    def command(self, stage: str) -> p.OutputsReused:
        """Return the command that records that they are reused."""
        given = {"outputs": self.attempt.results, "inputs": self.attempt.inputs}
        return p.OutputsReused.model_validate({"stage": stage, "attempt": self.attempt.id, **given})


def kept_outputs(
    jobs: Jobs, state: Workflow, stage: Stage, named: str | None = None
) -> KeptOutputs | NothingToReuse:
    """Return outputs that could be reused, of the attempt that is named or of the newest.

    Digests everything that it compares. Nothing is written.
    """
    why = "none whose definition was the present one"
    for one in reusable(state, stage):
        if named not in (None, one.id):
            continue
        changed = _others(jobs, state, stage, one)
        places = {} if changed else dict(_places(jobs.root, stage, one))
        lost = [file["path"] for file in one.results if file["path"] not in places]
        if not changed and not lost:
            return KeptOutputs(one, places)
        why = f"other inputs than {one.id} had: {', '.join(changed)}"
        if not changed:
            why = f"that outputs of {one.id} are kept no more, or were changed: {', '.join(lost)}"
    return NothingToReuse(stage.id, why)


def _others(jobs: Jobs, state: Workflow, stage: Stage, one: Attempt) -> list[str]:
    """Return what a computation would be sent now and is not what the attempt was sent."""
    given = submission_of(jobs.root, state, stage, anew=True)
    given = {**given, "machine": {"local_root": str(jobs.root)}}
    try:
        sent = [os.path.relpath(path, jobs.root) for path in forwarded(given)]
        now = digests(jobs.root, list(dict.fromkeys([*needed_by(state, stage), *sent])))
    except MissingInput as error:
        return [str(error.data.get("path", "an input that is missing"))]
    found = {i.path: i.sha256 for i in now}
    then = {i["path"]: i["sha256"] for i in one.inputs}
    return sorted(path for path in {*found, *then} if found.get(path) != then.get(path))


def _places(root: Path, stage: Stage, one: Attempt) -> Iterator[tuple[str, str]]:
    """Yield each output of an attempt that is whole somewhere, with the path it is kept under."""
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
            if is_as(root / place, file):
                yield path, place
                break


def reuse(jobs: Jobs, id_: str, named: str | None, options: WriteOptions) -> Outcome:
    """Put kept outputs of the stage in place and record it; they are to be verified then.

    Raises NothingToReuse, and what the rules raise: the stage is ready, as for a dispatch.
    """
    options = replace(options, content={"reuse": id_, "attempt": named})
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    if not options.dry_run:
        check_edits(jobs.service, id_)
        stop_all(jobs)
    with jobs.sole(id_):
        state = jobs.service.state()
        kept = kept_outputs(jobs, state, state.stage(id_), named)
        if isinstance(kept, NothingToReuse):
            raise kept
        jobs.service.rehearse(kept.command(id_))
        if not options.dry_run:
            _put_in_place(jobs, state, state.stage(id_), kept)
        return jobs.service.handle(kept.command(id_), options=options)


def _put_in_place(jobs: Jobs, state: Workflow, stage: Stage, kept: KeptOutputs) -> None:
    """Copy what is kept to where the stage has it; whatever lies there is moved aside first."""
    check_results(jobs.root, state, stage)
    check_strangers(jobs, state, stage)
    previous = stage.attempt.name if stage.attempt else None
    make_room(jobs, state, stage)
    clear_stale(jobs.root, stage.id, [*stage.outputs, *kept.places], previous)
    # They may just have been moved.
    places = dict(_places(jobs.root, stage, kept.attempt))
    for file in kept.attempt.results:
        path = file["path"]
        if path not in places:
            raise NothingToReuse(stage.id, f"that {path} is kept no more")
        source, target = jobs.root / places[path], jobs.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
            with target.open("rb") as copied:
                os.fsync(copied.fileno())
        sync_folder(target.parent)
        if not is_as(target, file):
            raise NothingToReuse(stage.id, f"that {path} changed while it was copied")


def taken(
    jobs: Jobs, id_: str, *, sync: bool = False, options: WriteOptions | None = None
) -> Outcome | None:
    """Take kept outputs for a stage that is ready, where that is to be; say so where it could be.

    It is to be by ``session_config.reuse: take``, and where only the criteria have changed: kept
    outputs that do not hold by them are moved aside again, and the stage is to be computed. None
    where it is: anyone who dispatches a stage asks here first.
    """
    state = jobs.service.state()
    stage = state.stage(id_)
    options = replace(options or WriteOptions(), content={"dispatch": id_, "sync": sync})
    alone = has_results_kept(stage) and is_judged_alone(state, stage)
    if not (alone and reusable(state, stage)):
        return None
    kept = kept_outputs(jobs, state, stage)
    if isinstance(kept, NothingToReuse):
        return None
    if state.session_config.get("reuse", "offer") != "take" and not stage.is_rejudged:
        jobs.say(
            f"{stage.id}: {kept.attempt.id} computed from the same and its outputs are kept; it is "
            f"computed again all the same (`wfctl stage reuse {stage.id}` takes such outputs, "
            "session_config.reuse: take always)",
            stage=stage.id,
        )
        return None
    if options.dry_run:
        return jobs.service.handle(kept.command(id_), options=options)
    check_edits(jobs.service, id_)
    stop_all(jobs)
    return _verified(jobs, state, stage, kept, options)


def _verified(
    jobs: Jobs, state: Workflow, stage: Stage, kept: KeptOutputs, options: WriteOptions
) -> Outcome | None:
    with jobs.sole(stage.id):
        jobs.service.rehearse(kept.command(stage.id))
        _put_in_place(jobs, state, stage, kept)
        found = verify(jobs, replace(stage, reused=kept.attempt.id))
        if found.problems:
            text = f"kept outputs of {kept.attempt.id} do not hold: {found.problems}"[:_NOTE]
            jobs.record(p.NoteLogged(stage=stage.id, text=f"{text}; it is computed"))
            return None
        outcome = jobs.service.handle(kept.command(stage.id), options=options)
        jobs.tell(outcome)
    now = outcome.state.stage(stage.id)
    # If nobody but a person or an agent can judge them, they are judged as any outputs are.
    with suppress(NeedsConsent):
        over = jobs.record(completion(jobs, now, found))
        events = (*outcome.events, *over.events)
        return replace(outcome, events=events, state=over.state, stands=over.stands)
    return outcome
