"""The report shows the numbers of each completed sweep as plots and as a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.exports.support import text_of
from tests.sweeps.support import begun, sweep

#: Command of a task that writes a number with its error.
_MEASURED = 'echo "{\\"e\\": $WFCTL_PARAM_T.123456, \\"error\\": 0.0123}" > e.json'
_METRICS = {"energy": {"at": "e.json#/e", "error": "#/error", "unit": "eV"}}


def _swept(folder: Path, map_: dict[str, Any], table: str = "tasks.csv") -> Place:
    """Return a workflow with one completed sweep, which declares the given task table."""
    stage = sweep(folder / "trace", map_, metrics=_METRICS)
    stage["parameters"]["command"] = _MEASURED
    stage["outputs"] = [f"stage-1/{table}"]
    place = begun(folder, stage)
    assert place.call("run").code == 0, place.log()
    return place


def _read_cells(place: Place) -> list[list[str]]:
    """Return the cells of the table of numbers in the report, without the header."""
    body = text_of(place, "report").partition('<table class="numbers">')[2].partition("</table>")[0]
    rows = body.split("<tr>")[2:]
    return [re.findall(r"<td>(.*?)</td>", row) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["tasks.csv", "tasks.json"])
def test_report_has_a_plot_and_a_table_of_each_sweep(tmp_path: Path, table: str) -> None:
    """The table has the numbers of each task with errors, and the unit in the header."""
    place = _swept(tmp_path, {"grid": {"T": [1, 2], "kind": ["ab"]}}, table)
    text = text_of(place, "report")
    section = text.partition('data-sweep="stage-1"')[2].partition("</section>")[0]
    assert section.count("<svg") == 1
    assert "<th>energy in eV</th>" in section
    assert _read_cells(place) == [
        ["1", "ab", "1.123 ± 0.012"],
        ["2", "ab", "2.123 ± 0.012"],
    ]
    assert text.index("Summary</h2>") < text.index("Numbers</h2>") < text.index("Method</h2>")


@pytest.mark.slow
def test_long_sweep_has_a_short_table(tmp_path: Path) -> None:
    """The report shows 40 rows, and names the file with all rows."""
    place = _swept(tmp_path, {"grid": {"T": [*range(45)]}})
    assert len(_read_cells(place)) == 40
    all_in = "The table shows the first 40 of 45 tasks. The file stage-1/tasks.csv contains all."
    assert all_in in text_of(place, "report")


@pytest.mark.slow
def test_changed_task_table_is_not_shown(tmp_path: Path) -> None:
    """If the table was changed after the run, the report says that it omits the numbers."""
    place = _swept(tmp_path, {"grid": {"T": [1, 2]}})
    table = place.path / "stage-1/tasks.csv"
    table.write_text(table.read_text().replace("1.123456", "9.123456"))
    assert _read_cells(place) == []
    assert "The report omits them" in text_of(place, "report")
