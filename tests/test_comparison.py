"""Comparisons of runs: paired on the same images, and claiming no more than the numbers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from fake_results import CFG, FCFG, MIXED, known_results, make_results
from fcfg.cli import main
from fcfg.cli.tables import print_summary
from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.result_files import read_results
from fcfg.evaluation.summary import summarise
from fcfg.metrics import Bootstrap
from fcfg.pipeline.defaults import DEFAULT_GUIDANCE
from fcfg.reports import Comparison, compare, comparison_reading, write_comparison, write_report
from fcfg.reports.comparison_columns import Column, columns
from fcfg.reports.comparison_figures import comparison_panels, comparison_strips
from fcfg.reports.comparison_page import build_comparison_page
from fcfg.reports.comparison_tables import comparison_csv, comparison_latex
from fcfg.reports.paper import dataset_of, match
from fcfg.reports.strips import read_pictures
from fcfg.reports.tables import configuration, latex_table, markdown_table
from refusal import refused

N, FEW = 200, 12  # images: the fewest that an AUROC needs, and few
HOT = ("none", "temperature:0.1")
EFFECTS: dict[str, Any] = {"reversal": {"none": 0.1, CFG: 0.3, FCFG: 0.2}, "fid": 9.0}


def edited(source: Path, out: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a result file whose lines are changed in place; a line is dropped by False."""
    lines = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    kept = [line for line in lines if change(line) is not False]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
    return out


def renamed(name: str, **more: Any) -> Callable[[dict[str, Any]], object]:
    def change(line: dict[str, Any]) -> None:
        if line["kind"] == "run":
            line["model"] |= {"name": name, **more}

    return change


def far(line: dict[str, Any], by: float = 0.05) -> None:
    """Move the reversal of every image by the same distance, and name the model."""
    if line["kind"] == "row" and line["reversal"]:
        line["reversal"]["mae"] += by
    renamed("far")(line)


def column(comparison: Comparison, do: str, group: str, heading: str) -> Column:
    found = columns(comparison, do)
    return next(c for c in found if c.group == group and c.heading.startswith(heading))


def numbers(comparison: Comparison) -> set[tuple[str, ...]]:
    return {tuple(row) for row in csv.reader(comparison_csv(comparison).splitlines())}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two interventions, three settings, with reversals, a FID and no truth."""
    return known_results(tmp_path_factory.mktemp("ours") / "ours.jsonl", n=FEW, **EFFECTS)


@pytest.fixture(scope="module")
def shifted(ours: Path) -> Path:
    return edited(ours, ours.parent / "far.jsonl", far)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with enough images for an AUROC."""
    return known_results(tmp_path_factory.mktemp("large") / "large.jsonl", n=N, **EFFECTS)


