"""``mermaid``: the graph of the stages as a Mermaid flowchart, as GitHub and GitLab show it."""

from __future__ import annotations

from collections.abc import Iterator

from lifecycle.status import Status
from lifecycle.workflow import Stage
from projections.exports import palette
from projections.exports.source import Source

#: What Mermaid would take for its own syntax inside a quoted label, as its entities.
_ENTITIES = {ord(letter): f"#{ord(letter)};" for letter in '#;"<>&`\\{}[]|'}


def export(source: Source) -> Iterator[str]:
    """Yield the flowchart of the state at the source's end, a line at a time."""
    state = source.state()
    yield "flowchart TD\n"
    for stage in state.stages.values():
        yield f'    {_node(stage.id)}["{_label(stage)}"]:::{stage.status.value}\n'
    for stage in state.stages.values():
        for needed in stage.depends_on:
            yield f"    {_node(needed)} --> {_node(stage.id)}\n"
    for status in Status:
        color = palette.light(status.value)
        yield f"    classDef {status.value} fill:#ffffff,stroke:{color},color:{color}\n"


def _node(stage: str) -> str:
    return stage.replace("-", "_")


def _label(stage: Stage) -> str:
    name = " ".join(stage.name.split()).translate(_ENTITIES)
    return f"{stage.id} {name}<br/>{stage.status.value}"
