"""A guard (condition of a transition) on a commit accepts only commits that exist in git."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace
from tests.machines.support import small_data
from tests.need import need_programs


def git(place: MachinePlace, *words: str, **more: str) -> str:
    """Run a git command in the root, with further environment variables."""
    own = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", "-C", str(place.path), *own, *words],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **more},
    )
    return done.stdout.strip()


@pytest.fixture
def commit(place: MachinePlace) -> str:
    """Make the root a git repository, and return the id of its commit."""
    need_programs("git")
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "the fix")
    return git(place, "rev-parse", "HEAD")


def pushed(place: MachinePlace, said: str) -> None:
    """Create a debug machine, and record this commit as the pushed fix."""
    place.done("init", "bug", "--type", "debug")
    place.done("update", "bug", "triage.symptom=it hangs")
    place.done("transition", "bug", "investigate")
    place.done("update", "bug", "resolution.directPush=true", f'resolution.commitSha="{said}"')


@pytest.mark.parametrize("said", ["0" * 40, "deadbeef", "HEAD", "--help", "TREE"])
def test_invented_commit_does_not_meet_the_guard(
    place: MachinePlace, commit: str, said: str
) -> None:
    """wfctl refuses an unknown id, a branch name, an option and the id of a tree."""
    tree = git(place, "rev-parse", f"{commit}^{{tree}}")
    pushed(place, said.replace("TREE", tree))
    (unmet,) = place.refused("GUARD_FAILED", 5, "transition", "bug", "completed")["unmet"]
    assert unmet["kind"] == "commit"
    assert unmet["found"].endswith("git does not have this commit")


def test_commit_without_a_repository_is_refused(place: MachinePlace) -> None:
    """In a folder without git, a commit id does not meet the guard."""
    pushed(place, "0" * 40)
    place.refused("GUARD_FAILED", 5, "transition", "bug", "completed")


def mended(place: MachinePlace, **times: str) -> str:
    """Create a commit, and return its id."""
    git(place, "commit", "-q", "--allow-empty", "-m", "another", **times)
    return git(place, "rev-parse", "HEAD")


def said(place: MachinePlace, commit: str) -> None:
    """Record the given commit as the fix of the debug machine."""
    place.done("update", "bug", f'resolution.commitSha="{commit}"')


@pytest.mark.parametrize("letters", [40, 10])
def test_commit_made_during_the_phase_meets_the_guard(
    place: MachinePlace, commit: str, letters: int
) -> None:
    """wfctl accepts the full id or the first ten letters of a commit made in this phase."""
    pushed(place, commit)
    said(place, mended(place)[:letters])
    assert place.done("transition", "bug", "completed")["phase"] == "completed"


def found(place: MachinePlace) -> str:
    """Try to complete the machine, and return the reason why wfctl refuses the commit."""
    (unmet,) = place.refused("GUARD_FAILED", 5, "transition", "bug", "completed")["unmet"]
    return str(unmet["found"])


@pytest.mark.parametrize("letters", [40, 10])
def test_commit_older_than_the_phase_is_refused(
    place: MachinePlace, commit: str, letters: int
) -> None:
    """A commit from before the phase does not meet the guard, on any branch."""
    git(place, "switch", "-q", "-c", "other")
    other = mended(place, GIT_COMMITTER_DATE="2090-01-01T00:00:00Z")
    git(place, "switch", "-q", "-")
    pushed(place, commit)
    mended(place)
    for old in (commit, other):
        said(place, old[:letters])
        assert found(place).endswith("the commit is older than the phase")


def test_commit_with_an_old_date_is_refused(place: MachinePlace, commit: str) -> None:
    """A new commit whose time is before the start of the phase does not meet the guard."""
    pushed(place, commit)
    said(place, mended(place, GIT_COMMITTER_DATE="2020-01-01T00:00:00Z"))
    assert found(place).endswith("the commit is older than the phase")


def test_branch_named_like_an_id_is_no_commit(place: MachinePlace, commit: str) -> None:
    """A branch whose name looks like an abbreviated id does not meet the guard."""
    pushed(place, commit)
    mended(place)
    git(place, "branch", "abcdef12")
    said(place, "abcdef12")
    assert found(place).endswith("git does not have this commit")


def test_commit_older_than_an_import_is_refused(place: MachinePlace, commit: str) -> None:
    """After the import of a machine, only a new commit meets the guard."""
    state = {
        "featureId": "bug",
        "workflowType": "debug",
        "phase": "investigate",
        "createdAt": "2020-01-01T00:00:00Z",
        "resolution": {"directPush": True, "commitSha": commit},
    }
    place.write("bug.state.json", state)
    place.done("import", str(place.path / "bug.state.json"))
    assert found(place).endswith("the commit is older than the phase")
    said(place, mended(place))
    place.done("transition", "bug", "completed")


def test_commit_older_than_the_machine_is_refused(place: MachinePlace, commit: str) -> None:
    """In the first phase of a machine, an older commit does not meet the guard."""
    guard = {"commit": "fix", "newer_than": "phase"}
    ways = [{"from": "a", "to": "b", "guard": guard}]
    place.write("mine.json", small_data(fields={"fix": "text"}, transitions=ways))
    place.done("init", "bug", "--definition", str(place.path / "mine.json"), "--consent", "trust")
    place.done("update", "bug", f'fix="{commit}"')
    (unmet,) = place.refused("GUARD_FAILED", 5, "transition", "bug", "b")["unmet"]
    assert unmet["found"].endswith("the commit is older than the phase")
    place.done("update", "bug", f'fix="{mended(place)}"')
    place.done("transition", "bug", "b")


def test_commit_guard_on_a_flag_is_refused_when_loaded(place: MachinePlace) -> None:
    """wfctl refuses a definition whose commit guard names a field of the type `flag`."""
    ways = [{"from": "a", "to": "b", "guard": {"commit": "done"}}]
    place.write("mine.json", small_data(fields={"done": "flag"}, transitions=ways))
    path = str(place.path / "mine.json")
    data = place.refused("INVALID_DEFINITION", 1, "init", "one", "--definition", path)
    assert "commit: done: expected flag" in data["problems"][0]


@pytest.mark.parametrize("option", ["--start-fresh", "--go-on"])
def test_agent_cannot_decline_to_resume(place: MachinePlace, option: str) -> None:
    """Only a person may use `rehydrate` with --start-fresh or --go-on."""
    place.done("init", "wf", "--type", "dotagent")
    line = ("--root", str(place.path), "-o", "json", "--actor", "agent:bot", "machine")
    answer = call(*line, "rehydrate", "wf", option)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert place.types("wf") == ["machine.created"]
    place.done("rehydrate", "wf", option)


def test_failing_git_is_not_reported_as_a_missing_commit(place: MachinePlace, commit: str) -> None:
    """If git cannot read its configuration, the refusal has git's error message."""
    pushed(place, commit)
    said(place, mended(place))
    (place.path / ".git/config").write_text("[core\n")
    assert "git could not be asked for the commit: bad config line 1" in found(place)
