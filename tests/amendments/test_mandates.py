"""Changes within a mandate (permission given in advance) take effect, and others wait."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from lifecycle.words.mandates import RULE
from tests.amendments.forgery import proof as bound
from tests.amendments.mandated import BO, GRANT, POLICIES, Mandated, made, plan_with
from tests.cli.support import wfctl, write_plan
from tests.cli.terminal import answered

pytestmark = pytest.mark.slow


@pytest.fixture(params=POLICIES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Mandated:
    """Create a workflow with an approved mandate, under each policy."""
    return made(tmp_path, request.param)


@pytest.fixture
def trusted(tmp_path: Path) -> Mandated:
    """Create a workflow with a mandate under the consent policy `trust`."""
    return made(tmp_path, "trust")


@pytest.fixture
def typed(tmp_path: Path) -> Mandated:
    """Create a workflow with a mandate under the consent policy `terminal`."""
    return made(tmp_path, "terminal")


def granted_anew(place: Mandated, grant: Any) -> None:
    """Grant the mandate with other bounds as a person."""
    place.agreed(
        "mandate", "grant", "sampling", str(write_plan(place.path.parent, grant, "m.json"))
    )


def test_change_within_the_mandate_takes_effect(place: Mandated) -> None:
    """A value outside the bounds waits for a person."""
    place.finish("stage-1", "stage-2")
    told = place.ask(2)
    assert (told["mandate"], told["amendment"]["status"]) == ("sampling", "approved")
    assert told["amendment"]["approved_by"] == "mandate sampling"
    assert place.statuses()[:2] == ["ready", "invalidated"]
    outside = place.ask(22)
    assert (outside["mandate"], outside["amendment"]["status"]) == (None, "proposed")
    assert "22 is not within" in outside["not_within"]["sampling"][0]
    assert place.agent("amend", "approve", "amend-2").code == 6 or place.policy == "trust"
    place.is_sound()


def test_dry_run_reports_the_mandate_and_writes_nothing(place: Mandated) -> None:
    """The dry run names the mandate that covers the value, or no mandate."""
    before = place.version()
    assert place.ask(2, "--dry-run")["mandate"] == "sampling"
    assert place.ask(22, "--dry-run")["mandate"] is None
    assert (place.version(), place.document()["version"]) == (before, 1)


def test_agent_can_approve_an_earlier_proposal_within_the_mandate(place: Mandated) -> None:
    """An agent can approve a proposal within the mandate that was left pending."""
    change = {"parameters": {"n": {"new": 3}}}
    asked = {"kind": "parameter_change", "stage": "stage-1", "description": "n = 3"}
    data = json.dumps({**asked, "reason": "look", "changes": change})
    place.done(*BO, "append", "amendment.proposed", "--data", data)
    assert place.done("amend", "list", "--state", "proposed")
    place.done(*BO, "amend", "approve", "amend-1")
    [record] = [one for one in place.done("amend", "list") if one["id"] == "amend-1"]
    assert (record["status"], record["approved_by"]) == ("approved", "mandate sampling")
    place.is_sound()


@pytest.mark.parametrize("policy", POLICIES)
def test_last_allowed_amendment_is_used_only_once(policy: str, tmp_path: Path) -> None:
    """Of two parallel proposals, one takes effect, and the other waits for a person."""
    place = made(tmp_path, policy, plan_with(amendments=1))
    words = ("--root", str(place.path), "-o", "json", *BO, "amend", "propose", "--stage", "stage-1")
    answers: list[Any] = []

    def ask(value: int) -> None:
        change = f"parameters.n={value}"
        answers.append(wfctl(*words, "--set", change, "--reason", "look further"))

    writers = [threading.Thread(target=ask, args=(value,)) for value in (2, 3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.code for one in answers] == [0, 0], answers
    found = [one["status"] for one in place.done("amend", "list") if one["id"] != "plan"]
    assert sorted(found) == ["approved", "proposed"]
    place.is_sound()


def test_revoked_mandate_blocks_its_stages(place: Mandated) -> None:
    """No attempt starts until a person grants the mandate again."""
    place.ask(2)
    place.agreed("mandate", "revoke", "sampling", "--reason", "too many")
    refused = place.agent("dispatch", "stage-1", "--sync")
    assert refused.code == 6
    assert "withdrew the approval" in refused.error["message"]
    assert "wfctl mandate grant sampling" in refused.error["message"]
    for words in (("status",), ("why", "stage-1"), ("run",)):
        assert "mandate grant sampling" in place.call(*BO, *words).out, words
    assert place.ask(3)["amendment"]["status"] == "proposed"
    place.done(*BO, "amend", "reject", "amend-3", "--reason", "no mandate")
    granted_anew(place, GRANT)
    place.done(*BO, "dispatch", "stage-1", "--sync")
    assert (place.path / "stage-1/out.txt").read_text() == "2\n"
    place.is_sound()


@pytest.mark.parametrize("verb", ["revoke", "grant"])
@pytest.mark.parametrize("policy", ["terminal", "signature"])
def test_refused_change_of_a_mandate_blocks_no_stage(
    verb: str, policy: str, tmp_path: Path
) -> None:
    """An agent's change of the mandate is refused and closed, and the mandate stays valid."""
    place = made(tmp_path, policy)
    given = [str(write_plan(tmp_path, {**GRANT, "amendments": 9}, "m.json"))]
    words = ("mandate", verb, "sampling", *(given if verb == "grant" else []))
    keys = [[], ["--key", str(tmp_path / "missing")]] if policy == "signature" else [[]]
    for key in keys:
        refused = place.agent(*words, "--reason", "mine", *key)
        assert refused.code != 0
        assert refused.error["code"] != "internal"
        assert place.done("amend", "list", "--state", "proposed") == []
    assert place.ask(2)["mandate"] == "sampling"
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.is_sound()


