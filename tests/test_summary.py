"""What rows amount to, against computations that know nothing of the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial, reduce
from itertools import product
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.metrics import mean_absolute_error, roc_auc_score

from evaluations import answers, asked, evaluation, tiny_model
from fake_results import CFG, FCFG, make_results
from fcfg.evaluation import Result, Summary, read_results, summarise
from refusal import refused

SETTINGS = ("none", CFG, FCFG)


def summarised(folder: Path) -> tuple[Result, Summary]:
    result = read_results(folder)
    return result, summarise(result, resamples=400)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Summary]:
    folder = tmp_path_factory.mktemp("drawn")
    return summarised(make_results(folder, lpips=True, pictures=0, settings=SETTINGS))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Summary]:
    folder = tmp_path_factory.mktemp("mixed")
    dos = ("race", "age", "finding")
    make_results(folder, mixed=True, truth=False, pictures=0, dos=dos, settings=("none", CFG))
    return summarised(folder)


_rows = cache(answers)


def column(result: Result, do: str, guidance: str, *path: str) -> np.ndarray:
    """What every image has under one question, at a path in its row."""
    rows = [_rows(result)[do, guidance, image] for image in result.header["images"]]
    return np.array([reduce(getitem, path, row) for row in rows])


def real(result: Result, part: str, name: str) -> np.ndarray:
    """A number of every factual image."""
    return np.array([result.real[image][part][name] for image in result.header["images"]])


# Numbers ----------------------------------------------------------------------------------------


def test_effectiveness_is_that_of_scikit_learn(drawn: tuple[Result, Summary]) -> None:
    result, summary = drawn
    for (do, guidance), cell in summary.cells.items():
        for name in ("smiling", "male", "young"):
            scores, wanted = (column(result, do, guidance, k, name) for k in ("scores", "target"))
            area = 100 * roc_auc_score(wanted, scores)
            assert cell.of("auroc")[name].value == pytest.approx(area)
            plain = summary.cells[(do, "none")].of("auroc")[name].value
            assert cell.of("delta")[name].value == pytest.approx(area - plain)
            assert cell.of("delta_real")[name].value == pytest.approx(
                area - summary.real["auroc", name].value
            )
    labels, scores = (real(result, part, "male") for part in ("attributes", "scores"))
    assert summary.real["auroc", "male"].value == pytest.approx(
        100 * roc_auc_score(labels, scores)
    )


def gain(
    result: Result, do: str, guidance: str, name: str, before: np.ndarray, start: Callable
) -> float:
    """Mean way of the judge's readings, in sd, from others towards the value asked for."""
    about = result.header["attributes"][name]
    seen, wanted = (column(result, do, guidance, key, name) for key in ("scores", "target"))
    if "levels" in about:
        places = np.arange(len(wanted)), [about["levels"].index(value) for value in wanted]
        return (seen[places] - before[places]).mean()
    if about["kind"] == "binary":
        return ((2 * wanted - 1) * (seen - before)).mean()
    factual = real(result, "attributes", name)
    return (np.sign(wanted - start(factual)) * (seen - before)).mean() / factual.std()


@pytest.mark.parametrize("world", ["drawn", "mixed"])
def test_attributes_shift_from_no_guidance_and_targets_move_from_the_factual_image(
    world: str, request: pytest.FixtureRequest
) -> None:
    result, summary = request.getfixturevalue(world)
    for (do, guidance), cell in summary.cells.items():
        for name in summary.space.names:
            before = column(result, do, "none", "scores", name)
            expected = gain(result, do, guidance, name, before, np.mean)
            assert cell.of("shift")[name].value == pytest.approx(expected, abs=1e-12)
            if guidance == "none":
                assert (cell.of("shift")[name].low, cell.of("shift")[name].high) == (0, 0)
        assert set(cell.of("moved")) == set(cell.values) == set(cell.targets)
        for name in cell.targets:
            factual = real(result, "scores", name)
            expected = gain(result, do, guidance, name, factual, lambda values: values)
            assert cell.of("moved")[name].value == pytest.approx(expected)
            wanted = column(result, do, guidance, "target", name)
            assert cell.values[name] == tuple(sorted(set(wanted.tolist())))
        assert guidance != "none" or world == "mixed" or not do or cell.of("moved")[do].low > 0.3


def test_factor_error_is_in_standard_deviations_of_the_factual_factor(drawn) -> None:
    result, summary = drawn
    cell, of = summary.cells["smiling", CFG], partial(column, result, "smiling", CFG)
    wanted = of("truth", "target", "male")
    errors = (2 * wanted - 1) * (of("factors", "male") - of("truth", "factors", "male"))
    expected = errors.mean() / np.std(real(result, "factors", "male"))
    assert cell.of("factor_error")["male"].value == pytest.approx(expected)
    assert cell.drift == cell.of("factor_error")
    assert cell.of("factor_error")["male"].excludes_zero


def test_distances_and_costs_are_means(drawn: tuple[Result, Summary]) -> None:
    result, summary = drawn
    cell, of = summary.cells["young", CFG], partial(column, result, "young", CFG)
    for part, name in (*product(("change", "reversal"), ("mae", "lpips")), ("truth", "mae")):
        estimate, values = cell.whole(f"{part}_{name}"), of(part, name)
        assert estimate.value == pytest.approx(values.mean())
        half = (estimate.high - estimate.low) / 2
        assert half == pytest.approx(1.96 * values.std() / np.sqrt(len(values)), rel=0.15)
    missed, changed = (of("truth", key) for key in ("missed", "changed"))
    assert cell.of("truth_changed")[""].value == pytest.approx(missed.sum() / changed.sum())
    assert cell.numbers["evaluations", ""] == pytest.approx(of("evaluations").mean())
    seconds = [row["seconds"] for key, row in result.rows.items() if key[:2] == ("young", CFG)]
    assert cell.numbers["seconds", ""] == pytest.approx(np.mean(seconds))
    known = result.distances["young", CFG, "FD-judge"]
    assert cell.numbers["fd_judge", ""] == known["value"]
    assert ("fid", "") not in cell.numbers


