"""The run-time checker of the tests: shapes and number types of tensors, nothing else.

Other types are the static checker's business; what callers without one pass must reach the
package's own refusals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import beartype

_jaxtyped = jaxtyping.jaxtyped
_MOST = 4  # calls of a function that are checked in each test: what loops takes twice as long else
_test = 0


def begin() -> None:
    """Check all functions again: another test begins."""
    global _test
    _test += 1


def install() -> None:
    """Check the package, whose modules are imported later.

    jaxtyping's hook wraps every function. One that speaks of no array is left alone: to call
    what checks nothing costs more than most functions do.
    """
    jaxtyping.jaxtyped = _jaxtyped_where_arrays_are  # the name by which the hook decorates
    jaxtyping.install_import_hook("fcfg", "typecheck.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__annotations__ = {
        name: hint if _speaks_of_arrays(hint) else Any
        for name, hint in function.__annotations__.items()
    }
    return beartype(function)


def _jaxtyped_where_arrays_are(*, typechecker: Any) -> Callable[[Any], Any]:
    def decorate(it: Any) -> Any:
        if isinstance(it, type) and not dataclasses.is_dataclass(it):
            return it
        function = it.__init__ if isinstance(it, type) else it
        hints = (_hint(a, function.__globals__) for a in function.__annotations__.values())
        speaks = any(map(_speaks_of_arrays, hints))
        if not speaks:
            return it
        found = _jaxtyped(it, typechecker=typechecker)
        if not isinstance(it, type):
            return _at_first(found, it)
        found.__init__ = _at_first(found.__init__, function)
        return found

    return decorate


def _at_first(checked: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Check the first calls in each test."""
    test, count = -1, 0

    @wraps(plain)
    def call(*values: Any, **named: Any) -> Any:
        nonlocal test, count
        if test != _test:
            test, count = _test, 0
        count += 1
        return (checked if count <= _MOST else plain)(*values, **named)

    return call


def _hint(annotation: Any, names: dict[str, Any]) -> Any:
    """Evaluate one annotation; one that cannot be is not checked, as in jaxtyping."""
    try:
        holder = SimpleNamespace(__annotations__={"it": annotation})
        return get_type_hints(holder, names, include_extras=True)["it"]
    except Exception:
        return Any


def _speaks_of_arrays(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(_speaks_of_arrays(part) for part in get_args(hint))
