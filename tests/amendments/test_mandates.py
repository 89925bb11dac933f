"""What a person agreed to beforehand takes effect, and nothing beyond it; by the command line."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.forgery import proof as bound
from tests.amendments.mandated import BO, GRANT, POLICIES, Mandated, made, plan_with
from tests.cli.support import wfctl, write_plan

pytestmark = pytest.mark.slow


@pytest.fixture(params=POLICIES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Mandated:
    """Make a workflow with a mandate that a person agreed to, under each policy."""
    return made(tmp_path, request.param)


@pytest.fixture
def trusted(tmp_path: Path) -> Mandated:
    """Make one where the policy does not matter."""
    return made(tmp_path, "trust")


@pytest.fixture
def typed(tmp_path: Path) -> Mandated:
    """Make one where a person agrees at a terminal alone."""
    return made(tmp_path, "terminal")


def granted_anew(place: Mandated, grant: Any) -> None:
    """Let a person grant the mandate with other bounds."""
    place.agreed(
        "mandate", "grant", "sampling", str(write_plan(place.path.parent, grant, "m.json"))
    )


def test_what_is_within_takes_effect_and_what_is_outside_waits(place: Mandated) -> None:
    """The agent's value is in force at once; the next one is a person's decision."""
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


def test_a_rehearsal_says_so_and_writes_nothing(place: Mandated) -> None:
    """Of what is within, and of what is not."""
    before = place.version()
    assert place.ask(2, "--dry-run")["mandate"] == "sampling"
    assert place.ask(22, "--dry-run")["mandate"] is None
    assert (place.version(), place.document()["version"]) == (before, 1)


def test_a_proposal_whose_command_died_is_approved_by_an_agent(place: Mandated) -> None:
    """Its approval did not come; `amend approve` of anybody for whom the mandate is brings it."""
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
def test_of_two_writers_and_one_amendment_left_one_takes_effect(
    policy: str, tmp_path: Path
) -> None:
    """The other one waits for a person, and neither command fails."""
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


def test_a_stage_of_a_mandate_that_is_taken_back_waits_for_a_new_one(place: Mandated) -> None:
    """No attempt starts, everybody is told what leads on, and a new grant lets it go on."""
    place.ask(2)
    place.agreed("mandate", "revoke", "sampling", "--reason", "too many")
    refused = place.agent("dispatch", "stage-1", "--sync")
    assert refused.code == 6
    assert "took it back" in refused.error["message"]
    assert "wfctl mandate grant sampling" in refused.error["message"]
    for words in (("status",), ("why", "stage-1"), ("run",)):
        assert "mandate grant sampling" in place.call(*BO, *words).out, words
    assert place.ask(3)["amendment"]["status"] == "proposed"
    place.done(*BO, "amend", "reject", "amend-3", "--reason", "no mandate")
    granted_anew(place, GRANT)
    place.done(*BO, "dispatch", "stage-1", "--sync")
    assert (place.path / "stage-1/out.txt").read_text() == "2\n"
    place.is_sound()


def test_a_rerun_within_the_mandate_takes_effect_as_its_rehearsal_says(place: Mandated) -> None:
    """With all stages that it names; the third rerun waits."""
    place.finish("stage-1", "stage-2")
    words = ("rerun", "stage-1", "stage-2", "--reason", "once more")
    assert place.done(*BO, *words, "--dry-run")["mandate"] == "sampling"
    place.done(*BO, *words)
    assert place.done("mandate", "list")[0]["used"]["reruns"] == 2
    place.finish("stage-1")
    again = place.agent("rerun", "stage-1", "--reason", "and again")
    assert again.code == 6 or place.policy == "trust"
    place.is_sound()


def test_a_mandate_that_is_over_covers_nothing(place: Mandated, tmp_path: Path) -> None:
    """`until` holds for a proposal and for an attempt that was prepared before."""
    place.ask(2)
    late = plan_with(until="2020-01-01T00:00:00Z")["mandates"]["sampling"]
    granted_anew(place, late)
    refused = place.agent("dispatch", "stage-1", "--sync")
    assert (refused.code, "in force until 2020-01-01" in refused.error["message"]) == (6, True)
    assert "in force until 2020" in place.call("status").out
    assert "until 2020-01-01" in place.ask(3)["not_within"]["sampling"][0]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_script_that_nobody_agreed_to_does_not_run_by_a_mandate(
    policy: str, tmp_path: Path
) -> None:
    """The file as it was runs, or one whose digest the mandate has; another one does not."""
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
    assert "build.sh is not the file that a person agreed to" in refused.error["message"]
    script.write_text("echo $WFCTL_PARAM_n\n")
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.is_sound()


@pytest.mark.parametrize("policy", POLICIES)
def test_no_attempt_goes_beyond_core_hours_and_tasks(policy: str, tmp_path: Path) -> None:
    """The refusal says how much is asked for and how much is left."""
    place = made(tmp_path, policy, plan_with(core_hours=0.05, tasks=4))
    place.ask(2)
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    small = plan_with(core_hours=0.01, tasks=4)["mandates"]["sampling"]
    granted_anew(place, small)
    refused = place.agent("dispatch", "stage-2", "--sync")
    assert refused.code == 6, refused
    assert "up to 0.025 core hours may be used" in refused.error["message"]
    none = plan_with(core_hours=0.05, tasks=1)["mandates"]["sampling"]
    granted_anew(place, none)
    refused = place.agent("dispatch", "stage-2", "--sync")
    assert refused.code == 6
    assert "1 task may be computed, and 0 of its 1 are left" in refused.error["message"]
    place.is_sound()


def test_a_hand_edit_of_mandates_is_never_taken_over_without_consent(typed: Mandated) -> None:
    """It is drift; `drift adopt` proposes it, and an agent cannot agree."""
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
    """Return the approval of a proposal by the mandate, as a forger writes it."""
    text = place.call("amend", "show", id_, "--statement").out
    proof = {**bound(text, policy="mandate"), "mandate": "sampling", "by": "mandate sampling"}
    known = {"amendment": id_, "version": 2, "approved_by": "mandate sampling", "kept": {}}
    stages, scripts = ["stage-1", "stage-2"], json.loads(text)["scripts"]
    return {**known, "invalidated_stages": stages, "proof": proof, "scripts": scripts}


@pytest.mark.forged
def test_a_row_of_an_approval_beyond_the_mandate_changes_nothing(place: Mandated) -> None:
    """It names the mandate, is bound to its statement, and is told by the audit."""
    place.ask(22)
    before = place.definition()
    place.write_row("amendment.approved", row_of_approval(place, "amend-1"))
    assert place.definition() == before
    why = [one["why"] for one in place.bypasses() if one["kind"] == "ineffective"]
    assert any("22 is not within" in one for one in why), why
    assert place.done("amend", "show", "amend-1")["amendment"]["status"] == "proposed"


@pytest.mark.forged
def test_a_row_by_a_mandate_names_nobody_else_as_who_approved(place: Mandated) -> None:
    """Within the mandate too: what a person never said is not told as a person's word."""
    data = {"kind": "parameter_change", "stage": "stage-1", "description": "n", "reason": "x"}
    asked = json.dumps({**data, "changes": {"parameters": {"n": {"new": 2}}}})
    place.done(*BO, "append", "amendment.proposed", "--data", asked)
    row = row_of_approval(place, "amend-1")
    place.write_row("amendment.approved", {**row, "approved_by": "pi@example.org"})
    assert place.document()["version"] == 1
    place.write_row("amendment.approved", row_of_approval(place, "amend-1"))
    assert place.document()["version"] == 2, "the same row that names the mandate counts"


