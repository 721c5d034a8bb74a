"""Plant mutations all over the package, chosen by a seed, into ``planted.yaml``.

    python studies/planted.py           # find the fragments again where code has moved
    python studies/planted.py --anew    # draw others; those of the table are lost
    python studies/mutations.py --table studies/planted.yaml --out studies/results/planted.json

What is broken: operators, comparisons, ``not``, whole numbers, minima and maxima, the order of
arguments, functions such as ``clamp`` and ``exp``; never messages, annotations or help.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from copy import copy
from itertools import cycle, islice
from typing import Any

import yaml

from mutations import HERE, SOURCE

PLANTED = HERE / "planted.yaml"
SEED, COUNT = 37, 60
PAIRS = ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
SWAPS: dict[Any, Any] = {**dict(PAIRS), ast.Eq: ast.NotEq, ast.And: ast.Or}
SWAPS |= {new: old for old, new in SWAPS.items()}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
REMOVED = {"clamp", "clip", "abs", "exp", "log", "sqrt", "square", "sigmoid", "flip", "sorted"}
#: Calls and keywords that print, tell a type or declare an option.
SILENT = {"InputError", "Option", "Argument", "print", "isinstance", "getattr", "zip", "help"}
SILENT |= {"warn", "field", "Field", "range"}


def called(node: ast.AST) -> str:
    """Return the last name of what is called."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def sites(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.expr, str]]:
    """Yield function, expression, and what it becomes, of all that could be broken."""
    skipped = (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments, ast.Slice)
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            silent = isinstance(node, ast.keyword) and node.arg in SILENT
            if not isinstance(node, ast.AST) or isinstance(node, skipped) or silent:
                continue
            if getattr(node, "name", "") == "__repr__" or called(node) in SILENT:
                continue
            if function and isinstance(node, ast.expr) and (new := broken(node)):
                yield function, node, new
            inside = node.name if isinstance(node, ast.FunctionDef) else function
            yield from sites(node, inside)


def broken(node: ast.expr) -> str:
    """Return what an expression becomes, or nothing where it is not to be broken."""
    new: Any = copy(node)
    match node:
        case ast.BinOp(op=op) if type(op) in SWAPS and not texts(node):
            new.op = SWAPS[type(op)]()
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            new.ops = [SWAPS[type(op)]()]
        case ast.BoolOp(op=op):
            new.op = SWAPS[type(op)]()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            new = operand
        case ast.Constant(value=value) if type(value) is int and 0 <= value < 10:
            new.value = value + 1
        case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
            new.func = ast.Name(EXTREMES[name])
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in EXTREMES:
            new.func = ast.Attribute(value, EXTREMES[name])
        case ast.Call(args=[argument, *_]) if (
            ast.unparse(node.func).startswith(("torch.", "math.", "sorted"))
            and called(node) in REMOVED
        ):
            new = argument
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in REMOVED:
            new = value
        case ast.Call(func=ast.Name(id=name), args=[ast.Name() as a, ast.Name() as b, *rest]):
            if not name.islower():
                return ""
            new.args = [b, a, *rest]
        case _:
            return ""
    return ast.unparse(new)


def texts(node: ast.AST) -> bool:
    """Whether text is joined, or a path."""
    inside = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    names = ast.unparse(node).lower()
    paths = any(word in names for word in ("folder", "path", "parent", "root", "name"))
    return paths or any(isinstance(value, str) for value in inside)


def fragment(source: str, node: ast.expr, new: str) -> tuple[str, str]:
    """Return the lines of an expression before and after, long enough to stand only once."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    while True:
        before = b"".join(lines[first : last + 1])
        if source.encode().count(before) == 1:
            break
        first -= 1
    start = sum(map(len, lines[first : node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[first:last])) + (node.end_col_offset or 0)
    after = before[:start] + new.encode() + before[end:]
    return before.decode().strip("\n"), after.decode().strip("\n")


def chosen() -> dict[str, dict[str, list[str]]]:
    """Draw mutations: from one room after the other, and there from any place."""
    rooms: dict[str, list[tuple[str, str, ast.expr, str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        file = str(path.relative_to(SOURCE))
        for site in sites(ast.parse(path.read_text("utf-8"))):
            rooms.setdefault(file.rpartition("/")[0].partition("/")[0], []).append((file, *site))
    draw = random.Random(SEED)
    found: dict[str, dict[str, list[str]]] = {}
    for room in islice(cycle(sorted(rooms)), COUNT):
        file, function, node, new = rooms[room].pop(draw.randrange(len(rooms[room])))
        before, after = fragment((SOURCE / file).read_text("utf-8"), node, new)
        name = f"{function}: {' '.join(ast.unparse(node).split())[:50]}"
        found.setdefault(file, {})[name] = [before, after]
    return found


def moved() -> dict[str, dict[str, list[str]]]:
    """Put mutations under the files where their fragments stand; say which stand nowhere."""
    files = [path for kind in ("*.py", "*.jinja") for path in SOURCE.rglob(kind)]
    sources = {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in files}
    found: dict[str, dict[str, list[str]]] = {}
    for file, own in yaml.safe_load(PLANTED.read_text("utf-8"))["mutations"].items():
        for name, (before, after) in own.items():
            here = [path for path in (file, *sources) if sources.get(path, "").count(before) == 1]
            if not here:
                print(f"{file}, '{name}': stands nowhere or twice")
            found.setdefault([*here, file][0], {})[name] = [before, after]
    return found


if __name__ == "__main__":
    table = yaml.safe_load(PLANTED.read_text("utf-8"))
    table["mutations"] = chosen() if "--anew" in sys.argv else moved()
    PLANTED.write_text(yaml.safe_dump(table, width=200, allow_unicode=True), "utf-8")
