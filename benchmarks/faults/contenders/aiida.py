"""AiiDA: a work graph, with an SQLite profile, the daemon and the cache."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import write_steps
from benchmarks.faults.work import Step

NAME = "AiiDA"
PACKAGES = ("aiida-core==2.9.4", "aiida-shell==0.9.0", "aiida-workgraph==0.9.0")
DOCUMENTATION = (
    "https://aiida.readthedocs.io/projects/aiida-core/en/stable/installation/guide_quick.html",
    "https://aiida.readthedocs.io/projects/aiida-core/en/stable/topics/provenance/caching.html",
    "https://aiida-workgraph.readthedocs.io/en/latest/built-in/shelljob.html",
)
STATE = (".aiida",)
_PROGRAM = """\
import json, subprocess, sys, time
from pathlib import Path
from aiida import orm
from aiida_workgraph import WorkGraph, shelljob
STEPS = json.loads(Path("steps.json").read_text())
label = lambda path: path.split("/")[0].replace("-", "_").replace(".", "_")
def find(kind, text):
    nodes = orm.QueryBuilder().append(kind).order_by({kind: "id"}).all(flat=True)
    return [node for node in nodes if text in node.process_label]
def submit():
    for job in find(orm.CalcJobNode, "ShellJob"):
        job.base.caching.is_valid_cache = not job.is_failed
    sources = {path for step in STEPS for path in step["inputs"] if "/" not in path}
    files = {path: orm.SinglefileData(Path(path).resolve()) for path in sources}
    with WorkGraph("work") as graph:
        for step in STEPS:
            names = {label(path): path.split("/")[0] for path in step["inputs"]}
            nodes = {label(path): files[path] for path in step["inputs"]}
            line = {"command": "sh", "arguments": ["-c", step["command"]]}
            job = shelljob(**line, nodes=nodes, filenames=names, outputs=[step["name"]])
            files[step["outputs"][0]] = job[label(step["name"])]
    graph.submit()
    return graph.process
subprocess.run(["verdi", "daemon", "start"], check=True)
graphs = find(orm.WorkChainNode, "WorkGraph") if "continue" in sys.argv else []
graph = graphs[-1] if graphs and not graphs[-1].is_terminated else submit()
while not graph.is_terminated:
    time.sleep(1)
for step in STEPS if graph.is_finished_ok else []:
    job = next(job for job in graph.called if label(step["name"]) in job.outputs)
    job.outputs[label(step["name"])].base.repository.copy_tree(Path(step["name"]).resolve())
subprocess.run(["verdi", "daemon", "stop"])
sys.exit(not graph.is_finished_ok)
"""


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps and the program, and create a profile that uses the cache."""
    write_steps(steps, folder)
    (folder / "workflow.py").write_text(_PROGRAM)
    verdi, variables = str(Path(python).with_name("verdi")), os.environ | environment(folder)
    for line in ("presto --use-zeromq", "config set caching.default_enabled True"):
        subprocess.run([verdi, *line.split()], env=variables, check=True, capture_output=True)


def environment(folder: Path) -> dict[str, str]:
    """Keep the profile of AiiDA in the folder."""
    return {"AIIDA_PATH": str(folder)}


def command(folder: Path, python: str) -> list[str]:
    """Submit the graph to the daemon, and wait for its end."""
    return [str(Path(python).with_name("verdi")), "run", "workflow.py"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Repair stuck processes; continue the graph, or submit it again if it has failed."""
    repair = [f"verdi {words}".split() for words in ("daemon stop", "process repair --force")]
    return [*repair, [*command(folder, python), "continue"]]
