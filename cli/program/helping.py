"""How the help of a command is written; loaded where somebody asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cli.program.examples import EVERYWHERE, EXAMPLES

#: A type behind a name, which says nothing or says it in a word of the program's own.
_TYPE = re.compile(r" ?<(bool|int|float|str|path|[\w|.\[\]-]+)( range)?>")
_WORDS = {"int": "N", "float": "X", "str": "TEXT", "path": "PATH"}


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """Write arguments and options, each by the name of what it takes."""
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [
            (plain(found[0], is_option=kind == "option"), found[1])
            for param in command.get_params(context)
            if param.param_type_name == kind and (found := param.get_help_record(context))
        ]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def plain(name: str, *, is_option: bool) -> str:
    """Return a name without the type that typer puts behind it; an option's value keeps a word."""

    def word(found: re.Match[str]) -> str:
        known = _WORDS.get(found[1].removeprefix("list[").removesuffix("]"))
        if not is_option or found[1] == "bool":
            return ""
        return f" {known or found[1]}"

    return _TYPE.sub(word, name)


def usage_pieces(pieces: list[str]) -> list[str]:
    """Return the words of the usage line with one pair of brackets where there are several."""
    bare = [re.sub(r"\{([A-Z_.]+)\}", r"\1", piece) for piece in pieces]
    single = [re.sub(r"\[\[(.*?)\](…?)\](\.\.\.)?", r"[\1]\2", piece) for piece in bare]
    return [piece.replace("......", "...") for piece in single]


def write_end(path: str, formatter: Any, *, is_group: bool) -> None:
    """Write what every command takes, and an example of this one."""
    with formatter.section("Everywhere"):
        formatter.write_dl(EVERYWHERE)
    examples = _examples(path, is_group=is_group)
    if examples:
        formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in examples))


def _examples(path: str, *, is_group: bool) -> list[str]:
    if not is_group:
        return [EXAMPLES[path]] if path in EXAMPLES else []
    return list(_of_group(path))[:2]


def _of_group(path: str) -> Iterator[str]:
    for name, line in EXAMPLES.items():
        if name.startswith(f"{path} "):
            yield line


def path_of(context: Any) -> str:
    """Return the words that name a command, without the program's."""
    return " ".join(str(context.command_path).split()[1:])
