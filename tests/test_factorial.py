"""Compared methods: asked at their own sampling, and read where they are equally strong."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fcfg
import laws
from evaluations import CFG, answers, asked, evaluation, tiny_model
from fake_results import SWEEP, make_results
from fcfg.causal.attributes import Binary
from fcfg.evaluation import Experiment, find_experiment, read_results
from fcfg.evaluation.experiment import Asked, parts_of
from fcfg.guidance import Guidance
from fcfg.judge import judged
from fcfg.metrics import Bootstrap
from fcfg.metrics.strength import strength
from fcfg.pipeline.methods import Methods
from fcfg.reports import Comparison, compare, write_report
from fcfg.reports.charts import charts, lines
from fcfg.reports.failures import failures
from fcfg.reports.frontiers import at_zero, equal_strength, frontier_panels
from fcfg.reports.frontiers import charts as frontier_charts
from fcfg.reports.paper import match
from fcfg.reports.tables import numbers, overview
from fcfg.reports.wording import steps_text
from fcfg.support.config_files import to_yaml, validate
from methods import AT, DRAWN, LATE, methods_of
from refusal import refusal, refused, typed

# A sampling of its own ---------------------------------------------------------------------------

LATER = "heun uniform 3"


def checked(**changes: Any) -> Experiment:
    """An experiment, or a refusal of it."""
    return validate(Experiment, {"do": ["smiling"], "guidance": []} | changes, "mine")


def test_an_answer_with_a_sampling_of_its_own_is_that_of_this_sampling(tmp_path: Path) -> None:
    few: dict[str, Any] = {"do": ("smiling",), "images": 2}
    texts = (CFG, f"{CFG} @ {LATER}")
    both = answers(evaluation(tmp_path / "both", asked(guidance=texts, **few)).run())
    for text, sampling in zip(texts, (AT, LATER), strict=True):
        alone = asked(guidance=(CFG,), sampling=sampling, **few)
        rows = answers(evaluation(tmp_path / sampling.split()[0], alone).run())
        for (do, guidance, image), row in rows.items():
            if guidance == CFG:
                assert both[do, text, image] == row | {"guidance": text}
    one, other = ({k: r["scores"] for k, r in both.items() if k[1] == text} for text in texts)
    assert len(one) == len(other) == 2
    assert [*one.values()] != [*other.values()]  # two rows of each image, and not the same


@given(st.sampled_from(["cfg:3", f"contrast:1.3{DRAWN}", "none", "temperature:0.5"]))
def test_texts_with_a_sampling_are_read_as_they_are_written(text: str) -> None:
    written = asked(guidance=(f"{text} @ 7",)).guidance[-1]
    assert parts_of(written) == (asked(guidance=(text,)).guidance[-1], "dpm-2m karras 7")
    assert asked(guidance=(written, written)).guidance == ("none", written)
    assert parts_of(parts_of(written)[0])[1] == ""


def test_a_sampling_that_no_answer_has_is_refused() -> None:
    with refused("sampling", "huen"):
        checked(guidance=(f"{CFG} @ huen",))
    with refused("sampling of 'none @ ddim uniform 2'", "has no steps"):
        asked(guidance=(f"none @ {AT}",)).plans(laws.shift())


def test_reports_tell_samplings_of_one_guidance_apart(tmp_path: Path) -> None:
    texts = ["none", *(f"cfg:{w} @ {AT}" for w in (2.0, 3.0)), f"{CFG} @ {LATER}", "apg:2.0 @ 7"]
    folder = make_results(tmp_path, 16, settings=texts, dos=("male", "young"), pictures=1)
    one = compare(folder, resamples=50)
    assert [row.names[0] for row in overview(one).rows] == [
        *("unguided", "CFG 2.0", f"CFG 3.0, {AT}", f"CFG 3.0, {LATER}", "APG 2.0"),
    ]
    joined = [[p.setting.text for p in line] for line in lines(charts(one)["male", ("sd", "sd")])]
    assert texts[1:3] in joined  # but not the other sampling
    assert "100 steps of DDIM; 3 others where a setting says so" in steps_text(one.runs[0].header)
    # What depends on the guidance alone does not see the sampling.
    assert match("celeba-hq", "smiling", f"{CFG} @ {AT}") == match("celeba-hq", "smiling", CFG)
    drawn = ["none", f"contrast:1.3{DRAWN} @ {AT}"]
    poor = make_results(tmp_path / "b", 16, settings=drawn, dos=("male",), pictures=0, noise=True)
    assert not any("there and back" in line.lower() for line in failures(_summary(poor)))


def _summary(folder: Path) -> Any:
    return compare(folder, resamples=50).runs[0].summary


# Strength ---------------------------------------------------------------------------------------


@given(st.floats(-3, 3), st.floats(0.1, 5), st.integers(0, 99))
def test_strength_is_the_distance_from_real_images_in_their_spread(
    shift: float, scale: float, seed: int
) -> None:
    rng, n = np.random.default_rng(seed), 40
    own = np.arange(n) % 2
    real = np.where(own, 5.0, -2.0) + scale * rng.standard_normal(n)
    spreads = [real[own == value].std() for value in (0, 1)]
    # The answer to each image is a real one of the other value, moved by a part of their spread.
    read = real[np.arange(n) ^ 1] + shift * np.array(spreads)[1 - own]
    found = strength(read, 1 - own, real, own, Bootstrap(n, resamples=50))
    assert found.value == pytest.approx(shift, abs=1e-9)
    assert found.low <= shift + 1e-9
    assert found.high >= shift - 1e-9
    down = strength(-read, own * 0, -real, own * 0, Bootstrap(n, resamples=50), -np.ones(n))
    up = strength(read, own * 0, real, own * 0, Bootstrap(n, resamples=50))
    assert down.value == pytest.approx(up.value)  # of a continuous attribute


def test_without_real_images_of_a_value_there_is_no_strength() -> None:
    boot = Bootstrap(3, resamples=5)
    assert strength([1, 2, 3], [2, 2, 2], [0, 1, 2], [0, 1, 1], boot) is None
    assert strength([1, 2, 3], [1, 1, 1], [0, 4, 4], [0, 1, 1], boot) is None  # all read the same


# Equal strength ----------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-4, 4), min_size=2, max_size=7, unique=True).map(sorted),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_a_line_is_interpolated_exactly(x: list[float], level: float, slope: float) -> None:
    column = np.array(x)[:, None]
    (found,) = at_zero(column, level + slope * column)
    if x[0] <= 0 <= x[-1]:
        assert found == pytest.approx(level, abs=1e-6)
    else:
        assert np.isnan(found)


def test_the_first_crossing_counts_in_every_row_by_itself() -> None:
    x = np.array([[-1.0, 1.0, -2.0, 0.0], [1.0, 2.0, -1.0, 0.0], [-1.0, 3.0, 0.0, 1.0]])
    y = np.array([[0.0, 5.0, 1.0, 4.0], [2.0, 5.0, 2.0, 6.0], [8.0, 5.0, 3.0, 6.0]])
    assert at_zero(x, y).tolist() == pytest.approx([1.0, np.nan, 3.0, 4.0], nan_ok=True)
    assert np.isnan(at_zero(x[:1], y[:1])).all()


WEIGHTS = (1.5, 2.0, 3.0)


def frontier(rule: str, calibrated: float, weights: Sequence[float] = WEIGHTS) -> dict[str, Any]:
    texts = [f"{rule.format(weight)} @ {AT}" for weight in weights]
    own = f"{rule.format(calibrated)} @ {AT}"
    return {"calibrated": own, "published": f"{rule.format(3.0)} @ {AT}", "weights": texts}


GLOBAL, FACTORED = "cfg:{}", "fcfg:affected={},invariant=1.2"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fake methods, whose strength rises with the weight: one from below 0, one above it."""
    methods = {
        "all above": {do: frontier(GLOBAL, 2.0) for do in ("male", "young")},
        "halves": {do: frontier(FACTORED, w) for do, w in (("male", 1.5), ("young", 3.0))},
    }
    texts = [t for own in methods.values() for f in own.values() for t in f["weights"]]
    return make_results(
        tmp_path_factory.mktemp("known"),
        24,
        settings=["none", *dict.fromkeys(texts)],
        dos=("male", "young"),
        pictures=1,
        header={"methods": methods},
    )


