"""``docs/use/machines.md``, made from the definitions (``python -m tests.machines.pages``)."""

from __future__ import annotations

from pathlib import Path

from projections.machines.description import page
from service.machines.definitions import SHIPPED, shipped

PATH = Path(__file__).parents[2] / "docs" / "use" / "machines.md"

HEAD = """# Phase machines

This page is made from the definitions (`wfctl machine describe` prints the same); it is not edited
by hand. A [walk through one of them](machines-tutorial.md) shows the commands.

A machine is in one phase at a time. `wfctl machine transition` goes to another where the guard of
the way is met; a refusal lists every condition that is not. `update` changes fields and never the
phase. Loops are counted by the log; past their limit the machine goes to the phase named, and says
so. Any phase that is not final leads to `cancelled`. In a phase where a person
decides (`person: decides`) each way out that no loop counts takes an approval, with a proof of
consent, as an amendment does ([consent.md](../trust/consent.md)); where a person advises
(`person: advises`) nothing holds the work up. The files are projections. What agents write into
those of dotagent and conductor themselves, as their protocols say, is recorded as the events that
it amounts to, if the rules allow them; any other edit is kept, and waits for `wfctl machine drift`.

A definition of your own is a JSON, YAML or TOML file: [every key, guard and shape of
it](machine-definitions.md), with an example. It is checked whole when it is loaded, and stays with
the machine for as long as that lives.
"""


def text() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(page(shipped(name)) for name in SHIPPED)])


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
