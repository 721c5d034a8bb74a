"""Generated sections and figures: up to date on every page, and refused where they cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fake_results
import pages
import rivals_tables
from anchoring_tables import MODELS
from fcfg.evaluation.metric_table import METRICS
from fcfg.reports.rule_styles import setting
from refusal import refused
from sections import END, fill, start

#: README, documentation and model cards.
PAGES = [
    pages.ROOT / "README.md",
    *sorted(pages.ROOT.glob("docs/*.md")),
    *sorted(MODELS.glob("*/README.md")),
]


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_page_is_what_its_files_say(page: str) -> None:
    assert pages.up_to_date(pages.ROOT / page, pages.filled(page)), "run python tools/pages.py"


def test_every_drawing_is_what_its_file_says() -> None:
    for file, content in pages.figures().items():
        if isinstance(content, str):  # fonts in images may differ between versions of Pillow
            assert pages.up_to_date(pages.ROOT / file, content), "run python tools/pages.py"


def test_every_generated_section_is_on_a_page_that_is_generated() -> None:
    """A mark on a page that PAGES does not list would never be filled."""
    texts = [
        *pages.ROOT.glob("*.md"),
        *pages.ROOT.glob("docs/**/*.md"),
        *pages.ROOT.glob("src/**/*.md"),
    ]
    marked = {
        str(file.relative_to(pages.ROOT))
        for file in texts
        if "\n<!-- generated: " in file.read_text("utf-8")
    }
    assert marked == set(pages.PAGES)


def test_a_section_is_a_table_a_data_set_or_a_result_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    fake_results.known_results(tmp_path / "mine-core.jsonl.gz")
    assert pages.section("mine-core").startswith("| do | guidance |")
    assert "of the product" in pages.section("training-throughput")
    assert "There is no result file on `embed` yet" in pages.section("reproduction/embed")
    with refused("section 'mine-cor'", "no docs/results/mine-cor.jsonl.gz"):
        pages.section("mine-cor")


def test_models_are_compared_from_the_files_of_their_data(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(rivals_tables, "RESULTS", tmp_path)
    assert "not been compared on `mine` yet" in pages.section("rivals/mine")
    for model in ("ours", "theirs"):
        fake_results.known_results(tmp_path / f"rivals-mine-{model}.jsonl.gz")
    text = pages.section("rivals/mine")
    assert "no difference was detected" in text
    assert "is best" not in text  # of two equal models
    rows = [line for line in text.splitlines() if line.startswith("| tiny (")]
    assert any("(theirs) |" in row for row in rows)
    assert all("**" not in row for row in rows)


def tables(text: str) -> list[list[str]]:
    """Return the lines of every table of a page."""
    return [t.splitlines() for t in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def calibrated() -> set[str]:
    """Return the names of answers at calibrated weights, of shipped models and of records."""
    records = [*MODELS.glob("*/calibration.json"), *pages.RESULTS.glob("*calibration.json")]
    found = set[str]()
    for record in (json.loads(file.read_text()) for file in records):
        rule, _, options = record["rule"].partition(";")
        for own in record["attributes"].values():
            weights = {own["weight"], own.get("raised_from") or own["weight"]}
            own_ones = [weight for weight in weights if 4 * weight % 1]  # not on grids of studies
            texts = [f"{rule.partition(':')[0]}:{weight};{options}" for weight in own_ones]
            found |= {setting(text).label for text in texts}
    return found


def test_fcfg_says_that_it_is_not_calibrated_beside_a_calibrated_answer() -> None:
    """In the same line, in every table of README, documentation and model cards."""
    ours, checked = calibrated(), 0
    for page in PAGES:
        for table in tables(page.read_text("utf-8")):
            names = "\n".join("|".join(line.split("|")[1:5]) for line in table)
            if not ("default" in names or any(label in names for label in ours)):
                continue
            for line in table:
                if re.search(r"(?<!anchored )\bFCFG \d", line):
                    untuned = re.search(r"FCFG (2.0|3.0) / 1.2", line)
                    wanted = "not calibrated" if untuned else ", calibrated"
                    assert wanted in line, (page.name, line)
                    checked += 1
    assert checked > 30


def test_every_frechet_distance_says_what_it_is_the_distance_to() -> None:
    """Changing nothing would score 0, so readers in a hurry do not meet it."""
    of_cells = {"ghosts", "ghosts-drawn", "anchoring/celeba-64", "anchoring/celeba-64-drawn-noise"}
    for page in PAGES:
        text = page.read_text("utf-8")
        found = dict(re.findall(r"<!-- generated: (\S+) -->(.*?)<!-- end -->", text, re.DOTALL))
        for name, content in found.items():
            if name in of_cells or re.search("FID|FD-judge", content):
                assert "factual images" in content, (page.name, name)
    for page in ("README.md", "docs/choosing.md", "docs/index.md"):
        assert not re.search("FID|FD-judge|Fréchet", (pages.ROOT / page).read_text("utf-8"))
    for metric in (METRICS["fid"], METRICS["fd_judge"]):
        for words in (metric.title, metric.unit, metric.group):
            assert "factual images" in (words or "")


def test_no_page_claims_more_than_was_measured() -> None:
    refused = "all claims hold|factoring is no longer needed|sa-dcg nowhere"
    for page in PAGES:
        assert not re.search(refused, page.read_text("utf-8").lower()), page.name


def one_page(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """Make a repository with one page, which should have a table of training speed."""
    page = folder / "page.md"
    page.write_text(text)
    monkeypatch.setattr(pages, "ROOT", folder)
    monkeypatch.setattr(pages, "PAGES", {"page.md": ("training-throughput",)})
    monkeypatch.setattr(pages, "figures", dict)
    return page


def test_the_command_fills_pages_and_checks_them(tmp_path: Path, monkeypatch, capsys) -> None:
    page = one_page(tmp_path, monkeypatch, f"{start('training-throughput')}\n{END}\n")
    image = pages.Image.new("RGB", (2, 2), "red")
    monkeypatch.setattr(pages, "figures", lambda: {"red.png": image})
    assert pages.main(["--check"]) == 1
    assert capsys.readouterr().out == (
        "page.md is out of date: run python tools/pages.py\n"
        "red.png is out of date: run python tools/pages.py\n"
    )
    assert pages.main([]) == 0
    assert "of the product" in page.read_text()
    assert pages.main(["--check"]) == 0
    image.putpixel((1, 1), (0, 0, 0))
    assert pages.main(["--check"]) == 1


@pytest.mark.parametrize("marks", ["", start("presets") + END])
def test_a_page_with_other_sections_than_listed_is_refused(
    marks: str, tmp_path: Path, monkeypatch
) -> None:
    one_page(tmp_path, monkeypatch, marks)
    with refused("page.md", "the sections training-throughput", "tools/pages.py"):
        pages.filled("page.md")


def test_generated_sections_are_replaced_and_the_rest_is_left_alone() -> None:
    page = f"A\n{start('x')}\nold\n{END}\nB\n{start('y/z')}{END}\n"
    once = fill(page, str.upper)
    assert once == f"A\n{start('x')}\n\nX\n\n{END}\nB\n{start('y/z')}\n\nY/Z\n\n{END}\n"
    assert fill(once, str.upper) == once
    assert fill("no section", str.upper) == "no section"


@pytest.mark.parametrize("page", [start("x"), END + start("x"), start("x") + start("y") + END])
def test_a_section_without_an_end_is_refused(page: str) -> None:
    with refused("page, section 'x'", "add both"):
        fill(page, str.upper)
