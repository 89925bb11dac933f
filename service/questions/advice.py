"""Advice on a plan, with a look at the scripts that it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eventstore.regular import read_regular
from lifecycle.plan.advice import advice
from lifecycle.state.workflow import Workflow
from service.consent.scripts import beside, scripts_of
from service.root.below import seen_from

#: Bytes of a script that are looked at.
_LONGEST = 1 << 20


def advice_of(root: Path, state: Workflow) -> list[str]:
    """Return what may be meant otherwise in a workflow's definition, a sentence each."""
    names = {*scripts_of(root, state)}
    for stage in state.stages.values():
        names |= {*beside(root, state, stage)}
    found = advice(state, "\n".join(_text(root / name) for name in sorted(names)))
    return [*_without_machine(root, state.backend_profiles), *found]


def _without_machine(root: Path, profiles: Mapping[str, Any]) -> Iterator[str]:
    """Say of each backend profile that names no machine that is there; its file is not read."""
    for name, profile in profiles.items():
        given = profile.get("config_path")
        if given is None and not isinstance(profile.get("config"), Mapping):
            yield (
                f"{name}: a backend profile without config and config_path; no stage can be "
                "dispatched to it (`local` is there where no profile is given)"
            )
        elif isinstance(given, str) and given and not seen_from(root, given).exists():
            yield (
                f"{name}: the machine file {seen_from(root, given)} is missing; no stage can be "
                "dispatched to it yet"
            )


def _text(path: Path) -> str:
    try:
        return read_regular(str(path), _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""  # gone since it was listed
