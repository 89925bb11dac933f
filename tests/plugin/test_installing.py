"""``wfctl agent install`` and ``uninstall``: into settings that belong to somebody else."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.install import SOURCE, cut, lacking, members, place_of, put
from tests.cli.support import Answer, call

CLIENTS = ("claude", "codex", "gemini", "opencode", "other")
#: Client → a file of settings, as a user may have written it, with what reads it.
OWN = {
    "claude": (".claude/settings.json", '{\n  "permissions": null // mine\n}\r\n'),
    "codex": (".codex/config.toml", 'model = "m" # mine\n[mcp_servers.other]\ncommand = "x"'),
    "gemini": (
        ".gemini/settings.json",
        '\ufeff// mine {\n{ /* { */\n  "a": [ "// }", 1, ], "c": {},\n  "b": 1,\n}\r\n',
    ),
    "opencode": ("opencode.jsonc", '{\n\t"mcp": {\n\t\t"a": {"type": "local"}, // a\n\t}\n}\n'),
    "other": ("AGENTS.md", "# Rules\n\nBe kind."),
}


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder: its files with their bytes, and its folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if ".local" not in path.parts
    }


def agent(folder: Path, *line: str) -> Answer:
    """Call a command of the group for a project."""
    return call("--root", str(folder), "agent", *line, "--project")


def own(folder: Path, client: str) -> Path:
    """Write a user's own settings of a client."""
    name, text = OWN[client]
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("has_own", [True, False])
def test_what_was_installed_is_taken_out_to_the_byte(
    tmp_path: Path, client: str, has_own: bool
) -> None:
    """With settings of one's own and without; installed twice in between."""
    folder = tmp_path / "project"
    folder.mkdir()
    if has_own:
        own(folder, client)
    before = snapshot(folder)
    for _ in range(2):
        answer = agent(folder, "install", client)
        assert answer.code == 0, answer
    assert snapshot(folder) != before
    assert agent(folder, "uninstall", client).code == 0
    assert snapshot(folder) == before
    assert agent(folder, "uninstall", client).code == 3


@pytest.mark.parametrize("client", CLIENTS[:-1])
def test_a_login_is_set_up_and_cleared_as_a_project_is(home: Path, client: str) -> None:
    """All of it below the home."""
    before = snapshot(home)
    assert call("agent", "install", client).code == 0
    assert len(snapshot(home)) > len(before) + 3
    assert call("agent", "uninstall", client).code == 0
    assert snapshot(home) == before


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_dry_run_writes_nothing(tmp_path: Path, client: str) -> None:
    """It says what would be written."""
    before = snapshot(tmp_path)
    answer = agent(tmp_path, "install", client, "--dry-run", "-o", "json")
    assert answer.data["written"]
    assert snapshot(tmp_path) == before


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("client", CLIENTS)
def test_settings_of_ones_own_stay_and_a_later_edit_too(tmp_path: Path, client: str) -> None:
    """What stood there is a part of what stands there; what is added behind stays behind."""
    path = own(tmp_path, client)
    before = path.read_text()
    agent(tmp_path, "install", client)
    between = path.read_text()
    later = "\n# by hand\n" if path.suffix in (".toml", ".md") else "\n// by hand\n"
    path.write_text(between + later)
    assert agent(tmp_path, "uninstall", client).code == 0
    assert path.read_bytes().decode() == before.replace("\r", "") + later


@pytest.mark.usefixtures("home")
def test_a_part_that_somebody_edited_is_left_and_named(tmp_path: Path) -> None:
    """Of the settings, and of the files of the plugin."""
    path = own(tmp_path, "gemini")
    agent(tmp_path, "install", "gemini")
    path.write_text(path.read_text().replace("5000", "9000"))
    skill = tmp_path / ".gemini/skills/wfctl-stages/SKILL.md"
    skill.write_text("mine")
    left = agent(tmp_path, "uninstall", "gemini", "-o", "json").data["left"]
    assert set(left) == {str(path), str(skill)}
    assert "9000" in path.read_text()
    assert skill.read_text() == "mine"


@pytest.mark.usefixtures("home")
def test_a_key_behind_ours_does_not_hinder(tmp_path: Path) -> None:
    """The comma that it needed goes with our part."""
    path = tmp_path / "opencode.json"
    path.write_text("{}")
    agent(tmp_path, "install", "opencode")
    text = path.read_text().rstrip().removesuffix("}").rstrip()
    path.write_text(text + ',\n  "theme": "dark"\n}\n')
    assert agent(tmp_path, "uninstall", "opencode").code == 0
    assert json.loads(path.read_text()) == {"theme": "dark"}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("client", "text"), [("gemini", "{"), ("gemini", "[]"), ("codex", "= =")])
