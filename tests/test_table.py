"""One table, written in every form: each number stands in each, with its interval and its mark."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest

from fcfg.metrics import Estimate
from fcfg.reports.table import Column, Row, Table, escaped

ODD = "lung_mass & 5 % {a} #1 $ ~ ^ \\ | −1"
COLUMNS = (
    Column("AUROC", "AUROC x 100", 1, better="↑", group="target", metric="auroc"),
    Column("Δ", "AUROC x 100", 1, signed=True, is_small=True),
    Column("seconds", "s", None),
    Column("kind"),
)


def within(value: float, low: float, high: float) -> Estimate:
    """An estimate with a known interval."""
    return Estimate(value, np.repeat([low, high], 50), 500)


TABLE = Table(
    ("do", "rule"),
    COLUMNS,
    (
        Row(("a", "CFG"), (within(98.76, 98.5, 99.0), within(2.3, 1, 3), None, "x")),
        Row(
            ("a", "FCFG"),
            (within(99.9, 99.8, 100), None, 1234.5, "y"),
            best=frozenset(COLUMNS[:1]),
        ),
        Row(("b", ODD), (None, None, 0.0123, ODD)),
    ),
    title="a title",
    notes=("n = 500 images, 95 % intervals.",),
)


def test_some_groups_of_columns_have_only_the_rows_with_numbers() -> None:
    table = TABLE.only(["target"])
    assert [column.title for column in table.columns] == ["AUROC"]
    assert [row.cells for row in table.rows] == [row.cells[:1] for row in TABLE.rows[:2]]
    assert TABLE.groups == [("target", 1), ("", 2)]


def test_csv_has_one_line_for_every_number_in_full() -> None:
    lines = list(csv.DictReader(io.StringIO(TABLE.csv())))
    cells = [cell for row in TABLE.rows for cell in row.cells[:3] if cell is not None]
    numbers = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
    written = [line for line in lines if line["metric"] != "kind"]
    assert [float(line["value"]) for line in written] == numbers
    known = {"do": "a", "rule": "CFG", "metric": "auroc", "attribute": "", "value": "98.76"}
    known |= {"low": "98.5", "high": "99.0", "n": "500", "unit": "AUROC x 100"}
    assert written[0] == known | {"best": "", "note": ""}
    assert [line["rule"] for line in lines if line["best"]] == ["FCFG"]
    assert lines[-1]["value"] == lines[-1]["rule"] == ODD


def test_latex_is_well_formed_and_says_a_name_once() -> None:
    text = TABLE.latex()
    check_latex(text)
    assert r"\begin{tabular}{llrrr}" in text
    assert text.count("\na & ") == 1
    assert text.count(r"\midrule") == 2
    assert r"do & rule & target, AUROC $\uparrow$ / $\Delta$ & seconds & kind \\" in text
    assert r"a & CFG & 98.8{\tiny$\,\pm\,$0.2} / +2.3{\tiny$\,\pm\,$1.0} & -- & x \\" in text
    assert r" & FCFG & \textbf{99.9}{\tiny$\,\pm\,$0.1} / -- & 1.23e+03 & y \\" in text


def test_a_number_at_the_ceiling_stands_beside_its_interval() -> None:
    """Half of it would say that the number may be larger."""
    cell = Estimate(100.0, np.full(50, 100.0), 500, (1.4, 0.0))
    assert (COLUMNS[0].text(cell), COLUMNS[0].margin(cell)) == ("100.0", "[98.6, 100.0]")
    text = Table(("rule",), COLUMNS[:1], (Row(("CFG",), (cell,)),)).latex()
    check_latex(text)
    assert r"CFG & 100.0{\tiny\,[98.6, 100.0]} \\" in text


@pytest.mark.parametrize("text", [ODD, "100 %", "Δ × ω ± λ → ↑ ↓ –"])
def test_escaped_text_has_no_special_character_left(text: str) -> None:
    left = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]", "", escaped(text)
    )
    left = re.sub(r"\$(\\\w+|-)\$", "", left)
    assert not set(left) & set("&%$#_{}~^\\Δ×ω±λ→↑↓–−")


def check_latex(text: str) -> None:
    """Braces and environments close, every row has as many columns as the table."""
    bare = re.sub(r"\\[\\&%$#_{}]", lambda found: "\n" if found[0] == r"\\" else "", text)
    bare = re.sub(r"^%.*\n", "", bare, flags=re.MULTILINE)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert "%" not in bare
    for part in re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, re.DOTALL):
        columns = len(re.findall(r"\{tabular\}\{([lcr]+)\}", part)[0])
        for row in (line for line in part.splitlines() if line.endswith(r"\\")):
            cells = re.sub(r"\\&", "", row).split("&")
            spans = [re.match(r"\s*\\multicolumn\{(\d+)\}", cell) for cell in cells]
            assert sum(int(span[1]) if span else 1 for span in spans) == columns
