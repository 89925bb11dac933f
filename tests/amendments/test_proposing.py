"""Proposals of amendments: the changes that are allowed, and the recorded data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.amendments.support import LONGER, Place


def test_proposal_records_old_and_new_value(trusted: Place) -> None:
    """A proposal records both values and does not change the plan."""
    before = trusted.definition()
    answer = trusted.propose(*LONGER)
    assert answer["amendment"]["id"] == "amend-1"
    assert answer["amendment"]["changes"] == {"parameters": {"n": {"old": 1, "new": 2}}}
    assert trusted.definition() == before
    assert "Amendment proposed: amend-1 (parameter_change, stage-1)" in trusted.log()


def test_nested_value_is_recorded_at_its_top_level_key(trusted: Place) -> None:
    """A proposal for a nested value records the complete old and new object."""
    words = ("--set", "parameters.resource_overrides.cpu=4", "--reason", "faster")
    answer = trusted.propose("--stage", "stage-2", *words)
    change = {"old": {"cpu": 1}, "new": {"cpu": 4}}
    assert answer["amendment"]["changes"] == {"parameters": {"resource_overrides": change}}


def test_added_and_removed_keys_have_only_one_value(trusted: Place) -> None:
    """A proposal records no value, rather than null, for a missing key."""
    words = ("--set", "parameters.seed=null", "--unset", "parameters.n", "--reason", "r")
    changes = trusted.propose("--stage", "stage-1", *words)["amendment"]["changes"]
    assert changes == {"parameters": {"seed": {"new": None}, "n": {"old": 1}}}


def test_proposal_can_be_read_from_a_file(trusted: Place, tmp_path: Path) -> None:
    """A proposal file has fields named like the options, or a recorded change."""
    file = tmp_path / "proposal.json"
    change = {"success_criteria": {"old": "", "new": "drift below 1e-3"}}
    file.write_text(json.dumps({"stage": "stage-1", "reason": "unclear", "changes": change}))
    answer = trusted.propose("--from", str(file))
    assert answer["amendment"]["type"] == "criteria_change"
    assert answer["amendment"]["changes"] == change


def test_wrong_old_value_is_a_conflict(trusted: Place, tmp_path: Path) -> None:
    """A proposal with a wrong old value exits with code 4, and nothing is recorded."""
    file = tmp_path / "proposal.json"
    change = {"parameters": {"n": {"old": True, "new": 2}}}
    file.write_text(json.dumps({"stage": "stage-1", "reason": "r", "changes": change}))
    answer = trusted.json("amend", "propose", "--from", str(file))
    assert (answer.code, answer.error["code"]) == (4, "stale_amendment")
    assert answer.error["data"] == {"place": "parameters.n", "expected": "true", "found": "1"}


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "mandates.m.amendments=1000"),
        ("--set", "parameters.n=3", "--set", "session_config.pin=scripts"),
        ("--unset", "mandates.m"),
    ],
)
def test_workflow_field_is_refused_for_a_stage(trusted: Place, words: tuple[str, ...]) -> None:
    """A field of the workflow is refused with --stage, and the error suggests to omit it."""
    answer = trusted.json("amend", "propose", "--stage", "stage-1", *words, "--reason", "r")
    assert answer.error["code"] == "invalid_amendment"
    assert "leave --stage out" in answer.error["message"]


REFUSED = {
    "an operational field": ("--stage", "stage-1", "--set", "retry_count=0"),
    "parameters as criteria": (
        *("--stage", "stage-1", "--type", "criteria_change"),
        *("--set", "parameters.n=2"),
    ),
    "the same value": ("--stage", "stage-1", "--set", "parameters.n=1"),
    "a circle": ("--stage", "stage-1", "--set", 'depends_on=["stage-3"]'),
    "no such dependency": ("--stage", "stage-2", "--set", 'depends_on=["stage-9"]'),
    "no such backend": ("--stage", "stage-2", "--set", "backend=moon"),
    "a list as a name": ("--stage", "stage-2", "--set", "name=[5]"),
    "a rerun of what has not run": ("--stage", "stage-1", "--type", "stage_rerun"),
    "a skip of nothing": ("--type", "stage_skip"),
    "an insert without a name": ("--insert", "{}"),
    "an insert out of number": ("--insert", '{"id": "stage-9", "name": "X"}'),
    "an insert out of place": ("--insert", '{"name": "X"}', "--place", "7"),
    "a session's own count": ("--set", "session_config.session_count=9"),
    "signature without signers": ("--set", "consent=signature"),
    "a policy there is not": ("--set", "consent=nobody"),
    "an unknown signer": ("--set", 'signers=["mallory"]'),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_forbidden_amendment_is_refused(trusted: Place, words: tuple[str, ...]) -> None:
    """The exit code is 5, and nothing is recorded."""
    version = trusted.version()
    answer = trusted.json("amend", "propose", *words, "--reason", "r")
    assert (answer.code, answer.error["code"]) == (5, "invalid_amendment"), answer
    assert trusted.version() == version


def test_proposal_requires_a_reason(trusted: Place) -> None:
    """`amend propose` exits with code 2 without --reason."""
    assert trusted.call("amend", "propose", *LONGER[:4]).code == 2


def test_pending_proposal_blocks_the_dispatch(trusted: Place) -> None:
    """`dispatch` exits with code 6 while a proposal for the stage is pending."""
    before = trusted.definition()
    trusted.propose(*LONGER)
    assert trusted.call("dispatch", "stage-1", "--dry-run").code == 6
    trusted.done("amend", "reject", "amend-1", "--reason", "no")
    assert trusted.definition() == before
    assert trusted.call("dispatch", "stage-1", "--dry-run").code == 0
    assert "Amendment rejected: amend-1" in trusted.log()


def test_dry_run_shows_the_impact(trusted: Place) -> None:
    """The dry run shows invalid stages, kept outputs and lost time, and records nothing."""
    trusted.finish("stage-1", "stage-2")
    version = trusted.version()
    said = trusted.propose(*LONGER, "--dry-run")
    assert said["files"] == ["workflow-state.json", "progress.log"]
    impact = said["impact"]
    assert impact["invalidated"] == ["stage-1", "stage-2"]
    assert impact["affected"] == ["stage-1", "stage-2", "stage-3"]
    assert impact["kept"] == {"stage-1": "stage-1.v1", "stage-2": "stage-2.v1"}
    assert set(impact["seconds_thrown_away"]) == {"stage-1", "stage-2"}
    assert trusted.version() == version


def test_one_change_can_be_proposed_for_several_stages(trusted: Place) -> None:
    """Each stage gets its own proposal, and one command approves all."""
    answer = trusted.propose(
        "--stage", "stage-1", "--stage", "stage-2", "--set", "parameters.n=7", "--reason", "r"
    )
    assert [one["amendment"]["stage"] for one in answer["proposals"]] == ["stage-1", "stage-2"]
    trusted.done("amend", "approve", "amend-1", "amend-2")
    found = {stage["id"]: stage["parameters"] for stage in trusted.document()["stages"]}
    assert (found["stage-1"]["n"], found["stage-2"]["n"]) == (7, 7)


def test_path_may_start_with_its_stage(trusted: Place) -> None:
    """`amend propose` accepts a path that starts with the stage id, as `blame` prints it."""
    answer = trusted.propose("--set", "stage-1.parameters.n=7", "--reason", "r")
    assert answer["amendment"]["stage"] == "stage-1"
    assert answer["amendment"]["changes"] == {"parameters": {"n": {"old": 1, "new": 7}}}


def test_several_proposals_can_be_rejected_together(trusted: Place) -> None:
    """One command rejects all named proposals."""
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=7", "--reason", "r")
    trusted.propose("--stage", "stage-2", "--set", "parameters.n=7", "--reason", "r")
    trusted.done("amend", "reject", "amend-1", "amend-2", "--reason", "no")
    assert {one["status"] for one in trusted.done("amend", "list")} == {"rejected"}


def test_number_keeps_its_type(trusted: Place) -> None:
    """A whole number stays a whole number, and a changed type causes a warning."""
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=1e1", "--reason", "r")
    change = trusted.done("amend", "list")[0]["changes"]["parameters"]["n"]
    assert (change["new"], type(change["new"])) == (10, int)
    said = trusted.call(
        "amend", "propose", "--stage", "stage-1", "--set", "parameters.n=ten", "--reason", "r"
    )
    assert "parameters.n changes from a whole number (1) to text ('ten')" in said.err


def test_repeated_approval_is_no_bypass(trusted: Place) -> None:
    """A second approval of an amendment is refused, but the audit does not list it."""
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=7", "--reason", "r")
    trusted.approve("amend-1")
    assert trusted.call("amend", "approve", "amend-1").code == 5
    assert trusted.call("audit", "bypasses").code == 0


def test_likely_mistakes_cause_a_warning(trusted: Place) -> None:
    """A misspelt parameter and a number written as a string are reported."""
    said = trusted.call(
        "amend", "propose", "--stage", "stage-1", "--dry-run", "--reason", "r",
        "--set", "parameters.comand=x", "--set", 'parameters.n="2"',
    )  # fmt: skip
    assert said.code == 0
    assert "comand is a new parameter; did you mean parameters.command?" in said.err
    assert "parameters.n changes from a whole number (1) to text ('2')" in said.err
    file = trusted.path / "change.json"
    change = {"parameters": {"n": {"old": 1, "new": "2"}}}
    file.write_text(json.dumps({"stage": "stage-1", "reason": "r", "changes": change}))
    assert "to text ('2')" in trusted.call("amend", "propose", "--from", str(file)).err


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("set", ["a"], "set: expected an object"),
        ("changes", "a", "changes: expected an object"),
        ("unset", "parameters.n", "unset: expected a list"),
        ("insert", [1], "insert: expected an object"),
        ("stage", ["stage-1"], "stage: expected text"),
        ("from_round", "2", "from_round: expected a whole number"),
    ],
)
def test_wrong_type_in_a_proposal_file_is_refused(
    trusted: Place, tmp_path: Path, field: str, value: object, said: str
) -> None:
    """The message names the field and the expected type."""
    known = {"stage": "stage-1", "set": {"parameters.n": 2}, "reason": "It is short."}
    file = tmp_path / "asked.json"
    file.write_text(json.dumps({**known, field: value}))
    answer = trusted.json("amend", "propose", "--from", str(file))
    assert answer.code == 2
    assert said in answer.error["message"]
