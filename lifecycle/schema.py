"""From names and dictionaries to payloads, and what versions of them there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from lifecycle import upcasters
from lifecycle.errors import InvalidPayload, UnknownEventType
from lifecycle.machines.payload import OWN as OF_MACHINES
from lifecycle.misfit import problem
from lifecycle.payload import PAYLOADS, Payload

#: Every event type of every stream: that of the staged workflow, and those of phase machines.
EVERY: Mapping[str, type[Payload]] = {**PAYLOADS, **OF_MACHINES}

#: Event type → the schema version that is written today.
VERSIONS: Mapping[str, int] = {name: model.schema_version for name, model in EVERY.items()}


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _with(**added: Any) -> Upcaster:
    """Return an upcaster for fields that came, each with what it was before it could be said."""
    return lambda data: {**added, **data}


#: (event type, schema version) → what lifts its data by one version.
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("session.started", 1): _with(driven=False, environment=None, report=None),
    ("stage.completed", 1): upcasters.checks_with_findings,
    ("stage.failed", 1): upcasters.failure_with_category,
    ("stage.launched", 1): _with(work_dir=None, job_host=None, job_boot_id=None, again=False),
}


def payload_of(type_: str, data: dict[str, Any]) -> Payload:
    """Return the payload of this type; raises `UnknownEventType` or `InvalidPayload`."""
    model = PAYLOADS.get(type_)
    if model is None:
        raise UnknownEventType(type_, sorted(PAYLOADS))
    try:
        return model.of(data)
    except ValidationError as error:
        raise InvalidPayload(type_, [problem(e) for e in error.errors()]) from error
