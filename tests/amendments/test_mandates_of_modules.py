"""Under a mandate, a stage runs only Python modules and scripts that a person approved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amendments.mandated import made, plan_with

WRITES = "open('out.txt', 'w').write('{}')\n"


@pytest.mark.few(1)
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python3 -m runit", "stage-1/runit.py"),
        ("python3 later", "stage-1/later"),
        ("python3 $WFCTL_ROOT/scripts/pk", "scripts/pk/__main__.py"),
    ],
)
def test_changed_module_does_not_run_under_a_mandate(
    tmp_path: Path, command: str, path: str, is_there: bool
) -> None:
    """The amendment takes effect, but no attempt starts with the changed file."""
    plan = plan_with()
    plan["stages"][0]["parameters"]["command"] = command
    plan["stages"][0]["inputs"] = ["scripts/pk"] if "pk" in path else []
    file = tmp_path / "root" / path
    file.parent.mkdir(parents=True)
    if is_there:
        file.write_text(WRITES.format(1))
    place = made(tmp_path, "trust", plan)
    if is_there:
        place.agreed("dispatch", "stage-1", "--sync")
        place.agreed("stage", "complete", "stage-1")
    file.write_text(WRITES.format(99))
    assert place.ask(2)["mandate"] == "sampling"
    answer = place.agent("dispatch", "stage-1", "--sync")
    assert answer.code == 6, answer
    assert f"{path} differs from the file that a person approved" in answer.out + answer.err
