"""The files of a machine: path (relative to the root) → bytes, by the protocol of its type.

Names, order and spelling of the fields are those of the protocols; readers depend on them.
"""

from __future__ import annotations

import json
from typing import Any

from lifecycle.machines.machine import Machine
from projections.machines import conductor, dotagent, exarchos

Document = dict[str, Any]


def documents(machine: Machine) -> dict[str, Document]:
    """Return each file of the machine as its document: role → document."""
    match machine.definition.protocol:
        case "dotagent":
            return {"phase": dotagent.phase(machine), "execution": dotagent.execution(machine)}
        case "conductor":
            return {"metadata": conductor.metadata(machine)}
        case _:
            return {"state": exarchos.state(machine)}


def paths(machine: Machine) -> dict[str, str]:
    """Return where each file is: role → path relative to the root."""
    return {
        role: path.replace("{id}", machine.id) for role, path in machine.definition.files.items()
    }


def rendered(machine: Machine) -> dict[str, bytes]:
    """Return each file: path relative to the root → its bytes."""
    places = paths(machine)
    return {places[role]: to_bytes(document) for role, document in documents(machine).items()}


def to_bytes(document: Document) -> bytes:
    """Return UTF-8 JSON, 2-space indent, a newline at the end."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
