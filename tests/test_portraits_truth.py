"""The comparison with the truth, on answers whose distance from it is known."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fcfg
import portraits_truth as truth
import truth_tables as table
from fcfg.datasets import portraits
from fcfg.metrics import Bootstrap

TOOLS = Path(__file__).parents[1] / "tools"

VARIANTS = {"portraits": "smiling", "portraits-causal": "age"}
SIZE = 8


def tiny_judge(variant: str) -> fcfg.AttributeJudge:
    torch.manual_seed(1)
    space = portraits.space(variant)
    outputs = sum(space.widths) + len(space)
    network = fcfg.Judge(fcfg.JudgeConfig(outputs=outputs, width=4))
    return fcfg.AttributeJudge(network, space, dict.fromkeys(space.names, (0.0, 1.0)))


@pytest.fixture(scope="module", params=VARIANTS)
def asked(request) -> tuple:
    variant = request.param
    judge = tiny_judge(variant)
    record = portraits.sample(12, seed=portraits.EVALUATION_SEED, size=SIZE, variant=variant)
    return truth.ask(record, VARIANTS[variant], judge), judge, Bootstrap(12)


def test_the_truth_itself_has_no_error_and_no_shift(asked) -> None:
    question, judge, bootstrap = asked
    row = truth.measure(question.truth.images, question, judge, bootstrap)
    nothing = {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert row["changed_error"] == nothing
    assert row["image_mae"] == 0
    assert row["factor_error"]
    assert all(error == nothing for error in row["factor_error"].values())


def test_nothing_done_has_an_error_of_exactly_one(asked) -> None:
    question, judge, bootstrap = asked
    row = truth.measure(question.factual.images, question, judge, bootstrap)
    assert row["changed_error"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert row["image_mae"] > 0
    assert any(error["mean"] != 0 for error in row["factor_error"].values())


def test_halfway_to_the_truth_is_half_the_error(asked) -> None:
    question, judge, bootstrap = asked
    images = (question.factual.images + question.truth.images) / 2
    row = truth.measure(images, question, judge, bootstrap)
    assert row["changed_error"]["mean"] == pytest.approx(0.5, abs=1e-6)


def test_a_shift_is_counted_toward_the_value_and_in_deviations_of_the_factor() -> None:
    judge = tiny_judge("portraits")
    record = portraits.sample(12, seed=portraits.EVALUATION_SEED, size=SIZE)
    question = truth.ask(record, "male", judge)
    stronger = judge.read(question.truth.images).factors
    for name, values in question.truth.attributes.items():  # the truth shows half a unit less
        question.reading.factors[name] = stronger[name] - 0.5 * (2 * values - 1)
    row = truth.measure(question.truth.images, question, judge, Bootstrap(12))
    for name, error in row["factor_error"].items():
        assert error["mean"] == pytest.approx(0.5 / record.factors[name].std())


def test_an_auroc_needs_both_classes() -> None:
    judge = tiny_judge("portraits")
    record = portraits.sample(12, seed=portraits.EVALUATION_SEED, size=SIZE)
    question = truth.ask(record, "smiling", judge)
    question.truth.attributes["male"] = np.ones(12, dtype=np.int64)
    areas = truth.measure(record.images, question, judge, Bootstrap(12))["auroc"]
    assert areas["male"] is None
    assert 0 <= areas["smiling"] <= 1


@pytest.mark.parametrize("n", [8, 1000, 1001])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_compiled_network_meets_one_shape_in_each_setting(n: int, rows: int) -> None:
    args = argparse.Namespace(compile=True, batch_size=512, n=n)
    size = truth.chunk(args, rows)
    assert size <= max(512, rows)
    assert size % rows == 0
    assert n % (size // rows) == 0


def row(do: str, guidance: str, changed: float, **factors: float) -> dict:
    def around(mean: float) -> dict:
        return {"mean": mean, "low": mean - 0.05, "high": mean + 0.05}

    errors = {name: around(factors.get(name, 0.0)) for name in ("smiling", "male", "young")}
    return {
        "do": do,
        "guidance": guidance,
        "changed_error": around(changed),
        "factor_error": errors,
    }


def test_verdicts_say_what_was_demanded_and_whether_it_is_met() -> None:
    rows = [
        row("smiling", table.UNGUIDED, 0.5),
        row("smiling", table.CFG, 1.0, smiling=0.4, male=0.30, young=0.04),
        row("smiling", table.FCFG, 1.0, smiling=0.3, male=0.07, young=0.9),
        row("male", table.UNGUIDED, 0.66),
        row("male", table.CFG, 1.0, smiling=0.30, male=0.2, young=-0.5),
        row("male", table.FCFG, 1.0, smiling=0.09, male=0.2, young=0.1),
    ]
    met = [verdict["met"] for verdict in table.verdicts(rows)]
    # Changed pixels, two amplifications, the target; CFG must amplify beyond its interval.
    assert met == [True, False, None, False, False, True, None, True]
    lines = [table.verdict_line(verdict) for verdict in table.verdicts(rows)]
    assert "0.070, wanted at most 0.060: **not met**" in lines[1]
    assert table.verdicts([row("age", table.UNGUIDED, 0.9)]) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("truth")
    torch.manual_seed(0)
    space = portraits.space()
    config = fcfg.UNetConfig(
        size=SIZE, base=8, multipliers=(1,), blocks=1, attention=(), condition=96
    )
    denoiser = fcfg.Denoiser(
        fcfg.UNet(config), fcfg.AttributeEmbedder(space), fcfg.NoiseSchedule()
    )
    scm = fcfg.StructuralCausalModel(space, portraits.graph())
    pipeline = fcfg.CounterfactualPipeline(
        denoiser, scm, judge=tiny_judge("portraits"), provenance={"steps": 0}
    )
    fcfg.save(pipeline, folder / "model", "float16")
    command = [sys.executable, str(TOOLS / "portraits_truth.py"), str(folder / "model")]
    options = ["--n", "8", "--steps", "2", "--device", "cpu", "--reverse"]
    paths = ["--out", str(folder / "new/result.json"), "--sheet", str(folder / "sheet.png")]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # faster for so little work
    done = subprocess.run(
        command + options + paths, capture_output=True, text=True, env=one_thread
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_run_writes_rows_for_every_setting_and_says_where_they_come_from(run) -> None:
    folder, _ = run
    result = json.loads((folder / "new/result.json").read_text())
    assert (result["n"], result["steps"], result["seed"]) == (8, 2, portraits.EVALUATION_SEED)
    assert result["model"]["provenance"] == {"steps": 0}
    assert len(result["model"]["config_sha256"]) == 64
    assert result["precision"] == "float32"
    assert "--reverse" in result["command"]
    asked = [(found["do"], found["guidance"]) for found in result["rows"]]
    assert asked == [(do, text) for do in portraits.space().names for text in truth.SETTINGS]
    assert result["verdicts"] == table.verdicts(result["rows"])
    with Image.open(folder / "sheet.png") as page:
        assert page.height > 13 * 2 * SIZE


def test_an_untrained_network_does_nothing_and_the_table_says_so(run) -> None:
    folder, _ = run
    for found in json.loads((folder / "new/result.json").read_text())["rows"]:
        assert found["changed_error"]["mean"] == pytest.approx(1, abs=1e-3)
        assert found["reversal_mae"] == pytest.approx(0, abs=1e-5)
        for error in (found["changed_error"], *found["factor_error"].values()):
            assert error["low"] - 1e-9 <= error["mean"] <= error["high"] + 1e-9


def test_the_table_comes_from_the_file_alone(run, monkeypatch, capsys) -> None:
    folder, printed = run
    path = folder / "new/result.json"
    monkeypatch.setattr(sys, "argv", ["portraits_truth.py", "--table", str(path)])
    truth.main()
    again = capsys.readouterr().out
    assert again == table.markdown(json.loads(path.read_text()))
    assert printed.endswith(again)


@pytest.mark.parametrize("words", [[], ["model", "--table", "x"], ["model", "--seed", "5"]])
def test_a_command_that_means_nothing_is_refused(words, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["portraits_truth.py", *words])
    with pytest.raises(SystemExit):
        truth.main()
    assert "error" in capsys.readouterr().err
