"""Collect facts for guards (conditions of transitions): files with content, and commits."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.regular_files import TooLarge, read_regular
from extensions.machines.rules.definition import Definition
from extensions.machines.rules.guard import FileFact, is_permitted_path
from extensions.machines.rules.machine import Machine, iterate_strings
from extensions.machines.rules.path import (
    COMMITS,
    commit_fact_key,
    list_marked_commits,
    marks_of_tips,
)
from extensions.machines.rules.path import get_value as look_at
from extensions.machines.rules.payload import MachineUpdated
from projections.words.text import seconds_since
from service.root.folder_entries import is_file
from service.root.git import run_git
from service.root.paths_within_root import is_inside as lies_inside
from service.root.sync_record import digest

#: Maximum number of characters of a text that can be the path of a file.
_LONGEST = 400


def collect_guard_facts(root: Path, state: Machine) -> dict[str, FileFact]:
    """Return the facts about the files and commits that the rules of a machine need.

    They cover the patterns of the guards in the current and the next phases, the files in fields
    that an approval covers, and the required commits.
    """
    if state.is_final:
        return {}
    named = [
        text for text in state.list_possible_paths() if len(text) <= _LONGEST and text.isprintable()
    ]
    found = {escape(text): output_at(root, text) for text in named}
    commits = {
        commit_fact_key(id_): _find_commit(root, state, id_) for id_ in state.named_commits()
    }
    return (
        found
        | commits
        | collect_pattern_facts(root, state.definition.list_relevant_files(state.phase))
    )


def _find_commit(root: Path, state: Machine, id_: str) -> FileFact:
    """Return the facts about a commit.

    They state whether it exists, and whether it was made since the machine entered its phase.
    """
    whole = _commit_of(root, id_)
    if whole is None:
        return FileFact(silence=_explain_git_silence(root))
    since, tips = state.visit.entered_at, list_marked_commits(state.visit.earlier)
    return FileFact((id_,), (id_,) if _is_made_since(root, whole, since, tips) else ())


def collect_pattern_facts(root: Path, patterns: Iterable[str]) -> dict[str, FileFact]:
    """Return the facts about the files that match each pattern.

    Files outside the folder are not read.
    """
    return {pattern: _find_file_fact(root, pattern) for pattern in patterns}


def output_at(root: Path, named: Any) -> FileFact:
    """Return the facts about the file that a field names with a relative or absolute path."""
    own = escape(os.path.normpath(str(named or "").removeprefix(f"{root}/")))
    return collect_pattern_facts(root, [own])[own]


def collect_task_output_fact(
    root: Path, definition: Definition, task: Mapping[str, Any], earlier: Mapping[str, str]
) -> FileFact:
    """Return the facts about a task's output files.

    Only files that are new or changed since the marks in ``earlier`` are listed as found. The marks
    of all output files are included.
    """
    facts = [output_at(root, place) for place in definition.outputs_of(task)]
    new = next((one for fact in facts if (one := fact.since(earlier)).found), FileFact())
    return new._replace(marks={file: mark for fact in facts for file, mark in fact.marks.items()})


def _find_file_fact(root: Path, pattern: str) -> FileFact:
    if pattern == COMMITS:
        # The commits to which all branches, tags and worktrees point.
        tips = (_run_git(root, "rev-list", "--no-walk", "--all") or "").split()
        return FileFact(marks=marks_of_tips(sorted(tips)))
    if not is_permitted_path(pattern):
        return FileFact()
    found: dict[str, str] = {}
    valid: list[str] = []
    for path in filter(is_file, sorted(root.glob(pattern))):
        # Read one file at a time, because all files together might not fit in memory.
        content = _read_content(path)
        if content is None or content.strip():
            name = str(path.relative_to(root))
            found[name] = _mark_of(path, content)
            valid += [name] if _is_json(content) else []
    return FileFact(tuple(found), tuple(valid), found)


def _read_content(path: Path) -> bytes | None:
    """Return the content of a file, or None if the file is too large."""
    try:
        return read_regular(path)
    except TooLarge:
        return None


def _mark_of(path: Path, content: bytes | None) -> str:
    """Return the mark of a file, which changes when the file is written.

    It consists of the SHA-256 and the modification time. For a file that is too large to read, it
    contains the size instead of the SHA-256.
    """
    found = path.stat()
    what = f"{found.st_size} bytes" if content is None else digest(content)
    return f"{what}@{found.st_mtime_ns}"


def _is_json(content: bytes | None) -> bool:
    """Return whether the content is a JSON object or list that is not empty."""
    try:
        return bool(json.loads(content or b""))
    except (ValueError, RecursionError):
        return False


def read_output_status(root: Path, fact: FileFact, statuses: list[str]) -> str | None:
    """Return the status that a task's output file states.

    The status is ``pre_complete`` if the file states no valid status. The result is None if the
    file is missing, or if it starts like JSON but is incomplete.
    """
    if not fact.found:
        return None
    begin = (_read_content(root / fact.found[0]) or b"").lstrip()[:1]
    if not fact.valid and begin in (b"{", b"["):
        return None
    said = json.loads(read_regular(root / fact.valid[0])) if fact.valid else None
    status = said.get("status") if isinstance(said, dict) else None
    return status if status in statuses and status != "running" else "pre_complete"


_ARTIFACTS = "artifacts"


def compute_digests(root: Path, command: MachineUpdated) -> dict[str, str]:
    """Return the SHA-256 of each file that the changed artifacts of a command name.

    Files that do not exist in the folder are left out.
    """
    new = (one.value for one in command.changes if one.path.split(".")[0] == _ARTIFACTS)
    found = {name: _find_file(root, name) for value in new for name in iterate_strings(value)}
    return {name: digest(read_regular(path)) for name, path in found.items() if path is not None}


def list_artifact_drift(root: Path, machine: Machine) -> list[dict[str, Any]]:
    """Return the artifacts, branches and worktrees that differ from the recorded state.

    An artifact differs if its file is missing or has changed since it was recorded.
    """
    found: list[dict[str, Any]] = []
    artifacts = machine.document.get(_ARTIFACTS)
    named = artifacts if isinstance(artifacts, dict) else {_ARTIFACTS: artifacts}
    for name, text in (
        (name, text) for name, value in named.items() for text in iterate_strings(value)
    ):
        path = _find_file(root, text)
        if path is None and (text in machine.digests or _is_path(text)):
            found.append({"kind": "artifact_missing", "artifact": name, "file": text})
        elif path is not None and _has_changed(path, machine.digests.get(text)):
            found.append({"kind": "artifact_changed", "artifact": name, "file": text})
    return [*found, *_list_missing_git_items(root, machine)]


def _is_path(text: str) -> bool:
    """Return whether a text looks like a path: it has a suffix and no spaces."""
    is_word = 0 < len(text) <= _LONGEST and not any(letter.isspace() for letter in text)
    return is_word and "://" not in text and bool(Path(text).suffix)


def _find_file(root: Path, text: str) -> Path | None:
    if not 0 < len(text) <= _LONGEST or "\0" in text or "\n" in text:
        return None
    path = root / text
    return path if is_file(path) and lies_inside(path, root) else None


def _has_changed(path: Path, known: str | None) -> bool:
    content = _read_content(path) if known is not None else b""
    # A file that is too large to read could not have been recorded, so it must have changed.
    return known is not None and (content is None or digest(content) != known)


# The following functions read the branches and worktrees of the Git repository.

#: Statuses of finished worktrees. Such worktrees may be missing.
_DONE = frozenset({"merged", "removed"})
#: A full or abbreviated commit id.
_ID_OF_COMMIT = re.compile("[0-9a-fA-F]{7,64}")
_EPOCH = "1970-01-01T00:00:00.000000Z"


class _Repository(NamedTuple):
    """The branches of a Git repository, and the branch of each of its worktrees."""

    branches: frozenset[str]
    worktrees: dict[str, str | None]


def _repository_of(folder: Path) -> _Repository | None:
    """Return the Git repository of a folder, or None if there is no repository or no git."""
    if _run_git(folder, "rev-parse", "--show-toplevel") is None:
        return None
    branches = _run_git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads") or ""
    listed = _run_git(folder, "worktree", "list", "--porcelain") or ""
    found: dict[str, str | None] = {}
    path = ""
    for line in listed.splitlines():
        word, _, rest = line.partition(" ")
        if word == "worktree":
            path = rest
            found[path] = None
        elif word == "branch":
            found[path] = rest.removeprefix("refs/heads/")
        elif word == "prunable":
            # Leave out the worktree: Git still lists it, but its folder is missing.
            found.pop(path, None)
    return _Repository(frozenset(branches.split()), found)


def _run_git(folder: Path, *arguments: str, text: str = "") -> str | None:
    done = run_git(folder, *arguments, text=text)
    return None if done is None or done.returncode != 0 else os.fsdecode(done.stdout)


def _explain_git_silence(folder: Path) -> str:
    """Return the reason why git cannot read the repository, or an empty string if it can."""
    done = run_git(folder, "rev-parse", "--git-dir")
    if done is None:
        return "git is not installed"
    said = os.fsdecode(done.stderr).strip().splitlines()[:1]
    return "" if done.returncode == 0 else (said or ["it failed"])[0].removeprefix("fatal: ")


def _commit_of(folder: Path, id_: str) -> str | None:
    """Return the full id of a commit, or None if the repository does not have it.

    Names of branches are not accepted.
    """
    if _ID_OF_COMMIT.fullmatch(id_) is None:
        return None
    whole = (
        _run_git(folder, "rev-parse", "--verify", "--quiet", f"{id_}^{{commit}}") or ""
    ).strip()
    return whole if whole.startswith(id_.lower()) else None


def _is_made_since(folder: Path, commit: str, began: str, tips: list[str]) -> bool:
    """Return whether a commit was made after ``began`` and is not reachable from ``tips``.

    ``tips`` are the newest commits of the branches at that time.
    """
    asked = "\n".join([commit, *(f"^{tip}" for tip in tips)])
    words = ("--max-count=1", "--ignore-missing", "--format=%ct", "--stdin")
    found = (_run_git(folder, "rev-list", *words, text=asked) or "").split()
    if not found:
        return False
    before = seconds_since(began, _EPOCH)
    # Compare with the end of the second, because Git stores times in whole seconds.
    return before is None or int(found[-1]) + 1 > -before


def _list_missing_git_items(root: Path, machine: Machine) -> list[dict[str, Any]]:
    """Return the worktrees and task branches that the state names but git does not have."""
    worktrees = _select_objects(machine.document.get("worktrees"))
    branches = {
        str(task.get("id")): str(task["branch"]) for task in machine.tasks if task.get("branch")
    }
    if not worktrees and not branches:
        return []
    repository = _repository_of(root)
    if repository is None:
        return [
            {
                "kind": "no_repository",
                "why": "the state names branches, but the root is not in a git repository",
            }
        ]
    checked_out = set(repository.worktrees.values())
    done = {one.get("branch") for one in worktrees.values() if one.get("status") in _DONE}
    trees: list[dict[str, Any]] = [
        {"kind": "worktree_missing", "worktree": name, "branch": one.get("branch")}
        for name, one in worktrees.items()
        if one.get("status") not in _DONE
        and one.get("branch") not in checked_out
        and one.get("path") not in repository.worktrees
    ]
    return trees + [
        {"kind": "branch_missing", "task": task, "branch": branch}
        for task, branch in branches.items()
        if branch not in repository.branches and branch not in done
    ]


def list_git_leftovers(root: Path, machine: Machine) -> dict[str, Any]:
    """Return the branches, worktrees and pull request that remain after a cancellation.

    ``branches`` and ``worktrees`` are those that the state names and git still has.
    ``pull_request`` is the recorded address; its status is not checked.
    """
    repository = _repository_of(root) or _Repository(frozenset(), {})
    worktrees = _select_objects(machine.document.get("worktrees")).values()
    active = [one for one in worktrees if one.get("status") not in _DONE]
    named = [one.get("branch") for one in (*machine.tasks, *active)]
    branches = [one for one in dict.fromkeys(named) if isinstance(one, str)]
    trees = {branch: path for path, branch in repository.worktrees.items()}
    recorded = look_at(machine.document, ("synthesis", "prUrl"))
    return {
        "branches": [one for one in branches if one in repository.branches],
        "worktrees": [trees[one] for one in branches if one in trees],
        "pull_request": recorded or look_at(machine.document, ("artifacts", "pr")),
    }


def _select_objects(value: Any) -> dict[str, dict[str, Any]]:
    items = value.items() if isinstance(value, dict) else ()
    return {key: item for key, item in items if isinstance(item, dict)}
