"""Prepare a failed or completed stage for another attempt."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.payload.build_payload import payload_of
from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.mandates import format_count
from reconciler.attempt.paths import PREPARED, recorded_attempt_paths
from reconciler.context import JobContext
from reconciler.control.recomputation import find_recomputation, warn_of_recomputation
from reconciler.records import traces
from reconciler.submission import build as submission
from service.errors import InvalidOption
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def retry_stage(
    jobs: JobContext,
    id_: str,
    fix: str,
    options: WriteOptions,
    *,
    regenerate: bool = False,
    decide: Callable[[Payload, str], Outcome] | None = None,
) -> Outcome:
    """Let a failed stage run again, and record the correction of its cause.

    The text ``fix`` describes the correction. With ``regenerate``, the submission of the stage is
    built again. ``decide`` asks a person whether to keep the finished tasks of a sweep although
    their inputs changed, and records the retry. Raises `NeedsConsent` if the prepared
    submission.json changes the command or the resources of the stage.
    """
    values: dict[str, Any] = {"stage": id_, "fix": fix, "regenerate": regenerate}
    values |= {"failed_only": True} if decide is not None else {}
    command = payload_of(p.StageRetried.type, values)
    if decide is not None:
        options = options._replace(content={command.type: command.model_dump(mode="json")})
    first = jobs.service.first_answer(options, command)
    if first is not None:
        return first
    touched = (
        [] if regenerate else list(_find_changed_parameters(jobs, jobs.service.state().stage(id_)))
    )
    if touched:
        refusal = NeedsConsent(
            f"the submission.json of the stage {id_} changes {' and '.join(touched)}, and a "
            "person must approve a change of parameters. Propose the change with `wfctl amend "
            "propose`. After the approval, wfctl builds a new submission. A correction of an "
            "input script needs no approval.",
            stage=id_,
            fields=touched,
        )
        if not options.dry_run:
            jobs.service.writer.record_refusal([command], refusal)
        raise refusal
    if decide is not None:
        question = _render_keep_tasks_question(jobs, jobs.service.state().stage(id_))
        jobs.say(question, stage=id_)
        # Test the command first, so that a person is not asked to approve a command that the rules
        # refuse.
        agreed = command.model_copy(update={"proof": {"policy": "none: a rehearsal"}})
        jobs.service.handle(agreed, options=options._replace(dry_run=True))
        return decide(command, question)
    outcome = jobs.service.handle(command, options=options)
    state = jobs.service.state()
    warn_of_recomputation(jobs, state, state.stage(id_))
    return outcome


def _render_keep_tasks_question(jobs: JobContext, stage: Stage) -> str:
    """Return a question for a person: may the finished tasks of a failed sweep be kept?

    Raises `InvalidOption` if the stage is not a sweep.
    """
    if not is_sweep(stage.parameters):
        raise InvalidOption(
            "the option --failed-only keeps the finished tasks of a sweep, but the stage "
            f"{stage.id} is not a sweep, because it has no parameters.map. Run the command again "
            "without --failed-only.",
            stage=stage.id,
        )
    found = find_recomputation(jobs.root, jobs.service.state(), stage)
    if found is None:
        return (
            f"{stage.id}: the results of finished tasks are kept, even if their input files "
            "change before the start"
        )
    rest = found.total - found.finished
    return (
        f"{stage.id}: {found.cause}: {format_count(found.finished, 'finished task')} kept as "
        f"computed before the change, {format_count(rest, 'task')} to compute ({found.price(rest)})"
    )


def _find_changed_parameters(jobs: JobContext, stage: Stage) -> Iterator[str]:
    """Yield the names of parameters that the prepared submission changes.

    The prepared submission.json is compared with the submission of the last attempt. Yields nothing
    if one of the two does not exist.
    """
    prepared = jobs.root / stage.id / PREPARED
    attempt = next((a for a in reversed(stage.attempts) if not a.diagnostic), None)
    # If the submission will be built again, for example after an approved amendment, the prepared
    # file is not used.
    if attempt is None or stage.regenerate or not prepared.is_file():
        return
    ran = traces.read_json(recorded_attempt_paths(jobs.root, "", stage.id, attempt).submission)
    if ran is None:
        return
    now = submission.read_submission(prepared)
    commands = ([task.get("command") for task in one.get("task_list", [])] for one in (ran, now))
    if stage.parameters.get("command") is not None and operator.ne(*commands):
        yield "parameters.command"
    # wfctl itself sets these fields in each attempt, so they always differ and are not compared.
    ours = {"envs": 0, "prepend_script": 0, "group_size": 0}
    if operator.ne(*({**one.get("resources", {}), **ours} for one in (ran, now))):
        yield "parameters.resource_overrides"
