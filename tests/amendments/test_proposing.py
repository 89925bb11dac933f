"""What may be proposed, and what is recorded of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.amendments.support import LONGER, Place


def test_a_proposal_records_old_and_new_and_changes_nothing(trusted: Place) -> None:
    """The old value is the one of the state it was proposed on."""
    before = trusted.definition()
    answer = trusted.propose(*LONGER)
    assert answer["amendment"]["id"] == "amend-1"
    assert answer["amendment"]["changes"] == {"parameters": {"n": {"old": 1, "new": 2}}}
    assert trusted.definition() == before
    assert "Amendment proposed: amend-1 (parameter_change, stage-1)" in trusted.log()


def test_a_deep_path_is_recorded_at_its_key(trusted: Place) -> None:
    """Field and key are the finest place that a record names."""
    words = ("--set", "parameters.resource_overrides.cpu=4", "--reason", "faster")
    answer = trusted.propose("--stage", "stage-2", *words)
    change = {"old": {"cpu": 1}, "new": {"cpu": 4}}
    assert answer["amendment"]["changes"] == {"parameters": {"resource_overrides": change}}


def test_a_new_key_has_no_old_and_one_taken_away_no_new(trusted: Place) -> None:
    """What was not there is not recorded as null."""
    words = ("--set", "parameters.seed=null", "--unset", "parameters.n", "--reason", "r")
    changes = trusted.propose("--stage", "stage-1", *words)["amendment"]["changes"]
    assert changes == {"parameters": {"seed": {"new": None}, "n": {"old": 1}}}


def test_a_file_proposes_as_the_options_do(trusted: Place, tmp_path: Path) -> None:
    """With the names of the options, or changes as they are recorded."""
    file = tmp_path / "proposal.json"
    change = {"success_criteria": {"old": "", "new": "drift below 1e-3"}}
    file.write_text(json.dumps({"stage": "stage-1", "reason": "unclear", "changes": change}))
    answer = trusted.propose("--from", str(file))
    assert answer["amendment"]["type"] == "criteria_change"
    assert answer["amendment"]["changes"] == change


def test_an_old_value_that_is_not_so_is_a_conflict(trusted: Place, tmp_path: Path) -> None:
    """Somebody looked at another state: exit 4, nothing recorded."""
    file = tmp_path / "proposal.json"
    change = {"parameters": {"n": {"old": True, "new": 2}}}
    file.write_text(json.dumps({"stage": "stage-1", "reason": "r", "changes": change}))
    answer = trusted.json("amend", "propose", "--from", str(file))
    assert (answer.code, answer.error["code"]) == (4, "stale_amendment")
    assert answer.error["data"] == {"place": "parameters.n", "expected": "true", "found": "1"}


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
def test_what_no_amendment_may_do_is_refused(trusted: Place, words: tuple[str, ...]) -> None:
    """By the rules: exit 5, and nothing is recorded."""
    version = trusted.version()
    answer = trusted.json("amend", "propose", *words, "--reason", "r")
    assert (answer.code, answer.error["code"]) == (5, "invalid_amendment"), answer
    assert trusted.version() == version


def test_a_proposal_without_a_reason_is_no_proposal(trusted: Place) -> None:
    """Someone will ask why."""
    assert trusted.call("amend", "propose", *LONGER[:4]).code == 2


def test_nothing_is_dispatched_while_a_proposal_waits(trusted: Place) -> None:
    """Exit 6, until somebody decides; a rejection changes nothing and lets work go on."""
    before = trusted.definition()
    trusted.propose(*LONGER)
    assert trusted.call("dispatch", "stage-1", "--dry-run").code == 6
    trusted.done("amend", "reject", "amend-1", "--reason", "no")
    assert trusted.definition() == before
    assert trusted.call("dispatch", "stage-1", "--dry-run").code == 0
    assert "Amendment rejected: amend-1" in trusted.log()


def test_a_dry_run_shows_the_impact_and_writes_nothing(trusted: Place) -> None:
    """Outputs that will be kept, stages that become invalid, time that is thrown away."""
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


def test_one_change_of_several_stages_is_proposed_and_decided_at_once(trusted: Place) -> None:
    """Each stage that is named has its proposal, in one append, and one command decides."""
    answer = trusted.propose(
        "--stage", "stage-1", "--stage", "stage-2", "--set", "parameters.n=7", "--reason", "r"
    )
    assert [one["amendment"]["stage"] for one in answer["proposals"]] == ["stage-1", "stage-2"]
    trusted.done("amend", "approve", "amend-1", "amend-2")
    found = {stage["id"]: stage["parameters"] for stage in trusted.document()["stages"]}
    assert (found["stage-1"]["n"], found["stage-2"]["n"]) == (7, 7)


def test_a_path_may_begin_with_its_stage(trusted: Place) -> None:
    """As it is spelt in `blame`."""
    answer = trusted.propose("--set", "stage-1.parameters.n=7", "--reason", "r")
    assert answer["amendment"]["stage"] == "stage-1"
    assert answer["amendment"]["changes"] == {"parameters": {"n": {"old": 1, "new": 7}}}


def test_several_proposals_are_rejected_at_once(trusted: Place) -> None:
    """All or none."""
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=7", "--reason", "r")
    trusted.propose("--stage", "stage-2", "--set", "parameters.n=7", "--reason", "r")
    trusted.done("amend", "reject", "amend-1", "amend-2", "--reason", "no")
    assert {one["status"] for one in trusted.done("amend", "list")} == {"rejected"}


def test_a_number_keeps_the_type_of_what_it_replaces(trusted: Place) -> None:
    """A whole number stays one; where the type changes, that is said."""
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=1e1", "--reason", "r")
    change = trusted.done("amend", "list")[0]["changes"]["parameters"]["n"]
    assert (change["new"], type(change["new"])) == (10, int)
    said = trusted.call(
        "amend", "propose", "--stage", "stage-1", "--set", "parameters.n=ten", "--reason", "r"
    )
    assert "parameters.n was a whole number (1) and becomes text ('ten')" in said.err


def test_agreeing_twice_gets_round_nothing(trusted: Place) -> None:
    """A second approval is refused, and is no attempt to get round consent."""
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=7", "--reason", "r")
    trusted.approve("amend-1")
    assert trusted.call("amend", "approve", "amend-1").code == 5
    assert trusted.call("audit", "bypasses").code == 0


def test_a_slip_is_said_before_it_is_proposed(trusted: Place) -> None:
    """A name near another, and a text that looks like the number it replaces; also from a file."""
    said = trusted.call(
        "amend", "propose", "--stage", "stage-1", "--dry-run", "--reason", "r",
        "--set", "parameters.comand=x", "--set", 'parameters.n="2"',
    )  # fmt: skip
    assert said.code == 0
    assert "stage-1.parameters.comand is a new parameter; did you mean command?" in said.err
    assert "parameters.n was a whole number (1) and becomes text ('2')" in said.err
    file = trusted.path / "change.json"
    change = {"parameters": {"n": {"old": 1, "new": "2"}}}
    file.write_text(json.dumps({"stage": "stage-1", "reason": "r", "changes": change}))
    assert "becomes text ('2')" in trusted.call("amend", "propose", "--from", str(file)).err


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
def test_a_field_of_a_file_that_is_of_another_kind_is_named(
    trusted: Place, tmp_path: Path, field: str, value: object, said: str
) -> None:
    """It is refused as a slip of the caller, with the field."""
    known = {"stage": "stage-1", "set": {"parameters.n": 2}, "reason": "It is short."}
    file = tmp_path / "asked.json"
    file.write_text(json.dumps({**known, field: value}))
    answer = trusted.json("amend", "propose", "--from", str(file))
    assert answer.code == 2
    assert said in answer.error["message"]
