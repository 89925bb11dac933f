"""Generate ``docs/use/machine-definitions.md`` (``python -m tests.machines.reference``)."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from extensions.machines.rules import definition
from extensions.machines.rules.guard import Present
from tests.machines.definition_words import WORDS

PATH = Path(__file__).parents[2] / "docs" / "use" / "machine-definitions.md"

EXAMPLE = """id: paper
title: A paper, from its draft to its submission
initial: draft

phases:
  draft:
    asks: Write the draft; draft.path is its path.
  review:
    asks: Have the draft reviewed; give each entry of reviews a status.
  sign-off:
    asks: The head of the group reads it.
    person: decides
  stuck:
    asks: Three rounds were not enough; a person finds out why.
    person: decides
  submitted:
    final: true

transitions:
  - {from: draft, to: review, guard: {present: draft.path, newer_than: phase}}
  - {from: review, to: sign-off, guard: {every: reviews, status: [good], newer_than: phase}}
  - from: review
    to: draft
    loop: revision
    guard: {some: reviews, status: [bad], newer_than: phase}
  - {from: sign-off, to: submitted, guard: {approved: submission}}
  - {from: stuck, to: draft, resets: [revision], guard: {approved: go-on}}

loops:
  revision: {limit: 3, on_limit: stuck}

approvals:
  submission: {phase: sign-off, asks: "Submit the paper?"}
  go-on: {phase: stuck, asks: "Continue the work?"}

fields:
  draft: {path: text}
  reviews:
    "*": {status: good|bad}

blockers:
  - {when: {some: reviews, status: [bad]}, says: a review is bad}

files:
  state: "{id}.state.json"
"""

HEAD = """# Write your own machine

A machine definition describes the phases of your work, and the conditions for each step from one
phase to another. You write it as a YAML, JSON or TOML file. This page lists all keys; wfctl refuses
other keys. [Phase machines](machines.md) explains the terms.

```sh
wfctl machine describe feature --source     # print a shipped definition to start from
wfctl machine check FILE                    # list all errors with their places, or draw the machine
wfctl machine init ID --definition FILE     # start a machine, which keeps this definition
wfctl schema definition                     # print the JSON Schema
```

If an agent or a script starts the machine, the machine cannot leave its first phase until a person
runs `wfctl machine approve ID definition` ([consent](../trust/consent.md)).

## Complete example

```yaml
"""

GUARDS = """## Guards

A guard is the condition of a transition. Write it as one of the keys in the first column. `all`,
`any` and `not` combine other guards.

With `newer_than: phase`, wfctl ignores fields, statuses, files and commits that are older than the
machine's entry into its current phase.
"""

SHAPES = """## Shapes

A shape describes the values that a field may have. Every field may also be missing or null. You can
write fields that have no shape, but guards cannot use them.

If `fields`, `reserved` or the protocol defines a name, wfctl refuses to write a field of this name
in any other place (`RESERVED_FIELD`). You can use common names anywhere: `id`, `name`, `title`,
`type`, `status`, `version` and times.

| shape | value |
|---|---|
| `text`, `flag`, `number`, `list`, `object`, `any` | The value has this type (flag: true, false). |
| `a\\|b\\|c` | The value is one of these strings. |
| `{name: shape}` | The value is an object with these fields. |
| `{"*": shape}` | The value is an object with any keys. Its values have this shape. |
| `[shape]` | The value is a list, and every item has this shape. |

## Common mistakes

1. **A guard uses a field that is not listed under `fields`.** List the field there.
2. **A guard compares a field with a value that the field can never have**, such as `equals: "no"`
   for a flag. Compare a flag with `true` or `false`.
3. **The machine can repeat phases forever.** Add a `loop` to the transition that leads back, and
   set its `on_limit` to a phase outside the cycle. Or make the guard require an approval.
4. **A guard accepts a value from an earlier round.** If each round must write the value
   again, add `newer_than: phase` to the guard.
"""

#: For each model of a definition: the sentence that precedes its table of keys on the page.
_INTRODUCTIONS: dict[type[Any], str] = {
    definition.Phase: """
If a person *decides* in a phase, the machine needs an approval to leave this phase, except by a
loop.
""",
    definition.Loop: """
A loop limits how often a machine may return to earlier phases.
""",
    definition.Statuses: """
A definition can give each phase a status, such as `PASSED`.
""",
}


def text() -> str:
    """Return the reference page of machine definitions, as Markdown."""
    guards = [model for model in WORDS if model.__module__ == Present.__module__]
    parts = [model for model in WORDS if model not in guards]
    return "\n".join(
        [
            HEAD + EXAMPLE + "```\n",
            *(_section(model) for model in parts),
            GUARDS,
            "| guard | met if | other keys |\n|---|---|---|",
            *(_guard(model) for model in guards),
            "",
            SHAPES,
        ]
    )


def _section(model: type[Any]) -> str:
    """Return the section of a model: a heading, an introduction and the table of keys."""
    return f"## {_title(model)}\n{_INTRODUCTIONS.get(model, '')}\n{_table(model)}\n"


def _guard(model: type[Any]) -> str:
    """Return the table row of a guard (a condition of a transition), named by its first key."""
    said, name = _says(model).removesuffix(".").replace("``", "`"), next(iter(WORDS[model]))
    held = {
        field.alias or key: _kind(field.annotation) for key, field in model.model_fields.items()
    }
    return f"| `{name}`: {held[name]} | {said} | {'; '.join(_keys(model, name)) or '-'} |"


def _keys(model: type[Any], own: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key == own:
            continue
        if key == "newer_than":
            yield "`newer_than: phase`"
            continue
        words = WORDS[model][key].replace("|", "\\|")
        yield f"`{key}` ({_held(field).removesuffix(', required')}): {words}"


def _title(model: type[Any]) -> str:
    names = {"Definition": "Top level", "EventKind": "An event", "Statuses": "Statuses"}
    plain = {"Tasks": "Tasks", "Approval": "An approval", **names}
    return plain.get(model.__name__, f"A {model.__name__.lower()}")


def _says(model: type[Any]) -> str:
    return str(model.__doc__).split("\n", maxsplit=1)[0]


def _table(model: type[Any]) -> str:
    rows = ["| key | type | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        key = field.alias or name
        words = WORDS[model][key].replace("|", "\\|")
        rows.append(f"| `{key}` | {_held(field)} | {words} |")
    return "\n".join(rows)


def _held(field: Any) -> str:
    """Return the table cells of a key: its type, whether it is required, and its default."""
    kind, default = _kind(field.annotation), _default(field)
    if default == "required":
        return f"{kind}, required"
    return kind if default == "-" else f"{kind}, default {default}"


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is PydanticUndefined or value in (None, "", [], {}):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`".replace("|", "\\|")


_NAMES = {str: "text", int: "number", bool: "true, false", dict: "object", list: "list"}


def _kind(annotation: Any) -> str:
    """Return the type of a key in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _NAMES:
        return _NAMES[annotation]
    if origin in (Union, types.UnionType):
        kinds = (_kind(one) for one in arguments if one is not type(None))
        return " or ".join(dict.fromkeys(kinds))
    if origin is dict:
        return "object"
    if origin is list:
        return f"list of {_kind(arguments[0])}"
    if getattr(annotation, "__metadata__", None) is not None:
        return _kind(arguments[0]) if arguments[0] in _NAMES else "guard"
    if str(origin) == "typing.Literal":
        return ", ".join(f"`{one}`" for one in arguments)
    if annotation is Any or not isinstance(annotation, type):
        return "value"
    return "object" if hasattr(annotation, "model_fields") else "value"


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
