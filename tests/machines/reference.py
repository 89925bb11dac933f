"""``docs/use/machine-definitions.md``, from the models (``python -m tests.machines.reference``)."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from lifecycle.machines.guard import Present
from tests.machines.definition_words import WORDS

PATH = Path(__file__).parents[2] / "docs" / "use" / "machine-definitions.md"

EXAMPLE = """id: paper
title: A paper, from its draft to its submission
initial: draft

phases:
  draft:
    asks: Write the draft; draft.path is where it lies.
  review:
    asks: Have it read; each of reviews gets a status.
  sign-off:
    asks: The head of the group reads it.
    person: decides
  stuck:
    asks: Three rounds were not enough; a person looks at why.
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
  submission: {phase: sign-off, asks: "Shall it be submitted?"}
  go-on: {phase: stuck, asks: "Shall the work go on?"}

fields:
  draft: {path: text}
  reviews:
    "*": {status: good|bad}

blockers:
  - {when: {some: reviews, status: [bad]}, says: a review is bad}

files:
  state: "{id}.state.json"
"""

HEAD = """# A definition of your own

The tables of this page are made from the models that read a definition: a YAML, JSON or TOML file
with these keys and no others. `wfctl machine check FILE` says every fault with its place, or
draws it. `wfctl machine init ID --definition FILE` begins a machine, which keeps the definition.
`wfctl machine describe feature --source` prints a shipped one to start from, `wfctl schema
definition` the JSON Schema. If an agent or a script begins it, no way is open before a person
runs `wfctl machine approve ID definition` ([consent.md](../trust/consent.md)).

## An example that runs

```yaml
"""

GUARDS = """## Guards

A guard is one of these; `all`, `any` and `not` hold others. `newer_than: phase` counts a field, a
status or a file only if it was written, and a commit only if it was made, since the machine entered
the phase.
"""

SHAPES = """## Shapes

A shape says the possible values of a field. Every field may be missing or null; fields without a
shape are kept, but no guard may look at them. A name that `fields`, `reserved` or the protocol
knows is refused elsewhere (`RESERVED_FIELD`), except common words (`id`, `name`, `title`, `type`,
`status`, `version`, times).

| shape | holds |
|---|---|
| `text`, `flag`, `number`, `list`, `object`, `any` | such a value; a flag is true or false |
| `a\\|b\\|c` | one of these texts |
| `{name: shape}` | an object with these fields |
| `{"*": shape}` | an object with any keys, each of this shape |
| `[shape]` | a list, each item of this shape |

## The three mistakes that people make

1. **A guard looks at a field that `fields` does not name**, or at an impossible value: `equals:
   "no"` on a flag. Put the shape under `fields`; compare a flag with `true` or `false`.
2. **A loop without an exit.** Count a way back by a `loop` whose `on_limit` leads to a phase
   outside the cycle, where a person decides, or let it wait for an approval.
3. **Old evidence counts again.** A guard on a field or file that each round must bring anew says
   `newer_than: phase`.

## What machines and staged workflows share

`log`, `why` (with each unmet condition), `blame`, `diff`, `events`, `audit refused`, `replay` and
`export mermaid` take `--machine ID`; `fsck` and `replay --check` look at every machine; each answer
has `next_actions`.

| | staged workflow | machine |
|---|---|---|
| begin | `wfctl init plan.toml` | `wfctl machine init ID` |
| where it stands | `wfctl status`, `show` | `wfctl machine get ID`, `list` |
| come back to it | `wfctl rehydrate` | `wfctl machine rehydrate ID` |
| a person agrees | `wfctl amend approve` | `wfctl machine approve ID APPROVAL` |
| hand edits | `wfctl drift` | `wfctl machine drift ID` |
| take over files kept by hand | `wfctl import` | `wfctl machine import` |
| a field | `wfctl blame FIELD` | `wfctl blame tasks.T-1.status --machine ID` |
| schemas | `wfctl schema state`, `plan` | `wfctl schema TYPE.state`, `definition` |
"""


def text() -> str:
    """Return the whole page."""
    guards = [model for model in WORDS if model.__module__ == Present.__module__]
    parts = [model for model in WORDS if model not in guards]
    return "\n".join(
        [
            HEAD + EXAMPLE + "```\n",
            *(f"## {_title(model)}\n\n{_table(model)}\n" for model in parts),
            GUARDS,
            "| guard | is met if | other keys |\n|---|---|---|",
            *(_guard(model) for model in guards),
            "",
            SHAPES,
        ]
    )


def _guard(model: type[Any]) -> str:
    """Return a row of the table of guards; the first key of a guard is its name."""
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
        yield f"`{key}` ({_held(field).removesuffix(', needed')}): {words}"


def _title(model: type[Any]) -> str:
    names = {"Definition": "The whole", "EventKind": "An event", "Statuses": "Statuses"}
    plain = {"Tasks": "Tasks", "Approval": "An approval", **names}
    return plain.get(model.__name__, f"A {model.__name__.lower()}")


def _says(model: type[Any]) -> str:
    return str(model.__doc__).split("\n", maxsplit=1)[0]


def _table(model: type[Any]) -> str:
    rows = ["| key | holds | what for |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        key = field.alias or name
        words = WORDS[model][key].replace("|", "\\|")
        rows.append(f"| `{key}` | {_held(field)} | {words} |")
    return "\n".join(rows)


def _held(field: Any) -> str:
    """Return what a key holds, whether it is needed, and what holds without it."""
    kind, default = _kind(field.annotation), _default(field)
    if default == "needed":
        return f"{kind}, needed"
    return kind if default == "-" else f"{kind}, else {default}"


def _default(field: Any) -> str:
    if field.is_required():
        return "needed"
    value = field.default
    if value is PydanticUndefined or value in (None, "", [], {}):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`".replace("|", "\\|")


_NAMES = {str: "text", int: "number", bool: "true, false", dict: "object", list: "list"}


def _kind(annotation: Any) -> str:
    """Return what a key holds, in words."""
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
