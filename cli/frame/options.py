"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.models import OptionInfo, ParameterInfo

if TYPE_CHECKING:
    from service.reading.moment import Moment
    from service.writing.stream_writer import WriteOptions


def option(*words: str, default: Any = None, **more: Any) -> Any:
    """Return an option of a command: its names, its metavar, and last its help.

    ``option("-n", "--limit", "N", "Show only the newest N.")``: without names the option has the
    name of its parameter. The value without the option is ``default``, else None, False of a flag.
    """
    names = [word for word in words[:-1] if word.startswith("-")]
    metavar = next(iter(words[len(names) : -1]), None)
    found: Any = typer.Option(*names, metavar=metavar, help=words[-1], **more)
    found.given = default
    return found


def argument(*words: str, default: Any = None, **more: Any) -> Any:
    """Return an argument as `option` does an option; it has no names."""
    found: Any = typer.Argument(metavar=next(iter(words[:-1]), None), help=words[-1], **more)
    found.given = default
    return found


#: What stands on the line if it was given.
Text = str | None
Texts = list[str] | None
File = Path | None

Stage = Annotated[str, argument("STAGE", "Id of the stage, for example stage-2.")]
Why = Annotated[Text, option("--reason", "TEXT", "Reason.")]
Machine = Annotated[Text, option("--machine", "ID", "Use the log of a phase machine.")]
AgreeingKey = Annotated[
    Path | None, option("--key", "FILE", "Approve with this SSH key (or its .pub).")
]
DryRun = Annotated[
    bool, option("--dry-run", "Show what would be recorded and written; write nothing.")
]
CommandId = Annotated[
    str | None,
    option(
        "--command-id",
        "KEY",
        "Idempotency key: a repeated key returns the first answer and appends nothing.",
    ),
]
ExpectedVersion = Annotated[
    int | None,
    option("--expected-version", "N", "Refuse unless the log has version N.", min=0),
]
Brief = Annotated[
    int | None,
    option(
        "--brief",
        "N",
        "Limit the answer to N tokens of four bytes; the newest items come first.",
        min=1,
    ),
]
At = Annotated[
    str | None,
    option(
        "--at", "MOMENT", "Show the state at a version or time: 12, TIME, @{1 hour ago}, session:3."
    ),
]
KnownAt = Annotated[
    str | None,
    option("--known-at", "MOMENT", "Use only what was recorded by this version or time."),
]


def _write_options(
    dry_run: bool, command_id: str | None, expected_version: int | None = None
) -> WriteOptions:
    from service.writing.stream_writer import WriteOptions

    return WriteOptions(command_id, expected_version, dry_run)


def moment(at: str | None, known_at: str | None) -> Moment | None:
    """Return the moment that the options name, None for now."""
    if at is None and known_at is None:
        return None
    from service.reading.moment import parse_moment

    return parse_moment(at, known_at)


@dataclass(frozen=True, slots=True)
class Together:
    """Options of which a function gets one value: name → what it is, and its default."""

    value: Callable[..., Any]
    options: dict[str, tuple[Any, Any]]


_KEYED = {"dry_run": (DryRun, False), "command_id": (CommandId, None)}
#: What every write takes; of a parameter without a default the options are the last ones.
Writes = Annotated[
    "WriteOptions",
    Together(_write_options, {**_KEYED, "expected_version": (ExpectedVersion, None)}),
]
KeyedWrites = Annotated["WriteOptions", Together(_write_options, _KEYED)]
#: The moment that is asked for, None for now.
AsOf = Annotated["Moment | None", Together(moment, {"at": (At, None), "known_at": (KnownAt, None)})]


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command's function as typer takes it: an option for each parameter."""
    found = signature(function, eval_str=True)
    plain: list[Parameter] = []
    last: list[Parameter] = []
    made: dict[str, Together] = {}
    for parameter in found.parameters.values():
        if isinstance(told := parameter.default, ParameterInfo):
            # The default is the option: typer reads of the annotation what both say.
            kind, given = parameter.annotation, told.given  # type: ignore[attr-defined]
            parameter = parameter.replace(  # noqa: PLW2901 - from here on it is as the others are
                annotation=Annotated[kind, told],
                default=False if kind is bool and given is None else given,
            )
        told = getattr(parameter.annotation, "__metadata__", (None,))[0]
        if isinstance(told, Together):
            made[parameter.name] = told
            each = told.options.items()
            (last if parameter.default is Parameter.empty else plain).extend(
                parameter.replace(name=name, annotation=kind, default=default)
                for name, (kind, default) in each
            )
        elif isinstance(told, OptionInfo) and get_args(parameter.annotation)[0] is bool:
            # Nothing denies a flag, unless its names say what does.
            name = f"--{parameter.name.strip('_').replace('_', '-')}"
            flag = told if told.default is not ... else typer.Option(name, help=told.help)
            plain.append(parameter.replace(annotation=Annotated[bool, flag]))
        else:
            plain.append(parameter)

    def command(**given: Any) -> Any:
        for name, one in made.items():
            given[name] = one.value(*[given.pop(each) for each in one.options])
        return function(**given)

    update_wrapper(command, function, ("__module__", "__name__", "__doc__"), ())
    del command.__wrapped__  # type: ignore[attr-defined] # typer would look there for parameters
    command.__signature__ = found.replace(parameters=[*plain, *last])  # type: ignore[attr-defined]
    return command


#: Options of every command: each takes a value, but for the flags.
EVERYWHERE = frozenset({
    "--root", "--root-is", "--database-url", "--journal", "--output", "-o", "--color",
    "--log-level", "--actor",
})  # fmt: skip
FLAGS = frozenset({"--as-is"})


def hoist(arguments: list[str]) -> list[str]:
    """Return the line with the options of every command first; ``--`` ends the search."""
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
    return first + rest


def value_of(arguments: list[str], *names: str) -> str | None:
    """Return the last value that a hoisted line gives to an option of these names."""
    value = None
    valued = [word for word in arguments if word not in FLAGS]
    for name, given in zip(valued[::2], valued[1::2], strict=False):
        if name not in EVERYWHERE:
            break
        value = given if name in names else value
    return value


DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, REFUSED, NEEDS_PERSON, FINDINGS = range(8)
