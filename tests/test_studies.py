"""The studies under benchmarks/, on a run that is small enough for a test."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
reversibility = import_module("reversibility")
solver_study = import_module("solver_study")
sys.path.insert(0, str(BENCHMARKS.parent / "docs"))
reproduction = import_module("reproduction")
choosing = import_module("choosing")

FCFG = "fcfg:affected=3.0,invariant=1.2"


@pytest.fixture(scope="module")
def returned(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("study") / "result.json"
    words = [str(finished), "--do", "smiling", "--images", "4", "--steps", "2", "3"]
    words += ["--branch", "the same", str(finished), "--device", "cpu", "--out", str(out)]
    reversibility.main(words)
    return json.loads(out.read_text())


def rows_of(result: dict[str, Any], **facts: Any) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if all(row[k] == v for k, v in facts.items())]


def test_what_is_published_is_the_last_average(returned: dict[str, Any]) -> None:
    published = rows_of(returned, weights="published", steps=2)
    last = max(row["trained"] for row in rows_of(returned, weights="average"))
    for run in ("run", "the same"):
        averages = rows_of(returned, weights="average", trained=last, run=run)
        assert [row["mae"] for row in averages] == [row["mae"] for row in published]
        assert averages[0]["losses"] == published[0]["losses"]


def test_other_weights_and_other_steps_are_others(returned: dict[str, Any]) -> None:
    published = rows_of(returned, weights="published", steps=2)
    first = min(row["trained"] for row in rows_of(returned, weights="average"))
    for others in (
        rows_of(returned, weights="last"),
        rows_of(returned, weights="published", steps=3),
        rows_of(returned, weights="average", trained=first),
    ):
        assert [row["guidance"] for row in others] == ["none", "cfg:3.0", FCFG]
        assert [row["mae"] for row in others] != [row["mae"] for row in published]


def test_a_result_says_how_it_came_about_but_not_where(returned: dict[str, Any]) -> None:
    assert returned["command"].startswith("python benchmarks/reversibility.py ")
    assert "/tmp" not in json.dumps(returned)
    losses = returned["rows"][0]["losses"]
    assert list(losses) == ["whole", "none", "target only", "all but target"]
    assert len(set(losses.values())) == 4


def test_the_page_has_a_line_for_every_way_to_go_back(
    returned: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "celeba-reversibility.json"
    assert "not been measured yet" in reproduction.reversibility(file)
    file.write_text(json.dumps(returned))
    lines = [line for line in reproduction.reversibility(file).splitlines() if "weights" in line]
    assert len(lines) == len(returned["rows"]) / 3
    assert lines[0].startswith("| published weights, float32, 2 steps | ")
    assert f" | {returned['rows'][2]['against_cfg']['value']:+.3f} [" in lines[0]
    assert "the same" in lines[-1]


@pytest.fixture(scope="module")
def compared(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("solvers")
    out = folder / "result.json"
    words = [str(finished), "--do", "smiling", "--images", "3", "--device", "cpu"]
    words += ["--reference", "ddim uniform 3", "--sweep", "bdia uniform 2", "ddim uniform 3"]
    words += ["--work", str(folder / "work"), "--out", str(out)]
    solver_study.main(words)
    return json.loads(out.read_text())


def test_the_reference_is_equal_to_itself_and_another_way_is_not(compared: dict[str, Any]) -> None:
    reference = rows_of(compared, way="ddim uniform 3")
    other = rows_of(compared, way="bdia:0.3 uniform 2")
    assert [row["guidance"] for row in reference] == ["none", "cfg:3.0", FCFG]
    assert all(row["misses"] == [] for row in reference)
    assert any(row["misses"] for row in other)
    assert [row["evaluations"] for row in reference] == [6, 9, 12]
    assert [row["evaluations"] for row in other] == [5, 7, 9]  # one more where abduction ends
    assert "/tmp" not in json.dumps(compared)


def test_a_study_becomes_a_table_and_a_picture(compared: dict[str, Any], tmp_path: Path) -> None:
    assert "not been measured yet" in choosing.study("mine", tmp_path)
    file = tmp_path / "solvers-mine.json"
    file.write_text(json.dumps(compared))
    lines = [line for line in choosing.study("mine", tmp_path).splitlines() if " of 3 |" in line]
    assert [line.partition(" | ")[0] for line in lines] == [
        "| **ddim uniform 3**",  # which is equal to itself
        "| bdia:0.3 uniform 2",
    ]
    assert lines[0].endswith(" | 3 of 3 |")
    assert [line.split(" | ")[1] for line in lines] == ["12", "9"]
    back = fmean(row["reversal"]["value"] for row in rows_of(compared, guidance=FCFG)[1:])
    assert f" | {back:.4f} | " in lines[1]
    titles = [element.text for element in ElementTree.fromstring(choosing.picture(file)).iter()]
    dots = [text for text in titles if text and " rows, " in text]
    panels = 1 if compared["rows"][0]["truth"] is None else 2
    assert len(dots) == 2 * panels
    assert any(dot == f"bdia:0.3 uniform 2: 9 rows, {back:.4f}" for dot in dots)


def test_a_way_is_read_as_it_is_written() -> None:
    for text in (solver_study.REFERENCE, *solver_study.SWEEP):
        assert str(solver_study.Way.parse(text)) == text
