"""Read a ``superscientist.json``, which describes the software of an imported workflow."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventstore.regular_files import NotRegular, read_regular
from lifecycle.state.status import FINISHED
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words import environments

FILE = "superscientist.json"


@dataclass(frozen=True, slots=True)
class DescribedSoftware:
    """The software environment that a file describes.

    ``runner`` is the program that enters the environment. ``commands`` maps names to command lines.
    """

    name: str
    runner: str | None
    commands: dict[str, list[str]]


def read_software(folder: Path) -> DescribedSoftware | None:
    """Return the software that ``superscientist.json`` in ``folder`` describes.

    Returns None if the file is missing or unreadable, or if it does not name a valid environment.
    """
    document: Any = None
    with suppress(OSError, NotRegular, ValueError, RecursionError):
        document = json.loads(read_regular(folder / FILE))
    document = document if isinstance(document, dict) else {}
    environment = document.get("environment")
    environment = environment if isinstance(environment, dict) else {}
    name = environment.get("name")
    if (
        name is None
        or next(environments.find_environment_problems({"conda": name}), None) is not None
    ):
        return None
    runner, given = environment.get("runner"), document.get("commands")
    commands = given.items() if isinstance(given, dict) else ()
    return DescribedSoftware(
        name,
        runner if isinstance(runner, str) else None,
        {
            key: argv
            for key, argv in commands
            if isinstance(argv, list) and argv and all(isinstance(one, str) for one in argv)
        },
    )


def stages_without_software(state: Workflow) -> list[str]:
    """Return the ids of the unfinished stages that have no environment."""
    return [one.id for one in state.stages.values() if _needs_software(one)]


def _needs_software(stage: Stage) -> bool:
    return stage.status not in FINISHED and not stage.parameters.get("environment")
