"""``wfctl agent install`` and ``uninstall`` manage the plugin's files, not the user's settings."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from extensions.agents.client_settings import SettingsPiece
from extensions.agents.install import SOURCE, record_path
from tests.cli.support import Answer, call
from tests.need import NO_CLIENT, need
from tests.npm import installed

CLIENTS = ("claude", "codex", "gemini", "opencode", "other")
#: For each client program: a settings file, as a user could have written it.
SETTINGS = {
    "claude": (".claude/settings.json", '{\n  "permissions": null // mine\n}\r\n'),
    "codex": (".codex/config.toml", 'model = "m" # mine\n[mcp_servers.other]\ncommand = "x"'),
    "gemini": (".gemini/settings.json", '\ufeff// mine {\n{ "a": [ "// }", 1, ],\n}\r\n'),
    "opencode": ("opencode.jsonc", '{\n\t"mcp": {\n\t\t"a": {"type": "local"}, // a\n\t}\n}\n'),
    "other": ("AGENTS.md", "# Rules\n\nBe kind."),
}
#: A fake client program, which logs its calls. The real one would add a server to its settings
#: file.
PROGRAM = """#!{python}
import sys
from pathlib import Path
if sys.argv[1:] == ["mcp", "add", "--help"]:
    print("usage: gemini mcp add NAME COMMAND")
else:
    with Path({log!r}).open("a") as log:
        print(*sys.argv[1:], file=log)
    sys.exit({code})
"""


@pytest.fixture(autouse=True)
def path(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder the only one in PATH, so that no client program is found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return all files below a folder with their content, and all folders with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if ".local" not in path.parts
    }


def agent(folder: Path, *line: str) -> Answer:
    """Run a `wfctl agent` command for the given project folder."""
    return call("--root", str(folder), "agent", *line, "--project", "-o", "json")


def write_settings(folder: Path, client: str) -> Path:
    """Write the settings file of a client into a folder, as a user would."""
    name, text = SETTINGS[client]
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def paste(answer: Answer) -> None:
    """Append the texts that `agent install` printed to their files, as a user would."""
    for piece in answer.data["by_hand"]:
        path = Path(piece["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(piece["text"])


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("has_settings", [True, False])
def test_install_and_uninstall_keep_user_files(
    project: Path, client: str, has_settings: bool
) -> None:
    """After two installations and an uninstallation, the project folder is as before."""
    if has_settings:
        write_settings(project, client)
    before = snapshot(project)
    for _ in range(2):
        assert agent(project, "install", client).code == 0
        assert snapshot(project).items() >= before.items()
    assert agent(project, "uninstall", client).code == 0
    assert snapshot(project) == before
    assert agent(project, "uninstall", client).code == 3


@pytest.mark.parametrize("client", CLIENTS[:-1])
def test_install_without_a_project_uses_the_home_folder(home: Path, client: str) -> None:
    """`agent install` without a project writes to the home folder, and `uninstall` cleans it."""
    before = snapshot(home)
    assert call("agent", "install", client).code == 0
    assert len(snapshot(home)) > len(before) + 3
    assert call("agent", "uninstall", client).code == 0
    assert snapshot(home) == before


@pytest.mark.parametrize("client", CLIENTS)
def test_dry_run_of_install_writes_nothing(tmp_path: Path, project: Path, client: str) -> None:
    """A dry run lists the files that it would write and the texts that a user would paste."""
    before = snapshot(tmp_path)
    data = agent(project, "install", client, "--dry-run").data
    assert data["written"] or data["by_hand"]
    assert snapshot(tmp_path) == before


def test_texts_to_paste_contain_server_and_hooks(project: Path) -> None:
    """Each text has the format of the client's settings file. Claude Code needs no text."""
    texts: dict[str, dict[str, str]] = {client: {} for client in CLIENTS}
    for client in CLIENTS:
        for piece in agent(project, "install", client).data["by_hand"]:
            name = Path(piece["path"]).name
            texts[client][name] = texts[client].get(name, "") + piece["text"]
    assert texts["claude"] == {}
    codex = tomllib.loads(texts["codex"]["config.toml"])
    assert codex["mcp_servers"]["wfctl"] == {"command": "wfctl", "args": ["mcp"]}
    assert set(codex["hooks"]) == {"SessionStart", "PreCompact", "Stop"}
    script = codex["hooks"]["SessionStart"][0]["hooks"][0]["command"].split('"')[1]
    assert Path(script).is_file()
    opencode = json.loads(texts["opencode"]["opencode.json"])
    assert opencode["mcp"]["wfctl"]["command"] == ["wfctl", "mcp"]
    assert texts["other"]["AGENTS.md"] == (SOURCE / "AGENTS.md").read_text()


