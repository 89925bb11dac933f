"""Every event type there is: its schema version, its model, and the quick check of its data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import Any, NamedTuple

from lifecycle.payload.shapes import SHAPES
from lifecycle.words.values import (
    DRIFT_PATTERN,
    ID_PATTERN,
    KEPT_PATTERN,
    MAX_COUNT,
    MAX_ID,
    MAX_NUMBER,
    MAX_PATH,
    MAX_TASKS,
    MAX_TEXT,
    MAX_WEIGHT,
    MAX_WORDS,
    RANGES_PATTERN,
    REPORT_PATTERN,
    STAGE_PATTERN,
    excess,
)


def checks_with_findings(data: dict[str, Any]) -> dict[str, Any]:
    """Give each check the list of its findings; in the first version it had none."""
    checks = [{"findings": [], **check} for check in data.get("checks", [])]
    return {**data, "checks": checks}


def failure_with_category(data: dict[str, Any]) -> dict[str, Any]:
    """Give a failure the place of its diagnosis; at first nobody wrote one, or ended an attempt."""
    new: dict[str, Any] = {"category": None, "because": None, "stop": False, "outputs": []}
    return {**new, **checks_with_findings(data)}


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _with(**added: Any) -> Upcaster:
    """Return an upcaster for fields that came, each with what it was before it could be said."""
    return lambda data: {**added, **data}


#: Event type → what lifts its data from each schema version to the next.
_LIFTED: Mapping[str, tuple[Upcaster, ...]] = {
    "amendment.approved": (_with(scripts={}), _with()),  # the plan can be approved since
    # Several stages are changed at once since the third.
    "amendment.proposed": (_with(also=[]), _with(), _with(from_round=None)),
    "amendment.rejected": (_with(),),
    "attempt.observed": (_with(waiting=None),),
    "attempt.started": (
        _with(scripts={}),
        _with(taken_over=False, carried=[], carried_from=None),
        _with(environment=None),
        _with(beside=None),
        _with(tasks=None, code=None),
    ),
    "drift.adopted": (_with(rest=[]),),
    "drift.reverted": (_with(approved_by=None, proof={}),),
    "machine.approved": (_with(files=None), _with(fields=None)),
    "machine.cancelled": (_with(anew=False, earlier={}),),
    "machine.created": (_with(earlier={}), _with(proposed=False), _with(own=False)),
    "machine.imported": (
        _with(proposed=False),
        _with(earlier={}, task_earlier={}),
        _with(own=False),
    ),
    "machine.task_changed": (_with(earlier={}),),
    "machine.task_claimed": (_with(handle=None),),
    "machine.transitioned": (_with(earlier={}),),
    "machine.updated": (_with(removed=[]),),
    "outputs.recorded": (_with(found=False),),
    "results.adopted": (_with(approved_by=None, proof={}, rests_on=None), _with(metrics=[])),
    "session.started": (_with(driven=False, environment=None, report=None),),
    "stage.completed": (checks_with_findings, _with(rests_on=None), _with(metrics=[])),
    "stage.computed": (_with(resources={}),),
    "stage.failed": (failure_with_category, _with(output=None), _with(metrics=[], resources={})),
    "stage.retried": (_with(failed_only=False, approved_by=None, proof={}),),
    "stage.launched": (_with(work_dir=None, job_host=None, job_boot_id=None, again=False),),
    "state.imported": (_with(spelling={}),),
    "tasks.observed": (_with(journals=[], edited=[], late=[]),),
    "workflow.created": (_with(proposed=False),),
    "workflow.imported": (_with(proposed=False),),
}
#: (event type, schema version) → what lifts its data by one version.
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    (name, version): lift
    for name, lifts in _LIFTED.items()
    for version, lift in enumerate(lifts, 1)
}


class EventType(NamedTuple):
    """The name of the model of its data, and the schema version that is written today."""

    model: str
    version: int


def type_of(model: str) -> str:
    """Return the event type of the model of this name: ``stage.readied`` of ``StageReadied``."""
    first, *others = re.findall("[A-Z][a-z]*", model)
    return f"{first}.{'_'.join(others)}".lower()


def version_of(type_: str) -> int:
    """Return the schema version that is written today: one more than is lifted."""
    return 1 + len(_LIFTED.get(type_, ()))


def _model_of(type_: str) -> str:
    return "".join(map(str.capitalize, re.split("[._]", type_)))


_EVERY = {
    name: EventType(_model_of(name), version_of(name))
    for name in re.findall(r"^([a-z]+\.[a-z_]+) ", SHAPES, re.MULTILINE)
}
#: Those of the staged workflow; their models are in `lifecycle.payload.models`.
STAGED = {name: one for name, one in _EVERY.items() if not name.startswith("machine.")}
#: Those that are only of phase machines; their models are in `lifecycle.machines.payload`.
OF_MACHINES = {name: one for name, one in _EVERY.items() if name not in STAGED}
#: What only a look at the job and its files can tell: no caller says it, not even a person.
OF_A_LOOK = frozenset(
    {"files.recorded", "attempt.left", "attempt.stopped", "round.begun"}
    | {"leftovers.freed", "outputs.reused", "tasks.observed"}
)
#: What a person decides, each with a proof of consent, beside amendments and approvals.
OF_A_PERSON = frozenset({"claim.overruled", "drift.reverted", "machine.limited", "results.adopted"})


def is_of_a_person(type_: str, data: Mapping[str, Any]) -> bool:
    """Return whether an event records a decision of a person, so that it carries a proof."""
    return type_ in OF_A_PERSON or (type_ == "stage.retried" and bool(data.get("failed_only")))


#: Event type → the schema version that is written today.
VERSIONS: Mapping[str, int] = {name: known.version for name, known in _EVERY.items()}


Schema = Mapping[str, Any]
Check = Callable[[Any], str | None]
"""A value → what is wrong with it, None if nothing is."""


def _texts(pattern: str, most: int | None = None) -> Schema:
    limit = {} if most is None else {"maxLength": most}
    return {"type": "string", "pattern": pattern, **limit}


def _whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


#: Name of a simple value → its JSON Schema.
VALUES: Mapping[str, Schema] = {
    "any": {},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "words": {"type": "string", "minLength": 1, "maxLength": MAX_WORDS},
    "stage": _texts(STAGE_PATTERN),
    "attempt": _texts("^att-[0-9]{4,}$", MAX_ID),
    "amendment": _texts("^amend-[1-9][0-9]*$", MAX_ID),
    "decision": _texts("^(plan|amend-[1-9][0-9]*)$", MAX_ID),
    "machine": _texts(ID_PATTERN),
    "loop": _texts(ID_PATTERN),
    "ranges": _texts(RANGES_PATTERN, MAX_TEXT),
    "number": _texts(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$", MAX_TEXT),
    "kept": _texts(KEPT_PATTERN),
    "drift": _texts(DRIFT_PATTERN, MAX_PATH),
    "report": _texts(REPORT_PATTERN, MAX_PATH),
    "real": {"type": "number"},
    "whole": _whole(-MAX_COUNT, MAX_COUNT),
    "tasks": _whole(0, MAX_TASKS),
    "rounds": _whole(1, 1_000),
    "round": _whole(2, MAX_COUNT),
    "seconds": _whole(1, 2_592_000),
    "retry": {"type": "integer", "minimum": 1, "exclusiveMaximum": MAX_COUNT},
    "weight": {"type": "number", "minimum": 0, "maximum": MAX_WEIGHT},
}


@cache
def _rows() -> dict[str, list[str]]:
    rows = (row.split() for row in SHAPES.strip().replace("\n ", "").split("\n"))
    return {name: fields for name, *fields in rows}


def misfit(type_: str, data: Any) -> str | None:
    """Return what of an event's data is not as its type has it, None if all is.

    Fields that are not there get what they are by default.
    """
    try:
        is_known = type_ in _rows() and "." in type_  # a part of data is no type
        return (_compiled(type_)(data) if is_known else None) or excess(type_, data)
    except RecursionError:
        return "expected values that are not nested so deeply"


@cache
def _compiled(shape: str) -> Check:
    if "|" in shape:
        return _any_of([_compiled(one) for one in shape.split("|")])
    if shape.endswith("?"):
        return _or_nothing(_compiled(shape[:-1]))
    inner = shape[1:-1]
    match shape[0]:
        case "(":
            return _one_of(inner.split(","))
        case "[":
            return _array(_compiled(inner))
        case "{":
            keys, _, values = inner.rpartition(">")
            return _mapping(_compiled(keys or "any"), _compiled(values))
        case _:
            return _value(VALUES[shape]) if shape in VALUES else _object(_rows()[shape])


def _value(schema: Schema) -> Check:
    kind = schema.get("type")
    if kind == "string":
        return _text(schema)
    if kind in ("integer", "number"):
        return _number(schema)
    return _boolean if kind == "boolean" else _anything


def _anything(value: Any) -> str | None:
    return None


def _or_nothing(one: Check) -> Check:
    return lambda value: None if value is None else one(value)


def _any_of(checks: list[Check]) -> Check:
    def check(value: Any) -> str | None:
        found = None
        for one in checks:
            found = one(value)
            if found is None:
                return None
        return found

    return check


def _one_of(values: list[str]) -> Check:
    def check(value: Any) -> str | None:
        known = isinstance(value, str) and value in values
        return None if known else f"expected one of {', '.join(values)}, {_found(value)}"

    return check


def _found(value: Any) -> str:
    return f"found {value!r:.80}"


def _text(schema: Schema) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    longest = math.inf if most is None else most
    is_free, pattern = "pattern" not in schema, re.compile(schema.get("pattern", ""), re.ASCII)

    @lru_cache(maxsize=1024)  # the ids and digests of a log come again and again
    def matches(value: str) -> bool:
        # A dollar sign would let a newline through at the end.
        return pattern.search(value) is not None and not value.endswith("\n")

    # Asked of most fields of every event that is read: what is right is known in one look.
    def check(value: Any) -> str | None:
        if isinstance(value, str) and least <= len(value) <= longest:
            if is_free or matches(value):
                return None
            return f"expected text that matches {schema['pattern']}, {_found(value)}"
        if not isinstance(value, str):
            return f"expected text, {_found(value)}"
        return f"expected text of {least} to {most or '…'} letters, found {len(value)}"

    return check


def _number(schema: Schema) -> Check:
    """A finite number, within the bounds of its schema."""
    is_whole = schema["type"] == "integer"
    types, name = ((int,), "whole number") if is_whole else ((int, float), "number")
    least = schema.get("minimum", -MAX_NUMBER)
    most = schema.get("maximum", MAX_NUMBER)
    below = schema.get("exclusiveMaximum", math.inf)

    def check(value: Any) -> str | None:
        if type(value) in types and least <= value <= most and value < below:
            return None
        last = f"{below} (excluded)" if most > below else f"{most}"
        return f"expected a {name} from {least} to {last}, {_found(value)}"

    return check


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"expected true or false, {_found(value)}"


def _array(item: Check) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"expected a list, {_found(value)}"
        if item is _anything:
            return None
        return next((f"{n}: {why}" for n, one in enumerate(value) if (why := item(one))), None)

    return check


def _object(rows: list[str]) -> Check:
    said = {name: shape.partition("=") for name, _, shape in (row.partition(":") for row in rows)}
    fields = {name: _compiled(shape) for name, (shape, _, _) in said.items()}
    names, checks = fields.keys(), tuple(fields.items())
    given = {name: default for name, (_, is_optional, default) in said.items() if is_optional}

    # Asked of every event that is read: a plain loop takes half the time of a generator.
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected an object, {_found(value)}"
        if value.keys() != names and (why := _completed(value, names, given)) is not None:
            return why
        for name, one in checks:
            why = one(value[name])
            if why is not None:
                return f"{name}: {why}"
        return None

    return check


def _completed(
    value: dict[str, Any], names: AbstractSet[str], given: Mapping[str, str]
) -> str | None:
    """Give an object the fields that it may leave out; return what is wrong all the same."""
    unknown = value.keys() - names
    if unknown:
        return f"expected no field {min(unknown)!r:.80}"
    for name in names - value.keys():
        if name not in given:
            return f"{name}: this field is missing"
        value[name] = json.loads(given[name])
    return None


def _mapping(keys: Check, values: Check) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected an object, {_found(value)}"
        if keys is _anything and values is _anything:
            return None
        wrong = ((key, keys(key) or values(one)) for key, one in value.items())
        return next((f"{key!r:.80}: {why}" for key, why in wrong if why is not None), None)

    return check
