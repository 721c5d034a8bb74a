"""Comparisons of runs: paired on the same images, and claiming no more than the numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fake_results import CFG, FCFG, known_results, make_results
from fcfg.cli import main
from fcfg.evaluation.result_files import read_results
from fcfg.metrics import Bootstrap, Estimate, mean
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from fcfg.reports import Comparison, compare, write_report
from fcfg.reports.charts import tradeoff_panels
from fcfg.reports.measures import Value, Values, sized
from fcfg.reports.page import build_page, make_figures
from fcfg.reports.strips import make_strips, opening_strip, read_album
from fcfg.reports.table import Column
from fcfg.reports.tables import best, differences, gap, models, numbers, overview, table_files
from fcfg.reports.wording import sample
from refusal import refused

N, FEW = 200, 12  # images: the fewest that an AUROC needs, and few
HOT = ("none", "temperature:0.1")
CONTINUOUS = {"kind": "continuous", "low": 0.0, "high": 1.0}
EFFECTS: dict[str, Any] = {"reversal": {"none": 0.1, CFG: 0.3, FCFG: 0.2}, "fid": 9.0}
DRAWN = {CFG: "cfg:3.0;anchor=true;drawn_noise=true"}
Change = Callable[[dict[str, Any]], object]


def edited(source: Path, out: Path, *changes: Change) -> Path:
    """A copy of a result file whose lines are changed in place; a line is dropped by False."""
    lines = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    kept = [line for line in lines if False not in [change(line) for change in changes]]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
    return out


def renamed(name: str) -> Change:
    return header(model={"name": name})


def header(**changes: Any) -> Change:
    def change(line: dict[str, Any]) -> None:
        if line["kind"] == "run":
            for name, value in changes.items():
                line[name] = line[name] | value if isinstance(value, dict) else value

    return change


def returned(by: Callable[[], float]) -> Change:
    """Move the reversal of every image."""

    def change(line: dict[str, Any]) -> None:
        if line["kind"] == "row" and line["reversal"]:
            line["reversal"]["mae"] += by()

    return change


def restricted(keep: Callable[[str], bool]) -> Change:
    """Keep some images only."""

    def change(line: dict[str, Any]) -> bool:
        if line["kind"] == "run":
            line["images"] = [image for image in line["images"] if keep(image)]
        return "image" not in line or keep(line["image"])

    return change


def without(*dos: str) -> Change:
    def change(line: dict[str, Any]) -> bool:
        if line["kind"] == "run":
            line["questions"] = [pair for pair in line["questions"] if pair[0] not in dos]
        return line.get("do") not in dos

    return change


def column(comparison: Comparison, do: str, group: str, title: str) -> tuple[Column, Values]:
    found = comparison.measured[do].table.items()
    return next(pair for pair in found if (pair[0].group, pair[0].title) == (group, title))


def back(comparison: Comparison, do: str) -> tuple[Column, Values]:
    return column(comparison, do, "after reversal", "MAE")


def apart(one: Value, other: Value) -> list[float]:
    """Paired difference with its interval."""
    found = gap(one, other)
    return [found.value, found.low, found.high]


def reversals(file: Path) -> np.ndarray:
    """The error of every image after reversal, as the file has it."""
    rows = read_results(file).rows.values()
    asked = [row for row in rows if (row["do"], row["guidance"]) == ("male", CFG)]
    return np.array([row["reversal"]["mae"] for row in asked])


def lines(comparison: Comparison, file: str = "table.csv") -> list[dict[str, str]]:
    return list(csv.DictReader(table_files(comparison)[file].decode().splitlines()))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two interventions, three settings, with reversals, a FID and no truth."""
    return known_results(tmp_path_factory.mktemp("ours") / "ours.jsonl", n=FEW, **EFFECTS)


@pytest.fixture(scope="module")
def shifted(ours: Path) -> Path:
    return edited(ours, ours.parent / "far.jsonl", renamed("far"), returned(lambda: 0.05))


