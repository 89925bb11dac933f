"""Find the programs and scripts that a shell command names, without running anything.

No file is read either: only the text of the command is analysed.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from lifecycle.words.inline_code import find_imports

#: Pattern of a variable assignment, such as in `A=1 program`.
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=", re.ASCII)
#: Words of the shell's syntax that can precede a program.
_KEYWORDS = frozenset(
    {"!", "coproc", "{", "do", "elif", "else", "if", "then", "time", "until", "while"}
)
#: Words that start no program if a simple command starts with them.
_NO_PROGRAM = frozenset(
    {".", ":", "[", "[[", "}", "alias", "case", "cd", "declare", "done", "echo", "enable", "esac"}
    | {"eval", "exit", "export", "false", "fi", "for", "hash", "local", "ml", "module", "popd"}
    | {"printf", "pushd", "read", "readonly", "return", "select", "set", "shift", "shopt"}
    | {"source", "test", "trap", "true", "typeset", "ulimit", "umask", "unset", "wait"}
)
#: Words that open a block of shell commands.
_BLOCKS = frozenset({"case", "for", "if", "select", "until", "while"})
#: Programs that start another program, such as `nice`. For each: the letters of its options that
#: take a value, and the number of its own arguments before the other program.
_LAUNCHERS = {
    "builtin": ("", 0),
    "command": ("", 0),
    "env": ("uCS", 0),
    "exec": ("a", 0),
    "function": ("", 1),
    "ionice": ("cnpPu", 0),
    "nice": ("n", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "taskset": ("", 1),
    "timeout": ("ks", 1),
}
#: Matches the option of ``python -m NAME``, including ``-mNAME`` and combined options such as
#: ``-um``.
_MODULE_OPTION = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*m(.*)", re.DOTALL)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
#: Programs that read commands from a file with a default name in the current folder, such as
#: `make`.
_DEFAULT_FILES = {
    "bmake": _MAKEFILES,
    "doit": ("dodo.py",),
    "gmake": _MAKEFILES,
    "invoke": ("tasks.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "make": _MAKEFILES,
    "ninja": ("build.ninja",),
    "npm": ("package.json",),
    "rake": ("Rakefile", "rakefile"),
    "snakemake": ("Snakefile", "workflow/Snakefile"),
}
#: Options of these programs that name the folder to use, and options that name another file to
#: read.
_FOLDER_OPTIONS = frozenset({"-C", "--directory", "--prefix", "--working-directory"})
_FILE_OPTIONS = frozenset({"-f", "--file", "--makefile", "--snakefile", "--justfile", "--rakefile"})
#: Maximum depth to which commands nested in the words of other commands are analysed.
MAXIMUM_DEPTH = 5


class SimpleCommand(NamedTuple):
    """One program with its arguments, as part of a shell command.

    ``sources`` are the files from which it reads its standard input, and ``inline`` is the text of
    a here-document. ``is_piped`` means that its input comes from another program. ``folder`` is the
    folder to which an earlier ``cd`` changed. ``search`` is the value of PYTHONPATH. ``is_test``
    means that the words are part of a ``[[ … ]]`` test and start no program.
    """

    words: tuple[str, ...]
    sources: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()
    is_piped: bool = False
    folder: str = ""
    search: str = ""
    is_test: bool = False


class NamedScript(NamedTuple):
    """A script file or Python module that a command passes to an interpreter.

    ``runs`` is False for a further argument of the interpreter. Such an argument may be a script,
    but only if a file with this name exists.
    """

    name: str
    folder: str
    runs: bool = True
    is_module: bool = False
    search: tuple[str, ...] = ()


class Interpreter(NamedTuple):
    """The description of an interpreter's command line.

    ``valued`` are options with a value, ``code`` options with code, and ``files`` options with a
    script. Options in ``joined`` have a value only in the same word. ``has_code_first`` means that
    the first argument is code if no option gives a script or code. ``reads_data`` means that all
    other arguments are data and never scripts. ``runs_all`` means that every argument is a script,
    unless an option names the script.
    """

    names: re.Pattern[str]
    valued: Collection[str] = ()
    code: Collection[str] = ()
    files: Collection[str] = ()
    joined: str = ""
    module: re.Pattern[str] | None = None
    is_shell: bool = False
    has_code_first: bool = False
    reads_data: bool = False
    runs_all: bool = False


@dataclass(slots=True)
class Invocation:
    """One call of an interpreter in a shell command, with its scripts and its code.

    ``is_program`` is False if another program, such as ``xargs``, starts the interpreter.
    ``reads_input`` means that neither a script nor code is given, and the interpreter runs its
    standard input.
    """

    kind: Interpreter
    is_program: bool
    scripts: list[NamedScript] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    reads_input: bool = False


_INTERPRETERS = (
    Interpreter(re.compile(r"(python|pypy)[\d.]*"), "WX", "c", module=_MODULE_OPTION),
    Interpreter(
        re.compile(r"((r?ba|da|mk|pdk|r?k|r?z|a|t?c|ya)?sh[\d.]*)|source|\."),
        valued="oO",
        code="c",
        is_shell=True,
    ),
    Interpreter(re.compile(r"fish"), "dDfop", "cC", is_shell=True),
    Interpreter(re.compile(r"gnuplot[\w-]*"), "", "e", "c", runs_all=True),
    Interpreter(
        re.compile(r"[gmn]?awk"), "vF", ("e", "--source"), ("f", "--file"), has_code_first=True
    ),
    Interpreter(
        names=re.compile(r"g?sed"),
        valued="l",
        code=("e", "--expression"),
        files=("f", "--file"),
        joined="i",
        has_code_first=True,
        reads_data=True,
    ),
    Interpreter(re.compile(r"(perl|ruby)[\d.]*"), "IMm", "eE", joined="i0"),
    Interpreter(
        re.compile(r"julia|node(js)?|Rscript|octave(-cli)?|lua(jit)?[\d.]*|tclsh[\d.]*|wish"),
        "ptrl",
        ("e", "E", "--eval"),
        ("L",),
    ),
)
#: Options with which an interpreter only prints information and runs no script.
_ENDS = frozenset({"-V", "-VV", "-h", "--version", "--help"})
#: Programs and builtins whose arguments may be names of programs or files, but which start none of
#: them.
_STARTS_NOTHING = (_NO_PROGRAM - {".", "eval", "source"}) | {
    *("cat", "chmod", "cp", "grep", "head", "ls", "mkdir", "mv", "rm", "tail", "touch"),
    *("type", "which"),
}
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
#: Pattern of an arithmetic expression ``$((…))``, which cannot name a program.
_ARITHMETIC = re.compile(r"\$\(\((?:[^()`$]|\$(?!\()|\([^()`$]*\))*\)\)")
#: Pattern of ``$(which NAME)``, which is replaced by NAME.
_WHICH = re.compile(r"\$\((?:which|command -v|type -P)[ \t]+([\w.+-]+)\)")
_READ_PROCESS, _WRITE_PROCESS = ("<(",), (">(",)
_OPERATORS = re.compile(r"[();<>|&\n]+")
#: Pattern of a single operator in a sequence of operator characters, such as ``&&`` in ``)&&(``.
_OPERATOR = re.compile(r"(?:\n|[<>]\(|[<>]+[&|]?|&>+|[()]|[;&|]+)")
_SUBSTITUTION = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)|`([^`]*)`")


def find_programs(text: str) -> list[str]:
    """Return the names of the programs that a shell command starts, without shell builtins."""
    found = (split_program(one.words)[0] for one in split_commands(text))
    return list(dict.fromkeys(name for name in found if name))


def find_program_files(text: str) -> Iterator[NamedScript]:
    """Yield the programs that a shell command starts by their path, such as ``./run.sh``."""
    for one in split_commands(text):
        name = split_program(one.words)[0]
        if "/" in name:
            yield NamedScript(name, one.folder)


def find_named_scripts(text: str, depth: int = 0) -> Iterator[NamedScript]:
    """Yield the script files and modules that the interpreters in a shell command run or read.

    Commands inside the words of other commands are included.
    """
    for one in split_commands(text):
        yield from find_makefiles_of_command(one)
        invocation = find_interpreter_call(one)
        yield from invocation.scripts if invocation is not None else ()
        for inner in extract_nested_commands(one) if depth < MAXIMUM_DEPTH else ():
            yield from _find_scripts_in_nested_command(one, inner, depth)


def find_interpreter_call(command: SimpleCommand) -> Invocation | None:
    """Return the call of the first interpreter in a simple command, or None if it has none."""
    words = drop_words_before_program(command.words)
    if words[:1] and words[0] in _STARTS_NOTHING:
        return None
    for number, word in enumerate(words):
        kind = _find_interpreter(word) if number == 0 or word not in (".", "source") else None
        if kind is not None:
            found = Invocation(kind, is_program=number == 0)
            _collect_scripts_and_code(command, list(words[number + 1 :]), found)
            return found
    return None


def strip_leading_keywords(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command without leading keywords of the shell, such as ``do``."""
    return words[next((n for n, one in enumerate(words) if one not in _KEYWORDS), len(words)) :]


