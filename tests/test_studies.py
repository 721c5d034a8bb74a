"""The studies under tools/, on a run that is small enough for a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import execution_rates
import precision
import reproduction_tables
import reversibility
import solver_study
import solver_tables
import speed_tables

FCFG = "fcfg:affected=3.0,invariant=1.2"
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")  # a CPU's bf16


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
    assert returned["command"].startswith("python tools/reversibility.py ")
    assert "/tmp" not in json.dumps(returned)
    losses = returned["rows"][0]["losses"]
    assert list(losses) == ["whole", "none", "target only", "all but target"]
    assert len(set(losses.values())) == 4


def test_the_page_has_a_line_for_every_way_to_go_back(
    returned: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "celeba-reversibility.json"
    assert "not been measured yet" in reproduction_tables.reversibility(file)
    file.write_text(json.dumps(returned))
    lines = [
        line for line in reproduction_tables.reversibility(file).splitlines() if "weights" in line
    ]
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
    assert "not been measured yet" in solver_tables.study("mine", tmp_path)
    file = tmp_path / "solvers-mine.json"
    file.write_text(json.dumps(compared))
    lines = [
        line for line in solver_tables.study("mine", tmp_path).splitlines() if "uniform" in line
    ]
    lines = [line for line in lines if line.startswith("| ")]
    assert [line.partition(" | ")[0] for line in lines] == [
        "| **ddim uniform 3**",  # which is equal to itself
        "| bdia:0.3 uniform 2",
    ]
    assert lines[0].endswith(" | no guidance, CFG, FCFG |")
    rules = zip(
        ("no guidance", "CFG", "FCFG"), rows_of(compared, way="bdia:0.3 uniform 2"), strict=True
    )
    equal = [rule for rule, row in rules if not row["misses"]]
    assert lines[1].endswith(f" | {', '.join(equal) or '–'} |")
    assert [line.split(" | ")[1] for line in lines] == ["12", "9"]
    back = fmean(row["reversal"]["value"] for row in rows_of(compared, guidance=FCFG)[1:])
    assert f" | {back:.4f} | " in lines[1]
    titles = [
        element.text for element in ElementTree.fromstring(solver_tables.picture(file)).iter()
    ]
    dots = [text for text in titles if text and " uniform " in text and ", " in text]
    panels = 1 if compared["rows"][0]["truth"] is None else 2
    assert len([dot for dot in dots if " network rows, " in dot]) == 2 * panels
    assert len([dot for dot in dots if " seconds, " in dot]) == 2 * panels
    assert f"bdia:0.3 uniform 2: 9 network rows, {back:.4f}" in dots


def test_ways_stand_solver_by_solver_after_the_reference(compared: dict[str, Any]) -> None:
    def steps(way: str, count: int) -> list[dict[str, Any]]:
        return [
            row | {"way": f"{way} {count}", "evaluations": count} for row in compared["rows"][:3]
        ]

    ways = [("ddim uniform", 9), ("bdia uniform", 2), ("ddim uniform", 5), ("bdia uniform", 7)]
    rows = [row for way in ways for row in steps(*way)]
    assert [line.way for line in solver_tables.lines_of({"rows": rows})] == [
        "ddim uniform 9",
        *("bdia uniform 7", "bdia uniform 2"),
        "ddim uniform 5",
    ]


@pytest.fixture(scope="module")
def rounded(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("precision") / "precision-celeba.json"
    words = [str(finished), "--do", "smiling", "--images", "3", "--device", "cpu"]
    precision.main([*words, "--finer", "dpm-2m karras 30", "--out", str(out)])
    return json.loads(out.read_text()) | {"folder": out.parent}


def test_rounding_in_half_of_the_steps_is_another_answer(rounded: dict[str, Any]) -> None:
    """And float32 in all of them is none; a finer way is another answer, too."""
    away = {(row["precision"], row["way"]): row["mean"] for row in rounded["rows"]}
    default = str(solver_study.PRESETS["default"])
    assert away["float32", default] == 0
    whole = away["bf16", default]
    for half in ("noisiest", "cleanest"):
        assert 0 < away[f"bf16, {half} half float32", default] != whole
    assert away["float32", "dpm-2m karras 30"] > 0
    assert all(row["largest"] >= row["mean"] for row in rounded["rows"])
    text = json.dumps({key: value for key, value in rounded.items() if key != "folder"})
    assert "/tmp" not in text


def test_the_page_has_a_line_for_every_precision(rounded: dict[str, Any], tmp_path: Path) -> None:
    assert "not been measured yet" in speed_tables.precision(tmp_path)
    page = speed_tables.precision(rounded["folder"])
    for row in rounded["rows"]:
        assert f"| {row['precision']} | {row['way']} | {row['mean']:.5f} |" in page
    assert "3 images, do(smiling)" in page


def test_the_network_asked_is_the_one_whose_turn_it_is() -> None:
    def says(number: float) -> Callable[..., torch.Tensor]:
        return lambda x, t, c: torch.full_like(x, number)

    partly, x = precision.PartlyExact(says(1.0), says(2.0), 500), torch.zeros(2, 3)
    for time, answer in ((1000, 1.0), (501, 1.0), (500, 2.0), (1, 2.0)):
        assert torch.equal(partly(x, torch.full((2,), time), x), torch.full_like(x, answer))


def test_a_way_is_read_as_it_is_written() -> None:
    for text in (solver_study.REFERENCE, *solver_study.SWEEP):
        assert str(solver_study.SamplingConfig.parse(text)) == text


def test_rates_are_measured_and_written(tmp_path: Path) -> None:
    words = ["--rows", "1", "--ways", "as loaded", "prepared", "--out", str(tmp_path / "x.json")]
    found = execution_rates.main(words)
    assert list(found["rows_per_second"]["1"]) == ["as loaded", "prepared"]
    assert all(rate > 0 for rate in found["rows_per_second"]["1"].values())
    assert json.loads((tmp_path / "x.json").read_text()) == found
