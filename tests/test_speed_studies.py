"""The studies of speed under tools/: costs of sampling, and training steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

import fcfg
import recorded_steps
import sampling_cost
import speed_tables
import training_speed
from evaluations import tiny_model
from fcfg.bench import BenchModel, Measurement, read_record
from fcfg.bench.bench_model import randomise_zero_layers
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.training.objectives import DenoisingObjective
from refusal import refused

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> BenchModel:
    pipeline = tiny_model(saved=True)
    torch.manual_seed(1)
    randomise_zero_layers(pipeline.denoiser.network)
    return BenchModel("tiny", pipeline, CPU)


@pytest.fixture(scope="module")
def folder(model: BenchModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    fcfg.save(model.pipeline, folder)
    return str(folder)


# Costs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_an_exponent_is_found_again(power: float) -> None:
    values = [1, 2, 3, 5, 8]
    fitted = sampling_cost.fit_exponent(values, [0.3 * value**power for value in values])
    assert fitted.value == pytest.approx(power, abs=1e-9)
    assert fitted.error == pytest.approx(0, abs=1e-9)


def test_an_exponent_and_its_error_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    values = np.repeat([1.0, 2.0, 4.0, 8.0], 3)
    seconds = values**1.3 * np.exp(0.1 * rng.standard_normal(len(values)))
    known = scipy.stats.linregress(np.log(values), np.log(seconds))
    fitted = sampling_cost.fit_exponent(values.tolist(), seconds.tolist())
    assert fitted.value == pytest.approx(known.slope)
    assert fitted.error == pytest.approx(known.stderr)
    assert abs(fitted.value - 1.3) < 3 * fitted.error


@pytest.mark.parametrize(
    ("values", "seconds"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([2, 2, 2], [1, 2, 3])]
)
def test_too_little_for_an_exponent_is_refused(values: list[int], seconds: list[int]) -> None:
    with refused("exponent", "three pairs or more"):
        sampling_cost.fit_exponent(values, seconds)


def test_exponents_take_every_repetition_and_say_where_they_cannot() -> None:
    def points(axis: str, values: list[float]) -> list[tuple[Measurement, tuple[float, ...]]]:
        return [(Measurement("cost", axis, value=value), (value, 1.1 * value)) for value in values]

    rows = {
        r.name: r
        for r in sampling_cost.exponents(points("images", [1, 2, 4]) + points("steps", [1]))
    }
    assert tuple(rows) == sampling_cost.AXES
    assert rows["images"].exponent == pytest.approx(1)
    assert (rows["images"].exponent_error or 0) > 0
    assert rows["steps"].note == rows["groups"].note == "fewer than three values"
    assert rows["steps"].exponent is None


def test_a_sweep_changes_one_thing_at_a_time(model: BenchModel) -> None:
    found = sampling_cost.points(model, images=2, steps=1)
    values = {axis: [p.axes[axis] for p in found if axis in p.axes] for axis in sampling_cost.AXES}
    assert values == {
        "images": [2, 4, 8],
        "groups": [1, 2, 3],
        "rows": [3, 4, 5],
        "steps": [1, 2, 4],
        "pixels": [16, 64, 256],
    }
    for point in found:
        asked = point.workload
        shape = (len(asked.images), len(asked.groups), asked.steps, asked.images.shape[-1])
        usual = (2, 2, 1, 8)
        different = sum(a != b for a, b in zip(shape, usual, strict=True))
        assert different <= 1
        assert point.batch_size == 2 * (len(asked.groups) + 1)
        images, groups, steps, size = shape
        stated = {"images": images, "groups": groups, "rows": groups + 2}
        stated |= {"steps": steps, "pixels": size * size}
        assert all(stated[axis] == value for axis, value in point.axes.items())


def test_sizes_are_those_that_the_network_takes(model: BenchModel) -> None:
    denoiser = fcfg.Denoiser(
        UNet(UNetConfig(size=4, base=64, multipliers=(1, 1, 1), attention=(), condition=12)),
        model.pipeline.denoiser.embedder,
        model.pipeline.denoiser.schedule,
    )
    deep = BenchModel("deep", fcfg.CounterfactualPipeline(denoiser, model.pipeline.scm), CPU)
    assert sampling_cost.sizes(deep) == (4, 8, 12)


# Training ---------------------------------------------------------------------------------------


def test_training_has_a_row_for_each_feed(
    model: BenchModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused: list[bool] = []
    monkeypatch.setattr(
        DenoisingObjective, "fuse", lambda self, cuda_graphs: fused.append(cuda_graphs)
    )
    pace = training_speed.Pace(batch=4, warmup=0, windows=1, length=1)
    benchmark_flag = torch.backends.cudnn.benchmark
    rows = training_speed.training(model, pace, compiled=True)
    assert [row.name for row in rows] == [training_speed.REFERENCE, *training_speed.FEEDS]
    assert fused == [False]
    assert torch.backends.cudnn.benchmark == benchmark_flag
    # Forward and backward: three times the forward pass, less what no gradient is wanted for.
    forward = 4 * model.workload(1, 1).row_flops
    assert all(2.5 * forward < (row.flops or 0) < 3.2 * forward for row in rows)


def test_a_training_step_changes_the_weights(
    model: BenchModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, made = training_speed.TrainingBatch.of(model, 2), list[fcfg.Denoiser]()
    new = training_speed.TrainingBatch.denoiser
    keep = lambda self, **how: (made.append(new(self, **how)), made[-1])[1]  # noqa: E731
    monkeypatch.setattr(training_speed.TrainingBatch, "denoiser", keep)
    with training_speed.ours(batch, tmp_path, compiled=False) as steps:
        assert len(steps) == 3
        for take in steps.values():
            before = made[0].network.get_parameter("head.2.weight").clone()
            take()
            assert not torch.equal(made[0].network.get_parameter("head.2.weight"), before)


# Commands ---------------------------------------------------------------------------------------


def test_the_cost_of_sampling_is_written_and_shown(folder: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "bench-mine.csv"
    words = [folder, "--quick", "--device", "cpu", "--commit", "c0ffee", "--out", str(out)]
    sampling_cost.main(words)
    record = read_record(out)
    assert [row.name for row in record.of("exponent")] == list(sampling_cost.AXES)
    assert len(record.of("cost")) == 3 * len(sampling_cost.AXES)
    assert all(row.share_of_chip for row in record.of("cost"))
    assert record.facts["command"].startswith("python tools/sampling_cost.py tiny --quick")
    table = sampling_cost.cost_table(record)
    assert [row[0] for row in table.rows] == list(sampling_cost.AXES)
    assert all(cells[1] in capsys.readouterr().out for cells in table.rows[:1])
    page = speed_tables.bench("mine", tmp_path)
    assert "*Cost: time grows as a power of*" in page
    assert "commit c0ffee." in page


def test_training_steps_are_written_and_shown(folder: str, tmp_path: Path, capsys) -> None:
    out, file = tmp_path / "bench-mine.csv", tmp_path / "training.json"
    words = [folder, "--quick", "--device", "cpu", "--out", str(out), "--json", str(file)]
    training_speed.main(words)
    names = [training_speed.REFERENCE, *training_speed.FEEDS]
    record, result = read_record(out), json.loads(file.read_text())
    assert [row.name for row in record.of("training")] == list(result["rows"]) == names
    assert record.rows[0].ratio == result["rows"][names[0]]["ratio"] == 1
    assert result["data_wait"].keys() == {"on device", "streamed"}
    page = speed_tables.bench("mine", tmp_path)
    shown = capsys.readouterr().out
    assert "Training: batches of 4, " in page
    assert all(f"| {name} | float32 |" in text for name in names for text in (page, shown))


def test_recorded_steps_are_measured_and_shown(folder: str, tmp_path: Path) -> None:
    out = tmp_path / "recorded-steps-mine.json"
    words = ["--model", folder, "--images", "1", "--repeats", "1", "--precision", "float32"]
    recorded_steps.main([*words, "--out", str(out)])
    result = json.loads(out.read_text())
    assert result["command"].startswith("python tools/recorded_steps.py --model tiny")
    assert result["rows"][0]["difference"] == 0  # a CPU has no graphs
    assert "| 1 | float32 |" in speed_tables.recorded_steps("mine", tmp_path)
