"""Options of commands, read from where they are declared.

An option is a field of a class or an argument of a function of the package: its name, type,
default and description are those of the source, as in the documentation. The source is read, not
imported, so that help does not wait for torch. Options that only a command has are arguments of
its function, described in the section ``Options:`` of its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import Parameter, Signature, cleandoc, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import typer

#: Values of options, by name.
Given: TypeAlias = dict[str, Any]

_PACKAGE = Path(__file__).parent.parent
_TYPES = {"bool": bool, "int": int, "float": float}
_OF_TYPES: dict[type, str] = {int: "N", Path: "FOLDER"}
_METAVARS = {
    "device": "auto|cpu|cuda",
    "precision": "auto|float32|tf32|bf16",
    "batch_size": "N|auto",
    "shard": "I/N",
    "host": "ADDRESS",
    "judge": "MODEL",
    "guidance": "RULE:WEIGHTS",
    "sampling": "'SOLVER GRID STEPS'",
    "attributes": "TABLE.csv|NAME=VALUE,...|auto",
    "threshold": "GAP",
    "lpips": "FILE",
    "inception": "FILE",
    "weights": "W,W,…",
    "against": "MODEL[:SETTING]",
    "compare": "MODEL",
    "data": "DIR",
    "config": "FILE",
    "init": "FILE",
    "commit": "HASH",
    "preset": "NAME",
    "set_": "A.B=C",
    "do": "NAME=VALUE[,...]",
    "engine": "dask",
    "form": "parquet|tar|pictures",
}
_PLACED = {"images": "IMAGE", "results": "DIR", "folder": "DIR", "source": "PRESET_OR_YAML"}
_SHARED = {  # by several commands
    "model": "folder of a model, or name of a shipped model",
    "data": "folder of the data set, if it has moved since training",
    "out": "output folder, by default in runs/COMMAND",
    "overwrite": "replace files of others, or of other options",
    "commit": "commit of the code, if git is not available",
}
_ABOUT = {  # of what has another form in Python
    "sampling": "Solver, grid and number of steps, such as 'heun karras 10'; or default, paper "
    "(1,000 steps of DDIM), a solver, or a number of steps."
}


@dataclass(frozen=True)
class Declared:
    """What the source says of a field or an argument."""

    kind: str  #: annotation
    default: object  #: if it is a literal; else None
    about: str  #: description

    @classmethod
    def of(cls, kind: ast.expr | None, default: ast.expr | None, about: str) -> Declared:
        """Read it from its parts in the source."""
        literal = default.value if isinstance(default, ast.Constant) else None
        return cls(ast.unparse(kind) if kind else "", literal, plain(about))


@dataclass(frozen=True)
class Options:
    """Fields of a class, or arguments of a function, as options of a command."""

    home: str  #: module, and class or function in it, such as 'generation.request.Request'
    names: str  #: of the fields or arguments, with spaces between them
    changes: bool = False  #: whether values replace others, and so have no default here
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    """Defaults that only the command has."""
    make: Callable[..., object] = dict  #: what the command gets, made of those that are not None

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of a command that stand for the options."""
        known = declared(self.home)
        for name in self.names.split():
            default = self.defaults.get(name, None if self.changes else known[name].default)
            about, (kind, *others) = known[name].about, known[name].kind.split(" | ")
            form = Path if "Path" in known[name].kind else _TYPES.get(kind, str)
            is_pair = form is bool and (default is not False or "None" in others)
            yield _option(name, form, default, _ABOUT.get(name, about), is_pair)


