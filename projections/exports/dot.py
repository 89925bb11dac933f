"""``dot``: the graph of the stages in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from lifecycle.state.workflow import Stage
from projections.drawing import palette
from projections.exports.source import Source


def export(source: Source) -> Iterator[str]:
    """Yield the digraph of the state at the source's end, a line at a time."""
    state = source.state()
    yield f"digraph {_quoted(state.id)} {{\n"
    yield '    node [shape=box, style="rounded,filled", fillcolor="#ffffff"]\n'
    for stage in state.stages.values():
        yield f"    {_quoted(stage.id)} {_attributes(stage)}\n"
    for stage in state.stages.values():
        for needed in stage.depends_on:
            yield f"    {_quoted(needed)} -> {_quoted(stage.id)}\n"
    yield "}\n"


def _attributes(stage: Stage) -> str:
    color = _quoted(palette.light(stage.status.value))
    label = _quoted(f"{stage.name}\n{stage.id} · {stage.status.value}")
    return f"[label={label}, color={color}, fontcolor={color}, class={_quoted(stage.status.value)}]"


def _quoted(value: str) -> str:
    """Return a quoted ID of the DOT language: a quote, a backslash and a line break escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    return '"' + escaped.replace("\r\n", "\n").replace("\n", "\\n") + '"'
