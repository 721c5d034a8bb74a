"""The demonstration: live, short, and true to its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fcfg.checkpoint import load
from fcfg.cli import main
from fcfg.experiments import Evaluation, choose_subset, find_experiment, find_instruments, presets
from fcfg.experiments.work import Costs


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo's question, of fewer drawings, one intervention; in a folder of its own."""
    whole = presets._demo

    def fewer(family) -> dict[str, object]:
        return whole(family) | {"images": 2, "steps": 10, "also": {}, "do": ["smiling"]}

    monkeypatch.setitem(presets._KINDS, "demo", fewer)
    monkeypatch.setitem(presets._KINDS, "core", fewer)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path) -> list[dict]:
    lines = (folder / "results-0-of-1.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "row"]


def test_the_demo_says_what_it_saw_and_where_to_look(tiny: Path, capsys) -> None:
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "do(smiling)" in said
    assert "Global guidance (CFG 3.0)" in said
    assert "Factored guidance (FCFG 3.0 / 1.2)" in said
    assert "Look at runs/demo/report/report.html" in said
    assert (tiny / "runs/demo/report/report.html").stat().st_size > 10_000
    assert len(rows(tiny / "runs/demo")) == 2 * 3


def test_the_full_demo_is_another_run(tiny: Path, capsys) -> None:
    assert main(["demo", "--full", "--device", "cpu"]) == 0
    assert (tiny / "runs/demo-full/report/report.html").exists()
    assert not (tiny / "runs/demo").exists()


def evaluation(out: Path, steps: int | None = None) -> Evaluation:
    pipeline = load("portraits")
    experiment = find_experiment("portraits/demo", steps=steps)
    subset = choose_subset(pipeline, experiment)
    return Evaluation(pipeline, experiment, subset, find_instruments(pipeline), out)


def test_a_finished_run_is_computed_again_and_a_part_of_one_is_kept(tiny: Path) -> None:
    run = evaluation(tiny / "out")
    run.forget_finished()  # nothing there yet
    run.run()
    path = tiny / "out/results-0-of-1.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    part = [line for line in whole if "distance" not in line][:-1]
    path.write_text("".join(part))
    run.forget_finished()
    assert path.read_text() == "".join(part)
    path.write_text("".join(whole))
    run.forget_finished()
    assert not path.exists()
    path.write_text("".join(part))
    evaluation(tiny / "out", steps=3).forget_finished()
    assert not path.exists()


def test_an_interrupted_demo_says_how_to_go_on(tiny: Path, monkeypatch, capsys) -> None:
    def interrupt(self, told) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Evaluation, "run", interrupt)
    assert main(["demo"]) == 130
    assert "run the same command to go on" in capsys.readouterr().err


def test_the_demo_fits_into_its_time() -> None:
    """Network rows, at some 40 a second on two slow cores; and drawings enough to see by."""
    demo = find_experiment("portraits/demo")
    pipeline = load("portraits")
    costs = Costs(demo, pipeline.graph, pipeline.denoiser.schedule)
    each = 1 + sum(costs.whole(*question) for question in demo.questions)
    assert each * demo.images * demo.steps < 4_000
    assert demo.images >= 16
