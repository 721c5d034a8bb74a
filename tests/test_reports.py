"""Reports: what they say follows from the numbers, and nothing else is in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from markupsafe import Markup
from PIL import Image

from fake_results import CORE, MISSING, SWEEP, make_results
from fcfg.cli import main
from fcfg.cli.tables import print_summary
from fcfg.evaluation.metric_table import METRICS, Metric, drift_units
from fcfg.evaluation.result_files import read_results
from fcfg.evaluation.summary import Summary, summarise
from fcfg.metrics import Estimate
from fcfg.reports import Report, reading, write_report
from fcfg.reports.bars import axis_label, bar_panels
from fcfg.reports.numbers import distance, off_target, on_target
from fcfg.reports.page import build_page, make_figures, missing_notes
from fcfg.reports.rule_styles import PAPER, STYLES, colours, palette_css, setting, strongest
from fcfg.reports.strips import make_strips, opening_strip, read_pictures
from fcfg.reports.svg import Panel, Scale, around, tag
from fcfg.reports.tables import entries
from fcfg.reports.tradeoff import lines, points_of, tradeoff_panels
from fcfg.reports.verdict import failures
from fcfg.reports.wording import in_words
from refusal import refused

SHORT = CORE[:3]
DELTA, SHIFT, FACTOR = (METRICS[name] for name in ("delta", "shift", "factor_error"))
SVG = "{http://www.w3.org/2000/svg}"


def summary_of(folder: Path, **options: object) -> Summary:
    made = make_results(folder, pictures=0, **options)  # pyright: ignore[reportArgumentType]
    return summarise(read_results(made), resamples=400)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("core"), pictures=2, settings=SHORT, lpips=True)


@pytest.fixture(scope="module")
def report(core: Path) -> Report:
    return write_report(core)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summary_of(tmp_path_factory.mktemp("few"), n=32)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """No truth, attributes of every kind, one a cause of another, two targets at once."""
    folder = tmp_path_factory.mktemp("clinic")
    dos = ("age", "race", "sex+finding")
    return summary_of(folder, n=210, mixed=True, dos=dos, settings=SHORT)


# The reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "told"), [(1, "One image is"), (9, "9 images are")])
def test_few_images_say_nothing_about_guidance(tmp_path: Path, n: int, told: str) -> None:
    (line,) = reading(summary_of(tmp_path, n=n))
    assert line.startswith(f"{told} too few")


def test_the_reading_says_what_the_numbers_say(few: Summary) -> None:
    first, second = reading(few)
    assert first.startswith(
        "Global guidance (CFG 3.0) amplifies attributes that should not change:"
    )
    assert "an interval that excludes 0 (most: " in first
    assert second.startswith("Factored guidance (FCFG 3.0 / 1.2) disturbs them less:")
    assert "closer to 0 by " in second
    assert "it moves the target further, by 0." in second
    drift = off_target((few.cells[(do, "cfg:3.0")] for do in few.dos), few.space.names)
    assert drift is not None
    numbers = f"+{drift.value:.2f} [+{drift.low:.2f}, +{drift.high:.2f}] sd on average"
    assert numbers in first


def test_swapped_results_read_the_opposite(tmp_path: Path) -> None:
    first, second = reading(summary_of(tmp_path, n=32, swapped=True, settings=SHORT))
    assert "(CFG 3.0) has no detectable effect on attributes that should not change: " in first
    assert first.endswith(", which includes 0.")
    assert second.startswith("Factored guidance (FCFG 3.0 / 1.2) disturbs them more: +0.4")
    assert "further from 0 by 0.4" in second
    assert "it moves the target less, by 0." in second


def test_where_nothing_differs_no_difference_could_be_told(tmp_path: Path) -> None:
    first, second = reading(summary_of(tmp_path, n=32, effect=0.0, settings=SHORT))
    assert first.endswith(", which includes 0.")
    assert "with no detectable difference from CFG 3.0" in second
    assert "no difference on the target was detected" in second


def test_what_becomes_weaker_is_attenuated(tmp_path: Path) -> None:
    first, _ = reading(summary_of(tmp_path, n=32, effect=-1.0, settings=SHORT))
    assert "(CFG 3.0) attenuates attributes that should not change: −0.4" in first


def test_attributes_of_each_unit_have_sentences_of_their_own(clinic: Summary) -> None:
    """No number is a mean over probabilities and standard deviations."""
    discrete, scaled, *factored = reading(clinic)
    assert discrete.startswith(
        "Global guidance (CFG 3.0) amplifies attributes that should not change (sex, race and "
        "finding): +"
    )
    assert scaled.startswith(
        "Global guidance (CFG 3.0) amplifies attributes that should not change (age): +"
    )
    for line, unit, names in (
        (discrete, "in probability", ("sex", "race", "finding")),
        (scaled, "sd", ("age",)),
    ):
        drift = off_target((clinic.cells[(do, "cfg:3.0")] for do in clinic.dos), names)
        assert drift is not None
        value = f"{drift.value:+.2f} [{drift.low:+.2f}, {drift.high:+.2f}] {unit} on average"
        assert value in line
    assert factored[0].startswith("Factored guidance (FCFG 3.0 / 1.2) disturbs sex, race and find")
    assert factored[1].startswith("Factored guidance (FCFG 3.0 / 1.2) disturbs age less: ")
    assert re.search(
        r"; it moves sex, race and finding further, by [^;]+ in probability; "
        r"it moves age further, by [^;]+ sd\.$",
        factored[1],
    )
    alone = replace(clinic, cells={k: c for k, c in clinic.cells.items() if c.do == "age"})
    lines_ = reading(alone)
    assert len(lines_) == 2  # sex and race alone should stay put
    assert "attributes that should not change: +" in lines_[0]
    assert re.search(r"; it moves the target further, by [^;]+ sd\.$", lines_[1])


def test_every_number_has_a_unit_in_every_place(clinic: Summary, capsys, tmp_path: Path) -> None:
    """The same word on the terminal, on the page, in the figures and in the table."""
    units = {"sex": "probability", "race": "probability", "age": "sd", "finding": "probability"}
    shifts = [entry for entry in entries(clinic).values() if entry.metric == "shift"]
    assert {entry.attribute: entry.unit for entry in shifts} == units
    assert drift_units(clinic) == {
        "probability": ("sex", "race", "finding"),
        "sd": ("age",),
    }
    print_summary(clinic)
    out = " ".join(capsys.readouterr().out.split())
    assert "in probability for sex, race and finding and in standard deviations of the" in out
    assert "of the factual values (sd) for age" in out
    text = build_page(clinic, make_figures(clinic, read_results(make_results(tmp_path, n=4))))
    for name, unit in units.items():
        heads = re.findall(rf"<th[^>]*>{name}(?:<small>[^<]*</small>)*</th>", text)
        assert len(heads) == 2 * len(clinic.dos)  # effectiveness and shift, in every table
        assert sum(f"<small>{unit}</small>" in head for head in heads) == len(clinic.dos)
    for panel in tradeoff_panels(clinic):
        do = panel.name.split("-")[1]
        x, y = panel.name.split("-")[2:]
        drawing = ElementTree.fromstring(panel.file)
        said = " ".join(str(element.text) for element in drawing.iter(f"{SVG}text"))
        assert f"target, {x} →" in said
        assert f"↑ off target, mean, {y}" in said
        for group in shapes(panel):
            cell = clinic.cells[(do, str(group.get("data-guidance")))]
            point = (
                on_target([cell], drift_units(clinic)[x]),
                off_target([cell], drift_units(clinic)[y]),
            )
            assert [e and repr(e.value) for e in point] == [
                group.get("data-x"),
                group.get("data-y"),
            ]
    assert [panel.name for panel in tradeoff_panels(clinic)] == [
        "tradeoff-age-sd-probability",
        "tradeoff-race-probability-probability",
        "tradeoff-race-probability-sd",
        "tradeoff-sex+finding-probability-probability",
        "tradeoff-sex+finding-probability-sd",
    ]


# Runs that cannot say anything ------------------------------------------------------------------


@pytest.mark.parametrize("other", [(), ("cfg:3.0",)])
def test_a_poor_inversion_is_no_failure_where_no_answer_needs_one(
    tmp_path: Path, other: tuple[str, ...]
) -> None:
    settings = ("none", "contrast:1.5;anchor=true;drawn_noise=true", *other)
    make_results(tmp_path, n=50, settings=settings, noise=True, pictures=0, dos=("male",))
    assert bool(failures(summarise(read_results(tmp_path), resamples=100))) == bool(other)


@pytest.mark.parametrize(("mixed", "unrelated"), [(False, 0.41), (True, None)])
def test_noise_says_so_first_and_claims_nothing_else(
    tmp_path: Path, capsys, mixed: bool, unrelated: float | None
) -> None:
    dos = ("age", "sex") if mixed else ("male",)
    options = {"mixed": mixed, "truth": not mixed, "dos": dos, "unrelated": unrelated}
    make_results(tmp_path, n=200, settings=SHORT, noise=True, pictures=1, **options)
    assert main(["report", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "The model fails without guidance, so this run says nothing about guidance."
    assert said[1].startswith("Without guidance or change, the model returns images that are 0.6")
    beside = "trained models stay below 0.2" if unrelated is None else "unrelated image is 0.41"
    assert beside in said[1]
    assert said[2].startswith("There and back without guidance, the model returns images")
    assert said[-3].startswith("From counterfactuals without guidance the judge reads attributes")
    assert said[-2:-1] == ["Train the model for longer, or sample with more steps."]
    print_summary(summarise(read_results(tmp_path), resamples=100))
    assert capsys.readouterr().out.startswith(said[0])
    text = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert ("<img " in text) != mixed
    assert '"verdict failed"' in text.split("<img ")[0]
    for claim in ("amplifies", "disturbs", "has no detectable effect", "attenuates"):
        assert claim not in " ".join(said)
        assert f"{claim} " not in text.split("<nav")[0]


def test_answers_that_are_nearer_to_any_other_image_fail(few: Summary) -> None:
    """Half of the way to an unrelated image is the limit, for composition and for the way back."""
    assert few.composition is not None
    assert few.unrelated is None
    assert failures(few) == []
    apart = few.composition.change_mae
    assert apart is not None
    for share, fails in ((0.4, False), (0.6, True)):
        found = failures(replace(few, unrelated=apart.scaled(1 / share)))
        assert bool(found) == fails
        assert not fails or "an unrelated image is" in found[0]
    for error, fails in ((0.19, False), (0.21, True)):
        far = apart.scaled(error / apart.value)
        cells = {key: replace(cell, reversal_mae=far) for key, cell in few.cells.items()}
        found = failures(replace(few, cells=cells))
        assert bool(found) == fails
        assert not fails or "There and back without guidance" in found[0]
    for error, fails in ((0.19, False), (0.21, True)):
        far = apart.scaled(error / apart.value)
        cells = {key: replace(cell, truth_mae=far) for key, cell in few.cells.items()}
        found = failures(replace(few, cells=cells))
        assert bool(found) == fails
        assert not fails or "away from the true ones" in found[0]
    changed = {key: replace(cell, change_mae=apart.scaled(90)) for key, cell in few.cells.items()}
    assert failures(replace(few, cells=changed)) == []  # what should change may be far
    guided = {
        key: replace(cell, reversal_mae=apart.scaled(9)) if key[1] != "none" else cell
        for key, cell in few.cells.items()
    }
    assert failures(replace(few, cells=guided, compositions={})) == []  # only what is unguided


def test_a_model_that_does_nothing_without_guidance_fails(few: Summary) -> None:
    still = {
        key: replace(cell, moved={name: e.scaled(-1) for name, e in cell.moved.items()})
        for key, cell in few.cells.items()
    }
    (said,) = failures(replace(few, cells=still))
    assert said.startswith("Without guidance, no target moves towards the requested value: ")
    assert "smiling under do(smiling), male under do(male) and young under do(young)" in said
    one = still | {("male", "none"): few.cells[("male", "none")]}
    assert failures(replace(few, cells=one)) == []
    for n, fails in ((9, False), (10, True)):  # of so few images it may be chance
        cells = {
            key: replace(cell, moved={k: replace(e, n=n) for k, e in cell.moved.items()})
            for key, cell in still.items()
        }
        assert bool(failures(replace(few, cells=cells))) == fails
    guided = {key: cell for key, cell in still.items() if key[1] != "none"}
    assert failures(replace(few, cells=guided)) == []


def test_a_judge_that_reads_nothing_measures_nothing(clinic: Summary) -> None:
    def blinded(*names: str) -> Summary:
        known = clinic.real_correlation
        return replace(clinic, real_correlation=known | {n: known[n].scaled(0.0) for n in names})

    first, second, _ = reading(blinded(*clinic.space.names))
    assert first.startswith("The model fails without guidance")
    assert second.startswith("The judge reads sex, race, age and finding from factual images no b")
    assert "so its scores mean nothing" in second
    partly = reading(blinded("age", "finding"))
    assert partly[0].startswith("The judge reads age from these factual images no better than ch")
    assert partly[1].startswith("The judge reads finding from these factual images no better")
    named = re.compile(r"\b(age|finding)\b")
    assert not any(named.search(re.sub(r"under do\([^)]*\)", "", line)) for line in partly[2:])
    assert "attributes that should not change: +" in partly[2]


def test_a_reading_of_one_side_says_that_the_other_is_missing(tmp_path: Path) -> None:
    first, second = reading(summary_of(tmp_path / "a", n=16, settings=("none", "cfg:3.0")))
    assert first.startswith("Global guidance (CFG 3.0) amplifies")
    assert second == "Factored guidance was not run."
    alone = ("none", "fapg:affected=3,invariant=1.2", "fapg:affected=3,invariant=3")
    first, second = reading(summary_of(tmp_path / "b", n=16, settings=alone))
    assert first == "Global guidance was not run."
    assert "(FAPG 3.0 / 1.2) moves attributes that should not change by" in second
    assert second.endswith("; the interval includes 0.")
    first, second = reading(summary_of(tmp_path / "c", n=16, settings=alone[2:]))
    assert second.endswith("; the interval excludes 0.")


def test_where_all_is_asked_for_nothing_can_be_disturbed(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, n=16, dos=("smiling+male+young",), settings=SHORT)
    first, second = reading(summary)
    assert "had nothing to disturb" in first
    assert "had nothing to spare" in second
    assert tradeoff_panels(summary) == []


def test_a_target_without_a_number_is_not_compared(clinic: Summary) -> None:
    cells = {
        key: replace(cell, shift={k: e for k, e in cell.shift.items() if k not in cell.targets})
        for key, cell in clinic.cells.items()
    }
    assert reading(replace(clinic, cells=cells))[-1].endswith("; the target was not measured.")


def test_an_end_beside_zero_is_not_shown_as_zero(few: Summary) -> None:
    def small(estimate: Estimate) -> Estimate:
        return estimate.scaled(0.001)

    cells = {
        key: replace(cell, factor_error={k: small(e) for k, e in cell.factor_error.items()})
        for key, cell in few.cells.items()
    }
    first, _ = reading(replace(few, cells=cells))
    assert re.search(r"\+0\.000\d\d? \[\+0\.000[1-9]", first), first


def test_the_setting_beside_the_strongest_is_of_the_same_rule() -> None:
    def chosen(*texts: str) -> list[str | None]:
        return [s and s.text for s in strongest([setting(text) for text in texts])]

    weak, strong = "fcfg:affected=2,invariant=1", "fcfg:affected=3,invariant=1.2"
    assert chosen(*CORE) == ["cfg:3.0", "fcfg:affected=3.0,invariant=1.2"]
    assert chosen("cfg:2", "cfg:3", weak, strong) == ["cfg:3", strong]
    assert chosen("cfg:2", weak, strong) == ["cfg:2", weak]
    assert chosen("cfg:1.5", weak, strong) == ["cfg:1.5", strong]
    assert chosen("cfg:3", "apg:3", "fapg:affected=3,invariant=1") == [
        "apg:3",
        "fapg:affected=3,invariant=1",
    ]
    assert chosen("cfg++:0.02") == ["cfg++:0.02", None]
    assert chosen(strong) == [None, strong]
    assert chosen("none") == [None, None]


# Colours ----------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_can_be_read_on_every_ground(dark: bool) -> None:
    chosen = colours(dark)
    for name in (*STYLES, "ink", "pale"):
        text = luminance(chosen[f"var(--{name.replace('+', 'p')})"])
        for ground in ("paper", "ground", "focus"):
            under = luminance(chosen[f"var(--{ground})"])
            contrast = (max(text, under) + 0.05) / (min(text, under) + 0.05)
            assert contrast >= 4.5, (name, ground)


def test_every_family_has_a_colour_and_a_mark_of_its_own() -> None:
    looks = [(style.mark, name.startswith("f")) for name, style in STYLES.items()]
    assert len(set(looks)) == len(STYLES)
    for paper in (1, 2):
        assert len({style[paper] for style in STYLES.values()}) == len(STYLES)
    css = palette_css()
    assert all(f"--{name}:{PAPER[name][0]}" in css for name in PAPER)


def test_a_family_has_one_colour_in_every_figure(few: Summary) -> None:
    for panel in (*bar_panels(few, FACTOR), *tradeoff_panels(few)):
        drawing = ElementTree.fromstring(panel.file)
        for group in drawing.iter(f"{SVG}g"):
            text = group.get("data-guidance")
            if text is not None:
                wanted = colours(dark=False)[setting(text).colour]
                strokes = {shape.get("stroke") for shape in group.iter()} - {None}
                assert wanted in strokes
                assert strokes <= {wanted, PAPER["ink"][0]}


# Figures ----------------------------------------------------------------------------------------


def shapes(panel: Panel) -> list[ElementTree.Element]:
    """Everything in a drawing that has numbers."""
    drawing = ElementTree.fromstring(panel.file)
    assert drawing.find(f"{SVG}title") is not None
    assert drawing.get("aria-label")
    return [group for group in drawing.iter(f"{SVG}g") if group.get("data-guidance")]


@pytest.mark.parametrize("metric", [DELTA, SHIFT, FACTOR], ids=lambda metric: metric.name)
def test_bars_are_the_numbers_of_the_summary(core: Path, metric: Metric) -> None:
    summary = summarise(read_results(core), resamples=100)
    panels = bar_panels(summary, metric)
    assert [panel.name for panel in panels] == [
        f"{metric.name.replace('_', '-')}-{do}" for do in summary.dos
    ]
    rates: list[float] = []  # of places along the axis to numbers
    for do, panel in zip(summary.dos, panels, strict=True):
        drawn = shapes(panel)
        assert len(drawn) == 3 * (3 if metric is FACTOR else 2)
        for group in drawn:
            cell = summary.cells[(do, str(group.get("data-guidance")))]
            estimate = metric.value(summary, cell, str(group.get("data-attribute")))
            assert isinstance(estimate, Estimate)
            ends = [float(str(group.get(f"data-{end}"))) for end in ("value", "low", "high")]
            assert ends == [estimate.value, estimate.low, estimate.high]
            bar = next(group.iter(f"{SVG}rect"))
            line = next(group.iter(f"{SVG}line"))
            low, high = (float(str(line.get(end))) for end in ("x1", "x2"))
            rate = (high - low) / (estimate.high - estimate.low)
            assert float(str(bar.get("width"))) == pytest.approx(
                abs(estimate.value) * rate, abs=0.1
            )
            end = float(str(bar.get("x"))) + float(str(bar.get("width"))) * (estimate.value > 0)
            assert (end - low) / rate == pytest.approx(
                estimate.value - estimate.low, abs=0.1 / rate
            )
            rates.append(rate)
    assert max(rates) == pytest.approx(min(rates), rel=0.02)  # one scale for all


def test_bars_of_another_unit_have_a_scale_of_their_own(clinic: Summary) -> None:
    for metric in (DELTA, SHIFT):
        (panel, *_) = bar_panels(clinic, metric)
        units = {axis_label(clinic, metric, name) for name in clinic.space.names}
        assert len(units) == 2
        assert all(unit in panel.file for unit in units)
    assert "should follow" in panel.file  # finding, when age changes


def test_there_are_no_bars_of_nothing(few: Summary, clinic: Summary) -> None:
    assert bar_panels(few, DELTA) == []  # from 32 images
    assert bar_panels(clinic, FACTOR) == []


def test_points_are_the_numbers_of_the_summary(few: Summary) -> None:
    places: list[tuple[float, float]] = []
    for do, panel in zip(few.dos, tradeoff_panels(few), strict=True):
        for group in shapes(panel):
            cell = few.cells[(do, str(group.get("data-guidance")))]
            x, y = (mean([cell], few.space.names) for mean in (on_target, off_target))
            assert x is not None
            assert y is not None
            assert float(str(group.get("data-x"))) == x.value
            assert float(str(group.get("data-y"))) == y.value
            across = next(group.iter(f"{SVG}line"))
            places.append((y.value, float(str(across.get("y1")))))
    values, heights = np.array(places).T
    assert np.corrcoef(values, heights)[0, 1] < -0.9999  # the more, the higher


def test_points_are_joined_along_the_weight_that_varies(tmp_path: Path) -> None:
    more = {"smiling": ["fcfg:smiling=2,male=1,young=1"]}
    summary = summary_of(tmp_path, n=16, settings=SWEEP, dos=("smiling", "male"), also=more)
    points = points_of(summary, "male", summary.space.names, summary.space.names)
    joined = [[p.setting.text for p in line] for line in lines(points)]
    assert joined == [
        ["none"],
        ["cfg:1.5", "cfg:2.0", "cfg:3.0"],
        [f"fcfg:affected={weight},invariant=1.2" for weight in (1.5, 2.0, 3.0)],
        [f"fcfg:affected={weight},invariant=1.0" for weight in (2.0, 3.0)],
    ]
    first, second = tradeoff_panels(summary)
    assert "smiling 2.0" in first.file
    assert first.file.count("<polyline") == second.file.count("<polyline") == 3
    long = bar_panels(summary, FACTOR)[0].file
    assert "FCFG smiling 2.0, …" in long


def test_the_legend_lists_the_settings_of_a_line_and_shortens_a_long_list(tmp_path: Path) -> None:
    settings = [
        "none",
        *(f"fcfg:affected={weight},invariant=1.2" for weight in (1.5, 2.0, 2.5, 3.0)),
    ]
    summary = summary_of(tmp_path, n=8, settings=settings, dos=("male",))
    assert "FCFG 1.5 / 1.2 → … → 3.0 / 1.2" in tradeoff_panels(summary)[0].file
    cells = {key: cell for key, cell in summary.cells.items() if key[1] != settings[3]}
    shorter = tradeoff_panels(replace(summary, cells=cells))[0].file
    assert "FCFG 1.5 / 1.2 → 2.0 / 1.2 → 3.0 / 1.2" in shorter


def test_a_distance_from_zero_is_the_same_on_both_sides() -> None:
    drift = Estimate(-0.2, np.array([-0.5, -0.1, 0.3]), 5)
    for side in (drift, drift.scaled(-1)):
        found = distance(side)
        assert (found.value, found.replicates.tolist()) == (0.2, [0.5, 0.1, 0.3])


def test_ticks_are_round_and_hold_zero() -> None:
    for low, high in ((-3.1, 4.0), (-0.004, 0.0171), (-120.0, 5.0)):
        scale = Scale(low, high, 10.0, 110.0)
        assert 0 in scale.ticks
        assert 3 <= len(scale.ticks) <= 7
        assert scale(low) == 10
        assert scale(high) == pytest.approx(110)
    assert Scale(0, 6, 0, 1).ticks == [0, 1, 2, 3, 4, 5, 6]  # a length of 1 is a step of 1
    assert Scale(0, 8, 0, 1).digits == 0
    for values in ([3.0, 4.0], [-4.0, -3.0], [float("nan")]):
        assert 0 in around(values, 0, 1).ticks


def test_files_are_drawings_by_themselves(report: Report) -> None:
    names = {path.name for path in report.paths}
    assert names >= {"report.html", "table.csv", "table.tex", "delta-male.svg", "truth-young.png"}
    for path in report.paths:
        if path.suffix == ".svg":
            drawing = ElementTree.fromstring(path.read_text("utf-8"))
            assert drawing.tag == f"{SVG}svg"
            assert "var(" not in path.read_text("utf-8")
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert picture.width > 64


@pytest.mark.parametrize(
    "names", [("улыбка", "пол"), ("sex M", "sex-M"), ("Sex", "sex"), ("x" * 300, "x" * 301)]
)
def test_two_interventions_never_share_a_file(tmp_path: Path, names: tuple[str, str]) -> None:
    rename = dict(zip(("smiling", "male"), names, strict=True))
    make_results(tmp_path, n=8, rename=rename, dos=names, settings=SHORT, pictures=1)
    result = read_results(tmp_path)
    pictures = read_pictures(result)
    assert pictures is not None
    for one, other in (
        [pictures.truth[do] for do in names],
        [pictures.answers[(do, "cfg:3.0")] for do in names],
        [pictures.reversed[(do, "cfg:3.0")] for do in names],
    ):
        assert not torch.equal(one, other)
    files = make_figures(summarise(result, resamples=20), result).files
    assert len({name.lower() for name in files}) == 1 + 2 * 5
    assert sum(name.startswith("tradeoff-") for name in files) == 2
    assert all(name.isascii() and len(name) < 100 for name in files)


# The page ---------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.alts: list[str | None] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.links += [str(found[name]) for name in ("src", "href", "data") if name in found]
        if tag == "img":
            self.alts.append(found.get("alt"))


def test_the_page_asks_for_nothing_outside(report: Report) -> None:
    text = report.page.read_text("utf-8")
    assert not re.search(r"https?://|url\(|@import|<script|<link|<iframe", text)
    outline = Outline(text)
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in outline.links)
    assert all(outline.alts)
    ids = set(re.findall(r' id="([^"]+)"', text))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= ids
    assert 'name="viewport"' in text
    assert "prefers-color-scheme" in text


def test_the_page_shows_what_the_summary_has(report: Report) -> None:
    text, summary = report.page.read_text("utf-8"), report.summary
    for line in reading(summary):
        assert tag("p", line) in text
    cell = summary.cells[("male", "cfg:3.0")]
    for value in (cell.effectiveness["male"].value, cell.delta["male"].value):
        assert f"{value:.1f}" in text
    assert f"{cell.reversal_mae.value:.3f}" in text  # pyright: ignore[reportOptionalMemberAccess]
    header = summary.header
    for said in (header["command"], header["commit"], header["model"]["digest"], "AlexNet v0.1"):
        assert said in text
    figures = len(re.findall("<figure[ >]", text)) - 1  # that of the opening is in other words
    assert figures == text.count("<figcaption") - 1 == 7
    made = "n = 240 · 100 steps of DDIM · seed 0 · checkpoint 93b1e183a5a5 · commit b219736deadb"
    assert text.count(made) == figures + 1
    assert "factual images" in text
    assert "with the noise of the way there" in text
    assert "Composition: " in text
    assert "No weights for LPIPS" not in text
    assert "No FID: not requested." in text


def test_numbers_of_the_paper_stand_beside_ours(tmp_path: Path) -> None:
    there = {"data": {"format": "celeba-hq"}}
    make_results(tmp_path, n=200, truth=False, settings=SHORT, header=there, pictures=0)
    text = write_report(tmp_path, tmp_path / "out").page.read_text("utf-8")
    assert "paper 98.8" in text
    assert "paper +12.3" in text
    assert "This run kept no pictures" in text
    assert "Comparison with the truth" not in text


def test_what_is_missing_says_why(few: Summary, tmp_path: Path) -> None:
    auroc, lpips, fid = missing_notes(few)
    assert "need at least 200 images, and this run has 32" in auroc
    assert lpips == f"N{MISSING[1:]}."
    assert fid == "No FID: not requested."
    short = summary_of(tmp_path, n=8, reverse=False, settings=("cfg:3.0",), dos=("male",))
    assert "No reversibility: not requested." in missing_notes(short)
    bare = {"title": "", "commit": None, "command": "", "environment": {}}
    model = short.header["model"] | {"provenance": None}
    unknown = replace(short, header=short.header | bare | {"model": model}, compositions={})
    result = read_results(tmp_path)
    text = build_page(unknown, make_figures(unknown, result))
    for said in ("not recorded", "unknown", "unknown hardware", "one setting"):
        assert said in text
    assert ">–</td>" in text  # without an unguided setting nothing is relative
    assert "Composition: " not in text


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    evil, quote = "<script>alert(1)</script>", "\"'><img src onerror"
    rename = {"smiling": evil, "male": quote}
    header = {"title": evil, "experiment": evil, "command": evil, "commit": evil}
    make_results(
        tmp_path, n=8, rename=rename, dos=(evil, quote), settings=SHORT, pictures=1, header=header
    )
    report = write_report(tmp_path, tmp_path / "out")
    outline = Outline(report.page.read_text("utf-8"))
    assert "script" not in outline.tags
    assert all(outline.alts)
    assert all(link.startswith(("data:image/png", "#")) for link in outline.links)
    for path in report.paths:
        assert path.parent in (tmp_path / "out", tmp_path / "out" / "figures")
        if path.suffix == ".svg":
            assert not list(ElementTree.fromstring(path.read_text("utf-8")).iter(f"{SVG}script"))


def test_markup_escapes_what_is_not_markup() -> None:
    made = tag("p", "<", tag("b", r=1.50), Markup("&amp;"), title='"', data_x=None)
    assert made == '<p title="&quot;">&lt;<b r="1.5"/>&amp;</p>'


def test_a_rule_without_a_style_has_a_default_one_everywhere(tmp_path: Path, capsys) -> None:
    settings = ("none", "novel:3.0", "fnovel:affected=3.0,invariant=1.2")
    header = {"data": {"format": "celeba-hq"}}  # which the paper has
    report = write_report(make_results(tmp_path, 20, settings=settings, header=header, pictures=1))
    print_summary(report.summary)
    page, latex = (
        report.page.with_name(n).read_text("utf-8") for n in ("report.html", "table.tex")
    )
    for text in (page, capsys.readouterr().out):
        assert "novel 3.0" in text
        assert "fnovel 3.0 / 1.2" in text
    assert "var(--own)" in page
    assert "var(--fown)" in page
    assert r"& novel & $\omega=3.0$ &" in latex
    first, second = reading(report.summary)
    assert first.startswith("Global guidance (novel 3.0) amplifies")
    assert second.startswith("Factored guidance (fnovel 3.0 / 1.2) disturbs them less")


# Pictures ---------------------------------------------------------------------------------------


def test_grey_pictures_are_shown_as_well(core: Path, tmp_path: Path) -> None:
    result = read_results(core)
    pictures = read_pictures(result)
    assert pictures is not None
    assert pictures.factual.shape == (2, 3, 32, 32)
    folder = tmp_path / "grey"
    make_results(folder, n=8, settings=SHORT, pictures=1)
    for path in (folder / "pictures").glob("*.png"):
        with Image.open(path) as picture:
            grey = picture.convert("L")
        grey.save(path)
    shown = read_pictures(read_results(folder))
    assert shown is not None
    assert shown.factual.shape == (1, 3, 32, 32)
    assert (shown.factual[:, 0] == shown.factual[:, 2]).all()


def test_one_file_has_no_pictures(core: Path, tmp_path: Path) -> None:
    file = tmp_path / "alone.jsonl"
    file.write_bytes(next(core.glob("*.jsonl")).read_bytes())
    report = write_report(file)
    assert report.page == tmp_path / "report" / "report.html"
    assert "This run kept no pictures" in report.page.read_text("utf-8")


def test_pictures_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    make_results(tmp_path, n=8, settings=SHORT, dos=("male",), pictures=1)
    result, index = read_results(tmp_path), tmp_path / "pictures" / "index.json"
    whole = json.loads(index.read_text("utf-8"))
    for text in ("{", "[" * 100_000, "[]", '"' + " " * 2**25):
        index.write_text(text, "utf-8")
        with refused("pictures", "something else", "remove the folder"):
            read_pictures(result)
    index.unlink()
    index.mkdir()
    with refused("pictures", "something else", "remove the folder"):
        read_pictures(result)
    index.rmdir()
    index.write_text(json.dumps({"factual": whole["factual"]}), "utf-8")
    with refused("pictures", "no 'rows'"):
        read_pictures(result)
    index.write_text(json.dumps(whole | {"factual": ["../secret.png"]}), "utf-8")
    with refused("pictures", "elsewhere"):
        read_pictures(result)
    index.write_text(json.dumps(whole | {"factual": ["pictures/index.json"]}), "utf-8")
    with refused("pictures", "cannot be read"):
        read_pictures(result)


def test_strips_show_what_there_is(tmp_path: Path) -> None:
    make_results(tmp_path, n=8, settings=SHORT, dos=("male", "young"), pictures=1, reverse=False)
    index = tmp_path / "pictures" / "index.json"
    whole = json.loads(index.read_text("utf-8"))
    whole["rows"] = [row for row in whole["rows"] if row["do"] == "male"]
    index.write_text(json.dumps(whole), "utf-8")
    result = read_results(tmp_path)
    figures = make_figures(summarise(result, resamples=20), result)
    assert [strip.name for strip in figures.all_strips] == [
        *("opening-male", "counterfactuals-male", "truth-male"),
    ]


def test_the_report_shows_an_anchored_answer_beside_the_others(tmp_path: Path) -> None:
    settings = (*SHORT, "contrast:1.5;anchor=true", "cfg:2.0;anchor=true")
    make_results(tmp_path, n=8, settings=settings, dos=("smiling",), pictures=2)
    result = read_results(tmp_path)
    summary, pictures = summarise(result, resamples=20), read_pictures(result)
    assert pictures is not None
    opening = opening_strip(summary, result, pictures)
    assert opening is not None
    titles = [group.title for group in opening.groups]
    assert titles[2:] == ["CFG 3.0", "FCFG 3.0 / 1.2", "anchored contrast 1.5"]
    strips = make_strips(summary, pictures)["truth"]  # and so do the maps of errors
    assert strips
    for strip in strips:
        assert [group.title for group in strip.groups][-3:] == titles[2:]


def test_the_opening_is_the_image_that_the_intervention_changes_most(tmp_path: Path) -> None:
    dos = ("smiling", "young")
    make_results(tmp_path, n=8, settings=SHORT, dos=dos, pictures=5)
    result = read_results(tmp_path)
    summary, pictures = summarise(result, resamples=20), read_pictures(result)
    assert pictures is not None
    opening = opening_strip(summary, result, pictures)
    assert opening is not None
    assert opening.do == "smiling"
    titles = [group.title for group in opening.groups]
    assert titles == ["factual", "truth", "CFG 3.0", "FCFG 3.0 / 1.2"]
    change = (pictures.truth["smiling"] - pictures.factual).abs().mean(dim=(1, 2, 3))
    row = int(change.argmax())
    shown = [next(iter(group.columns.values()))[0] for group in opening.groups]
    assert (shown[0] == pictures.factual[row]).all()
    assert (shown[2] == pictures.answers[("smiling", "cfg:3.0")][row]).all()
    smiling = result.real[result.header["images"][row]]["attributes"]["smiling"]
    assert opening.words == (
        "do(smiling): smiling is flipped, 0 to 1 and 1 to 0. Here smiling changes from "
        f"{smiling} to {1 - smiling}. Of the 5 images with pictures, this is the one that the "
        "truth changes most."
    )
    unknown = opening_strip(summary, result, replace(pictures, truth={}))
    assert unknown is not None
    assert unknown.words.endswith("this is the one that the unguided counterfactual changes most.")
    guided = {key: images for key, images in pictures.answers.items() if key[1] != "none"}
    alone = opening_strip(summary, result, replace(pictures, truth={}, answers=guided))
    assert alone is not None
    assert alone.words.endswith("this is the one that CFG 3.0 changes most.")
    assert opening_strip(summary, result, replace(pictures, answers={})) is None
    strange = replace(pictures, names=("?",) * 5)  # of which the results know nothing
    assert "Here" not in opening_strip(summary, result, strange).words  # type: ignore[union-attr]


def test_an_intervention_says_what_it_does(clinic: Summary, tmp_path: Path) -> None:
    ages = clinic.cells[("age", "none")].values["age"]
    assert in_words(clinic, "age") == (
        f"age is set to that of another image, {min(ages):.4g} to {max(ages):.4g}; finding follows"
    )
    assert in_words(clinic, "race") == (
        "race is set to another level at random: asian, black or white"
    )
    assert in_words(clinic, "sex+finding") == "sex and finding are flipped, 0 to 1 and 1 to 0"
    cells = {
        key: replace(cell, values={"age": (31.5, 72.0)}) if cell.do == "age" else cell
        for key, cell in clinic.cells.items()
    }
    header = clinic.header | {"continuous": "quantiles"}
    assert in_words(replace(clinic, cells=cells, header=header), "age") == (
        "age is set to 31.5 or 72, whichever is farther from its own value; finding follows"
    )
    made = make_results(tmp_path, n=20, settings=SHORT, dos=("male",), pictures=1)
    text = write_report(made).page.read_text("utf-8")
    assert text.count("male is flipped, 0 to 1 and 1 to 0") == 5  # the opening, and every h3


# The command ------------------------------------------------------------------------------------


def test_the_command_prints_the_reading(core: Path, tmp_path: Path, capsys) -> None:
    assert main(["report", str(core), "--out", str(tmp_path)]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Global guidance (CFG 3.0) amplifies")
    assert second.startswith("Factored guidance (FCFG 3.0 / 1.2) disturbs them less")
    assert last.startswith(f"Written to {tmp_path / 'report.html'}, with ")


def test_what_is_no_whole_run_is_one_line(core: Path, tmp_path: Path, capsys) -> None:
    lines_ = next(core.glob("*.jsonl")).read_text("utf-8").splitlines(keepends=True)
    for name, text, said in (
        ("empty", lines_[0], "an empty run"),
        ("half", "".join(lines_)[:-10], "half written"),
        ("part", "".join(lines_[:500]), "expected 2,400 rows"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "results-0-of-1.jsonl").write_text(text, "utf-8")
        assert main(["report", str(folder)]) == 2
        out, line = capsys.readouterr()
        assert out == ""
        assert line.count("\n") == 1
        assert said in line, line
        assert not (folder / "report").exists()
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.startswith("fcfg report: results")