@pytest.mark.parametrize("client", CLIENTS)
def test_pasted_text_is_not_printed_again(project: Path, client: str) -> None:
    """If the settings already contain a text, a second `agent install` does not print it."""
    paste(agent(project, "install", client))
    assert agent(project, "install", client).data["by_hand"] == []


def test_pasted_text_is_recognized_with_other_indentation(tmp_path: Path) -> None:
    """wfctl recognizes pasted text inside an object, where it has a comma and an indentation."""
    path = tmp_path / "settings.json"
    path.write_text('{\n"theme": "dark",\n    "a": {\n      "b": 1\n    },\n}\n')
    assert SettingsPiece(path, '{\n  "a": {\n    "b": 1\n  }\n}\n').is_pasted()
    assert not SettingsPiece(path, '{\n  "a": {\n    "b": 2\n  }\n}\n').is_pasted()


@pytest.mark.parametrize("client", ["codex", "gemini"])
def test_hook_script_is_kept_while_settings_name_it(project: Path, client: str) -> None:
    """`uninstall` keeps the script while settings name it, and prints the lines to remove."""
    answer = agent(project, "install", client)
    paste(answer)
    texts = [one["text"] for one in answer.data["by_hand"]]
    settings = Path(answer.data["by_hand"][0]["path"])
    script = project / f".{client}/wfctl/hooks/hook.sh"
    data = agent(project, "uninstall", client).data
    assert [one["text"] for one in data["by_hand"]] == texts
    assert data["left"][str(script)].startswith(f"{settings} uses it")
    assert script.is_file()
    settings.unlink()
    assert agent(project, "uninstall", client).data["removed"] == [str(script)]
    assert agent(project, "uninstall", client).code == 3


def test_update_keeps_old_scripts_that_settings_name(project: Path) -> None:
    """`agent install` keeps a script of an earlier version until the settings no longer name it."""
    assert agent(project, "install", "codex").code == 0
    old, edited = (project / f".codex/wfctl/hooks/{name}" for name in ("guard.sh", "guard.awk"))
    record = record_path("codex", project)
    content = json.loads(record.read_text())
    old.write_text("exit 0\n")
    edited.write_text("mine\n")
    content["files"] |= {str(old): sha256(b"exit 0\n").hexdigest(), str(edited): "0" * 64}
    del content["has_server"]
    content["changed"] = [{"path": str(old), "made": True, "pieces": [[0, "x"]]}]
    record.write_text(json.dumps(content))
    settings = project / ".codex/config.toml"
    settings.write_text(f"command = 'sh \"{old}\"'\n")
    left = agent(project, "install", "codex").data["left"]
    assert left[str(old)].startswith(f"{settings} uses it")
    assert left[str(edited)] == "edited since"
    settings.write_text("")
    assert agent(project, "install", "codex").data["removed"] == [str(old)]


def test_edited_plugin_file_is_kept_and_reported(project: Path) -> None:
    """If a user edited a plugin file, `install` does not overwrite it and `uninstall` keeps it."""
    agent(project, "install", "gemini")
    skill = project / ".gemini/skills/wfctl-stages/SKILL.md"
    skill.write_text("mine")
    for command in ("install", "install", "uninstall"):
        assert agent(project, command, "gemini").data["left"] == {str(skill): "edited since"}
        assert skill.read_text() == "mine"


