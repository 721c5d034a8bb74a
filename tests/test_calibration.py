"""Weights are chosen so that counterfactuals read like real images."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import energy_distance as reference
from torch import Tensor

import fcfg
from evaluations import SIZE, folder_model, tiny_model
from fcfg.calibration import choose_images
from fcfg.calibration.choice import RealImages
from fcfg.calibration.criterion import (
    Shifts,
    Side,
    choose_weights,
    criterion,
    energy_distance,
)
from fcfg.calibration.measurements import Cell
from fcfg.causal.attributes import Categorical, Continuous
from fcfg.cli import main
from fcfg.cli.calibrate import print_calibration
from fcfg.datasets.portraits.data import VALIDATION_SEED
from fcfg.diffusion.networks import Judge, JudgeConfig
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge, judged
from fcfg.metrics import Bootstrap
from fcfg.pipeline.calibration import AttributeWeight, Calibration, Direction
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from fcfg.sampling import PRESETS
from fcfg.support.hashing import digest_of
from refusal import refused
from worlds import SHAPE, MixtureNetwork, binary_space, pipeline_of, roots

SPREAD = 0.1
REAL = torch.tensor([0.3, 0.2], dtype=torch.float64)  # half the distance of the two values
RIGHT = {"smiling": 1.5, "male": 2.0}  # how much too small the network thinks that distance is

CONTRAST = Guidance.parse("contrast:1;anchor=true")


class HalvesJudge(Judge):
    """Reads the mean of the upper half of an image as smiling, that of the lower as male."""

    def __init__(self) -> None:
        super().__init__(JudgeConfig(channels=1, outputs=2, width=4))
        self.head = torch.nn.Linear(2, 2, bias=False).double()
        self.head.weight.data = 20 * torch.eye(2, dtype=torch.float64)
        self.double()

    def features(self, images: Tensor) -> Tensor:
        return images.unflatten(2, (2, -1)).mean(dim=(1, 3, 4))


def halves(size: Tensor) -> Tensor:
    """Means of the images with each combination of two values, one in each half."""
    signs = torch.tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=torch.float64)
    return (signs * size)[:, None, :, None].repeat_interleave(2, 2).expand(4, *SHAPE)


def shrunk() -> CounterfactualPipeline:
    """A world of two Gaussian halves, with a network that underestimates what attributes do.

    Contrast of weight w moves an image by w times the network's distance of the values, so that
    the right weight is the ratio of the real distance and the network's.
    """
    schedule = NoiseSchedule()
    ratios = torch.tensor(list(RIGHT.values()), dtype=torch.float64)
    prior = torch.full((4,), 0.25, dtype=torch.float64)
    network = MixtureNetwork(halves(REAL / ratios), prior, SPREAD, schedule)
    pipeline = pipeline_of(network, schedule, 2)
    pipeline.judge = AttributeJudge(HalvesJudge(), pipeline.space)
    return pipeline


def real_images(n: int, seed: int = 0) -> tuple[Tensor, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    values = np.stack([np.arange(n) % 2, np.arange(n) // 2 % 2], axis=1)
    noise = SPREAD * torch.from_numpy(rng.standard_normal((n, *SHAPE)))
    images = halves(REAL)[values @ [2, 1]] + noise
    return images, {"smiling": values[:, 0], "male": values[:, 1]}


def chosen(pipeline: CounterfactualPipeline, **options: Any) -> Calibration:
    images, attributes = real_images(options.pop("images", 80))
    values = {"sampling": "dpm-2m karras 12", "count": 40, "guidance": CONTRAST} | options
    return fcfg.calibrate(pipeline, images, attributes, **values)


@pytest.fixture(scope="module")
def found() -> Calibration:
    return chosen(shrunk())


# The default of a pipeline ----------------------------------------------------------------------


def test_calibrated_weights_are_the_default_of_the_pipeline(found) -> None:
    pipeline = shrunk()
    before = pipeline.plan(["smiling"]).setting
    assert chosen(pipeline) == pipeline.calibration == found
    assert pipeline.plan(["smiling"]).setting == found.guidance(["smiling"]) != before


# The right weight -------------------------------------------------------------------------------


def test_the_weight_is_the_one_that_makes_up_for_what_the_network_underestimates(found) -> None:
    assert found.guidance(["smiling"]).name == "contrast"
    for name, right in RIGHT.items():
        own = found.attributes[name]
        assert own.low <= right <= own.high
        assert own.weight == pytest.approx(right, abs=0.1)
        assert own.high - own.low < 0.3
        assert own.off_target < 0.01  # the other half stays as it is
        assert not own.directions_differ
        assert list(own.directions) == ["to 0", "to 1"]
        for side in own.directions.values():
            assert side.images == 20
            assert side.low <= right <= side.high
            assert side.read == pytest.approx(side.real, abs=0.4)
        assert [weight for weight, _, _ in own.curve] == [0.5, 1.0, 1.5, 2.0, 3.0]
        assert own.truth == {}


def test_every_rule_with_a_weight_for_the_target_finds_the_same(found) -> None:
    """Without anchor as well; contrast over groups is contrast here, where they do not mix."""
    for text in ("fcontrast:affected=2,invariant=1;anchor=true", "fcontrast:smiling=1,male=1"):
        other = chosen(shrunk(), guidance=Guidance.parse(text))
        for name, own in found.attributes.items():
            assert other.attributes[name].weight == pytest.approx(own.weight, abs=0.1)
    assert other.rule == "fcontrast:smiling=1.0,male=1.0"
    smiling, male = (other.attributes[name].weight for name in RIGHT)
    assert dict(other.guidance(["male", "smiling"]).weights) == {"smiling": smiling, "male": male}
    assert dict(other.guidance(["male"]).weights) == {"smiling": 1.0, "male": male}


def test_more_images_make_shorter_intervals(found) -> None:
    more = chosen(shrunk(), images=300, count=150)
    for name, own in found.attributes.items():
        assert more.attributes[name].high - more.attributes[name].low < own.high - own.low
        assert more.attributes[name].weight == pytest.approx(RIGHT[name], abs=0.05)


def test_the_truth_chooses_the_weight_too_where_it_is_known() -> None:
    images, attributes = real_images(80)
    values = np.stack(list(attributes.values()), axis=1)

    def truth(do: dict[str, np.ndarray]) -> Tensor:
        set_to = np.stack([do.get(name, attributes[name][:40]) for name in attributes], axis=1)
        means = halves(REAL)
        return images[:40] - means[values[:40] @ [2, 1]] + means[set_to @ [2, 1]]

    weights = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25)
    found = chosen(shrunk(), truth=lambda do: truth(do).clamp(-1, 1), weights=weights)
    for name, right in RIGHT.items():
        assert list(found.attributes[name].truth) == ["reading", "mae", "change"]
        for weight in found.attributes[name].truth.values():
            assert weight == pytest.approx(right, abs=0.1)


# The ends of the search -------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [(0.5, 1.0), (3.5, 5.0)])
def test_the_search_goes_on_beyond_its_ends_and_a_resumed_one_measures_nothing_twice(
    weights: tuple[float, ...], tmp_path: Path
) -> None:
    pipeline, shares = shrunk(), list[float]()
    network, options = pipeline.denoiser.network, {"weights": weights, "cache": tmp_path}
    found = chosen(pipeline, **options, on_progress=shares.append)
    assert found.doubts == []
    for name, right in RIGHT.items():
        own = found.attributes[name]
        measured = [weight for weight, *_ in own.curve]
        assert set(weights) < set(measured)
        assert measured == sorted(measured)
        assert min(measured) < right < max(measured)
        assert own.weight == pytest.approx(right, abs=0.3)  # between few weights
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    spent = network.rows

    def stop(share: float) -> None:
        if share > 0.86:  # beyond the end
            raise KeyboardInterrupt

    options["cache"] = tmp_path / "again"
    with pytest.raises(KeyboardInterrupt):
        chosen(pipeline, **options, on_progress=stop)
    assert chosen(pipeline, **options) == found
    assert network.rows - spent < 1.3 * spent
    before = network.rows
    assert chosen(pipeline, **options) == found
    assert network.rows == before


def test_a_search_that_stays_at_an_end_is_bounded_and_in_doubt() -> None:
    pipeline = shrunk()
    with pytest.warns(
        UserWarning, match=r"do\(male\): the best .* beyond 0\.0338, the last one measured"
    ):
        found = chosen(pipeline, weights=(0.005, 0.01))
    for own in found.attributes.values():
        assert [weight for weight, *_ in own.curve] == [0.005, 0.01, 0.015, 0.0225, 0.03375]


def test_weights_that_the_rule_does_not_have_end_the_search() -> None:
    rule = Guidance.parse("cfg++:0;raw=true")
    found = chosen(shrunk(), weights=(0.5, 1.0), guidance=rule, accept=True)  # at most 1
    for name, own in found.attributes.items():
        assert [weight for weight, *_ in own.curve] == [0.5, 1.0]
        assert f"do({name}): the best weight may lie beyond 1, " in " ".join(found.doubts)


@pytest.mark.parametrize(
    ("options", "doubt"),
    [
        ({"weights": (0.005, 0.01)}, "the last one measured"),
        ({"images": 20, "count": 14}, "fewer than 8 images in each direction"),
    ],
)
def test_a_pipeline_keeps_its_default_where_a_calibration_is_in_doubt(
    options: dict[str, Any], doubt: str
) -> None:
    pipeline, options = shrunk(), {"sampling": "ddim uniform 2", "guidance": CONTRAST} | options
    images, attributes = real_images(options.pop("images", 40))
    before = pipeline.calibration = record(pipeline, smiling=1.25, male=1.25)
    with pytest.warns(UserWarning, match=doubt):
        found = fcfg.calibrate(pipeline, images, attributes, **options)
    assert pipeline.calibration is before
    assert fcfg.calibrate(pipeline, images, attributes, **options, accept=True) == found
    assert pipeline.calibration == found


# Interruptions ----------------------------------------------------------------------------------


def test_batches_do_not_matter_and_a_resumed_calibration_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, options = shrunk(), {"sampling": "dpm-2m karras 4", "count": 24}
    network = pipeline.denoiser.network
    whole, spent = chosen(pipeline, **options), network.rows

    def stop(share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    monkeypatch.setattr("fcfg.calibration.measurements._BLOCK", 10)
    options["cache"] = tmp_path
    with pytest.raises(KeyboardInterrupt):
        chosen(pipeline, **options, on_progress=stop)
    begun = list(tmp_path.rglob("*.safetensors"))
    assert 0 < len(begun) < 30
    begun[0].write_bytes(begun[0].read_bytes()[:-9])  # a disk that was full
    shares: list[float] = []
    again = chosen(pipeline, **options, batch_size=7, on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert network.rows < 2.6 * spent
    for name, own in whole.attributes.items():
        other = again.attributes[name]
        assert (own.weight, own.low, own.high) == (other.weight, other.low, other.high)
        np.testing.assert_allclose(own.curve, other.curve, atol=1e-9)
    before = network.rows
    assert chosen(pipeline, **options) == again
    assert network.rows == before  # nothing was left to measure
    chosen(pipeline, **options, weights=(1.0, 1.5, 2.5))
    assert 0 < network.rows - before < spent / 2  # only the new weight


@pytest.mark.parametrize(
    ("options", "subject"),
    [
        ({"weights": (1.0,)}, "weights"),
        ({"weights": (2.0, 1.0)}, "weights"),
        ({"weights": (-1.0, 1.0)}, "guidance contrast, weight"),
        ({"guidance": Guidance.none()}, "guidance none"),
        ({"guidance": Guidance.fcfg(a=1, b=1)}, "guidance fcfg:a=1.0,b=1.0"),
        ({"guidance": Guidance.cfg(lambda share: 1 + share)}, "guidance 'cfg:<"),
        ({"guidance": "cfg:1"}, "guidance"),
        ({"sampling": "paper"}, "sampling"),
        ({"count": 9}, "count"),
        ({"judge": None}, "model"),
    ],
)
def test_no_network_is_asked_for_what_is_wrong(options: dict[str, Any], subject: str) -> None:
    pipeline = shrunk()
    images, attributes = real_images(8)
    if "judge" in options:
        pipeline.judge = options.pop("judge")
    with refused(subject):
        fcfg.calibrate(pipeline, images, attributes, **options)
    assert pipeline.denoiser.network.rows == 0


def test_attributes_that_do_not_vary_are_left_out() -> None:
    pipeline = shrunk()
    images, attributes = real_images(8)
    attributes["male"] = np.zeros(8, dtype=np.int64)
    found = fcfg.calibrate(pipeline, images, attributes, sampling="ddim uniform 2", accept=True)
    assert list(found.attributes) == ["smiling"]
    assert found.attributes["smiling"].directions == {}  # of four images, which are too few
    assert found.guidance(["male"]) == found.guidance(["smiling"])
    attributes["smiling"] = attributes["male"]
    with refused("images", "each of two values", "more images"):
        fcfg.calibrate(pipeline, images, attributes)


def test_numbers_that_overflow_are_refused() -> None:
    pipeline = shrunk()
    pipeline.denoiser.network.means = pipeline.denoiser.network.means * torch.nan
    with refused("model", "finite numbers"):
        chosen(pipeline)


# The criterion ----------------------------------------------------------------------------------


def test_the_distance_is_the_energy_distance_and_counts_are_repetitions() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(12), 1 + 2 * rng.standard_normal(9)
    counts = Bootstrap(12, resamples=3).counts
    others = Bootstrap(9, resamples=3).counts
    found = energy_distance(x, y, counts, others)
    for row in range(3):
        repeated = np.repeat(x, counts[row].astype(int)), np.repeat(y, others[row].astype(int))
        assert found[row] == pytest.approx(reference(*repeated) ** 2)  # scipy takes the root
    none = energy_distance(x, y, np.zeros((1, 12)), np.ones((1, 9)))
    assert np.isfinite(none).all()


def sides(slopes: Iterable[float], off_target: float = 0.0, n: int = 100) -> list[Side]:
    """Directions in which a weight w moves readings of mean 0 to slope·w; real ones are at 1."""
    weights, noise = np.array([0.5, 1.0, 2.0, 3.0]), np.random.default_rng(0).normal(size=(2, n))
    noise -= noise.mean(axis=1, keepdims=True)
    return [
        Side(
            weights,
            np.arange(i * n, (i + 1) * n),
            slope * weights[:, None] + noise[i],
            (Shifts(np.arange(i * n, (i + 1) * n), off_target * weights[:, None] + noise[i]),),
            np.arange((1 - i) * n, (2 - i) * n),
            1 + noise[i],
            1.0,
        )
        for i, slope in enumerate(slopes)
    ]


def test_a_shift_of_other_attributes_costs_a_quarter_of_the_same_shift_of_the_target() -> None:
    counts = Bootstrap(200, resamples=50).counts
    free, each = choose_weights(sides([0.5, 0.5]), counts)
    assert [own.overlaps(free) for own in each] == [True, True]
    assert free.weight == pytest.approx(2.0, abs=0.05)
    # The minimum of (0.5 w - 1)² + w² / 4, both over √π, is at 1.
    costly, _ = choose_weights(sides([0.5, 0.5], 1.0), counts)
    assert costly.weight == pytest.approx(1.0, abs=0.1)
    shifted = criterion([s.terms(np.ones(1), np.ones((1, 200))) for s in sides([0.5, 0.5])])
    assert shifted[0, 0] == pytest.approx(0.5**2 / np.sqrt(np.pi), rel=0.2)


def test_noise_of_single_images_costs_nothing_and_shifts_do_not_cancel_over_values() -> None:
    n, rng = 400, np.random.default_rng(0)
    table = {"smiling": np.arange(n) % 2, "male": np.arange(n) // 2 % 2}
    noise = rng.normal(size=(n, 2))
    real, older = (
        choice(binary_space(2), table, 3 + noise),
        np.where(table["male"] == 1, -0.3, 0.3),
    )

    def shift(others: np.ndarray) -> float:
        read = 3 + noise + np.stack([np.zeros(n), others], axis=1)
        cells = {weight: Cell(read, np.full((n, 3), np.nan)) for weight in (1.0, 2.0)}
        return real.weight("smiling", 1 - table["smiling"], cells, None).off_target

    assert shift(rng.normal(size=n)) < 0.08  # each image changes by 0.8 on average
    assert shift(older) == pytest.approx(0.3, abs=0.02)
    assert shift(np.full(n, -0.2)) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_a_shift_that_images_share_costs_its_square_however_few_they_are(n: int) -> None:
    weights, at = np.array([1.0, 2.0]), np.array([1.0, 1.7])
    common, mixed = np.full((2, n), 0.7), np.ones((2, n))
    mixed[:, ::2] = -1
    found = Shifts(np.arange(n), common).mean_square(weights, at, np.ones((1, n)))
    assert found == pytest.approx(np.full((2, 1), 0.49))
    # The mean over pairs of images, written out.
    pairs = [mixed[0, i] * mixed[0, j] for i in range(n) for j in range(n) if i != j]
    found = Shifts(np.arange(n), mixed).mean_square(weights, at, np.ones((1, n)))
    assert found == pytest.approx(np.full((2, 1), np.mean(pairs)))


def test_a_shift_is_in_standard_deviations_of_images_with_the_same_value() -> None:
    """A judge may be surer of one value than of the other."""
    n, rng = 400, np.random.default_rng(0)
    table = {"smiling": np.arange(n) % 2, "male": np.arange(n) // 2 % 2}
    reading = 3 + rng.normal(size=(n, 2)) + 6 * np.stack([np.zeros(n), table["male"]], axis=1)
    cell = Cell(reading - np.array([0.0, 0.2]), np.full((n, 3), np.nan))
    real = choice(binary_space(2), table, reading)
    found = real.weight("smiling", 1 - table["smiling"], {1.0: cell, 2.0: cell}, None)
    assert found.off_target == pytest.approx(0.2, abs=0.02)


def choice(
    space: fcfg.AttributeSpace, table: dict[str, np.ndarray], reading: np.ndarray
) -> RealImages:
    counts = Bootstrap(len(reading), resamples=100).counts
    return RealImages(space, roots(space), table, reading, counts)


def test_directions_that_need_other_weights_are_told_apart() -> None:
    n, rng = 120, np.random.default_rng(0)
    own, noise = np.arange(n) % 2, rng.normal(size=n)
    table, space = {"smiling": own}, binary_space(1)
    real = choice(space, table, (3 + noise)[:, None])
    slope = np.where(own == 1, 1.5, 3.0)  # down to 0 is half as fast as up to 1
    cells = {
        weight: Cell((slope * weight + noise)[:, None], np.full((n, 3), np.nan))
        for weight in (0.5, 1.0, 1.5, 2.0, 3.0)
    }
    found = real.weight("smiling", 1 - own, cells, None)
    assert found.directions_differ
    assert found.directions["to 0"].weight == pytest.approx(2.0, abs=0.15)
    assert found.directions["to 1"].weight == pytest.approx(1.0, abs=0.15)
    assert 1.0 < found.weight < 2.0
    assert found.off_target == 0.0  # there are no other attributes


def test_real_images_of_a_level_or_near_a_value_are_compared_with() -> None:
    space = fcfg.AttributeSpace([Continuous("age", 0, 100), Categorical("hair", ["dark", "red"])])
    table = {"age": np.arange(100.0), "hair": np.arange(100) % 2}
    real = choice(space, table, np.zeros((100, 2)))
    ages = real.directions("age", np.array([10.0] * 3 + [89.0] * 2 + [50.0]))
    assert list(ages) == ["to 10", "to 89"]  # one image says nothing of 50
    rows, near = ages["to 89"]
    assert rows.tolist() == [3, 4]
    assert near.tolist() == list(range(79, 99))  # the nearest fifth, where 79 and 99 tie
    hair = real.directions("hair", np.array([1, 1, 0, 0]))
    assert list(hair) == ["to dark", "to red"]
    assert (table["hair"][hair["to red"][1]] == 1).all()
    levels = judged(space["hair"], np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([0, 1]))
    np.testing.assert_allclose(levels, [0, np.log(9)])
    np.testing.assert_array_equal(
        judged(space["age"], np.array([12.0, 7.0]), np.array([10.0, 10.0])), [2, -3]
    )


# The default of a model -------------------------------------------------------------------------


CURVE = ((0.5, 1.0, 0.0), (3.0, 1.0, 0.0))


def record(pipeline: CounterfactualPipeline, **weights: float) -> Calibration:
    """A calibration of a model."""
    attributes = {
        name: AttributeWeight(weight=w, low=w, high=w, directions={}, off_target=0.0, curve=CURVE)
        for name, w in weights.items()
    }
    return Calibration(
        model=digest_of(pipeline.denoiser, half=True),
        rule="contrast:1;anchor=true",
        sampling="ddim uniform 2",
        images=2,
        references=2,
        seed=0,
        data={},
        attributes=attributes,
    )


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_a_saved_model_has_its_calibration_and_uses_it(storage: str, tmp_path: Path) -> None:
    pipeline = tiny_model(saved=True)
    assert pipeline.plan(["smiling"]).setting == DEFAULT_GUIDANCE
    pipeline.calibration = record(pipeline, smiling=1.25, male=2.0)
    fcfg.save(pipeline, tmp_path, storage)
    again = fcfg.load(tmp_path)
    assert again.calibration == pipeline.calibration
    assert Calibration.read(tmp_path / "calibration.json") == pipeline.calibration
    chosen = {
        targets: repr(again.plan(targets.split()).setting)
        for targets in ("smiling", "male", "smiling male", "young", "")
    }
    assert chosen == {
        "smiling": "contrast:1.25;anchor=true",
        "male": "contrast:2.0;anchor=true",
        "smiling male": "contrast:1.625;anchor=true",
        "young": "contrast:1.625;anchor=true",
        "": "contrast:1.625;anchor=true",
    }
    assert repr(again.plan(["male"], anchor=False).setting) == "contrast:2.0"
    assert again.plan(["male"], Guidance.cfg(3.0)).setting == Guidance.cfg(3.0)
    assert again.plan(["male"], sampling="paper").setting.name == "fcfg"
    assert str(again.plan(["male"]).sampling) == "ddim uniform 2"
    assert again.plan(["male"], anchor=False).sampling == PRESETS["default"]
    drawn = fcfg.datasets.portraits.sample(2, size=SIZE)
    pair = again.counterfactual(drawn.images, drawn.attributes, {"male": 1})
    assert len(pair.abduction.times) == 3
    assert pair.guidance == Guidance.contrast(2.0).replace(anchor=True)
    fcfg.save(tiny_model(saved=True), tmp_path)  # another pipeline replaces all of it
    assert fcfg.load(tmp_path).calibration is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "'format'"),
        ({"rule": "none"}, "a rule with one weight"),
        ({"rule": "cfg"}, "cfg"),
        ({"rule": "cfg++:0.5"}, "a λ from 0 to 1, got float 1.25"),
        ({"attributes": {}}, "'attributes'"),
        ({"attributes": {"smiling": {"weight": 1}}}, "'attributes.smiling.low'"),
        ({"more": 1}, "'more'"),
        ("{", "JSON"),
    ],
)
def test_a_broken_calibration_is_one_line(change: Any, complaint: str, tmp_path: Path) -> None:
    pipeline = tiny_model(saved=True)
    pipeline.calibration = record(pipeline, smiling=1.25)
    fcfg.save(pipeline, tmp_path)
    file = tmp_path / "calibration.json"
    values = change if isinstance(change, str) else json.loads(file.read_text()) | change
    file.write_text(values if isinstance(values, str) else json.dumps(values))
    with refused(f"calibration {file}", complaint):
        fcfg.load(tmp_path)


def test_a_calibration_of_other_weights_is_ignored_and_one_of_other_attributes_refused(
    tmp_path: Path,
) -> None:
    pipeline = tiny_model(saved=True)
    pipeline.calibration = record(pipeline, smiling=1.25)
    pipeline.denoiser.network.head[-1].bias.data += 1
    fcfg.save(pipeline, tmp_path)
    with pytest.warns(UserWarning, match=r"other weights .* run 'fcfg calibrate' again"):
        assert fcfg.load(tmp_path).calibration is None
    pipeline.calibration = record(pipeline, age=1.25)
    with refused("calibration of the model", "'age'"):
        fcfg.save(pipeline, tmp_path)
    pipeline.calibration.save(tmp_path)
    with refused(f"calibration {tmp_path}", "'age'"):
        fcfg.load(tmp_path)


# The images -------------------------------------------------------------------------------------


def test_drawings_are_those_of_validation_and_balanced() -> None:
    pipeline = tiny_model()
    chosen = choose_images(pipeline, 20)
    assert chosen.count == 16
    assert chosen.data["balanced"] == ["smiling", "male", "young"]
    first = np.stack([chosen.attributes[n][:16] for n in pipeline.space.names], axis=1)
    assert sorted(map(tuple, first)) == [t for t in np.ndindex(2, 2, 2) for _ in range(2)]
    known = fcfg.datasets.portraits.sample(2000, VALIDATION_SEED, SIZE)
    distances = (known.images[:, None] - chosen.images[None, :4]).abs().amax(dim=(2, 3, 4))
    assert (distances.amin(dim=0) < 0.01).all()  # rounded to bytes
    assert chosen.truth is not None
    same = chosen.truth({"male": chosen.attributes["male"][:16]})
    assert (same - chosen.images[:16]).abs().max() < 0.01
    more = choose_images(pipeline, 160)
    names = {image.numpy().tobytes() for image in more.images[: more.count]}
    assert names > {image.numpy().tobytes() for image in chosen.images[:16]}
    other = choose_images(pipeline, 20, seed=1)
    assert not torch.equal(other.images[:16], chosen.images[:16])
    with refused("images", "from 2"):
        choose_images(pipeline, 1)


def test_images_of_a_folder_are_those_of_validation(tmp_path: Path) -> None:
    pipeline = folder_model(tmp_path / "faces", 40)
    table = tmp_path / "faces" / "metadata.csv"
    table.write_text(table.read_text().replace(",test,", ",val,"))
    assert choose_images(pipeline, 20).data["balanced"] == ["smiling", "male", "young"]
    chosen = choose_images(pipeline, 40)
    assert (chosen.count, len(chosen.images)) == (40, 41)  # a combination is too rare for these
    assert chosen.data == {"format": "folder", "split": "val", "of": 41, "balanced": []}
    assert chosen.truth is None
    with refused("data 'folder' of the model", "--data DIR"):
        choose_images(pipeline, 40, data=tmp_path / "nowhere")


def test_all_kinds_of_attributes_are_calibrated() -> None:
    pipeline = tiny_model("portraits-causal")
    chosen = choose_images(pipeline, 40)
    found = fcfg.calibrate(
        pipeline,
        chosen.images,
        chosen.attributes,
        count=chosen.count,
        sampling="ddim uniform 2",
        weights=(1.0, 2.0),
        accept=True,
        truth=chosen.truth,
        data=chosen.data,
    )
    assert list(found.attributes) == list(pipeline.space.names)
    assert len(found.attributes["age"].directions) == 2
    assert set(found.attributes["hair"].directions) <= {
        f"to {level}" for level in ("dark", "fair", "red", "grey")
    }
    assert all(own.truth for own in found.attributes.values())


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    fcfg.save(tiny_model(saved=True), "tiny")
    return "tiny"


WORDS = ["--sampling", "ddim uniform 2", "--images", "16", "--device", "cpu"]


def test_a_calibrated_model_uses_its_weights(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", model, *WORDS, "--weights", "1,2", "--accept"]) == 0
    out = capsys.readouterr().out
    rule = "contrast:1.7;anchor=true;drawn_noise=true"
    assert out.startswith(f"16 images, {rule}, ddim uniform 2, on cpu\n")
    for name in ("smiling", "male", "young"):
        assert f"do({name})" in out
    assert "to 1" in out
    assert "do(male): the truth would choose " in out
    assert "the best weight may lie beyond " in out  # the model is not trained
    assert out.endswith("and thresholds of trust beside it; the model uses it from now on.\n")
    found = fcfg.load(model).calibration
    assert found is not None
    assert (found.images, found.rule) == (16, rule.replace("1.7", "1.0"))
    assert main(["calibrate", model, *WORDS, "--weights", "1,2", "--accept"]) == 0
    assert fcfg.load(model).calibration == found
    assert main(["calibrate", model, *WORDS, "--weights", "1,2", "--out", "elsewhere"]) == 0
    assert capsys.readouterr().out.endswith("beside it; the model is as before.\n")
    assert Calibration.read("elsewhere") == found
    assert main(["calibrate", model, *WORDS, "--weights", "1,3", "--accept"]) == 0
    again = fcfg.load(model).calibration
    assert again is not None
    assert again != found


def test_the_command_keeps_the_default_where_a_calibration_is_in_doubt(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fcfg.load(model)
    before.calibration = record(before, smiling=1.25, male=2.0)
    fcfg.save(before, model)
    words = ["calibrate", model, *WORDS[:2], "--images", "8", "--weights", "1,2"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "fewer than 8 images in each direction.\n" in out
    kept = " and ".join(f"contrast:{weight};anchor=true" for weight in (1.25, 2.0, 1.625))
    assert f"The model keeps its default, {kept}, with thresholds of trust.\n" in out
    assert out.endswith("add --accept; what is measured is kept in runs/calibrations.\n")
    after = fcfg.load(model)
    assert after.calibration == before.calibration
    method = before.plan(["smiling"])
    assert after.thresholds.knows_way_back(method.setting, method.sampling)
    assert main([*words, "--accept"]) == 0
    assert "the model uses it from now on" in capsys.readouterr().out
    assert fcfg.load(model).calibration.images == 8


def test_a_calibration_of_others_is_kept(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["calibrate", model, *WORDS, "--weights", "1,2", "--out", "out"]
    assert main(words) == 0
    assert main(words) == 0  # replaces its own
    other = tiny_model(saved=True)
    next(other.denoiser.parameters()).data += 1
    fcfg.save(other, "other")
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    capsys.readouterr()
    for refused_words in (
        ["calibrate", "other", *words[2:]],
        *([*words, *more] for more in (["--weights", "1,3"], ["--images", "8"], ["--seed", "1"])),
        *([*words, "--guidance", rule] for rule in ("cfg:1", "contrast:1;anchor=true")),
        [*words, "--sampling", "ddim uniform 3"],
    ):
        assert main(refused_words) == 2
        line = capsys.readouterr().err
        assert "got 'calibration.json', 'trust.json'; choose another folder, or replace" in line
        assert {path: path.read_bytes() for path in Path("out").iterdir()} == before
    assert main([*words, "--seed", "1", "--overwrite"]) == 0
    assert Calibration.read("out").seed == 1


def test_the_table_has_no_empty_column_and_remarks_follow_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {"images": 9, "real": (2.5, 1.0), "read": (2.0, 1.0)}
    apart = {
        "to 0": Direction(weight=1.0, low=0.8, high=1.2, **values),
        "to 1": Direction(weight=2.0, low=1.5, high=2.5, **values),
    }
    found = record(tiny_model(), smiling=1.25, male=1.5)
    few, one = found.attributes["male"], found.attributes["smiling"]
    one = one.model_copy(update={"directions": apart})

    def printed(**attributes: AttributeWeight) -> str:
        print_calibration(found.model_copy(update={"attributes": attributes}))
        return capsys.readouterr().out

    bare, both, whole = printed(male=few), printed(smiling=one, male=few), printed(smiling=one)
    assert [text.count("judge on") for text in (bare, both, whole)] == [0, 2, 2]
    assert "do(male): fewer than 8 images in each direction.\n" in both
    assert "fewer than" not in whole
    assert "do(smiling): its directions differ; the weight is a compromise." in whole
    row = next(line for line in whole.splitlines() if "to 1 " in line)
    assert " ".join(row.split()) == "to 1 2 1.5–2.5 2.50 ± 1.00 2.00 ± 1.00"


def test_an_interrupted_command_says_how_to_resume_and_leaves_a_shipped_model_as_it_is(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fcfg.storage.config_file._MODELS", Path.cwd())
    with monkeypatch.context() as patch:
        patch.setattr("fcfg.calibration.measurements.Measurement._measured", stop)
        assert main(["calibrate", model, *WORDS]) == 130
    assert "runs/calibrations, run the same command to resume" in capsys.readouterr().err
    assert main(["calibrate", model, *WORDS, "--weights", "1,2"]) == 0
    assert "runs/calibrate/tiny/calibration.json, and thresholds" in capsys.readouterr().out
    assert fcfg.load(model).calibration is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["no-such-model"], "no-such-model"),
        (["tiny", "--guidance", "cgf:1"], "did you mean"),
        (["tiny", "--guidance", "none"], "a rule with one weight"),
        (["tiny", "--weights", "1,a"], "--weights: expected numbers"),
        (["tiny", "--weights", "2,1"], "ascending"),
        (["tiny", "--batch-size", "no"], "--batch-size"),
        (["tiny", "--images", "1"], "images: expected an integer from 2"),
        (["tiny", "--data", "."], "--data: expected nothing"),
        (["tiny", "--sampling", "papr"], "sampling"),
        (["tiny", "--out", "tiny/config.json"], "out tiny/config.json"),
    ],
)
def test_what_is_wrong_is_one_line(
    model: str, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words if "--out" in words else [*words, "--out", "new"]
    assert main(["calibrate", *given]) == 2
    assert not Path("new").exists()
    line = capsys.readouterr().err
    assert line.startswith("fcfg calibrate: ")
    assert line.count("\n") == 1
    assert complaint in line
