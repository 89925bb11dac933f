"""Guards: closed conditions over a machine's state, as data.

A guard is evaluated to the list of what is not met; an empty list opens the way. Files are facts
that come in from outside: their path with whether there is content, and whether it is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from lifecycle.machines.errors import Unmet
from lifecycle.machines.items import items_of, place_of_commit, touches
from lifecycle.machines.path import Steps, look, parse

#: What is found of a field that counts only where it is written anew.
_OLD = "not written since the phase began"


class _Condition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class _OfField(_Condition):
    """About a field; ``newer_than``: ``phase`` wants it written since the phase was entered."""

    newer_than: Literal["phase"] | None = Field(default=None, exclude_if=lambda it: it is None)


class Present(_OfField):
    """A field has a value: not null, not blank text, not an empty list or object."""

    present: str


class Equals(_OfField):
    """A field has this value."""

    field: str
    equals: JsonValue


class HasCommit(_OfField):
    """A field names a commit, by its id, that the repository of the root has.

    ``newer_than``: ``phase`` wants one that was made since the phase was entered.
    """

    commit: str


class Counter(_Condition):
    """A loop was taken so many times."""

    counter: str
    at_least: Annotated[int, Field(ge=0)] = 0
    below: Annotated[int, Field(ge=1)] | None = None


class Every(_OfField):
    """Every item of a list or object has one of these statuses, and there is at least one.

    ``including`` names items (keys of an object) that must be among them. ``newer_than`` asks for
    the status of each.
    """

    every: str
    status: list[str]
    including: list[str] = []


class Some(_OfField):
    """At least one item of a list or object has one of these statuses.

    ``newer_than`` looks at those items alone whose status is new.
    """

    some: str
    status: list[str]


class Recorded(_Condition):
    """An event of this name was recorded."""

    recorded: str


class Approved(_Condition):
    """A person gave this approval since the machine came into its phase."""

    approved: str


class HasFile(_Condition):
    """A file of the root has content; ``*`` stands for any name. ``form``: ``json`` must parse.

    ``newer_than``: ``phase`` leaves out what was there, as it is now, when the phase was entered.
    """

    file: str
    form: Literal["any", "json"] = "any"
    newer_than: Literal["phase"] | None = Field(default=None, exclude_if=lambda it: it is None)


class StatusIs(_Condition):
    """The phase stands so."""

    phase_status: str


class LimitOf(_Condition):
    """The limit of this loop led into the present phase."""

    limit_of: str


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
    "commit": HasCommit,
    "counter": Counter,
    "every": Every,
    "some": Some,
    "recorded": Recorded,
    "approved": Approved,
    "file": HasFile,
    "phase_status": StatusIs,
    "limit_of": LimitOf,
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
    | Annotated[HasCommit, Tag("commit")]
    | Annotated[Counter, Tag("counter")]
    | Annotated[Every, Tag("every")]
    | Annotated[Some, Tag("some")]
    | Annotated[Recorded, Tag("recorded")]
    | Annotated[Approved, Tag("approved")]
    | Annotated[HasFile, Tag("file")]
    | Annotated[StatusIs, Tag("phase_status")]
    | Annotated[LimitOf, Tag("limit_of")]
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
    """What was found at a path or pattern: the files with content, and those that are JSON.

    Of a commit: itself, where it is there, and where it was made since the phase was entered.
    ``marks``: file → the mark of what it holds, which is another one whenever it was written.
    """

    found: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    marks: Mapping[str, str] = MappingProxyType({})

    def digest(self, file: str) -> str:
        """Return the SHA-256 of a file that was found, in hex."""
        return self.marks.get(file, "").partition("@")[0]

    def since(self, earlier: Mapping[str, str]) -> FileFact:
        """Return what is new or was written since the files had the marks of ``earlier``."""

        def is_new(file: str) -> bool:
            return file not in earlier or self.marks.get(file) != earlier[file]

        return FileFact(
            tuple(filter(is_new, self.found)), tuple(filter(is_new, self.valid)), self.marks
        )


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
    #: File → its mark when the phase was entered.
    earlier: Mapping[str, str] = MappingProxyType({})
    #: The paths that were written since the phase was entered; ``()`` stands for all.
    written: Collection[Steps] = ((),)
    #: Approvals that were given for something else than is there now → what it is of.
    outdated: Mapping[str, str] = MappingProxyType({})
    #: The loop whose limit led into the phase.
    diverted_by: str | None = None

    def is_new(self, path: str) -> bool:
        """Whether a field, or a part of it, was written since the phase was entered."""
        return touches(self.written, parse(path))

    def value(self, path: str) -> Any:
        """Return a field's value, its default where there is none."""
        steps = parse(path)
        found = look(self.document, steps)
        return look(self.defaults, steps) if found is None else found


def unmet(guard: Guard | None, facts: Facts) -> list[Unmet]:
    """Return every condition that is not met, each with what was expected and found."""
    if guard is None:
        return []
    missing = _UNMET[type(guard)](guard, facts)
    if missing or not isinstance(guard, _OfField) or guard.newer_than is None:
        return missing
    path = path_of(guard)
    if path is None or facts.is_new(path):
        return []
    return _one(guard, _OLD, path)


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


