"""Under the policy ``signature``, only a signature of an allowed signer changes the plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.forgery import APPROVAL, Row, digest_of, proof, statement
from tests.amendments.support import LONGER, Keys, Place, canonical, sign
from tests.cli.support import attempt_data, call


def test_allowed_key_approves(signed: Place, keys: Keys) -> None:
    """The amendment records the name of the signer."""
    signed.finish("stage-1")
    signed.propose(*LONGER)
    assert signed.approve("amend-1", "--key", str(keys.allowed))[0] == "amendment.approved"
    document = signed.document()
    assert document["version"] == 2
    assert document["amendments"][0]["approved_by"] == "pi@example.org"
    assert signed.call("replay", "--check").code == 0
    assert signed.bypasses() == []


def test_signature_made_elsewhere_approves(signed: Place, keys: Keys, tmp_path: Path) -> None:
    """wfctl accepts a signature that was made with OpenSSH alone, on any machine."""
    signed.propose(*LONGER)
    made = sign(statement(signed), keys.allowed, tmp_path)
    assert signed.approve("amend-1", "--signature", str(made))[0] == "amendment.approved"


def test_statement_contains_everything_to_approve(signed: Place) -> None:
    """It has the amendment, the head, the impact and the policy, in canonical JSON."""
    signed.propose(*LONGER)
    text = statement(signed)
    said = json.loads(text)
    assert canonical(said) == text
    assert set(said) == {"amendment", "form", "head", "impact", "policy", "scripts", "workflow"}
    assert said["amendment"]["changes"] == {"parameters": {"n": {"old": 1, "new": 2}}}
    assert said["head"] == signed.last()["hash"]


@pytest.mark.parametrize("form", [1, 2])
def test_approval_of_an_older_statement_form_stays_valid(
    signed: Place, keys: Keys, tmp_path: Path, form: int
) -> None:
    """Approvals with statements of the first two forms are still valid.

    The impact in these forms has no stopped downstream attempts. The first form has only the digest
    of the impact, and no scripts.
    """
    signed.finish("stage-1")
    signed.done("append", "attempt.started", "--data", attempt_data("stage-2"))
    signed.propose(*LONGER)
    said = json.loads(statement(signed))
    impact = {
        **said["impact"],
        "invalidated": ["stage-1"],
        "stopped": {},
        "outdated": ["stage-2"],
        "kept": {"stage-1": "stage-1.v1"},
    }
    said |= {"form": 2, "impact": impact, "scripts": {}}
    if form == 1:
        said = {key: value for key, value in said.items() if key not in ("form", "scripts")}
        said["impact"] = digest_of(canonical(impact))
    text = canonical(said)
    made = {**proof(text, sign(text, keys.allowed, tmp_path)), "form": form}
    if form == 1:
        made.pop("form")
    data = {key: value for key, value in APPROVAL.items() if key != "scripts"}
    signed.write_row("amendment.approved", {**data, "proof": made})
    assert signed.document()["version"] == 2
    assert signed.bypasses() == []


def test_approval_of_the_third_statement_form_stays_valid(
    signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """An approval is valid in which, as in that form, a changed check stops the attempt."""
    signed.done("append", "attempt.started", "--data", attempt_data("stage-1"))
    signed.propose("--stage", "stage-1", "--set", "parameters.verify=true", "--reason", "so")
    said = json.loads(statement(signed))
    assert (said["form"], said["impact"]["stopped"]) == (4, {})
    stopped = {"stopped": {"stage-1": "att-0001"}, "kept": {"stage-1": "stage-1.v1"}}
    impact = {**said["impact"], **stopped}
    text = canonical({**said, "form": 3, "impact": impact, "scripts": {}})
    made = {**proof(text, sign(text, keys.allowed, tmp_path)), "form": 3}
    data = {key: value for key, value in APPROVAL.items() if key != "scripts"}
    signed.write_row("amendment.approved", {**data, "proof": made})
    assert signed.document()["version"] == 2
    assert signed.bypasses() == []


def test_key_of_a_stranger_is_refused(signed: Place, keys: Keys) -> None:
    """The exit code is 6, and the audit lists the attempt."""
    signed.propose(*LONGER)
    before = signed.definition()
    answer = signed.json("amend", "approve", "amend-1", "--key", str(keys.stranger))
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["refused"]


def test_signature_for_an_earlier_head_is_a_conflict(
    signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """The approval exits with code 4 if the log has events after the signed statement."""
    signed.propose(*LONGER)
    made = sign(statement(signed), keys.allowed, tmp_path)
    signed.done("note", "meanwhile")
    version = signed.version()
    answer = signed.json("amend", "approve", "amend-1", "--signature", str(made))
    assert (answer.code, answer.error["code"]) == (4, "impact_changed")
    assert signed.version() == version


def test_append_accepts_no_signature(signed: Place, keys: Keys, tmp_path: Path) -> None:
    """`append` refuses an approval even if its data contain a valid signature."""
    signed.propose(*LONGER)
    text = statement(signed)
    good = {**APPROVAL, "proof": proof(text, sign(text, keys.allowed, tmp_path))}
    before = signed.definition()
    for data in (good, APPROVAL, {"amendment": "amend-1", "approved_by": "user"}):
        assert signed.call("append", "amendment.approved", "--data", json.dumps(data)).code == 6
    lines = tmp_path / "lines"
    lines.write_text(json.dumps({"type": "amendment.approved", "data": good}))
    assert signed.call("append", "--from", str(lines)).code == 6
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["refused"] * 4


def test_edited_state_file_changes_nothing(signed: Place) -> None:
    """The edit does not change the plan, and the audit lists it before and after a write."""
    before = signed.definition()
    path = signed.path / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][0]["parameters"]["n"] = 99
    document["amendments"] = [{"id": "amend-1", "approved_by": "user"}]
    path.write_text(json.dumps(document))
    assert [b["kind"] for b in signed.bypasses()] == ["edited"]
    signed.done("note", "on we go")
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["edited"]


def test_policy_change_needs_consent_under_the_old_policy(signed: Place, keys: Keys) -> None:
    """A change of the consent policy needs a signature, and then the new policy applies."""
    signed.propose("--set", "consent=trust", "--reason", "alone now")
    assert signed.call("amend", "approve", "amend-1").code == 6
    signed.approve("amend-1", "--key", str(keys.allowed))
    signed.propose(*LONGER)
    signed.approve("amend-2")
    assert signed.document()["version"] == 3
    assert "the consent policy is trust" in signed.call("status").out


@pytest.mark.forged
def test_forged_policy_change_is_ignored(signed: Place) -> None:
    """wfctl ignores an inserted policy change, and the approvals that rely on it."""
    signed.propose("--set", "consent=trust", "--reason", "quick")
    text = statement(signed)
    data = {**APPROVAL, "invalidated_stages": [], "proof": proof(text, policy="trust")}
    signed.write_row("amendment.approved", data)
    signed.propose(*LONGER)
    before = signed.definition()
    text = statement(signed, "amend-2")
    data = {**APPROVAL, "amendment": "amend-2", "proof": proof(text, policy="trust")}
    signed.write_row("amendment.approved", data)
    assert signed.definition() == before
    assert signed.done("status")["consent"]["policy"] == "signature"
    assert len(signed.bypasses()) == 2


def _downgraded(bodies: list[Row]) -> list[Row]:
    bodies[0]["data"]["consent"] = "trust"
    return bodies


def _own_signer(bodies: list[Row]) -> list[Row]:
    bodies[0]["data"]["signers"] = ["mallory ssh-ed25519 AAAA"]
    return bodies


def _reordered(bodies: list[Row]) -> list[Row]:
    """Swap the approval with the event before it."""
    where = next(i for i, b in enumerate(bodies) if b["type"] == "amendment.approved")
    bodies[where - 1], bodies[where] = bodies[where], bodies[where - 1]
    return bodies


def _other_change(bodies: list[Row]) -> list[Row]:
    for body in bodies:
        if body["type"] == "amendment.proposed":
            body["data"]["changes"]["parameters"]["n"]["new"] = 99
    return bodies


@pytest.mark.parametrize("edit", [_downgraded, _own_signer, _reordered, _other_change])
def test_rewritten_history_loses_its_approvals(
    edit: Callable[[list[Row]], list[Row]], signed: Place, keys: Keys
) -> None:
    """Approvals are not valid in a rewritten log, even if its hash chain is valid."""
    before = signed.definition()
    signed.propose(*LONGER)
    signed.done("note", "meanwhile")
    signed.approve("amend-1", "--key", str(keys.allowed))
    signed.edit_rows(edit)
    assert signed.definition() == before
    assert {"altered"} < {b["kind"] for b in signed.bypasses()}


def test_approval_on_a_replaced_log_is_refused(signed: Place, keys: Keys) -> None:
    """The approval exits with code 6, because the user has pinned the original log."""
    signed.propose(*LONGER)
    signed.edit_rows(_downgraded)
    answer = signed.json("amend", "approve", "amend-1")
    assert (answer.code, answer.error["code"]) == (6, "another_log")
    assert "the log that your user account pinned" in answer.error["message"]


def test_forged_stored_state_is_ignored(signed: Place) -> None:
    """Under the policy `signature`, wfctl computes the state only from the events."""
    from lifecycle.fold.evolve import REDUCER
    from service.reading import stream_log

    before = signed.definition()
    forged = folded(signed)
    forged.stages["stage-1"].parameters = {"command": "true", "n": 99}
    forged.consent = "trust"
    with signed.database() as database:
        database.execute("DELETE FROM folds")
        database.execute(
            "INSERT INTO folds VALUES (?, ?, ?, ?, ?)",
            (
                "workflow-melt-2026-03-31",
                stream_log.NAME,
                REDUCER,
                forged.head,
                stream_log.to_bytes(forged),
            ),
        )
    signed.done("note", "on we go")
    assert signed.definition() == before
    assert signed.done("show", "stage-1")["parameters"]["n"] == 1


def folded(place: Place) -> Any:
    """Return the state of the workflow, computed from all events."""
    from cli.frame.workspace import SCHEMA
    from eventstore.sqlite.store import open_store
    from service.reading.log import WorkflowLog
    from service.root.atomic_files import system_instant

    database = place.path / ".wfctl/events.db"
    store = open_store(database, schema=SCHEMA, clock=system_instant, read_only=True)
    try:
        return WorkflowLog(store, "workflow-melt-2026-03-31", place.path).replayed()
    finally:
        store.close()


def test_state_at_a_time_uses_the_approvals_of_the_whole_log(signed: Place, keys: Keys) -> None:
    """With ``--at`` and a time, an approval is judged at its own position in the log."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    assert signed.done("replay", "--at", "2100-01-01")["version"] == 2


def test_signature_policy_requires_signers(tmp_path: Path) -> None:
    """`init --consent signature` without signers is a usage error."""
    from tests.cli.support import write_plan

    answer = call(
        "--root", str(tmp_path), "init", str(write_plan(tmp_path)), "--consent", "signature"
    )
    assert answer.code == 2


def test_unpinned_log_causes_a_warning(
    signed: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`status` warns a user who has not pinned (remembered) the log."""
    assert "pinned" not in signed.call("status").out
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert "has not pinned this log" in signed.call("status").out
