"""Pages and stored results: sections are up to date, result files small and well formed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import compact
import fake_results
import pages
from estimates import RESULTS, Line, read, stored
from fake_results import CFG, FCFG
from fcfg.metrics import Bootstrap, mean
from fcfg.storage import shipped
from refusal import refused
from sections import section

START, END = "<!-- generated: truth-bound -->", "<!-- end -->"


@pytest.mark.parametrize("page", list(pages.pages()), ids=lambda page: "/".join(page.parts[-2:]))
def test_every_page_is_what_its_files_say(page: Path) -> None:
    text, folder = page.read_text("utf-8"), page.relative_to(pages.ROOT).parts[0]
    assert pages.filled(text, folder) == text, "run python studies/pages.py"


def test_the_command_fills_and_checks_pages_whose_sections_have_an_end(tmp_path, capsys) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"A\n{START}\n\nold\n\n{END}\nB\n")
    assert pages.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out.startswith("README.md is out of date")
    assert pages.main([], tmp_path) == 0
    text = page.read_text()
    assert text.startswith(f"A\n{START}\n\n| do | ")
    assert text.endswith(f"\n\n{END}\nB\n")
    assert pages.main(["--check"], tmp_path) == 0
    with refused("section 'truth-bound'", "add '<!-- end -->'"):
        pages.filled(f"{START}\n{START}\n{END}\n")


def test_result_files_are_small_and_well_formed() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    assert max(path.stat().st_size for path in files) < 500_000
    for path in files:
        if path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
            continue
        with path.open(encoding="utf-8", newline="") as file:
            heads, *rows = csv.reader(file)
        assert rows
        assert {len(row) for row in rows} == {len(heads)}, path.name


def test_every_interval_holds_its_value_and_every_run_says_how_it_was_made() -> None:
    for path in sorted(RESULTS.glob("*.csv")):
        for line in read(path.stem):
            for name in [key.removesuffix(" low") for key in line.fields if key.endswith(" low")]:
                low, value, high = (line.value(name + end) for end in (" low", "", " high"))
                if low is not None:
                    assert value is not None
                    assert high is not None
                    assert low <= value <= high, (path.name, line["run"], name)
            if line["run"] not in ("", "no-change"):
                about = stored("runs")[line["run"]]
                assert {"command", "commit", "images", "device"} <= set(about), line["run"]


def test_a_run_becomes_lines_of_its_estimates(tmp_path: Path, monkeypatch) -> None:
    source = fake_results.known_results(tmp_path / "core.jsonl.gz")
    out = tmp_path / "faces.csv"
    words = ["compact", str(source), "--out", str(out), "--claims"]
    monkeypatch.setattr("sys.argv", words)
    compact.main()
    compact.main()  # again: its lines are replaced
    lines = [Line(line) for line in csv.DictReader(out.read_text("utf-8").splitlines())]
    assert len({(line["do"], line["guidance"]) for line in lines}) == len(lines)
    factored = next(line for line in lines if (line["do"], line["guidance"]) == ("smiling", FCFG))
    assert factored["stays"] == "male+young"
    assert float(factored["delta smiling low"]) <= float(factored["delta smiling"])
    assert json.loads((tmp_path / "runs.json").read_text())["core"]["images"] > 0
    claims = csv.DictReader((tmp_path / "claims.csv").read_text("utf-8").splitlines())
    assert {line["global"] for line in claims} == {CFG}


def test_numbers_become_columns_with_intervals() -> None:
    assert compact.columns("FID", 12.3456789) == {"FID": "12.3457"}
    assert compact.columns("FID", None) == {}
    estimate = mean([1.0, 2.0, 3.0, 4.0], Bootstrap(4, resamples=100))
    line = Line(compact.columns("MAE", estimate))
    assert line.shown("MAE", 2) == f"2.50 ± {(estimate.high - estimate.low) / 2:.2f}"
    assert line.shown("LPIPS", 2) == "–"


def tables(text: str) -> Iterator[list[str]]:
    """Yield the lines of every table of a page."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        yield block.splitlines()


def calibrated() -> set[str]:
    """Return the beginnings of labels that only calibrated weights have."""
    found: set[str] = set()
    for folder in shipped().values():
        rule = "CFG" if folder.name in ("digits", "radiographs") else "contrast"
        record = json.loads((folder / "calibration.json").read_text("utf-8"))
        found |= {f"anchored {rule} {own['weight']}" for own in record["attributes"].values()}
    return found


def test_fcfg_says_that_it_is_not_calibrated_beside_a_calibrated_answer() -> None:
    """In the same line, in every table of README, documentation and model cards."""
    ours, checked = calibrated(), 0
    for page in pages.pages():
        for table in tables(page.read_text("utf-8")):
            names = "\n".join("|".join(line.split("|")[1:5]) for line in table)
            if not ("default" in names or any(label in names for label in ours)):
                continue
            for line in table:
                if re.search(r"(?<!anchored )\bFCFG \d", line):
                    untuned = re.search(r"FCFG (2.0|3.0) / 1.2", line)
                    assert ("not calibrated" if untuned else ", calibrated") in line, page.name
                    checked += 1
    assert checked > 20


def test_where_no_calibrated_fcfg_stands_beside_a_calibrated_answer_it_is_said() -> None:
    checked = 0
    for page in pages.pages():
        for part in page.read_text("utf-8").split("\n## "):
            for table in map("\n".join, tables(part)):
                weights = map(float, re.findall(r"anchored \w+ (\d+\.\d+)", table))
                ours = "the default" in table or any(4 * weight % 1 for weight in weights)
                if ours and "not calibrated" in table and "seconds" not in table:
                    told = re.search("(?i)calibrated FCFG is (missing|in)", " ".join(part.split()))
                    assert told or re.search(r"FCFG \d.*, calibrated", table), (page, part[:40])
                    checked += 1
    assert checked > 5


def test_every_distance_and_every_return_says_of_what_it_is() -> None:
    """Changing nothing would score 0, so readers in a hurry do not meet it."""
    for page in pages.pages():
        for name in re.findall(r"<!-- generated: (\S+) -->", page.read_text("utf-8")):
            content = section(name)
            assert not re.search("FID|FD-judge", content) or "factual images" in content, name
    for page in ("README.md", "docs/choosing.md", "docs/index.md"):
        assert not re.search("FID|FD-judge|Fréchet", (pages.ROOT / page).read_text("utf-8"))
    # Drawn noise follows from the factual image, which who has the answer alone does not have.
    checked = 0
    for page in pages.pages():
        text = page.read_text("utf-8")
        for table in tables(text):
            if "return" in table[0] and re.search("drawn|the default", "".join(table)):
                assert re.search("same noise|noise of the way there", text), page.name
                checked += 1
    assert checked > 5


@pytest.mark.parametrize(
    ("picture", "seen"),
    [("hero.webp", "outlines of the old head remain"), ("radiographs/answers.png", "grain")],
)
def test_what_is_wrong_in_a_picture_is_said_beside_it(picture: str, seen: str) -> None:
    shown = 0
    for page in pages.pages():
        text = page.read_text("utf-8").replace(
            "](answers.png", f"]({page.parent.name}/answers.png"
        )
        for beside in re.findall(rf"{picture}\)\n\n(.*?)\n\n", text, re.DOTALL):
            assert seen in " ".join(beside.split()), page.name
            shown += 1
    assert shown >= 2


def test_no_page_claims_more_than_was_measured() -> None:
    refused_words = "all claims hold|factoring is no longer needed|sa-dcg nowhere"
    for page in pages.pages():
        assert not re.search(refused_words, page.read_text("utf-8").lower()), page.name