def test_foreign_file_is_not_overwritten_or_removed(project: Path) -> None:
    """If a user's file has the name of a plugin file, `install` exits with 4 and keeps it.

    If the content is the same, `install` succeeds, and `uninstall` keeps the file.
    """
    path = project / ".claude/skills/wfctl/.mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    before = snapshot(project)
    assert agent(project, "install", "claude").code == 4
    assert snapshot(project) == before
    path.write_bytes((SOURCE / ".mcp.json").read_bytes())
    assert agent(project, "install", "claude").code == 0
    assert agent(project, "uninstall", "claude").code == 0
    assert [one for one in snapshot(project).values() if one is not None] == [path.read_bytes()]


def write_program(folder: Path, code: int = 0) -> Path:
    """Write a fake client program ``gemini``, and return the path of the log of its calls."""
    log = folder / "calls"
    program = folder / "gemini"
    program.write_text(PROGRAM.format(python=sys.executable, log=str(log), code=code))
    program.chmod(0o755)
    return log


def test_client_program_adds_and_removes_the_server(path: Path, project: Path) -> None:
    """wfctl runs `gemini mcp add` and `gemini mcp remove`. A dry run only prints the command."""
    log = write_program(path)
    add = "mcp add --scope project wfctl wfctl mcp"
    assert " ".join(agent(project, "install", "gemini", "--dry-run").data["command"][1:]) == add
    assert not log.exists()
    data = agent(project, "install", "gemini").data
    assert " ".join(data["command"][1:]) == log.read_text().strip() == add
    assert not any("mcpServers" in one["text"] for one in data["by_hand"])
    assert agent(project, "uninstall", "gemini").code == 0
    assert log.read_text().splitlines() == [add, "mcp remove --scope project wfctl"]


def test_settings_that_mention_wfctl_are_not_changed(path: Path, project: Path) -> None:
    """If the settings already have a server `wfctl`, wfctl does not run the client program."""
    log = write_program(path)
    settings = project / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"mcpServers": {"wfctl": {"command": "my-wfctl"}}}')
    assert agent(project, "install", "gemini").data["command"] == []
    assert agent(project, "uninstall", "gemini").data["command"] == []
    assert not log.exists()


@pytest.mark.parametrize("text", [None, "#!/bin/sh\necho usage: gemini PROMPT\n"])
def test_text_is_printed_if_the_client_program_fails(
    path: Path, project: Path, text: str | None
) -> None:
    """If the client program cannot add the server, wfctl prints the text to paste."""
    write_program(path, code=1)
    if text is not None:
        (path / "gemini").write_text(text)
    data = agent(project, "install", "gemini").data
    assert data["command"] == []
    assert any("mcpServers" in one["text"] for one in data["by_hand"])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "package", "settings"),
    [
        ("codex", "@openai/codex", ".codex/config.toml"),
        ("gemini", "@google/gemini-cli", ".gemini/settings.json"),
    ],
)
def test_real_client_program_adds_and_removes_the_server(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    client: str,
    package: str,
    settings: str,
) -> None:
    """wfctl installs and uninstalls its server with the real programs codex and gemini."""
    monkeypatch.setenv("PATH", os.defpath)
    modules = installed(tmp_path_factory, client, package)
    need((modules / f".bin/{client}").exists(), f"{NO_CLIENT}: {package}")
    monkeypatch.setenv("PATH", f"{modules / '.bin'}:{os.defpath}")
    data = call("agent", "install", client, "-o", "json").data
    assert data["command"][:3] == [client, "mcp", "add"]
    assert "wfctl" in (home / settings).read_text()
    assert call("agent", "uninstall", client, "-o", "json").data["command"][:3] == [
        client,
        "mcp",
        "remove",
    ]
    assert "wfctl" not in (home / settings).read_text()


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_plugin_manifest_names_the_author(client: str) -> None:
    """The manifest of the plugin has the same author as the package."""
    manifest = json.loads((SOURCE / f".{client}-plugin/plugin.json").read_text())
    assert manifest["author"] == {"name": "The wfctl authors"}
