"""Random jobs that write, overwrite, link and delete files, and list each change in a manifest.

The manifest is outside the root. The job adds a line after each change of a file.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

#: The script of a job. It carries out the steps in steps.json, and writes the manifest to the path
#: in its first argument.
SCRIPT = """
import hashlib, json, os, signal, sys
manifest, attempt = sys.argv[1], os.environ["WFCTL_ATTEMPT"]
with open("steps.json") as file:
    steps = json.load(file)
def tell(path, digest):
    with open(manifest, "a") as file:
        file.write(json.dumps([attempt, path, digest]) + "\\n")
for step in steps:
    kind, path = step["kind"], step.get("path", "")
    if kind == "write":
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        content = (attempt + step["text"]).encode() * step["times"]
        with open(path, "wb") as file:
            file.write(content)
        tell(path, hashlib.sha256(content).hexdigest())
    elif kind == "link":
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        os.symlink(step["to"], path)
        tell(path, "-> " + step["to"])
    elif kind == "delete":
        os.remove(path)
        tell(path, None)
    elif kind == "say":
        print(step["text"], file=sys.stderr if step["err"] else sys.stdout, flush=True)
    elif kind == "die" and not os.path.exists(manifest + ".died"):
        open(manifest + ".died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "exit":
        sys.exit(step["code"])
"""
_NAMES = (
    "a.txt",
    "re start",
    "sub d/x y.bin",
    "sub d/deep er/z",
    "-n",
    "b[1].dat",
    "ümlaut",
    ".hidden",
    "quote's",
    "star*",
    "$HOME",
    "../out side.txt",
    "../other/x",
)
#: File names that the random stage may declare as outputs.
_OUTPUTS = ("a.txt", "re start", "sub d/x y.bin", "ümlaut")


@dataclass(frozen=True)
class Job:
    """A random job: its steps, and the outputs and parameters of its stage."""

    steps: list[dict[str, Any]]
    outputs: list[str]
    parameters: dict[str, Any] = field(default_factory=dict)

    def stage(self, manifest: Path) -> dict[str, Any]:
        """Return the plan entry of the stage that runs the job."""
        command = f"python3 job.py {manifest}"
        parameters = {"command": command, "expected_seconds": 1, **self.parameters}
        outputs = [f"stage-1/{name}" for name in self.outputs]
        return {"id": "stage-1", "name": "Write", "outputs": outputs, "parameters": parameters}

    def put(self, folder: Path) -> None:
        """Write the script and the steps of the job into the folder of its stage."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.py").write_text(SCRIPT)
        (folder / "steps.json").write_text(json.dumps(self.steps))


def job_of(seed: int) -> Job:
    """Return a random job. The same seed gives the same job."""
    chance = Random(seed)
    steps: list[dict[str, Any]] = []
    there: list[str] = []
    for number in range(chance.randint(1, 9)):
        path = chance.choice(_NAMES)
        if path in there and chance.random() < 0.4:
            there.remove(path)
            steps.append({"kind": "delete", "path": path})
        elif path not in there and chance.random() < 0.15:
            steps.append({"kind": "link", "path": path, "to": chance.choice(("a.txt", "no where"))})
            there.append(path)
        elif not any(one.get("path") == path and one["kind"] == "link" for one in steps):
            times = chance.choice((1, 1, 50, 50_000))
            steps.append({"kind": "write", "path": path, "text": f" {number}\n", "times": times})
            there += [path] if path not in there else []
        if chance.random() < 0.2:
            steps.append({"kind": "say", "text": f"step {number}", "err": chance.random() < 0.5})
    if chance.random() < 0.25:
        steps.append({"kind": "die"})
    if chance.random() < 0.4:
        steps.append({"kind": "exit", "code": 3})
    outputs = [name for name in _OUTPUTS if chance.random() < (0.7 if name in there else 0.05)]
    limit = {"bring_back_limit": "1 KB"} if chance.random() < 0.25 else {}
    return Job(steps, outputs, limit)


def written(manifest: Path) -> dict[str, dict[str, str]]:
    """Return the files that each attempt wrote and did not delete, with their digests.

    A symbolic link has ``-> target`` in place of a digest.
    """
    found: dict[str, dict[str, str]] = {}
    for line in manifest.read_text().splitlines() if manifest.exists() else ():
        attempt, path, digest = json.loads(line)
        files = found.setdefault(attempt, {})
        if digest is None:
            files.pop(path, None)
        else:
            files[path] = digest
    return found


def lying(root: Path) -> dict[str, set[str]]:
    """Return the paths of all files and links below a folder, by digest.

    A symbolic link has ``-> target`` in place of a digest.
    """
    found: dict[str, set[str]] = {}
    for place, folders, names in os.walk(root):
        for name in [*names, *folders]:
            path = Path(place) / name
            if path.is_symlink():
                digest = f"-> {path.readlink()}"
            elif path.is_file():
                digest = sha256(path.read_bytes()).hexdigest()
            else:
                continue
            found.setdefault(digest, set()).add(str(path.relative_to(root)))
    return found
