"""Measure the delay of `wfctl wait`: ``python -m benchmarks.waiting [--rounds N]``.

A real shell job ends on request while `wfctl wait` runs. Both delays start when the job records its
end. The first lasts until DPDispatcher has copied the files back and the monitor has recorded this.
The second lasts until the command returns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_HERE = Path(__file__).parents[1]
_COMMAND = "while [ ! -e ../../../../../../go ]; do sleep 0.02; done; echo 1 > out.txt"
_PLAN = {
    "workflow_id": "w-wait",
    "stages": [
        {
            "id": "stage-1",
            "name": "wait",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": _COMMAND},
        }
    ],
}


def measure(root: Path) -> tuple[float, float]:
    """Launch a job, let it end, and return the delays of its monitor and of `wfctl wait`.

    Both are in seconds after the time that the job recorded as its end.
    """
    (root / "plan.json").write_text(json.dumps(_PLAN))
    _wfctl(root, "init", "plan.json", "--consent", "trust").communicate()
    _wfctl(root, "dispatch", "stage-1").communicate()
    waiting = _wfctl(root, "wait", "stage-1")
    time.sleep(3)
    (root / "go").touch()
    waiting.communicate()
    returned = time.time()
    if waiting.returncode != 0:
        raise RuntimeError(f"wfctl wait exited {waiting.returncode}")
    [job] = root.glob("stage-1/.attempts/att-*/job-*.exit")
    ended = job.stat().st_mtime
    return (root / "stage-1/DPDISP_DONE").stat().st_mtime - ended, returned - ended


def _wfctl(root: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(_HERE)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """Print the median and the maximum of both delays."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting")
    parser.add_argument("--rounds", type=int, default=7)
    found = []
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(Path(folder)))
    for name, figures in zip(("collected", "returned"), zip(*found, strict=True), strict=True):
        print(
            f"{name} {statistics.median(figures):.2f} s after the end, {max(figures):.2f} s at most"
        )


if __name__ == "__main__":
    main()