@pytest.fixture(scope="module")
def comparison(known: Path) -> Comparison:
    return compare(known, resamples=100)


def test_a_method_that_never_is_as_clear_is_named_and_has_no_error(
    comparison: Comparison,
) -> None:
    chart = frontier_charts(comparison)[0]
    assert (chart.do, chart.strength, chart.error) == ("male", "factor_error", "truth_changed")
    for own in chart.frontiers:
        assert [p.setting.strength for p in own.points] == [*WEIGHTS]
        shifts = [p.row.cell.of("factor_error")["male"].value for p in own.points]
        assert [p.x.value for p in own.points] == shifts == sorted(shifts)
    table = equal_strength(comparison)["male"]
    titles = [column.title for column in table.columns]
    places = {row.names: row.cells[titles.index("between weights")] for row in table.rows}
    assert all(str(place).startswith("never, at least +0.") for place in places.values())
    assert "error of changed pixels" in titles  # at the calibrated weight
    assert not any(column.better for column in table.columns)  # none at equal strength


def test_the_error_at_equal_strength_lies_between_two_weights(tmp_path: Path, known) -> None:
    """The same run, read against a truth that shows more."""
    (source,) = known.glob("*.jsonl")
    header, *rows = map(json.loads, source.read_text().splitlines())
    for row in rows:
        if row["kind"] == "row" and row["truth"]:
            for name, sign in row["truth"]["target"].items():
                row["truth"]["factors"][name] += 0.6 * (2 * sign - 1)
    lines = [json.dumps(line) for line in (header, *rows)]
    (tmp_path / "results-0-of-1.jsonl").write_text("\n".join(lines) + "\n")
    chart = frontier_charts(compare(tmp_path, resamples=100))[0]
    own = chart.frontiers[0]
    x, y = ([getattr(p, axis).value for p in own.points] for axis in "xy")
    assert x[0] < 0 < x[-1]
    assert own.error.value == pytest.approx(np.interp(0, x, y))
    assert own.error.low <= own.error.value <= own.error.high
    assert own.place in ("1.5 and 2.0", "2.0 and 3.0")
    (written,) = frontier_panels(compare(tmp_path, resamples=100))[:1]
    assert written.file.count("<polyline") == 2


