"""``fcfg bench``: what is compared, counted and written. Speed itself is not tested."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import fcfg
from evaluations import shared_model, tiny_model
from fcfg.bench import Measurement, Record, Workload, bench, from_preset
from fcfg.bench.baselines import diffusers_loop, diffusers_obstacle, plain_loop
from fcfg.bench.workload import random_table
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.cli import main
from refusal import refused_line

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*script_method.*:DeprecationWarning"  # torch's own import of its compiler
)
STEPS = 5
EXACT, ROUNDED = 1e-9, 1e-3  # in float64; with float32, whose rounding noise magnifies
LOOPS = [bench.PLAIN, bench.DIFFUSERS, bench.OURS]


@pytest.fixture
def model() -> fcfg.CounterfactualPipeline:
    """In float64, so that loops are compared and not their rounding."""
    pipeline = tiny_model()
    pipeline.denoiser.double()
    return pipeline


@pytest.fixture
def no_diffusers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "matrix_rate", lambda device: 1e12)


def test_all_implementations_give_the_same_images(model: fcfg.CounterfactualPipeline) -> None:
    work = Workload.of(model, 3, STEPS)
    images = plain_loop(work)
    assert -1 <= work.images.min() < work.images.max() <= 1
    assert (bench.compute(work) - images).abs().max() < EXACT
    assert (diffusers_loop(work) - images).abs().max() < ROUNDED  # its alphas are float32
    assert (images - work.images).abs().max() > 100 * ROUNDED  # or it would mean nothing


@pytest.mark.parametrize("loop", [plain_loop, diffusers_loop, bench.compute])
def test_rows_are_counted_as_the_network_sees_them(model, loop) -> None:
    work, seen = Workload.of(model, 3, 2), []
    hook = lambda module, inputs, output: seen.append(len(inputs[0]))  # noqa: E731
    model.denoiser.network.register_forward_hook(hook)
    loop(work)
    assert sum(seen) == work.evaluations == 3 * 2 * (1 + 3)
    assert max(seen) == work.rows_at_once == 3 * 3


def test_what_diffusers_cannot_run_says_why(model, monkeypatch) -> None:
    assert diffusers_obstacle(Workload.of(model, 1, 8)) == ""
    assert diffusers_obstacle(Workload.of(model, 1, 7)) == "needs --steps that divide 1000"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "diffusers", None)
        assert "pip install diffusers" in diffusers_obstacle(Workload.of(model, 1, 8))
    model.denoiser.schedule = fcfg.NoiseSchedule("flow")
    assert "noises" in diffusers_obstacle(Workload.of(model, 1, 8))


def test_the_plain_loop_of_a_flow_is_that_of_euler(model: fcfg.CounterfactualPipeline) -> None:
    model.denoiser.schedule = fcfg.NoiseSchedule("flow", shift=2.0)
    model.denoiser.parameterisation = "flow"
    work = Workload.of(model, 2, STEPS)
    images = plain_loop(work)
    assert (bench.compute(work) - images).abs().max() < EXACT
    assert (images - work.images).abs().max() > ROUNDED


def test_operations_are_counted_and_random_attributes_are_legal() -> None:
    with torch.device("meta"):
        pipeline = from_preset("celeba-hq")
    assert sum(p.numel() for p in pipeline.denoiser.parameters()) == 60_511_331
    work = Workload(pipeline, torch.empty(1, 3, 64, 64), {}, {}, 1)
    assert work.row_flops / 1e9 == pytest.approx(22.85, abs=0.005)
    kinds = Binary("sex"), Continuous("age", 20, 80), Categorical("race", ["a", "b", "c"])
    space = AttributeSpace(kinds)
    table = space.parse(random_table(space, 200))
    assert {name: len(set(table[name])) for name in ("sex", "race")} == {"sex": 2, "race": 3}
    assert table["age"].min() < 30 < 70 < table["age"].max()


def test_seconds_decide_on_images_and_rounds(model, monkeypatch) -> None:
    for pace, given, images, rounds in (
        (0.001, {}, 4, 5),
        (0.5, {}, 1, 2),
        (0.5, {"seconds": 360}, 2, 4),
        (9.0, {}, 1, 1),
        (9.0, {"images": 3}, 3, 1),  # what a user asks for is measured
        (0.5, {"compile": True, "images": 1}, 1, 1),
    ):
        took = (3 * pace, None)  # of 3 rows
        monkeypatch.setattr(bench, "timed", Mock(return_value=took))
        plan = bench.plan("tiny", model, **given)
        assert (len(plan.workload.images), plan.rounds) == (images, rounds)
        assert plan.workload.steps == 4
        rows = (4 if plan.compiled else 3) * 16 * images + 3 * images + bench._DEFAULT
        expected = pace * rows * (1 + rounds) + 60 * plan.compiled
        assert plan.seconds == pytest.approx(expected)


@pytest.mark.usefixtures("no_compiler", "quick")
def test_a_run_measures_everything_once(model: fcfg.CounterfactualPipeline) -> None:
    shares: list[float] = []
    plan = replace(bench.plan("tiny", model, images=2, steps=2, compile=True), rounds=3)
    record = plan.run(shares.append)
    plain, diffusers, ours, compiled, alone, single = record.rows
    loops = [plain, diffusers, ours, compiled]
    assert [row.name for row in loops] == [*LOOPS, bench.COMPILED]
    assert all((row.images, row.rows, len(row.times)) == (2, 16, 3) for row in loops)
    shown = dict(zip([row.name for row in record.rows], record.table()[1:], strict=True))
    ratio = (plain.seconds or 0) / (ours.seconds or 1)
    assert [shown[name][-2] for name in LOOPS[::2]] == ["1.00×", f"{ratio:.2f}×"]
    assert (alone.name, alone.images, alone.rows) == (bench.NETWORK, None, 6)
    assert shown[alone.name][-2] == "–"
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert single.images == 1


def test_one_image_by_default_says_what_was_measured() -> None:
    """The model draws its noise: in steps of its own, and with other network rows."""
    model = fcfg.load("portraits")
    row, call = bench.plan("portraits", model, images=1, steps=1)._default()
    pair = call()
    assert pair.guidance.drawn_noise
    assert row.name == f"one image by default: {pair.guidance}, {pair.plan.sampling}"
    assert row.rows == 33


@pytest.mark.usefixtures("no_diffusers", "quick")
def test_a_machine_that_became_slower_ends_early(model: fcfg.CounterfactualPipeline) -> None:
    plan = replace(bench.plan("tiny", model, images=1, steps=1), rounds=5, allowed=0)
    record = plan.run()
    assert [len(row.times) for row in record.rows] == [1, 0, 1, 1, 1]
    assert "pip install diffusers" in record.table()[2][0]


def test_a_gpu_is_waited_for_and_a_product_is_two_operations(monkeypatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: told.append("wait"))
    bench.timed(lambda: told.append("call"), torch.device("cuda"))
    assert told == ["wait", "call", "wait"]
    monkeypatch.setattr(bench, "timed", lambda call, device: (0.5, call()))
    assert bench.matrix_rate(torch.device("cpu")) == 2 * 1024**3 * 2 / 0.5


# Records ----------------------------------------------------------------------------------------


def test_rates_follow_from_times() -> None:
    plain = Measurement(bench.PLAIN, images=4, rows=32).timed([7.0, 2.0, 1.0, 4.0])
    ours = Measurement(bench.OURS, images=4, rows=32).timed([7.0, 0.5])
    assert (plain.cold, plain.seconds, plain.times) == (7, 2, (2, 1, 4))
    absent = Measurement(bench.DIFFUSERS, "not installed")
    head, *lines = Record("tiny", (plain, ours, absent), row_seconds=1 / 128).table()
    assert [line[0] for line in lines] == [plain.name, ours.name, f"{absent.name} (not installed)"]
    cells = [dict(zip(head, line, strict=True)) for line in lines]
    rates = [[row["images/s"], row["rows/s"]] for row in cells]
    assert rates == [["2", "16"], ["8", "64"], ["–"] * 2]
    assert [row["speed-up"] for row in cells] == ["1.00×", "4.00×", "–"]
    assert [row["of chip"] for row in cells] == ["12.5%", "50.0%", "–"]


@pytest.mark.usefixtures("no_diffusers", "quick")
def test_the_command_says_how_long_and_shows_every_row(tiny_folder: Path, capsys) -> None:
    words = ["bench", str(tiny_folder), "--steps", "2", "--images", "2", "--seconds", "1"]
    assert main([*words, "--device", "cpu"]) == 0
    shown, said = capsys.readouterr()
    assert said.startswith("2 counterfactuals, 2 steps each way, ")
    assert shown.startswith("tiny: 0.")
    assert all(name in shown for name in (*LOOPS, bench.NETWORK))


def test_the_default_model_follows_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from fcfg.cli.bench import _model

    monkeypatch.setattr("fcfg.bench.from_preset", lambda name: {"celeba-hq": shared_model()}[name])
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert [_model("", "", cpu)[0], _model("portraits", "", cuda)[0]] == ["portraits"] * 2
    assert _model("", "", cuda) == ("celeba-hq", shared_model())


def test_what_is_wrong_is_one_line(capsys, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused_line(["bench", "no-such-model"], "no-such-model", capsys)
    refused_line(["bench", *["portraits", "--preset", "celeba-hq"]], "MODEL", capsys)
    wrong = "preset celeba", "preset hvae-portraits", "device gpu", "steps 0", "images 0"
    for words in (*wrong, "seconds 0"):
        name, value = words.split()
        refused_line(["bench", f"--{name}", value], name, capsys)