def extract_nested_commands(command: SimpleCommand) -> list[str]:
    """Return the shell commands that are contained in the words of another command.

    Examples are command substitutions and the argument of ``bash -c``.
    """
    words = drop_words_before_program(command.words)
    found = [
        inner or ticks for word in command.words for inner, ticks in _SUBSTITUTION.findall(word)
    ]
    if words[:1] == ["eval"]:
        found.append(" ".join(words[1:]))
    elif words[:1] == ["trap"]:
        found += words[1:2]
    invocation = find_interpreter_call(command)
    if invocation is not None and invocation.kind.is_shell:
        found += invocation.code
    return list(dict.fromkeys(filter(None, found)))


def find_makefiles_of_command(command: SimpleCommand) -> Iterator[NamedScript]:
    """Yield the file from which ``make`` or a similar program reads its commands.

    If the command names no file, yield all default names with ``runs=False``.
    """
    program, words = split_program(command.words)
    names = _DEFAULT_FILES.get(posixpath.basename(program))
    if names is None:
        return
    folder, files = command.folder, list[str]()
    for option, value in _find_options_with_values(words):
        if option in _FOLDER_OPTIONS:
            folder = posixpath.join(folder, value)
        elif option in _FILE_OPTIONS or (program == "snakemake" and option == "-s"):
            files.append(value)
    yield from (NamedScript(name, folder) for name in files)
    yield from (NamedScript(name, folder, runs=False) for name in names if not files)


