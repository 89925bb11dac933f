"""The parts of a shell command that run a file which the text does not name. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from lifecycle.words.commands import (
    MAXIMUM_DEPTH,
    Invocation,
    NamedScript,
    SimpleCommand,
    find_default_files,
    find_started_words,
    inner_texts,
    read_invocation,
    split_commands,
    split_program,
)
from lifecycle.words.inline_code import runs_other_code, sed_runs_commands

_PROGRAM = "a variable names the program"
_BUILTIN = "{} changes which files run"
_VARIABLE = "a variable names the file"
_PATTERN = "a pattern names the file"
_OUTPUT = "the output of a command names the file"
_FOLDER = "a variable or a pattern names the folder of the file"
_INPUT = "the commands to run come from another program"
_LIST = "a list of files names the script"
_CODE = "code on the command line runs or loads other files"
_COMPUTED = "the code to run is computed by the command"
_SEARCHED = "{}= decides which files run"

#: Variables that wfctl replaces with paths before it reads a command.
_REPLACED = re.compile(r"\$(?:(?:WFCTL_ROOT|WFCTL_INPUT_\d+)\b|\{(?:WFCTL_ROOT|WFCTL_INPUT_\d+)\})")
#: Variables that list folders with programs or code. An entry outside the root is harmless.
_FOLDERS = re.compile(r"PATH|LD_(?:LIBRARY|RUN)_PATH|PYTHONPATH|PERL5LIB|RUBYLIB")
#: Variables that decide which files or which code a program loads.
_LOADERS = re.compile(
    _FOLDERS.pattern + r"|LD_\w+|PYTHON(?:STARTUP|HOME)|PERL5\w+|RUBYOPT|NODE_OPTIONS|BASH_ENV|ENV"
    r"|SHELL"
)
_SETTING = re.compile(r"(\w+)(?:\+?=(.*))?", re.DOTALL)
#: Builtins that set a variable, and builtins that may also name a variable without setting it.
_EXPORTS = frozenset({"declare", "export", "local", "readonly", "typeset"})
_SETTERS = _EXPORTS | {"for", "mapfile", "printf", "read", "readarray", "select"}
#: A folder that can be in a search path because it is outside the root, where programs are.
_PROGRAMS = re.compile(r"\$\w+PATH|\$PATH|\$\{\w*PATH\}|(?:/|~/|\$HOME/|\$\{HOME\}/)[^$`*?]*")
#: Options with which ``env`` reads a command from a word, or changes the folder.
_ENV = re.compile(r"-\w*[SC].*|--(?:s|ch).*", re.DOTALL)
#: Builtins that change what a name runs, with the words with which they do.
_RENAMING = {"alias": r"[^-].*=.*", "enable": r"-\w*f.*", "hash": r"-\w*p.*"}
#: The standard input as a file.
_STANDARD_INPUT = re.compile(r"-|/dev/(?:stdin|fd/.*)|/proc/.*")
#: Code of other languages that runs a file or other code.
_OTHER_CODE = re.compile(
    r"(?<![.\w])(?:dofile|eval|exec|include|popen|run|shell|source|spawn|system)[ \t]*[(\"']"
    r"|(?<![.\w])(?:do|require)[ \t]*\(?[ \t]*(?:\$|[\"'][^\"']*[./])"
    r"|\b(?:call|load)[ \t]+[\"']|^\s*!"
    r"|[^\"' \t][ \t]*\|[ \t]*getline|[\"'](?:[^\s\"']*/)?(?:ba|da|k|z)?sh\b"
)
_LAUNCHERS = frozenset({"parallel", "xargs"})
#: Options of ``xargs`` and ``parallel`` with a value in the next word.
_LAUNCHERS_VALUED = frozenset({"-E", "-I", "-L", "-P", "-a", "-d", "-j", "-n", "-s"})
#: How the options of ``find`` start that start a program.
_STARTERS = frozenset({"-ex", "-ok"})


@dataclass(frozen=True, slots=True)
class UnknownFile:
    """A part of a command that runs a file which cannot be known, and the reason."""

    words: str
    reason: str


def find_unknown_files(text: str, depth: int = 0) -> list[UnknownFile]:
    """Return the parts of a shell command that run a file which the text does not name."""
    found, before = list[UnknownFile](), ""
    for one in split_commands(text):
        words = " ".join(one.words)
        is_bash_test = one.is_test and depth == 0
        shown = f"{before} | {words}" if one.is_piped else words
        found += [UnknownFile(shown, why) for why in _find_reasons(one, is_bash_test)][:1]
        for inner in inner_texts(one):
            found += _find_in_inner(one, inner, depth)
        before = words
    return list(dict.fromkeys(found))


def _find_in_inner(command: SimpleCommand, text: str, depth: int) -> list[UnknownFile]:
    """Return the unknown files of a command inside a word of another command."""
    if depth >= MAXIMUM_DEPTH or re.fullmatch(r"\s*(?:[$`{]\S*|\$\(.*\)|`.*`)\s*", text):
        return [UnknownFile(" ".join(command.words), _COMPUTED)]
    return find_unknown_files(text, depth + 1)


def _find_reasons(command: SimpleCommand, is_test: bool) -> Iterator[str]:
    """Yield why the files that a simple command runs cannot be known."""
    yield from _reasons_of_variables(command)
    yield from _reasons_of_builtin(command)
    if not is_test:
        yield from _reasons_of_program(command)
    for one in find_default_files(command):
        yield from _reasons_of_script(one)
    invocation = read_invocation(command)
    if invocation is not None:
        yield from _reasons_of_interpreter(command, invocation)


def _reasons_of_variables(command: SimpleCommand) -> Iterator[str]:
    """Yield the search paths and loader variables that a command sets in any form."""
    started = find_started_words(command.words)
    before = command.words[: len(command.words) - len(started)]
    setter = started[0] if started[:1] and started[0] in _SETTERS else ""
    for word in (*before, *(started[1:] if setter else ())):
        found = _SETTING.fullmatch(word)
        name, value = (found[1], found[2]) if found else ("", "")
        if value is None and (not setter or setter in _EXPORTS):
            continue
        folders = filter(None, (value or "").split(":"))
        is_harmless = value == "" or (
            value and _FOLDERS.fullmatch(name) and all(map(_PROGRAMS.fullmatch, folders))
        )
        if (_LOADERS.fullmatch(name) and not is_harmless) or _LOADERS.fullmatch(value or ""):
            yield _SEARCHED.format(name)


def _reasons_of_builtin(command: SimpleCommand) -> Iterator[str]:
    """Yield why a builtin, or an option of ``env``, decides which files run."""
    words = find_started_words(command.words)
    before = command.words[: len(command.words) - len(words)]
    name = words[0] if words else ""
    if any(posixpath.basename(one) == "env" for one in before) and any(map(_ENV.match, before)):
        yield _BUILTIN.format("env")
    if name in _RENAMING and any(re.fullmatch(_RENAMING[name], one, re.DOTALL) for one in words):
        yield _BUILTIN.format(name)
    if name == "eval" and re.search(r"[$`]", _REPLACED.sub("", " ".join(words))):
        yield _COMPUTED


def _reasons_of_program(command: SimpleCommand) -> Iterator[str]:
    """Yield why the program may be a file of the root.

    Other programs are judged when they start.
    """
    program, rest = split_program(command.words)
    name = posixpath.basename(program)
    if name == "find":
        starts = [one for word, one in pairwise(rest) if word[:3] in _STARTERS]
        program = next((one for one in starts if re.search(r"[{$`]", one)), program)
    elif name in _LAUNCHERS:
        program = _first_operand(rest) or ("{}" if name == "parallel" else "")
    program = _REPLACED.sub("", program)
    if program.startswith(("{}", ":::")):
        yield _LIST
    elif program in ("$", "`") or program.startswith(("$(", "`")):
        yield _OUTPUT
    elif re.search(r"[$`]", program):
        yield _PROGRAM
    elif (re.search(r"[*?]", program) and ("/" in program or rest)) or re.search("{.*,", program):
        yield _PATTERN


def _first_operand(words: list[str]) -> str:
    """Return the program that ``xargs`` or ``parallel`` starts, the empty string without one."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _LAUNCHERS_VALUED else 1]
    return rest[0] if rest else ""


