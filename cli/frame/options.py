"""Command line arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

if TYPE_CHECKING:
    from service.reading.point_in_history import Moment
    from service.writing.stream_writer import WriteOptions


class Declaration(NamedTuple):
    """The declaration of an option or positional argument of a command.

    ``names`` are the names of an option; without names, it is named after its parameter.
    ``further`` are further parameters of typer's options, such as ``min`` and ``envvar``.
    """

    is_argument: bool
    names: list[str]
    metavar: str | None
    help: str
    default: Any
    further: dict[str, Any]


def option(*words: str, default: Any = None, **further: Any) -> Any:
    """Return a command line option, given its names, its placeholder and its help text.

    An example is ``option("-n", "--limit", "N", "Show only the newest N.")``. Without names, the
    option is named after its parameter. The default value is ``default``. If that is not given, it
    is None, or False for a flag.
    """
    names = [word for word in words[:-1] if word.startswith("-")]
    metavar = next(iter(words[len(names) : -1]), None)
    return Declaration(False, names, metavar, words[-1], default, further)


def argument(*words: str, default: Any = None, **further: Any) -> Any:
    """Return a positional argument of a command.

    The parameters are those of `option`, but without option names.
    """
    return Declaration(True, [], next(iter(words[:-1]), None), words[-1], default, further)


#: Type of an optional text option. None means that the user did not give the option.
Text = str | None
Texts = list[str] | None
File = Path | None

Stage = Annotated[str, argument("STAGE", "The id of the stage, for example stage-2.")]
Why = Annotated[
    Text, option("--reason", "TEXT", "Record this text in the log as the reason for the change.")
]
Machine = Annotated[
    Text,
    option(
        "--machine",
        "ID",
        "Use the log of this phase machine (the tracked work of an agent) instead of "
        "the log of the workflow.",
    ),
]
AgreeingKey = Annotated[
    Path | None,
    option(
        "--key",
        "FILE",
        "Sign your approval with this SSH key. FILE is the private key, or the .pub file "
        "of a key in ssh-agent.",
    ),
]
FirstTasks = Annotated[
    int | None,
    option(
        "--first",
        "N",
        "Run N tasks of a sweep first, and start the others only when these N have succeeded.",
        min=1,
    ),
]
DryRun = Annotated[
    bool, option("--dry-run", "Show what the command would change, without changing anything.")
]
CommandId = Annotated[
    str | None,
    option(
        "--command-id",
        "KEY",
        "Make a repeated call safe: a second call with the same KEY changes nothing "
        "and prints the first result again.",
    ),
]
ExpectedVersion = Annotated[
    int | None,
    option(
        "--expected-version",
        "N",
        "Run only if the last event in the log has the number N. Otherwise, exit with code 4.",
        min=0,
    ),
]
Brief = Annotated[
    int | None,
    option(
        "--brief",
        "N",
        "Shorten the output to N tokens (4 bytes each), and keep the newest items.",
        min=1,
    ),
]
At = Annotated[
    str | None,
    option(
        "--at",
        "MOMENT",
        "Show the state at an earlier moment: after an event (12), at a time (@{1 "
        "hour ago}), or at the end of a session (session:3). Default: now.",
    ),
]
#: The option `At` with further names that users often try.
Until = Annotated[
    str | None,
    option(
        "--at",
        "--until",
        "--to",
        "--version",
        "MOMENT",
        "Rebuild the state at an earlier moment: after an event (12) or at a time "
        "(@{1 hour ago}). Default: now.",
    ),
]
KnownAt = Annotated[
    str | None,
    option(
        "--known-at",
        "MOMENT",
        "Ignore events recorded after this moment: an event number (12) or a time "
        "(@{1 hour ago}). Default: use all events.",
    ),
]


def _write_options(
    dry_run: bool, command_id: str | None, expected_version: int | None = None
) -> WriteOptions:
    from service.writing.stream_writer import WriteOptions

    return WriteOptions(command_id, expected_version, dry_run)


def parse_moment_options(at: str | None, known_at: str | None) -> Moment | None:
    """Return the moment that the options --at and --known-at describe.

    Return None for the current moment, if both options are missing.
    """
    if at is None and known_at is None:
        return None
    from service.reading.point_in_history import parse_moment

    return parse_moment(at, known_at)


class OptionGroup(NamedTuple):
    """A group of options that a command function receives as a single value.

    ``options`` maps each option name to the option and its default. ``value`` builds the single
    value.
    """

    value: Callable[..., Any]
    options: dict[str, tuple[Any, Any]]


_KEYED = {"dry_run": (DryRun, False), "command_id": (CommandId, None)}
#: Options that every command which writes to the log accepts.
Writes = Annotated[
    "WriteOptions",
    OptionGroup(_write_options, {**_KEYED, "expected_version": (ExpectedVersion, None)}),
]
KeyedWrites = Annotated["WriteOptions", OptionGroup(_write_options, _KEYED)]
#: Options for an earlier moment. The value is None for the current moment.
AsOf = Annotated[
    "Moment | None",
    OptionGroup(parse_moment_options, {"at": (At, None), "known_at": (KnownAt, None)}),
]
#: The option group `AsOf` with the additional option names of `Until`.
AsOfUntil = Annotated[
    "Moment | None",
    OptionGroup(parse_moment_options, {"at": (Until, None), "known_at": (KnownAt, None)}),
]


#: Options that every command accepts. Each option except the flags takes a value.
EVERYWHERE = frozenset({
    "--root", "--root-is", "--database-url", "--journal", "--output", "-o", "--color",
    "--log-level", "--actor",
})  # fmt: skip
FLAGS = frozenset({"--as-is"})


def move_global_options_first(arguments: list[str]) -> list[str]:
    """Return the command line with all global options moved to its start."""
    first, rest = split_global_options(arguments)
    return first + rest


def split_global_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of the global options of a command line, and the other words.

    Words after ``--`` do not count as global options.
    """
    first: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        name, equals, value = word.partition("=")
        if word.startswith("-o") and len(word) > 2:
            name, equals, value = "-o", "=", word[2:].removeprefix("=")
        if word in FLAGS:
            first.append(word)
        elif name not in EVERYWHERE:
            rest.append(word)
        elif equals:
            first += [name, value]
        elif queue:
            first += [name, queue.pop(0)]
        else:
            rest.append(word)
    return first, rest


def find_option_value(arguments: list[str], *names: str) -> str | None:
    """Return the value of an option in a command line, or None if it is missing.

    The global options must be at the start. If the option occurs several times, the last value is
    used.
    """
    value = None
    valued = [word for word in arguments if word not in FLAGS]
    for name, given in zip(valued[::2], valued[1::2], strict=False):
        if name not in EVERYWHERE:
            break
        value = given if name in names else value
    return value