@pytest.fixture(scope="module")
def pair(large: Path) -> Comparison:
    return compare([large, edited(large, large.parent / "far.jsonl", far)], resamples=200)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Drawings with pictures: a diffusion model, and a VAE with other pictures and no FCFG."""
    first, second = (tmp_path_factory.mktemp("drawn") / name for name in ("diffusion", "vae"))
    model = {"name": "vae", "digest": "0a", "kind": "hvae", "parameters": 7_980_000}
    make_results(first, n=FEW, settings=("none", CFG, FCFG), dos=("smiling", "male"), pictures=4)
    make_results(
        *(second, FEW), settings=HOT, dos=("smiling", "male"), pictures=3, header={"model": model}
    )
    return first, second


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Path]:
    """A folder and a file: one intervention, two settings."""
    (tmp_path / "a").mkdir()
    file = known_results(
        tmp_path / "a" / "a.jsonl", n=4, dos=["male"], settings=HOT, composition=False
    )
    return file.parent, edited(file, tmp_path / "b.jsonl", renamed("far"))


# Numbers ----------------------------------------------------------------------------------------


def test_a_run_compared_with_itself_differs_in_nothing_and_has_no_winner(large: Path) -> None:
    same = compare([large, large], resamples=200)
    assert [system.name for system in same.systems] == ["tiny (large) #1", "tiny (large) #2"]
    for do in same.dos:
        rows = same.rows(do)
        half = len(rows) // 2
        for own in columns(same, do):
            assert own.best(rows) is None, own.heading
            for one, other in zip(rows[:half], rows[half:], strict=True):
                gap = own.gap(one, other)
                assert gap is None or {gap.value, gap.low, gap.high} == {0.0}
    _, *claims = comparison_reading(same)
    assert len(claims) >= 4
    assert all(": no difference was detected between " in claim for claim in claims)


def test_a_shifted_copy_has_the_shift(pair: Comparison) -> None:
    back = column(pair, "male", "after reversal", "MAE")
    for one, other in zip(pair.rows("male")[:3], pair.rows("male")[3:], strict=True):
        gap = back.gap(other, one)
        assert gap is not None
        assert [gap.value, gap.low, gap.high] == pytest.approx([0.05] * 3, abs=1e-12)
    best = back.best(pair.rows("male"))
    assert best is not None
    assert (best.system.name, best.cell.guidance) == ("tiny", "none")
    (mae, lpips) = (line for line in comparison_reading(pair) if line.startswith("Return"))
    mean = back.size(pair.representative("male")[0])
    assert mean is not None
    assert mae == (
        f"Return to the factual image (MAE): tiny at {mean.value:.3f} is best; far at "
        f"{mean.value + 0.05:.3f} is behind by 0.050 [0.050, 0.050]."
    )
    assert "no difference was detected between " in lpips


def test_every_number_is_that_of_its_own_run(pair: Comparison, large: Path) -> None:
    alone = summarise(read_results(large), resamples=200)
    for do in alone.dos:
        for row, cell in zip(pair.rows(do), alone.cells_of(do), strict=False):
            back = column(pair, do, "after reversal", "MAE").get(row)
            assert cell.reversal_mae is not None
            assert back is not None
            assert not isinstance(back, float)
            assert (back.value, back.low) == (cell.reversal_mae.value, cell.reversal_mae.low)
            auroc = column(pair, do, "effectiveness", f"{do} (target)").get(row)
            assert not isinstance(auroc, float)
            assert auroc is not None
            assert auroc.value == cell.effectiveness[do].value


def test_differences_are_paired_over_the_same_resamples(tmp_path: Path, ours: Path) -> None:
    """Against the bootstrap written out: resample images, then subtract means."""
    rng = np.random.default_rng(3)

    def jitter(line: dict[str, Any]) -> None:
        renamed("other")(line)
        if line["kind"] == "row" and line["reversal"]:
            line["reversal"]["mae"] = float(rng.uniform(0.1, 0.5))

    files = [ours, edited(ours, tmp_path / "other.jsonl", jitter)]
    both = compare(files, resamples=200)
    one, other = (
        np.array(
            [
                row["reversal"]["mae"]
                for row in read_results(file).rows
                if (row["do"], row["guidance"]) == ("male", CFG)
            ]
        )
        for file in files
    )
    counts = Bootstrap(FEW, resamples=200).counts
    low, high = np.quantile(counts @ (other - one) / FEW, [0.025, 0.975])
    rows = [row for row in both.rows("male") if row.cell.guidance == CFG]
    gap = column(both, "male", "after reversal", "MAE").gap(rows[1], rows[0])
    assert gap is not None
    assert [gap.value, gap.low, gap.high] == pytest.approx([(other - one).mean(), low, high])


def test_the_best_is_marked_only_if_it_is_clear(tmp_path: Path, ours: Path) -> None:
    rng = np.random.default_rng(0)

    def noisy(by: float) -> Callable[[dict[str, Any]], object]:
        def change(line: dict[str, Any]) -> None:
            renamed(f"noisy {by}")(line)
            if line["kind"] == "row" and line["reversal"]:
                line["reversal"]["mae"] += by + 0.01 * float(rng.standard_normal())

        return change

    for by, is_clear in ((0.0, False), (-0.02, True)):
        files = [ours, edited(ours, tmp_path / f"{is_clear}.jsonl", noisy(by))]
        both = compare(files, resamples=200)
        unguided = [row for row in both.rows("smiling") if row.cell.guidance == "none"]
        best = column(both, "smiling", "after reversal", "MAE").best(unguided)
        assert (best is not None) == is_clear
    change = column(both, "smiling", "change", "MAE")
    assert change.best(both.rows("smiling")) is None  # no value of it is best


def test_the_order_of_the_runs_changes_no_number(tmp_path: Path, ours: Path) -> None:
    """Even if they have different images, in different orders."""

    def backwards(line: dict[str, Any]) -> None:
        far(line)
        if line["kind"] == "run":
            line["images"] = line["images"][::-1]

    def fewer(line: dict[str, Any]) -> bool:
        renamed("few")(line)
        if line["kind"] == "run":
            line["images"] = line["images"][:10]
        return line.get("image", "") < "0010.png"

    files = [
        ours,
        edited(ours, tmp_path / "far.jsonl", backwards),
        edited(ours, tmp_path / "few.jsonl", fewer),
    ]
    some = [compare(order, "far", resamples=50) for order in (files, files[::-1])]
    assert numbers(some[0]) == numbers(some[1])
    assert comparison_reading(some[0])[1:] == comparison_reading(some[1])[1:]
    assert some[0].n == 10


def test_runs_of_other_subsets_share_what_they_have_in_common(tmp_path: Path, ours: Path) -> None:
    def half(is_upper: bool) -> Callable[[dict[str, Any]], object]:
        def change(line: dict[str, Any]) -> bool:
            renamed(f"half {is_upper}")(line)

            def is_kept(image: str) -> bool:
                return image >= "0003.png" if is_upper else image < "0008.png"

            if line["kind"] == "run":
                line["images"] = [image for image in line["images"] if is_kept(image)]
            return "image" not in line or is_kept(line["image"])

        return change

    files = [edited(ours, tmp_path / f"{k}.jsonl", half(bool(k))) for k in (0, 1)]
    both = compare(files, resamples=50)
    assert both.n == 5
    assert both.notes == (
        "The runs have different images (half False has 8 and half True has 9): all numbers "
        "are of the 5 that they share. Fréchet distances and minimality depend on all images of "
        "a run, and are left out.",
    )
    values = [
        row["reversal"]["mae"]
        for row in read_results(ours).rows
        if (row["do"], row["guidance"]) == ("male", CFG) and "0003" <= row["image"] < "0008"
    ]
    found = column(both, "male", "after reversal", "MAE").get(both.rows("male")[1])
    assert found is not None
    assert not isinstance(found, float)
    assert found.value == pytest.approx(np.mean(values))
    assert not {METRICS["fid"].group, "minimality"} & {c.group for c in columns(both, "male")}
    page = write_comparison(files, tmp_path / "out").page.read_text("utf-8")
    assert "all numbers are of the 5 that they share" in page
    assert "AUROC and distances need at least 200 images, and this run has 5" in page


def test_minimality_stays_with_its_image_in_another_order(tmp_path: Path, ours: Path) -> None:
    shares = np.random.default_rng(1).uniform(size=FEW).tolist()

    def measured(is_reversed: bool) -> Callable[[dict[str, Any]], object]:
        def change(line: dict[str, Any]) -> None:
            step = -1 if is_reversed else 1
            renamed(f"order {step}")(line)
            if line["kind"] == "run":
                line["images"] = line["images"][::step]
            if line["kind"] == "distance":
                key = {"do": line["do"], "guidance": line["guidance"]}
                line.clear()
                line |= {"kind": "minimality", **key, "values": shares[::step]}

        return change

    files = [edited(ours, tmp_path / f"{k}.jsonl", measured(bool(k))) for k in (0, 1)]
    both = compare(files, resamples=50)
    minimality = column(both, "male", "minimality", "CLD")
    rows = both.rows("male")
    gap = minimality.gap(rows[0], rows[3])
    assert gap is not None
    assert (gap.value, gap.low, gap.high) == (0.0, 0.0, 0.0)


def test_off_target_is_nearer_to_the_real_images_or_further(pair: Comparison) -> None:
    """Distances are compared: global guidance amplifies, so it is further from 0."""
    off = column(pair, "male", "effectiveness", "off target")
    rows = {row.cell.guidance: row for row in pair.rows("male")[:3]}
    gap = off.gap(rows[CFG], rows[FCFG])
    assert gap is not None
    assert gap.low > 0
    factored = off.get(rows[FCFG])
    assert factored is not None
    assert not isinstance(factored, float)
    assert abs(factored.value) < 1e-9  # as strong as on the real images


# Names, references and what cannot be compared --------------------------------------------------


def test_a_model_is_named_by_its_folder_where_that_is_needed(ours: Path, shifted: Path) -> None:
    assert [s.name for s in compare([ours, shifted], resamples=2).systems] == ["tiny", "far"]
    other = edited(ours, ours.parent / "b" / "results-0-of-1.jsonl", lambda line: None)
    names = [s.name for s in compare([ours, other.parent, shifted], resamples=2).systems]
    assert names == ["tiny (ours)", "tiny (b)", "far"]


def test_the_reference_is_the_strongest_setting_of_the_first_or_the_one_asked_for(
    ours: Path, shifted: Path, pair: Comparison
) -> None:
    def chosen(against: str) -> tuple[str, str]:
        row = compare([ours, shifted], against, resamples=2).reference("male")
        assert row is not None
        return row.system.name, row.cell.guidance

    first = pair.reference("male")
    assert first is not None
    assert (first.system.name, first.cell.guidance) == ("tiny", FCFG)
    assert chosen("far") == ("far", FCFG)
    assert chosen("far:none") == ("far", "none")
    assert chosen(f"tiny:{FCFG}") == ("tiny", FCFG)
    with refused("against", "one of 'tiny', 'far', got 'fare'; did you mean 'far'?"):
        compare([ours, shifted], "fare:none", resamples=2)
    with refused("against, setting of far", "one of 'none', ", "got 'cfg:9'"):
        compare([ours, shifted], "far:cfg:9", resamples=2)


def test_a_model_is_represented_by_its_default_if_that_was_run(tmp_path: Path, ours: Path) -> None:
    def by_default(line: dict[str, Any]) -> None:
        if line["kind"] == "run":
            line["model"] |= {"name": "mild", "defaults": {"male": "none"}}

    mild = edited(ours, tmp_path / "mild" / "results-0-of-1.jsonl", by_default)
    found = compare([mild.parent, ours], resamples=2).representative("male")
    assert [row.cell.guidance for row in found] == ["none", FCFG]


@pytest.mark.parametrize(
    ("default", "marks"), [(f"{CFG};anchor=true", 1), (repr(DEFAULT_GUIDANCE), 0), (CFG, 0)]
)
def test_beside_a_calibrated_default_other_weights_say_that_they_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ours: Path, default: str, marks: int
) -> None:
    """In every table of a run and of a comparison, in the row itself."""

    def asked(text: str, **about: Any) -> Callable[[dict[str, Any]], None]:
        def change(line: dict[str, Any]) -> None:
            if line.get("guidance") == CFG:
                line["guidance"] = text
            if line["kind"] == "run":
                line["model"] |= about
                line["questions"] = [[do, text if g == CFG else g] for do, g in line["questions"]]

        return change

    by_default = asked(default, name="mild", defaults={"male": default})
    mild = edited(ours, tmp_path / "mild" / "results-0-of-1.jsonl", by_default).parent
    elsewhere = asked("cfg:2.0;anchor=true", name="third")  # perhaps of another calibration
    third = edited(ours, tmp_path / "third.jsonl", elsewhere)
    rows = compare([mild, ours, third], resamples=2).rows("male")
    marked = {(r.system.name, r.cell.guidance) for r in rows if "not calibrated" in r.label}
    plain = {("mild", FCFG), ("tiny", CFG), ("tiny", FCFG), ("third", FCFG)}
    assert marked == (plain if marks else set())
    summary = summarise(read_results(mild), resamples=2)
    print_summary(summary)
    page = write_report(mild, tmp_path / "out").page.read_text("utf-8")
    for text in (latex_table(summary), markdown_table(summary), page, capsys.readouterr().out):
        assert text.count("FCFG 3.0 / 1.2, not calibrated") + text.count("$, not cali") == marks


def test_what_only_one_run_has_is_left_out_and_said(tmp_path: Path, ours: Path) -> None:
    def without(*dos: str) -> Callable[[dict[str, Any]], object]:
        def change(line: dict[str, Any]) -> bool:
            renamed("-".join(("no", *dos)))(line)
            if line["kind"] == "run":
                line["questions"] = [pair for pair in line["questions"] if pair[0] not in dos]
            return line.get("do") not in dos

        return change

    one = edited(ours, tmp_path / "one.jsonl", without("male"))
    other = edited(ours, tmp_path / "other.jsonl", without("smiling"))
    two = compare([ours, one], resamples=2)
    assert (two.dos, two.notes) == (("smiling",), ("Only tiny has do(male), which is left out.",))
    three = write_comparison([one, other, ours], tmp_path / "out")
    assert set(three.comparison.dos) == {"smiling", "male"}
    assert three.comparison.reference("male") is None
    assert "The reference was not run under this intervention." in three.page.read_text("utf-8")
    assert comparison_reading(three.comparison) == [
        "No intervention was run by all models, so none is called best."
    ]
    with refused("comparison", "an intervention that at least two runs have"):
        compare([one, other], resamples=2)


def _header(**changes: Any) -> Callable[[dict[str, Any]], object]:
    def change(line: dict[str, Any]) -> None:
        if line["kind"] == "run":
            for name, value in changes.items():
                line[name] = line[name] | value if isinstance(value, dict) else value

    return change


def _targets(line: dict[str, Any]) -> None:
    if line["kind"] == "row" and line["do"] == "male" and line["image"] == "0007.png":
        line["target"]["male"] = 1 - line["target"]["male"]


def _attributes(line: dict[str, Any]) -> None:
    if line["kind"] == "real" and line["image"] == "0007.png":
        line["attributes"]["young"] = 1 - line["attributes"]["young"]


def _judge(readings: float) -> Callable[[dict[str, Any]], object]:
    def change(line: dict[str, Any]) -> None:
        _header(metrics={"judge": {"digest": "e1"}})(line)
        if line["kind"] == "real":
            line["scores"]["male"] *= readings

    return change


def _unfinished(line: dict[str, Any]) -> bool:
    return line.get("image") != "0011.png"


def _elsewhere(line: dict[str, Any]) -> None:
    if line["kind"] == "run":
        line["images"] = [f"else-{name}" for name in line["images"]]
    if "image" in line:
        line["image"] = f"else-{line['image']}"


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (_header(data={"format": "embed"}), ("the data, format of", "(celeba-mosaic), got embed")),
        (_header(data={"split": "val"}), ("the data, split of", "(test), got val")),
        (_header(graph={"male": ["young"]}), ("the graph of",)),
        (_judge(0.9), ("the judge of", "got {'digest': 'e1'}")),
        (_header(metrics={"lpips": {"name": "V"}}), ("the LPIPS network of", "got {'name': 'V'}")),
        (_targets, ("'0007.png' with male set to ", " under do(male), as in ")),
        (_attributes, ("the attributes of '0007.png' in ",)),
        (_unfinished, ("84 rows, and 12 real images, got 77 and 11",)),
        (_elsewhere, ("at least 2 images that are in ", " as well, got 0")),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    tmp_path: Path,
    ours: Path,
    change: Callable[[dict[str, Any]], object],
    fragments: tuple[str, ...],
) -> None:
    with refused("results ", *fragments):
        compare([ours, edited(ours, tmp_path / "other.jsonl", change)], resamples=2)


def test_a_judge_that_was_rounded_may_read_and_is_named(tmp_path: Path, ours: Path) -> None:
    def change(line: dict[str, Any]) -> None:
        renamed("other")(line)
        _judge(0.99)(line)

    both = compare([ours, edited(ours, tmp_path / "other.jsonl", change)], resamples=2)
    (note,) = both.notes
    assert note.startswith("The judge of other has other weights than that of ")
    assert "On all real images they read the same within 3 %" in note


def test_one_image_is_refused_and_an_unfinished_run_is_named(tmp_path: Path, ours: Path) -> None:
    one, other = (known_results(tmp_path / f"{name}.jsonl", n=1) for name in "ab")
    with refused("results ", "at least 2 images that are in ", "got 1"):
        compare([one, other], resamples=2)
    unfinished = edited(ours, tmp_path / "short.jsonl", _unfinished)
    with refused(f"results {unfinished}", "12 real images"):
        compare([ours, unfinished], resamples=2)


def test_other_attributes_and_a_single_run_are_refused(tmp_path: Path, ours: Path) -> None:
    few = {name: {"kind": "binary"} for name in ("smiling", "male")}
    other = known_results(tmp_path / "few.jsonl", n=FEW, attributes=few)
    with refused("results ", "expected the attributes of "):
        compare([ours, other], resamples=2)
    with refused("comparison", "at least two runs, got 1"):
        compare([ours], resamples=2)


def test_a_network_that_one_run_lacks_is_no_other_network(tmp_path: Path, ours: Path) -> None:
    lacking = known_results(tmp_path / "lacking.jsonl", n=FEW, reversal={}, lpips=False)
    both = compare([ours, edited(lacking, lacking, renamed("lacking"))], resamples=2)
    lpips = column(both, "male", "after reversal", "LPIPS")
    assert [lpips.get(row) is None for row in both.rows("male")] == [False] * 3 + [True] * 3
    assert not [line for line in comparison_reading(both) if "LPIPS" in line]
    against = csv.DictReader(comparison_csv(replace(both, against=("lacking", ""))).splitlines())
    found = [line for line in against if line["metric"] == "reversal_lpips"]
    assert found
    assert not any(line["difference"] for line in found)
    assert build_comparison_page(both, [], []).count(">–</td>") > 2 * 2 * 3  # numbers, differences


def test_what_follows_may_differ_and_is_said(tmp_path: Path) -> None:
    """Finding follows age by the causal model of each run."""
    folder = make_results(tmp_path / "a", n=N, mixed=True, dos=("age", "sex"), settings=HOT)
    file = next(folder.glob("*.jsonl"))

    def other(line: dict[str, Any]) -> None:
        renamed("other")(line)
        if line["kind"] == "row" and line["do"] == "age" and line["image"] < "scan-00005":
            line["target"]["finding"] = 1 - line["target"]["finding"]

    both = compare([folder, edited(file, tmp_path / "other.jsonl", other)], resamples=50)
    assert both.notes == (
        "Under do(age), the causal models give finding different values in 5 images; each model "
        "is judged by its own.",
    )
    headings = [c.heading for c in columns(both, "age") if c.group == "effectiveness"]
    assert headings == ["age (target)", "finding (follows)", "off target, Δ real"]
    kept = [(c.heading, c.unit) for c in columns(both, "sex") if c.group == "effectiveness"]
    assert kept[1:] == [
        ("off target, Δ real", "AUROC x 100"),
        ("off target, Δ real", "units of age"),
    ]
    assert column(both, "age", "effectiveness", "age").arrow == "↓"  # an error
    said = [line.split(":")[0] for line in comparison_reading(both)[1:]]
    assert "Reaching the requested age (mean error)" in said
    assert "Reaching the target (AUROC × 100)" in said
    assert {panel.name for panel in comparison_panels(both)} == {"tradeoff-sex"}
    assert MIXED["age"]["kind"] == "continuous"  # so do(age) has no place on an axis of AUROC


def test_seconds_of_other_hardware_are_said_to_be_so(tmp_path: Path, ours: Path) -> None:
    def slow(line: dict[str, Any]) -> None:
        renamed("slow")(line)
        _header(environment={"device": "abacus"})(line)

    both = compare([ours, edited(ours, tmp_path / "slow.jsonl", slow)], resamples=2)
    assert both.notes == (
        "Seconds are not of the same conditions: tiny on CPU in float32 and slow on abacus in "
        "float32.",
    )


# The verdict ------------------------------------------------------------------------------------


def test_the_verdict_tells_who_is_level_and_who_is_behind(
    tmp_path: Path, ours: Path, shifted: Path
) -> None:
    twin = edited(ours, tmp_path / "twin.jsonl", renamed("twin"))
    third = edited(ours, tmp_path / "third.jsonl", renamed("third"))
    several = compare([shifted, twin, ours, third], resamples=50)
    first, *rest = comparison_reading(several)
    assert first.startswith(
        "Each model at its default, or at its strongest setting (far with FCFG 3.0 / 1.2, twin"
    )
    assert first.endswith("on the same 12 images, under do(smiling) and do(male):")
    back = next(line for line in rest if line.startswith("Return to the factual image (MAE)"))
    level = re.fullmatch(r".*: no differences were detected between (.*); (.*)\.", back)
    assert level is not None
    names = re.findall(r"(\w+) at 0\.\d{3}", level[1])
    assert names == ["third", "tiny", "twin"]  # by name where nothing else tells them apart
    assert re.fullmatch(r"far at 0\.\d{3} is behind by 0\.050 \[0\.050, 0\.050\]", level[2])


def test_a_rival_that_is_better_is_said_to_be_so(drawn: tuple[Path, Path]) -> None:
    """The fake VAE hardly pushes what should not change, and misses the target."""
    both = compare(drawn, resamples=200)
    first, *claims = comparison_reading(both)
    assert "portraits with FCFG 3.0 / 1.2 and vae with temperature 0.1" in first
    outcome = {line.split(":")[0]: line.split(": ")[1] for line in claims}
    assert outcome["Return to the factual image (MAE)"].startswith("vae at ")
    assert set(outcome) >= {
        "Likeness to the true counterfactual (MAE)",
        "Keeping what should not change (factor error in sd)",
        "Error of the change",
    }
    assert not [aim for aim in outcome if "distance from real images" in aim]  # the truth is known


def test_a_model_that_fails_is_named_first(tmp_path: Path, drawn: tuple[Path, Path]) -> None:
    model = {"name": "noise", "digest": "0b"}
    noise = make_results(
        tmp_path / "noise", n=FEW, settings=HOT, noise=True, pictures=0, header={"model": model}
    )
    lines = comparison_reading(compare([drawn[0], noise], resamples=50))
    assert lines[0].startswith("noise: Without guidance or change, the model returns images")
    assert lines[0] != lines[1]
    assert any(
        line.startswith("Each model at its default, or at its strongest setting") for line in lines
    )


# The page, figures and tables -------------------------------------------------------------------


class Page(HTMLParser):
    """What a page refers to, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_has_every_model_and_asks_for_nothing_outside(
    tmp_path: Path, drawn: tuple[Path, Path]
) -> None:
    written = write_comparison(drawn, tmp_path)
    text = written.page.read_text("utf-8")
    page = Page(text)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert "script" not in page.tags
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    words = " ".join(page.texts)
    for label in ("portraits FCFG 3.0 / 1.2", "portraits unguided", "vae temperature 0.1"):
        assert label in words
    assert "8.0 M" in words
    assert "one pass" in words
    assert "100 steps of DDIM" in words
    assert comparison_reading(written.comparison)[1] in words
    assert page.tags.count("table") == 1 + 2 * 2 + 2  # models, two for each do, and pictures
    names = {path.relative_to(tmp_path).as_posix() for path in written.paths}
    assert names == {
        *("report.html", "table.csv", "table.tex"),
        *(f"figures/{kind}" for kind in ("tradeoff-smiling.svg", "tradeoff-male.svg")),
        *(f"figures/counterfactuals-{do}.png" for do in ("smiling", "male")),
    }


