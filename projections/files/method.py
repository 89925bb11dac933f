"""How a stage came to its result, as far as the log holds it: command, parameters, inputs, host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lifecycle.state.workflow import Stage
from projections.files.sessions import SessionRecord

#: Letters of a parameter, inputs of a stage, letters of a digest.
_LONGEST, _INPUTS, _DIGEST = 80, 20, 12


def commands_of(stage: Stage) -> tuple[str, list[tuple[str, str]]]:
    """Return what is run, and the other parameters as they are called: name and value."""
    given = {str(name): value for name, value in stage.parameters.items()}
    command = given.pop("command", "")
    return _text(command), [(name, _text(value)[:_LONGEST]) for name, value in given.items()]


def inputs_of(stage: Stage) -> list[str]:
    """Return what the attempt behind the outputs read and ran, each with its digest."""
    newest = stage.source
    if newest is None:
        return list(stage.inputs)[:_INPUTS]
    found = {str(one["path"]): str(one.get("sha256") or "") for one in newest.inputs}
    found |= newest.scripts
    return [f"{path} ({digest[:_DIGEST]})" for path, digest in list(found.items())[:_INPUTS]]


def ran_on(stage: Stage) -> str:
    """Return host, way and version of the launch behind the outputs; the unknown left out."""
    newest = stage.source
    if newest is None:
        return ""
    version = newest.dpdispatcher_version
    parts = (newest.host, newest.mode, f"DPDispatcher {version}" if version else None)
    return ", ".join(part for part in parts if part)


def environment_of(sessions: Sequence[SessionRecord]) -> list[tuple[str, str]]:
    """Return what the newest session that looked at its surroundings found of them."""
    for one in reversed(sessions):
        if one.environment:
            return [(str(name), _text(value)) for name, value in one.environment.items()]
    return []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