def test_settings_that_cannot_be_read_are_left_alone(
    tmp_path: Path, client: str, text: str
) -> None:
    """Nothing at all is written then."""
    path = own(tmp_path, client)
    path.write_text(text)
    before = snapshot(tmp_path)
    answer = agent(tmp_path, "install", client)
    assert answer.code == 2
    assert str(path) in answer.err
    assert snapshot(tmp_path) == before


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("client", "key", "theirs"),
    [
        ("gemini", "mcpServers", {"wfctl": {"command": "wfctl-of-mine", "env": {"A": "1"}}}),
        ("gemini", "mcpServers", {"other": {"command": "x"}}),
        ("gemini", "mcpServers", None),
        ("gemini", "hooks", []),
        ("gemini", "hooks", {"BeforeTool": None}),
        ("opencode", "mcp", {"wfctl": {"type": "remote", "url": "http://localhost/mcp"}}),
    ],
)
def test_a_key_that_is_there_is_left_and_its_part_told(
    tmp_path: Path, client: str, key: str, theirs: Any
) -> None:
    """As a text to paste; once it is pasted, nothing is left to tell."""
    path = own(tmp_path, client)
    path.write_text(json.dumps({key: theirs}))
    before = snapshot(tmp_path)
    left = agent(tmp_path, "install", client, "-o", "json").data["left"]
    said, _, snippet = left[str(path)].partition("; put into it yourself: ")
    assert said == f"it has `{key}` already"
    old = f'"{key}": {json.dumps(theirs)}'
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, f'"{key}": {{{snippet}}}'))
    assert agent(tmp_path, "install", client, "-o", "json").data["left"] == {}
    path.write_text(json.dumps({key: theirs}))
    assert agent(tmp_path, "uninstall", client).code == 0
    assert snapshot(tmp_path) == before


@pytest.mark.usefixtures("home")
def test_what_an_earlier_version_put_within_a_member_stays(tmp_path: Path) -> None:
    """It holds what ours would; it is taken out as it was put in."""
    path = own(tmp_path, "opencode")
    path.write_text(before := '{\n  "mcp": {"x": {}}\n}\n')
    agent(tmp_path, "install", "opencode")
    entry = ',\n    "wfctl": {"type": "local", "command": ["wfctl", "mcp"], "enabled": true}'
    path.write_text(before.replace("{}", f"{{}}{entry}"))
    record = place_of("opencode", tmp_path)
    kept = json.loads(record.read_text())
    kept["changed"].append({"path": str(path), "made": False, "pieces": [[18, entry]]})
    record.write_text(json.dumps(kept))
    for _ in range(2):
        assert agent(tmp_path, "install", "opencode", "-o", "json").data["left"] == {}
        assert entry in path.read_text()
    agent(tmp_path, "uninstall", "opencode")
    assert path.read_text() == before


@pytest.mark.usefixtures("home")
def test_a_file_of_somebody_else_in_our_place_is_not_overwritten(tmp_path: Path) -> None:
    """Exit 4, and nothing is written."""
    path = tmp_path / ".claude/skills/wfctl/.mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    before = snapshot(tmp_path)
    assert agent(tmp_path, "install", "claude").code == 4
    assert snapshot(tmp_path) == before


@pytest.mark.usefixtures("home")
def test_a_link_to_settings_stays_a_link(tmp_path: Path) -> None:
    """As people have who keep their settings in a repository; the mode stays too."""
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}\n")
    kept.chmod(0o600)
    (tmp_path / ".gemini").mkdir()
    link = tmp_path / ".gemini/settings.json"
    link.symlink_to(kept)
    agent(tmp_path, "install", "gemini")
    assert link.is_symlink()
    assert "mcpServers" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("home")
def test_what_each_client_reads_says_what_it_is_to_run(tmp_path: Path) -> None:
    """The server, and a hook for each turn."""
    for client in CLIENTS:
        assert agent(tmp_path, "install", client).code == 0
    codex = tomllib.loads((tmp_path / ".codex/config.toml").read_text())
    assert codex["mcp_servers"]["wfctl"] == {"command": "wfctl", "args": ["mcp"]}
    assert set(codex["hooks"]) == {"SessionStart", "PreToolUse", "PreCompact", "Stop"}
    gemini = json.loads((tmp_path / ".gemini/settings.json").read_text())
    assert set(gemini["hooks"]) == {"SessionStart", "BeforeTool", "PreCompress", "AfterAgent"}
    assert gemini["mcpServers"]["wfctl"]["args"] == ["mcp"]
    opencode = json.loads((tmp_path / "opencode.json").read_text())
    assert opencode["mcp"]["wfctl"]["command"] == ["wfctl", "mcp"]
    assert (tmp_path / ".opencode/plugins/wfctl.js").is_file()
    # Rules that deny come before the hook, which alone says the right command.
    assert not (tmp_path / ".claude/settings.json").exists()
    assert (tmp_path / "AGENTS.md").read_text().count("wfctl: begin") == 1


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_plugin_names_its_author(client: str) -> None:
    """As the package does."""
    manifest = json.loads((SOURCE / f".{client}-plugin/plugin.json").read_text())
    assert manifest["author"] == {"name": "The wfctl authors"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(old=OBJECTS, new=OBJECTS, indent=st.sampled_from([None, 2, 4]))
def test_what_is_added_is_there_and_is_cut_out_again(
    old: dict[str, Any], new: dict[str, Any], indent: int | None
) -> None:
    """Nothing that was there is another; the text without it is as it was."""
    text = json.dumps(old, indent=indent)
    pieces = members(text, new)
    after = text
    for piece in pieces:
        after = put(after, piece)
    assert json.loads(after) == {**new, **old}
    assert set(lacking(after, new)) <= set(old)
    assert cut(after, pieces, lambda _: True) == (text, [])
