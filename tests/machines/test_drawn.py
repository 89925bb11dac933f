"""A machine for people: ``export mermaid`` and ``report`` with ``--machine``, and ``watch``."""

from __future__ import annotations

from tests.cli.support import wfctl
from tests.machines.place import MachinePlace


def drawn(place: MachinePlace, *more: str) -> str:
    """Return the diagram of the machine."""
    target = place.path / "drawn.mmd"
    answer = place.wfctl("export", "mermaid", str(target), "--machine", "login", *more)
    assert answer.code == 0, answer
    assert answer.data["bytes"] == target.stat().st_size
    return target.read_text("utf-8")


def test_the_present_phase_is_marked(place: MachinePlace) -> None:
    """Now, and as it was."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("transition", "login", "plan")
    assert "    ideate --> plan\n" in drawn(place)
    assert drawn(place).endswith("    class plan present\n")
    assert drawn(place, "--at", "1").endswith("    class ideate present\n")


def test_the_limits_are_those_in_force(place: MachinePlace) -> None:
    """As a person changed them."""
    place.init("login")
    assert "review --> delegate: fix-cycle (at most 3)" in drawn(place)
    place.done("limit", "login", "fix-cycle", "7", "--reason", "a long one")
    assert "review --> delegate: fix-cycle (at most 7)" in drawn(place)


def test_a_cancelled_machine_is_drawn_too(place: MachinePlace) -> None:
    """With the phase that it was given up in."""
    place.init("login")
    place.done("cancel", "login")
    assert "    ideate --> cancelled\n" in drawn(place)
    assert drawn(place).endswith("    class cancelled present\n")


def test_it_goes_to_stdout_too(place: MachinePlace) -> None:
    """The same bytes."""
    place.init("login")
    line = ("--root", str(place.path), "export", "mermaid", "--machine", "login")
    assert wfctl(*line).out == drawn(place)


def test_what_is_no_drawing_of_a_machine_is_refused(place: MachinePlace) -> None:
    """Another format, an option of others, a machine that is not there."""
    place.init("login")
    of_login = ("--machine", "login")
    assert place.wfctl("export", "timeline", "x", *of_login).code == 2
    assert place.wfctl("export", "mermaid", "x", "--license", "MIT", *of_login).code == 2
    assert place.wfctl("export", "mermaid", "x", "--machine", "nobody").code == 3


def test_the_report_tells_phases_tasks_decisions_and_the_log(place: MachinePlace) -> None:
    """As one page of HTML, in which what others typed is text."""
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
    assert "this policy asks for no person" in page
    assert "consent is by trust" in page
    assert "login begins as" in page


def test_a_machine_is_watched(place: MachinePlace) -> None:
    """Once, where there is no terminal: where it stands, what is next, what was recorded."""
    place.init("login")
    place.done("checkpoint", "login", "--summary", "half way")
    root = ("--root", str(place.path))
    shown = wfctl(*root, "watch", "--once", "--machine", "login")
    assert shown.code == 0, shown
    assert "login  feature, in ideate" in shown.out
    assert "next: wfctl machine" in shown.out
    assert "half way" in shown.out
    assert wfctl(*root, "watch", "--once", "--machine", "logout").code == 3
