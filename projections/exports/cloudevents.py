"""``cloudevents``: the events as a CloudEvents 1.0 batch in JSON.

Official extensions: sequence, recordedtime, correlation, authcontext, partitioning. Of our own:
``session``, ``eventhash`` and ``prevhash``, which carry the chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from eventstore.event import RecordedEvent
from projections.exports.source import Source
from projections.words.identifiers import schema_uri, workflow_uri

#: Digits of a sequence, which is compared as text; as many as its 32-bit integer may have.
_DIGITS = 10
#: Our kinds of actor in the words of the authcontext extension; the others are no principals.
_AUTH = {"user": "user", "agent": "service_account"}


def export(source: Source) -> Iterator[str]:
    """Yield the batch, one event a line."""
    before = "["
    workflow = source.state().id
    for event, _ in source.steps():
        line = json.dumps(_event(event, workflow), ensure_ascii=False, separators=(",", ":"))
        yield f"{before}\n{line}"
        before = ","
    yield "\n]\n"


def _event(event: RecordedEvent, workflow: str) -> dict[str, Any]:
    actor = event.actor
    found = {
        "specversion": "1.0",
        "id": event.event_id,
        "source": workflow_uri(workflow),
        "type": f"wfctl.{event.type}",
        "subject": event.data.get("stage"),
        "time": event.occurred_at,
        "recordedtime": event.recorded_at,
        "datacontenttype": "application/json",
        "dataschema": schema_uri(event.type, event.schema_version),
        "sequence": f"{event.version:0{_DIGITS}}",
        "sequencetype": "Integer",
        "partitionkey": workflow,
        "correlationid": event.correlation_id,
        "causationid": event.causation_id,
        "authtype": _AUTH.get(actor.kind, "system"),
        "authid": f"{actor.kind}:{actor.name}",
        "session": event.session,
        "prevhash": event.prev_hash,
        "eventhash": event.hash,
        "data": event.data,
    }
    # An attribute without a value is left out: null is none that an attribute may have.
    return {key: value for key, value in found.items() if value is not None}
