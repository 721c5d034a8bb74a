"""Distances to held-out real images of the requested value, on known Gaussians and whole runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluations import asked, evaluation, folder_model, shared_model
from fcfg.datasets import portraits
from fcfg.evaluation import Result, choose_subset, summarise
from fcfg.evaluation.realism import FEWEST, classes_of, realism_entries
from fcfg.evaluation.subset import numbered
from fcfg.metrics import MIN_IMAGES, frechet_distance, kernel_distance
from fcfg.metrics.kernel import with_margin
from fcfg.reports import compare
from fcfg.reports.page import build_page, make_figures
from fcfg.reports.tables import numbers
from fcfg.support.images import images_from_bytes
from refusal import all_refused


def gaussian(n: int, seed: int, mean: float = 0.0, width: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, size=(n, width))


# Distances between sets -------------------------------------------------------------------------


def test_the_kernel_distance_is_the_sum_written_out() -> None:
    x, y = gaussian(7, 0, width=3), gaussian(5, 1, 0.5, width=3)

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return (sum(p * q for p, q in zip(a, b, strict=True)) / 3 + 1) ** 3

    def within(some: np.ndarray) -> float:
        pairs = [kernel(a, b) for i, a in enumerate(some) for j, b in enumerate(some) if i != j]
        return sum(pairs) / len(pairs)

    between = [kernel(a, b) for a in x for b in y]
    wanted = within(x) + within(y) - 2 * sum(between) / len(between)
    assert kernel_distance(x, y) == pytest.approx(wanted)
    assert kernel_distance(y, x) == pytest.approx(wanted)
    all_refused("features", partial(kernel_distance, x, y[:, :2]))
    all_refused("others", partial(kernel_distance, x, y[:1]))


@pytest.mark.parametrize(("mean", "wanted"), [(0.0, 0.0), (1.0, 22.0)])
def test_the_kernel_distance_has_no_bias_and_is_that_of_the_moments(mean, wanted) -> None:
    """Of N(0, 1) and N(1, 1): 3 (0 - 1)² + 3 (1 - 2)² + (0 - 4)² from the first three moments."""
    few = [kernel_distance(gaussian(12, 2 * k), gaussian(9, 2 * k + 1, mean)) for k in range(3000)]
    assert np.mean(few) == pytest.approx(wanted, abs=3.5 * np.std(few) / np.sqrt(len(few)))


@pytest.mark.parametrize("distance", [frechet_distance, kernel_distance])
def test_the_margin_is_the_spread_of_new_sets(distance) -> None:
    draws = [
        with_margin(
            distance, gaussian(200, 2 * k, width=4), gaussian(200, 2 * k + 1, 0.7, width=4)
        )
        for k in range(80)
    ]
    values, margins = np.array(draws).T
    x, y = gaussian(200, 0, width=4), gaussian(200, 1, 0.7, width=4)
    assert values[0] == distance(x, y)
    assert np.mean(margins) == pytest.approx(1.96 * np.std(values), rel=0.2)


# The entries of a run ---------------------------------------------------------------------------

N = 2 * FEWEST + 40


def toy(kind: dict[str, Any], wanted: list[Any], own: list[Any]) -> Result:
    """A run of one attribute under one intervention, with two settings."""
    images = [f"{k:03d}" for k in range(len(own))]
    settings = ("none", "cfg:2.0")
    header = {
        "images": images,
        "attributes": {"a": kind},
        "questions": [["a", s] for s in settings],
    }
    rows = {
        ("a", s, image): {"target": {"a": value}}
        for s in settings
        for image, value in zip(images, wanted, strict=True)
    }
    real = {image: {"attributes": {"a": value}} for image, value in zip(images, own, strict=True)}
    return Result(header, rows, real, {}, {}, None)


def test_answers_are_compared_with_as_many_real_images_of_their_value() -> None:
    own = [k % 2 for k in range(N)]
    result = toy({"kind": "binary"}, [1 - value for value in own], own)
    rows = {value: [k for k in range(N) if own[k] != value] for value in (0, 1)}
    assert classes_of(result, "a") == {"1": rows[1], "0": rows[0]}
    factual, answers = ({"judge": gaussian(N, k, k, width=2)} for k in (0, 1))
    other = {"judge": gaussian(N, 9, 3, width=2)}
    real = {"1": {"judge": gaussian(2 * N, 5, 1, width=2)}}
    real["0"] = {"judge": gaussian(2 * FEWEST + 11, 6, 2, width=2)}
    found = realism_entries(result, "a", factual, {"none": answers, "cfg:2.0": other}, real)
    entries = {(e["guidance"], e["metric"]): e for e in found}
    assert len(entries) == 4
    counts = {1: len(rows[1]), 0: FEWEST + 5}
    for (guidance, metric), entry in entries.items():
        assert entry["n"] == FEWEST + 5
        distance = frechet_distance if metric[:2] == "FD" else kernel_distance
        made = (answers if guidance == "none" else other)["judge"]
        parts: dict[str, list[tuple[float, float]]] = {"value": [], "no_change": [], "real": []}
        for value, n in counts.items():
            held, asked_of = real[str(value)]["judge"], rows[value][:n]
            sides = {"value": made[asked_of], "no_change": factual["judge"][asked_of]}
            for name, side in (sides | {"real": held[n : 2 * n]}).items():
                parts[name].append(with_margin(distance, side, held[:n]))
        for name, some in parts.items():
            middle, margin = np.mean([v for v, _ in some]), np.hypot(some[0][1], some[1][1]) / 2
            known = (
                [entry[k] for k in ("value", "low", "high")] if name == "value" else entry[name]
            )
            assert known == pytest.approx([middle, middle - margin, middle + margin])
    assert entries["none", "KID-judge to real"]["real"][1] < 0
    result.distances["a", "none", "FD-judge to real"] = {}
    again = realism_entries(result, "a", factual, {"none": answers}, real)
    assert [entry["metric"] for entry in again] == ["KID-judge to real"]


def test_values_without_enough_images_and_quantities_have_no_distance() -> None:
    own = [0] * (FEWEST - 1) + [1] * FEWEST
    result = toy({"kind": "binary"}, [1 - value for value in own], own)
    features = {"judge": gaussian(len(own), 0)}
    real = {name: {"judge": gaussian(2 * FEWEST, 1)} for name in "01"}
    about = (result, "a", features, {"none": features})
    assert {entry["n"] for entry in realism_entries(*about, real)} == {FEWEST}
    few = real | {"0": {"judge": gaussian(2 * FEWEST - 1, 1)}}
    assert not list(realism_entries(*about, few))
    assert not list(realism_entries(*about, {}))
    levels = {"kind": "categorical", "levels": ["x", "y", "z"]}
    assert classes_of(toy(levels, ["y", "z", "y"], ["x", "y", "y"]), "a") == {"y": [0], "z": [1]}
    amount = {"kind": "continuous", "low": 0.0, "high": 1.0}
    assert classes_of(toy(amount, [0.5, 0.1], [0.1, 0.5]), "a") == {}


# Whole runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("realism") / "run"
    parts = [evaluation(folder, QUICK, shard=(k, 2)).run() for k in range(2)]
    return parts[-1]


COUNT = MIN_IMAGES + 60
QUICK = asked(do=("smiling",), guidance=(), images=COUNT, composition=False, reverse=False)


def test_a_run_compares_with_drawings_it_did_not_ask_about(run: Result, tmp_path: Path) -> None:
    judge, subset = shared_model().judge, choose_subset(shared_model(), QUICK)
    drawn = portraits.sample(3 * COUNT, portraits.EVALUATION_SEED, 8)
    held = subset.held_out
    assert set(subset.names).isdisjoint(held.names)
    shown = images_from_bytes(held.images)
    assert (shown - drawn.images[COUNT:]).abs().max() < 0.005
    table = drawn.attributes["smiling"]
    assert (held.attributes["smiling"] == table[COUNT:]).all()
    factual, others = (
        judge.read(i).features for i in (subset.images, images_from_bytes(held.images))
    )
    expected, counts = [], []
    for value in (0, 1):
        rows = np.flatnonzero(table[:COUNT] != value)
        real = others[table[COUNT:] == value]
        n = min(len(rows), len(real) // 2)
        counts.append(n)
        if n >= FEWEST:
            sides = factual[rows[:n]], real[n : 2 * n]
            expected.append([frechet_distance(side, real[:n]) for side in sides])
    entry = run.distances["smiling", "none", "FD-judge to real"]
    assert entry["n"] == min(n for n in counts if n >= FEWEST)
    no_change, apart = np.mean(expected, axis=0)
    assert (entry["no_change"][0], entry["real"][0]) == pytest.approx((no_change, apart), rel=2e-3)


def test_reports_show_no_change_and_real_images_beside_the_answers(run: Result) -> None:
    cell = summarise(run).cells["smiling", "none"]
    for metric, name, scale in (("fd", "FD", 1), ("kid", "KID", 1000)):
        entry = run.distances["smiling", "none", f"{name}-judge to real"]
        own = cell.whole(f"real_{metric}_judge")
        shown = own.value, own.low, own.high
        assert shown == pytest.approx([scale * entry[k] for k in ("value", "low", "high")])
        beside = cell.numbers[f"real_{metric}_judge", "no change"]
        assert beside.value == pytest.approx(scale * entry["no_change"][0])
    comparison = compare(run.folder, resamples=50)
    table = numbers(comparison, "smiling")
    assert [row.names[-1] for row in table.rows][-2:] == ["no change", "real against real"]
    page = build_page(comparison, make_figures(comparison))
    assert page.count("real against real") >= 2
    assert "real against real" not in page.split('id="numbers"')[0]


def test_few_images_are_compared_with_none_and_a_folder_with_the_rest(tmp_path: Path) -> None:
    few = asked(images=MIN_IMAGES - 1)
    assert choose_subset(shared_model(), few).held_out is None
    model = folder_model(tmp_path / "faces", MIN_IMAGES + 30)
    subset = choose_subset(model, asked(images=MIN_IMAGES, balance=()))
    assert (len(subset), len(subset.held_out)) == (MIN_IMAGES, 30)
    assert set(subset.names).isdisjoint(subset.held_out.names)
    assert subset.held_out.images.shape == (30, 3, 8, 8)
    assert list(subset.held_out.names) != sorted(subset.held_out.names)
    people = folder_model(tmp_path / "people", MIN_IMAGES + 30, each=5)
    held = choose_subset(people, asked(images=MIN_IMAGES, balance=())).held_out
    owners = numbered(str(int(name[:3]) // 5) for name in held.names)
    assert owners == sorted(owners)  # those of one person stand together
    whole = choose_subset(model, asked(images=MIN_IMAGES + 30, balance=()))
    assert whole.held_out is None