def test_attributes_of_other_kinds(mixed: tuple[Result, Summary]) -> None:
    result, summary = mixed
    levels = result.header["attributes"]["race"]["levels"]
    cell = summary.cells[("race", CFG)]
    of = partial(column, result, "race", CFG)
    scores, wanted = of("scores", "race"), of("target", "race")
    areas = [roc_auc_score(wanted == level, scores[:, k]) for k, level in enumerate(levels)]
    assert cell.of("auroc")["race"].value == pytest.approx(100 * np.mean(areas))
    error = mean_absolute_error(of("target", "age"), of("scores", "age"))
    assert cell.of("error")["age"].value == pytest.approx(error)
    for metric in ("factor_error", "truth_mae", "truth_changed"):
        assert cell.of(metric) == {}
    assert cell.drift == cell.of("shift")


def test_what_the_judge_reads_goes_with_what_was_asked_for(mixed: tuple[Result, Summary]) -> None:
    result, summary = mixed
    for name in ("sex", "age"):
        seen, wanted = (column(result, "race", CFG, key, name) for key in ("scores", "target"))
        expected = np.corrcoef(rankdata(seen), wanted)[0, 1]
        assert summary.cells[("race", CFG)].of("correlation")[name].value == pytest.approx(
            expected
        )
    assert all(estimate.low > 0.5 for estimate in summary.real_correlation.values())


def test_unrelated_images_are_as_far_apart_as_the_run_says(tmp_path: Path) -> None:
    folder = make_results(tmp_path / "new", 8, pictures=0, dos=("smiling",), unrelated=0.4)
    _, summary = summarised(folder)
    assert summary.unrelated.value == pytest.approx(0.4)
    _, older = summarised(make_results(tmp_path / "old", 8, pictures=0, dos=("smiling",)))
    assert older.unrelated is None


# Which cells ------------------------------------------------------------------------------------


def test_groups_follow_the_graph(drawn: tuple[Result, Summary], tmp_path: Path) -> None:
    _, summary = drawn
    assert summary.dos == ("smiling", "male", "young")
    assert summary.settings[:3] == ("none", CFG, FCFG)
    assert summary.composition is summary.cells["", "none"]
    cell = summary.cells[("male", CFG)]
    assert cell.targets == cell.affected == ("male",)
    assert cell.invariant == ("smiling", "young")
    graph = {"smiling": [], "male": ["young"], "young": []}
    folder = make_results(tmp_path, 20, pictures=0, header={"graph": graph})
    arrow = summarise(read_results(folder))
    assert arrow.cells[("young", CFG)].affected == ("male", "young")
    assert arrow.cells[("young", CFG)].invariant == ("smiling",)


@pytest.mark.parametrize(("n", "names"), [(199, set()), (200, {"smiling", "male", "young"})])
def test_few_images_have_no_area_and_no_distance(tmp_path: Path, n: int, names: set[str]) -> None:
    folder = make_results(tmp_path, n, pictures=0, dos=("smiling",), settings=("none", CFG))
    summary = summarised(folder)[1]
    cell = summary.cells["smiling", CFG]
    real = {name for _, name in summary.real}
    for found in (real, *map(cell.of, ("auroc", "delta", "delta_real"))):
        assert set(found) == names
    assert set(cell.of("shift")) == {"smiling", "male", "young"}
    assert (("fd_judge", "") in cell.numbers) == bool(names)


def test_few_images_with_attributes_of_all_kinds_can_be_summarised(tmp_path: Path) -> None:
    model = tiny_model("portraits-causal")
    experiment = asked(do=("age", "hair"), guidance=(CFG,), images=4)
    summary = summarise(evaluation(tmp_path / "mixed", experiment, model).run())
    cell = summary.cells[("age", CFG)]
    assert cell.affected == ("age", "glasses", "hair")
    assert set(cell.of("factor_error")) == {
        "glasses",
        "sex",
        "smiling",
    }  # the others have no direction
    assert set(cell.of("error")) == {"age"}
    assert cell.whole("truth_changed") is not None
    summary = summarise(evaluation(tmp_path / "one", asked(images=1)).run())
    cell = summary.cells[("smiling", CFG)]
    change = cell.of("change_mae")[""]
    assert change.low == change.high == change.value
    assert ("fd_judge", "") not in cell.numbers
    assert np.isfinite([e.value for e in cell.of("factor_error").values()]).all()


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (lambda lines: lines[:1], ("got 0 and 0", "fcfg evaluate")),
        (
            lambda lines: [one for k, one in enumerate(lines) if k % 3 or one["kind"] != "row"],
            ("12 rows", "the shards that are missing"),
        ),
        (lambda lines: [lines[0], *lines[2:]], ("4 real images", "12 and 3")),
    ],
)
def test_runs_without_all_their_rows_are_refused(tmp_path: Path, kept, said) -> None:
    make_results(tmp_path, 4, pictures=0, dos=("smiling",), settings=("none", CFG))
    file = tmp_path / "results-0-of-1.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in kept(lines)))
    with refused("results of 'portraits/core'", *said):
        summarise(read_results(tmp_path))
