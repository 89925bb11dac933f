"""An agent without memory, for tests that kill it: ``python -m tests.face.worker``.

The agent works until the workflow and the machine of a folder are finished, and exits with 0. It
learns about earlier work only from the brief.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.face.support import Agent, Told, agent

MACHINE, TASKS = "m", ("task-1", "task-2", "task-3")
PLAN: dict[str, Any] = {
    "workflow_id": "walks",
    "purpose": "Walks, counted.",
    "stages": [
        {
            "id": f"stage-{number}",
            "name": f"Walk {number}",
            "depends_on": [f"stage-{number - 1}"] if number > 1 else [],
            "outputs": [f"stage-{number}/out.txt"],
            "parameters": {
                "command": f"echo stage-{number} >> $WFCTL_PARAM_ledger; sleep 1; echo hi >out.txt",
                "verify": f"grep -q hi stage-{number}/out.txt",
            },
        }
        for number in (1, 2)
    ],
}


class Worker:
    """An agent that takes one step after another.

    A file in the folder records that the work of a task is complete.
    """

    def __init__(self, one: Agent, folder: Path, calls: int) -> None:
        self._one = one
        self._folder = folder
        self._left = calls

    async def call(self, tool: str, **arguments: Any) -> Told:
        """Call a tool, or exit once the allowed number of calls is used up."""
        if self._left == 0:
            sys.exit(3)
        self._left -= 1
        return await self._one.call(tool, **arguments)

    async def write(self, tool: str, **arguments: Any) -> Told:
        """Call a writing tool with a new request id."""
        return await self.call(tool, **arguments, request_id=uuid4().hex)

    async def work(self) -> None:
        """Work until everything is done."""
        await self.call("recover")
        while True:
            known = await self.call("brief")
            assert len(known.text) <= 2000 * 4
            asked = await self._ask()
            done = await self._stage(known.data)
            ready = await self._task((await self.call("brief", machine=MACHINE)).data)
            if asked and done and ready:
                return

    async def _ask(self) -> bool:
        """Ask the person one question, unless an earlier agent asked it."""
        asked = (await self.call("history", action="amendments")).data
        if asked:
            return True
        wanted = {"stages": ["stage-2"], "set": {"parameters.note": "longer"}}
        return not (await self.write("propose", **wanted, reason="longer walks?")).is_error

    async def _stage(self, known: dict[str, Any]) -> bool:
        counts = known["counts"]
        if counts.get("completed") == len(PLAN["stages"]):
            return True
        for stage in known.get("stages", []):
            await self._step(stage["id"], stage["status"])
        return False

    async def _step(self, stage: str, status: str) -> None:
        if status in ("ready", "preparing"):
            await self.write("stage", action="dispatch", stage=stage)
        elif status == "running":
            await self.call("stage", action="wait", stage=stage, seconds=5)
        elif status == "post_processing":
            await self.write("stage", action="complete", stage=stage, evidence="it says hi")

    async def _task(self, known: dict[str, Any]) -> bool:
        tasks = known.get("taskProgress", {}).get("open", [])
        for task in tasks:
            if task["status"] == "pending":
                begun = await self.write(
                    "task", machine=MACHINE, task=task["id"], status="in_progress"
                )
                if begun.is_error:
                    continue
            work = self._folder / f"{task['id']}.done"
            if not work.exists():
                work.touch()
            await self.write("task", machine=MACHINE, task=task["id"], status="complete")
        return not tasks


async def main(folder: Path, calls: int) -> None:
    """Connect an agent and let it work."""
    async with agent(folder, "--actor", "agent:worker") as one:
        await Worker(one, folder, calls).work()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
