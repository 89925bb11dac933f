"""A project root with machines, and methods that call the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.support import HERE, Answer, call


class MachinePlace:
    """A project root that contains machines, with methods that run wfctl commands in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def call(self, *arguments: str) -> Answer:
        """Run ``wfctl machine …`` in this root as a person, and return its JSON answer."""
        return self.wfctl("machine", *arguments)

    def wfctl(self, *arguments: str) -> Answer:
        """Run any wfctl command in this root as a person, and return its JSON answer."""
        return call("--root", str(self.path), "-o", "json", "--actor", "user:ada", *arguments)

    def done(self, *arguments: str) -> Any:
        """Run a `wfctl machine` command that must succeed, and return its data."""
        answer = self.call(*arguments)
        assert answer.code == 0, answer
        return answer.data

    def refused(self, code: str, exit_code: int, *arguments: str) -> dict[str, Any]:
        """Run a `wfctl machine` command that must fail with the given error code.

        Return the data of the error.
        """
        answer = self.call(*arguments)
        assert (answer.code, answer.error["code"]) == (exit_code, code), answer
        assert answer.error["message"]
        found: dict[str, Any] = answer.error["data"]
        return found

    def at_once(
        self, lines: Sequence[tuple[str, ...]], actor: str = "agent:worker-{}"
    ) -> list[tuple[int, dict[str, Any]]]:
        """Run several ``wfctl machine …`` commands in parallel; return exit codes and answers.

        A pair of braces in ``actor`` stands for the number of the command.
        """
        begin = [
            sys.executable,
            "-c",
            "import sys; from cli.main import run; sys.exit(run(sys.argv[1:]))",
        ]
        whole = [*begin, "--root", str(self.path), "-o", "json", "--actor"]
        running = [
            subprocess.Popen(
                [*whole, actor.format(number), "machine", *line], cwd=HERE, stdout=subprocess.PIPE
            )
            for number, line in enumerate(lines)
        ]
        told = [json.loads(one.communicate()[0]) for one in running]
        return [(one.returncode, answer) for one, answer in zip(running, told, strict=True)]

    def init(self, machine: str, type_: str = "feature", *more: str) -> Any:
        """Create a machine of the given type under the consent policy `trust`."""
        return self.done("init", machine, "--type", type_, "--consent", "trust", *more)

    def phase(self, machine: str) -> str:
        """Return the current phase of a machine."""
        found: str = self.done("get", machine, "--query", "phase")
        return found

    def json(self, path: str) -> Any:
        """Return the JSON content of a file of the root."""
        return json.loads((self.path / path).read_text("utf-8"))

    def write(self, path: str, content: Any) -> None:
        """Write a file into the root; write any value other than a string as JSON."""
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        target.write_text(text, "utf-8")

    def events(self, machine: str) -> list[dict[str, Any]]:
        """Return the recorded events of a machine."""
        answer = call("--root", str(self.path), "-o", "json", "events", "--machine", machine)
        assert answer.code == 0, answer
        found: list[dict[str, Any]] = answer.data
        return found

    def types(self, machine: str) -> list[str]:
        """Return the types of a machine's events."""
        return [event["type"] for event in self.events(machine)]

    def head(self, machine: str) -> int:
        """Return the version of the newest event of a machine."""
        found: int = self.call("get", machine).envelope["_meta"]["version"]
        return found
