"""The demonstration: live, short, and true to its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluations import rows_of
from fcfg.cli import main
from fcfg.evaluation import choose_subset, find_experiment, presets
from fcfg.model import load
from fcfg.reports import compare
from fcfg.reports.strips import read_album
from fcfg.sampling import as_sampling
from refusal import typed


@pytest.fixture
def tiny(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo's question, of fewer drawings, one intervention; in a folder of its own."""
    kinds = presets._kinds
    images, steps = getattr(request, "param", (2, 2))

    def fewer(family) -> dict[str, object]:
        small = {"images": images, "sampling": steps, "also": {}, "do": ["smiling"]}
        demo = kinds(family)["demo"] | small
        return kinds(family) | {"demo": demo, "core": demo}

    monkeypatch.setattr(presets, "_kinds", fewer)
    monkeypatch.setattr("fcfg.cli.demo._MODEL", "portraits")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path) -> list[dict]:
    lines = (folder / "results-0-of-1.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "row"]


@pytest.mark.parametrize("tiny", [(3, 4)], indirect=True)
def test_the_demo_says_what_it_saw_and_where_to_look(tiny: Path, capsys) -> None:
    said = typed(capsys, "demo").out
    assert "do(smiling)" in said
    assert "CFG 3.0" in said
    assert "FCFG 3.0 / 1.2" in said
    assert "Look at runs/demo/report/report.html" in said
    assert (tiny / "runs/demo/report/report.html").stat().st_size > 10_000
    assert len(rows(tiny / "runs/demo")) == 3 * 4
    # The last row is what README and Python show: calibrated, with drawn noise, in its own steps.
    assert "uncalibrated" in said
    assert "4 steps of DPMSolver2M on the karras grid; ddim quadratic 11 where a setting" in said
    assert "anchored contrast 1.39 drawn noise (default)" in said
    pipeline = load("portraits")
    asked = find_experiment("portraits/demo", model=pipeline)
    some, own = choose_subset(pipeline, asked), asked.questions[-1]
    do = {"smiling": "flip"}
    answers = pipeline.counterfactual(some.images, some.attributes, do).images
    run = compare(tiny / "runs/demo", resamples=2)
    shown = read_album(run)
    (row,) = (row for row in run.measured[own[0]].rows if row.cell.guidance == own[1])
    assert (shown.answers[row] - answers).abs().max() < 1 / 127


def test_the_full_demo_is_another_run(tiny: Path, capsys) -> None:
    assert main(["demo", "--full", "--device", "cpu"]) == 0
    assert (tiny / "runs/demo-full/report/report.html").exists()
    assert not (tiny / "runs/demo").exists()


def listed(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_finished_demo_is_shown_again_and_computed_again_on_demand(tiny: Path, capsys) -> None:
    shown, before = typed(capsys, "demo").out, listed(tiny / "runs/demo")
    scores = [row["scores"] for row in rows(tiny / "runs/demo")]
    again = typed(capsys, "demo").out
    assert listed(tiny / "runs/demo") == before
    assert again == "runs/demo holds a finished run; --overwrite starts it again.\n" + shown
    (tiny / "runs/demo/pictures/own.txt").write_text("mine")
    assert main(["demo", "--overwrite"]) == 0
    after = listed(tiny / "runs/demo")
    assert after.pop("pictures/own.txt") == b"mine"
    assert after.keys() == before.keys()
    assert [row["scores"] for row in rows(tiny / "runs/demo")] == scores
    result = "results-0-of-1.jsonl"
    assert after[result] != before[result]  # other seconds: computed again


def test_a_demo_spares_what_is_not_its_own(tiny: Path, capsys) -> None:
    """A folder that is no run, and a file; evaluations spare the runs of others."""
    (tiny / "holiday/pictures").mkdir(parents=True)
    (tiny / "holiday/pictures/index.json").write_text("[1]")
    (tiny / "file").write_text("mine")
    before = listed(tiny)
    for out, said in {
        "holiday": "'pictures/index.json' and no result file",
        "file": "a folder that can be written",
    }.items():
        for more in ([], ["--overwrite"]):
            assert main(["demo", "--out", out, *more]) == 2
            assert said in capsys.readouterr().err
            assert listed(tiny) == before


def test_the_demo_fits_into_its_time() -> None:
    """Network rows, at some 40 a second on two slow cores; and drawings enough to see by."""
    pipeline = load("portraits")
    demo = find_experiment("portraits/demo", model=pipeline)
    each = 1 + sum(rows_of(demo, pipeline).values())
    assert each * demo.images * as_sampling(demo.sampling).steps <= 4_000
    assert demo.images >= 16
