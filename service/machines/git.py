"""What git has: the branches and worktrees of the repository that holds the root."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lifecycle.machines.machine import Machine
from lifecycle.machines.path import look
from projections.words.text import passed
from service.root.git import git

#: Worktrees that are done with may be gone.
_DONE = frozenset({"merged", "removed"})


#: An id of a commit, short or whole.
_ID_OF_COMMIT = re.compile("[0-9a-fA-F]{7,64}")
_EPOCH = "1970-01-01T00:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository: its top folder, its branches, and its worktrees (path → branch)."""

    top: Path
    branches: frozenset[str]
    worktrees: dict[str, str | None]


def repository_of(folder: Path) -> Repository | None:
    """Return the repository that a folder lies in, None where there is none, or no git."""
    top = _said(folder, "rev-parse", "--show-toplevel")
    if top is None:
        return None
    branches = _said(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads") or ""
    listed = _said(folder, "worktree", "list", "--porcelain") or ""
    return Repository(Path(top.strip()), frozenset(branches.split()), _worktrees(listed))


def _worktrees(listed: str) -> dict[str, str | None]:
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
            # Git remembers it, but its folder is gone.
            found.pop(path, None)
    return found


def _said(folder: Path, *arguments: str, text: str = "") -> str | None:
    done = git(folder, *arguments, text=text)
    return None if done is None or done.returncode != 0 else os.fsdecode(done.stdout)


def commit_of(folder: Path, id_: str) -> str | None:
    """Return the whole id of a commit that the repository of a folder has; a name is none."""
    if _ID_OF_COMMIT.fullmatch(id_) is None:
        return None
    whole = (_said(folder, "rev-parse", "--verify", "--quiet", f"{id_}^{{commit}}") or "").strip()
    return whole if whole.startswith(id_.lower()) else None


def tips_of(folder: Path) -> list[str]:
    """Return the commits that all branches, tags and worktrees of a repository lead to."""
    return sorted((_said(folder, "rev-list", "--no-walk", "--all") or "").split())


def is_made_since(folder: Path, commit: str, began: str, tips: list[str]) -> bool:
    """Whether a commit is of no time before ``began``, and none of ``tips`` leads to it."""
    asked = "\n".join([commit, *(f"^{tip}" for tip in tips)])
    words = ("--max-count=1", "--ignore-missing", "--format=%ct", "--stdin")
    found = (_said(folder, "rev-list", *words, text=asked) or "").split()
    if not found:
        return False
    before = passed(began, _EPOCH)
    # Git knows no parts of a second.
    return before is None or int(found[-1]) + 1 > -before


def drift_of(root: Path, machine: Machine) -> list[dict[str, Any]]:
    """Return the worktrees and task branches that the state names and git does not have."""
    worktrees = _objects(machine.document.get("worktrees"))
    branches = {
        str(task.get("id")): str(task["branch"]) for task in machine.tasks if task.get("branch")
    }
    if not worktrees and not branches:
        return []
    repository = repository_of(root)
    if repository is None:
        return [{"kind": "no_repository", "why": "branches are named, and there is no git here"}]
    return [*_of_worktrees(repository, worktrees), *_of_tasks(repository, worktrees, branches)]


def left_behind(root: Path, machine: Machine) -> dict[str, Any]:
    """Return what goes on being there when a machine is given up, for a person to clear away.

    ``branches`` and ``worktrees`` are those that the state names and git has; ``pull_request`` is
    as it was recorded.
    """
    repository = repository_of(root)
    worktrees = _objects(machine.document.get("worktrees"))
    active = [one for one in worktrees.values() if one.get("status") not in _DONE]
    named = [
        *(task.get("branch") for task in machine.tasks),
        *(one.get("branch") for one in active),
    ]
    branches = [one for one in dict.fromkeys(named) if isinstance(one, str)]
    trees = {} if repository is None else {b: path for path, b in repository.worktrees.items()}
    recorded = look(machine.document, ("synthesis", "prUrl"))
    return {
        "branches": [one for one in branches if repository and one in repository.branches],
        "worktrees": [trees[one] for one in branches if one in trees],
        "pull_request": recorded or look(machine.document, ("artifacts", "pr")),
    }


def _objects(value: Any) -> dict[str, dict[str, Any]]:
    items = value.items() if isinstance(value, dict) else ()
    return {key: item for key, item in items if isinstance(item, dict)}


def _of_worktrees(
    repository: Repository, worktrees: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    checked_out = set(repository.worktrees.values())
    return [
        {"kind": "worktree_missing", "worktree": name, "branch": one.get("branch")}
        for name, one in worktrees.items()
        if one.get("status") not in _DONE
        and (one.get("branch") not in checked_out)
        and one.get("path") not in repository.worktrees
    ]


def _of_tasks(
    repository: Repository, worktrees: dict[str, dict[str, Any]], branches: dict[str, Any]
) -> list[dict[str, Any]]:
    done = {one.get("branch") for one in worktrees.values() if one.get("status") in _DONE}
    return [
        {"kind": "branch_missing", "task": task, "branch": branch}
        for task, branch in branches.items()
        if branch not in repository.branches and branch not in done
    ]
