"""Real histories that others kept by hand, imported, and exported in every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import html5lib
import pytest
from prov.model import ProvDocument

from projections.exports.formats import FORMATS
from tests.adoption.support import STATES, copied, history, imported
from tests.cli.support import HERE, Place, call
from tests.exports.support import exported, text_of


@pytest.fixture(scope="module", params=STATES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One of the seven states, imported."""
    source = history(request.param)
    return imported(copied(source, tmp_path_factory.mktemp("history") / "root"))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_real_history_goes_into_every_format(place: Place, format_: str) -> None:
    """And comes out the same again; every stage is named in what tells of stages."""
    content = exported(place, format_)
    assert content == exported(place, format_)
    if format_ in ("state", "svg", "mermaid", "report", "timeline"):
        for stage in place.done("status")["stages"]:
            assert stage["id"].encode() in content


def test_their_judges_take_what_was_made_of_it(place: Place) -> None:
    """XML, HTML, PROV and JSON lines."""
    for format_ in ("svg", "timeline"):
        ET.fromstring(exported(place, format_))
    html5lib.HTMLParser(strict=True).parse(text_of(place, "report"))
    document = ProvDocument.deserialize(content=text_of(place, "prov"), format="json")
    assert document.get_records()
    spans = [json.loads(line) for line in text_of(place, "otel").splitlines()]
    assert spans


def test_it_is_handed_over_whole(place: Place, tmp_path: Path) -> None:
    """A root made from its archive has the very events and files."""
    file = tmp_path / "archive.zip"
    place.done("export", "archive", str(file))
    assert call("import", str(file), "--into", str(tmp_path / "made")).code == 0
    made = Place(tmp_path / "made")
    assert made.done("events") == place.done("events")
    for name in ("workflow-state.json", "progress.log"):
        assert (made.path / name).read_bytes() == (place.path / name).read_bytes()


@pytest.mark.long
def test_the_official_validator_takes_a_crate_of_each(tmp_path: Path) -> None:
    """Every REQUIRED check; what their authors never wrote down is left out."""
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
