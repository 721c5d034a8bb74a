"""Reports: what they show follows from the numbers, and nothing else is in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from fake_results import CFG, CORE, FCFG, MISSING, SWEEP, known_results, make_results
from fcfg.cli import main
from fcfg.evaluation.metric_table import METRICS, Metric
from fcfg.evaluation.summary import Summary
from fcfg.metrics import Estimate
from fcfg.metrics.intervals import average
from fcfg.reports import Comparison, Report, compare, write_report
from fcfg.reports.charts import bar_panels, charts, lines, tradeoff_panels
from fcfg.reports.comparison import compared
from fcfg.reports.failures import failures
from fcfg.reports.page import make_figures
from fcfg.reports.rule_styles import (
    PAPER,
    STYLES,
    colours,
    setting,
    strongest,
    variable,
)
from fcfg.reports.strips import opening_strip, read_album
from fcfg.reports.svg import Panel, Scale, around
from fcfg.reports.tables import numbers, overview
from fcfg.reports.wording import in_words
from refusal import refused, refused_line

SHORT = CORE[:3]
DELTA, FACTOR = METRICS["delta"], METRICS["factor_error"]
SVG = "{http://www.w3.org/2000/svg}"


def run_of(folder: Path, **options: object) -> Comparison:
    made = make_results(folder, **{"pictures": 0, **options})  # type: ignore[arg-type]
    return compare(made, resamples=400)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("core"), pictures=2, settings=SHORT, lpips=True)


@pytest.fixture(scope="module")
def report(core: Path) -> Report:
    return write_report(compare(core))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return run_of(tmp_path_factory.mktemp("few"), n=32)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """No truth, attributes of every kind, one a cause of another, two targets at once."""
    folder, dos = tmp_path_factory.mktemp("clinic"), ("age", "race", "sex+finding")
    return run_of(folder, n=210, mixed=True, dos=dos, settings=SHORT)


# At a glance ------------------------------------------------------------------------------------


Key = tuple[str, str, str]  # metric, heading and unit
REST: Key = ("factor_error", "off target", "sd")


def glance(comparison: Comparison) -> dict[Key, dict[str, Estimate]]:
    """Numbers by setting."""
    table = overview(comparison)
    return {
        (own.metric, own.title, own.unit): {
            row.names[-1]: cell for row in table.rows if isinstance(cell := row.cells[k], Estimate)
        }
        for k, own in enumerate(table.columns)
    }


def best(comparison: Comparison) -> dict[Key, str]:
    """The setting that is bold in a column, if one is."""
    rows = overview(comparison).rows
    return {(own.metric, own.title, own.unit): row.names[-1] for row in rows for own in row.best}


def test_the_table_at_a_glance_averages_distances_over_the_interventions(few: Comparison) -> None:
    rest, cells = glance(few)[REST], few.runs[0].summary.cells
    for label, text in (("CFG 3.0", CFG), ("FCFG 3.0 / 1.2", FCFG)):
        own = [cells[do, text] for do in few.dos]
        means = [
            average([cell.of("factor_error")[name] for name in cell.invariant]) for cell in own
        ]
        wanted = average([abs(mean) for mean in means if mean is not None])
        assert (rest[label].value, rest[label].low) == (wanted.value, wanted.low)
    assert rest["CFG 3.0"].low > rest["FCFG 3.0 / 1.2"].high
    assert best(few)["reversal_mae", "MAE", ""] == "unguided"


def test_the_best_is_marked_unless_the_images_are_too_few(tmp_path: Path) -> None:
    for n, marked in ((10, "FCFG 3.0 / 1.2"), (9, None)):
        one = run_of(tmp_path / str(n), n=n, settings=(CFG, FCFG))
        assert best(one).get(REST) == marked


def test_attributes_of_each_unit_have_columns_of_their_own(clinic: Comparison) -> None:
    """No number is a mean over probabilities and standard deviations."""
    found = glance(clinic)
    kinds = [("shift", title) for title in ("target", "off target")]
    wanted = {(*kind, unit) for kind in kinds for unit in ("sd", "probability")}
    wanted |= {("error", "target", "units of age"), ("auroc", "target", "AUROC x 100")}
    assert set(found) >= wanted
    assert "unguided" not in found["shift", "target", "sd"]  # it does not differ from itself
    units = {"sex": "probability", "race": "probability", "age": "sd", "finding": "probability"}
    for do in clinic.dos:
        own = [one for one in clinic.measured[do].table if one.metric == "shift"]
        assert {one.attribute: one.unit for one in own if one.attribute} == units
    names = {panel.name for panel in tradeoff_panels(clinic)}
    assert names == {
        *("tradeoff-age-sd-probability", "tradeoff-race-probability-probability"),
        *("tradeoff-race-probability-sd", "tradeoff-sex+finding-probability-probability"),
        "tradeoff-sex+finding-probability-sd",
    }


def test_what_the_judge_cannot_read_is_left_out_of_means(clinic: Comparison) -> None:
    run = clinic.runs[0]
    known = run.summary.real_correlation
    blind = replace(run.summary, real_correlation=known | {"age": known["age"].scaled(0.0)})
    found = glance(compared([replace(run, summary=blind)]))
    assert ("shift", "off target", "sd") in glance(clinic)
    assert ("shift", "off target", "sd") not in found


# Runs that cannot say anything ------------------------------------------------------------------


def test_a_poor_inversion_is_no_failure_where_no_answer_needs_one(tmp_path: Path) -> None:
    drawn = "contrast:1.5;anchor=true;drawn_noise=true"
    for name, other in (("a", []), ("b", [CFG])):
        settings = ["none", drawn, *other]
        run = run_of(tmp_path / name, n=50, settings=settings, noise=True, dos=("male",))
        assert bool(run.failures) == bool(other)


@pytest.mark.parametrize(("mixed", "unrelated"), [(False, 0.41), (True, None)])
def test_noise_says_so_first(tmp_path: Path, capsys, mixed: bool, unrelated: float | None) -> None:
    dos = ("age", "sex") if mixed else ("male",)
    options = {"mixed": mixed, "truth": not mixed, "dos": dos, "unrelated": unrelated}
    made = make_results(tmp_path, n=200, settings=SHORT, noise=True, pictures=1, **options)
    assert main(["report", str(made)]) == 0
    assert capsys.readouterr().out.startswith("The model fails without guidance, so the run says")
    found = compare(made, resamples=100).failures
    assert not best(compare(made))
    kinds = ("Without guidance or change", "There and back without guidance", "From counterfact")
    for kind, line in zip(kinds, (found[0], found[1], found[-1]), strict=True):
        assert line.startswith(kind)
    beside = "trained models stay below 0.2" if unrelated is None else "unrelated image is 0.41"
    assert beside in found[0]
    text = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert 'class="failed"' in text.split("<img ")[0]


def test_answers_that_are_nearer_to_any_other_image_fail(few: Comparison) -> None:
    """Half of the way to an unrelated image is the limit, for composition and for the way back."""
    summary = few.runs[0].summary
    assert failures(summary) == []
    apart = summary.composition.whole("change_mae")
    assert apart is not None

    def with_cells(metric: str, found: Estimate) -> Summary:
        cells = {
            key: replace(cell, numbers=cell.numbers | {(metric, ""): found})
            for key, cell in summary.cells.items()
            if key[0]
        }
        return replace(summary, cells=summary.cells | cells)

    for share, fails in ((0.4, False), (0.6, True)):
        assert bool(failures(replace(summary, unrelated=apart.scaled(1 / share)))) == fails
    for error, fails in ((0.19, False), (0.21, True)):
        far = apart.scaled(error / apart.value)
        assert bool(failures(with_cells("reversal_mae", far))) == fails
        assert bool(failures(with_cells("truth_mae", far))) == fails
    assert (
        failures(with_cells("change_mae", apart.scaled(90))) == []
    )  # what should change may be far
    guided = with_cells("reversal_mae", apart.scaled(9)).cells
    guided = {
        key: guided[key] if key[1] != "none" else cell
        for key, cell in summary.cells.items()
        if key[0]
    }
    assert failures(replace(summary, cells=guided)) == []  # only unguided ones


def test_a_model_that_does_nothing_without_guidance_fails(few: Comparison) -> None:
    summary = few.runs[0].summary

    def still(n: int, *moving: tuple[str, str]) -> Summary:
        cells = dict(summary.cells)
        for key in cells.keys() - set(moving):
            moved = cells[key].of("moved").items()
            back = {("moved", name): replace(e.scaled(-1), n=n) for name, e in moved}
            cells[key] = replace(cells[key], numbers=cells[key].numbers | back)
        return replace(summary, cells=cells)

    (said,) = failures(still(32))
    assert "smiling under do(smiling), male under do(male) and young under do(young)" in said
    assert failures(still(32, ("male", "none"))) == []
    for n, fails in ((9, False), (10, True)):  # of so few images it may be chance
        assert bool(failures(still(n))) == fails
    guided = {key: cell for key, cell in still(32).cells.items() if key[1] != "none"}
    assert failures(replace(summary, cells=guided)) == []
    assert failures(replace(still(32), n=1)) == []  # one image has no intervals


def test_a_judge_that_reads_no_target_measures_nothing(clinic: Comparison) -> None:
    """Chance is told by the interval, from as many images as an AUROC needs."""
    summary = clinic.runs[0].summary
    wide = Estimate(0.1, np.array([-0.1, 0.3] * 200), 200)  # positive, and its interval holds 0
    for n, fails in ((199, False), (200, True)):
        read = dict.fromkeys(summary.real_correlation, replace(wide, n=n))
        found = failures(replace(summary, real_correlation=read))
        assert bool(found) == fails
        assert not fails or found[0].startswith("The judge reads sex, race, age and finding from")


def test_the_setting_beside_the_strongest_is_of_the_same_rule() -> None:
    def chosen(*texts: str) -> list[str | None]:
        return [s and s.text for s in strongest([setting(text) for text in texts])]

    weak, strong = "fcfg:affected=2,invariant=1", "fcfg:affected=3,invariant=1.2"
    assert chosen(*CORE) == [CFG, FCFG]
    assert chosen("cfg:2", "cfg:3", weak, strong) == ["cfg:3", strong]
    assert chosen("cfg:2", weak, strong) == ["cfg:2", weak]
    assert chosen("cfg:1.5", weak, strong) == ["cfg:1.5", strong]
    other = "fapg:affected=3,invariant=1"
    assert chosen("cfg:3", "apg:3", other) == ["apg:3", other]
    assert chosen("cfg++:0.02") == ["cfg++:0.02", None]
    assert chosen(strong) == [None, strong]
    assert chosen("none") == [None, None]


# Colours ----------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_can_be_read_on_every_ground(dark: bool) -> None:
    shown = {name: luminance(colour) for name, colour in colours(dark).items()}
    for name, ground in product((*STYLES, "ink", "pale"), ("paper", "ground", "focus")):
        dim, bright = sorted((shown[variable(name)], shown[variable(ground)]))
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (name, ground)


def test_every_family_has_a_colour_and_a_mark_of_its_own() -> None:
    looks = {(style.mark, name.startswith("f")) for name, style in STYLES.items()}
    own = [looks, *({style[paper] for style in STYLES.values()} for paper in (1, 2))]
    assert [len(each) for each in own] == 3 * [len(STYLES)]


def test_a_family_has_one_colour_in_every_figure(few: Comparison) -> None:
    for panel in (*bar_panels(few, FACTOR), *tradeoff_panels(few)):
        for group in shapes(panel):
            wanted = colours(dark=False)[setting(str(group.get("data-guidance"))).colour]
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


def numbers_of(shape: ElementTree.Element, names: str) -> list[float]:
    return [float(str(shape.get(name))) for name in names.split()]


@pytest.mark.parametrize("metric", [DELTA, FACTOR], ids=lambda metric: metric.name)
def test_bars_are_the_numbers_of_the_summary(report: Report, metric: Metric) -> None:
    summary = report.comparison.runs[0].summary
    rates: list[float] = []  # of places along the axis to numbers
    for do, panel in zip(summary.dos, bar_panels(report.comparison, metric), strict=True):
        assert panel.name == f"{metric.name.replace('_', '-')}-{do}"
        drawn = shapes(panel)
        assert len(drawn) == 3 * (3 if metric is FACTOR else 2)
        for group in drawn:
            cell = summary.cells[do, str(group.get("data-guidance"))]
            estimate = cell.of(metric.name)[str(group.get("data-attribute"))]
            ends = numbers_of(group, "data-value data-low data-high")
            assert ends == [estimate.value, estimate.low, estimate.high]
            low, high = numbers_of(next(group.iter(f"{SVG}line")), "x1 x2")
            width, start = numbers_of(next(group.iter(f"{SVG}rect")), "width x")
            rate = (high - low) / (estimate.high - estimate.low)
            assert width == pytest.approx(abs(estimate.value) * rate, abs=0.3)
            end = start + width * (estimate.value > 0)
            assert end - low == pytest.approx((estimate.value - estimate.low) * rate, abs=0.3)
            rates.append(rate)
    assert max(rates) == pytest.approx(min(rates), rel=0.02)  # one scale for all


def test_bars_of_another_unit_have_a_scale_of_their_own(clinic, few: Comparison) -> None:
    for metric in (DELTA, METRICS["shift"]):
        (panel, *_) = bar_panels(clinic, metric)
        shown = [own for own in clinic.measured["age"].every if own.metric == metric.name]
        units = {own.unit for own in shown if own.attribute}
        assert len(units) == 2
        axes = (f"{metric.title} ({unit.replace(' x ', ' × ')})" for unit in units)
        assert all(axis in panel.file for axis in axes)
    assert "should follow" in panel.file  # finding, when age changes
    assert bar_panels(few, DELTA) == bar_panels(clinic, FACTOR) == []  # nothing was measured


def test_a_block_of_bars_ends_below_its_last_bar(few: Comparison) -> None:
    """So that nothing is drawn over the next attribute."""
    drawing = ElementTree.fromstring(bar_panels(few, FACTOR)[0].file)
    ground = next(r for r in drawing.iter(f"{SVG}rect") if r.get("rx"))
    bars = [r for r in drawing.iter(f"{SVG}rect") if r.get("fill-opacity")][:7]
    last = max(sum(numbers_of(bar, "y height")) for bar in bars)
    assert 4 < sum(numbers_of(ground, "y height")) - last < 14


def test_points_are_the_numbers_of_all_models_on_shared_scales(few: Comparison) -> None:
    places: list[tuple[float, float]] = []
    for do, panel in zip(few.dos, tradeoff_panels(few), strict=True):
        for group in shapes(panel):
            cell = few.runs[0].summary.cells[do, str(group.get("data-guidance"))]
            rest = average([cell.of("factor_error")[name] for name in cell.invariant])
            assert numbers_of(group, "data-x data-y") == [
                cell.of("factor_error")[do].value,
                rest.value,
            ]
            places.append((rest.value, *numbers_of(next(group.iter(f"{SVG}line")), "y1")))
    values, heights = np.array(places).T
    assert np.corrcoef(values, heights)[0, 1] < -0.9999  # the more, the higher


def test_points_are_joined_along_the_weight_that_varies(tmp_path: Path) -> None:
    more = {"smiling": ["fcfg:smiling=2,male=1,young=1"]}
    one = run_of(tmp_path, n=16, settings=SWEEP, dos=("smiling", "male"), also=more)
    points = charts(one)["male", ("sd", "sd")]
    assert [[p.setting.text for p in line] for line in lines(points)] == [
        ["none"],
        ["cfg:1.5", "cfg:2.0", "cfg:3.0"],
        [f"fcfg:affected={weight},invariant=1.2" for weight in (1.5, 2.0, 3.0)],
        [f"fcfg:affected={weight},invariant=1.0" for weight in (2.0, 3.0)],
    ]
    singles = {row.names for row in numbers(one, "smiling").rows}
    averaged = {row.names for row in overview(one).rows}
    assert singles - averaged == {("FCFG smiling 2.0, male 1.0, young 1.0",)}  # not asked of all
    first, second = tradeoff_panels(one)
    assert first.file.count("<polyline") == second.file.count("<polyline") == 3
    assert "FCFG 1.5 / 1.2 → 2.0 / 1.2 → 3.0 / 1.2" in second.file
    assert "FCFG smiling 2.0, …" in bar_panels(one, FACTOR)[0].file
    longer = [f"fcfg:affected={weight},invariant=1.2" for weight in (1.5, 2.0, 2.5, 3.0)]
    four = run_of(tmp_path / "b", n=8, settings=["none", *longer], dos=("male",))
    assert "FCFG 1.5 / 1.2 → … → 3.0 / 1.2" in tradeoff_panels(four)[0].file


def test_where_all_is_asked_for_there_is_no_tradeoff(tmp_path: Path) -> None:
    one = run_of(tmp_path, n=16, dos=("smiling+male+young",), settings=SHORT)
    assert tradeoff_panels(one) == []


def test_ticks_are_round_and_hold_zero() -> None:
    for low, high in ((-3.1, 4.0), (-0.004, 0.0171), (-120.0, 5.0)):
        scale = Scale(low, high, 10.0, 110.0)
        assert 0 in scale.ticks
        assert 3 <= len(scale.ticks) <= 7
        assert (scale(low), scale(high)) == (10, pytest.approx(110))
    assert Scale(0, 6, 0, 1).ticks == [0, 1, 2, 3, 4, 5, 6]  # a length of 1 is a step of 1
    assert Scale(0, 8, 0, 1).digits == 0
    for values in ([3.0, 4.0], [-4.0, -3.0], [float("nan")]):
        assert 0 in around(values, 0, 1).ticks


@pytest.mark.parametrize("names", [("улыбка", "пол"), ("sex M", "sex-M"), ("x" * 300, "X" * 300)])
def test_two_interventions_never_share_a_file(tmp_path: Path, names: tuple[str, str]) -> None:
    rename = dict(zip(("smiling", "male"), names, strict=True))
    one = run_of(tmp_path, n=8, rename=rename, dos=names, settings=SHORT, pictures=1)
    album = read_album(one)
    rows = [one.measured[do].rows[1] for do in names]
    for kept, keys in ((album.truth, names), (album.answers, rows), (album.reversed, rows)):
        first, second = (kept[key] for key in keys)
        assert not torch.equal(first, second)
    files = make_figures(one).files
    assert len({name.lower() for name in files}) == 1 + 2 * 5
    assert all(name.isascii() and len(name) < 100 for name in files)


# The page ---------------------------------------------------------------------------------------


def read(page: Path) -> tuple[list[str], str]:
    """The tags of a page, and its words; its markup is closed, so any XML parser can read it."""
    root = ElementTree.parse(page).getroot()
    return [each.tag for each in root.iter()], "".join(root.itertext())


def values(page: Path, *names: str) -> list[str]:
    """What some attributes have, wherever they are on a page."""
    every = list(ElementTree.parse(page).iter())
    return [str(each.get(name)) for name in names for each in every if name in each.attrib]


def test_the_page_asks_for_nothing_outside_and_begins_with_pictures(report: Report) -> None:
    text, (tags, _) = report.page.read_text("utf-8"), read(report.page)
    links = values(report.page, "src", "href")
    assert all(f"--{name}:{PAPER[name][0]}" in text for name in PAPER)
    assert not re.search(r"https?://|url\(|@import|<script|<link|<iframe", text)
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in links)
    assert len(list(filter(None, values(report.page, "alt")))) == tags.count("img")
    assert {link[1:] for link in links if link[0] == "#"} <= {*values(report.page, "id")}
    assert tags.index("img") < tags.index("table")
    assert tags.count("figure") == tags.count("figcaption") == 1 + 6
    tables = 1 + 3 + 1 + 1 + 3 * 3  # at a glance, numbers, no change, models, and pictures
    assert tags.count("table") == tables


def test_the_page_shows_every_number_of_its_tables(report: Report) -> None:
    (_, words), run = read(report.page), report.comparison
    for table in (overview(run), *(numbers(run, do) for do in run.measured)):
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell is not None:
                    assert column.text(cell) in words
                    assert column.interval(cell) in words
    header = report.comparison.runs[0].header
    made = "n = 240 · 100 steps of DDIM · seed 0 · checkpoint 93b1e183a5a5 · commit b219736deadb"
    for said in (header["command"], "AlexNet v0.1", "factual images", made):
        assert said in words
    names = {path.name for path in report.paths}
    assert names >= {"report.html", "table.csv", "table.tex", "delta-male.svg", "truth-young.png"}
    for path in report.paths:
        if path.suffix == ".svg":
            assert "var(" not in path.read_text("utf-8")
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert picture.width > 64


def test_what_is_missing_says_why(tmp_path: Path) -> None:
    bare = {"title": "", "commit": None, "command": "", "environment": {}}
    one = run_of(tmp_path, n=8, reverse=False, settings=(CFG,), dos=("male",), header=bare)
    assert "need at least 200 images, and this run has 8" in one.notes[0]
    assert one.notes[1] == f"N{MISSING[1:]}."
    assert one.notes[2:] == ("No FID: not requested.", "No reversibility: not requested.")
    _, words = read(write_report(one, tmp_path / "out").page)
    for said in ("command not recorded", "environment unknown", "This run kept no pictures"):
        assert said in words


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    evil, quote = "<script>alert(1)</script>", "\"'><img src onerror"
    rename = {"smiling": evil, "male": quote}
    header = {"title": evil, "experiment": evil, "command": evil, "commit": evil}
    options = {"rename": rename, "dos": (evil, quote), "header": header}
    folder = make_results(tmp_path, n=8, settings=SHORT, pictures=1, **options)
    for name, runs in (("one", (folder,)), ("two", (folder, folder))):
        report = write_report(compare(*runs, resamples=2), tmp_path / name)
        tags, words = read(report.page)
        assert "script" not in tags
        assert evil in words
        assert all(values(report.page, "alt"))
        links = values(report.page, "src", "href")
        assert all(link.startswith(("data:image/png", "#")) for link in links)
        for path in report.paths:
            assert path.parent in (tmp_path / name, tmp_path / name / "figures")
            if path.suffix == ".svg":
                drawing = ElementTree.fromstring(path.read_text("utf-8"))
                assert not list(drawing.iter(f"{SVG}script"))


def test_a_rule_without_a_style_has_a_default_one_everywhere(tmp_path: Path) -> None:
    settings = ("none", "novel:3.0", "fnovel:affected=3.0,invariant=1.2")
    header = {"data": {"format": "celeba-hq"}}  # which the paper has
    report = write_report(run_of(tmp_path, n=20, settings=settings, header=header, pictures=1))
    words = report.page.read_text("utf-8")
    for colour, label in (("own", "novel 3.0"), ("fown", "fnovel 3.0 / 1.2")):
        assert f'<span style="color:var(--{colour})">{label}' in words
    assert "novel 3.0 & " in (report.page.parent / "table.tex").read_text("utf-8")


# Pictures ---------------------------------------------------------------------------------------


def test_grey_pictures_are_shown_as_well(tmp_path: Path) -> None:
    one = run_of(tmp_path, n=8, settings=SHORT, pictures=1)
    for path in (tmp_path / "pictures").glob("*.png"):
        Image.open(path).convert("L").save(path)
    shown = read_album(one)
    assert torch.equal(shown.factual[:, :1].expand(1, 3, 32, 32), shown.factual)


def test_pictures_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path, n=8, settings=SHORT, dos=("male",), pictures=1)
    index = tmp_path / "pictures" / "index.json"
    whole = json.loads(index.read_text("utf-8"))
    broken = ("{", "[" * 100_000, "[]", '"' + " " * 2**25)
    partial = (
        {"factual": whole["factual"]},
        whole | {"factual": ["../secret.png"]},
        whole | {"factual": ["pictures/index.json"]},
        whole | {"factual": []},
    )
    for text in (*broken, *map(json.dumps, partial)):
        index.write_text(text, "utf-8")
        with refused("pictures"):
            read_album(run)
    index.unlink()
    index.mkdir()
    with refused("pictures", "a folder"):
        read_album(run)


def test_strips_show_what_there_is(tmp_path: Path) -> None:
    options = {"dos": ("male", "young"), "pictures": 1, "reverse": False}
    one = run_of(tmp_path, n=8, settings=SHORT, **options)
    index = tmp_path / "pictures" / "index.json"
    whole = json.loads(index.read_text("utf-8"))
    whole["rows"] = [row for row in whole["rows"] if row["do"] == "male"]
    index.write_text(json.dumps(whole), "utf-8")
    kinds = ("opening", "counterfactuals", "truth")
    strips = make_figures(one).strips
    assert [strip.name for own in strips.values() for strip in own] == [f"{k}-male" for k in kinds]
    file = tmp_path / "alone.jsonl"
    file.write_bytes(next(tmp_path.glob("results*.jsonl")).read_bytes())
    alone = write_report(compare(file, resamples=20))
    assert alone.page == tmp_path / "report" / "report.html"
    assert make_figures(alone.comparison).strips == {}  # a file has no pictures


def test_the_report_shows_an_anchored_answer_beside_the_others(tmp_path: Path) -> None:
    settings = (*SHORT, "contrast:1.5;anchor=true", "cfg:2.0;anchor=true")
    one = run_of(tmp_path, n=8, settings=settings, dos=("smiling",), pictures=2)
    figures = make_figures(one)
    titles = [group.title for group in figures.strips["opening"][0].groups]
    assert titles[2:] == ["CFG 3.0", "FCFG 3.0 / 1.2", "anchored contrast 1.5"]
    (strip,) = figures.strips["truth"]  # and so do the maps of errors
    assert [group.title for group in strip.groups][-4:] == ["unguided", *titles[2:]]


def test_the_opening_is_the_image_that_the_intervention_changes_most(tmp_path: Path) -> None:
    one = run_of(tmp_path, n=8, settings=SHORT, dos=("smiling", "young"), pictures=5)
    album = read_album(one)
    assert album is not None
    opening = opening_strip(one, album)
    assert opening.do == "smiling"
    titles = [group.title for group in opening.groups]
    assert titles == ["factual", "truth", "CFG 3.0", "FCFG 3.0 / 1.2"]
    row = int((album.truth["smiling"] - album.factual).abs().mean(dim=(1, 2, 3)).argmax())
    answers = album.answers[one.measured["smiling"].rows[1]]
    for group, images in zip(opening.groups[::2], (album.factual, answers), strict=True):
        assert (group.columns[""][0] == images[row]).all()
    result = one.runs[0].result
    smiling = result.real[result.header["images"][row]]["attributes"]["smiling"]
    assert f"Here smiling changes from {smiling} to {1 - smiling}." in opening.words

    def words(**changes: object) -> str | None:
        strip = opening_strip(one, replace(album, **changes))  # type: ignore[arg-type]
        return strip and strip.words

    guided = {row: images for row, images in album.answers.items() if row.cell.guidance != "none"}
    assert "the one that the truth changes most" in str(words())
    assert "the one that the unguided counterfactual changes most" in str(words(truth={}))
    assert "the one that CFG 3.0 changes most" in str(words(truth={}, answers=guided))
    assert words(answers={}) is None
    strange = words(names=("?",) * 5)  # of which the results know nothing
    assert "Here" not in str(strange)


def test_an_intervention_says_what_it_does(clinic: Comparison) -> None:
    summary = clinic.runs[0].summary
    ages = summary.cells["age", "none"].values["age"]
    assert in_words(summary, "age") == (
        f"age is set to that of another image, {min(ages):.4g} to {max(ages):.4g}; finding follows"
    )
    assert in_words(summary, "race") == (
        "race is set to another level at random: asian, black or white"
    )
    assert in_words(summary, "sex+finding") == "sex and finding are flipped, 0 to 1 and 1 to 0"
    cell = summary.cells["age", "none"]
    cells = {("age", "none"): replace(cell, values={"age": (31.5, 72.0)})}
    header = summary.header | {"continuous": "quantiles"}
    assert in_words(replace(summary, cells=cells, header=header), "age").startswith(
        "age is set to 31.5 or 72, whichever is farther from its own value"
    )


# The files of tables, and the command -----------------------------------------------------------


def test_numbers_of_the_paper_stand_below_ours(tmp_path: Path) -> None:
    slip = "fcfg:affected=2.5,invariant=1.2"
    file = known_results(tmp_path / "a.jsonl", settings=["none", CFG, slip], dos=["male"])
    one = compare(file, resamples=20)
    table = numbers(one, "male")
    names = [row.names[0] for row in table.rows]
    ours = ("unguided", "CFG 3.0", "FCFG 2.5 / 1.2")
    assert names == [*(name for own in ours for name in (own, "the paper")), "factual images"]
    kinds = [(own.metric, own.attribute) for own in table.columns]
    assert table.rows[3].cells[kinds.index(("auroc", "male"))] == 99.2
    assert "71.1" in table.rows[5].note  # where the paper contradicts itself
    files = write_report(one).page.parent
    csv, latex = ((files / f"table.{end}").read_text("utf-8") for end in ("csv", "tex"))
    assert "the paper,male,cfg:3.0,auroc,male,99.2," in csv
    assert r"\textcolor{gray}{the paper} & \textcolor{gray}{98.2" in latex


def test_a_run_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    refused_line(["report", "nowhere"], "results", capsys)
