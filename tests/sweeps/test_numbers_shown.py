"""Commands show the numbers of tasks with errors, units and sensible digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.support import served
from tests.sweeps.support import begun, sweep

_MEASURED = 'echo "{\\"e\\": $WFCTL_PARAM_T.123456789, \\"error\\": 0.0123456}" > e.json'
_METRICS = {"energy": {"at": "e.json#/e", "error": "#/error", "unit": "eV"}}


@pytest.mark.slow
def test_people_see_rounded_numbers_and_programs_see_exact_ones(tmp_path: Path) -> None:
    """Tables and pages round a number to its error; JSON and CSV keep all digits."""
    stage = sweep(tmp_path / "trace", {"grid": {"T": [1, 2]}}, metrics=_METRICS)
    stage["parameters"]["command"] = _MEASURED
    place = begun(tmp_path, stage)
    assert place.call("run").code == 0, place.log()
    for command in (["tasks", "stage-1"], ["metrics", "stage-1"]):
        shown = place.call(*command).out
        assert "energy in eV" in shown
        assert "2.123 ± 0.012" in shown
        assert "123456789" not in shown
        assert "2.123456789" in place.call(*command, "-o", "json").out
        header, *rows = place.call(*command, "-o", "csv").out.splitlines()
        assert header.endswith("energy,energy_error")
        assert rows[1].endswith("2.123456789,0.0123456")
    with served(tmp_path, "--root", str(place.path)) as pages:
        page = pages.get("/w/sweep-2026-11-23/stage/stage-1/task?key=T%3D2").text
    assert "2.123 ± 0.012 eV" in page
    assert "123456789" not in page.partition('<dl class="list">')[2].partition("</dl>")[0]