def test_unanswered_change_of_a_mandate_stays_open(typed: Mandated) -> None:
    """After the answer "not now" to the question, the person can still approve the change."""
    code, _ = answered("n\n", "--root", str(typed.path), "mandate", "revoke", "sampling")
    assert code == 6
    [open_] = typed.done("amend", "list", "--state", "proposed")
    typed.agreed("amend", "approve", open_["id"])
    assert typed.done("mandate", "list") == []


def test_rerun_within_the_mandate_takes_effect(place: Mandated) -> None:
    """The mandate allows two reruns, and the third waits for a person."""
    place.finish("stage-1", "stage-2")
    words = ("rerun", "stage-1", "stage-2", "--reason", "once more")
    assert place.done(*BO, *words, "--dry-run")["mandate"] == "sampling"
    place.done(*BO, *words)
    assert place.done("mandate", "list")[0]["used"]["reruns"] == 2
    place.finish("stage-1")
    again = place.agent("rerun", "stage-1", "--reason", "and again")
    assert again.code == 6 or place.policy == "trust"
    place.is_sound()


def test_expired_mandate_covers_nothing(place: Mandated, tmp_path: Path) -> None:
    """After the time in `until`, new proposals and attempts of changed stages are refused."""
    place.ask(2)
    late = plan_with(until="2020-01-01T00:00:00Z")["mandates"]["sampling"]
    granted_anew(place, late)
    refused = place.agent("dispatch", "stage-1", "--sync")
    assert (refused.code, "expired at 2020-01-01" in refused.error["message"]) == (6, True)
    assert "expired at 2020" in place.call("status").out
    assert "expired at 2020-01-01" in place.ask(3)["not_within"]["sampling"][0]


@pytest.mark.parametrize("policy", POLICIES)
def test_changed_script_does_not_run_under_a_mandate(policy: str, tmp_path: Path) -> None:
    """Under a mandate, a script runs only with the content that a person approved."""
    plan = plan_with()
    plan["stages"][0]["parameters"]["command"] = "bash $WFCTL_ROOT/build.sh > out.txt"
    plan["stages"][0]["inputs"] = ["build.sh"]
    (tmp_path / "root").mkdir()
    script = tmp_path / "root" / "build.sh"
    script.write_text("echo $WFCTL_PARAM_n\n")
    place = made(tmp_path, policy, plan)
    place.ask(2)
    script.write_text("echo $WFCTL_PARAM_n; touch /tmp/elsewhere\n")
    refused = place.agent("dispatch", "stage-1", "--sync")
    assert refused.code == 6
    assert "build.sh differs from the file that a person approved" in refused.error["message"]
    script.write_text("echo $WFCTL_PARAM_n\n")
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.is_sound()


@pytest.mark.parametrize("policy", POLICIES)
def test_attempt_beyond_the_limits_of_a_mandate_is_refused(policy: str, tmp_path: Path) -> None:
    """The refusal states the needed and the remaining core hours or tasks."""
    place = made(tmp_path, policy, plan_with(core_hours=0.05, tasks=4))
    place.ask(2)
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    small = plan_with(core_hours=0.01, tasks=4)["mandates"]["sampling"]
    granted_anew(place, small)
    refused = place.agent("dispatch", "stage-2", "--sync")
    assert refused.code == 6, refused
    assert "up to 0.025 core hours may be needed" in refused.error["message"]
    none = plan_with(core_hours=0.05, tasks=1)["mandates"]["sampling"]
    granted_anew(place, none)
    refused = place.agent("dispatch", "stage-2", "--sync")
    assert refused.code == 6
    assert "1 task may be computed, and 0 of its 1 are left" in refused.error["message"]
    place.is_sound()


