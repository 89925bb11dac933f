"""``notebook``: a Jupyter notebook that opens the tables of the workflow, a cell a table.

Its form is nbformat 4.5 (https://nbformat.readthedocs.io/en/latest/format_description.html). It
holds no number: each cell reads the workflow as it is when somebody runs it, by `wfctl_read`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.metrics import metrics_of
from projections.exports.formats import ExportSource


def export(source: ExportSource) -> Iterator[str]:
    """Yield the notebook as JSON."""
    cells = [_cell(f"cell-{number}", *one) for number, one in enumerate(_told(source.state()), 1)]
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


def _told(state: Workflow) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each cell."""
    about = f"{state.purpose}\n\n" if state.purpose else ""
    needs = "Run it in the folder of the workflow, where wfctl and pandas are installed."
    yield "markdown", f"# {state.id}\n\n{about}{needs} It writes nothing there."
    yield "code", "import wfctl_read\n\nroot = wfctl_read.open_workflow()"
    yield "code", "wfctl_read.status(root, frame=True)"
    stages = [stage for stage in state.stages.values() if is_sweep(stage.parameters)]
    if any(metrics_of(stage.parameters) for stage in state.stages.values()):
        yield "code", "wfctl_read.metrics(root, frame=True)"
    for stage in stages:
        yield "code", f"wfctl_read.tasks(root, {stage.id!r}, frame=True)"


def _cell(id_: str, kind: str, text: str) -> dict[str, Any]:
    run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = text.splitlines(keepends=True)
    return {"id": id_, "cell_type": kind, "metadata": {}, "source": lines, **run}
