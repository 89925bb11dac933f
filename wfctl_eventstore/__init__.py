"""Read workflows of wfctl from Python, for example in a notebook.

``open(root)`` returns a `WorkflowReader`. Its methods run the program ``wfctl`` and return its JSON
output as dictionaries and lists, or as data frames of pandas. They write nothing and take no lock,
and each call reads the current log. Only the standard library is imported, so that wfctl may be
installed in another Python environment than the notebook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["WfctlError", "WorkflowReader", "open"]


class WfctlError(Exception):
    """A wfctl command failed.

    ``code`` is the stable identifier of the error, ``data`` has its values, and ``exit_code`` is
    the exit code of the program. The message states the cause first, and then the remedy.
    """

    def __init__(self, code: str, message: str, data: Mapping[str, Any], exit_code: int) -> None:
        super().__init__(message)
        self.code = code
        self.data = dict(data)
        self.exit_code = exit_code


class WorkflowReader:
    """Read access to a workflow in a folder, or in the database that its folder names.

    ``program`` is the command line that starts wfctl, such as ``["/opt/wfctl/bin/wfctl"]``.
    """

    def __init__(self, root: str | os.PathLike[str], program: Sequence[str]) -> None:
        self.root = os.path.abspath(os.path.expanduser(root))  # noqa: PTH100, PTH111
        self._program = list(program)

    def status(self, *, at: str | None = None, frame: bool = False) -> Any:
        """Return the output of ``wfctl status``. ``at`` selects an earlier version or time.

        With ``frame``, return a data frame with one row for each stage.
        """
        data = self._read("status", *_repeat("--at", at))
        return _make_frame(data["stages"]) if frame else data

    def results(self, *, frame: bool = False) -> Any:
        """Return the output of ``wfctl results``: the results that the plan names.

        Each result is a dictionary or, with ``frame``, a row of a data frame.
        """
        rows = self._read("results")["results"]
        return _make_frame(rows) if frame else rows

    def metrics(
        self, stage: str | None = None, *, where: str | Iterable[str] = (), frame: bool = False
    ) -> Any:
        """Return the output of ``wfctl metrics``: one row for each metric value.

        A sweep has one row for each task. ``where`` gives conditions on parameters, such as
        ``T>2``.
        """
        stages = () if stage is None else (stage,)
        rows = self._read("metrics", *stages, *_repeat("--where", where))["metrics"]
        return _make_frame(rows) if frame else rows

    def tasks(self, stage: str, *, where: str | Iterable[str] = (), frame: bool = False) -> Any:
        """Return all tasks of a sweep, like ``wfctl tasks STAGE -n 0``.

        With ``frame``, return a data frame with one column for each parameter and metric of a task.
        """
        rows = self._read("tasks", stage, "-n", "0", *_repeat("--where", where))["tasks"]
        return _make_frame(map(_flatten_task, rows)) if frame else rows

    def events(
        self,
        *,
        types: str | Iterable[str] = (),
        stages: str | Iterable[str] = (),
        frame: bool = False,
    ) -> Any:
        """Return the events of the log, like ``wfctl events``.

        ``types`` and ``stages`` select events. A type may end in ``*`` to match several types.
        """
        rows = self._read("events", *_repeat("--type", types), *_repeat("--stage", stages))
        return _make_frame(rows) if frame else rows

    def _read(self, *words: str) -> Any:
        """Run a wfctl command and return its data. Raises `WfctlError` if the command fails."""
        import json  # the program imports this package too, and does not need these modules
        import subprocess

        line = [*self._program, "--root", self.root, "-o", "json", "--log-level", "error", *words]
        done = subprocess.run(line, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            text = done.stderr.decode(errors="replace").strip() or "no output"
            raise WfctlError("no_answer", text, {"command": line}, done.returncode) from None
        if not answer["success"]:
            error = answer["error"]
            data = error.get("data", {})
            raise WfctlError(error["code"], error["message"], data, done.returncode)
        return answer["data"]


def open(  # noqa: A001 - read as `wfctl_eventstore.open(root)`
    root: str | os.PathLike[str] = ".", *, program: str | Sequence[str] | None = None
) -> WorkflowReader:
    """Open the workflow in a folder, or in its nearest parent folder with a workflow, for reading.

    ``program`` is the command line of wfctl. By default, the wfctl of this installation is used.
    Raises `WfctlError` if no workflow exists there, and `OSError` if the program cannot be started.
    """
    workflow = WorkflowReader(root, _own_program() if program is None else _make_list(program))
    workflow.status()
    return workflow


def _own_program() -> list[str]:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    return [sys.executable, "-P", os.path.join(here, "__main__.py")]  # noqa: PTH118


def _make_list(words: str | Iterable[str]) -> list[str]:
    return [words] if isinstance(words, str) else [*words]


def _repeat(option: str, values: str | Iterable[str] | None) -> list[str]:
    return [f"{option}={value}" for value in _make_list(() if values is None else values)]


def _flatten_task(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task, with each parameter and metric as a key at the top level."""
    merged = {**row, **row.get("values", {}), **row.get("metrics", {})}
    return {key: one for key, one in merged.items() if key not in ("values", "metrics", "outputs")}


def _make_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return the rows as a data frame. Raises `ModuleNotFoundError` if pandas is not installed."""
    from pandas import DataFrame  # slow to import, and only a frame needs it

    return DataFrame([*rows])
