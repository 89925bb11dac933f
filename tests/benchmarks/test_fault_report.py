"""The tables of the fault games, rendered from planted cells, and the page that contains them."""

from __future__ import annotations

import re

from benchmarks.faults.play import Cell
from benchmarks.faults.report import (
    RESULTS,
    list_failures,
    render_letters,
    render_page_tables,
    render_seconds,
)
from benchmarks.faults.table import read_cells

ROOT = RESULTS.parents[2]
WORKS = ("chain", "sweep", "rounds")


def make_cells(contender: str, *verdicts: str, seconds: float = 1.0) -> list[Cell]:
    """Return a cell for each work of the fault `driver-killed`."""
    return [
        Cell(contender, "1.0", "driver-killed", work, verdict, "a reason", seconds=seconds)
        for work, verdict in zip(WORKS, verdicts, strict=True)
    ]


def test_equal_verdicts_of_all_works_share_a_letter() -> None:
    """Different verdicts are listed in the order chain, sweep, rounds."""
    equal = make_cells("doit", "right", "right", "right")
    different = make_cells("pytask", "right", "twice", "wrong")
    assert "| R | R 2 W |" in render_letters([*equal, *different])


def test_faults_of_slurm_have_their_own_table() -> None:
    """Only some contenders use Slurm, and the number of their bad games is counted separately."""
    local = make_cells("wfctl", "right", "twice", "right")
    slurm = Cell("wfctl", "1.0", "job-cancelled", "chain", "right", "")
    first, second, _ = render_page_tables([*local, slurm]).split("\n\n")
    assert "`driver-killed` | R 2 R |\n| games with 2 or W |  | 1 of 3 |" in first
    assert "`job-cancelled` | R |\n| games with 2 or W |  | 0 of 1 |" in second


def test_recovery_time_is_shown_only_for_right_results() -> None:
    """A fast wrong result is not compared with a slow right one."""
    ours = make_cells("wfctl", "right", "told", "right", seconds=9.0)
    fast = make_cells("doit", "wrong", "right", "right", seconds=1.0)
    slow = make_cells("pytask", "right", "right", "right", seconds=3.0)
    assert render_seconds([*ours, *fast]).endswith("| 9.0 | none is right |  |\n")
    assert render_seconds([*ours, *fast, *slow]).endswith("| 9.0 | 3.0 | 3.0 |\n")
    assert render_seconds(make_cells("wfctl", "told", "right", "right")).count("| told |") == 1


def test_each_failure_has_its_command() -> None:
    """The command names the module of the contender, not its title."""
    text = "\n".join(list_failures(make_cells("GNU make", "right", "twice", "right")))
    assert "GNU make: twice: a reason" in text
    assert text.endswith("--contender gnu_make --fault driver-killed --work sweep")


def test_the_page_contains_the_tables_of_the_stored_cells() -> None:
    """The page docs/trust/faults.md shows what was played, and nothing else."""
    page = (ROOT / "docs/trust/faults.md").read_text()
    for table in render_page_tables(read_cells(RESULTS)).split("\n\n"):
        assert table.strip() in page


def test_stored_cells_contain_no_path_of_the_machine() -> None:
    """A reader of another machine cannot use such a path."""
    assert not re.findall(r"/(?:tmp|work|home|root)/[^ ]*", RESULTS.read_text())