def test_bold_numbers_are_those_that_are_best_or_differ(pair: Comparison, tmp_path: Path) -> None:
    latex = comparison_latex(pair)
    for do in pair.dos:
        rows = pair.rows(do)
        winners = [own.best(rows) for own in columns(pair, do)]
        part = latex.split(f"% do({do})")[1].split(r"\end{tabular}")[0]
        assert part.count(r"\textbf") == sum(winner is not None for winner in winners) > 0
    assert r"tiny & unguided &  & " in latex  # this run did not record its parameters
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2


def test_hostile_names_stay_names(tmp_path: Path, small: tuple[Path, Path]) -> None:
    name = "<script>alert(1)</script>"
    other = edited(small[1], tmp_path / "other.jsonl", renamed(name))
    page = Page(write_comparison([small[0], other], tmp_path / "out").page.read_text("utf-8"))
    assert "script" not in page.tags
    assert name in " ".join(page.texts)


def test_points_are_the_numbers_that_all_models_share(
    pair: Comparison, drawn: tuple[Path, Path]
) -> None:
    for comparison, field in (
        (pair, "delta_real"),
        (compare(drawn, resamples=50), "factor_error"),
    ):
        for panel, do in zip(comparison_panels(comparison), comparison.dos, strict=True):
            marks = [
                group
                for group in ElementTree.fromstring(panel.file).iter()
                if group.get("data-guidance")
            ]
            rows = comparison.rows(do)
            for group, row in zip(marks, rows, strict=True):
                values = getattr(row.cell, field)
                assert group.get("data-model") == row.system.name
                assert float(group.get("data-x", "")) == values[do].value
                rest = [values[name].value for name in row.cell.invariant]
                assert float(group.get("data-y", "")) == pytest.approx(np.mean(rest))


