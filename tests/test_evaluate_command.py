"""``fcfg evaluate`` as a researcher types it, and what a terminal shows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from rich.table import Table

import fcfg
from evaluations import answers, asked, folder_model, tiny_model
from fake_results import make_results
from fcfg.cli import main
from fcfg.cli.computing import Computing
from fcfg.cli.tables import print_grid, print_numbers, table_console
from fcfg.datasets import portraits
from fcfg.evaluation import Experiment, experiments, find_experiment, read_results
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from fcfg.pipeline.runtime import own_gpu
from fcfg.reports import compare
from fcfg.sampling import as_sampling
from fcfg.support import progress
from fcfg.support.config_files import to_yaml
from refusal import refused, refused_line, typed
from terminals import Terminal

GRAPH = portraits.graph("portraits")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("models") / "tiny")


def saved(folder: Path, provenance: dict[str, Any] | None = None, *, judge: bool = True) -> str:
    """Save a tiny model; return where."""
    pipeline = tiny_model(saved=True)
    pipeline.provenance = provenance or pipeline.provenance
    pipeline.judge = pipeline.judge if judge else None
    fcfg.save(pipeline, folder)
    return str(folder)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> str:
    """An experiment in a file, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    experiment = asked(do=("smiling",), guidance=("cfg:3",), images=2, title="Ours")
    values = yaml.safe_load(to_yaml(experiment))
    del values["name"]
    Path("mine.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return "mine.yaml"


def test_what_is_missing_unknown_or_does_not_fit_is_one_line(
    model, mine, tmp_path, monkeypatch, capsys
) -> None:
    def wrong(subject: str, *lines: str) -> None:
        for line in lines:
            given = line.replace("TINY", model).replace("CORE", f"{core} --images 2")
            refused_line(["evaluate", *given.split()], subject, capsys)

    Path("ok.png").write_bytes(b"no weights")
    core = "portraits portraits/core"
    blind = saved(tmp_path / "blind", judge=False)
    wrong("MODEL", "")
    wrong("EXPERIMENT", "portraits")
    wrong("no-such-model", "--list no-such-model", "no-such-model portraits/core")
    wrong("experiment 'core'", "--show core")
    wrong("experiment portraits/default", "--show portraits/default")
    wrong("experiment 'portrait/core'", "portraits portrait/core")
    wrong("steps", "CORE --sampling 0")
    wrong("sampling", "CORE --sampling papr")
    wrong("precision", "CORE --precision fp16")
    wrong("--shard", *(f"CORE --shard={n}" for n in ("1", "a/b", "1/", "-1/2")))
    own = "--sampling 3", "--sampling paper", "--no-anchor"
    wrong("", *(f"TINY default {option}" for option in own))
    wrong("experiment 'embed/core'", "TINY embed/core")
    wrong(f"guidance {DEFAULT_GUIDANCE}", "TINY baselines --sampling paper")
    wrong("shard, count", "TINY mine.yaml --shard 0/3")
    wrong("weights", "TINY mine.yaml --lpips ok.png", "TINY mine.yaml --inception ok.png")
    rows = ("0", "many", "-1")
    wrong("--batch-size", *(f"TINY mine.yaml --batch-size={n}" for n in rows))
    wrong("ok.png", "TINY mine.yaml --cache ok.png --out new")
    wrong("model", f"{blind} mine.yaml")
    monkeypatch.setenv("RANK", "x")
    wrong("RANK", "TINY mine.yaml")
    assert not Path("new").exists()


def test_the_list_has_every_experiment_that_fits_with_its_title(model, capsys) -> None:
    for words, graph in (([], None), ([model], GRAPH)):
        lines = typed(capsys, "evaluate --list", *words).out.splitlines()
        found = {line.split()[0]: line for line in lines}
        assert list(found) == list(experiments(graph))
        assert all(find_experiment(n, graph=graph).title in line for n, line in found.items())


OWN = find_experiment("portraits/demo", sampling="bdia karras 16")  # none of the presets
FIXED = find_experiment("portraits/inv", sampling="fixed-point:5 karras 7")


def test_what_is_shown_is_what_would_be_asked_and_can_be_read_back(
    model, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(to_yaml(OWN), encoding="utf-8")
    asked = {
        f"{model} triple --images 9": find_experiment("triple", graph=GRAPH, images=9),
        "portraits/inv --sampling 'fixed-point karras 7'": FIXED,
        "any portraits/inv --sampling 'fixed-point karras 7'": FIXED,
        "own.yaml": OWN,
    }
    for text in ("paper", "default", "heun uniform 7"):
        given = {"sampling": str(as_sampling(text))}
        asked[f"own.yaml --sampling '{text}'"] = OWN.model_copy(update=given)
    for words, wanted in asked.items():
        Path("shown.yaml").write_text(
            typed(capsys, f"evaluate --show {words}").out, encoding="utf-8"
        )
        assert find_experiment("shown.yaml") == wanted, words
    # What a refusal advises can be asked.
    words = [model, "baselines", "--sampling", "paper", "--no-anchor", "--show"]
    advised = Experiment.model_validate(yaml.safe_load(typed(capsys, "evaluate", *words).out))
    assert all(plan.rows for plan in advised.plans(tiny_model()).values())


def test_a_model_of_a_folder_is_evaluated_in_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    """Whatever its attributes are, and however few images there are."""
    monkeypatch.chdir(tmp_path)
    folder = saved(tmp_path / "digits", folder_model(tmp_path / "faces", 3).provenance)
    out = typed(capsys, "evaluate", folder, "fid", "--sampling", "2", "--no-report").out
    assert "3 images (the whole test split), 15 questions of each" in out
    assert "AUROC and distances need at least 200 images, and this run has 3" in out
    header = read_results("runs/evaluate/digits/fid").header
    assert (header["experiment"], header["continuous"]) == ("fid", "quantiles")
    assert {do for do, _ in header["questions"]} == {"smiling", "male", "young"}


def test_a_run_shows_its_table_and_writes_its_report(model, mine, capsys) -> None:
    out, folder = typed(capsys, "evaluate", model, mine).out, Path("runs/evaluate/tiny/mine")
    assert out.startswith("mine: Ours\n2 images, 3 questions of each, on cpu\n  2 steps of ")
    said = ["lpips: no LPIPS: it takes images of at least 32 by 32", f"results: {folder}"]
    said += ["do(smiling)", "CFG 3.0", "factor error"]
    assert [text for text in said if text not in out] == []
    assert out.endswith(f"Look at {folder / 'report' / 'report.html'}\n")
    assert (folder / "report" / "report.html").exists()
    assert len(list(Path("runs/abductions").rglob("*.safetensors"))) == 2
    header = read_results(folder).header
    assert (header["model"]["name"], header["environment"]["precision"]) == ("tiny", "float32")
    before = (folder / "results-0-of-1.jsonl").read_bytes()
    assert "Report" not in typed(capsys, "evaluate", model, mine, "--no-report").out
    assert (folder / "results-0-of-1.jsonl").read_bytes() == before
    assert main(["evaluate", model, mine, "--sampling", "3"]) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_shards_of_a_folder_of_images_say_what_is_to_come(mine, tmp_path: Path, capsys) -> None:
    folder = saved(tmp_path / "model", folder_model(tmp_path / "faces", 4).provenance)
    (tmp_path / "faces").rename(tmp_path / "moved")
    Path(mine).write_text(
        Path(mine).read_text(encoding="utf-8") + "balance: []\n", encoding="utf-8"
    )
    assert main(["evaluate", folder, mine]) == 2
    assert "--data DIR" in capsys.readouterr().err
    words = ["evaluate", folder, mine, "--data", "moved", "--out", "run", "--batch-size", "8"]
    words += ["--cache", "noise", "--no-reverse", "--images", "3", "--device", "cpu"]
    first = typed(capsys, *words, "--shard", "1/2").out
    assert first.endswith("3 rows are there, 6 are still to come\n")
    out = typed(capsys, *words, "--shard", "0/2", "--commit", "abc", "--precision", "bf16").out
    said = [text in out for text in ("probability", "after reversal", "error to the truth")]
    assert said == [True, False, False]
    assert read_results("run").header["commit"] == "abc"


def test_processes_that_were_launched_together_share_the_images(
    model: str, mine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As accelerate and torchrun launch them; each does its part, and one speaks."""
    words = ["evaluate", model, mine, "--no-report", "--device", "cpu", "--batch-size", "8"]
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        said.append(typed(capsys, *words, "--out", "two").out)
    assert "2 images, 3 questions of each" in said[0]
    assert "are still to come" in said[0]
    assert "questions of each" not in said[1]  # but the table of whoever ends last
    assert "do(smiling): smiling is flipped" in said[1]
    files = {path.name for path in Path("two").glob("*.jsonl")}
    assert files == {"results-0-of-2.jsonl", "results-1-of-2.jsonl"}


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own import
def test_compiling_changes_no_row(model: str, mine: str) -> None:
    for out, more in (("plain", []), ("compiled", ["--compile"])):
        words = ["evaluate", model, mine, "--out", out, "--no-report", "--cache", out, *more]
        assert main(words) == 0
    plain, compiled = map(read_results, ("plain", "compiled"))
    assert plain.header["model"] == compiled.header["model"]  # one digest
    assert compiled.header["environment"]["compiled"]
    rows, others = answers(plain), answers(compiled)
    assert rows.keys() == others.keys()
    for key, row in rows.items():
        assert row["scores"] == pytest.approx(others[key]["scores"], rel=1e-4)
        assert row["change"]["mae"] == pytest.approx(others[key]["change"]["mae"], rel=1e-3)


def test_an_interrupted_run_says_how_to_go_on(model, mine, monkeypatch, capsys) -> None:
    @contextmanager
    def impatient(*, quiet: bool) -> Generator[Callable[[float], None]]:
        def told(share: float) -> None:
            if share > 0.5:
                raise KeyboardInterrupt

        yield told

    monkeypatch.setattr("fcfg.cli.progress.share_bar", impatient)
    assert main(["evaluate", model, mine, "--out", "run"]) == 130
    done = "finished rows are in run, run the same command to resume"
    assert capsys.readouterr().err == f"fcfg evaluate: interrupted; {done}\n"
    assert 0 < read_results("run").missing < 6


def test_the_table_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_results(tmp_path, 20, pictures=0, settings=("none", "cfg:3.0"))
    comparison = compare(folder)
    print_numbers(comparison)
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("do(")]
    assert "(target)" in out
    for row in (row for do in comparison.dos for row in comparison.measured[do].rows):
        margins = [f"±{(e.high - e.low) / 2:.2f}" for e in row.cell.drift.values()]
        assert any(all(margin in line for margin in margins) for line in out.splitlines())
    assert "noise is that of the way there" in out


def test_a_table_is_cut_at_the_width_of_a_terminal_but_no_number_is(monkeypatch, capsys) -> None:
    words = [f"{number}.123456789" for number in range(8)]

    def widest(*headings: str, show: Callable[[Table], object]) -> int:
        table = Table(*headings)
        table.add_row(*(words if len(headings) > 1 else ()))
        show(table)
        return max(map(len, capsys.readouterr().out.splitlines()))

    plain = partial(widest, *words, show=lambda table: table_console().print(table))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert plain() > len("".join(words))
    monkeypatch.setenv("COLUMNS", "40")
    assert plain() <= 40 < widest(*words, show=print_grid)
    assert widest("two words " * 20, show=print_grid) <= 40  # cells wrap where they can
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert table_console().width < 1000


def test_a_bar_is_for_those_who_watch_and_lines_for_those_who_read_later(
    monkeypatch, capsys
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal := Terminal())
        patch.setenv("TERM", "xterm")
        with progress.share_bar() as told:
            told(0.25)
            told(1.0)
        assert "100%" in terminal.text

    def said(*shares: float, **how: bool) -> list[str]:
        with progress.share_bar(**how) as told:
            for share in shares:
                told(share)
        return capsys.readouterr().err.splitlines()

    assert said(0.5) == []  # not yet
    monkeypatch.setattr(progress, "SECONDS", -1)
    lines = said(0.0, 0.5, 1.0)
    assert [line.split(" done")[0].strip() for line in lines] == ["50%", "100%"]
    assert all(line.endswith("s left") for line in lines)
    assert said(1.0, quiet=True) == []


def test_a_device_that_is_not_there_is_refused_and_processes_have_a_gpu_each(monkeypatch) -> None:
    auto, cpu, *others = (Computing(device=name) for name in ("auto", "cpu", "gpu", "cuda"))
    assert auto.target == cpu.target == "cpu"  # tests hide what there is
    for each in others:
        refused("device").by(getattr, each, "target")

    # Not every launcher says how many processes there are.
    def own(gpus: int, rank: int | None = None, processes: int | None = None) -> int:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        for name, value in (("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", processes)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, str(value))
        return own_gpu()

    assert [own(0), own(0, 1, 3), own(3, 1, 3), own(4, 1, 3), own(2, 1)] == [0, 1, 1, 1, 1]
    for launched in ((2, 1, 3), (2, 2)):
        refused("processes on this machine", "at most 2", "got 3").by(own, *launched)