def test_reports_name_methods_and_what_their_weights_are(comparison: Comparison) -> None:
    assert [row.names[0] for row in overview(comparison).rows] == [
        *("unguided", "all above, calibrated", "all above, published"),
        *("halves, calibrated", "halves, published"),
    ]
    assert [row.names[0] for row in numbers(comparison, "young").rows if not row.is_pale] == [
        *("unguided", "all above 2.0, calibrated", "all above 3.0, published"),
        "halves 3.0 / 1.2, calibrated, published",
    ]
    report = write_report(comparison)
    drawn = [*comparison.measured["male"].drawn]
    assert [row.setting.roles for row in drawn] == [(), ("calibrated",), ("calibrated",)]
    with next(p for p in report.paths if p.name == "frontiers.csv").open() as file:
        lines = [*csv.DictReader(file)]
    assert {(line["do"], line["method"]) for line in lines} == {
        (do, name) for do in ("male", "young") for name in ("all above", "halves")
    }
    with next(p for p in report.paths if p.name == "table.csv").open() as file:
        asked_of = {line["guidance"] for line in csv.DictReader(file) if line["do"] == "male"}
    assert {f"cfg:{weight} @ {AT}" for weight in WEIGHTS} <= asked_of  # all are in the file
    plain = make_results(report.page.parent / "plain", 8, settings=SWEEP, pictures=0)
    assert equal_strength(compare(plain, resamples=10)) == {}


# The experiment ----------------------------------------------------------------------------------


def test_the_factorial_asks_every_method_at_its_weights() -> None:
    model = tiny_model()
    model.methods = methods_of(model, smiling=1.5, male=3.0)
    experiment = find_experiment("factorial", graph=model.graph, model=model)
    assert experiment.do == ("smiling", "male")  # young has no weight
    own = experiment.methods["ours"]["smiling"]
    assert own.weights == tuple(f"contrast:{w}{DRAWN} @ {LATE}" for w in (0.5, 1.5, 3.0))
    assert (own.calibrated, own.published) == (own.weights[1], "")
    texts = {text for do, text in experiment.questions if do == "male"}
    assert {"none", f"cfg:0.5 @ {AT}", f"cfg:3.0 @ {AT}"} < texts
    plans = experiment.plans(model)
    assert str(plans["smiling", own.calibrated].sampling) == LATE
    assert plans["smiling", own.calibrated].setting == Guidance.parse(f"contrast:1.5{DRAWN}")
    assert str(plans["smiling", "none"].sampling) == experiment.sampling


