"""The export format ``plan``: the current plan as a TOML file for `wfctl init`.

The file contains the plan with all approved amendments, without values that wfctl uses by default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from extensions.exports.formats import ExportSource
from lifecycle.plan.fields import find_unknown_stage_fields, find_unknown_workflow_fields
from lifecycle.rules.amendable import SESSION_SET_KEYS
from lifecycle.rules.grounds import stage_definition
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.document import default_profiles, default_session_config
from lifecycle.words.plan_parameters import remove_plan_values
from service.errors import InvalidOption

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
#: Fields of a plan that the file contains as tables, after all other fields.
_TABLES = ("session_config", "parameters", "backend_profiles", "mandates", "rounds")


def export_plan(source: ExportSource) -> Iterator[str]:
    """Yield the current plan as TOML. Raises `InvalidOption` for null in a list."""
    yield render_plan(source.state())


def render_plan(state: Workflow) -> str:
    """Return the current plan as TOML. Raises `InvalidOption` for null in a list."""
    return "\n".join([*_iterate_lines(state), ""])


def _iterate_lines(state: Workflow) -> Iterator[str]:
    plan = build_plan(state)
    yield f"# The plan of {state.id}, version {state.version}, with all approved amendments."
    yield "# `wfctl init` creates a new workflow from this file."
    tables = [name for name in _TABLES if isinstance(plan.get(name), dict)]
    yield from _format_fields({n: v for n, v in plan.items() if n not in (*tables, "stages")})
    for name in tables:
        yield from _format_table(name, plan[name])
    for definition in plan["stages"]:
        yield ""
        if state.stages[definition["id"]].status is Status.SKIPPED:
            yield "# This stage was skipped."
        yield "[[stages]]"
        parameters = definition.pop("parameters", None)
        yield from _format_fields(definition)
        yield from _format_table("stages.parameters", parameters) if parameters else ()


def build_plan(state: Workflow) -> dict[str, Any]:
    """Return the current plan, without values that wfctl uses by default."""
    usual = default_session_config()
    config = {
        name: value
        for name, value in state.session_config.items()
        if name not in SESSION_SET_KEYS and usual.get(name) != value
    }
    profiles = {} if state.backend_profiles == default_profiles() else state.backend_profiles
    backend = None if state.default_backend == "local" else state.default_backend
    known = {
        "workflow_id": state.id,
        "purpose": state.purpose,
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "default_backend": backend,
        "session_config": config,
        "backend_profiles": profiles,
    }
    known = _drop_empty(known) | _select_plan_fields(state.extra, find_unknown_workflow_fields)
    stages = [_build_stage(state, stage) for stage in state.stages.values()]
    return {**known, "stages": stages}


def _build_stage(state: Workflow, stage: Stage) -> dict[str, Any]:
    definition = stage_definition(stage) | {
        "outputs": stage.declared_outputs,
        "parameters": remove_plan_values(stage.parameters, state.parameters),
    }
    own = _select_plan_fields(stage.extra, find_unknown_stage_fields)
    return _drop_empty(definition) | own


def _select_plan_fields(extra: Mapping[str, Any], find_unknown: Any) -> dict[str, Any]:
    """Return the additional fields that a plan may contain. An imported file may have others."""
    return {name: value for name, value in extra.items() if not [*find_unknown({name: value})]}


def _drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _format_table(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table. Its nested objects stay on one line, in their order."""
    yield from ("", f"[{name}]")
    yield from _format_fields(table)


def _format_fields(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if value is not None:
            yield f"{_format_key(name)} = {_format_value(value)}"


def _format_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _format_quoted(name)


def _format_value(value: Any) -> str:
    """Return a value as TOML. Fields of objects that are null are left out."""
    if isinstance(value, str):
        return _format_string(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(_format_fields(value))} }}" if value else "{}"
    if value is None:
        raise InvalidOption(
            "the plan contains null in a list, which TOML cannot represent. Use `wfctl export "
            "state` instead."
        )
    return json.dumps(value)


def _format_string(text: str) -> str:
    """Return a string in the quotes that need the fewest escapes."""
    is_plain = text.replace("\n", "").replace("\t", "").isprintable() and "'''" not in text
    if "\n" in text and is_plain and not text.endswith("'"):
        return f"'''\n{text}'''"
    is_readable = text.isprintable() and "'" not in text
    return f"'{text}'" if is_readable and ('"' in text or "\\" in text) else _format_quoted(text)


def _format_quoted(text: str) -> str:
    """Return a string in double quotes. Characters that are not printable are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)
