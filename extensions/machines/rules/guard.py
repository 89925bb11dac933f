"""Guards of phase machines: conditions on the state of a machine, as data.

A guard is evaluated to a list of unmet conditions. If the list is empty, the transition is allowed.
Facts about files are passed to the evaluation: the files with content, and the files with valid
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from extensions.machines.rules.errors import Unmet
from extensions.machines.rules.path import (
    ListItem,
    Steps,
    commit_fact_key,
    get_value,
    is_partly_written,
    items_of,
    parse_path,
)

#: Reported value of a field that was not written since the phase started.
_OLD = "not written since the phase started"
_MET = object()


class _Condition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)
    #: Template for the text of the condition, with placeholders for its values.
    says: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.says.format(self)

    def _find_unmet_value(self, facts: Facts) -> Any:  # noqa: ARG002 - those that join others ask nothing
        """Return the actual value if the condition is not met, otherwise `_MET`."""
        return _MET


class _OfField(_Condition):
    """A condition about a field.

    With ``newer_than: phase``, the field must have been written since the phase started.
    """

    newer_than: Literal["phase"] | None = Field(default=None, exclude_if=lambda it: it is None)

    @property
    def _is_of_phase(self) -> bool:
        return self.newer_than == "phase"

    @property
    def _format_time_condition(self) -> str:
        return ", written since the phase started" if self._is_of_phase else ""

    def _list_items(self, path: str, facts: Facts) -> list[ListItem]:
        written = facts.written if self._is_of_phase else ((),)
        return items_of(facts.value(path), path, written)


class Present(_OfField):
    """The field has a value that is not null, blank or empty."""

    says = "{0.present} is present{0._format_time_condition}"
    present: str

    def _find_unmet_value(self, facts: Facts) -> Any:
        value = facts.value(self.present)
        return value if is_empty(value) else _MET


class Equals(_OfField):
    """The field has the given value."""

    field: str
    equals: JsonValue

    def _find_unmet_value(self, facts: Facts) -> Any:
        value = facts.value(self.field)
        same = value == self.equals and isinstance(value, bool) == isinstance(self.equals, bool)
        return _MET if same else value

    def __str__(self) -> str:
        value = self.equals if isinstance(self.equals, str) else json.dumps(self.equals)
        return f"{self.field} is {value}{self._format_time_condition}"


class HasCommit(_OfField):
    """The field contains the id of a commit that exists in the Git repository.

    With ``newer_than: phase``, the commit must have been made since the phase started.
    """

    commit: str

    def _find_unmet_value(self, facts: Facts) -> Any:
        value = facts.value(self.commit)
        fact = facts.files.get(commit_fact_key(str(value)), FileFact())
        if fact.valid if self._is_of_phase else fact.found:
            return _MET
        why = (
            "the commit is older than the phase" if fact.found else "git does not have this commit"
        )
        why = f"git could not be asked for the commit: {fact.silence}" if fact.silence else why
        return value if is_empty(value) else f"{value!s:.80}: {why}"

    def __str__(self) -> str:
        made = ", made since the phase started" if self._is_of_phase else ""
        return f"git has the commit {self.commit}{made}"


class Counter(_Condition):
    """The machine has repeated a loop (a cycle of phases) the given number of times."""

    counter: str
    at_least: Annotated[int, Field(ge=0)] = 0
    below: Annotated[int, Field(ge=1)] | None = None

    def _find_unmet_value(self, facts: Facts) -> Any:
        count = facts.counts.get(self.counter, 0)
        met = count >= self.at_least and (self.below is None or count < self.below)
        return _MET if met else count

    def __str__(self) -> str:
        below = f" and below {self.below}" if self.below is not None else ""
        return f"loop {self.counter} used at least {self.at_least} times{below}"


class Every(_OfField):
    """Every item of a list or object has one of the given statuses; an empty list does not pass.

    There must be at least one item. ``including`` names object keys that must exist. With
    ``newer_than: phase``, each status must have been written since the phase started.
    """

    every: str
    status: list[str]
    including: list[str] = []

    def _find_unmet_value(self, facts: Facts) -> Any:
        found = self._list_items(self.every, facts)
        missing = [name for name in self.including if name not in {one.name for one in found}]
        wrong = {one.name: one.status for one in found if one.status not in self.status}
        old = {one.name: f"{one.status}, {_OLD}" for one in found if not one.is_new}
        if found and not missing and not wrong and not old:
            return _MET
        if old and not missing and not wrong and not any(one.is_new for one in found):
            return _OLD
        return {**old, **wrong, **dict.fromkeys(missing)} or "no items"

    def __str__(self) -> str:
        also = f" (required items: {', '.join(self.including)})" if self.including else ""
        each = f"{self.every} has items, each with the status {' or '.join(self.status)}"
        return f"{each}{also}{self._format_time_condition}"


class Some(_OfField):
    """At least one item of a list or object has one of the given statuses.

    With ``newer_than: phase``, only statuses that were written since the phase started are
    considered.
    """

    some: str
    status: list[str]

    def _find_unmet_value(self, facts: Facts) -> Any:
        found = [one for one in self._list_items(self.some, facts) if one.is_new]
        met = any(one.status in self.status for one in found)
        return _MET if met else {one.name: one.status for one in found} or "no items"

    def __str__(self) -> str:
        status = " or ".join(self.status)
        return f"an item of {self.some} has the status {status}{self._format_time_condition}"


class Recorded(_Condition):
    """An event with the given name was recorded."""

    says = "the event {0.recorded} was recorded"
    recorded: str

    def _find_unmet_value(self, facts: Facts) -> Any:
        return _MET if facts.events.get(self.recorded) else "not recorded"


class Approved(_Condition):
    """A person has given the approval since the machine entered its phase."""

    says = "a person approved: {0.approved}"
    approved: str

    def _find_unmet_value(self, facts: Facts) -> Any:
        given = self.approved in facts.approvals
        return _MET if given else facts.outdated.get(self.approved, "no approval")


class HasFile(_Condition):
    """A file has content. In its name, ``*`` stands for any text.

    With ``form: json``, the file must contain valid JSON. With ``newer_than: phase``, the file must
    have changed since the machine entered the phase.
    """

    file: str
    form: Literal["any", "json"] = "any"
    newer_than: Literal["phase"] | None = Field(default=None, exclude_if=lambda it: it is None)

    def _find_unmet_value(self, facts: Facts) -> Any:
        fact = facts.files.get(self.file, FileFact())
        counting = fact.since(facts.earlier) if self.newer_than == "phase" else fact
        if counting.valid if self.form == "json" else counting.found:
            return _MET
        if counting.found:
            return "a file that is not valid JSON"
        if fact.found:
            return f"only files from before the phase: {', '.join(fact.found)}"
        return "the file is missing or empty"

    def __str__(self) -> str:
        form = ", valid JSON" if self.form == "json" else ""
        new = ", written since the phase started" if self.newer_than == "phase" else ""
        return f"the file {self.file} has content{form}{new}"


class StatusIs(_Condition):
    """The current phase has the given status."""

    says = "the phase is {0.phase_status}"
    phase_status: str

    def _find_unmet_value(self, facts: Facts) -> Any:
        return _MET if facts.status == self.phase_status else facts.status


class LimitOf(_Condition):
    """The machine entered the current phase because a loop reached its limit."""

    says = "the loop {0.limit_of} reached its limit"
    limit_of: str

    def _find_unmet_value(self, facts: Facts) -> Any:
        by = facts.diverted_by
        return _MET if by == self.limit_of else by or "no loop reached its limit"


class All(_Condition):
    """Every guard in the list is met."""

    all: list[Guard]

    def __str__(self) -> str:
        return " and ".join(map(_in_brackets, self.all))


class AnyOf(_Condition):
    """At least one guard in the list is met."""

    any: list[Guard]

    def __str__(self) -> str:
        return " or ".join(map(_in_brackets, self.any))


class Not(_Condition):
    """The guard is not met."""

    says = "not ({0.not_})"
    not_: Annotated[Guard, Field(alias="not")]

    def _find_unmet_value(self, facts: Facts) -> Any:
        return _MET if list_unmet(self.not_, facts) else "it is so"


def _kind_of(value: Any) -> str | None:
    if isinstance(value, _Condition):
        return _NAMES[type(value)]
    named = _NAMES.values() if isinstance(value, dict) else ()
    return next((name for name in named if name in value), None)


_Kind = (
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
    | Annotated[Not, Tag("not")]
)
_NAMES: dict[type, str] = {kind.__origin__: kind.__metadata__[0].tag for kind in get_args(_Kind)}
_EXPECTED = f"expected an object with one of {', '.join(_NAMES.values())}"
Guard = Annotated[
    _Kind, Discriminator(_kind_of, custom_error_type="guard", custom_error_message=_EXPECTED)
]
for _nested in (All, AnyOf, Not):
    _nested.model_rebuild()


class FileFact(NamedTuple):
    """Facts about the files that match a path or pattern.

    ``found`` lists the files with content, and ``valid`` those that contain JSON. For a commit,
    ``found`` contains its id if it exists, and ``valid`` if it was made since the phase started.
    ``marks`` maps each file to a mark that changes with every write. ``silence`` is the reason if
    the facts could not be collected.
    """

    found: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    marks: Mapping[str, str] = MappingProxyType({})
    silence: str = ""

    def digest(self, file: str) -> str:
        """Return the SHA-256 of a file, or an empty string for an unknown file."""
        return self.marks.get(file, "").partition("@")[0]

    def since(self, earlier: Mapping[str, str]) -> FileFact:
        """Return the facts about only those files that are new or were written again.

        ``earlier`` maps files to their earlier marks.
        """

        def is_new(file: str) -> bool:
            return file not in earlier or self.marks.get(file) != earlier[file]

        return FileFact(
            tuple(filter(is_new, self.found)), tuple(filter(is_new, self.valid)), self.marks
        )


def is_permitted_path(path: str) -> bool:
    """Return whether a path or pattern is inside the folder, but not below ``.wfctl``."""
    steps = path.split("/")
    plain = all(step not in ("", ".", "..") and "\0" not in step for step in steps)
    # A pattern may contain `**` only as a complete part of the path.
    return plain and steps[0] != ".wfctl" and all("**" not in s or s == "**" for s in steps)


class Facts(NamedTuple):
    """All facts that a guard can read."""

    document: Mapping[str, Any]
    defaults: Mapping[str, Any]
    counts: Mapping[str, int]
    events: Mapping[str, int]
    approvals: frozenset[str]
    status: str | None
    files: Mapping[str, FileFact]
    #: File → its mark when the machine entered the phase.
    earlier: Mapping[str, str] = MappingProxyType({})
    #: Paths of the fields that were written since the machine entered the phase. ``()`` stands for
    #: all fields.
    written: Collection[Steps] = ((),)
    #: Approval that is no longer valid → the reason.
    outdated: Mapping[str, str] = MappingProxyType({})
    #: The loop whose limit led to the current phase, if any.
    diverted_by: str | None = None

    def value(self, path: str) -> Any:
        """Return the value of a field, or its default value."""
        steps = parse_path(path)
        found = get_value(self.document, steps)
        return get_value(self.defaults, steps) if found is None else found


def list_unmet(guard: Guard | None, facts: Facts) -> list[Unmet]:
    """Return every unmet condition of a guard, with the value that was found."""
    match guard:
        case None:
            return []
        case All(all=inner):
            return [one for part in inner for one in list_unmet(part, facts)]
        case AnyOf(any=inner):
            lacks = [list_unmet(part, facts) for part in inner]
            return [] if [] in lacks else [one for part in lacks for one in part]
    path, found = find_field_path(guard), guard._find_unmet_value(facts)  # noqa: SLF001 - a condition of this file
    is_bound = isinstance(guard, _OfField) and guard.newer_than == "phase"
    if (
        found is _MET
        and is_bound
        and path
        and not is_partly_written(facts.written, parse_path(path))
    ):
        found = _OLD  # Neither the field nor a part of it was written since the phase was entered.
    if found is _MET:
        return []
    kind = _NAMES[type(guard)]
    return [{"condition": str(guard), "kind": kind, "path": path, "found": found}]


def is_empty(value: Any) -> bool:
    """Return whether a value is null, a blank string, or an empty list or object."""
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def text_of(guard: Guard | None) -> str:
    """Return the conditions of a guard as text for people."""
    return "nothing" if guard is None else str(guard)


def _in_brackets(guard: Guard) -> str:
    return f"({guard})" if isinstance(guard, All | AnyOf) else str(guard)


def has_required_approvals(guard: Guard | None, approvals: Collection[str]) -> bool:
    """Return whether the approvals suffice for a guard, ignoring other conditions."""
    match guard:
        case Approved(approved=name):
            return name in approvals
        case All(all=inner):
            return all(has_required_approvals(part, approvals) for part in inner)
        case AnyOf(any=inner):
            return any(has_required_approvals(part, approvals) for part in inner)
    return True


def iterate_conditions(guard: Guard | None) -> Iterator[Guard]:
    """Yield all single conditions of a guard, including nested ones."""
    match guard:
        case All(all=inner) | AnyOf(any=inner):
            for part in inner:
                yield from iterate_conditions(part)
        case Not(not_=inside):
            yield from iterate_conditions(inside)
        case one if one is not None:
            yield one


def find_field_path(condition: Guard) -> str | None:
    """Return the path of the field that a condition reads, or None if it reads no field."""
    match condition:
        case Present(present=path) | Equals(field=path) | HasCommit(commit=path):
            return path
        case Every(every=path) | Some(some=path):
            return path
    return None