def test_a_legend_shortens_a_long_name_and_keeps_the_setting(drawn: tuple[Path, Path]) -> None:
    both = compare(drawn, resamples=2)
    long = tuple(replace(s, name="ever " * 12 + s.name) for s in both.systems)
    for panel in comparison_panels(replace(both, systems=long)):
        texts = [
            e.text or "" for e in ElementTree.fromstring(panel.file).iter() if "text" in e.tag
        ]
        cut = [text for text in texts if text.startswith("…")]
        assert all(len(text) == 46 for text in cut)
        assert [text.split("ever ")[-1] for text in cut] == [
            *(f"portraits {label}" for label in ("unguided", "CFG 3.0", "FCFG 3.0 / 1.2")),
            *(f"vae {label}" for label in ("unguided", "temperature 0.1")),
        ]


def test_a_model_has_one_colour(pair: Comparison) -> None:
    colours = {(row.system.name, row.setting.colour) for row in pair.rows("male")}
    assert len(colours) == 2
    assert len({colour for _, colour in colours}) == 2


def test_pictures_of_all_models_show_the_same_images(drawn: tuple[Path, Path]) -> None:
    both = compare(drawn, resamples=2)
    for strip in comparison_strips(both):
        titles = [group.title for group in strip.groups]
        assert titles == ["factual", "truth", "portraits FCFG 3.0 / 1.2", "vae temperature 0.1"]
        shown = [group.columns[""] for group in strip.groups]
        first, second = (read_pictures(system.result) for system in both.systems)
        assert first is not None
        assert second is not None
        common = len(second.names)
        assert common == 3 < len(first.names)
        expected = (
            *(first.factual, first.truth[strip.do], first.answers[strip.do, FCFG]),
            second.answers[strip.do, HOT[1]],
        )
        for images, wanted in zip(shown, expected, strict=True):
            assert torch.equal(images, wanted[:common])


