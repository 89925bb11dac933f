"""``docs/use/machines.md``, made from the definitions (``python -m tests.machines.pages``)."""

from __future__ import annotations

import re
from pathlib import Path

from projections.machines.description import page
from service.machines.completing import SHIPPED, shipped

PATH = Path(__file__).parents[2] / "docs" / "use" / "machines.md"

HEAD = """# Phase machines

This page is made from the definitions; nobody edits it. `wfctl machine describe` prints the same,
`wfctl export mermaid --machine ID` draws a machine. A [walk through one of
them](machines-tutorial.md) shows the commands.

A machine is in one phase at a time. `wfctl machine transition` leads to another if the guard of
the way is met; a refusal lists every unmet condition. `update` changes fields and never the
phase. The log counts loops; past its limit a loop leads to the named phase, and the answer says
so. Any phase that is not final leads to `cancelled`. In a phase where a person decides each way
out that no loop counts takes an approval with a [proof of consent](../trust/consent.md); where a
person advises nothing holds the work up. The files are projections. Edits that agents make in the
files of dotagent and conductor, as their protocols say, are recorded as the equivalent events, if
the rules allow them; any other edit is kept and waits for `wfctl machine drift`.

A definition of your own is a JSON, YAML or TOML file: [every key, guard and
shape](machine-definitions.md), with an example.

*New*: written since the machine entered the phase.
"""
#: What the page leaves out or says shorter: the drawings, and what stands above.
_DRAWING = re.compile(r"```mermaid\n.*?```\n\n", re.DOTALL)
#: The last lines of a type; those of the exarchos types are the same.
_ALIKE = re.compile(r"^Events: .*\nReserved: .*\n", re.MULTILINE)
_SHORTER = {", written since the phase began": ", *new*", "a person approved: ": "approved: "}


def text() -> str:
    """Return the whole page."""
    told = "\n".join([HEAD, *(page(shipped(name)) for name in SHIPPED)])
    for long, short in _SHORTER.items():
        told = told.replace(long, short)
    for alike in set(_ALIKE.findall(told)):
        first, found, others = told.partition(alike)
        told = first + found + others.replace(alike, "Events, reserved: as of `feature`.\n")
    return _DRAWING.sub("", told)


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
