"""Generated pages that list event types and errors.

``python -m tests.reference_pages`` writes them again.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from cli.frame.failure import exit_code
from lifecycle.payload.event_types import MACHINE_TYPES, STAGED, EventType
from projections.files.event_models import find_event_model
from tests.cli.test_exit_codes import EVERY

DOCS = Path(__file__).resolve().parents[1] / "docs" / "use"

_EVENTS = """# Events

This page lists every type of event that a log can contain. Each type links to the JSON Schema of
its data. `wfctl schema TYPE` prints the same schema. `wfctl events` prints the events of your
workflow. [The glossary](../glossary.md) explains the terms.

"""
_ERRORS = """# Errors

This page lists the error codes that a program can test. With `-o json`, a failed command prints its
error as JSON:

```console
$ wfctl show stage-9 -o json    # exit 3
{"success":false,"error":{"code":"unknown_stage","message":"no stage 'stage-9'; …","data":{…}}}
```

In a script, test the value of `code`, which never changes. `message` explains the cause and the
next step. `data` has details. If a file or a proposal is not valid, `data["problems"]` lists its
problems.
"""
_EXIT_CODES = {
    1: "failed",
    2: "wrong usage",
    3: "not found",
    4: "conflict",
    5: "refused by the rules",
    6: "needs the decision of a person",
    7: "findings",
}


def _sentence(kind: type) -> str:
    """Return the first paragraph of a docstring on one line, fit for a list."""
    text = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "`").split())


def _list_of_events(types: Mapping[str, EventType]) -> str:
    lines = []
    for name, known in types.items():
        schema = f"../schema/{name}.v{known.version}.json"
        version = f", version {known.version}" if known.version > 1 else ""
        lines.append(f"- [`{name}`]({schema}){version}: {_sentence(find_event_model(name))}")
    return "\n".join(lines)


def events() -> str:
    """Return the page of event types."""
    parts = {"Events of a workflow": STAGED, "Events of a machine": MACHINE_TYPES}
    return _EVENTS + "\n".join(f"## {title}\n{_list_of_events(parts[title])}\n" for title in parts)


def errors() -> str:
    """Return the page of errors, with one list for each exit code."""
    causes: dict[int, dict[str, set[str]]] = {code: {} for code in _EXIT_CODES}
    for kind in EVERY:
        row = f"- `{kind.code}`:"  # type: ignore[attr-defined]
        causes[exit_code(kind.__new__(kind))].setdefault(row, set()).add(_sentence(kind))
    return _ERRORS + "".join(_list_errors(code, causes[code]) for code in _EXIT_CODES)


def _list_errors(code: int, causes: Mapping[str, set[str]]) -> str:
    rows = sorted((f"{row} {' Or: '.join(sorted(causes[row]))}\n" for row in causes), key=str.lower)
    return f"\n## Exit code {code}: {_EXIT_CODES[code]}\n{''.join(rows)}"


PAGES = {"events.md": events, "errors.md": errors}


def main() -> None:
    """Write every page."""
    for name, made in PAGES.items():
        (DOCS / name).write_text(made(), "utf-8")


if __name__ == "__main__":
    main()