def test_without_common_pictures_the_page_says_so(
    tmp_path: Path, small: tuple[Path, Path], drawn: tuple[Path, Path]
) -> None:
    page = write_comparison(small, tmp_path / "out").page.read_text("utf-8")
    assert "These runs kept no pictures of the same images." in page
    both = compare(drawn, resamples=2)
    first, second = both.systems
    apart = replace(second, result=replace(second.result, folder=None))
    only = comparison_strips(replace(both, systems=(first, apart)))
    assert [len(strip.groups) for strip in only] == [3, 3]  # factual, truth, and the first model


def test_the_csv_file_has_the_difference_from_the_reference(pair: Comparison) -> None:
    lines = list(csv.DictReader(comparison_csv(pair).splitlines()))
    own = ("do", "metric", "attribute")
    reference = {
        tuple(line[key] for key in own): float(line["value"])
        for line in lines
        if (line["model"], line["guidance"]) == ("tiny", FCFG)
    }
    compared = [line for line in lines if line["difference"]]
    assert {line["model"] for line in compared} == {"tiny", "far"}
    for line in compared:
        base = reference[tuple(line[key] for key in own)]
        assert float(line["difference"]) == pytest.approx(float(line["value"]) - base, abs=1e-9)
    assert {line["metric"] for line in compared} >= {"auroc", "reversal_mae", "fid", "seconds"}
    assert not [line for line in lines if not line["do"] and line["difference"]]
    plain = [line for line in lines if line["metric"] == "delta" and line["guidance"] == "none"]
    assert all(float(line["value"]) == 0 for line in plain)