def _find_options_with_values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options with their values.

    The forms are ``-C DIR``, ``-CDIR``, ``-kC DIR`` and ``--directory=DIR``. For an option without
    a value, the next word is yielded.
    """
    for word, following in pairwise([*words, ""]):
        name, is_joined, value = word.partition("=")
        if word.startswith("--"):
            yield name, value if is_joined else following
        elif word[:2] in _FOLDER_OPTIONS | _FILE_OPTIONS and word[2:]:
            yield word[:2], word[2:]
        elif word.startswith("-"):
            yield f"-{word[-1]}", following


def _find_interpreter(word: str) -> Interpreter | None:
    name = posixpath.basename(word)
    return next((one for one in _INTERPRETERS if one.names.fullmatch(name)), None)


def _collect_scripts_and_code(command: SimpleCommand, rest: list[str], found: Invocation) -> None:
    """Analyse the arguments of an interpreter, and add its scripts and code to ``found``."""
    kind = found.kind
    ends = bool(_ENDS.intersection(rest[:1]))
    has_script, reads_input = _consume_interpreter_options(command, rest, found)
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if kind.has_code_first and not has_script:
        found.code += rest[:1]
    has_script = has_script or kind.has_code_first
    runs_all = kind.runs_all and not found.scripts
    for number, word in enumerate([] if kind.reads_data else rest):
        if word != "-":
            runs = (number == 0 and not has_script and not reads_input) or runs_all
            found.scripts.append(NamedScript(word, command.folder, runs=runs))
    reads_input = not ends and not has_script and (reads_input or rest[:1] in ([], ["-"]))
    for word in () if kind.reads_data else command.sources:
        found.scripts.append(NamedScript(word, command.folder, runs=reads_input))
    found.code += command.inline if reads_input else ()
    found.reads_input = reads_input and not command.sources and not command.inline
    if kind.module is not None:
        found.scripts += _imported_modules(command, found.code)


def _imported_modules(command: SimpleCommand, code: Sequence[str]) -> Iterator[NamedScript]:
    """Yield the modules that Python code on the command line imports."""
    search = tuple(command.search.split(":"))
    for name in (one for text in code for one in find_imports(text)):
        for module in (name, f"{name}.__init__"):
            yield NamedScript(module, command.folder, False, is_module=True, search=search)


def _consume_interpreter_options(
    command: SimpleCommand, rest: list[str], found: Invocation
) -> tuple[bool, bool]:
    """Remove the options from the words ``rest``, and add their scripts and code to ``found``.

    Return two flags: whether an option gives a script or code, and whether an option requests that
    the standard input is run.
    """
    kind, has_script, reads_input = found.kind, False, False
    while rest and rest[0][:1] in ("-", "+") and rest[0] not in ("-", "--"):
        option = rest.pop(0)
        module = kind.module.fullmatch(option) if kind.module else None
        if module is not None:
            name = module[1] or "".join(rest[:1])
            del rest[: not module[1]]
            search = tuple(command.search.split(":"))
            found.scripts.append(NamedScript(name, command.folder, is_module=True, search=search))
            return True, False
        letter, value = _split_option(option, kind)
        if letter in kind.code:
            found.code.append(value or (rest.pop(0) if rest else ""))
            has_script = True
        elif letter in kind.files:
            name = value or (rest.pop(0) if rest else "")
            found.scripts.append(NamedScript(name, command.folder))
            has_script = True
        elif letter in kind.valued and not value:
            del rest[:1]
        is_input = kind.is_shell and re.fullmatch("-[a-z]*s", option)
        reads_input = reads_input or bool(is_input)
        if has_script and not kind.has_code_first and letter in kind.code:
            break
    return has_script, reads_input


def _split_option(option: str, kind: Interpreter) -> tuple[str, str]:
    """Return the name of the option that takes a value, and its value in the same word.

    For options without a value, the name is ``-``.
    """
    if option.startswith("--"):
        name, _, value = option.partition("=")
        return name, value
    if kind.is_shell:  # its value is always a separate word
        return next((one for one in option[1:] if one in kind.code or one in kind.valued), "-"), ""
    for number, letter in enumerate(option[1:], 2):
        if letter in kind.joined:
            break
        if letter in (*kind.valued, *kind.code, *kind.files):
            return letter, option[number:]
    return "-", ""


def _find_scripts_in_nested_command(
    command: SimpleCommand, text: str, depth: int
) -> Iterator[NamedScript]:
    """Yield the scripts of a command that is contained in a word of another command."""
    for one in find_named_scripts(text, depth + 1):
        folder = posixpath.join(command.folder, one.folder)
        search = (*one.search, *command.search.split(":"))
        yield one._replace(folder=folder, search=search)


def split_program(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program that a simple command starts, and its arguments.

    Return an empty string and an empty list if it starts no program.
    """
    rest = drop_words_before_program(words)
    if not rest or rest[0] in _NO_PROGRAM:
        return "", []
    return rest[0], rest[1:]


