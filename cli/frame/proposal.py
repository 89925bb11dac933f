"""Build the proposed change of ``wfctl amend propose`` from its options or from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.fold.evolve import KEYED
from lifecycle.payload.build_payload import payload_of
from lifecycle.plan.fields import ALIKE
from lifecycle.rules.amendable import build_changes_from_paths, required_amendment_type
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL
from service.documents.plan_file import decode_json, read_plan
from service.errors import InvalidOption

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

#: Name of the plan field with the scripts that may run, and the value that means "the current
#: scripts".
PIN, SCRIPTS = "session_config.pin", "scripts"
#: Key in a proposal file → name of the field of `AskedChanges`.
_NAMES = {"type": "kind", "set": "settings", "unset": "taken"} | {
    name: name
    for name in [
        "stage",
        "description",
        "reason",
        "changes",
        "insert",
        "place",
        "rewire",
        "from_round",
    ]
}
#: Expected type of each key in a proposal file. The event model checks all other rules.
_SHAPES: dict[str, type] = {
    **dict.fromkeys(("set", "changes", "insert"), dict),
    "unset": list,
    "stage": str,
}


@dataclass(frozen=True, slots=True)
class AskedChanges:
    """The changes that a user requests: new values by dotted path, or recorded changes."""

    kind: str | None = None
    stage: str | None = None
    reason: str | None = None
    description: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    #: Assignments ``PATH=VALUE`` as the user typed them. Their values are converted later to the
    #: type of the old value.
    words: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)
    insert: dict[str, Any] | None = None
    place: int | None = None
    rewire: list[str] | bool = False
    from_round: int | None = None


def read_proposal(source: str) -> AskedChanges:
    """Read a proposed change from a JSON, YAML or TOML file.

    Raises `InvalidOption` for wrong keys, and `UnreadablePlan` if the file cannot be parsed.
    """
    values = read_plan(source)
    if not isinstance(values, dict) or not set(values) <= set(_NAMES):
        is_object = isinstance(values, dict)
        unknown = ", ".join(sorted(set(values) - set(_NAMES))) if is_object else ""
        found = f"the unknown fields {unknown}" if is_object else type(values).__name__
        raise InvalidOption(
            f"the file {source} must contain an object, but it contains {found}. Use only "
            f"the fields {', '.join(sorted(_NAMES))}."
        )
    given = {name: value for name, value in values.items() if value is not None}
    for name in sorted({*given} & {*_SHAPES}):
        if not isinstance(given[name], _SHAPES[name]):
            shape = _TYPES[_SHAPES[name]]
            raise InvalidOption(f"{source}: {name}: expected {shape}, found {given[name]!r:.60}")
    asked = AskedChanges(**{_NAMES[name]: value for name, value in given.items()})
    return replace(asked, taken=tuple(asked.taken))


def pin_scripts_of_proposal(asked: AskedChanges, root: Path, state: Workflow) -> AskedChanges:
    """Return a proposal in which ``session_config.pin=scripts`` is replaced by digests.

    The word ``scripts`` is replaced by the digest of each current script. Any other proposal is
    returned unchanged.
    """
    if asked.settings.get(PIN) != SCRIPTS:
        return asked
    from service.consent.scripts import find_script_digests

    return replace(asked, settings={**asked.settings, PIN: find_script_digests(root, state)})


def split_changes_by_stage(
    state: Workflow, asked: AskedChanges, stages: list[str]
) -> list[AskedChanges]:
    """Split the requested changes, and return one proposal for each affected stage.

    A change without a stage applies to each of ``stages``. Raises `InvalidOption` if a change does
    not name a stage but must, and `UnknownStage` for an unknown stage.
    """
    named = list(dict.fromkeys(stages)) or ([asked.stage] if asked.stage is not None else [])
    of_all: list[str] = []
    own: dict[str, list[str]] = {}
    for word in asked.words:
        head, dot, rest = word.partition("=")[0].partition(".")
        if dot and rest and head in state.stages:
            own.setdefault(head, []).append(word.removeprefix(f"{head}."))
        else:
            of_all.append(word)
    if of_all and own and not named:
        raise InvalidOption(
            f"the option --set {of_all[0]} does not name a stage. Write the stage before the "
            f"field, for example --set {word}."
        )
    targets: list[str | None] = [*named, *(stage for stage in own if stage not in named)] or [None]
    return [
        _build_stage_changes(state, asked, stage, [*of_all, *own.get(str(stage), [])])
        for stage in targets
    ]


def _build_stage_changes(
    state: Workflow, asked: AskedChanges, stage: str | None, words: list[str]
) -> AskedChanges:
    target = state.stage(stage) if stage is not None else state
    settings = {**asked.settings}
    for word in words:
        path, equals, text = word.partition("=")
        if not equals or not path:
            raise InvalidOption(
                f"the value {word!r} of the option --set does not have the form PATH=VALUE."
            )
        settings[path] = _convert_to_old_type(_parse_value(text), text, value_at(target, path))
    return replace(asked, stage=stage, settings=settings)


def value_at(target: Any, path: str) -> Any:
    """Return the current value at a dotted path, or None if it has no value."""
    field_, *keys = path.split(".")
    found = getattr(target, field_, None)
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _convert_to_old_type(value: Any, text: str, before: Any) -> Any:
    """Convert a new value to the type of the old value, if this loses nothing.

    For example, ``2`` becomes ``2.0`` if the old value is a float. Otherwise, return the value
    unchanged.
    """
    if isinstance(before, str) and type(value) in (int, float):
        return text
    if type(before) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return float(value) if isinstance(before, float) and type(value) is int else value


def list_change_warnings(state: Workflow, each: list[AskedChanges]) -> Iterator[str]:
    """Yield a warning for each requested change that may be a mistake.

    The warnings concern values of a new type, new parameters with a name similar to a known one,
    and new success criteria whose check in `parameters.verify` does not change. No change is
    refused.
    """
    for asked in each:
        target = state.stage(asked.stage) if asked.stage is not None else state
        of = f"{asked.stage}." if asked.stage is not None else ""
        new = [*asked.settings.items()]
        for name, change in asked.changes.items():
            leaves = change.items() if name in KEYED and isinstance(change, dict) else ()
            new += [
                (f"{name}.{key}", leaf["new"])
                for key, leaf in leaves
                if isinstance(leaf, dict) and "new" in leaf
            ]
        yield from _find_unchanged_check(target, of, {path for path, _ in new})
        for path, value in new:
            before = value_at(target, path)
            if before is None:
                yield from _find_similar_names(target, of, path)
            elif value is not None and type(before) is not type(value):
                yield (
                    f"{of}{path} changes from {_TYPES.get(type(before), 'a value')} "
                    f"({before!r:.40}) to {_TYPES.get(type(value), 'a value')} ({value!r:.40})"
                )


def _find_unchanged_check(target: Workflow | Stage, of: str, paths: set[str]) -> Iterator[str]:
    """Yield a warning if the success criteria change, but the check of them does not."""
    if not isinstance(target, Stage) or "success_criteria" not in paths:
        return
    checks = [name for name in ("verify", "task_verify") if target.parameters.get(name)]
    if checks and not paths & {f"parameters.{name}" for name in checks}:
        names = " and ".join(f"parameters.{name}" for name in checks)
        yield f"{of}success_criteria changes, but {names} still checks the old criteria"


#: Minimum similarity of two parameter names for a warning. Equal names have the similarity 1.
_SIMILAR = 0.75


def _find_similar_names(target: Workflow | Stage, of: str, path: str) -> Iterator[str]:
    """Yield a warning if the name of a new parameter is similar to a known name.

    The new name may be a typing error. Also yield a warning for a new parameter of the plan.
    """
    field_, _, name = path.partition(".")
    if field_ == "parameters" and isinstance(target, Workflow):
        yield f"{path} is a new parameter of the plan, and no stage uses it yet (parameters.use)"
    if field_ != "parameters" or not isinstance(target, Stage) or name in PARAMETERS_OF_WFCTL:
        return
    own = {one.lower(): one for one in target.parameters}
    known = {one.lower(): one for one in sorted(PARAMETERS_OF_WFCTL)}
    near = get_close_matches(name.lower(), own, n=1, cutoff=_SIMILAR)
    near = near or get_close_matches(name.lower(), known, n=1, cutoff=ALIKE)
    for one in near:
        yield f"{of}{path} is a new parameter; did you mean parameters.{(known | own)[one]}?"


_TYPES = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list",
    dict: "an object",
}  # fmt: skip


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject_json_constant)
    except ValueError:
        return text


def _reject_json_constant(name: str) -> None:
    raise ValueError(f"{name} is not a valid JSON number")


def definition_of(text: str) -> dict[str, Any]:
    """Return the definition of a stage, from JSON text or from a file named as ``@FILE``.

    Raises `InvalidOption` if the value is not an object.
    """
    value = read_plan(text[1:]) if text.startswith("@") else decode_json("--insert", text)
    if not isinstance(value, dict):
        raise InvalidOption(
            "the option --insert needs the definition of one stage as an object, but the given "
            f"value is {text:.80}."
        )
    return value


def command_of(state: Workflow, asked: AskedChanges) -> Payload:
    """Return the command that proposes the requested changes of the plan.

    Raises `InvalidPayload`, `UnknownStage` or `InvalidAmendment` if a change is not possible, and
    `InvalidOption` if there is no change.
    """
    target = state.stage(asked.stage) if asked.stage is not None else state
    changes = {**asked.changes, **build_changes_from_paths(target, asked.settings, asked.taken)}
    kind = asked.kind or ("stage_insert" if asked.insert is not None else None)
    if kind is None and not changes:
        raise InvalidOption(
            "the proposal contains no change. Describe the change with --set, --insert, --type "
            "or --from."
        )
    kind = kind or required_amendment_type(changes)
    return payload_of(
        "amendment.proposed",
        {
            "kind": kind,
            "stage": asked.stage,
            "description": asked.description or _format_description(kind, asked, changes),
            "reason": asked.reason,
            "changes": changes,
            "insert": asked.insert,
            "place": asked.place,
            "rewire": asked.rewire,
            "from_round": asked.from_round,
        },
    )


def _format_description(kind: str, asked: AskedChanges, changes: dict[str, Any]) -> str:
    if asked.insert is not None:
        return f"insert the stage {asked.insert.get('name', '(without a name)')}"
    if not changes:
        return f"{kind.removeprefix('stage_')} {asked.stage}"
    paths = [*asked.settings, *asked.taken, *asked.changes]
    values = [f"{path} = {json.dumps(v, ensure_ascii=False)}" for path, v in asked.settings.items()]
    return f"change {', '.join(values or paths)}"[:2_000]