def _has_commit(guard: HasCommit, facts: Facts) -> list[Unmet]:
    value = facts.value(guard.commit)
    fact = facts.files.get(place_of_commit(str(value)), FileFact())
    if fact.valid if guard.newer_than == "phase" else fact.found:
        return []
    why = "it was there before the phase" if fact.found else "git has no such commit here"
    found = value if is_empty(value) else f"{value!s:.80}: {why}"
    return _one(guard, found, guard.commit)


def _counter(guard: Counter, facts: Facts) -> list[Unmet]:
    count = facts.counts.get(guard.counter, 0)
    met = count >= guard.at_least and (guard.below is None or count < guard.below)
    return [] if met else _one(guard, count)


def _every(guard: Every, facts: Facts) -> list[Unmet]:
    found = items_of(facts.value(guard.every), guard.every, _written(guard, facts))
    missing = [name for name in guard.including if name not in {one.name for one in found}]
    wrong = {one.name: one.status for one in found if one.status not in guard.status}
    old = {one.name: f"{one.status}, {_OLD}" for one in found if not one.is_new}
    if found and not missing and not wrong and not old:
        return []
    if old and not missing and not wrong and not any(one.is_new for one in found):
        return _one(guard, _OLD, guard.every)
    lacks = {**old, **wrong, **dict.fromkeys(missing)}
    return _one(guard, lacks or "none at all", guard.every)


def _some(guard: Some, facts: Facts) -> list[Unmet]:
    every = items_of(facts.value(guard.some), guard.some, _written(guard, facts))
    found = [one for one in every if one.is_new]
    met = any(one.status in guard.status for one in found)
    return (
        [] if met else _one(guard, {o.name: o.status for o in found} or "none at all", guard.some)
    )


def _written(guard: _OfField, facts: Facts) -> Collection[Steps]:
    """Return the paths that count as new for a guard; ``()`` stands for all."""
    return facts.written if guard.newer_than == "phase" else ((),)


def _recorded(guard: Recorded, facts: Facts) -> list[Unmet]:
    return [] if facts.events.get(guard.recorded) else _one(guard, "no such event")


def _approved(guard: Approved, facts: Facts) -> list[Unmet]:
    if guard.approved in facts.approvals:
        return []
    return _one(guard, facts.outdated.get(guard.approved, "no approval"))


def _has_file(guard: HasFile, facts: Facts) -> list[Unmet]:
    fact = facts.files.get(guard.file, FileFact())
    counting = fact.since(facts.earlier) if guard.newer_than == "phase" else fact
    found = counting.valid if guard.form == "json" else counting.found
    if found:
        return []
    if counting.found:
        return _one(guard, "a file that is not valid JSON")
    if fact.found:
        return _one(guard, f"only what was there before the phase: {', '.join(fact.found)}")
    return _one(guard, "no file with content")


def _status_is(guard: StatusIs, facts: Facts) -> list[Unmet]:
    return [] if facts.status == guard.phase_status else _one(guard, facts.status)


def _limit_of(guard: LimitOf, facts: Facts) -> list[Unmet]:
    by = facts.diverted_by
    return [] if by == guard.limit_of else _one(guard, by or "no limit led here")


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
    HasCommit: _has_commit,
    Counter: _counter,
    Every: _every,
    Some: _some,
    Recorded: _recorded,
    Approved: _approved,
    HasFile: _has_file,
    StatusIs: _status_is,
    LimitOf: _limit_of,
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
    each = f"at least one of {guard.every}, and each is {' or '.join(guard.status)}"
    return f"{each}{also}{_since(guard)}"


def _since(guard: _OfField, how: str = "written") -> str:
    return f", {how} since the phase began" if guard.newer_than == "phase" else ""


def _text_of_file(guard: HasFile) -> str:
    form = ", valid JSON" if guard.form == "json" else ""
    new = ", written since the phase began" if guard.newer_than == "phase" else ""
    return f"the file {guard.file} has content{form}{new}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_TEXTS: dict[type[_Condition], Callable[[Any], str]] = {
    Present: lambda g: f"{g.present} is present{_since(g)}",
    Equals: lambda g: f"{g.field} is {_value(g.equals)}{_since(g)}",
    HasCommit: lambda g: f"{g.commit} is a commit that git has{_since(g, 'made')}",
    Counter: _text_of_counter,
    Every: _text_of_every,
    Some: lambda g: f"one of {g.some} is {' or '.join(g.status)}{_since(g)}",
    Recorded: lambda g: f"an event {g.recorded} was recorded",
    Approved: lambda g: f"a person approved: {g.approved}",
    HasFile: _text_of_file,
    StatusIs: lambda g: f"the phase is {g.phase_status}",
    LimitOf: lambda g: f"the limit of {g.limit_of} led here",
    All: lambda g: " and ".join(_in_brackets(part) for part in g.all),
    AnyOf: lambda g: " or ".join(_in_brackets(part) for part in g.any),
    Not: lambda g: f"not ({text_of(g.not_)})",
}


def _in_brackets(guard: Guard) -> str:
    text = text_of(guard)
    return f"({text})" if isinstance(guard, All | AnyOf) else text


def lets_through(guard: Guard | None, approvals: Collection[str]) -> bool:
    """Whether a guard could be met with these approvals, whatever else it asks for."""
    match guard:
        case Approved(approved=name):
            return name in approvals
        case All(all=inner):
            return all(lets_through(part, approvals) for part in inner)
        case AnyOf(any=inner):
            return any(lets_through(part, approvals) for part in inner)
        case _:
            return True


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
        case HasCommit(commit=path):
            return path
        case _:
            return None