def drop_words_before_program(words: Sequence[str]) -> list[str]:
    """Return the words of a command from the started program on.

    Assignments, keywords, and launchers such as ``nice`` are removed.
    """
    rest = list(words)
    while rest:
        word = rest[0]
        launcher = _LAUNCHERS.get(re.sub(r"^(?:/usr)?/bin/", "", word))
        if launcher is None and not is_assignment(word) and word not in (*_KEYWORDS, "-p"):
            break
        del rest[0]
        valued, operands = launcher or ("", 0)
        while launcher and rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if len(option) == 2 and option[1] in valued:
                del rest[:1]
        del rest[:operands]
    return rest


def split_commands(text: str) -> list[SimpleCommand]:
    """Split the text of a shell command into its simple commands, in order.

    The effect of ``cd`` and of PYTHONPATH inside parentheses ends there. If the current folder
    depends on a condition, it is unknown, and the folder contains the variable ``$PWD``.
    """
    found, folder, search, is_test = list[SimpleCommand](), "", "", False
    groups, blocks = list[tuple[str, str, int]](), 0
    for one in _iterate_simple_commands(text):
        if isinstance(one, str):
            if one == "(":
                groups.append((folder, search, blocks))
            elif one == ")" and groups and groups[-1][2] == blocks:
                folder, search, _ = groups.pop()
            continue
        words = one.words
        started = drop_words_before_program(words)
        paths = [one.partition("=")[2] for one in words if one.startswith("PYTHONPATH=")]
        own = paths[-1] if paths else search
        search = own if all(map(is_assignment, words)) or words[:1] == ("export",) else search
        is_test = is_test or started[:1] == ["[["]
        found.append(one._replace(folder=folder, search=own, is_test=is_test))
        is_test = is_test and "]]" not in words
        blocks += _count_blocks(words)
        folder = _folder_after_command(started, folder, is_known=blocks == 0 and not one.is_piped)
    return found


