"""Under ``terminal`` a person types the answer, after the impact was shown."""

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
    """Make a workflow with the usual policy, one stage done, and a proposal."""
    found = make(tmp_path / "root")
    found.finish("stage-1")
    found.propose(*LONGER)
    return found


def at_terminal(place: Place, answer: str, *words: str) -> tuple[int, str]:
    """Approve at a terminal of its own, typing the answer once the question stands there."""
    return answered(answer, "--root", str(place.path), "amend", "approve", "amend-1", *words)


def test_a_person_is_shown_everything_and_agrees(place: Place) -> None:
    """Amendment, reason, impact, then the question; y applies it."""
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
    assert lines[5].startswith("Impact: invalidates stage-1; also affects stage-2, stage-3; keeps")
    assert lines[6].startswith("Computed again: stage-1 (took ")
    assert lines[7].startswith("Approve? [y/n: not now] ")
    assert place.document()["version"] == 2
    plan, record = place.done("audit", "amendments")
    assert (plan["id"], plan["state"], plan["policy"]) == ("plan", "approved", "terminal")
    assert (record["state"], record["policy"]) == ("approved", "terminal")


def test_a_person_who_says_no_decides_nothing_yet(place: Place) -> None:
    """The proposal waits on; how it is rejected is said."""
    before = place.definition()
    code, told = at_terminal(place, "n\n")
    assert code == 6
    assert "wfctl amend reject amend-1" in told
    assert place.definition() == before
    assert place.done("amend", "list")[1]["status"] == "proposed"


def test_an_answer_that_is_none_leaves_it_open(place: Place) -> None:
    """End of input is no decision."""
    before = place.definition()
    code, _ = at_terminal(place, "\x04")
    assert code == 6
    assert place.definition() == before
    assert place.done("status")["pending_amendments"] == ["amend-1"]


def test_an_agent_at_a_terminal_is_refused_before_it_is_asked(place: Place) -> None:
    """By --actor, or by the environment."""
    code, shown = at_terminal(place, "y\n", "--actor", "agent:helper")
    assert (code, "Approve?" in shown) == (6, False)
    assert place.document()["version"] == 1


def test_a_process_without_a_terminal_is_refused(place: Place) -> None:
    """A pipe that says y is not a person, whatever it calls itself."""
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


def test_an_agent_by_its_environment_is_refused(place: Place) -> None:
    """WFCTL_ACTOR says so."""
    answer = wfctl(
        *("--root", str(place.path), "amend", "approve", "amend-1"),
        environ={"WFCTL_ACTOR": "agent:x"},
    )
    assert answer.code == 6


@pytest.mark.forged
def test_a_row_by_an_agent_does_not_count(place: Place) -> None:
    """The fold holds what the prompt holds, as far as the row itself tells."""
    before = place.definition()
    data = {"amendment": "amend-1", "version": 2, "approved_by": "user", "proof": {}}
    place.write_row("amendment.approved", data)
    assert place.definition() == before
    assert [b["kind"] for b in place.bypasses()] == ["ineffective"]


def test_a_description_cannot_paint_over_the_question(place: Place) -> None:
    """Control characters are spelled out."""
    place.done("amend", "reject", "amend-1")
    words = ("--stage", "stage-1", "--set", "name=B", "--reason", "\x1b[2Jharmless\nImpact: none")
    place.propose(*words)
    shown = place.call("amend", "show", "amend-2").out
    assert "\x1b" not in shown
    assert "Reason: \\x1b[2Jharmless\\nImpact: none" in shown
