"""``wfctl inbox`` lists everything that waits for a person, and takes answers by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import LONGER, Keys, Place, make, sign
from tests.cli.support import Answer, attempt_data, call, write_plan


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate state folder, so that only the roots of this test are listed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def inbox() -> dict[str, dict[str, Any]]:
    """Return the inbox entries, with their workflow, kind and subject as the key."""
    answer = call("inbox", "-o", "json")
    assert answer.code == 0, answer
    return {f"{one['of']}: {one['kind']} {one['subject']}": one for one in answer.data}


def answered(kind: str, one: dict[str, Any], *words: str) -> Answer:
    """Answer an entry by its number."""
    return call("inbox", kind, str(one["number"]), *words)


def test_inbox_lists_amendments_of_all_workflows(tmp_path: Path) -> None:
    """Entries of two roots have their impact and different numbers."""
    assert inbox() == {}
    assert call("inbox").out == "nothing waits\n"
    first = make(tmp_path / "a")
    first.finish("stage-1")
    first.propose(*LONGER)
    call("--root", str(tmp_path / "b"), "machine", "init", "fix", "--type", "debug")
    second = make(tmp_path / "c")
    second.propose(*LONGER)
    found = call("inbox", "-o", "json").data
    assert [one["kind"] for one in found] == ["amendment", "amendment"]
    assert {one["root"] for one in found} == {str(first.path), str(second.path)}
    assert any("impact: invalidates stage-1" in one["text"] for one in found)
    assert len({one["number"] for one in found}) == 2
    assert all(str(one["number"]) in call("inbox").out for one in found)


def test_number_of_an_entry_is_stable(tmp_path: Path) -> None:
    """After one entry is decided, its number is unknown and the others keep theirs."""
    place = make(tmp_path / "a", "--consent", "trust")
    place.propose(*LONGER)
    place.propose("--stage", "stage-2", "--set", "parameters.n=9", "--reason", "so")
    numbers = [one["number"] for one in inbox().values()]
    assert call("inbox", "approve", str(numbers[0])).code == 0
    assert [one["number"] for one in inbox().values()] == numbers[1:]
    gone = call("inbox", "approve", str(numbers[0]))
    assert gone.code == 3
    assert str(numbers[1]) in gone.err


def test_approval_by_number_needs_a_signature(signed: Place, keys: Keys) -> None:
    """Under the policy `signature`, an approval without an allowed key is refused."""
    signed.propose(*LONGER)
    [one] = inbox().values()
    assert answered("approve", one).code == 6
    assert answered("approve", one, "--key", str(keys.stranger)).code == 6
    assert answered("approve", one, "--key", str(keys.allowed)).code == 0
    assert inbox() == {}
    assert signed.document()["amendments"][0]["approved_by"] == "pi@example.org"


def test_statement_can_be_signed_on_another_machine(
    signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """`inbox statement` prints the statement, and `inbox approve` reads the signature."""
    signed.propose(*LONGER)
    [one] = inbox().values()
    statement = answered("statement", one).out
    assert json.loads(statement)["policy"] == "signature"
    made = sign(statement, keys.allowed, tmp_path)
    assert answered("approve", one, "--signature", str(made)).code == 0
    assert inbox() == {}


def test_agent_can_reject_but_not_approve(tmp_path: Path) -> None:
    """An agent can reject an inbox entry, but its approval exits with code 6."""
    place = make(tmp_path / "a")
    place.propose(*LONGER)
    [one] = inbox().values()
    refused = answered("approve", one, "--actor", "agent:x", "-o", "json")
    assert (refused.code, refused.error["code"]) == (6, "needs_consent")
    assert answered("reject", one, "--text", "too long", "--actor", "agent:x").code == 0
    assert inbox() == {}


def test_approval_of_a_machine_can_be_answered(tmp_path: Path) -> None:
    """`inbox approve` approves a machine's phase, and the entry disappears."""
    root = ("--root", str(tmp_path / "m"), "machine")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/d.md").write_text("x")
    assert call(*root, "init", "f", "--type", "feature", "--consent", "trust").code == 0
    call(*root, "update", "f", "artifacts.design=d.md")
    call(*root, "transition", "f", "--auto")
    call(*root, "update", "f", "artifacts.plan=d.md")
    call(*root, "transition", "f", "--auto")
    one = inbox()["f: approval f plan"]
    assert json.loads(answered("statement", one).out)
    assert answered("approve", one).code == 0
    assert "f: approval f plan" not in inbox()


