"""Insert small programming faults into code, to see whether the tests detect them."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

_OPPOSITE: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.GtE(),
    ast.GtE: ast.Lt(),
    ast.Gt: ast.LtE(),
    ast.LtE: ast.Gt(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}


def planted(text: str, dice: random.Random) -> tuple[str, int, str] | None:
    """Insert one random fault into a program.

    Return the program, the line of the fault and its description, or None if no fault is possible.
    """
    tree = ast.parse(text)
    inside = (node for body in _bodies(tree) for node in ast.walk(body))
    places = [node for node in inside if isinstance(node, ast.expr) and _fault(node)]
    if not places:
        return None
    chosen = dice.choice(places)
    fault = _fault(chosen)
    assert fault is not None
    old = ast.get_source_segment(text, chosen)
    assert old is not None
    line, column = chosen.lineno, chosen.col_offset
    lines = text.splitlines(keepends=True)
    start = sum(len(one.encode()) for one in lines[: line - 1]) + column
    encoded = text.encode()
    end = start + len(old.encode())
    changed = encoded[:start] + f"({fault})".encode() + encoded[end:]
    return changed.decode(), line, f"{old} -> {fault}"


def _bodies(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of all functions, without their docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from (one for one in node.body if not _is_text(one))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _fault(node: ast.expr) -> str | None:
    """Return the code of the opposite expression, or None if no opposite is known."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in _OPPOSITE:
            turned = ast.Compare(left=left, ops=[_OPPOSITE[type(op)]], comparators=comparators)
            return ast.unparse(turned)
        case ast.BoolOp(op=ast.And(), values=values):
            return ast.unparse(ast.BoolOp(op=ast.Or(), values=values))
        case ast.BoolOp(op=ast.Or(), values=values):
            return ast.unparse(ast.BoolOp(op=ast.And(), values=values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return ast.unparse(ast.BinOp(left=left, op=ast.Sub(), right=right))
        case ast.Constant(value=bool(value)):
            return str(not value)
        case _:
            return None
