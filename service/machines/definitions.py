"""Where definitions come from: those that travel with wfctl, and files of the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lifecycle.machines.definition import MOST_ROUNDS, Definition, trusted
from lifecycle.machines.errors import InvalidDefinition, InvalidInput
from lifecycle.machines.soundness import load
from service.root.below import OutsideRoot
from service.root.within import content_within

#: The shipped definitions, in the order in which they are shown.
SHIPPED = ("feature", "debug", "refactor", "oneshot", "dotagent", "conductor")


#: Where a repository of conductor tracks keeps its settings, and the field of a track's own limit.
_CONFIG, _LIMIT = "conductor/config.json", "loop_state.max_fix_cycles"


@cache  # it cannot be changed, and a process that stays is asked for it again
def shipped(name: str) -> Definition:
    """Return a definition that travels with wfctl; raises `InvalidInput` for another name."""
    from service.documents.strict_yaml import load as decoded

    if name not in SHIPPED:
        raise InvalidInput(
            f"no type {name!r}; there is: {', '.join(SHIPPED)}. `--definition FILE` takes another.",
            type=name,
            known=list(SHIPPED),
        )
    source = files("lifecycle.machines") / "definitions" / f"{name}.yaml"
    return load(decoded(source.read_text("utf-8")), name)


def is_own(data: Mapping[str, Any]) -> bool:
    """Whether a definition is none that travels with wfctl; how often its loops may go is free."""
    if data.get("id") not in SHIPPED:
        return True
    known, there = trusted(data), shipped(str(data["id"]))
    same = known.with_limits({name: loop.limit for name, loop in there.loops.items()})
    return same != there or list(known.phases) != list(there.phases)


def limited(definition: Definition, root: Path) -> Definition:
    """Return a definition with the limit that the repository at ``root`` has of its own."""
    own = _own_limit(root) if definition.protocol == "conductor" else None
    if own is None:
        return definition
    from_there = [name for name, loop in definition.loops.items() if loop.limit_from == _LIMIT]
    return definition.with_limits(dict.fromkeys(from_there, own))


def _own_limit(root: Path) -> int | None:
    try:
        found = json.loads(content_within(root, _CONFIG) or b"{}")
    except (OSError, ValueError, RecursionError, OutsideRoot):
        return None
    limit = found.get("max_fix_cycles") if isinstance(found, dict) else None
    usable = isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= MOST_ROUNDS
    return limit if usable else None


def from_file(source: str) -> Definition:
    """Return the definition in a JSON, YAML or TOML file (``-`` is standard input).

    Raises `NotFound`, `UnreadablePlan`, `InvalidDefinition`.
    """
    from lifecycle.errors import InvalidPlan
    from service.documents.plan_file import read_plan

    try:
        return load(read_plan(source), source)
    except InvalidPlan as error:
        raise InvalidDefinition(source, error.data["problems"]) from error
