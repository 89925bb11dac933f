"""Parse names of rounds of an optimization loop, such as ``search@2``."""

from __future__ import annotations

import re

from lifecycle.errors import UnknownLoop
from lifecycle.state.loops import Round
from lifecycle.state.workflow import Workflow
from service.errors import NotFound

_ROUND = re.compile(r"(?P<loop>[^/@]+)@(?P<round>[0-9]{1,9})", re.ASCII)


def find_round(state: Workflow, text: str) -> tuple[str, Round] | None:
    """Return the loop and the round that a text such as ``search@2`` names.

    Return None if the text does not have this form. Raises `UnknownLoop` for an unknown loop, and
    `NotFound` if the round has not started.
    """
    found = _ROUND.fullmatch(text)
    if found is None:
        return None
    name, number = found["loop"], int(found["round"])
    if name not in state.loops:
        raise UnknownLoop(name, list(state.loops))
    rounds = state.loops[name].rounds
    if not 0 < number <= len(rounds):
        why = f"{name} has no round {number}; the last round is {len(rounds)}"
        raise NotFound(why, loop=name, round=number)
    return name, rounds[number - 1]
