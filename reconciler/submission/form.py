"""Find submissions that `dargs check` must judge alike, because they differ only in free texts."""

from __future__ import annotations

import json
from typing import Any

#: Fields of a submission whose texts DPDispatcher accepts whatever they contain.
_FREE_TEXTS = frozenset({
    "command", "task_work_path", "forward_files", "backward_files", "forward_common_files",
    "backward_common_files", "outlog", "errlog", "local_root", "remote_root", "prepend_script",
    "append_script", "envs",
})  # fmt: skip


def describe_form(submission: dict[str, Any]) -> str:
    """Return the fields of a submission with their values, but without free texts.

    DPDispatcher accepts either all or none of the submissions with the same form.
    """
    return json.dumps(_remove_free_texts(submission, ""), sort_keys=True)


def _remove_free_texts(value: Any, name: str) -> Any:
    """Return the value of the field ``name`` without free texts. Equal items are listed once."""
    if isinstance(value, str):
        return "" if name in _FREE_TEXTS else value
    if isinstance(value, list):
        forms = [_remove_free_texts(item, name) for item in value]
        return list({json.dumps(form, sort_keys=True): form for form in forms}.values())
    if isinstance(value, dict):
        # The names of variables are free texts, too.
        if name == "envs":
            return {"": _remove_free_texts(list(value.values()), name)}
        return {key: _remove_free_texts(item, key) for key, item in value.items()}
    return value