def test_edited_mandate_needs_consent(typed: Mandated) -> None:
    """A manual edit of the mandate is reported as drift, and an agent cannot adopt it."""
    state = typed.path / "workflow-state.json"
    document = json.loads(state.read_text())
    document["mandates"]["sampling"]["amendments"] = 99
    document["mandates"]["mine"] = GRANT
    state.write_text(json.dumps(document))
    typed.agent("status")
    typed.agent("reconcile")
    typed.agent("drift", "adopt", "--evidence", "it is so")
    typed.agent("amend", "approve", "amend-1")
    assert [one["most"]["amendments"] for one in typed.done("mandate", "list")] == [3]
    assert typed.done("amend", "list", "--state", "approved")[-1]["id"] == "plan"


def row_of_approval(place: Mandated, id_: str) -> dict[str, Any]:
    """Return the data of a forged approval that names the mandate as the approver."""
    text = place.call("amend", "show", id_, "--statement").out
    proof = {**bound(text, policy="mandate"), "mandate": "sampling", "by": "mandate sampling"}
    proof["mandate_rule"] = RULE
    known = {"amendment": id_, "version": 2, "approved_by": "mandate sampling", "kept": {}}
    stages, scripts = ["stage-1", "stage-2"], json.loads(text)["scripts"]
    return {**known, "invalidated_stages": stages, "proof": proof, "scripts": scripts}


@pytest.mark.forged
def test_forged_approval_beyond_the_mandate_is_ignored(place: Mandated) -> None:
    """wfctl ignores the inserted approval, and the audit names the bound that it exceeds."""
    place.ask(22)
    before = place.definition()
    place.write_row("amendment.approved", row_of_approval(place, "amend-1"))
    assert place.definition() == before
    why = [one["why"] for one in place.bypasses() if one["kind"] == "ineffective"]
    assert any("22 is not within" in one for one in why), why
    assert place.done("amend", "show", "amend-1")["amendment"]["status"] == "proposed"


@pytest.mark.forged
def test_forged_approval_must_name_the_mandate(place: Mandated) -> None:
    """A forged approval by the mandate has no effect if it names a person as approver."""
    data = {"kind": "parameter_change", "stage": "stage-1", "description": "n", "reason": "x"}
    asked = json.dumps({**data, "changes": {"parameters": {"n": {"new": 2}}}})
    place.done(*BO, "append", "amendment.proposed", "--data", asked)
    row = row_of_approval(place, "amend-1")
    place.write_row("amendment.approved", {**row, "approved_by": "pi@example.org"})
    assert place.document()["version"] == 1
    place.write_row("amendment.approved", row_of_approval(place, "amend-1"))
    assert place.document()["version"] == 2, "the same row that names the mandate counts"


def test_plan_shows_each_bound_of_its_mandates(tmp_path: Path) -> None:
    """`amend show plan` shows every bound, even after a long description of the mandate."""
    place = made(tmp_path, "terminal", plan_with(description="x" * 3000), agreed=False)
    shown = place.call("amend", "show", "plan").out
    assert "Mandate sampling, which allows stages to run" in shown
    for line in ("amendments: 3", "reruns: 2", 'by: ["agent:*"]', 'stages: ["stage-1", "stage-2"]'):
        assert f"\n  {line}\n" in shown, line
    assert '\n  values stage-1.parameters.n: {"from": 1, "to": 9, "step": 1}\n' in shown


def test_audit_and_blame_name_the_mandate(place: Mandated) -> None:
    """Audit and blame name the mandate as the approver, not the proposing agent."""
    place.ask(2)
    assert place.done("audit", "amendments")[-1]["decided_by"] == "mandate sampling"
    assert place.done("blame", "stage-1.parameters.n")[0]["agreed_by"] == "mandate sampling"
    assert "approved by mandate sampling" in place.call("audit", "amendments").out


@pytest.mark.parametrize("more", [(), ("--whole",)])
def test_proof_of_a_result_under_a_mandate_is_valid(place: Mandated, more: tuple[str, ...]) -> None:
    """Short and full proofs name the mandate as the approver."""
    place.ask(2)
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    key = place.call("checkpoint", "--public-key").out.strip()
    for what in ("stage-1", "amend-1"):
        written = place.path.parent / f"{what}.tlog-proof"
        assert place.call("prove", what, str(written), *more).code == 0
        answer = place.json("prove", "--check", str(written), "--public-key", key)
        assert answer.code == 0, answer
        told = {one["amendment"]: one for one in answer.data["consent"]}
        if what == "amend-1" or more:
            assert told["amend-1"]["approved_by"] == "mandate sampling"


def test_crate_names_the_mandate_as_the_approver(trusted: Mandated, tmp_path: Path) -> None:
    """The exported crate does not name the agent whose command recorded the approval."""
    trusted.ask(2)
    trusted.done("export", "ro-crate", str(tmp_path / "crate"))
    found = "".join(one.read_text() for one in tmp_path.glob("crate/**/ro-crate-metadata.json"))
    crate = json.loads(found or (tmp_path / "crate").read_text())
    [change] = [one for one in crate["@graph"] if one["@id"] == "#amend-1"]
    assert "agent" not in change
    assert "approved by mandate sampling" in change["description"]