def options_of(home: str, names: str, **how: Any) -> Any:
    """Return options that stand for an argument of a command, as its default."""
    return Options(home, names, **how)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the arguments of a function into those of a command, and its options.

    What stands before ``/`` are arguments. One whose default is :func:`options_of` gets the values
    of these options; a value that is None is left out, so that its default is that of the class or
    function.
    """
    hints, own = get_type_hints(command), signature(command).parameters
    about = _SHARED | _entries(getdoc(command) or "", "Options")
    found: dict[str, list[Parameter]] = {
        name: list(each.default.parameters())
        if isinstance(each.default, Options)
        else [_own(each, hints[name], plain(about[name]))]
        for name, each in own.items()
    }

    @wraps(command)
    def run(**values: Any) -> Any:
        for name, each in own.items():
            if isinstance(each.default, Options):
                given = {part.name: values.pop(part.name) for part in found[name]}
                given = {key: value for key, value in given.items() if value is not None}
                values[name] = each.default.make(**given)
        placed = [name for name, each in own.items() if each.kind is Parameter.POSITIONAL_ONLY]
        arguments = [values.pop(name) for name in placed]
        return command(*arguments, **values)

    parameters = [each for several in found.values() for each in several]
    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _own(own: Parameter, hint: Any, about: str) -> Parameter:
    """Return the parameter that stands for an argument of a function itself."""
    if own.kind is Parameter.POSITIONAL_ONLY:
        argument = typer.Argument(metavar=_PLACED.get(own.name, own.name.upper()), help=about)
        return _parameter(own.name, Annotated[hint, argument], own.default)
    form = next((part for part in get_args(hint) if own.default is None), hint)
    return _option(own.name, form, own.default, about, own.default is True)


def _option(name: str, form: Any, default: object, about: str, is_pair: bool) -> Parameter:
    flag = name.rstrip("_").replace("_", "-")
    words = f"--{flag}/--no-{flag}" if is_pair else f"--{flag}"
    option = typer.Option(words, metavar=_METAVARS.get(name, _OF_TYPES.get(form)), help=about)
    return _parameter(name, Annotated[form | None if default is None else form, option], default)


def _parameter(name: str, annotation: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def declared(home: str) -> dict[str, Declared]:
    """Return what the source of a class or a function says of its fields or arguments."""
    module, _, name = home.rpartition(".")
    text = _PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
    (node,) = [n for n in ast.parse(text).body if getattr(n, "name", None) == name]
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    return dict(_fields(node, text) if isinstance(node, ast.ClassDef) else _arguments(node))


def _arguments(node: ast.FunctionDef) -> Iterator[tuple[str, Declared]]:
    """Yield the arguments of a function, as the section ``Args:`` of its docstring says."""
    about = _entries(ast.get_docstring(node) or "", "Args")
    own, known = node.args.args, node.args.defaults
    defaults = [*[None] * (len(own) - len(known)), *known, *node.args.kw_defaults]
    for each, default in zip([*own, *node.args.kwonlyargs], defaults, strict=True):
        yield each.arg, Declared.of(each.annotation, default, about.get(each.arg, ""))


def _entries(doc: str, head: str) -> dict[str, str]:
    """Return the entries of a section of a docstring, by name."""
    _, _, section = doc.partition(f"{head}:\n")
    return dict(re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE))


def _fields(node: ast.ClassDef, text: str) -> Iterator[tuple[str, Declared]]:
    """Yield the fields of a class, described behind ``#:`` or in a string below."""
    lines = text.splitlines()
    for each, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign):
            _, _, about = lines[(each.end_lineno or 0) - 1].partition("#: ")
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                about = cleandoc(str(below.value.value))
            yield ast.unparse(each.target), Declared.of(each.annotation, each.value, about)


def plain(text: str) -> str:
    """Return a description without the marks of the documentation, as a sentence.

    >>> plain("whether to ask :class:`fcfg.DDIM`, or ``none``, see :mod:`fcfg.sampling`")
    'Ask DDIM, or none.'
    """
    text = re.sub(r"[,;] see :\w+:`[^`]*`", "", " ".join(text.split()))
    text = re.sub(r":[a-z:]+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("``", "").rstrip(".")
    text = re.sub("^[Ww]hether to ", "", text)
    return f"{text[:1].upper()}{text[1:]}."
