"""Links in a stranger's stage folder that lead to files outside the root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adversary.test_submission import PLAN
from tests.amendments.support import make
from tests.reconciler.support import until

pytestmark = pytest.mark.slow

WAYS = [
    ("DPDISP_EXIT_CODE.tmp", True),
    ("DPDISP_DONE.tmp", False),
    ("DPDISP_DONE", True),
    (".monitor.lock", False),
    ("submit_and_wait.sh", True),
]


@pytest.mark.parametrize(("name", "there"), WAYS, ids=[name for name, _ in WAYS])
def test_dispatch_writes_through_no_link(name: str, there: bool, tmp_path: Path) -> None:
    """Files outside the root stay unchanged, whatever links the stage folder contains."""
    place = make(tmp_path / "root", "--consent", "trust", plan=PLAN)
    outside = tmp_path / "outside"
    if there:
        outside.write_text("mine\n")
    folder = place.path / "stage-1"
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(outside)
    answer = place.json("dispatch", "stage-1", "--sync")
    assert answer.code in (0, 1, 5, 6), answer
    assert outside.exists() == there
    assert not there or outside.read_text() == "mine\n"


#: A stage whose command waits until the links have been created.
WAITING: dict[str, Any] = {
    **PLAN["stages"][0],
    "parameters": {"command": "touch begun; until [ -e go ]; do sleep 0.05; done; {}"},
}
#: Files that the job script writes next to its lock.
WRITTEN = ("exit", "exit.tmp", "code", "killed")


@pytest.mark.parametrize(("command", "code"), [("echo 5 > out.txt", 0), ("exit 3", 5)])
def test_job_script_writes_through_no_link(command: str, code: int, tmp_path: Path) -> None:
    """The job script follows no link that another program creates under its file names."""
    text = str(WAITING["parameters"]["command"]).format(command)
    stage = {**WAITING, "parameters": {"command": text}}
    place = make(tmp_path / "root", "--consent", "trust", plan={**PLAN, "stages": [stage]})
    place.done("dispatch", "stage-1")
    until(lambda: list(place.path.glob("stage-1/.attempts/**/begun")))
    [begun] = place.path.glob("stage-1/.attempts/**/begun")
    [lock] = place.path.glob("stage-1/.attempts/**/job-*.lock")
    for name in WRITTEN:
        lock.with_suffix(f".{name}").symlink_to(tmp_path / "outside")
    begun.with_name("go").touch()
    until((place.path / "stage-1/DPDISP_DONE").exists)
    assert not (tmp_path / "outside").exists()
