"""Where definitions come from: those that travel with wfctl, and files of the user's own."""

from __future__ import annotations

from importlib.resources import files

from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import InvalidDefinition, InvalidInput
from lifecycle.machines.soundness import load

#: The shipped definitions, in the order in which they are shown.
SHIPPED = ("feature", "debug", "refactor", "oneshot", "dotagent", "conductor")


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
