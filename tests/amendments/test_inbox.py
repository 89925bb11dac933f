"""``wfctl inbox``: everything that waits for a person, in all workflows, answered by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import LONGER, Keys, Place, make, sign
from tests.cli.support import Answer, attempt_data, call, write_plan


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """List the roots of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def inbox() -> dict[str, dict[str, Any]]:
    """Return what waits, by where it is and what it is."""
    answer = call("inbox", "-o", "json")
    assert answer.code == 0, answer
    return {f"{one['of']}: {one['kind']} {one['subject']}": one for one in answer.data}


def answered(kind: str, one: dict[str, Any], *words: str) -> Answer:
    """Answer something by its number."""
    return call("inbox", kind, str(one["number"]), *words)


def test_all_that_waits_is_listed_with_its_impact(tmp_path: Path) -> None:
    """Of two workflows in two folders, and of a machine; nothing if nothing waits."""
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


def test_a_number_stays_what_it_was(tmp_path: Path) -> None:
    """Whatever comes and goes beside it; one that is decided is nobody's any more."""
    place = make(tmp_path / "a", "--consent", "trust")
    place.propose(*LONGER)
    place.propose("--stage", "stage-2", "--set", "parameters.n=9", "--reason", "so")
    numbers = [one["number"] for one in inbox().values()]
    assert call("inbox", "approve", str(numbers[0])).code == 0
    assert [one["number"] for one in inbox().values()] == numbers[1:]
    gone = call("inbox", "approve", str(numbers[0]))
    assert gone.code == 3
    assert str(numbers[1]) in gone.err


def test_an_approval_by_number_is_signed_as_any_other(signed: Place, keys: Keys) -> None:
    """Without a key nobody agrees; with a stranger's neither."""
    signed.propose(*LONGER)
    [one] = inbox().values()
    assert answered("approve", one).code == 6
    assert answered("approve", one, "--key", str(keys.stranger)).code == 6
    assert answered("approve", one, "--key", str(keys.allowed)).code == 0
    assert inbox() == {}
    assert signed.document()["amendments"][0]["approved_by"] == "pi@example.org"


def test_a_key_on_another_machine_takes_two_commands(
    signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """The statement goes out, the signature comes in; each can be mailed."""
    signed.propose(*LONGER)
    [one] = inbox().values()
    statement = answered("statement", one).out
    assert json.loads(statement)["policy"] == "signature"
    made = sign(statement, keys.allowed, tmp_path)
    assert answered("approve", one, "--signature", str(made)).code == 0
    assert inbox() == {}


def test_an_agent_is_refused_as_everywhere(tmp_path: Path) -> None:
    """It may look, and reject; it cannot agree."""
    place = make(tmp_path / "a")
    place.propose(*LONGER)
    [one] = inbox().values()
    refused = answered("approve", one, "--actor", "agent:x", "-o", "json")
    assert (refused.code, refused.error["code"]) == (6, "needs_consent")
    assert answered("reject", one, "--text", "too long", "--actor", "agent:x").code == 0
    assert inbox() == {}


def test_a_machines_approval_and_its_statement(tmp_path: Path) -> None:
    """A phase in which a person decides."""
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


def test_prose_criteria_are_answered_with_what_was_seen(tmp_path: Path) -> None:
    """The answer completes the stage, as `stage complete --evidence` does."""
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
        (("answer",), "expected approve or reject or statement"),
        (("approve", "--text", "x"), "--text goes with reject"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    """Before any command runs."""
    make(tmp_path / "a").propose(*LONGER)
    [one] = inbox().values()
    refused = answered(words[0], one, *words[1:])
    assert refused.code == 2
    assert says in refused.err


def test_a_root_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """What waits elsewhere is listed."""
    make(tmp_path / "a").propose(*LONGER)
    broken = make(tmp_path / "b")
    (broken.path / ".wfctl/config.toml").write_text("= =")
    assert len(inbox()) == 1
    told = call("inbox").err
    assert f"not looked at: {broken.path}: " in told
    assert "config.toml" in told


def test_a_hand_edit_of_a_machine_waits_until_it_is_decided(tmp_path: Path) -> None:
    """The inbox names it as the machine's own next command does, and dismisses it by number."""
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


def test_a_number_cannot_be_had_by_trial(tmp_path: Path) -> None:
    """It has sixty bits, is asked for whole, and may be typed in capitals and without dashes."""
    place = make(tmp_path / "a", "--consent", "trust")
    place.propose(*LONGER)
    [one] = inbox().values()
    number = str(one["number"])
    assert len(set("0123456789abcdefghjkmnpqrstvwxyz") & set(number)) > 4
    assert len(number.replace("-", "")) == 12
    assert call("inbox", "approve", number[:9]).code == 3
    assert call("inbox", "approve", number.upper().replace("-", "")).code == 0


def test_a_second_edit_of_a_file_has_a_number_of_its_own(tmp_path: Path) -> None:
    """An answer to the first one is no answer to what was written since."""
    place = make(tmp_path / "a")
    numbers = set()
    for purpose in ("one", "two"):
        document = place.document()
        document["purpose"] = purpose
        (place.path / "workflow-state.json").write_text(json.dumps(document))
        place.call("note", purpose)
        numbers |= {one["number"] for one in inbox().values()}
    assert len(numbers) == 2
