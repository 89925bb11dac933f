"""From the options of ``wfctl amend propose``, or a file, to the command."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lifecycle.amendable import changes_of
from lifecycle.payload import AmendmentProposed, Payload
from lifecycle.schema import payload_of
from lifecycle.workflow import Workflow
from service.errors import InvalidOption
from service.plan_file import decode_json, read_plan

_NAMES = frozenset(
    {"type", "stage", "description", "reason", "set", "unset", "changes", "insert", "place"}
    | {"rewire"}
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: dotted paths to values, or changes as they are recorded."""

    kind: str | None = None
    stage: str | None = None
    reason: str | None = None
    description: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)
    insert: dict[str, Any] | None = None
    place: int | None = None
    rewire: list[str] | bool = False


def read_proposal(source: str) -> Asked:
    """Return what a JSON, YAML or TOML file asks for; raises `InvalidOption`, `UnreadablePlan`."""
    values = read_plan(source)
    if not isinstance(values, dict) or not set(values) <= _NAMES:
        found = sorted(set(values) - _NAMES) if isinstance(values, dict) else type(values).__name__
        raise InvalidOption(
            f"{source}: expected an object with some of {', '.join(sorted(_NAMES))}; found {found}"
        )
    return Asked(
        kind=values.get("type"),
        stage=values.get("stage"),
        reason=values.get("reason"),
        description=values.get("description"),
        settings=values.get("set", {}),
        taken=tuple(values.get("unset", ())),
        changes=values.get("changes", {}),
        insert=values.get("insert"),
        place=values.get("place"),
        rewire=values.get("rewire", False),
    )


def settings_of(words: list[str]) -> dict[str, Any]:
    """Return the paths and values of ``path=value``; a value that is no JSON is text."""
    found: dict[str, Any] = {}
    for word in words:
        path, equals, text = word.partition("=")
        if not equals or not path:
            raise InvalidOption(f"--set: expected PATH=VALUE, found {word!r}")
        found[path] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def definition_of(text: str) -> dict[str, Any]:
    """Return a stage's definition given as JSON or as ``@FILE``."""
    value = read_plan(text[1:]) if text.startswith("@") else decode_json("--insert", text)
    if not isinstance(value, dict):
        raise InvalidOption(f"--insert: expected the definition of one stage, found {text:.80}")
    return value


def command_of(state: Workflow, asked: Asked) -> Payload:
    """Return the command; raises `InvalidPayload`, `UnknownStage`, `InvalidAmendment`."""
    target = state.stage(asked.stage) if asked.stage is not None else state
    changes = {**asked.changes, **changes_of(target, asked.settings, asked.taken)}
    kind = asked.kind or _kind(asked, changes)
    return payload_of(
        AmendmentProposed.type,
        {
            "kind": kind,
            "stage": asked.stage,
            "description": asked.description or _description(kind, asked, changes),
            "reason": asked.reason,
            "changes": changes,
            "insert": asked.insert,
            "place": asked.place,
            "rewire": asked.rewire,
        },
    )


def _kind(asked: Asked, changes: dict[str, Any]) -> str:
    if asked.insert is not None:
        return "stage_insert"
    if not changes:
        raise InvalidOption("nothing is asked for: give --set, --insert, --type or --from")
    return "criteria_change" if set(changes) == {"success_criteria"} else "parameter_change"


def _description(kind: str, asked: Asked, changes: dict[str, Any]) -> str:
    if asked.insert is not None:
        return f"insert the stage {asked.insert.get('name', '(without a name)')}"
    if not changes:
        return f"{kind.removeprefix('stage_')} {asked.stage}"
    paths = [*asked.settings, *asked.taken, *asked.changes]
    values = [f"{path} = {json.dumps(v, ensure_ascii=False)}" for path, v in asked.settings.items()]
    return f"change {', '.join(values or paths)}"[:2_000]
