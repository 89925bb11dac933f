"""Why something is as it is: causes, refusals, advice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eventstore.private import read_regular
from eventstore.store import Refusal
from lifecycle.plan.advice import advice
from lifecycle.rules.impact import acting_on
from lifecycle.state.status import BLOCKING, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.amendments import held
from service.consent.scripts import beside, scripts_of
from service.questions.grounds import CauseGrounds, CauseLink
from service.reading.log import WorkflowLog
from service.reading.stream_log import At
from service.root.safe_open import seen_from


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a stage stands where it stands.

    ``chain`` holds what led to the status, through every parent, from the newest event to the
    root; ``waits_for`` says the same of every stage that holds it back, through others too: each
    once, the nearest first, and of those equally near the ones that will not come by themselves.
    A link that stands further up is left out.
    """

    stage: str
    status: str
    sentence: str
    chain: list[CauseLink]
    waits_for: list[Causes]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def causes_of(log: WorkflowLog, *stages: str, at: At = None) -> list[Causes]:
    """Return the causes of the status of each of the stages; raises `UnknownStage`."""
    state = log.current(at)
    found = [state.stage(stage) for stage in stages]
    grounds = CauseGrounds()
    for event, after in log.steps(upto=at) if found else ():
        grounds.see(event, after)
    told: set[int] = set()
    return [_causes(state, stage, grounds, told) for stage in found]


def _causes(state: Workflow, stage: Stage, grounds: CauseGrounds, told: set[int]) -> Causes:
    first = _alone(state, stage, grounds, told)
    waits_for = [_alone(state, one, grounds, told) for one in _holding(state, stage)]
    return replace(first, waits_for=waits_for)


def _alone(state: Workflow, stage: Stage, grounds: CauseGrounds, told: set[int]) -> Causes:
    """Return the causes of one stage without those in ``told``, which take theirs in."""
    if stage.status is Status.READY:
        grounds.renew(stage)
    sentence = _sentence(stage, _unmet(state, stage), acting_on(state).get(stage.id, []))
    return Causes(stage.id, stage.status.value, sentence, grounds.chain(stage.id, told), [])


def _holding(state: Workflow, stage: Stage) -> list[Stage]:
    """Return every stage that holds one back, however far: many ways may lead to each."""
    found = {stage.id: stage}
    waiting = deque([stage])
    while waiting:
        further = [one for one in _unmet(state, waiting.popleft()) if one.id not in found]
        found.update((one.id, one) for one in further)
        waiting.extend(further)
    return list(found.values())[1:]


def _unmet(state: Workflow, stage: Stage) -> list[Stage]:
    """Return what holds a stage back, those that will not come by themselves first."""
    if stage.status not in (Status.PENDING, Status.INVALIDATED, Status.READY):
        return []
    found = [state.stages[dependency] for dependency in state.unmet(stage)]
    return sorted(found, key=lambda one: one.status not in BLOCKING)


def _sentence(stage: Stage, unmet: list[Stage], acting: list[str]) -> str:
    text = f"{stage.id} ({stage.name}) is {stage.status.value}"
    if unmet:
        waits = ", ".join(f"{one.id}, which is {one.status.value}" for one in unmet)
        return f"{text}: it waits for {waits}"
    if stage.status is Status.READY and acting:
        return f"{text}, and {held(acting)}"
    if stage.status is Status.FAILED and stage.last_error:
        return f"{text}: {' '.join(stage.last_error.split())}"
    return text


def refusals_by(log: WorkflowLog, at: At = None) -> Iterator[Refusal]:
    """Yield the refusals up to a moment, in the order they were recorded.

    A refusal has no version: up to a version or a session are those before the next event.
    """
    end = _end(log, at)
    return (
        refusal for refusal in log.store.refusals(log.stream) if end is None or refusal.at <= end
    )


def _end(log: WorkflowLog, at: At) -> str | None:
    if at is None:
        return None
    moment = log.resolved(at)
    times = [time for time in (moment.so_by, moment.known_by) if time is not None]
    if moment.version is not None:
        following = next(log.store.read(log.stream, after=moment.version), None)
        times += [following.recorded_at] if following is not None else []
    return min(times, default=None)


#: Bytes of a script that are looked at.
_LONGEST = 1 << 20


def advice_of(root: Path, state: Workflow) -> list[str]:
    """Return what may be meant otherwise in a workflow's definition, a sentence each."""
    names = {*scripts_of(root, state)}
    for stage in state.stages.values():
        names |= {*beside(root, state, stage)}
    found = advice(state, "\n".join(_text(root / name) for name in sorted(names)))
    return [*_without_machine(root, state.backend_profiles), *found]


def _without_machine(root: Path, profiles: Mapping[str, Any]) -> Iterator[str]:
    """Say of each backend profile that names no machine that is there; its file is not read."""
    for name, profile in profiles.items():
        given = profile.get("config_path")
        if given is None and not isinstance(profile.get("config"), Mapping):
            yield (
                f"{name}: a backend profile without config and config_path; no stage can be "
                "dispatched to it (`local` is there where no profile is given)"
            )
        elif isinstance(given, str) and given and not seen_from(root, given).exists():
            yield (
                f"{name}: the machine file {seen_from(root, given)} is missing; no stage can be "
                "dispatched to it yet"
            )


def _text(path: Path) -> str:
    try:
        return read_regular(str(path), _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""  # gone since it was listed
