"""A workflow root: the folder that holds ``.wfctl/``, found as git finds ``.git``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import InvalidOption, NoRoot

MARKER = ".wfctl"


@dataclass(frozen=True, slots=True)
class Root:
    """The paths of one workflow root."""

    path: Path

    @property
    def folder(self) -> Path:
        """``.wfctl/``."""
        return self.path / MARKER

    @property
    def database(self) -> Path:
        """The log, where it is kept on SQLite."""
        return self.folder / "events.db"

    @property
    def config_file(self) -> Path:
        """``config.toml``: workflow id, database URL, policies."""
        return self.folder / "config.toml"

    @property
    def sync_file(self) -> Path:
        """``sync.json``: the last version and digest of each file written."""
        return self.folder / "sync.json"

    @property
    def lock(self) -> Path:
        """The lock under which the root's files are written."""
        return self.folder / "lock"

    @property
    def drift(self) -> Path:
        """Where foreign versions of files are kept."""
        return self.folder / "drift"


@dataclass(frozen=True, slots=True)
class Config:
    """What ``config.toml`` holds."""

    workflow: str
    database_url: str | None = None

    @property
    def stream(self) -> str:
        """The stream of the staged workflow."""
        return f"workflow-{self.workflow}"


def find_root(start: Path) -> Root:
    """Return the nearest root at or above ``start``; raises `NoRoot`."""
    here = start.resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER / "config.toml").is_file():
            return Root(folder)
    raise NoRoot(here)


def read_config(root: Root) -> Config:
    """Return the root's configuration; raises `InvalidOption` naming what is wrong in it."""
    try:
        values: dict[str, Any] = tomllib.loads(root.config_file.read_text("utf-8"))
        return Config(values["workflow"], values.get("database_url"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{root.config_file}: not valid TOML: {error}") from error
    except KeyError:
        raise InvalidOption(
            f'{root.config_file}: expected a line workflow = "…", found none'
        ) from None


def config_text(config: Config) -> str:
    """Return the text of ``config.toml``."""
    url = f'database_url = "{config.database_url}"\n' if config.database_url else ""
    return f'# written by wfctl init\nworkflow = "{config.workflow}"\n{url}'
