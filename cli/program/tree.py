"""The tree of commands: which there are, and where each is loaded from when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from cli.frame.options import spread
from cli.program.shortcuts import taken_as_typed

PORCELAIN = "Porcelain"
PLUMBING = "Plumbing"

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": (PORCELAIN, "cli.commands.init:init"),
    "plan": (PORCELAIN, ""),
    "import": (PORCELAIN, "cli.commands.init:import"),
    "status": (PORCELAIN, "cli.commands.status:status"),
    "show": (PORCELAIN, "cli.commands.tasks:show"),
    "log": (PORCELAIN, "cli.commands.events:log"),
    "logs": (PORCELAIN, "cli.commands.tasks:logs"),
    "tasks": (PORCELAIN, "cli.commands.tasks:tasks"),
    "metrics": (PORCELAIN, "cli.commands.tasks:metrics"),
    "stage": (PORCELAIN, ""),
    "dispatch": (PORCELAIN, "cli.commands.dispatch:dispatch"),
    "wait": (PORCELAIN, "cli.commands.dispatch:wait"),
    "run": (PORCELAIN, "cli.commands.run:run"),
    "runner": (PORCELAIN, ""),
    "session": (PORCELAIN, ""),
    "report": (PORCELAIN, "cli.commands.export:report"),
    "rehydrate": (PORCELAIN, "cli.commands.dispatch:rehydrate"),
    "reconcile": (PORCELAIN, "cli.commands.dispatch:reconcile"),
    "amend": (PORCELAIN, ""),
    "rerun": (PORCELAIN, "cli.commands.amend:rerun"),
    "blame": (PORCELAIN, "cli.commands.why:blame"),
    "why": (PORCELAIN, "cli.commands.why:why"),
    "diff": (PORCELAIN, "cli.commands.compare:diff"),
    "compare": (PORCELAIN, "cli.commands.compare:compare"),
    "audit": (PORCELAIN, ""),
    "verify": (PORCELAIN, "cli.commands.drift:verify"),
    "clean": (PORCELAIN, "cli.commands.clean:clean"),
    "drift": (PORCELAIN, ""),
    "consent": (PORCELAIN, ""),
    "pin": (PORCELAIN, "cli.commands.prove:pin"),
    "checkpoint": (PORCELAIN, "cli.commands.prove:checkpoint"),
    "witness": (PORCELAIN, ""),
    "prove": (PORCELAIN, "cli.commands.prove:prove"),
    "note": (PORCELAIN, "cli.commands.append:note"),
    "watch": (PORCELAIN, "cli.commands.status:watch"),
    "serve": (PORCELAIN, "cli.commands.serve:serve"),
    "export": (PORCELAIN, "cli.commands.export:export"),
    "machine": (PORCELAIN, ""),
    "list": (PORCELAIN, "cli.commands.listing:list"),
    "inbox": (PORCELAIN, "cli.commands.listing:inbox"),
    "mcp": (PORCELAIN, "cli.commands.serve:mcp"),
    "agent": (PORCELAIN, ""),
    "demo": (PORCELAIN, "cli.demo.command:demo"),
    "help": (PORCELAIN, "cli.commands.help:help"),
    "completion": (PORCELAIN, "cli.program.completion:completion"),
    "append": (PLUMBING, "cli.commands.append:append"),
    "replay": (PLUMBING, "cli.commands.events:replay"),
    "events": (PLUMBING, "cli.commands.events:events"),
    "fsck": (PLUMBING, "cli.commands.events:fsck"),
    "schema": (PLUMBING, "cli.commands.events:schema"),
    "db": (PLUMBING, ""),
    "__complete": ("", "cli.program.completion:complete"),
}
#: Group → its help, then a module of `cli.commands` and commands in it, line by line.
_GROUPS: dict[str, tuple[str, ...]] = {
    "agent": (
        "The plugin for an agent's client: claude, codex, gemini, opencode, other.",
        "agent install uninstall hook",
    ),
    "amend": (
        "Definitional changes: proposed, then decided.",
        "amend propose approve reject list show",
    ),
    "audit": (
        "Questions to the history: table, json or csv.",
        "audit amendments bypasses transitions retries attempts times queue costs",
        "audit refused drift sql",
    ),
    "consent": ("How a person agrees.", "consent setup"),
    "db": (
        "The database behind the log.",
        "clean upgrade current url trust",
        "backup copy backup restore salvage",
        "clean project",
    ),
    "drift": ("Hand edits of the files that wfctl writes.", "drift show adopt revert"),
    "machine": (
        "Phase machines: feature, debug, refactor, oneshot, dotagent, conductor, your own.",
        "machine.beginning init import",
        "machine.reads get list check describe",
        "machine.changes update transition append task task_claim task_release checkpoint",
        "machine.changes cancel approve limit",
        "machine.reads rehydrate drift",
    ),
    "plan": ("A plan: looked at, and applied anew.", "init check apply"),
    "runner": ("The autonomous runner.", "run show pause resume attach stop serve"),
    "session": ("One stretch of work, with a budget.", "stage start end show"),
    "stage": (
        "One transition or operational field of a stage.",
        "stage ready prepare launch compute verify complete fail cancel",
        "dispatch diagnose",
        "stage retry checkpoint outputs reuse",
    ),
    "witness": ("Vouch that logs of others only grow.", "prove watch serve cosign show"),
}
#: Groups that say without a command what is wrong, and a command that nobody is told of.
_BARE, _HIDDEN = frozenset({"db", "stage"}), "runner serve"
#: Characters of a help's first sentence that are shown.
_WHOLE = 500


class _Loaded(MutableMapping[str, Any]):
    """Name → command of typer; one is loaded when it is looked up, and only its names before."""

    def __init__(self, names: Iterable[str], load: Callable[[str], Any]) -> None:
        self._found: dict[str, Any] = dict.fromkeys(names)
        self._load = load

    def __getitem__(self, name: str) -> Any:
        if self._found[name] is None:
            self._found[name] = self._load(name)
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class _Helped:
    """What the help of commands and groups has in common: plain names, an example, an end."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, and of a group its commands."""
        from cli.program.helping import write_options

        write_options(self, ctx, formatter)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        from cli.program.helping import usage_pieces

        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return usage_pieces(pieces)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what every command takes, and an example."""
        from cli.program.helping import path_of, write_end

        if ctx.parent is not None:
            write_end(path_of(ctx), formatter, is_group=isinstance(self, TyperGroup))


class PlainCommand(_Helped, TyperCommand):
    """A command that loads pydantic only for values that are not plainly right."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options, that of the help among them."""
        return taken_as_typed(super().get_params(ctx))


