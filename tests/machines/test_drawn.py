"""Machines for people: the diagram, the HTML report and the live view."""

from __future__ import annotations

import pytest

from extensions.machines.rules.errors import StateNotFound
from tests.cli.live_view import live_view
from tests.cli.support import wfctl
from tests.machines.place import MachinePlace


def drawn(place: MachinePlace, *more: str) -> str:
    """Export the machine as a Mermaid diagram, and return the text of the diagram."""
    target = place.path / "drawn.mmd"
    answer = place.wfctl("export", "mermaid", str(target), "--machine", "login", *more)
    assert answer.code == 0, answer
    assert answer.data["bytes"] == target.stat().st_size
    return target.read_text("utf-8")


def test_diagram_marks_the_current_phase(place: MachinePlace) -> None:
    """With `--at VERSION`, the diagram marks the phase of this earlier version instead."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("transition", "login", "plan")
    assert "    ideate --> plan\n" in drawn(place)
    assert drawn(place).endswith("    class plan present\n")
    assert drawn(place, "--at", "1").endswith("    class ideate present\n")


def test_diagram_shows_changed_limits(place: MachinePlace) -> None:
    """After a person changes the limit of a loop, the diagram shows the new limit."""
    place.init("login")
    assert "review --> delegate: fix-cycle (at most 3)" in drawn(place)
    place.done("limit", "login", "fix-cycle", "7", "--reason", "a long one")
    assert "review --> delegate: fix-cycle (at most 7)" in drawn(place)


def test_diagram_shows_a_cancelled_machine(place: MachinePlace) -> None:
    """The diagram has an arrow from the last phase to cancelled."""
    place.init("login")
    place.done("cancel", "login")
    assert "    ideate --> cancelled\n" in drawn(place)
    assert drawn(place).endswith("    class cancelled present\n")


def test_diagram_on_stdout_equals_the_file(place: MachinePlace) -> None:
    """Without a file name, `export mermaid` prints the diagram instead of writing a file."""
    place.init("login")
    line = ("--root", str(place.path), "export", "mermaid", "--machine", "login")
    assert wfctl(*line).out == drawn(place)


def test_invalid_machine_export_is_refused(place: MachinePlace) -> None:
    """wfctl refuses unsuitable formats and options, and a machine that does not exist."""
    place.init("login")
    of_login = ("--machine", "login")
    assert place.wfctl("export", "timeline", "x", *of_login).code == 2
    assert place.wfctl("export", "mermaid", "x", "--license", "MIT", *of_login).code == 2
    assert place.wfctl("export", "mermaid", "x", "--machine", "nobody").code == 3


def test_report_has_phases_tasks_decisions_and_log(place: MachinePlace) -> None:
    """`export report --machine` writes one HTML page, in which users' text is escaped."""
    place.init("login")
    place.done("task", "login", "T-1", "--title", "<b>The form</b>")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("transition", "login", "plan", "--reason", "it is designed")
    place.done("limit", "login", "fix-cycle", "7", "--reason", "a long one")
    target = place.path / "login.html"
    answer = place.wfctl("export", "report", str(target), "--machine", "login")
    assert answer.code == 0, answer
    page = " ".join(target.read_text("utf-8").split())
    assert "<td>ideate</td>" in page
    assert "<td>it is designed</td>" in page
    assert "&lt;b&gt;The form&lt;/b&gt;" in page
    assert "<dt>fix-cycle</dt><dd>0 of 7</dd>" in page
    assert "policy trust: anyone can approve" in page
    assert "the consent policy is trust" in page
    assert "login begins as" in page


def test_live_view_shows_a_machine(place: MachinePlace) -> None:
    """The live view has the state of the machine, the next actions and the end of the log."""
    place.init("login")
    place.done("checkpoint", "login", "--summary", "half way")
    shown = live_view(place.path, machine="login")
    assert "login  feature, in ideate" in shown
    assert "next: wfctl machine" in shown
    assert "half way" in shown
    with pytest.raises(StateNotFound):
        live_view(place.path, machine="logout")
