"""Real workflows that were kept by hand: import, and export in every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import html5lib
import pytest

from extensions.exports.formats import FORMATS
from tests.adoption.support import STATES, copied, history, imported
from tests.cli.support import HERE, Place, call
from tests.exports.support import exported, text_of


@pytest.fixture(scope="module", params=STATES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Import one of the seven real workflows."""
    source = history(request.param)
    return imported(copied(source, tmp_path_factory.mktemp("history") / "root"))


@pytest.mark.parametrize("format_", FORMATS)
def test_real_history_can_be_exported_in_every_format(place: Place, format_: str) -> None:
    """Two exports are equal, and each stage is in the formats that show stages."""
    content = exported(place, format_)
    assert content == exported(place, format_)
    if format_ in ("state", "svg", "mermaid", "report", "timeline"):
        for stage in place.done("status")["stages"]:
            assert stage["id"].encode() in content


def test_exports_of_a_real_history_are_well_formed(place: Place) -> None:
    """The SVG is valid XML, and the report is valid HTML."""
    for format_ in ("svg", "timeline"):
        ET.fromstring(exported(place, format_))
    html5lib.HTMLParser(strict=True).parse(text_of(place, "report"))


def test_archive_of_a_real_history_is_complete(place: Place, tmp_path: Path) -> None:
    """The imported root has the same events and files."""
    file = tmp_path / "archive.zip"
    place.done("export", "archive", str(file))
    assert call("import", str(file), "--into", str(tmp_path / "made")).code == 0
    made = Place(tmp_path / "made")
    assert made.done("events") == place.done("events")
    for name in ("workflow-state.json", "progress.log"):
        assert (made.path / name).read_bytes() == (place.path / name).read_bytes()


@pytest.mark.long
def test_crate_of_a_real_history_is_valid(tmp_path: Path) -> None:
    """The official validator accepts each crate, although some values were never recorded."""
    crates = []
    for name in STATES:
        root = imported(copied(history(name), tmp_path / name.replace("/", "-")))
        root.done("export", "ro-crate", str(root.path / "ro-crate-metadata.json"))
        crates.append(str(root.path))
    done = subprocess.run(
        [sys.executable, "-m", "tests.exports.crate_judge", *crates],
        cwd=HERE, capture_output=True, text=True, check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert [verdict["issues"] for verdict in json.loads(done.stdout)] == [[]] * len(STATES)
