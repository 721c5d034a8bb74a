"""Weights under which answers show an attribute at least as clearly as real images."""

from __future__ import annotations

import numpy as np
import pytest

import fcfg
from evaluations import SIZE, tiny_model
from fcfg.calibration.choice import RealImages
from fcfg.calibration.criterion import Side
from fcfg.calibration.measurements import Cell
from fcfg.calibration.run import RAISING
from fcfg.calibration.separation import Separation
from fcfg.causal.attributes import Categorical
from fcfg.cli import main
from fcfg.cli.calibrate import print_calibration
from fcfg.metrics import Bootstrap, auroc
from fcfg.pipeline.calibration import AttributeWeight, Calibration
from worlds import binary_space, roots

N = 240
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)
OWN = np.arange(N) % 2
NOISE = np.random.default_rng(0).normal(size=(2, N))


def weight(spread: float, *, at_least_real: bool, slope: float = 1.0) -> AttributeWeight:
    """Calibrate answers that read slope·w on average, where real images read 1 ± 1.

    Args:
        spread: Standard deviation of the answers' readings.
        at_least_real: Whether to raise the weight.
        slope: Reading at weight 1.
    """
    counts = Bootstrap(N, resamples=200).counts
    real = RealImages(
        binary_space(1),
        roots(binary_space(1)),
        {"smiling": OWN},
        (1 + NOISE[0])[:, None],
        counts,
    )
    cells = {
        w: Cell((slope * w + spread * NOISE[1])[:, None], np.full((N, 3), np.nan)) for w in WEIGHTS
    }
    return real.weight("smiling", 1 - OWN, cells, None, at_least_real=at_least_real)


def test_answers_are_told_apart_as_well_as_real_images_with_some_certainty() -> None:
    matched, raised = (weight(1.0, at_least_real=yes) for yes in (False, True))
    assert matched.weight == pytest.approx(1.0, abs=0.1)
    assert raised.raised_from == matched.weight
    assert raised.weight > matched.weight
    assert (raised.low, raised.high) == (matched.low, matched.high)
    assert matched.separation is not None
    assert raised.separation is not None
    assert raised.separation[0] == matched.separation[0]
    # The readings of these sides are Gaussian, and so is the difference of the areas: at the
    # raised weight it is about two standard errors of 0.03 above 0, and at most three.
    ahead = raised.separation[1] - raised.separation[0]
    assert 0.03 < ahead < 0.09
    assert raised.weight <= max(side.high for side in raised.directions.values())


def test_answers_that_are_clearer_than_real_images_keep_their_weight() -> None:
    matched, raised = (weight(0.4, at_least_real=yes) for yes in (False, True))
    assert raised == matched
    assert raised.raised_from is None


def test_no_weight_is_above_what_a_direction_may_need() -> None:
    found = weight(6.0, at_least_real=True)  # so noisy that no weight is enough
    assert found.weight == max(side.high for side in found.directions.values())


def test_the_areas_are_those_of_the_metric() -> None:
    both = [
        Side(
            np.array([1.0, 2.0]),
            rows,
            np.stack([reading[rows]] * 2),
            (),
            rows[::-1],
            2 * reading[rows[::-1]],
            0.5,
        )
        for rows, reading in ((np.arange(0, N, 2), NOISE[0]), (np.arange(1, N, 2), 1 + NOISE[1]))
    ]
    bootstrap = Bootstrap(N, resamples=3)
    counts = np.concatenate([np.ones((1, N)), bootstrap.counts])
    found = Separation.of(both, np.array([1.5]), counts)
    log_odds = np.where(OWN == 1, 1 + NOISE[1], -NOISE[0])
    expected = auroc(log_odds, OWN, bootstrap).value
    assert found.answers[0, 0] == found.real[0] == pytest.approx(expected)
    shuffled = Separation.of(both, np.array([1.5]), counts[:, ::-1])
    assert shuffled.real[0] == found.real[0]
    assert not np.array_equal(shuffled.real[1:], found.real[1:])  # resamples count


def test_only_binary_attributes_with_both_directions_are_compared() -> None:
    hair = fcfg.AttributeSpace([Categorical("hair", ["dark", "red"])])
    cells = {w: Cell((w + NOISE[1])[:, None], np.full((N, 3), np.nan)) for w in WEIGHTS}
    reading, counts = (1 + NOISE[0])[:, None], Bootstrap(N, resamples=20).counts
    levels = RealImages(hair, roots(hair), {"hair": OWN}, reading, counts)
    found = levels.weight("hair", 1 - OWN, cells, None, at_least_real=True)
    assert found.separation is found.raised_from is None
    space = binary_space(1)
    one_way = RealImages(space, roots(space), {"smiling": OWN}, reading, counts)
    found = one_way.weight("smiling", np.ones(N), cells, None, at_least_real=True)
    assert found.separation is found.raised_from is None


# The command ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at_least_real", "spread", "end"),
    [
        (False, 1.2, ": --at-least-real raises it."),
        (True, 1.2, ", raised from "),
        (False, 0.4, ""),
        (True, 6.0, ", raised from "),  # as far as possible, and not enough
    ],
)
def test_the_command_says_how_well_values_are_told_apart(
    at_least_real: bool, spread: float, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = weight(spread, at_least_real=at_least_real)
    about = {"rule": "contrast:1.0", "sampling": "ddim uniform 2", "data": {}, "seed": 0}
    whole = {"model": "0", "images": N, "references": N, "attributes": {"smiling": found}}
    print_calibration(Calibration(**about, **whole))
    (line,) = (x for x in capsys.readouterr().out.splitlines() if "AUROC" in x)
    assert f"on real images, at weight {found.weight:g}{end or '.'}" in line


def test_the_option_is_kept_with_the_model(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fcfg.save(tiny_model(saved=True), "tiny")
    words = ["calibrate", "tiny", "--sampling", "ddim uniform 2", "--images", "16"]
    words += ["--device", "cpu", "--weights", "1,2", "--out", "out"]
    assert main(words) == 0
    assert Calibration.read("out").at_least_real is False
    assert main([*words, "--at-least-real"]) == 2  # another calibration than the one there
    assert main([*words, "--at-least-real", "--overwrite"]) == 0
    assert Calibration.read("out").at_least_real is True
    assert main(["calibrate", "--help"]) == 0
    assert f"at least {RAISING} images" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("given", "raises"), [(None, True), (False, False), (True, True)])
def test_many_images_raise_weights_unless_told_not_to(
    given: bool | None, raises: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcfg.calibration.run.RAISING", 24)
    pipeline = tiny_model()
    drawings = fcfg.datasets.portraits.sample(24, seed=5, size=SIZE)
    columns = drawings.attributes
    options = {"sampling": "ddim uniform 2", "weights": (1, 2), "at_least_real": given}
    options["accept"] = True
    many = fcfg.calibrate(pipeline, drawings.images, columns, **options)
    assert many.at_least_real is raises
    few = fcfg.calibrate(pipeline, drawings.images, columns, count=23, **options)
    assert few.at_least_real is (given or False)
