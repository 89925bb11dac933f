"""A workflow with two signers and two proposals, and a program that forges approvals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from unittest import mock

from eventstore.event import Actor
from lifecycle.fold.evolve import plan_version_after_approval
from lifecycle.payload import models as p
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.state.workflow import Amendment, Workflow
from service.consent import proof as consent
from service.consent import signature
from tests.exploration import worlds
from tests.exploration.search import Entry, Move, Place, World
from tests.lifecycle import support as s

Policy = Literal["terminal", "signature", "trust"]
POLICIES: tuple[Policy, ...] = ("terminal", "signature", "trust")
SIGNERS = ["ann ssh-ed25519 AAAA", "ben ssh-ed25519 BBBB"]
_MANDATE = {
    "stages": ["stage-1"],
    "amendments": 1,
    "by": ["agent:*"],
    "values": {"stage-1.parameters.x": [2]},
}


class Answer(NamedTuple):
    """An approval that somebody gives or forges, and whether it is valid under the policy."""

    text: str
    proof: dict[str, Any]
    is_valid: bool
    actor: str = "user"
    by: str = "user"


def judge_approval(flow: Workflow, entry: Entry) -> str | None:
    """Return the reason why wfctl ignores an approval, or None if the approval is valid.

    A digest with the name of the signer stands for a signature, because ssh-keygen is slow.
    """
    actor = Actor(entry.actor, "someone")
    approval = consent.PlannedApproval(entry.data, entry.prev_hash, actor, entry.occurred_at)
    with mock.patch.object(signature, "explain_invalid_signature", _check_signature):
        return consent.explain_invalid_approval(flow, approval)


def _sign(statement: bytes, signer: str) -> str:
    return f"{signer} {sha256(statement).hexdigest()}"


def _check_signature(
    statement: bytes, signed: str, signer: str, signers: list[str], at: str
) -> str | None:
    is_listed = signer in {line.split()[0] for line in signers}
    is_valid = is_listed and signed == _sign(statement, signer)
    return None if is_valid else "the signature is not valid"


def list_answers(place: Place, amendment: Amendment) -> Iterator[Answer]:
    """Yield approvals of an amendment: one of each signer, and all that an adversary can forge."""
    flow, policy = place.flow, place.flow.consent
    statement = _build_statement(place, amendment, place.head)
    may = amendment.is_open and not _is_outdated(flow, amendment)
    if policy == "signature":
        yield from _list_signed_answers(place, amendment, statement, may)
    else:
        proof = consent.build_proof(statement, policy)
        yield Answer("a person", proof, may)
        yield Answer("an agent", proof, may and policy == "trust", "agent")
    yield Answer("a program without a proof", {}, False)
    for other in POLICIES:
        if other != policy:
            forged = consent.build_proof(statement, other, **_signed(statement, "ann"))
            yield Answer(f"a proof for the policy {other}", forged, False)
    replayed = _build_statement(place, amendment, "0" * 64)
    yield Answer("a proof that was given earlier", _prove(policy, replayed), False)
    for another in flow.amendments.values():
        if another is not amendment:
            copied = _prove(policy, _build_statement(place, another, place.head))
            yield Answer(f"the proof for {another.id}", copied, False)
    yield from _list_mandate_answers(flow, amendment, statement, may)


def _list_signed_answers(
    place: Place, amendment: Amendment, statement: bytes, may: bool
) -> Iterator[Answer]:
    is_new = place.flow.has_new_signers
    for signer in ("ann", "ben"):
        proof = _prove("signature", statement, signer)
        yield Answer(f"{signer} at a terminal", proof, may, by=signer)
        untyped = {name: value for name, value in proof.items() if name != "typed"}
        yield Answer(f"{signer} through an agent", untyped, may and not is_new, "agent", signer)
    stranger = _prove("signature", statement, "eve")
    yield Answer("eve, who is no signer", stranger, False, by="eve")
    yield Answer(
        "ben with the signature of ann",
        {**stranger, **_signed(statement, "ann")} | {"signer": "ben"},
        False,
        by="ben",
    )
    yield Answer("ben for ann", _prove("signature", statement, "ann"), False, by="ben")
    yield Answer("no signature", consent.build_proof(statement, "signature", typed=True), False)


def _list_mandate_answers(
    flow: Workflow, amendment: Amendment, statement: bytes, may: bool
) -> Iterator[Answer]:
    """Yield approvals by a mandate for one change of x to 2 by an agent, and by no mandate."""
    is_used = any(one.policy == "mandate" for one in flow.amendments.values())
    is_agreed = flow.plan is None or not flow.plan.is_open
    within = amendment.changes.get("parameters", {}).get("x", {}).get("new") == 2
    is_valid = may and within and is_agreed and not is_used
    for name, actor in (("m", "agent"), ("m", "user"), ("n", "agent")):
        proof = consent.build_proof(statement, "mandate", mandate=name)
        valid = is_valid and (name, actor) == ("m", "agent")
        yield Answer(f"the mandate {name} of the {actor}", proof, valid, actor, f"mandate {name}")


def _is_outdated(flow: Workflow, amendment: Amendment) -> bool:
    """Return whether the value that the amendment changes has changed since the proposal."""
    x = amendment.changes.get("parameters", {}).get("x")
    policy = amendment.changes.get("consent")
    if x is not None:
        return bool(x["old"] != flow.stages["stage-1"].parameters["x"])
    return policy is not None and bool(policy["old"] != flow.consent)


def _build_statement(place: Place, amendment: Amendment, head: str) -> bytes:
    impact = compute_approval_impact(place.flow, amendment)
    return consent.build_statement(place.flow, amendment, impact, head, {})


def _signed(statement: bytes, signer: str) -> dict[str, Any]:
    return {"signature": _sign(statement, signer), "signer": signer}


def _prove(policy: str, statement: bytes, signer: str = "ann") -> dict[str, Any]:
    signed = {"typed": True, **_signed(statement, signer)} if policy == "signature" else {}
    return consent.build_proof(statement, policy, **signed)


def decision_moves(place: Place) -> Iterator[Move]:
    """Yield all approvals and rejections of all amendments, which may be decided already."""
    for id_, amendment in place.flow.amendments.items():
        for answer in list_answers(place, amendment):
            command = p.AmendmentApproved(amendment=id_, proof=answer.proof, approved_by=answer.by)
            forged = not answer.is_valid
            text = f"approve {id_} by {answer.text}"
            yield Move(text, command, answer.actor, is_row=forged, has_effect=answer.is_valid)
        version = plan_version_after_approval(place.flow, amendment)
        proof = _prove(place.flow.consent, _build_statement(place, amendment, place.head))
        row = p.AmendmentApproved(
            amendment=id_, proof=proof, version=version + 1, approved_by="ann"
        )
        yield Move(f"approve {id_} with another version", row, is_raw=True, has_effect=False)
        yield Move(f"reject {id_}", p.AmendmentRejected(amendment=id_), "agent")
    unknown = p.AmendmentApproved(amendment="amend-9", version=2, proof={"policy": "trust"})
    yield Move("approve amend-9, which nobody proposed", unknown, is_raw=True, has_effect=False)


def build_consent_world(policy: Policy, proposals: int = 2, attempts: int = 1) -> World:
    """Return a workflow under a consent policy, with a mandate for one change of x to 2."""
    other = "terminal" if policy == "trust" else "trust"
    known = {
        "x = 2": worlds.change_parameter("stage-1", "x", 2),
        "x = 3": worlds.change_parameter("stage-1", "x", 3),
        f"the policy {other}": {
            "kind": "parameter_change",
            "changes": {"consent": {"new": other}},
        },
    }

    def list_moves(place: Place) -> Iterator[Move]:
        stage = place.flow.stages["stage-1"]
        if len(stage.attempts) < attempts:
            yield Move("dispatch stage-1", worlds.start(place, stage, mode="sync"))
        yield Move("stage-1 has succeeded", s.computed("stage-1", f"att-{len(stage.attempts):04d}"))
        out = p.FileDigest(path="stage-1/out", size=1, sha256=f"{len(stage.attempts):064x}")
        check = p.Check(name="out", passed=True)
        passed = p.StageCompleted(stage="stage-1", checks=[check], outputs=[out])
        yield Move("the checks of stage-1 pass", passed)
        if len([one for one in place.flow.amendments if one != "plan"]) < proposals:
            for text, fields in known.items():
                command = p.AmendmentProposed.of({"description": text, **fields})
                yield Move(f"propose {text}", command, "agent")
        yield from decision_moves(place)

    stage = worlds.stage_definition("stage-1")
    world = worlds.build_world(f"consent by {policy}", list_moves, stage, mandates={"m": _MANDATE})
    new = {"consent": policy, "signers": SIGNERS}
    return replace(world, creation=world.creation.model_copy(update=new), judge=judge_approval)
