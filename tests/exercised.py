"""Which refusals of the package no test makes; costs nothing, unlike the coverage of all lines."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src/fcfg"


def refusals(source: Path = SOURCE) -> set[str]:
    """Return file and line of every ``InputError(…)``."""
    return {
        f"{path}:{node.lineno}"
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "InputError"
    }


class Exercised:
    """A plugin of pytest that lets a run of all tests fail if a refusal was never made."""

    def __init__(self) -> None:
        from fcfg.support.errors import InputError

        self.made: set[str] = set()
        plain: Any = InputError.__init__

        def noting(error: InputError, *values: Any, **named: Any) -> None:
            caller = sys._getframe(1)
            self.made.add(f"{caller.f_code.co_filename}:{caller.f_lineno}")
            plain(error, *values, **named)

        InputError.__init__ = noting

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect what a worker of xdist saw."""
        self.made |= set(getattr(node, "workeroutput", {}).get("refusals", ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the controller, or judge."""
        told = getattr(session.config, "workeroutput", None)
        if told is not None:
            told["refusals"] = sorted(self.made)
        elif missing := sorted(refusals() - self.made):
            print("\nNo test makes these refusals:", *missing, sep="\n  ")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