def test_methods_that_do_not_fit_an_experiment_are_refused(tmp_path: Path) -> None:
    own = Asked(calibrated="cfg:2 @ 7")
    assert own.texts == ("cfg:2.0 @ dpm-2m karras 7",)
    with refused("anchor", "none with methods"):
        checked(methods={"CFG": {"smiling": own}}, anchor=True)
    with refused("CFG", "got 'male'"):
        checked(methods={"CFG": {"male": own}})
    experiment = asked(methods={"CFG": {"smiling": own}}, calibrated_by="ab")
    (tmp_path / "mine.yaml").write_text(to_yaml(experiment))
    assert find_experiment(str(tmp_path / "mine.yaml")) == experiment


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> Path:
    """A model with methods, and one with another judge and without, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    model = tiny_model(saved=True)
    model.methods = methods_of(model, smiling=1.5, male=3.0)
    fcfg.save(model, tmp_path / "model")
    assert isinstance(fcfg.load(tmp_path / "model").methods, Methods)
    model.methods = None
    for parameter in model.judge.parameters():
        parameter.data *= 1.1
    fcfg.save(model, tmp_path / "other")
    return tmp_path


def test_a_model_without_methods_says_how_to_compare_them(kept: Path, capsys) -> None:
    said = refusal(capsys, "evaluate", "other", "factorial")
    assert said.startswith("fcfg evaluate: experiment 'factorial'")
    assert said.endswith("run 'fcfg calibrate MODEL --methods all'.")
    refusal(capsys, "evaluate", "model", "factorial", "--sampling", "7")
    refusal(capsys, "evaluate", "--show", "factorial")


def test_one_judge_calibrates_and_another_reads(kept: Path, capsys) -> None:
    words = "evaluate model factorial --images 8 --device cpu --batch-size 64 --out"
    out = typed(capsys, words, "run", "--judge", "other").out
    assert "answers as clear as the truth" in out
    assert "CFG 1.5, calibrated" in out
    header, page = read_results(kept / "run").header, kept / "run/report/report.html"
    text = page.read_text()
    assert f"with the judge {header['calibrated_by']}; another judge (" in text
    assert "Error at the same strength" in text
    assert (page.parent / "frontiers.csv").exists()
    assert (page.parent / "figures/frontiers-smiling.svg").exists()
    typed(capsys, words, "run", "--judge", "other")  # a finished run is shown again


def test_strength_against_real_images_is_read_where_the_truth_is_not_known(tmp_path: Path) -> None:
    methods = {"all": {"sex": frontier(GLOBAL, 2.0), "age": frontier(GLOBAL, 2.0)}}
    texts = ["none", *methods["all"]["sex"]["weights"]]
    folder = make_results(
        tmp_path, 60, settings=texts, dos=("sex", "age"), mixed=True, header={"methods": methods}
    )
    one = compare(folder, resamples=50)
    sex, age = frontier_charts(one)
    assert [(c.strength, c.error) for c in (sex, age)] == [("strength", "change_mae")] * 2
    (own,), result = sex.frontiers, one.runs[0].result
    at, space = own.calibrated, {"sex": Binary("sex")}
    real = [result.real[image] for image in result.header["images"]]
    made = [result.rows["sex", at.row.cell.guidance, image] for image in result.header["images"]]

    def clear(entries: list[Any], key: str) -> tuple[np.ndarray, np.ndarray]:
        values = np.array([entry[key]["sex"] for entry in entries])
        scores = np.array([entry["scores"]["sex"] for entry in entries])
        return judged(space["sex"], scores, values, 1e-6), values

    (read, wanted), (seen, values) = clear(made, "target"), clear(real, "attributes")
    gaps = [
        (read[wanted == v] - seen[values == v].mean()) / seen[values == v].std() for v in (0, 1)
    ]
    assert at.x.value == pytest.approx(np.concatenate(gaps).mean(), rel=1e-6)
    assert write_report(one).page.exists()
