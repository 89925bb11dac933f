"""What to do next: the commands that lead on from a state.

Each, run as it stands, is accepted by the rules and changes something; or it says which argument
somebody has to give first, or that a person decides. Nothing here destroys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lifecycle.state.basis import reusable
from lifecycle.state.retry import retry_limit
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import Seen, waits
from projections.words.items import Item

GO_ON = "wfctl run"
#: How an attempt that only failed its verification is told of in ``last_error``.
_JUDGED = "verification failed"
#: Stale stages that one command computes again.
_TOGETHER = 8


class NextAction(NamedTuple):
    """A command and why one would call it.

    ``needs`` names what is to be put in place of the words in capitals, or to be there first;
    ``person``: only a person decides it.
    """

    command: str
    reason: str
    needs: tuple[str, ...] = ()
    person: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; what does not hold is left out."""
        found: dict[str, Any] = {"command": self.command, "reason": self.reason}
        if self.needs:
            found["needs"] = list(self.needs)
        return {**found, "person": True} if self.person else found

    def __str__(self) -> str:
        notes = [f"give {', '.join(self.needs)}"] if self.needs else []
        notes += ["a person decides"] if self.person else []
        return f"{self.command}  ({'; '.join([self.reason, *notes])})"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What no log tells: whether a loop is at work, whether it is to pause, what lies on the disk.

    ``lacking``: stage → what must be there before it can be dispatched; ``seen`` is what a look
    at the files found, None where nobody looked.
    """

    driven: bool = False
    paused: bool = False
    lacking: Mapping[str, str] = field(default_factory=dict)
    prepared: frozenset[str] = frozenset()
    seen: Seen | None = None


_ALONE = Surroundings()


def next_actions(state: Workflow, around: Surroundings = _ALONE) -> list[NextAction]:
    """Return what leads on, the most urgent first; nothing where there is nothing to do."""
    found = [*_decisions(state, waits(state, around.seen))]
    if state.workflow_status == "completed":
        return found or [NextAction("wfctl report -", "the workflow is completed; this is it")]
    found += _under_way(state)
    barred = around.seen.verdicts if around.seen else {}
    for stage in state.stages.values():
        found += _of_stage(state, stage) if stage.id not in barred else []
    return [*found, *_begun(state, around)]


def _decisions(state: Workflow, waiting: list[Item]) -> Iterator[NextAction]:
    """Look at what a person decides; what is stale is computed again where they agree."""
    for one in waiting:
        if one.kind == "amendment":
            why = f"{one.subject} is pending; it is approved or rejected after a look at it"
            yield NextAction(f"wfctl amend show {one.subject}", why, person=True)
        elif one.kind == "drift":
            why = f"{one.subject} was changed by hand: it is adopted or reverted after a look at it"
            yield NextAction("wfctl drift show", why, person=True)
        elif one.kind == "verdict":
            agree = "wfctl amend propose --set session_config.pin=scripts --reason TEXT"
            why = f"{one.subject} failed by other scripts: bring them back, or a person agrees"
            yield NextAction(agree, why, ("TEXT",), person=True)
        elif one.is_of_files and one.kind != "stale":
            why = f"{one}; it is put back, adopted or computed again after a look at it"
            yield NextAction(f"wfctl verify {one.stage}", why, person=True)
    yield from _rerun(state, [one for one in waiting if one.kind == "stale"])


def _rerun(state: Workflow, stale: list[Item]) -> Iterator[NextAction]:
    known = {id_ for amendment in state.pending_amendments for id_ in amendment.targets}
    named = [one for one in stale if one.subject not in known][:_TOGETHER]
    if named:
        command = f"wfctl rerun {' '.join(one.subject for one in named)}"
        yield NextAction(command, "; ".join(map(str, named)), person=True)


def _under_way(state: Workflow) -> Iterator[NextAction]:
    """Wait for all that computes in one command."""
    going = [stage for stage in state.stages.values() if stage.open_attempt is not None]
    unknown = [stage for stage in going if stage.attempts[-1].action == "unknown"]
    if unknown:
        why = f"nothing is known of {', '.join(stage.id for stage in unknown)}; it looks again"
        yield NextAction("wfctl reconcile", why)
    waiting = [stage.id for stage in going if stage not in unknown]
    if waiting:
        yield NextAction(f"wfctl wait {' '.join(waiting)}", f"{_are(waiting)} running")


def _are(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"{ids[0]} is"
    return f"{', '.join(ids)} are" if len(ids) <= 5 else f"{len(ids)} stages are"


def _of_stage(state: Workflow, stage: Stage) -> list[NextAction]:
    match stage.status:
        case Status.PENDING | Status.INVALIDATED:
            return _held_back(state, stage)
        case Status.READY if state.unmet(stage):
            return _held_back(state, stage)
        case Status.POST_PROCESSING:
            return [_verified(stage)]
        case Status.FAILED:
            return [*_failed(state, stage)]
    return []


def _held_back(state: Workflow, stage: Stage) -> list[NextAction]:
    if not state.unmet(stage):
        return [NextAction(f"wfctl stage ready {stage.id}", "nothing holds it back")]
    skipped = [id_ for id_ in stage.depends_on if state.stages[id_].status is Status.SKIPPED]
    if not skipped or _is_proposed(state, stage):
        return []
    return [
        _amendment(
            stage, "--set depends_on=JSON", f"it depends on {skipped[0]}, which was skipped", "JSON"
        )
    ]


def _is_proposed(state: Workflow, stage: Stage) -> bool:
    return any(amendment.stage == stage.id for amendment in state.pending_amendments)


def _amendment(stage: Stage, change: str, why: str, *needs: str) -> NextAction:
    words = f"wfctl amend propose --stage {stage.id} {change} --reason TEXT"
    return NextAction(words, f"{stage.id}: {why}", (*needs, "TEXT"))


def _verified(stage: Stage) -> NextAction:
    attempt = stage.attempt
    # Its checks are not known yet: recorded is how they end, and a failed check is no refusal.
    complete = f"wfctl stage complete {stage.id} --or-fail"
    if attempt is not None and attempt.outdated_by is not None:
        why = f"computed before {attempt.outdated_by}"
        return NextAction(
            f'wfctl stage fail {stage.id} --error "{why}"', f"{stage.id} was {why}, and runs again"
        )
    if stage.parameters.get("verify") or (stage.outputs and not stage.success_criteria):
        return NextAction(complete, f"the outputs of {stage.id} wait for a check")
    what = (
        "its success criteria are to be judged" if stage.success_criteria else "nothing checks it"
    )
    return NextAction(
        f"{complete} --evidence TEXT", f"{stage.id}: {what}; or `wfctl stage fail`", ("TEXT",)
    )


def _failed(state: Workflow, stage: Stage) -> Iterator[NextAction]:
    """A failed stage runs again: after a fix, with other parameters, or as a person agrees."""
    limit = retry_limit(state.backend_type(stage))
    if stage.rerun_by is not None or _is_edited(state, stage):
        return
    if stage.retry_count >= limit:
        if not _is_proposed(state, stage):
            why = f"it failed and used up its {limit} retries; a person decides on the proposal"
            yield _amendment(stage, "--type stage_rerun", why)
        return
    if state.unmet(stage):
        return
    if (stage.last_error or "").startswith(_JUDGED) and not _is_proposed(state, stage):
        why = "it was computed and did not pass: computed again as it is, it gives the same"
        yield _amendment(stage, "--set PATH=VALUE", why, "PATH=VALUE")
    reason = f"{stage.id} failed ({stage.retry_count} of {limit} retries used)"
    yield NextAction(f"wfctl stage retry {stage.id} --fix TEXT", reason, ("TEXT",))


def _is_edited(state: Workflow, stage: Stage) -> bool:
    """Whether its definition was changed by hand, which is decided first."""
    touched = (name for drift in state.drifts for name in drift.touches)
    return any(name.startswith(f"{stage.id}.") for name in touched)


def _begun(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Begin what may begin: in one command, unless a loop does it, or somebody has it paused."""
    ready = [stage for stage in state.stages.values() if _may_begin(state, stage)]
    if not ready or state.pending_amendments or around.driven:
        return
    if around.paused:
        why = f"{len(ready)} stages may begin, and PAUSE holds the runner back"
        yield NextAction("wfctl runner resume", why, person=True)
        return
    able = [stage for stage in ready if not _lacks(stage, around)]
    if len(able) == 1:
        why = f"{able[0].id} is {able[0].status}{_or_reused(state, able[0])}"
        yield NextAction(f"wfctl dispatch {able[0].id}", why)
    elif able:
        names = ", ".join(stage.id for stage in able[:3]) + (" …" if len(able) > 3 else "")
        yield NextAction(GO_ON, f"{len(able)} stages may begin: {names}")
    for stage in [stage for stage in ready if stage not in able][:3]:
        lacking = _lacks(stage, around)
        reason = f"{stage.id} is {stage.status}"
        yield NextAction(f"wfctl dispatch {stage.id}", reason, (str(lacking),))


def _or_reused(state: Workflow, stage: Stage) -> str:
    """Say that outputs are kept which the stage may take in place of computing them again."""
    if state.session_config.get("reuse") == "never" or stage.status is not Status.READY:
        return ""
    one = next(iter(reusable(state, stage)), None)
    if one is None:
        return ""
    return (
        f"; {one.id} computed by the same definition, and `wfctl stage reuse {stage.id}` takes its "
        "outputs where its inputs are the same"
    )


def _may_begin(state: Workflow, stage: Stage) -> bool:
    waiting = stage.status is Status.READY or (
        stage.status is Status.PREPARING and stage.open_attempt is None
    )
    return waiting and not state.unmet(stage)


def _lacks(stage: Stage, around: Surroundings) -> str | None:
    if stage.id in around.lacking:
        return around.lacking[stage.id]
    if stage.parameters.get("command") or stage.id in around.prepared:
        return None
    return f"{stage.id}/submission.json, or parameters.command by an amendment"
