"""Generate ``docs/use/machines.md`` (``python -m tests.machines.pages``)."""

from __future__ import annotations

import re
from pathlib import Path

from extensions.machines.service.complete_command import SHIPPED, load_shipped_definition
from extensions.machines.views.description import render_page

PATH = Path(__file__).parents[2] / "docs" / "use" / "machines.md"

HEAD = """# Phase machines

A phase machine guides a piece of work, such as a feature or a paper, from phase to phase. This page
lists the machines that come with wfctl. The [tutorial](machines-tutorial.md) shows the commands.
You can also [write your own machine](machine-definitions.md).

A machine is always in exactly one phase.

- `wfctl machine transition` moves the machine to another phase. Each transition has a condition,
  called a *guard*. If the guard is not met, wfctl refuses the transition and lists what is missing.
- `wfctl machine update` changes the fields of a machine, but never its phase.
- A *loop* is a transition that leads back to earlier work. wfctl counts how often a machine takes
  each loop. At the limit of a loop, the transition leads to a different phase.
- You can cancel a machine in every phase that is not final.
- In some phases a person *decides*. To leave such a phase, the machine needs an approval with a
  [proof of consent](../trust/consent.md). Only loops need no approval. In other phases a person
  only *advises*, and the machine does not wait.
- wfctl writes the files of a machine from its log. Agents may edit the files of the types
  `dotagent` and `conductor`. If the rules allow the edit, wfctl records it as events. wfctl keeps
  every other edit for review with `wfctl machine drift`.

The word *new* in a table means that the value was written after the machine entered its current
phase. In file names, `{id}` stands for the id of the machine. `wfctl machine describe TYPE` also
prints the work of each phase, the events, and the *reserved* fields, which only wfctl writes.
`wfctl export mermaid --machine ID` draws a machine.
"""
#: Parts that the page omits: drawings, the work of each phase, events, reserved fields.
_OMITTED = re.compile(
    r"```mermaid\n[^`]*```\n\n|\n\| phase \| work \|\n(?:\|.*\n)+|^(?:Events|Reserved): .*\n",
    re.MULTILINE,
)
#: Types whose transitions the page omits, because they are many or follow a protocol.
_LONG_TYPES = ("debug", "refactor", "dotagent", "conductor")
_TRANSITIONS = re.compile(r"\| from \| to \| condition \|\n(?:\|.*\n)+")
#: For each type of machine: a description that replaces the title of its definition.
_PURPOSES = {
    "feature": "develops a feature, from its design to its pull request",
    "debug": "finds and fixes a fault, thoroughly or as a quick fix (hotfix)",
    "refactor": "improves code, in small steps (polish) or by a plan (overhaul)",
    "oneshot": "makes one change, with a pull request if you want one",
    "discovery": "collects sources and writes a report about them",
    "dotagent": "takes a development through phases, from requirements to reflection",
    "conductor": "runs a track, one piece of work in the conductor protocol, step by step",
}
_START = re.compile(r"^.*\. Starts in (`\S+`); files: (.*)\.$", re.MULTILINE)
#: Phrases that wfctl prints, and full sentences that replace them on the page. They are applied in
#: this order.
_SENTENCES = {
    r", written since the phase started": ", *new*",
    r"(\S+) is present, \*new\*": r"\1 has a *new* value",
    r"tasks has items, each with the status complete, \*new\*": (
        "tasks has items, and each item has the *new* status complete"
    ),
    r"(\S+) has items, each with the status (.*) \(required items: (.*), (.*)\), \*new\*": (
        r"\1 has the items \3 and \4, and each item has the *new* status \2"
    ),
    r"not \(the loop (\S+) reached its limit\)": r"the loop \1 did not reach its limit",
    r"not \(the event (\S+) was recorded\)": r"the event \1 was not recorded",
    r", \*new\*": " (*new*)",
    r"a person approved: ([\w-]+)": r"a person approved `\1`",
    r"; loop (`\S+`), at most (\d+), then to (`\S+`)": (
        r". This is the loop \1. After \2 times it leads to \3"
    ),
    r"^Approvals: (.*)$": r"A person can give the approval \1",
    r"^(A person can give the approval .*), (.*)$": r"\1, and \2",
    r"(`[\w-]+`) in (`[\w-]+`)(?=, |\.$)": r"\1 in the phase \2",
}


def text() -> str:
    """Return the page about all shipped types of machines, as Markdown."""
    page_text = "\n".join([HEAD, *(_section(name) for name in SHIPPED)])
    for phrase, sentence in _SENTENCES.items():
        page_text = re.sub(phrase, sentence, page_text, flags=re.MULTILINE)
    return _OMITTED.sub("", page_text).replace("\n\n\n", "\n\n").rstrip() + "\n"


def _section(name: str) -> str:
    """Return the section of a machine type. For long types, a command replaces the transitions."""
    start = rf"This machine {_PURPOSES[name]}.\nIt starts in \1 and writes \2."
    section = _START.sub(start, render_page(load_shipped_definition(name)))
    if name not in _LONG_TYPES:
        return section
    command = f"`wfctl machine describe {name}` prints its phases and transitions.\n"
    return _TRANSITIONS.sub(command, section)


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