def test_a_person_is_shown_the_mandates_of_a_plan_bound_by_bound(tmp_path: Path) -> None:
    """No text that is long hides the bounds behind it."""
    place = made(tmp_path, "terminal", plan_with(description="x" * 3000), agreed=False)
    shown = place.call("amend", "show", "plan").out
    assert "Mandate sampling, by which" in shown
    for line in ("amendments: 3", "reruns: 2", 'by: ["agent:*"]', 'stages: ["stage-1", "stage-2"]'):
        assert f"\n  {line}\n" in shown, line
    assert '\n  values stage-1.parameters.n: {"from": 1, "to": 9, "step": 1}\n' in shown


def test_everybody_who_asks_is_told_that_a_mandate_decided(place: Mandated) -> None:
    """Not that the agent did who proposed it."""
    place.ask(2)
    assert place.done("audit", "amendments")[-1]["decided_by"] == "mandate sampling"
    assert place.done("blame", "stage-1.parameters.n")[0]["agreed_by"] == "mandate sampling"
    assert "approved by mandate sampling" in place.call("audit", "amendments").out


@pytest.mark.parametrize("more", [(), ("--whole",)])
def test_the_proof_of_a_result_by_a_mandate_holds(place: Mandated, more: tuple[str, ...]) -> None:
    """Short and whole, of the result and of the amendment; it names the mandate."""
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


def test_exports_name_the_mandate_and_no_agent_as_who_decided(
    trusted: Mandated, tmp_path: Path
) -> None:
    """In PROV and in a crate: the one who recorded the approval decided nothing."""
    trusted.ask(2)
    trusted.done("export", "prov", str(tmp_path / "prov"))
    lines = (tmp_path / "prov").read_text().splitlines()
    told = [one for one in lines if "wf:amend-1" in one]
    assert any("approved by mandate sampling" in one for one in told)
    assert not any("wfctl:approved" in one for one in told)
    trusted.done("export", "ro-crate", str(tmp_path / "crate"))
    found = "".join(one.read_text() for one in tmp_path.glob("crate/**/ro-crate-metadata.json"))
    crate = json.loads(found or (tmp_path / "crate").read_text())
    [change] = [one for one in crate["@graph"] if one["@id"] == "#amend-1"]
    assert "agent" not in change
    assert "approved by mandate sampling" in change["description"]
