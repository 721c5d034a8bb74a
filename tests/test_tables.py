"""Tables of a run: every number once, ours and the paper's, in CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import fields
from pathlib import Path

import pytest

import fake_results
from fake_results import CFG, FCFG, make_results
from fcfg.evaluation import Summary, read_results, summarise
from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.summary import Cell
from fcfg.reports.paper import PaperRow, match
from fcfg.reports.tables import (
    configuration,
    csv_table,
    entries,
    escaped,
    latex_table,
    markdown_table,
    write_tables,
)
from refusal import refused

BACK = {"none": 0.12, CFG: 0.25, FCFG: 0.18}
ODD = "lung_mass & 5 % {a} #1 $ ~ ^ \\"


@pytest.fixture(scope="module")
def summary(tmp_path_factory) -> Summary:
    return fake_results.known_summary(tmp_path_factory.mktemp("run"), reversal=BACK, fid=20.0)


@pytest.fixture(scope="module")
def records(summary: Summary) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_table(summary))))


def test_every_metric_is_a_number_of_cells_and_names_a_number_of_the_paper() -> None:
    cell, row = ({field.name for field in fields(kind)} for kind in (Cell, PaperRow))
    for name, metric in METRICS.items():
        assert metric.name == name
        assert (metric.field or name) in cell
        assert metric.paper in row or not metric.paper


@pytest.mark.parametrize("name", ["delta", "delta_real"])
@pytest.mark.parametrize("of", ["auroc", "error"])
def test_a_difference_has_the_digits_of_what_it_is_a_difference_of(name: str, of: str) -> None:
    unit = METRICS[of].unit or METRICS[of].continuous_unit
    assert METRICS[name].in_unit(unit).digits == METRICS[of].digits


def test_every_line_of_the_csv_is_one_number(summary: Summary, records) -> None:
    keys = [(r["do"], r["guidance"], r["metric"], r["attribute"]) for r in records]
    assert len(set(keys)) == len(keys)
    assert {r["metric"] for r in records} <= set(METRICS)
    for record in records:
        value = float(record["value"])
        if record["low"]:
            assert float(record["low"]) - 1e-9 <= value <= float(record["high"]) + 1e-9
        assert record["n"] == "240"
        assert record["unit"]


def test_value_and_margin_span_the_interval(summary: Summary) -> None:
    shown = [entry for entry in entries(summary).values() if entry.margin]
    assert len(shown) > 50
    for entry in shown:
        rounding = 10.0 ** -len(entry.margin.partition(".")[2])
        assert 2 * float(entry.margin) == pytest.approx(entry.high - entry.low, abs=rounding)


def test_the_csv_says_what_the_summary_says(summary: Summary, records) -> None:
    for (do, guidance), cell in summary.cells.items():
        rows = {(r["metric"], r["attribute"]): r for r in records
                if (r["do"], r["guidance"]) == (do, guidance)}  # fmt: skip
        for metric, found in (("auroc", cell.effectiveness), ("delta", cell.delta)):
            for name, estimate in found.items():
                assert float(rows[metric, name]["value"]) == estimate.value
                assert float(rows[metric, name]["low"]) == estimate.low
        assert cell.reversal_mae is not None
        assert float(rows["reversal_mae", ""]["value"]) == cell.reversal_mae.value
        assert rows["fid", ""]["value"] == "20.0"
        assert rows["fid", ""]["low"] == ""


def test_the_paper_stands_beside_what_it_has_and_nothing_else(records) -> None:
    for record in records:
        row = match("celeba-hq", record["do"], record["guidance"])
        theirs = {
            "auroc": row and row.auroc.get(record["attribute"]),
            "delta": row and row.delta.get(record["attribute"]),
            "reversal_mae": row and row.mae,
            "reversal_lpips": row and row.lpips,
            "fid": row and row.fid,
        }.get(record["metric"])
        assert record["paper"] == ("" if theirs is None else str(theirs))
    assert any(record["paper"] for record in records)
    assert not any(r["paper"] for r in records if r["do"] == "")


def test_the_null_intervention_is_in_the_csv(records) -> None:
    assert [r["value"] for r in records if r["do"] == "" and r["metric"] == "change_mae"]


def test_the_paper_of_another_data_set_stays_out(tmp_path: Path) -> None:
    found = entries(fake_results.known_summary(tmp_path, data="folder"))
    assert not any(entry.paper is not None for entry in found.values())


def test_a_note_comes_with_the_row_that_needs_it(tmp_path: Path) -> None:
    slip = "fcfg:affected=2.5,invariant=1.2"
    found = entries(fake_results.known_summary(tmp_path, settings=["none", slip]))
    notes = {(entry.do, entry.guidance): entry.note for entry in found.values()}
    assert "71.1" in notes["male", slip]
    assert notes["smiling", slip] == ""


def test_files_are_written_into_a_new_folder(summary: Summary, tmp_path: Path) -> None:
    paths = write_tables(summary, tmp_path / "a/b")
    assert [path.name for path in paths] == ["table.csv", "table.tex"]
    assert paths[0].read_text() == csv_table(summary)
    assert paths[1].read_text() == latex_table(summary)


def test_the_latex_is_well_formed_in_the_layout_of_the_paper(summary: Summary) -> None:
    text = latex_table(summary)
    check_latex(text)
    assert r"\begin{tabular}{lllccc|cc}" in text
    assert r"smiling AUROC / $\Delta$" in text
    for head in (r"do(smiling) & unguided & $\omega=1.0$ & ", " & CFG & $\\omega=3.0$ & "):
        assert head in text
    assert text.count(r"\midrule") == 2
    grey = [line for line in text.splitlines() if line.startswith(r" &  & \textcolor{gray}")]
    assert len(grey) == 6
    assert r"\textcolor{gray}{98.8 / +12.3}" in grey[1]
    assert r"\textcolor{gray}{$-$" not in text  # a sign belongs to Δ, the second number
    assert r" / $-$1.5}" in grey[2]
    assert r"$\,\pm\,$" in text


def test_names_and_options_of_any_kind_are_printed_as_they_are(tmp_path: Path) -> None:
    attributes = {"a_b & 5 %": {"kind": "binary"}, "{#$~^\\}": {"kind": "binary"}}
    made = fake_results.known_summary(
        tmp_path,
        attributes=attributes,
        dos=["a_b & 5 %"],
        settings=["none", "fcfg:a_b & 5 %=2.0,{#$~^\\}=1.0;start=0.1"],
        data="folder",
    )
    text = latex_table(made)
    check_latex(text)
    assert r"do(a\_b \& 5 \%)" in text
    assert "start=0.1" in text
    assert "gray" not in text


@pytest.mark.parametrize("text", [ODD, "100 %", "Δ × ω"])
def test_escaped_text_has_no_special_character_left(text: str) -> None:
    left = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]", "", escaped(text)
    )
    left = re.sub(r"\$\\(Delta|omega|times)\$", "", left)
    assert not set(left) & set("&%$#_{}~^\\")


def test_lambda_is_the_letter_of_cfgpp() -> None:
    shown = configuration("fcfg++:affected=0.02,invariant=0.008")
    assert shown == r"$\lambda_{\mathrm{aff}}=0.02$, $\lambda_{\mathrm{inv}}=0.008$"
    assert configuration("apg:3") == r"$\omega=3.0$"


def test_too_few_images_show_shifts_instead(tmp_path: Path) -> None:
    few = fake_results.known_summary(tmp_path, n=20, composition=False)
    text = latex_table(few)
    check_latex(text)
    assert "smiling shift" in text
    assert "AUROC" not in text
    assert "smiling" not in markdown_table(few).splitlines()[0]
    assert "smiling: shift" in markdown_table(few, attributes=["shift"])


def test_a_continuous_attribute_has_an_error_in_its_own_unit(tmp_path: Path) -> None:
    attributes = {
        "sex": {"kind": "binary"},
        "age": {"kind": "continuous", "low": 0, "high": 100},
    }
    made = fake_results.known_summary(
        tmp_path, attributes=attributes, dos=["sex"], data="mimic-cxr"
    )
    units = {entry.metric: entry.unit for key, entry in entries(made).items() if key[3] == "age"}
    assert units["error"] == units["delta"] == "units of age"
    assert units["shift"] == "sd"
    assert "auroc" not in units
    assert r"age error / $\Delta$" in latex_table(made)
    assert "age: error / Δ" in markdown_table(made)
    for text in (latex_table(made), markdown_table(made)):
        assert "92.4" in text  # the paper has sex
    check_latex(latex_table(made))


def test_attributes_of_all_kinds_stand_in_one_table(tmp_path: Path) -> None:
    folder = make_results(tmp_path, mixed=True, truth=False, pictures=0, dos=["sex", "race+age"])
    made = summarise(read_results(folder), resamples=50)
    check_latex(latex_table(made))
    heads = markdown_table(made).splitlines()[0]
    assert "| race: AUROC / Δ | age: error / Δ |" in heads
    assert "do(race, age)" in latex_table(made)


def test_not_every_guidance_need_be_there_for_every_intervention(tmp_path: Path) -> None:
    whole = fake_results.known_summary(tmp_path, reversal=BACK)
    del whole.cells["male", CFG]
    check_latex(latex_table(whole))
    assert latex_table(whole).count("& CFG &") == 1
    assert markdown_table(whole).count("| CFG 3.0 |") == 1


def test_markdown_has_equal_rows_with_intervals_and_the_paper(summary: Summary) -> None:
    table, _, about = markdown_table(summary).partition("\n\n")
    rows = table.splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 2 + 6
    assert rows[0] == (
        "| do | guidance | smiling: AUROC / Δ | male: AUROC / Δ | young: AUROC / Δ | MAE | LPIPS |"
    )
    assert "<br>*98.8 / +12.3*" in rows[3]
    assert " ± " in rows[3]
    for word in ("n = 240", "20 steps", "seed 0", "0123456789ab", "ffffffffffff", "CPU"):
        assert word in about


def test_markdown_shows_what_is_asked_for(tmp_path: Path, summary: Summary) -> None:
    only = markdown_table(summary, dos=["male"], paper=False)
    assert "| smiling |" not in only
    assert "<br>" not in only
    drawn = fake_results.known_summary(tmp_path, truth=True, lpips=False, data="portraits")
    shown = markdown_table(
        drawn, attributes=["factor_error"], images=["truth_mae", "change_lpips"]
    )
    assert shown.splitlines()[0].endswith("| young: factor error | MAE to the truth |")
    assert "No lpips: give its weights." in shown


def test_markdown_of_unknown_metrics_and_interventions_is_refused(summary: Summary) -> None:
    with refused("metric", "did you mean 'auroc'?"):
        markdown_table(summary, attributes=["aurok"])
    with refused("intervention", "smiling"):
        markdown_table(summary, dos=["hat"])


def test_no_number_is_a_negative_zero(tmp_path: Path) -> None:
    made = fake_results.known_summary(tmp_path, settings=["none"])
    for text in (latex_table(made), markdown_table(made)):
        assert not re.search(r"-0\.0+\b|-\$0\.0+\b", text)


def check_latex(text: str) -> None:
    """Braces and environments close, every row has as many columns as the table."""
    bare = re.sub(r"\\[\\&%$#_{}]", lambda found: "\n" if found[0] == r"\\" else "", text)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert "%" not in bare
    opened = re.findall(r"\\begin\{(\w+)\}", text)
    assert opened == re.findall(r"\\end\{(\w+)\}", text) == ["tabular"]
    spec = re.search(r"\\begin\{tabular\}\{([lcr|]+)\}", text)
    assert spec
    columns = len(spec[1].replace("|", ""))
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    for row in rows:
        cells = re.sub(r"\\&", "", row).split("&")
        spans = [re.match(r"\s*\\multicolumn\{(\d+)\}", cell) for cell in cells]
        assert sum(int(span[1]) if span else 1 for span in spans) == columns