@pytest.fixture
def copied(ours: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes copies of the file, of models with other names and with other lines."""
    return lambda name, *changes: edited(ours, tmp_path / f"{name}.jsonl", renamed(name), *changes)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with enough images for an AUROC."""
    return known_results(tmp_path_factory.mktemp("large") / "large.jsonl", n=N, **EFFECTS)


@pytest.fixture(scope="module")
def pair(large: Path) -> Comparison:
    far = edited(large, large.parent / "far.jsonl", renamed("far"), returned(lambda: 0.05))
    return compare(large, far, resamples=200)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Drawings with pictures: a diffusion model, and a VAE with other pictures and no FCFG."""
    first, second = (tmp_path_factory.mktemp("drawn") / name for name in ("diffusion", "vae"))
    model = {"name": "vae", "digest": "0a", "parameters": 7_980_000, "traits": {}}
    make_results(first, n=FEW, settings=("none", CFG, FCFG), dos=("smiling", "male"), pictures=4)
    make_results(
        *(second, FEW), settings=HOT, dos=("smiling", "male"), pictures=3, header={"model": model}
    )
    return first, second


def by_noise(line: dict[str, Any]) -> None:
    """Plain CFG draws its noise, and a return with fresh noise ends twice as far away."""
    if line["kind"] == "run":
        line["questions"] = [[do, DRAWN.get(text, text)] for do, text in line["questions"]]
    if (text := line.get("guidance")) in DRAWN:
        line["guidance"] = DRAWN[text]
        if line["kind"] == "row":
            line["fresh"] = {"mae": 2 * line["reversal"]["mae"], "lpips": 0.1}


# Numbers ----------------------------------------------------------------------------------------


def test_a_run_compared_with_itself_differs_in_nothing_and_has_no_winner(large: Path) -> None:
    same = compare(large, large, resamples=200)
    assert [run.name for run in same.runs] == ["tiny (large) #1", "tiny (large) #2"]
    for measured in same.measured.values():
        half = len(measured.rows) // 2
        for own, found in measured.table.items():
            values = [*found.values()]
            assert best(own, values) is None, own.title
            for pair in zip(values[:half], values[half:], strict=True):
                value, low, high = (0.0, 0.0, 0.0) if gap(*pair) in (None, 0) else apart(*pair)
                assert value == 0
                assert low == high == 0 or (low == -high and any(pair[0].beyond))
    glance = overview(same)
    assert len(glance.columns) >= 4
    assert not [row for row in glance.rows if row.best]


def test_the_best_is_marked_only_if_it_is_clear(ours: Path, copied) -> None:
    for by, is_clear in ((0.0, False), (-0.02, True)):
        rng = np.random.default_rng(0)
        noisy = returned(lambda: by + 0.01 * float(rng.standard_normal()))  # noqa: B023
        both = compare(ours, copied("noisy", noisy), resamples=200)
        change = column(both, "smiling", "change", "MAE")  # no value of it is best
        for (own, found), clear in ((back(both, "smiling"), is_clear), (change, False)):
            values = [value for row, value in found.items() if row.cell.guidance == "none"]
            assert (best(own, values) is not None) == clear


def test_returns_with_own_and_with_fresh_noise_stand_side_by_side(ours: Path, copied) -> None:
    """Inferred noise is both; where no run has drawn any, a return is just a return."""
    run = copied("drawn", by_noise)
    for comparison in (compare(run, resamples=50), compare(ours, run, resamples=50)):
        (_, own), (_, fresh) = (
            column(comparison, "male", "after reversal", f"MAE, {noise} noise")
            for noise in ("own", "fresh")
        )
        for row, value in own.items():
            times = 2 if row.cell.guidance in DRAWN.values() else 1
            assert fresh[row].value == pytest.approx(times * value.value)
        titles = [own.title for own in overview(comparison).columns]
        assert {"MAE, own noise", "MAE, fresh noise"} < set(titles)
        assert {"fresh_mae", "fresh_lpips"} < {line["metric"] for line in lines(comparison)}
    plain = compare(ours, resamples=50)
    titles = {own.title for own in plain.measured["male"].table if own.group == "after reversal"}
    assert titles == {"MAE", "LPIPS"}
    assert "fresh_mae" not in {line["metric"] for line in lines(plain)}


def test_patients_are_resampled_where_one_of_the_runs_knows_them(ours: Path, copied) -> None:
    """Three images each; a run of an older version has the same images, and no patients."""
    known = {"of": "patients", "rows": [k // 3 for k in range(FEW)]}

    def known_groups(line: dict[str, Any]) -> None:
        line |= {"groups": known} if line["kind"] == "run" else {}

    new = copied("new", known_groups)
    assert sample(compare(ours).runs[0].summary) == "n = 12"
    for files in ((new,), (ours, new), (new, ours)):
        comparison = compare(*files, resamples=50)
        assert sample(comparison.runs[0].summary) == "n = 12, bootstrap over 4 patients"
        assert "bootstrap over 4 patients" in table_files(comparison)["table.tex"].decode()
        for run in comparison.runs:
            found = run.summary.cells["male", CFG].whole("reversal_mae")
            draws = Bootstrap(FEW, resamples=50, groups=known["rows"])
            expected = mean(reversals(ours), draws).replicates
            assert found.replicates == pytest.approx(expected)
    few = copied("few", restricted(lambda name: name not in ("0000.png", "0009.png")))
    some = [compare(*files, resamples=50) for files in ((new, few), (few, new))]
    kept = [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert [run.header["groups"]["rows"] for c in some for run in c.runs] == [kept] * 4
    first, second = ({tuple(line.values()) for line in lines(own)} for own in some)
    assert first == second


def test_the_order_of_the_runs_changes_no_number(ours: Path, copied) -> None:
    """Even if they have different images, in different orders."""
    images = read_results(ours).header["images"]
    backwards = copied("far", returned(lambda: 0.05), header(images=images[::-1]))
    files = [ours, backwards, copied("few", restricted(lambda name: name < "0010.png"))]
    some = [compare(*order, against="far", resamples=50) for order in (files, files[::-1])]
    for file in ("table.csv", "differences.csv"):
        first, second = ({tuple(line.values()) for line in lines(own, file)} for own in some)
        assert first == second
    first, second = ({*overview(own).csv().splitlines()} for own in some)
    assert first == second
    assert some[0].n == 10


def test_runs_of_other_subsets_share_what_they_have_in_common(ours: Path, copied) -> None:
    low = copied("low", restricted(lambda name: name < "0008.png"))
    both = compare(low, copied("up", restricted(lambda name: name >= "0003.png")), resamples=50)
    assert both.n == 5
    assert "low has 8 and up has 9" in both.notes[0]
    _, found, *_ = back(both, "male")[1].values()
    assert found.value == pytest.approx(np.mean(reversals(ours)[3:8]))
    assert not {"fid", "minimality"} & {own.metric for own in both.measured["male"].table}


def test_minimality_stays_with_its_image_in_another_order(copied) -> None:
    shares = np.random.default_rng(1).uniform(size=FEW).tolist()

    def measured(step: int) -> Change:
        def change(line: dict[str, Any]) -> None:
            if line["kind"] == "run":
                line["images"] = line["images"][::step]
            if line["kind"] == "distance":
                key = {"do": line["do"], "guidance": line["guidance"]}
                line.clear()
                line |= {"kind": "minimality", **key, "values": shares[::step]}

        return change

    both = compare(*(copied(f"order {step}", measured(step)) for step in (1, -1)), resamples=50)
    values = [*column(both, "male", "minimality", "CLD")[1].values()]
    assert apart(values[0], values[3]) == [0.0, 0.0, 0.0]


def test_off_target_is_nearer_to_the_real_images_or_further(pair: Comparison) -> None:
    """Distances are compared: global guidance amplifies, so it is further from 0."""
    assert pair.drift.name == "delta_real"
    own, values = column(pair, "male", "difference from real images", "off target")
    tiny = {
        row.cell.guidance: sized(own, value)
        for row, value in values.items()
        if row.run.name == "tiny"
    }
    assert apart(tiny[CFG], tiny[FCFG])[1] > 0
    assert tiny[FCFG].value < 1e-9  # as strong as on the real images


# Names, references and what cannot be compared --------------------------------------------------


def test_a_model_is_named_by_its_folder_where_that_is_needed(ours: Path, shifted: Path) -> None:
    assert [run.name for run in compare(ours, shifted, resamples=2).runs] == ["tiny", "far"]
    other = edited(ours, ours.parent / "b" / "results-0-of-1.jsonl")
    names = [run.name for run in compare(ours, other.parent, shifted, resamples=2).runs]
    assert names == ["tiny (ours)", "tiny (b)", "far"]
    assert [run.name for run in compare(ours, resamples=2).runs] == ["tiny"]


def test_the_reference_is_the_strongest_setting_of_the_first_or_the_one_asked_for(
    ours: Path, shifted: Path, pair: Comparison
) -> None:
    def chosen(*files: Path, against: str | None = None) -> tuple[str, str] | None:
        row = compare(*files, against=against, resamples=2).reference("male")
        return row and (row.run.name, row.cell.guidance)

    assert chosen(ours, shifted) == ("tiny", FCFG)
    assert chosen(ours, shifted, against="far") == ("far", FCFG)
    assert chosen(ours, shifted, against="far:none") == ("far", "none")
    assert chosen(ours, shifted, against=f"tiny:{FCFG}") == ("tiny", FCFG)
    assert chosen(ours) is None
    assert chosen(ours, against="tiny:none") == ("tiny", "none")  # a run, setting by setting
    with refused("against", "did you mean 'far'?"):
        compare(ours, shifted, against="fare:none", resamples=2)
    with refused("against, setting of far", "got 'cfg:9'"):
        compare(ours, shifted, against="far:cfg:9", resamples=2)


def test_a_model_is_represented_by_its_default_if_that_was_run(ours: Path, copied) -> None:
    mild = copied("mild", header(model={"defaults": {"male": "none", "smiling": FCFG}}))
    both = compare(mild, ours, resamples=2)
    assert [row.cell.guidance for row in both.representative("male")] == ["none", FCFG]
    names = [row.names for row in overview(both).rows]
    assert names[0] == ("mild", "FCFG 3.0 / 1.2 or unguided")
    assert names[1] == ("tiny", "FCFG 3.0 / 1.2")


@pytest.mark.parametrize(
    ("default", "marks"), [(f"{CFG};anchor=true", 1), (repr(DEFAULT_GUIDANCE), 0), (CFG, 0)]
)
def test_beside_a_calibrated_default_other_weights_say_that_they_are_not(
    ours: Path, copied, default: str, marks: int
) -> None:
    def asked(text: str, **about: Any) -> Change:
        def change(line: dict[str, Any]) -> None:
            if line.get("guidance") == CFG:
                line["guidance"] = text
            if line["kind"] == "run":
                line["model"] |= about
                line["questions"] = [[do, text if g == CFG else g] for do, g in line["questions"]]

        return change

    mild = copied("mild", asked(default, defaults={"male": default}))
    third = copied("third", asked("cfg:2.0;anchor=true"))  # perhaps of another calibration
    vae = copied("vae", header(model={"traits": {}}))
    rows = compare(mild, ours, third, vae, resamples=2).measured["male"].rows
    marked = {(r.run.name, r.cell.guidance) for r in rows if "not calibrated" in r.names[1]}
    plain = {("mild", FCFG), ("tiny", CFG), ("tiny", FCFG), ("third", FCFG)}
    assert marked == (plain if marks else set())
    alone = numbers(compare(mild, resamples=2), "male").rows
    assert sum("not calibrated" in row.names[0] for row in alone) == marks


def test_what_only_one_run_has_is_left_out_and_said(tmp_path: Path, ours: Path, copied) -> None:
    one, other = copied("one", without("male")), copied("other", without("smiling"))
    two = compare(ours, one, resamples=2)
    assert two.dos == ("smiling",)
    assert two.notes[0] == "Only tiny has do(male), which is left out."
    three = compare(one, other, ours)
    assert set(three.dos) == {"smiling", "male"}
    assert differences(three, "male") is None
    assert differences(three, "smiling") is not None
    assert overview(three).rows == ()  # no intervention was run by all
    write_report(three, tmp_path / "out")
    with refused("comparison", "an intervention that at least two runs have"):
        compare(one, other, resamples=2)


def targets(line: dict[str, Any]) -> None:
    if line["kind"] == "row" and line["do"] == "male" and line["image"] == "0007.png":
        line["target"]["male"] = 1 - line["target"]["male"]


def attributes(line: dict[str, Any]) -> None:
    if line["kind"] == "real" and line["image"] == "0007.png":
        line["attributes"]["young"] = 1 - line["attributes"]["young"]


def judge(readings: float) -> Change:
    def change(line: dict[str, Any]) -> None:
        header(metrics={"judge": {"digest": "e1"}})(line)
        if line["kind"] == "real":
            line["scores"]["male"] *= readings

    return change


def unfinished(line: dict[str, Any]) -> bool:
    return line.get("image") != "0011.png"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (header(data={"format": "embed"}), "the data, format of"),
        (header(data={"split": "val"}), "the data, split of"),
        (header(attributes={"male": CONTINUOUS}), "expected the attributes of"),
        (header(graph={"male": ["young"]}), "the graph of"),
        (judge(0.9), "the judge of"),
        (header(metrics={"lpips": {"name": "V"}}), "the LPIPS network of"),
        (targets, "'0007.png' with male set to "),
        (attributes, "the attributes of '0007.png' in "),
        (unfinished, "84 rows, and 12 real images"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(ours, copied, change, expected: str) -> None:
    with refused("results ", expected):
        compare(ours, copied("other", change), resamples=2)


def test_one_image_and_no_run_are_refused(tmp_path: Path) -> None:
    one, other = (known_results(tmp_path / f"{name}.jsonl", n=1) for name in "ab")
    with refused("results ", "at least 2 images that are in "):
        compare(one, other, resamples=2)
    with refused("comparison", "at least one run"):
        compare()


def test_a_rounded_judge_and_other_hardware_are_noted(ours: Path, copied) -> None:
    other = copied("other", judge(0.99), header(environment={"device": "abacus"}))
    rounded, hardware = compare(ours, other, resamples=2).notes[:2]
    assert "they read the same within 3 %" in rounded
    assert "and other on abacus in float32." in hardware


def test_a_network_that_one_run_lacks_is_no_other_network(tmp_path: Path, ours: Path) -> None:
    lacking = known_results(tmp_path / "lacking.jsonl", n=FEW, reversal={}, lpips=False)
    both = compare(ours, edited(lacking, lacking, renamed("lacking")), resamples=2)
    _, lpips = column(both, "male", "after reversal", "LPIPS")
    assert [value is None for value in lpips.values()] == [False] * 3 + [True] * 3
    glance = overview(both)
    place = [own.metric for own in glance.columns].index("reversal_lpips")
    assert [row.cells[place] is None for row in glance.rows] == [False, True]
    found = lines(replace(both, against=("lacking", "")), "differences.csv")
    assert found
    assert "reversal_lpips" not in {line["metric"] for line in found}


def test_what_follows_may_differ_and_is_said(tmp_path: Path) -> None:
    """Finding follows age by the causal model of each run; an error has no place beside AUROC."""
    folder = make_results(tmp_path / "a", n=N, mixed=True, dos=("age", "sex"), settings=HOT)

    def other(line: dict[str, Any]) -> None:
        if line["kind"] == "row" and line["do"] == "age" and line["image"] < "scan-00005":
            line["target"]["finding"] = 1 - line["target"]["finding"]

    file = edited(next(folder.glob("*.jsonl")), tmp_path / "b.jsonl", renamed("other"), other)
    both = compare(folder, file, resamples=50)
    assert both.notes[0].startswith("Under do(age), the causal models give finding different val")
    columns = {do: both.measured[do].table for do in both.dos}
    roles = {own.attribute: own.role for own in columns["age"] if own.metric in ("error", "auroc")}
    assert roles == {"sex": "", "race": "", "age": "target", "finding": "follows"}
    units = [own.unit for own in columns["sex"] if own.title == "off target"]
    assert units == ["AUROC x 100", "units of age"]
    error, _ = column(both, "age", "effectiveness", "age")
    assert (error.better, error.metric) == ("↓", "error")
    assert {own.unit for own in overview(both).columns if own.title == "target"} == {*units}
    assert {panel.name for panel in tradeoff_panels(both)} == {"tradeoff-sex"}


# What is shown of several models ----------------------------------------------------------------


def test_a_rival_that_is_better_is_marked(drawn: tuple[Path, Path]) -> None:
    """The fake VAE hardly pushes what should not change, and misses the target."""
    table = overview(compare(*drawn, resamples=200))
    assert [row.names for row in table.rows] == [
        ("portraits", "FCFG 3.0 / 1.2"),
        ("vae", "temperature 0.1"),
    ]
    assert len({row.setting and row.setting.colour for row in table.rows}) == 2
    marked = [
        {own.metric for own in row.best} & {"reversal_mae", "truth_mae"} for row in table.rows
    ]
    assert marked == [{"truth_mae"}, {"reversal_mae"}]
    kinds = {(own.metric, own.title) for own in table.columns}
    assert kinds >= {("factor_error", "target"), ("factor_error", "off target")}
    assert "delta_real" not in {metric for metric, _ in kinds}  # the truth is known


def test_a_model_that_fails_is_named(tmp_path: Path, drawn: tuple[Path, Path]) -> None:
    noise = make_results(
        *(tmp_path / "noise", FEW), settings=HOT, noise=True, pictures=0, reverse=False
    )
    found = compare(drawn[0], noise, resamples=50).failures
    assert found
    assert all(line.startswith("portraits (noise): ") for line in found)


def test_a_report_of_several_has_every_model_and_every_file(tmp_path: Path, drawn) -> None:
    written = write_report(compare(*drawn), tmp_path)
    about = {row.names[0]: row.cells for row in models(written.comparison).rows}
    assert about["portraits"][:2] == ("4.4 M", "100 steps of DDIM")
    assert about["vae"][:2] == ("8.0 M", "one pass")
    names = {path.relative_to(tmp_path).as_posix() for path in written.paths}
    kinds = {"counterfactuals": "png", "truth": "png", "reversal": "png"}
    kinds |= {"tradeoff": "svg", "factor-error": "svg"}
    figures = {f"{kind}-{do}.{end}" for kind, end in kinds.items() for do in ("smiling", "male")}
    tables = {"report.html", "table.csv", "table.tex", "differences.csv"}
    assert names == tables | {f"figures/{name}" for name in figures | {"opening-smiling.png"}}


def test_bold_numbers_are_those_that_are_best_or_differ(pair: Comparison) -> None:
    for do in pair.dos:
        table, shown = numbers(pair, do), pair.measured[do].table
        winners = [best(own, [*values.values()]) for own, values in shown.items()]
        for own, winner in zip(shown, winners, strict=True):
            marked = [n for n, line in enumerate(table.rows) if own in line.best]
            assert marked == ([] if winner is None else [winner])
        assert set(winners) > {None}
        gaps = differences(pair, do)
        cells = {
            (row, own): cell
            for row in gaps.rows
            for own, cell in zip(gaps.columns, row.cells, strict=True)
            if isinstance(cell, Estimate)
        }
        ranked, worst = sorted(cells.values(), key=lambda cell: cell.p_value), 0.0
        corrected: dict[Estimate, float] = {}
        for k, cell in enumerate(ranked):  # p-values that Holm's method has corrected
            worst = max(worst, (len(cells) - k) * cell.p_value)
            corrected[cell] = worst
        for (row, own), cell in cells.items():
            assert (own in row.best) == (corrected[cell] <= 0.05 and cell.excludes_zero)
        bold = sum(len(row.best) for row in gaps.rows)
        clear = sum(cell.excludes_zero for cell in cells.values())
        assert 0 < bold < clear
        note = f"over the {len(cells)} differences of this table. {bold} are; {clear} intervals"
        assert note in gaps.notes[0]
        assert note in build_page(pair, make_figures(pair))


def test_a_legend_shortens_a_long_name_and_keeps_the_setting(ours: Path, copied) -> None:
    for panel in tradeoff_panels(compare(ours, copied("ever " * 12 + "long"), resamples=2)):
        assert "…" in panel.file
        assert "ever long FCFG 3.0 / 1.2" in panel.file


def test_pictures_of_all_models_show_the_same_images(drawn: tuple[Path, Path]) -> None:
    both = compare(*drawn, resamples=2)
    album = read_album(both)
    assert album is not None
    albums = [read_album(compare(folder, resamples=2)) for folder in drawn]
    first, second = (own for own in albums if own is not None)
    assert len(second.names) == 3 < len(first.names)
    opening, strips = opening_strip(both, album), make_strips(both, album)["counterfactuals"]
    assert opening is not None
    for strip in (*strips, opening):
        titles = [group.title for group in strip.groups]
        assert titles == ["factual", "truth", "portraits FCFG 3.0 / 1.2", "vae temperature 0.1"]
    for strip in strips:
        answers = [
            images
            for own, text in ((first, FCFG), (second, HOT[1]))
            for row, images in own.answers.items()
            if (row.cell.do, row.cell.guidance) == (strip.do, text)
        ]
        for group, wanted in zip(
            strip.groups, (first.factual, first.truth[strip.do], *answers), strict=True
        ):
            assert torch.equal(group.columns[""], wanted[:3])
    only = both.runs[1]
    apart = replace(only, result=replace(only.result, folder=None))
    some = read_album(replace(both, runs=(both.runs[0], apart)))
    assert some is not None
    strips = make_strips(both, some)["counterfactuals"]
    assert [len(strip.groups) for strip in strips] == [3, 3]


def test_the_csv_files_have_every_number_and_its_difference_from_the_reference(pair) -> None:
    values = {
        (line["model"], line["do"], line["guidance"], line["metric"], line["attribute"]): line
        for line in lines(pair)
    }
    gaps = [line for line in lines(pair, "differences.csv") if line["do"]]
    assert {line["model"] for line in gaps} == {"tiny", "far"}
    for line in gaps:
        key = (line["do"], line["guidance"], line["metric"], line["attribute"])
        base = float(values["tiny", line["do"], FCFG, *key[2:]]["value"])
        own = float(values[line["model"], *key]["value"])
        assert float(line["value"]) == pytest.approx(own - base, abs=1e-9)
    assert {line["metric"] for line in gaps} >= {"auroc", "reversal_mae", "fid", "seconds"}


def test_a_report_replaces_itself_and_nothing_else(ours, shifted, tmp_path: Path) -> None:
    one, other = (compare(*runs, resamples=2) for runs in ((ours, shifted), (shifted, ours)))
    assert write_report(one, tmp_path).page == write_report(one, tmp_path).page
    with refused("out ", "a folder without these files"):
        write_report(other, tmp_path)
    write_report(other, tmp_path, overwrite=True)


def test_the_command_prints_the_table_at_a_glance(ours: Path, shifted: Path, capsys) -> None:
    assert main(["report", str(ours), str(shifted), "--against", "far:none"]) == 0
    said = capsys.readouterr().out.splitlines()
    page = ours.parent / "comparison" / "report.html"
    assert said[-1] == f"Written to {page}, with 7 other files: figures and tables"
    assert [line for line in said if "FCFG 3.0 / 1.2" in line]
    assert "against far unguided" in page.read_text("utf-8")
