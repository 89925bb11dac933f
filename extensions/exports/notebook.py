"""The export format ``notebook``: a Jupyter notebook with a cell for each table.

The format is nbformat 4.5 (https://nbformat.readthedocs.io/en/latest/format_description.html). The
notebook contains no numbers: its cells use `wfctl_eventstore` to read the current workflow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from extensions.exports.formats import ExportSource
from lifecycle.state.workflow import Workflow
from lifecycle.words.metrics import parse_valid_metrics


def export_notebook(source: ExportSource) -> Iterator[str]:
    """Yield the Jupyter notebook as JSON."""
    cells = [
        _build_cell(f"cell-{number}", *one)
        for number, one in enumerate(_iterate_cells(source.state()), 1)
    ]
    document = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    yield json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _iterate_cells(state: Workflow) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each notebook cell."""
    about = f"{state.purpose}\n\n" if state.purpose else ""
    needs = "Run it in the folder of the workflow, where wfctl and pandas are installed."
    yield "markdown", f"# {state.id}\n\n{about}{needs} It writes nothing there."
    yield "code", "import wfctl_eventstore\n\nstudy = wfctl_eventstore.open()"
    yield "code", "study.status(frame=True)"
    if any(parse_valid_metrics(stage.parameters) for stage in state.stages.values()):
        yield "code", "study.metrics(frame=True)"
    for stage in (one for one in state.stages.values() if one.work.tables):
        yield "code", f"study.tasks({stage.id!r}, frame=True)"


def _build_cell(id_: str, kind: str, text: str) -> dict[str, Any]:
    run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = text.splitlines(keepends=True)
    return {"id": id_, "cell_type": kind, "metadata": {}, "source": lines, **run}
