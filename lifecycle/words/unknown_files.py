"""Find the parts of a shell command that run a file which the command does not name.

Only the text of the command is analysed, without any I/O.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from lifecycle.words.commands import (
    MAXIMUM_DEPTH,
    Invocation,
    NamedScript,
    SimpleCommand,
    drop_words_before_program,
    extract_nested_commands,
    find_interpreter_call,
    find_makefiles_of_command,
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

#: Variables for the root and the inputs. wfctl knows their values.
_REPLACED = re.compile(r"\$(?:(?:WFCTL_ROOT|WFCTL_INPUT_\d+)\b|\{(?:WFCTL_ROOT|WFCTL_INPUT_\d+)\})")
#: Variables with lists of folders that contain programs or code. Folders outside the root are
#: allowed in these lists.
_FOLDERS = re.compile(r"PATH|LD_(?:LIBRARY|RUN)_PATH|PYTHONPATH|PERL5LIB|RUBYLIB")
#: Variables that determine which files or code a program loads.
_LOADERS = re.compile(
    _FOLDERS.pattern + r"|LD_\w+|PYTHON(?:STARTUP|HOME)|PERL5\w+|RUBYOPT|NODE_OPTIONS|BASH_ENV|ENV"
    r"|SHELL"
)
_SETTING = re.compile(r"(\w+)(?:\+?=(.*))?", re.DOTALL)
#: Shell builtins that set variables. Those in the first set may also name a variable without
#: setting it.
_EXPORTS = frozenset({"declare", "export", "local", "readonly", "typeset"})
_SETTERS = _EXPORTS | {"for", "mapfile", "printf", "read", "readarray", "select"}
#: An allowed folder in a search path: one outside the root, where installed programs are.
_PROGRAMS = re.compile(r"\$\w+PATH|\$PATH|\$\{\w*PATH\}|(?:/|~/|\$HOME/|\$\{HOME\}/)[^$`*?]*")
#: Options of ``env`` that contain a command or change the current folder.
_ENV = re.compile(r"-\w*[SC].*|--(?:s|ch).*", re.DOTALL)
#: Shell builtins that change which program a name runs, each with the pattern of the argument that
#: does it.
_RENAMING = {"alias": r"[^-].*=.*", "enable": r"-\w*f.*", "hash": r"-\w*p.*"}
#: Names of files that are the standard input.
_STANDARD_INPUT = re.compile(r"-|/dev/(?:stdin|fd/.*)|/proc/.*")
#: Pattern of code in other languages that runs a file or other code.
_OTHER_CODE = re.compile(
    r"(?<![.\w])(?:dofile|eval|exec|include|popen|run|shell|source|spawn|system)[ \t]*[(\"']"
    r"|(?<![.\w])(?:do|require)[ \t]*\(?[ \t]*(?:\$|[\"'][^\"']*[./])"
    r"|\b(?:call|load)[ \t]+[\"']|^\s*!"
    r"|[^\"' \t][ \t]*\|[ \t]*getline|[\"'](?:[^\s\"']*/)?(?:ba|da|k|z)?sh\b"
)
_LAUNCHERS = frozenset({"parallel", "xargs"})
#: Options of ``xargs`` and ``parallel`` whose value is the next word.
_LAUNCHERS_VALUED = frozenset({"-E", "-I", "-L", "-P", "-a", "-d", "-j", "-n", "-s"})
#: First letters of the options of ``find`` that start a program.
_STARTERS = frozenset({"-ex", "-ok"})


class UnknownFile(NamedTuple):
    """A part of a command that runs a file whose name is unknown, and the reason."""

    words: str
    reason: str


def find_unknown_files(text: str, depth: int = 0) -> list[UnknownFile]:
    """Return the parts of a shell command that run a file which the command does not name."""
    found, before = list[UnknownFile](), ""
    for one in split_commands(text):
        words = " ".join(one.words)
        is_bash_test = one.is_test and depth == 0
        shown = f"{before} | {words}" if one.is_piped else words
        found += [UnknownFile(shown, why) for why in _find_reasons(one, is_bash_test)][:1]
        for inner in extract_nested_commands(one):
            found += _find_in_nested_command(one, inner, depth)
        before = words
    return list(dict.fromkeys(found))


def _find_in_nested_command(command: SimpleCommand, text: str, depth: int) -> list[UnknownFile]:
    """Return the unknown files of a command that is contained in a word of another command."""
    if depth >= MAXIMUM_DEPTH or re.fullmatch(r"\s*(?:[$`{]\S*|\$\(.*\)|`.*`)\s*", text):
        return [UnknownFile(" ".join(command.words), _COMPUTED)]
    return find_unknown_files(text, depth + 1)


def _find_reasons(command: SimpleCommand, is_test: bool) -> Iterator[str]:
    """Yield the reasons why a simple command may run files that it does not name."""
    yield from _reasons_of_variables(command)
    yield from _reasons_of_builtin(command)
    if not is_test:
        yield from _reasons_of_program(command)
    for one in find_makefiles_of_command(command):
        yield from _reasons_of_script(one)
    invocation = find_interpreter_call(command)
    if invocation is not None:
        yield from _reasons_of_interpreter(command, invocation)


def _reasons_of_variables(command: SimpleCommand) -> Iterator[str]:
    """Yield a reason for each variable that a command sets and that determines which files run."""
    started = drop_words_before_program(command.words)
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
    """Yield a reason if a shell builtin, or an option of ``env``, changes which files run."""
    words = drop_words_before_program(command.words)
    before = command.words[: len(command.words) - len(words)]
    name = words[0] if words else ""
    if any(posixpath.basename(one) == "env" for one in before) and any(map(_ENV.match, before)):
        yield _BUILTIN.format("env")
    if name in _RENAMING and any(re.fullmatch(_RENAMING[name], one, re.DOTALL) for one in words):
        yield _BUILTIN.format(name)
    if name == "eval" and re.search(r"[$`]", _REPLACED.sub("", " ".join(words))):
        yield _COMPUTED


def _reasons_of_program(command: SimpleCommand) -> Iterator[str]:
    """Yield the reason why the program that a command starts is unknown.

    A program with a fixed name gives no reason here. It is checked when it starts.
    """
    program, rest = split_program(command.words)
    name = posixpath.basename(program)
    if name == "find":
        starts = [one for word, one in pairwise(rest) if word[:3] in _STARTERS]
        program = next((one for one in starts if re.search(r"[{$`]", one)), program)
    elif name in _LAUNCHERS:
        program = _find_xargs_program(rest) or ("{}" if name == "parallel" else "")
    program = _REPLACED.sub("", program)
    if program.startswith(("{}", ":::")):
        yield _LIST
    elif program in ("$", "`") or program.startswith(("$(", "`")):
        yield _OUTPUT
    elif re.search(r"[$`]", program):
        yield _PROGRAM
    elif (re.search(r"[*?]", program) and ("/" in program or rest)) or re.search("{.*,", program):
        yield _PATTERN


def _find_xargs_program(words: list[str]) -> str:
    """Return the program that ``xargs`` or ``parallel`` starts, or "" if none is given."""
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
        if _can_code_run_unknown_file(found, text):
            yield _CODE


def _can_code_run_unknown_file(found: Invocation, text: str) -> bool:
    """Return whether code on the command line may run a file that the command does not name."""
    if found.kind.module is not None:
        return runs_other_code(text)
    if found.kind.reads_data:
        return sed_runs_commands(text)
    return _OTHER_CODE.search(text) is not None


def _reasons_of_script(script: NamedScript) -> Iterator[str]:
    """Yield the reason why the path of a script does not name a certain file."""
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