def test_judgement_is_answered_with_evidence(tmp_path: Path) -> None:
    """The answer completes the stage, like `stage complete --evidence`."""
    plan = {
        "workflow_id": "w",
        "stages": [{"id": "stage-1", "name": "Look", "success_criteria": "it is flat"}],
    }
    place = Place(tmp_path)
    assert place.call("init", str(write_plan(tmp_path, plan)), "--consent", "trust").code == 0
    place.done("append", "attempt.started", "--data", attempt_data("stage-1"))
    ended = {"stage": "stage-1", "attempt": "att-0001", "exit_code": 0}
    place.done("append", "stage.computed", "--data", json.dumps(ended))
    [one] = inbox().values()
    assert (one["kind"], one["text"]) == ("judgement", "it is flat")
    assert answered("answer", one).code == 2
    assert answered("answer", one, "--text", "slope 1e-4").code == 0
    assert inbox() == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("answer",), "Possible answers: approve, reject, statement"),
        (("approve", "--text", "x"), "--text can be used only with `reject`"),
    ],
)
def test_invalid_answer_is_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    """The error lists the possible answers to the inbox entry."""
    make(tmp_path / "a").propose(*LONGER)
    [one] = inbox().values()
    refused = answered(words[0], one, *words[1:])
    assert refused.code == 2
    assert says in refused.err


def test_a_root_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """The inbox lists the other roots, and names the unreadable root in a warning."""
    make(tmp_path / "a").propose(*LONGER)
    broken = make(tmp_path / "b")
    (broken.path / ".wfctl/config.toml").write_text("= =")
    assert len(inbox()) == 1
    told = call("inbox").err
    assert f"not checked: {broken.path}: " in told
    assert "config.toml" in told


def test_edit_of_a_machine_file_is_listed_until_it_is_decided(tmp_path: Path) -> None:
    """The inbox lists the manual edit until the entry is rejected, which reverts the edit."""
    place = Place(tmp_path / "b")
    place.path.mkdir()
    begin = ("machine", "init", "fix", "--type", "debug", "--consent", "trust")
    assert place.call(*begin).code == 0
    file = place.path / "fix.state.json"
    file.write_text(file.read_text().replace('"triage"', '"completed"', 1))
    assert place.call("machine", "checkpoint", "fix", "--summary", "a", "--next", "b").code == 0
    assert place.call("machine", "drift", "fix").code == 7
    [one] = inbox().values()
    assert (one["kind"], one["text"]) == ("drift", "fix.state.json was changed by hand")
    assert one["text"] in place.call("machine", "get", "fix").out
    assert answered("reject", one).code == 0
    assert inbox() == {}
    assert place.call("machine", "drift", "fix").code == 0


def test_number_cannot_be_guessed(tmp_path: Path) -> None:
    """A number has 60 bits, must be complete, and may be typed without dashes."""
    place = make(tmp_path / "a", "--consent", "trust")
    place.propose(*LONGER)
    [one] = inbox().values()
    number = str(one["number"])
    assert len(set("0123456789abcdefghjkmnpqrstvwxyz") & set(number)) > 4
    assert len(number.replace("-", "")) == 12
    assert call("inbox", "approve", number[:9]).code == 3
    assert call("inbox", "approve", number.upper().replace("-", "")).code == 0


def test_second_edit_of_a_file_gets_its_own_number(tmp_path: Path) -> None:
    """An answer to the first edit does not decide the second edit."""
    place = make(tmp_path / "a")
    numbers = set()
    for purpose in ("one", "two"):
        document = place.document()
        document["purpose"] = purpose
        (place.path / "workflow-state.json").write_text(json.dumps(document))
        place.call("note", purpose)
        numbers |= {one["number"] for one in inbox().values()}
    assert len(numbers) == 2
