"""The files that mark the end of an attempt have the format of the published protocol."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("command", "code"), [("echo hi > a.txt", 0), ("exit 3", 1)])
def test_exit_code_file_contains_only_the_number(tmp_path: Path, command: str, code: int) -> None:
    """Scripts of the protocol compare the whole file, so wfctl adds nothing to the exit code."""
    place = made(tmp_path, stage(1, command, outputs=["stage-1/a.txt"]))
    place.call("run")
    reader = '[ "$(cat stage-1/DPDISP_EXIT_CODE)" = 0 ]'
    done = subprocess.run(["bash", "-c", reader], cwd=place.path, check=False)
    assert done.returncode == code
    assert (place.path / "stage-1/DPDISP_EXIT_CODE").read_text() == f"{code}\n"
    (record,) = place.path.glob("stage-1/.attempts/*/exit-code")
    assert record.read_text().startswith(f"{code}\nw/stage-1/att-0001-")
