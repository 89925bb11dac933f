"""The loop as a plan of wfctl: that of the crash tests, with the points of this benchmark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.loops.contenders import Contender
from benchmarks.loops.point import ROUNDS
from tests.crash.support import Workflow
from tests.crash.test_rounds import plan


class Ours(Contender):
    """`wfctl run`, with the plan of the crash tests."""

    def prepare(self, workflow: Workflow) -> None:
        """Make the workflow, with the same program of a point."""
        shutil.copy(Path(__file__).parent / "point.py", workflow.root / "propose.py")
        made = plan(workflow.root)
        made["stages"][0]["inputs"] = ["propose.py"]
        program = f'{sys.executable} "$WFCTL_ROOT/propose.py"'
        run, following = (stage["parameters"] for stage in made["stages"])
        root = f"LOOP_ROOT={workflow.root}"
        run["command"] = f"{root} {program} evaluate $WFCTL_PARAM_x f.json"
        table = '"$WFCTL_ROOT/run/tasks.csv"'
        following["command"] = f"{root} {program} choose best.json next.csv {table}"
        (workflow.root / "plan.json").write_text(json.dumps(made))
        workflow.succeed("init", "plan.json", "--consent", "trust")

    def start(self, workflow: Workflow) -> subprocess.Popen[str]:
        """Run the workflow."""
        return workflow.start("run")

    def is_done(self, workflow: Workflow) -> bool:
        """Whether the workflow is completed."""
        workflow.succeed("rehydrate")
        told = json.loads(workflow.succeed("status", "-o", "json"))["data"]
        return bool(told["status"] == "completed")

    def told(self, workflow: Workflow) -> str:
        """Return which rounds were begun."""
        begun = [one["data"]["round"] for one in workflow.events("round.begun")]
        assert begun == [*range(2, ROUNDS + 1)], begun
        return f"rounds begun: {begun}"
