"""Pages that list what the code has: event types and errors.

``python -m tests.reference_pages`` writes them anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from cli.frame.failure import exit_code
from lifecycle.payload.event_types import OF_MACHINES, STAGED, EventType
from lifecycle.rules.decide import model_of
from tests.cli.test_exit_codes import EVERY

DOCS = Path(__file__).resolve().parents[1] / "docs" / "use"

_EVENTS = """# Events

Every type of event that a log may hold, linked to the JSON Schema of its data, which `wfctl schema
TYPE` prints too. `wfctl events` prints events; [the glossary](../glossary.md) has the words.

"""
_ERRORS = """# Errors

With `-o json` an error is `{"success": false, "error": {"code", "message", "data"}}`. A program
tells errors apart by `code`, which never changes; the message says what was expected, what was
found and what to do. The exit codes are those of [the contract](../cli.md).

| code | exit | when |
|---|---|---|
"""


def _sentence(kind: type) -> str:
    """Return the first paragraph of a docstring on one line, fit for a cell."""
    text = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _table(types: Mapping[str, EventType]) -> str:
    lines = ["| type | version | says |", "|---|---|---|"]
    for name, known in types.items():
        schema = f"../schema/{name}.v{known.version}.json"
        lines.append(f"| [`{name}`]({schema}) | {known.version} | {_sentence(model_of(name))} |")
    return "\n".join(lines)


def events() -> str:
    """Return the page of event types."""
    return (
        f"{_EVENTS}## Of a workflow\n{_table(STAGED)}\n\n## Of a machine\n{_table(OF_MACHINES)}\n"
    )


def errors() -> str:
    """Return the page of errors, by their codes."""
    rows = {
        f"| `{kind.code}` | {exit_code(kind.__new__(kind))} | {_sentence(kind)} |"  # type: ignore[attr-defined]
        for kind in EVERY
    }
    return _ERRORS + "\n".join(sorted(rows, key=str.lower)) + "\n"


PAGES = {"events.md": events, "errors.md": errors}


def main() -> None:
    """Write every page."""
    for name, made in PAGES.items():
        (DOCS / name).write_text(made(), "utf-8")


if __name__ == "__main__":
    main()
