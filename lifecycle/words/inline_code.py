"""Analyse Python and sed code on a command line: its imports, and whether it runs other code."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

#: Names with which Python code can run a file or other code, or access such a name.
_RUNNING = re.compile(
    r"exec\w*|eval|compile|execfile|system|popen\d?|p?spawn\w*|posix_spawn\w*|fork\w*|run_path"
    r"|run_module|create_subprocess_\w+|importlib|imp|runpy|subprocess|builtins|ctypes|cffi|pty"
    r"|code|codeop|pickle|cPickle|dill|cloudpickle|joblib|marshal|shelve|zipimport|site|pkgutil"
    r"|pydoc|pdb|bdb|timeit|cProfile|profile|trace|doctest|unittest|multiprocessing|getattr"
    r"|attrgetter|methodcaller|globals|locals|vars|modules|meta_path|path_hooks"
    r"|__(?!name__|version__|file__|doc__|init__)\w+"
)
#: A shell variable or command substitution in the code. Its value is unknown.
_INSERTED = re.compile(r"\$(?!\{?WFCTL_)[\w({]|`")
_REGEX = r"(?:\\.|\[\^?\]?[^\]\n]*\]|(?!{end})[^\\\n])*"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$(?!\w\w)|/{_REGEX.format(end='/')}/[IM]*)"
#: Pattern of one sed command that cannot run another program, with its addresses.
_SED = re.compile(
    rf"[\s;]*(?:#[^\n]*|(?:{_ADDRESS}(?:\s*,\s*(?:[+~]\d+|{_ADDRESS}))?)?[\s!]*(?:"
    rf"s(?P<end>[^\s\\\w]){_REGEX.format(end='(?P=end)')}(?P=end)(?:\\[\s\S]|(?!(?P=end))[^\\])*"
    r"(?P=end)(?:[gpIiMm\d]*)(?:w[^\n]*)?"
    r"|y([^\s\\\w])(?:\\[\s\S]|(?!\2)[^\\])*\2(?:\\[\s\S]|(?!\2)[^\\])*\2"
    r"|[aic][^\n]*(?:(?<=\\)\n[^\n]*)*|[rRwW:][^\n]*|[btT][^\n;}]*|[lLqQ]\s*\d*"
    r"|[{}=dDFgGhHnNpPxz])[ \t]*(?=[\s;}]|\Z|(?<=[{}])))[\s;]*"
)


def runs_other_code(code: str) -> bool:
    """Return whether Python code may run a file or code that is not on the command line.

    Return True if the code cannot be parsed.
    """
    tree = _parse_python(code)
    if tree is None or _INSERTED.search(code):
        return True
    return any(map(_can_node_run_code, ast.walk(tree)))


def find_imports(code: str) -> Iterator[str]:
    """Yield the dotted names that Python code imports. Yield nothing if it cannot be parsed."""
    tree = _parse_python(code)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names if one.name != "*")


def sed_runs_commands(code: str) -> bool:
    """Return whether a sed script may run other programs, or cannot be analysed."""
    place = 0
    while place < len(code):
        found = _SED.match(code, place)
        if found is None or found.end() == place:
            return bool(code[place:].strip())
        place = found.end()
    return False


def _parse_python(code: str) -> ast.Module | None:
    """Return the syntax tree of Python code, or None if the code is not valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _can_node_run_code(node: ast.AST) -> bool:
    """Return whether a node of a Python syntax tree uses a name that can run other code."""
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if (owner, node.attr) == ("re", "compile"):
            return False
        return bool(_RUNNING.fullmatch(node.attr)) or (node.attr == "path" and owner != "os")
    if isinstance(node, ast.Name):
        return bool(_RUNNING.fullmatch(node.id))
    if isinstance(node, ast.ImportFrom):
        names = [*(node.module or "").split("."), *(one.name for one in node.names)]
        is_path = node.module == "sys" and "path" in names
        return is_path or any(one == "*" or _RUNNING.fullmatch(one) for one in names)
    if isinstance(node, ast.Import):
        return any(_RUNNING.fullmatch(one) for name in node.names for one in name.name.split("."))
    return False
