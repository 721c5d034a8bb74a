"""Check the rules of CONTRIBUTING.md that a program can check; part of ``make lint``.

    python studies/check_house.py

Import rules are checked by lint-imports, generated sections by tests/test_pages.py.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_LINES, MOST_WORDS, MOST_BYTES = 400, 700, 500_000
#: First words of an argument's description that are not a noun phrase.
REFUSED = ("Of ", "What ", "How ", "Where ", "Told ", "True if ")


def long_files(root: Path) -> Iterator[str]:
    """Find modules with too many lines."""
    for file in sorted(root.glob("src/**/*.py")):
        lines = len(file.read_text("utf-8").splitlines())
        if lines > MOST_LINES:
            yield f"{file.relative_to(root)}: {lines} lines, at most {MOST_LINES}"


def long_readme(root: Path) -> Iterator[str]:
    """Count the words of the README outside code, including tables."""
    text = (root / "README.md").read_text("utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    words = len([word for word in text.split() if re.search(r"\w", word)])
    if words > MOST_WORDS:
        yield f"README.md: {words} words outside code, at most {MOST_WORDS}"


def poor_arguments(root: Path) -> Iterator[str]:
    """Find descriptions of arguments that are not noun phrases."""
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for file in sorted(root.glob("src/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, documented):
                continue
            _, _, arguments = (ast.get_docstring(node) or "").partition("\nArgs:\n")
            section = re.split(r"\n\n?(?=\S)", arguments)[0]
            for name, text in re.findall(r"^ +(\*{0,2}\w+): (.*)", section, re.MULTILINE):
                if text.startswith(REFUSED):
                    place = f"{file.relative_to(root)}:{node.lineno}: {node.name}"
                    yield f"{place}, {name}: '{text}'; say what it is, as a noun phrase"


def undocumented_methods(root: Path) -> Iterator[str]:
    """Find public methods that have no docstring, and inherit none from a class of the package."""
    trees = {file: ast.parse(file.read_text("utf-8")) for file in sorted(root.glob("src/**/*.py"))}
    found = [(file, node) for file, tree in trees.items() for node in ast.walk(tree)]
    classes = [(file, node) for file, node in found if isinstance(node, ast.ClassDef)]
    by_name = {node.name: node for _, node in classes}

    def is_documented(node: ast.ClassDef, name: str) -> bool:
        own = [each for each in node.body if getattr(each, "name", None) == name]
        bases = [
            by_name.get(word) for b in node.bases for word in re.findall(r"\w+", ast.unparse(b))
        ]
        above = any(is_documented(base, name) for base in bases if base not in (None, node))
        return any(ast.get_docstring(each) for each in own) or above

    for file, node in classes:
        for method in node.body:
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            is_public = not method.name.startswith("_") and not node.name.startswith("_")
            is_stub = ast.unparse(method.body) == "..."
            if is_public and not is_stub and not is_documented(node, method.name):
                place = f"{file.relative_to(root)}:{method.lineno}: {node.name}.{method.name}"
                yield f"{place}: no docstring, and none of a base class"


def missing_paths(root: Path) -> Iterator[str]:
    """Find paths in pyproject.toml that do not exist, where a tool would silently do nothing."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    tool, build = settings["tool"], settings["tool"]["hatch"]["build"]["targets"]
    paths = [
        *tool["basedpyright"]["include"],
        *tool["ruff"]["src"],
        *tool["pytest"]["ini_options"]["testpaths"],
        *tool["pytest"]["ini_options"]["pythonpath"],
        *build["wheel"]["packages"],
        *build["sdist"]["include"],
        tool["hatch"]["version"]["path"],
        *settings["project"]["license-files"],
    ]
    yield from (
        f"pyproject.toml: no {path}" for path in paths if not (root / path.lstrip("/")).exists()
    )


def heavy_files(root: Path) -> Iterator[str]:
    """Find files that would swell the history; weights of shipped models are exempt."""
    for folder in ("docs", "src", "studies", "tests"):
        for file in sorted(path for path in (root / folder).rglob("*") if path.is_file()):
            size = file.stat().st_size
            if size > MOST_BYTES and file.suffix != ".safetensors" and "_build" not in file.parts:
                name = file.relative_to(root)
                yield f"{name}: {size:,} bytes, at most {MOST_BYTES:,}"


CHECKS = (
    heavy_files,
    long_files,
    long_readme,
    poor_arguments,
    undocumented_methods,
    missing_paths,
)


def main(root: Path = ROOT) -> int:
    """Print all problems."""
    problems = [problem for check in CHECKS for problem in check(root)]
    print(*problems, f"{len(problems)} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
