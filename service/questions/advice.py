"""Advice on a plan, with a look at the scripts that it runs."""

from __future__ import annotations

from pathlib import Path

from eventstore.regular import read_regular
from lifecycle.plan.advice import advice
from lifecycle.state.workflow import Workflow
from service.consent.scripts import beside, scripts_of

#: Bytes of a script that are looked at.
_LONGEST = 1 << 20


def advice_of(root: Path, state: Workflow) -> list[str]:
    """Return what may be meant otherwise in a workflow's definition, a sentence each."""
    names = {*scripts_of(root, state)}
    for stage in state.stages.values():
        names |= {*beside(root, state, stage)}
    return advice(state, "\n".join(_text(root / name) for name in sorted(names)))


def _text(path: Path) -> str:
    try:
        return read_regular(str(path), _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""  # gone since it was listed
