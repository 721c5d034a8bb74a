"""Break each formula once, and see which law notices.

    python studies/mutations.py                           # all mutations
    python studies/mutations.py sampling hvae/likelihood  # those of files that begin like this
    python studies/mutations.py --unbroken                # the same tests, with nothing broken
    python studies/mutations.py --table studies/planted.yaml --out studies/results/planted.json

``mutations.yaml`` names each mutation, its file under ``src/fcfg``, what replaces what, and the
test files that should notice. Mutations are made in a copy of the tree, one after the other. The
first test that fails goes to ``results/mutations.json``, in place of the old answer for the same
mutation, and is asked first next time. ``survived`` there lists what no test noticed at a commit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT, HERE = Path(__file__).parents[1], Path(__file__).parent
SOURCE = ROOT / "src/fcfg"
TABLE, RESULTS = HERE / "mutations.yaml", HERE / "results" / "mutations.json"
SURVIVED, LATE = "survived", "no answer in time"
#: Each mutation has a process, which finds these imported; they take most of the time of a start.
FORK = multiprocessing.get_context("fork")
HEAVY = (
    *(
        "torch",
        "zuko",
        "networkx",
        "accelerate",
        "safetensors.torch",
        "PIL.Image",
        "rich.progress",
    ),
    *("typer", "pydantic", "jaxtyping", "beartype.claw", "hypothesis.strategies", "jinja2"),
)


@dataclass(frozen=True)
class Mutation:
    """One broken formula."""

    name: str
    file: str  #: under src/fcfg
    before: str
    after: str
    tests: tuple[str, ...]  #: files, the likeliest first

    def of(self, source: str) -> str:
        """Break a source; refuse one where the fragment does not stand exactly once."""
        if source.count(self.before) != 1 or self.before == self.after:
            found = f"{source.count(self.before)} times"
            raise SystemExit(f"{self.file}, '{self.name}': the fragment stands {found}")
        return source.replace(self.before, self.after)


def mutations(table: Mapping[str, Any]) -> Iterator[Mutation]:
    """Read the table; tests are those of the longest prefix of the file."""
    for file, own in table["mutations"].items():
        prefix = max((p for p in table["tests"] if file.startswith(p)), key=len)
        tests = tuple(f"{test}.py" for test in table["tests"][prefix].split())
        if file.endswith(".py"):
            tests += (f"../src/fcfg/{file}",)  # its examples
        for name, (before, after) in own.items():
            yield Mutation(name, file, before, after, tests)


class Witness:
    """A plugin of pytest that keeps the first failure."""

    answer = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Keep the name of the test, without its parameters."""
        if report.failed and not self.answer:
            self.answer = report.nodeid.removeprefix("tests/").partition("[")[0]

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Refuse a run that did not get to its tests; a file may have no examples."""
        if exitstatus not in (0, 1, 5) and not self.answer:
            raise SystemExit(f"pytest ended with {int(exitstatus)}")


def answer(tree: Path, tests: tuple[str, ...], seconds: int, out: Connection) -> None:
    """Run tests in a tree, and send the first that fails; runs in a process of its own."""
    os.chdir(tree)
    sys.path.insert(0, str(tree / "src"))
    os.environ["PYTHONPATH"] = str(tree / "src")
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    witness = Witness()
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "anyio.pytest_plugin")
    for group in (tests[:1], tests[1:]):
        if group and not witness.answer:
            pytest.main([*options, *(f"tests/{name}" for name in group)], plugins=[witness])
    out.send(witness.answer or SURVIVED)


def noticed(tree: Path, tests: tuple[str, ...], seconds: int) -> str:
    """Return the first test that fails in a tree, or that none does."""
    ours, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=answer, args=(tree, tests, seconds, theirs))
    process.start()
    theirs.close()
    try:
        return str(ours.recv())
    except EOFError:
        process.join()
        if process.exitcode != -signal.SIGXCPU:
            raise SystemExit(f"pytest ended with {process.exitcode} in {tree}") from None
        return LATE
    finally:
        process.join()


def main() -> None:
    """Run the mutations that the arguments name."""
    parser = argparse.ArgumentParser(description="Break each formula once; see which law notices.")
    parser.add_argument("files", nargs="*", default=[""], help="beginnings of files; default: all")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--seconds", type=int, default=150, help="CPU time of each, at most")
    parser.add_argument("--unbroken", action="store_true", help="run the tests and break nothing")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    table = yaml.safe_load(given.table.read_text("utf-8"))
    chosen = [m for m in mutations(table) if m.file.startswith(tuple(given.files))]
    for mutation in chosen:
        mutation.of((SOURCE / mutation.file).read_text("utf-8"))
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in HEAVY:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree, skipped = Path(folder) / "tree", (".git", ".venv*", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(*skipped))
        if given.unbroken:
            tests = tuple(dict.fromkeys(test for m in chosen for test in m.tests))
            print(noticed(tree, tests, given.seconds * len(tests)))
            return
        for mutation in chosen:
            file = tree / "src/fcfg" / mutation.file
            source = file.read_text("utf-8")
            known = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
            own = known.setdefault("noticed", {}).setdefault(mutation.file, {})
            first, _, test = own.get(mutation.name, "").partition("::")
            before = tree / "tests" / first
            knows = before.is_file() and f"def {test}(" in before.read_text("utf-8")
            file.write_text(mutation.of(source), "utf-8")
            tests = ((f"{first}::{test}",) if knows else ()) + mutation.tests
            own[mutation.name] = noticed(tree, tests, given.seconds)
            file.write_text(source, "utf-8")
            print(f"{mutation.file}, {mutation.name}: {own[mutation.name]}", flush=True)
            given.out.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