def _reasons_of_interpreter(command: SimpleCommand, found: Invocation) -> Iterator[str]:
    for one in found.scripts:
        if one.runs:
            yield from _reasons_of_script(one)
    program = posixpath.basename(split_program(command.words)[0])
    if found.reads_input and program in _LAUNCHERS:
        yield _LIST
    elif found.reads_input and (found.is_program or command.is_piped):
        yield _INPUT
    for text in () if found.kind.is_shell else found.code:
        if re.match(r"\s*[$`]", text) and not found.kind.has_code_first:
            yield _COMPUTED
        if _runs_other_code(found, text):
            yield _CODE


def _runs_other_code(found: Invocation, text: str) -> bool:
    """Return whether code on the command line may run a file that the text does not name."""
    if found.kind.module is not None:
        return runs_other_code(text)
    if found.kind.reads_data:
        return sed_runs_commands(text)
    return _OTHER_CODE.search(text) is not None


def _reasons_of_script(script: NamedScript) -> Iterator[str]:
    """Yield why the path of a script does not name a file."""
    name, folder = _REPLACED.sub("", script.name), _REPLACED.sub("", script.folder)
    if re.search(r"\$\(|\$$|`|<\(", name):
        yield _OUTPUT
    elif _STANDARD_INPUT.fullmatch(name):
        yield _INPUT
    elif "$" in name or name == "~":
        yield _VARIABLE
    elif "{}" in name or name.startswith(":::"):
        yield _LIST
    elif re.search(r"[*?\[\]{}~]", name):
        yield _PATTERN
    is_relative = not name.startswith("/") or not script.name.startswith("$")
    if is_relative and name == script.name and re.search(r"[$`*?\[\]{}~]", folder):
        yield _FOLDER
