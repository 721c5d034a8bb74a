"""The run-time checker of the tests: shapes and number types of tensors, nothing else.

Other types are the static checker's business; what callers without one pass must reach the
package's own refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__annotations__ = {
        name: hint if _speaks_of_arrays(hint) else Any
        for name, hint in function.__annotations__.items()
    }
    return beartype(function)


def _speaks_of_arrays(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_speaks_of_arrays(part) for part in get_args(hint))
