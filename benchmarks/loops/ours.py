"""Run the loop with wfctl, using the plan of the crash tests and the same points."""

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
    """Run the loop with `wfctl run`, using the plan of the crash tests."""

    def prepare(self, workflow: Workflow) -> None:
        """Create the workflow, whose command is the same program as for other contenders."""
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
        """Start `wfctl run` in the workflow."""
        return workflow.start("run")

    def is_done(self, workflow: Workflow) -> bool:
        """Recover the workflow with `wfctl rehydrate`, and return whether it is completed."""
        workflow.succeed("rehydrate")
        told = json.loads(workflow.succeed("status", "-o", "json"))["data"]
        return bool(told["status"] == "completed")

    def told(self, workflow: Workflow) -> str:
        """Return the started rounds as text, after checking that each round started once."""
        begun = [one["data"]["round"] for one in workflow.events("round.begun")]
        assert begun == [*range(2, ROUNDS + 1)], begun
        return f"rounds begun: {begun}"
