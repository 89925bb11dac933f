"""A guard that names a commit is met by one that git has, and by nothing else."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace
from tests.machines.support import small_data
from tests.need import need_programs


def git(place: MachinePlace, *words: str, **more: str) -> str:
    """Run git in the root, with more environment."""
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
    """Make the root a repository, and return the id of its commit."""
    need_programs("git")
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "the fix")
    return git(place, "rev-parse", "HEAD")


def pushed(place: MachinePlace, said: str) -> None:
    """Begin the search for a fault, and say that the fix was pushed as this commit."""
    place.done("init", "bug", "--type", "debug")
    place.done("update", "bug", "triage.symptom=it hangs")
    place.done("transition", "bug", "investigate")
    place.done("update", "bug", "resolution.directPush=true", f'resolution.commitSha="{said}"')


@pytest.mark.parametrize("said", ["0" * 40, "deadbeef", "HEAD", "--help", "TREE"])
def test_an_invented_commit_ends_nothing(place: MachinePlace, commit: str, said: str) -> None:
    """Given an id that git does not have, or no id of a commit, then the fault stays open."""
    tree = git(place, "rev-parse", f"{commit}^{{tree}}")
    pushed(place, said.replace("TREE", tree))
    (unmet,) = place.refused("GUARD_FAILED", 5, "transition", "bug", "completed")["unmet"]
    assert unmet["kind"] == "commit"
    assert unmet["found"].endswith("git has no such commit here")


def test_no_commit_counts_where_there_is_no_repository(place: MachinePlace) -> None:
    """Given a folder that git does not know, then it is refused as well."""
    pushed(place, "0" * 40)
    place.refused("GUARD_FAILED", 5, "transition", "bug", "completed")


def mended(place: MachinePlace, **times: str) -> str:
    """Commit something, and return its id."""
    git(place, "commit", "-q", "--allow-empty", "-m", "another", **times)
    return git(place, "rev-parse", "HEAD")


def said(place: MachinePlace, commit: str) -> None:
    """Say that the fix is this commit."""
    place.done("update", "bug", f'resolution.commitSha="{commit}"')


@pytest.mark.parametrize("letters", [40, 10])
def test_a_commit_that_was_made_since_ends_it(
    place: MachinePlace, commit: str, letters: int
) -> None:
    """By its whole id, and by a short one."""
    pushed(place, commit)
    said(place, mended(place)[:letters])
    assert place.done("transition", "bug", "completed")["phase"] == "completed"


def found(place: MachinePlace) -> str:
    """Return what the last way lacks."""
    (unmet,) = place.refused("GUARD_FAILED", 5, "transition", "bug", "completed")["unmet"]
    return str(unmet["found"])


@pytest.mark.parametrize("letters", [40, 10])
def test_a_commit_from_before_ends_nothing(place: MachinePlace, commit: str, letters: int) -> None:
    """Given one that was there as the search began, on any branch, then it is no fix of this."""
    git(place, "switch", "-q", "-c", "other")
    other = mended(place, GIT_COMMITTER_DATE="2090-01-01T00:00:00Z")
    git(place, "switch", "-q", "-")
    pushed(place, commit)
    mended(place)
    for old in (commit, other):
        said(place, old[:letters])
        assert found(place).endswith("it was there before the phase")


def test_an_old_commit_that_is_fetched_ends_nothing(place: MachinePlace, commit: str) -> None:
    """Given one that no branch had, but whose time is before the phase, then it is refused too."""
    pushed(place, commit)
    said(place, mended(place, GIT_COMMITTER_DATE="2020-01-01T00:00:00Z"))
    assert found(place).endswith("it was there before the phase")


def test_a_branch_that_is_named_as_an_id_is_no_commit(place: MachinePlace, commit: str) -> None:
    """An id is an id."""
    pushed(place, commit)
    mended(place)
    git(place, "branch", "abcdef12")
    said(place, "abcdef12")
    assert found(place).endswith("git has no such commit here")


def test_a_commit_from_before_an_import_ends_nothing(place: MachinePlace, commit: str) -> None:
    """Given a search that is taken over with its commit, then only one that is made now counts."""
    state = {
        "featureId": "bug",
        "workflowType": "debug",
        "phase": "investigate",
        "createdAt": "2020-01-01T00:00:00Z",
        "resolution": {"directPush": True, "commitSha": commit},
    }
    place.write("bug.state.json", state)
    place.done("import", str(place.path / "bug.state.json"))
    assert found(place).endswith("it was there before the phase")
    said(place, mended(place))
    place.done("transition", "bug", "completed")


def test_a_commit_before_a_machine_begins_ends_nothing(place: MachinePlace, commit: str) -> None:
    """Given a phase that a machine begins in, and begins again in, then it is the same."""
    guard = {"commit": "fix", "newer_than": "phase"}
    ways = [{"from": "a", "to": "b", "guard": guard}]
    place.write("mine.json", small_data(fields={"fix": "text"}, transitions=ways))
    place.done("init", "bug", "--definition", str(place.path / "mine.json"), "--consent", "trust")
    place.done("update", "bug", f'fix="{commit}"')
    (unmet,) = place.refused("GUARD_FAILED", 5, "transition", "bug", "b")["unmet"]
    assert unmet["found"].endswith("it was there before the phase")
    place.done("update", "bug", f'fix="{mended(place)}"')
    place.done("transition", "bug", "b")


def test_a_commit_in_a_flag_is_told_when_the_definition_is_loaded(place: MachinePlace) -> None:
    """A guard that could never be met is refused with its place."""
    ways = [{"from": "a", "to": "b", "guard": {"commit": "done"}}]
    place.write("mine.json", small_data(fields={"done": "flag"}, transitions=ways))
    path = str(place.path / "mine.json")
    data = place.refused("INVALID_DEFINITION", 1, "init", "one", "--definition", path)
    assert "commit: done: expected flag" in data["problems"][0]


@pytest.mark.parametrize("option", ["--start-fresh", "--go-on"])
def test_no_agent_declines_to_resume(place: MachinePlace, option: str) -> None:
    """To begin anew, or to go on in spite of what was found, is a person's decision."""
    place.done("init", "wf", "--type", "dotagent")
    line = ("--root", str(place.path), "-o", "json", "--actor", "agent:bot", "machine")
    answer = call(*line, "rehydrate", "wf", option)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert place.types("wf") == ["machine.created"]
    place.done("rehydrate", "wf", option)


def test_a_git_that_refuses_to_look_does_not_say_that_the_commit_is_missing(
    place: MachinePlace, commit: str
) -> None:
    """As it does in a repository of another owner; here it cannot read the configuration."""
    pushed(place, commit)
    said(place, mended(place))
    (place.path / ".git/config").write_text("[core\n")
    assert "git does not say whether it has it: bad config line 1" in found(place)
