"""``mermaid``: the graph of the stages as a Mermaid flowchart, as GitHub and GitLab show it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage
from lifecycle.words.values import stage_number
from projections.drawing import svg
from projections.exports.plain import ExportSource

#: What Mermaid would take for its own syntax inside a quoted label, as its entities.
_ENTITIES = {ord(letter): f"#{ord(letter)};" for letter in '#;"<>&`\\{}[]|'}


def export(source: ExportSource) -> Iterator[str]:
    """Yield the flowchart of the state at the source's end, a line at a time."""
    state = source.state()
    yield "flowchart TD\n"
    for stage in state.stages.values():
        yield f'    {_node(stage.id)}["{_label(stage)}"]:::{stage.status.value}\n'
    for stage in state.stages.values():
        for needed in stage.depends_on:
            yield f"    {_node(needed)} --> {_node(stage.id)}\n"
    for status in Status:
        color = svg.light(status.value)
        yield f"    classDef {status.value} fill:#ffffff,stroke:{color},color:{color}\n"


def _node(stage: str) -> str:
    """Return the stage's name in Mermaid, which has words of its own, and no hyphens in names."""
    if stage_number(stage) is not None:
        return stage.replace("-", "_")
    plain = re.sub(r"[^A-Za-wyz0-9-]", lambda found: f"x{ord(found[0]):x}", stage)
    return f"s_{plain.replace('-', '_')}"


def _label(stage: Stage) -> str:
    return f"{_words(stage.id)} {_words(stage.name)}<br/>{stage.status.value}"


def _words(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(shown.split()).translate(_ENTITIES)
