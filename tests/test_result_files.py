"""Result files: lines that no evaluation wrote are refused, whatever is wrong with them."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from evaluations import asked, evaluation
from fake_results import make_results
from fcfg.evaluation import read_results
from fcfg.evaluation import result_files as files_module
from fcfg.evaluation.result_files import JSON
from refusal import refused


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result file with attributes of all kinds, two images and one question."""
    folder = tmp_path_factory.mktemp("run")
    make_results(folder, 2, mixed=True, pictures=0, dos=("age",), settings=("none",))
    return folder / "results-0-of-1.jsonl"


def lines_of(file: Path) -> list[Any]:
    """Of one kind each: a header, a real image, a row, a distance; the others between them."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def unsealed(file: Path, lines: Iterable[Any]) -> Path:
    """Written without digests, as if by hand."""

    def bare(line: Any) -> Any:
        return {k: v for k, v in line.items() if k != "check"} if hasattr(line, "keys") else line

    file.write_text("".join(json.dumps(bare(line)) + "\n" for line in lines), "utf-8")
    return file


def another(number: int, **change: Any) -> Callable[[list[JSON]], list[Any]]:
    """A copy of a line at the end, with some other values."""
    return lambda lines: [*lines, lines[number] | change]


def headed(**change: Any) -> Callable[[list[JSON]], list[Any]]:
    """Another header."""
    return lambda lines: [lines[0] | change, *lines[1:]]


LINES: dict[str, tuple[Callable[[list[JSON]], list[Any]], str]] = {
    "no header": (lambda lines: lines[1:], "result file"),
    "another schema": (headed(schema=2), "line 1"),
    "half a header": (lambda lines: [{"kind": "run", "schema": 1}], "line 1, experiment"),
    "half a row": (lambda lines: [*lines, {"kind": "row"}], "line 9, do"),
    "a kind": (lambda lines: [*lines, {"kind": "rows"}], "line 9"),
    "a kind of another type": (lambda lines: [*lines, {"kind": ["row"]}], "line 9"),
    "no kind": (lambda lines: [*lines, {"do": "male"}], "line 9"),
    "no object": (lambda lines: [*lines, ["row"]], "line 9"),
    "a row twice": (another(-2), "line 9"),
    "a row of another question": (another(-2, do="male"), "line 9"),
    "a row of another image": (another(-2, image="x"), "line 9"),
    "a row of no image": (another(-2, image=["x"]), "line 9, image"),
    "an image twice": (another(1), "line 9"),
    "another image": (another(1, image="x"), "line 9"),
    "a distance of another question": (another(-1, do="male"), "line 9"),
    "images that are none": (headed(images="abc"), "line 1, images"),
    "the same image": (headed(images=["a", "a"]), "line 1, images"),
    "half a question": (headed(questions=[["male"]]), "line 1, questions"),
    "no attributes": (headed(attributes={"a": 1}), "line 1, attributes"),
    "an attribute": (headed(attributes={"a": {"kind": "x"}}), "line 1, attribute 'a', kind"),
    "a graph": (headed(graph={"male": []}), "line 1, graph"),
    "a graph of lists": (headed(graph={"male": [["sex"]]}), "line 1, graph"),
    "a model that is a text": (headed(model="x"), "line 1, model"),
    "metrics that are a list": (headed(metrics=[]), "line 1, metrics"),
    "a device that is none": (headed(environment={"device": None}), "line 1, environment, device"),
    "traits that are none": (
        headed(model={"name": "m", "digest": "d", "traits": None}),
        "line 1, model, traits",
    ),
    "steps that are a text": (headed(steps="9"), "line 1, steps"),
    "another run": (lambda lines: [*lines, lines[0] | {"seed": 7}], "results"),
}


def test_lines_that_do_not_belong_are_refused(run: Path, tmp_path: Path) -> None:
    for edit, subject in LINES.values():
        file = unsealed(tmp_path / "run.jsonl", edit(lines_of(run)))
        refused(subject).by(read_results, file)


LONG = "a title that says much " * 5


def test_another_run_is_told_by_where_it_differs(run, tmp_path) -> None:
    """A part, an item, fewer items, or the end of a text."""
    about = {"title": f"{LONG}old", "model": {"name": "m", "about": LONG, "digest": "1"}}
    first = lines_of(run)[0] | about
    for change, *fragments in (
        ({"model": first["model"] | {"digest": "2"}}, '(model.digest: "1")', 'digest: "2")'),
        ({"images": [*first["images"][:1], "new"]}, '(images.1: "s', '(images.1: "new")'),
        ({"images": first["images"][:1]}, "(length of images: 2)", "(length of images: 1)"),
        ({"title": f"{LONG}new"}, "(title: ...", "much old", "much new"),
    ):
        file = unsealed(tmp_path / "run.jsonl", [first, first | change])
        refused("results", *fragments).by(read_results, file)


TRUTH = ("mae", "missed", "changed", "factors", "target")
DISTANCE = {"mae": 0.1, "lpips": None}
#: The number of a line, the path of a field, and values that it cannot have.
VALUES: list[tuple[Any, ...]] = [
    *((7, "scores.sex", 99, -0.1, "0.5", True), (7, "scores.race", [0.5, 0.1, 0.1], [0.5, 0.5])),
    *((7, "scores.age", 99), (7, "scores", {"sex": 0.5}, None), (7, "target.sex", 0.5)),
    *((7, "target.race", "red", 1), (7, "factors", {"sex": None}), (7, "change.mae", 2.1)),
    (7, "change", {"mae": 0.1}, DISTANCE | {"fid": 1}),
    (7, "reversal", DISTANCE | {"mae": -0.1}, DISTANCE | {"lpips": -1}),
    (7, "truth", {"mae": 0.1}, dict.fromkeys(TRUTH, -1)),
    *((7, "evaluations", 0), (7, "seconds", -0.5, float("inf"))),
    *((2, "unrelated", 3), (2, "attributes", {}), (2, "scores", {}), (2, "factors", [1])),
    *((7, "fresh", DISTANCE | {"mae": -0.1}), (7, "repeated", {"mae": 0.1})),
    *((8, "n", 0), (8, "low", "0"), (8, "real", [1.0, 2.0], 1.0), (8, "no_change", [1, 2, "3"])),
    (1, "groups", {"of": "patients"}, {"of": "patients", "rows": [0]}, {"of": "x", "rows": ["a"]}),
]


def test_numbers_that_cannot_be_are_refused(run: Path, tmp_path: Path) -> None:
    for number, path, value in ((n, p, value) for n, p, *values in VALUES for value in values):
        lines, (key, _, part) = lines_of(run), path.partition(".")
        line = lines[number - 1]
        line[key] = line[key] | {part: value} if part else value
        file = unsealed(tmp_path / "run.jsonl", lines)
        refused(f"line {number}" + f", {key}" * (value != float("inf"))).by(read_results, file)
    lines = lines_of(run)
    lines[1]["unrelated"] = 0.3
    assert len(read_results(unsealed(tmp_path / "legal.jsonl", lines)).real) == 2


def test_a_line_that_was_changed_is_noticed(tmp_path: Path) -> None:
    """Any line, any number; files without digests are read."""
    evaluation(tmp_path, asked(images=2, guidance=(), do=("smiling",))).run()
    file = tmp_path / "results-0-of-1.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    for number, old, new in (
        (0, '"steps": 2', '"steps": 3'),
        (1, '"male": 0', '"male": 1'),
        (4, '"evaluations": 4', '"evaluations": 6'),
        (4, '"check": "', '"check": "0'),
        (-1, '"n": 2', '"n": 3'),
    ):
        changed = lines[number].replace(old, new)
        assert changed != lines[number], number
        file.write_text("".join(changed if line is lines[number] else line for line in lines))
        refused(f"{file}, line ", "has a digest", "something else").by(read_results, tmp_path)
    bare = unsealed(file, map(json.loads, lines)).read_text().splitlines(keepends=True)
    assert len(read_results(tmp_path).rows) == 4
    file.write_text(lines[0] + "".join(bare[1:]))
    refused(f"{file}, line 2", "a line without one").by(read_results, tmp_path)
    spaced = [json.dumps(json.loads(line), separators=(",", ":")) + "\n" for line in lines]
    file.write_text("".join(spaced))  # as other programs write JSON
    assert len(read_results(tmp_path).rows) == 4


def test_lines_that_no_reader_should_follow_are_refused(run, tmp_path: Path) -> None:
    deep = '{"kind": ' + '{"a": ' * 100_000
    for line in ("[" * 100_000, deep, "1" * 5_000, '{"kind": NaN}'):
        (tmp_path / "run.jsonl").write_text(run.read_text() + line + "\n")
        refused("run.jsonl, line 9", "a JSON object").by(read_results, tmp_path)


BOMBS = {
    "zeros": (b"", b"\0" * 2**20, "lines of at most 32 MiB"),
    "spaces in a header": (b'{"kind": "run", "a": "', b" " * 2**20, "lines of at most 32 MiB"),
    "empty lines": (b"", b"\n" * 2**20, "a JSON object"),
    "the same row": (None, None, "a second one for"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_unpacks_to_much_is_refused_in_little_memory(
    run: Path, tmp_path: Path, bomb: str
) -> None:
    start, piece, fragment = BOMBS[bomb]
    if start is None or piece is None:
        start, last = run.read_bytes(), run.read_bytes().splitlines(keepends=True)[-2]
        piece = last * (2**20 // len(last))
    file = tmp_path / "results.jsonl.gz"
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(start)
        for _ in range(200):
            out.write(piece)
    assert file.stat().st_size < 2**22
    tracemalloc.start()
    try:
        refused(f"result file {file}", fragment).by(read_results, file)
        assert tracemalloc.get_traced_memory()[1] < 150 * 2**20  # of 200 MiB
    finally:
        tracemalloc.stop()


def test_a_file_longer_than_any_run_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MOST", run.stat().st_size)
    read_results(run)
    monkeypatch.setattr(files_module, "MOST", run.stat().st_size - 1)
    refused(f"result file {run}", "GiB in all", "got more").by(read_results, run)


def test_what_is_no_result_file_or_has_no_end_is_refused_at_once(run, tmp_path) -> None:
    whole = gzip.compress(run.read_bytes())
    packed = [whole[:-20], b"{}", whole[:12] + b"\xff" * 30]
    for number, data in enumerate([b"", b"\xff\n", b"{", *packed]):
        file = tmp_path / f"{number}.jsonl{'.gz' if data in packed else ''}"
        file.write_bytes(data)
        refused(f"result file {file}").by(read_results, file)
    refused("nothing.jsonl").by(read_results, tmp_path / "nothing.jsonl")
    begun = tmp_path / "begun"
    begun.mkdir()
    refused(f"results {begun}").by(read_results, begun)
    (begun / "begun.jsonl").write_text("{")
    refused(f"results {begun}").by(read_results, begun, unfinished=True)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for path in (Path("/dev/zero"), tmp_path / "pipe.jsonl", tmp_path):
        refused("result file").by(read_results, path)
    out = tmp_path / "run"
    out.mkdir()
    (out / "results-0-of-1.jsonl").symlink_to("/dev/zero")
    refused("result file").by(evaluation(out, asked(images=2)).run)


def test_packed_files_say_the_same(run: Path, tmp_path: Path) -> None:
    plain, packed = read_results(run), tmp_path / f"{run.name}.gz"
    packed.write_bytes(gzip.compress(run.read_bytes()))
    for there in (packed, tmp_path):
        found = read_results(there)
        assert (found.header, found.rows, found.real) == (plain.header, plain.rows, plain.real)