def test_a_comparison_replaces_itself_and_nothing_else(small: tuple[Path, Path]) -> None:
    folder, shifted = small
    first = write_comparison([folder, shifted])
    assert first.page == folder / "comparison" / "report.html"
    assert write_comparison([folder, shifted]).page == first.page
    with refused("out ", "a folder without these files, got 'report.html'"):
        write_comparison([shifted, folder], folder / "comparison")
    write_comparison([shifted, folder], folder / "comparison", overwrite=True)
    beside = write_comparison([folder / "a.jsonl", shifted], overwrite=True).page
    assert beside == first.page


def test_the_command_prints_the_verdict(
    small: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", *map(str, small), "--against", "far:none"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    page = small[0] / "comparison" / "report.html"
    assert lines[:-1] == comparison_reading(compare(small))
    assert lines[-1] == f"Written to {page}, with 2 other files: figures and tables"
    assert "against far unguided" in page.read_text("utf-8")
    assert main([*words[:2], "--against", "far"]) == 2
    assert "comparison: expected at least two runs, got 1" in capsys.readouterr().err


# Settings that are no guidance ------------------------------------------------------------------


def test_a_temperature_is_no_guidance(tmp_path: Path, drawn: tuple[Path, Path]) -> None:
    page = write_report(drawn[1], tmp_path)
    text = page.page.read_text("utf-8")
    assert "Global guidance was not run." in text
    assert "answered with\n2 settings (unguided and temperature 0.1), and back again" in text
    assert "steps from image" not in text
    assert configuration("temperature:0.1") == "$t=0.1$"
    assert "temperature" in (tmp_path / "table.tex").read_text("utf-8")


def test_other_kinds_of_models_have_no_numbers_in_the_paper() -> None:
    header = {"data": {"format": "celeba-hq"}, "model": {"kind": "hvae"}}
    assert dataset_of(header) is None
    assert dataset_of(header | {"model": {"kind": "diffusion"}}) == "celeba-hq"
    assert match("celeba-hq", "smiling", "cfg:3.0") is not None
    assert match("celeba-hq", "smiling", "cfg:3.0;unheard=1") is None