class Group(_Helped, TyperGroup):
    """A group whose help is written plainly: rich takes longer to load than a command to run."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its options, that of the help among them."""
        return taken_as_typed(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help where no command is named, which is an error nevertheless."""
        if self.no_args_is_help and not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.fail("expected a command.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant; one has a name of two words (`machine task claim`)."""
        pair = " ".join(args[:2])
        whole = [pair, *args[2:]] if len(args) > 1 and pair in self.commands else args
        if whole[0] not in self.commands and not whole[0].startswith("-"):
            from cli.program.meant import no_such_command

            raise no_such_command(ctx, self, whole)
        return super().resolve_command(ctx, whole)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base class has it
        """Return the names of the commands, in their order; nothing is loaded for them."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help, whole."""
        self._section("Commands", self.list_commands(ctx), formatter)

    def _section(self, title: str, names: list[str], formatter: Any) -> None:
        with formatter.section(title):
            rows = [(name, self.commands[name].get_short_help_str(_WHOLE)) for name in names]
            formatter.write_dl(rows)


class Commands(Group):
    """The group of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loaded(COMMANDS, _load)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """Write the commands in two groups, as the contract has them."""
        for panel in (PORCELAIN, PLUMBING):
            names = [name for name, (found, _) in COMMANDS.items() if found == panel]
            self._section(panel, names, formatter)


def _load(name: str) -> Any:
    if name not in _GROUPS:
        return _command(name, COMMANDS[name][1])
    about, *rows = _GROUPS[name]
    places = {word.replace("_", " "): row.split()[0] for row in rows for word in row.split()[1:]}
    around = _plain()
    group = typer.Typer(help=about, no_args_is_help=name not in _BARE)
    around.add_typer(group, name=name, cls=Group)
    loaded: Any = get_group(around).commands[name]
    loaded.commands = _Loaded(
        places,
        lambda inner: _command(
            inner,
            f"cli.commands.{places[inner]}:{inner.split()[-1]}",
            hidden=f"{name} {inner}" == _HIDDEN,
        ),
    )
    return loaded


def _command(name: str, place: str, *, hidden: bool = False) -> Any:
    module, _, attribute = place.partition(":")
    found = import_module(module)
    # A command that is named as a word of Python has a line at the end of its function's name.
    function = getattr(found, f"{attribute}_", None) or getattr(found, attribute)
    around = _plain()
    around.command(name, cls=PlainCommand, hidden=hidden)(spread(function))
    return get_group(around).commands[name]


def _plain() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None)
