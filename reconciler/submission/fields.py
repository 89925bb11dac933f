"""The shape of a submission: what must be text, an object or a list before anything is made of it.

What is absent is left to DPDispatcher's own check, and no value is shown, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.errors import UnusableSubmission

_COMMON = ("forward_common_files", "backward_common_files")
_LINES = ("custom_flags", "prepend_script", "append_script", "source_list", "module_list")
_FILES = ("forward_files", "backward_files")


def check(submission: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission, which names the field, where a submission has another shape."""
    texts(submission, _COMMON)
    for name, inner in (("machine", "remote_profile"), ("resources", "envs")):
        given = submission.get(name)
        if isinstance(given, dict):
            objects(given, [inner], f"{name}.")
    if isinstance(submission.get("resources"), dict):
        texts(submission["resources"], _LINES, "resources.")
    _check_tasks(submission.get("task_list", [{}]))


def _check_tasks(tasks: object) -> None:
    expected = "a list of at least one task"
    if not isinstance(tasks, list):
        raise _wrong("task_list", expected, tasks)
    if not tasks:
        raise UnusableSubmission("task_list", expected, "an empty list", "Correct it there.")
    for number, task in enumerate(tasks):
        if not isinstance(task, dict):
            raise _wrong(f"task_list[{number}]", "an object", task)
        text(task, ["command", "task_work_path"], f"task_list[{number}].")
        texts(task, _FILES, f"task_list[{number}].")


def text(given: Mapping[str, Any], names: Iterable[str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is no text."""
    for name in names:
        if not isinstance(given.get(name, ""), str):
            raise _wrong(f"{of}{name}", "text", given[name])


def texts(given: Mapping[str, Any], names: Iterable[str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is no list of text."""
    for name in names:
        found = given.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise _wrong(f"{of}{name}", "a list of text", found)


def objects(given: Mapping[str, Any], names: Iterable[str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is no object."""
    for name in names:
        if not isinstance(given.get(name, {}), dict):
            raise _wrong(f"{of}{name}", "an object", given[name])


def _wrong(field: str, expected: str, found: object) -> UnusableSubmission:
    return UnusableSubmission(field, expected, type(found).__name__, "Correct it there.")