def _count_blocks(words: Sequence[str]) -> int:
    """Return the number of opened minus closed blocks (``if``, ``case``, ``for``, ``while``)."""
    leading = list(words[: len(words) - len(strip_leading_keywords(words)) + 1])
    closing = sum(one in ("fi", "done", "esac") for one in leading)
    return sum(one in _BLOCKS for one in leading) - closing


def _folder_after_command(words: Sequence[str], folder: str, is_known: bool) -> str:
    """Return the current folder after a command, which may be a ``cd``.

    If the new folder is unknown, the result contains the variable ``$PWD``.
    """
    if words[:1] not in (["cd"], ["pushd"], ["popd"]):
        return folder
    target = words[-1]
    if len(words) == 1 or not is_known or words[0] == "popd" or target.startswith(("-", "+")):
        target = "$PWD"
    return posixpath.join(folder, target)


def is_assignment(word: str) -> bool:
    """Return whether a word of a shell command assigns a variable."""
    return _ASSIGNMENT.match(word) is not None


def _iterate_simple_commands(text: str) -> Iterator[SimpleCommand | str]:
    """Yield each simple command with its words and its standard input.

    A parenthesis is yielded as a string.
    """
    words, redirects, is_comment = list[str](), "", False
    inputs: dict[str, list[str]] = {"<": [], "<<<": []}
    is_piped, has_comments = False, re.search(r"[\"'\\]#", text) is None
    for token in [*_tokenize(text), "\n"]:
        starts_comment = has_comments and token.startswith("#")
        is_comment = (is_comment and "\n" not in token) or starts_comment
        if is_comment:
            continue
        if set(token) <= set("<>&|") and set(token) & set("<>"):
            redirects = token
        elif token in _READ_PROCESS and not redirects:
            words.append(token)
        elif set(token) <= set("();&|\n") or token in (*_READ_PROCESS, *_WRITE_PROCESS):
            inputs["<"] += _READ_PROCESS if token in _READ_PROCESS else ()
            if words:
                sources, inline = map(tuple, inputs.values())
                yield SimpleCommand(tuple(words), sources, inline, is_piped)
            words, redirects, inputs = [], "", {"<": [], "<<<": []}
            is_piped = token in ("|", "|&", *_WRITE_PROCESS) or (is_piped and token in ("(", "\n"))
            yield from token[-1:] if token[-1:] in ("(", ")") else ()
        elif redirects:
            inputs.get(redirects, []).append(token)
            redirects = ""
        else:
            words.append(token)


def _inline_here_documents(text: str) -> str:
    """Replace each here-document in a shell command by a quoted word after ``<<<``."""
    lines = text.split("\n")
    last = {line.strip(): number for number, line in enumerate(lines)}
    joined, rest = list[str](), iter(enumerate(lines))
    for number, line in rest:
        start = _HERE_DOCUMENT.search(line)
        if start is None or last.get(start["end"], 0) <= number:
            joined.append(line)
            continue
        body = ""
        while (one := next(rest)[1]).strip() != start["end"]:
            body += f"{one}\n"
        joined.append(f"{line[: start.start()]}<<< {shlex.quote(body)}{line[start.end() :]}")
    return "\n".join(joined)


def _tokenize(text: str) -> list[str]:
    """Split a shell command into words and operators.

    A here-document becomes one word after ``<<<``. If a quote is not closed, the text is split at
    spaces and operators.
    """
    text = _inline_here_documents(text.replace("\\\n", " "))
    text = _WHICH.sub(r"\1", _ARITHMETIC.sub("0", text))
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.commenters, lexer.whitespace, lexer.whitespace_split = "", " \t\r", True
    try:
        found = list(lexer)
    except ValueError:
        found = re.findall(r"[();<>|&\n]+|[^\s();<>|&]+", text)
    runs = (_OPERATOR.findall(one) if _OPERATORS.fullmatch(one) else [one] for one in found)
    return [part for run in runs for part in run]
