"""URIs for what a workflow holds. They name, and lead nowhere: wfctl has no address."""

from __future__ import annotations

from urllib.parse import quote


def workflow_uri(workflow: str) -> str:
    """Return the URN of a workflow."""
    return f"urn:wfctl:workflow:{quoted(workflow)}"


def schema_uri(name: str, version: int) -> str:
    """Return the URN of a JSON Schema: an event type's at a schema version, or another's."""
    return f"urn:wfctl:schema:{quoted(name)}:{version}"


def quoted(value: str) -> str:
    """Return ``value`` with everything percent-encoded that a URI cannot hold as it is."""
    return quote(value, safe="-._~")
