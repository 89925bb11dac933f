"""Guards: closed conditions over a machine's state, as data.

A guard is evaluated to the list of what is not met; an empty list opens the way. Files are facts
that come in from outside: their path with whether there is content, and whether it is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from lifecycle.machines.errors import Unmet
from lifecycle.machines.path import look, parse


class _Condition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Present(_Condition):
    """A field has a value: not null, not blank text, not an empty list or object."""

    present: str


class Equals(_Condition):
    """A field has this value."""

    field: str
    equals: JsonValue


class Counter(_Condition):
    """A loop was taken so many times."""

    counter: str
    at_least: Annotated[int, Field(ge=0)] = 0
    below: Annotated[int, Field(ge=1)] | None = None


class Every(_Condition):
    """Every item of a list or object has one of these statuses, and there is at least one.

    ``including`` names items (keys of an object) that must be among them.
    """

    every: str
    status: list[str]
    including: list[str] = []


class Some(_Condition):
    """At least one item of a list or object has one of these statuses."""

    some: str
    status: list[str]


class Recorded(_Condition):
    """An event of this name was recorded."""

    recorded: str


class Approved(_Condition):
    """A person gave this approval since the machine came into its phase."""

    approved: str


class HasFile(_Condition):
    """A file of the root has content; ``*`` stands for any name. ``form``: ``json`` must parse."""

    file: str
    form: Literal["any", "json"] = "any"


class StatusIs(_Condition):
    """The phase stands so."""

    phase_status: str


class All(_Condition):
    """Each of these."""

    all: list[Guard]


class AnyOf(_Condition):
    """At least one of these."""

    any: list[Guard]


class Not(_Condition):
    """Not this."""

    not_: Annotated[Guard, Field(alias="not")]


_KINDS: dict[str, type[_Condition]] = {
    "present": Present,
    "field": Equals,
    "counter": Counter,
    "every": Every,
    "some": Some,
    "recorded": Recorded,
    "approved": Approved,
    "file": HasFile,
    "phase_status": StatusIs,
    "all": All,
    "any": AnyOf,
    "not": Not,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def _kind_of(value: Any) -> str | None:
    if isinstance(value, _Condition):
        return _NAMES[type(value)]
    found = [name for name in _KINDS if isinstance(value, dict) and name in value]
    return found[0] if found else None


Guard = Annotated[
    Annotated[Present, Tag("present")]
    | Annotated[Equals, Tag("field")]
    | Annotated[Counter, Tag("counter")]
    | Annotated[Every, Tag("every")]
    | Annotated[Some, Tag("some")]
    | Annotated[Recorded, Tag("recorded")]
    | Annotated[Approved, Tag("approved")]
    | Annotated[HasFile, Tag("file")]
    | Annotated[StatusIs, Tag("phase_status")]
    | Annotated[All, Tag("all")]
    | Annotated[AnyOf, Tag("any")]
    | Annotated[Not, Tag("not")],
    Discriminator(
        _kind_of,
        custom_error_type="guard",
        custom_error_message=f"expected an object with one of {', '.join(_KINDS)}",
    ),
]
for _nested in (All, AnyOf, Not):
    _nested.model_rebuild()


class FileFact(NamedTuple):
    """What was found at a path or pattern: the files with content, and those that are JSON."""

    found: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()


def is_inside(path: str) -> bool:
    """Whether a path or pattern names files that a machine may look at: of the root, not ours."""
    steps = path.split("/")
    plain = all(step not in ("", ".", "..") and "\0" not in step for step in steps)
    # `**` is a whole part or nothing that a pattern may hold.
    return plain and steps[0] != ".wfctl" and all("**" not in s or s == "**" for s in steps)


class Facts(NamedTuple):
    """All that a guard may look at."""

    document: Mapping[str, Any]
    defaults: Mapping[str, Any]
    counts: Mapping[str, int]
    events: Mapping[str, int]
    approvals: frozenset[str]
    status: str | None
    files: Mapping[str, FileFact]

    def value(self, path: str) -> Any:
        """Return a field's value, its default where there is none."""
        steps = parse(path)
        found = look(self.document, steps)
        return look(self.defaults, steps) if found is None else found


def unmet(guard: Guard | None, facts: Facts) -> list[Unmet]:
    """Return every condition that is not met, each with what was expected and found."""
    if guard is None:
        return []
    return _UNMET[type(guard)](guard, facts)


def _one(guard: Guard, found: Any, path: str | None = None) -> list[Unmet]:
    return [
        {"condition": text_of(guard), "kind": _NAMES[type(guard)], "path": path, "found": found}
    ]


def is_empty(value: Any) -> bool:
    """Whether a value is as good as none."""
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def _present(guard: Present, facts: Facts) -> list[Unmet]:
    value = facts.value(guard.present)
    return _one(guard, value, guard.present) if is_empty(value) else []


def _equals(guard: Equals, facts: Facts) -> list[Unmet]:
    value = facts.value(guard.field)
    same = value == guard.equals and isinstance(value, bool) == isinstance(guard.equals, bool)
    return [] if same else _one(guard, value, guard.field)


