"""Minimality and repeated composition: naive references, exact toys, and whole runs of them."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import evaluations
import fake_results
from evaluations import CFG, FCFG, SIZE, asked, evaluation, rows_of, shared_model, tiny_model
from fcfg.datasets import portraits
from fcfg.evaluation import Result, read_results, summarise
from fcfg.guidance import Guidance
from fcfg.metrics import Bootstrap, fifths, image_mae, mean, minimality
from fcfg.reports import compare, write_report
from refusal import refused

DOS = ("male", "male+young")  # both values of male are among the first six images
ANCHORED = f"{CFG};anchor=true"
CYCLED: dict[str, Any] = {"cycles": 3, "do": DOS, "guidance": (CFG, FCFG, ANCHORED)}
STILL, FAR = math.log(0.8 + 0.2 * math.e), math.log(0.8 * math.e + 0.2)


def reference(x: np.ndarray, y: np.ndarray, own: list[Any], wanted: list[Any]) -> list[float]:
    """As counterfactual-benchmark describes it, image by image and pair by pair."""
    found: list[float] = []
    for i in range(len(x)):
        moved = sum(abs(a - b) for a, b in zip(x[i], y[i], strict=True))
        nearer = wished = farther = alike = 0
        for j in range(len(x)):
            apart = sum(abs(a - b) for a, b in zip(x[i], x[j], strict=True))
            wished += own[j] == wanted[i]
            nearer += own[j] == wanted[i] and apart <= moved
            alike += own[j] == own[i]
            farther += own[j] == own[i] and apart >= moved
        if not wished or own[i] == wanted[i]:
            found.append(math.nan)
        else:
            score = 0.8 * math.exp(nearer / wished) + 0.2 * math.exp(farther / alike)
            found.append(math.log(score))
    return found


@pytest.mark.parametrize("n", [7, 300])  # within one batch of comparisons, and in several
def test_minimality_agrees_with_counting_pairs(n: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, size=(n, 3)).astype(float)  # with ties
    y = x + rng.integers(-4, 5, size=(n, 3))
    own, wanted = rng.integers(0, 3, size=n), rng.integers(0, 4, size=n)  # nobody has level 3
    expected = reference(x, y, own.tolist(), wanted.tolist())
    assert np.isnan(expected).any()
    assert minimality(x, y, own, wanted) == pytest.approx(expected, nan_ok=True)
    names = np.array(["a", "b", "c", "d"])
    assert minimality(x, y, names[own], names[wanted]) == pytest.approx(expected, nan_ok=True)
    both = rng.integers(0, 2, size=(n, 2))  # several targets agree only together
    pairs = [list(map(tuple, rows.tolist())) for rows in (both, 1 - both)]
    assert minimality(x, y, both, 1 - both) == pytest.approx(reference(x, y, *pairs), nan_ok=True)


def test_the_extremes_are_known() -> None:
    """Two groups of images, 10 apart, and 1 wide."""
    own = np.repeat([0, 1], 20)
    spread = np.tile(np.linspace(0, 1, 20), 2)
    x = (10 * own + spread)[:, None]
    toward = 1 - 2 * own[:, None]

    def mean_of(y: np.ndarray) -> float:
        return float(minimality(x, y, own, 1 - own).mean())

    assert mean_of(x) == pytest.approx(STILL)  # nothing was done
    assert mean_of(x + 5 * toward) == 0  # further than its own group, nearer than the other
    assert mean_of(x + 99 * toward) == pytest.approx(FAR)
    assert 0 < mean_of(x + 10 * toward) < FAR
    together = np.zeros((40, 1))  # no feature tells images apart
    assert mean_of(together + 1) > 0
    assert minimality(together, together, own, 1 - own) == pytest.approx(1.0)  # the worst


def test_fifths_hold_equally_many_and_features_without_minimality_are_refused() -> None:
    values = np.random.default_rng(0).normal(size=500)
    assert np.bincount(fifths(values, values)).tolist() == [100] * 5
    assert fifths([-99, 99], values).tolist() == [0, 4]
    x, own, wanted = np.zeros((3, 2)), [0, 1, 0], [1, 0, 1]
    for first in (np.zeros(3), x * np.nan):
        refused("minimality").by(minimality, first, x, own, wanted)
    for rest in ((x[:2], own, wanted), (x, own[:2], wanted), (x, own, [[1], [0], [1]])):
        refused("minimality").by(minimality, x, *rest)


@pytest.fixture(scope="module")
def cycled(tmp_path_factory) -> Result:
    """Three cycles, in two shards of unequal blocks."""
    out, experiment = tmp_path_factory.mktemp("cycled"), asked(**CYCLED)
    evaluation(out, experiment, shard=(1, 2)).run()
    return evaluation(out, experiment, shard=(0, 2), block=2).run()


def test_the_null_intervention_is_repeated_under_every_guidance(cycled: Result) -> None:
    assert asked(cycles=3).questions[:3] == (("", "none"), ("", CFG), ("", FCFG))
    assert asked(cycles=3).questions[3:] == asked().questions[1:]
    assert asked(cycles=3, composition=False).questions == asked().questions[1:]
    assert "cycles" not in evaluation(cycled.folder, asked()).header
    assert cycled.header["cycles"] == 3
    for row in (row for row in cycled.rows.values() if row["do"]):
        assert "repeated" not in row
        assert None not in (row["reversal"], row["truth"])
    for row in (row for row in cycled.rows.values() if not row["do"]):
        assert "repeated" in row
        assert (row["reversal"], row["truth"]) == (None, None)
        assert row["target"] == cycled.real[row["image"]]["attributes"]


@pytest.mark.parametrize("guidance", ["none", CFG, FCFG, ANCHORED])
def test_each_cycle_begins_with_the_last_answer(guidance: str, cycled: Result) -> None:
    factual = portraits.sample(6, portraits.EVALUATION_SEED, SIZE)
    images, errors = factual.images, []
    for _ in range(3):
        plan = {"guidance": Guidance.parse(guidance), "sampling": "ddim uniform 2"}
        pair = shared_model().counterfactual(images, factual.attributes, {}, **plan)
        images = pair.images.clamp(-1, 1)
        errors.append(image_mae(images, factual.images))
    rows = {key[2]: row for key, row in cycled.rows.items() if key[:2] == ("", guidance)}
    for i, image in enumerate(cycled.header["images"]):
        assert rows[image]["change"]["mae"] == pytest.approx(errors[0][i], rel=1e-3, abs=1e-6)
        assert rows[image]["repeated"]["mae"] == pytest.approx(errors[2][i], rel=1e-3, abs=1e-6)
    cell = summarise(cycled).cells["", guidance]
    assert cell.of("repeated_mae")[""].value == pytest.approx(errors[2].mean(), rel=1e-3, abs=1e-6)
    assert cell.whole("repeated_lpips") is None  # the images are too small
    assert (cell.of("repeated_mae")[""].value < 1e-5) == (
        guidance == ANCHORED
    )  # whose composition is exact


def test_a_model_that_composes_exactly_returns_the_images_ever_again(tmp_path: Path) -> None:
    """A network that predicts no noise only scales images, there and back."""
    model = tiny_model()
    for parameter in model.denoiser.network.parameters():
        torch.nn.init.zeros_(parameter)
    experiment = asked(cycles=10, do=("male",), guidance=(CFG,))
    summary = summarise(evaluation(tmp_path, experiment, model).run())
    for cell in summary.cells_of(""):
        assert cell.of("repeated_mae")[""].value == pytest.approx(0, abs=1e-5)
    for cell in (
        c for c in summary.cells.values() if c.do
    ):  # which does nothing under an intervention, either
        assert 0 < cell.of("minimality")[""].value <= STILL + 1e-6


def test_costs_count_the_cycles(tmp_path: Path) -> None:
    experiment = asked(cycles=4, do=("smiling",), guidance=(CFG,), images=2)
    costs = rows_of(experiment, shared_model())
    assert (costs["", "none"], costs["", CFG]) == (1 + 3 * 2, 2 + 3 * 3)
    with evaluations.counted_rows() as rows:
        evaluation(tmp_path, experiment).run()
    assert sum(rows) == 2 * 2 * (1 + sum(costs.values()))  # images, steps; noise


def test_minimality_is_that_of_the_judges_features(cycled: Result) -> None:
    """In the order of the images, whatever shard and block their features came from."""
    factual, pipeline = portraits.sample(6, portraits.EVALUATION_SEED, SIZE), shared_model()
    assert set(cycled.minimality) == set(asked(**CYCLED, composition=False).questions)
    plan = {"guidance": Guidance.parse(CFG), "sampling": "ddim uniform 2"}
    for do in DOS:
        names = do.split("+")
        flipped = {name: 1 - factual.attributes[name] for name in names}
        pair = pipeline.counterfactual(factual.images, factual.attributes, flipped, **plan)
        x, y = (pipeline.judge.read(images).features for images in (factual.images, pair.images))
        own = list(zip(*(factual.attributes[name].tolist() for name in names), strict=True))
        wanted = list(zip(*(flipped[name].tolist() for name in names), strict=True))
        expected = reference(x, y, own, wanted)
        found = np.array(cycled.minimality[do, CFG]["values"], float)
        assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)
        cell = summarise(cycled).cells[do, CFG]
        assert cell.of("minimality")[""].value == pytest.approx(np.nanmean(expected), abs=1e-5)


def test_values_of_all_kinds_have_groups(tmp_path: Path) -> None:
    model = tiny_model("portraits-causal")
    experiment = asked(do=("age", "hair", "age+sex"), guidance=(), images=12)
    result = evaluation(tmp_path, experiment, model).run()
    ages = [result.real[image]["attributes"]["age"] for image in result.header["images"]]
    rows = {r["image"]: r["target"]["age"] for r in result.rows.values() if r["do"] == "age"}
    wanted = fifths([rows[image] for image in result.header["images"]], ages)
    values = result.minimality["age", "none"]["values"]
    assert [value is None for value in values] == (wanted == fifths(ages, ages)).tolist()
    assert any(value is not None for value in result.minimality["hair", "none"]["values"])


def test_what_is_computed_from_features_comes_again_if_it_is_missing(cycled, tmp_path) -> None:
    """As where the features of a shard came later; without them there is none."""
    assert cycled.folder is not None
    for name in ("kept", "lost"):
        shutil.copytree(cycled.folder, tmp_path / name)
        for file in (tmp_path / name).glob("*.jsonl"):
            lines = file.read_text().splitlines(keepends=True)
            computed = ('"kind": "minimality"', '"kind": "distance"')
            kept = [line for line in lines if not line[1:].startswith(computed)]
            file.write_text("".join(kept))
        assert read_results(tmp_path / name).minimality == {}
    shutil.rmtree(tmp_path / "lost" / "features")
    kept, lost = (
        evaluation(tmp_path / name, asked(**CYCLED), shard=(0, 2), block=2).run()
        for name in ("kept", "lost")
    )
    assert kept.minimality == cycled.minimality
    assert kept.distances == cycled.distances
    assert (lost.minimality, lost.distances, lost.missing) == ({}, {}, 0)
    assert all(cell.whole("minimality") is None for cell in summarise(lost).cells.values())


def test_impossible_minimality_is_refused(cycled: Result, tmp_path: Path) -> None:
    for values in ([0.5] * 5, [*[0.5] * 5, 1.1], [*[0.5] * 5, "0.5"], None):
        entry = cycled.minimality["male", CFG] | {"values": values}
        lines = [cycled.header, *cycled.real.values(), entry]
        (tmp_path / "results.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        refused("values").by(read_results, tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """Made-up results, with ten cycles under two guidances, and minimality."""
    file = fake_results.known_results(tmp_path_factory.mktemp("run") / "results.jsonl", n=20)
    header, *lines = map(json.loads, file.read_text().splitlines())
    header |= {"cycles": 10, "questions": [["", CFG], *header["questions"]]}
    null = [line for line in lines if line["kind"] == "row" and not line["do"]]
    for line in null:
        line["repeated"] = {"mae": 0.25, "lpips": 0.125}
    lines += [line | {"guidance": CFG, "change": {"mae": 0.3, "lpips": None}} for line in null]
    values = [None, *np.linspace(0.1, 0.5, 19)]
    lines.append({"kind": "minimality", "do": "smiling", "guidance": CFG, "values": values})
    file.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    return file


def test_summaries_hold_both_with_intervals(written: Path) -> None:
    summary = summarise(read_results(written), resamples=50)
    assert {cell.guidance for cell in summary.cells_of("")} == {CFG, "none"}
    assert summary.composition is summary.cells["", "none"]
    assert all(summary.dos)
    repeated = summary.cells["", CFG].whole("repeated_mae")
    assert (repeated.value, repeated.low, repeated.high) == pytest.approx((0.25, 0.25, 0.25))
    cell = summary.cells["smiling", CFG]
    assert cell.of("minimality")[""].value == pytest.approx(0.3)
    assert cell.of("minimality")[""].low < 0.3 < cell.of("minimality")[""].high
    assert (cell.whole("repeated_mae"), summary.cells["male", CFG].whole("minimality")) == (
        None,
        None,
    )
    flat = mean([0.3] * 20, Bootstrap(20, resamples=50))
    assert abs((cell.of("minimality")[""] - flat).value) < 1e-9  # of the same images, so paired


def test_tables_show_both(written: Path, tmp_path: Path) -> None:
    comparison = compare(written, resamples=50)
    page = write_report(comparison, tmp_path)
    records = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text("utf-8"))))
    found = {(r["do"], r["guidance"], r["metric"]): float(r["value"]) for r in records}
    wanted = {("", CFG, "repeated_mae"): 0.25, ("", "none", "repeated_lpips"): 0.125}
    wanted |= {("", CFG, "change_mae"): 0.3, ("smiling", CFG, "minimality"): 0.3}
    assert {key: found[key] for key in wanted} == pytest.approx(wanted)
    assert "10 times in a row" in page.page.read_text("utf-8")
    old = compare(fake_results.known_results(tmp_path / "old.jsonl", n=20), resamples=50)
    for run, there in ((comparison, True), (old, False)):
        metrics = [{own.metric for own in run.measured[do].table} for do in ("smiling", "")]
        assert ("minimality" in metrics[0], "repeated_mae" in metrics[1]) == (there, there)
        assert "change_mae" in metrics[1]
