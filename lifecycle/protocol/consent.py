"""The promises of consent: nothing definitional changes that a person did not agree to."""

from __future__ import annotations

from lifecycle.protocol.standing import (
    ACTIVE,
    PLAN,
    START,
    Broken,
    CheckedAmendment,
    CheckedStage,
    Data,
    Standing,
    hold,
)


def proposed(log: Standing, event: Data) -> None:
    """An amendment is proposed once, with the next number, for a stage that there is."""
    id_, stage = event["data"]["amendment"], event["data"].get("stage")
    numbers = [one.removeprefix("amend-") for one in log.amendments]
    expected = max((int(one) for one in numbers if one.isdecimal()), default=0) + 1
    hold(id_ == f"amend-{expected}", "consent", f"expected amend-{expected}, found {id_}")
    hold(stage is None or stage in log.stages, "a job is never lost", f"there is no {stage!r:.80}")
    log.amendments[id_] = CheckedAmendment(event["data"])


def decided(log: Standing, event: Data) -> None:
    """An amendment is decided once, and approved by a person."""
    found = log.amendments.get(event["data"]["amendment"])
    approves = event["type"] == "amendment.approved"
    if found is None or not (found.is_open if approves else found.status == "proposed"):
        raise Broken("consent", "what is decided was not proposed, or was decided before")
    found.status = "rejected"
    if approves:
        by_a_person(log, event)
        log.changes += found.data.get("kind") != PLAN
        hold(event["data"]["version"] == log.changes, "consent", "its number was given before")
        found.status = "approved"
        _apply(log, found.data)
        named = {found.data.get("stage"), *found.data.get("also", [])} - {None}
        if found.data.get("kind") == _OF_SEVERAL:
            named |= {*found.data.get("rewired", {})}
        _reach(log, found, named, event)


#: The kind of an amendment that changes several stages at once.
_OF_SEVERAL = "plan_change"
#: Parameters by which a result is judged, waited for or brought back, and none is computed.
_JUDGES = frozenset(
    {"verify", "task_verify", "tolerate", "task_retries", "expected_seconds", "bring_back_limit"}
    | {"carry"}
)


def _reach(log: Standing, amendment: CheckedAmendment, named: set[str], event: Data) -> None:
    """Note what an approval lets become of stages, and which results count no longer."""
    affected = set(event["data"]["invalidated_stages"])
    amendment.reach, amendment.command = frozenset(named | affected), event["command_id"]
    for stage in (log.stages[id_] for id_ in named):
        if stage.status == "failed":
            stage.rerun_by = amendment.data["amendment"]
    for stage in (log.stages[id_] for id_ in affected | named):
        stage.good |= stage.refuted
    judged = {amendment.data.get("stage")} if _only_judges(amendment.data) else set()
    judged |= _judged_of_several(amendment.data)
    for stage in (log.stages[id_] for id_ in affected - judged):
        for attempt in stage.attempts[-1:]:
            attempt.is_outdated = attempt.is_outdated or stage.status in ACTIVE


def _only_judges(proposed: Data) -> bool:
    """Whether an attempt under way goes on, and is judged at its end by what is changed."""
    changes = proposed.get("changes") or {}
    return (
        proposed.get("kind") in ("parameter_change", "criteria_change")
        and set(changes) <= {"parameters", "success_criteria", "name"}
        and set(changes.get("parameters", {})) <= _JUDGES
    )


def _judged_of_several(proposed: Data) -> set[str]:
    """Return the stages of a changed plan of which a verdict alone changes."""
    parts = proposed.get("rewired") or {} if proposed.get("kind") == _OF_SEVERAL else {}
    return {
        id_
        for id_, changes in parts.items()
        if _only_judges({"kind": "parameter_change", "changes": changes})
    }


def by_a_person(log: Standing, event: Data) -> None:
    """Raise `Broken` without a proof that the policy in force could take."""
    proof = event["data"].get("proof") or {}
    hold(proof.get("policy") == log.consent, "consent", f"no proof for the policy {log.consent}")
    bound = isinstance(proof.get("statement"), str) and len(proof["statement"]) == len(START)
    hold(bound, "consent", "its proof is bound to no statement")
    agent = log.consent == "terminal" and event["actor"]["kind"] == "agent"
    hold(not agent, "consent", "an agent cannot agree")
    signed = log.consent != "signature" or bool(proof.get("signature") and proof.get("signer"))
    hold(signed, "consent", "it is not signed")
    plan = log.amendments.get(PLAN)
    new = log.consent == "signature" and plan is not None and plan.is_open
    hold(not new or "typed" in proof, "consent", "nobody at a terminal agreed to the signers")


def _apply(log: Standing, amendment: Data) -> None:
    new = amendment.get("insert")
    if new is not None:
        hold(new["id"] not in log.stages, "consent", f"there is a {new['id']} already")
        log.stages[new["id"]] = CheckedStage(list(new.get("depends_on") or []))
    changes = amendment.get("changes") or {}
    if amendment.get("stage") is None:
        log.consent = changes.get("consent", {}).get("new", log.consent)
    elif "depends_on" in changes:
        log.stages[amendment["stage"]].needs = changes["depends_on"]["new"]
    for stage, change in (amendment.get("rewired") or {}).items():
        log.stages[stage].needs = change.get("new", log.stages[stage].needs)


def require_approving(log: Standing, event: Data, id_: str) -> CheckedAmendment:
    """Return the amendment that reaches the stage of the event, and was approved with it."""
    require_agreed(log, event, id_)
    found = log.amendments[id_]
    hold(event["command_id"] == found.command, "all or none", f"{id_} was approved before")
    return found


def require_agreed(log: Standing, event: Data, id_: str | None) -> None:
    """Raise `Broken` unless an approved amendment reaches the stage of the event."""
    found, stage = log.amendments.get(id_ or ""), event["data"]["stage"]
    if found is None or found.status != "approved" or stage not in found.reach:
        raise Broken("consent", f"no approved amendment lets this become of {stage}")