def _counter(guard: Counter, facts: Facts) -> list[Unmet]:
    count = facts.counts.get(guard.counter, 0)
    met = count >= guard.at_least and (guard.below is None or count < guard.below)
    return [] if met else _one(guard, count)


def items(value: Any) -> list[tuple[str, Any]]:
    """Return the items of a list (by ``id`` or place) or of an object, with their statuses.

    Items of a list may share an id; each of them counts.
    """
    if isinstance(value, dict):
        return [(key, _status(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [(_name(item, index), _status(item)) for index, item in enumerate(value)]
    return []


def _name(item: Any, index: int) -> str:
    return str(item["id"]) if isinstance(item, dict) and "id" in item else f"[{index}]"


def _status(item: Any) -> Any:
    return item.get("status") if isinstance(item, dict) else item


def _every(guard: Every, facts: Facts) -> list[Unmet]:
    found = items(facts.value(guard.every))
    missing = [name for name in guard.including if name not in dict(found)]
    wrong = {name: status for name, status in found if status not in guard.status}
    if found and not missing and not wrong:
        return []
    return _one(guard, {**wrong, **dict.fromkeys(missing)} or "none at all", guard.every)


def _some(guard: Some, facts: Facts) -> list[Unmet]:
    found = items(facts.value(guard.some))
    met = any(status in guard.status for _, status in found)
    return [] if met else _one(guard, dict(found) or "none at all", guard.some)


def _recorded(guard: Recorded, facts: Facts) -> list[Unmet]:
    return [] if facts.events.get(guard.recorded) else _one(guard, "no such event")


def _approved(guard: Approved, facts: Facts) -> list[Unmet]:
    return [] if guard.approved in facts.approvals else _one(guard, "no approval")


def _has_file(guard: HasFile, facts: Facts) -> list[Unmet]:
    fact = facts.files.get(guard.file, FileFact())
    found = fact.valid if guard.form == "json" else fact.found
    if found:
        return []
    return _one(guard, "a file that is not valid JSON" if fact.found else "no file with content")


def _status_is(guard: StatusIs, facts: Facts) -> list[Unmet]:
    return [] if facts.status == guard.phase_status else _one(guard, facts.status)


def _all(guard: All, facts: Facts) -> list[Unmet]:
    return [one for part in guard.all for one in unmet(part, facts)]


def _any(guard: AnyOf, facts: Facts) -> list[Unmet]:
    parts = [unmet(part, facts) for part in guard.any]
    return [] if [] in parts else [one for part in parts for one in part]


def _not(guard: Not, facts: Facts) -> list[Unmet]:
    return [] if unmet(guard.not_, facts) else _one(guard, "it is so")


_UNMET: dict[type[_Condition], Callable[[Any, Facts], list[Unmet]]] = {
    Present: _present,
    Equals: _equals,
    Counter: _counter,
    Every: _every,
    Some: _some,
    Recorded: _recorded,
    Approved: _approved,
    HasFile: _has_file,
    StatusIs: _status_is,
    All: _all,
    AnyOf: _any,
    Not: _not,
}


def text_of(guard: Guard | None) -> str:
    """Return a guard in words."""
    if guard is None:
        return "nothing"
    return _TEXTS[type(guard)](guard)


def _text_of_counter(guard: Counter) -> str:
    below = f" and below {guard.below}" if guard.below is not None else ""
    return f"loop {guard.counter} taken at least {guard.at_least} times{below}"


def _text_of_every(guard: Every) -> str:
    also = f", {' and '.join(guard.including)} among them" if guard.including else ""
    return f"at least one of {guard.every}, and each is {' or '.join(guard.status)}{also}"


def _text_of_file(guard: HasFile) -> str:
    return f"the file {guard.file} has content" + (", valid JSON" if guard.form == "json" else "")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_TEXTS: dict[type[_Condition], Callable[[Any], str]] = {
    Present: lambda g: f"{g.present} is present",
    Equals: lambda g: f"{g.field} is {_value(g.equals)}",
    Counter: _text_of_counter,
    Every: _text_of_every,
    Some: lambda g: f"one of {g.some} is {' or '.join(g.status)}",
    Recorded: lambda g: f"an event {g.recorded} was recorded",
    Approved: lambda g: f"a person approved: {g.approved}",
    HasFile: _text_of_file,
    StatusIs: lambda g: f"the phase is {g.phase_status}",
    All: lambda g: " and ".join(_in_brackets(part) for part in g.all),
    AnyOf: lambda g: " or ".join(_in_brackets(part) for part in g.any),
    Not: lambda g: f"not ({text_of(g.not_)})",
}


def _in_brackets(guard: Guard) -> str:
    text = text_of(guard)
    return f"({text})" if isinstance(guard, All | AnyOf) else text


def parts(guard: Guard | None) -> Iterator[Guard]:
    """Yield a guard's conditions, those inside of others too."""
    match guard:
        case None:
            return
        case All(all=inner) | AnyOf(any=inner):
            for part in inner:
                yield from parts(part)
        case Not(not_=inside):
            yield from parts(inside)
        case _:
            yield guard


def path_of(condition: Guard) -> str | None:
    """Return the field that a condition looks at, None where it looks at none."""
    match condition:
        case Present(present=path) | Equals(field=path) | Every(every=path) | Some(some=path):
            return path
        case _:
            return None
