"""Under the policy ``terminal``, a person approves by typing an answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.amendments.support import LONGER, Place, make
from tests.cli.support import HERE, wfctl
from tests.cli.terminal import answered

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow under the default policy, with a completed stage and a proposal."""
    found = make(tmp_path / "root")
    found.finish("stage-1")
    found.propose(*LONGER)
    return found


def at_terminal(place: Place, answer: str, *words: str) -> tuple[int, str]:
    """Approve at a terminal, and type the answer when the question appears."""
    return answered(answer, "--root", str(place.path), "amend", "approve", "amend-1", *words)


def test_person_sees_the_amendment_and_approves(place: Place) -> None:
    """`amend approve` shows the changes, the reason and the impact before the question."""
    code, shown = at_terminal(place, "y\n")
    assert code == 0, shown
    lines = shown.splitlines()
    assert lines[:5] == [
        "Amendment proposed: amend-1 (parameter_change, stage-1)",
        "Described by its proposer: change parameters.n = 2",
        "Reason: too short",
        "Changes:",
        "  parameters.n: 1 -> 2",
    ]
    assert lines[5].startswith("Impact: invalidates stage-1; also affects stage-2, stage-3; moves")
    assert lines[6].startswith("Runs again from the start: stage-1 (the last run took ")
    assert lines[7].startswith("Approve? [y/n: not now] ")
    assert place.document()["version"] == 2
    plan, record = place.done("audit", "amendments")
    assert (plan["id"], plan["state"], plan["policy"]) == ("plan", "approved", "terminal")
    assert (record["state"], record["policy"]) == ("approved", "terminal")


def test_answer_no_decides_nothing(place: Place) -> None:
    """The proposal stays open, and the output names the command to reject it."""
    before = place.definition()
    code, told = at_terminal(place, "n\n")
    assert code == 6
    assert "wfctl amend reject amend-1" in told
    assert place.definition() == before
    assert place.done("amend", "list")[1]["status"] == "proposed"


def test_end_of_input_decides_nothing(place: Place) -> None:
    """If the input ends before an answer, the amendment stays pending."""
    before = place.definition()
    code, _ = at_terminal(place, "\x04")
    assert code == 6
    assert place.definition() == before
    assert place.done("status")["pending_amendments"] == ["amend-1"]


def test_agent_at_a_terminal_is_refused_without_a_question(place: Place) -> None:
    """A caller that --actor names as an agent cannot approve, even at a terminal."""
    code, shown = at_terminal(place, "y\n", "--actor", "agent:helper")
    assert (code, "Approve?" in shown) == (6, False)
    assert place.document()["version"] == 1


def test_approval_through_a_pipe_is_refused(place: Place) -> None:
    """An answer from a pipe does not approve, because no person typed it at a terminal."""
    line = ("setsid", sys.executable, "-m", "cli.main", "--root", str(place.path))
    for words in (("--actor", "user:ada"), ("--actor", "agent:x"), ()):
        assert _piped((*line, "amend", "approve", "amend-1", *words)) == 6
    assert place.document()["version"] == 1
    assert len(place.bypasses()) == 3


def _piped(line: tuple[str, ...]) -> int:
    import subprocess

    done = subprocess.run(
        line, input="y\ny\ny\n", text=True, capture_output=True, check=False, cwd=HERE
    )
    return done.returncode


def test_agent_set_by_the_environment_is_refused(place: Place) -> None:
    """A caller that the variable WFCTL_ACTOR names as an agent cannot approve."""
    answer = wfctl(
        *("--root", str(place.path), "amend", "approve", "amend-1"),
        environ={"WFCTL_ACTOR": "agent:x"},
    )
    assert answer.code == 6


@pytest.mark.forged
def test_forged_approval_of_an_agent_is_ignored(place: Place) -> None:
    """wfctl ignores an approval inserted with SQL, because it has no proof of consent."""
    before = place.definition()
    data = {"amendment": "amend-1", "version": 2, "approved_by": "user", "proof": {}}
    place.write_row("amendment.approved", data)
    assert place.definition() == before
    assert [b["kind"] for b in place.bypasses()] == ["ineffective"]


def test_control_characters_in_a_reason_are_escaped(place: Place) -> None:
    """A reason cannot overwrite the question on the screen."""
    place.done("amend", "reject", "amend-1")
    words = ("--stage", "stage-1", "--set", "name=B", "--reason", "\x1b[2Jharmless\nImpact: none")
    place.propose(*words)
    shown = place.call("amend", "show", "amend-2").out
    assert "\x1b" not in shown
    assert "Reason: \\x1b[2Jharmless\\nImpact: none" in shown
