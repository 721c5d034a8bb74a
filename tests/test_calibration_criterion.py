"""The weight under which answers read like real images, or at least as clearly."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from scipy.stats import energy_distance as reference

import fcfg
from evaluations import SIZE, tiny_model
from fcfg.calibration import criterion as choices
from fcfg.calibration.choice import RealImages
from fcfg.calibration.criterion import Separation, Shifts, Side, criterion, energy_distance, lowest
from fcfg.calibration.measurements import Cell
from fcfg.causal.attributes import AttributeSpace, Categorical, Continuous
from fcfg.cli.calibrate import print_calibration
from fcfg.judge import judged
from fcfg.metrics import Bootstrap, auroc
from fcfg.pipeline.calibration import AttributeWeight, Calibration
from worlds import binary_space, roots

N = 240
OWN = np.arange(N) % 2
NOISE = np.random.default_rng(0).normal(size=(2, N))
COUNTS = Bootstrap(N, resamples=200).counts
TWO = {"smiling": OWN, "male": np.arange(N) // 2 % 2}


def real_images(table: dict[str, np.ndarray], reading: np.ndarray, space=None) -> RealImages:
    """Images with some values, and what the judge reads on them."""
    space = space or binary_space(len(table))
    counts = Bootstrap(len(reading), resamples=200).counts
    return RealImages(space, roots(space), table, reading, counts)


def weight(
    real: RealImages,
    read: Callable[[float], np.ndarray],
    to: np.ndarray = 1 - OWN,
    **options: bool,
) -> AttributeWeight:
    """The weight of the first attribute, where the judge reads so on answers of each weight."""
    nothing = np.full((len(to), 3), np.nan)
    cells = {w: Cell(read(w), nothing, *nothing.T[:2]) for w in (0.5, 1.0, 1.5, 2.0, 3.0)}
    return real.weight(real.space.names[0], to, cells, None, **options)


def smiling(spread: float, *, at_least_real: bool) -> AttributeWeight:
    """Calibrate answers that read w on average, where real images read 1 ± 1."""
    real = real_images({"smiling": OWN}, (1 + NOISE[0])[:, None])
    return weight(real, lambda w: (w + spread * NOISE[1])[:, None], at_least_real=at_least_real)


def test_the_distance_is_the_energy_distance_and_the_smallest_value_that_of_a_parabola() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(12), 1 + 2 * rng.standard_normal(9)
    counts, others = (Bootstrap(n, resamples=3).counts for n in (12, 9))
    found = energy_distance(x, y, counts, others)
    for row in range(3):
        repeated = np.repeat(x, counts[row].astype(int)), np.repeat(y, others[row].astype(int))
        assert found[row] == pytest.approx(reference(*repeated) ** 2)  # scipy takes the root
    assert np.isfinite(energy_distance(x, y, np.zeros((1, 12)), np.ones((1, 9)))).all()
    x = np.array([1.0, 1.5, 2.5])
    np.testing.assert_allclose(lowest(x, np.stack([(x - 1.7) ** 2, -x], axis=1)), [1.7, 2.5])


def sides(slopes: Iterable[float], off_target: float = 0.0, n: int = 100) -> list[Side]:
    """Directions in which a weight w moves readings of mean 0 to slope·w; real ones are at 1."""
    weights, noise = np.array([0.5, 1.0, 2.0, 3.0]), np.random.default_rng(0).normal(size=(2, n))
    noise -= noise.mean(axis=1, keepdims=True)

    def side(i: int, slope: float) -> Side:
        own, real = np.arange(i * n, (i + 1) * n), np.arange((1 - i) * n, (2 - i) * n)
        read, off = (size * weights[:, None] + noise[i] for size in (slope, off_target))
        return Side(weights, own, read, (Shifts(own, off),), real, 1 + noise[i], 1.0)

    return [side(i, slope) for i, slope in enumerate(slopes)]


def test_a_shift_of_other_attributes_costs_a_quarter_of_the_same_shift_of_the_target() -> None:
    counts = Bootstrap(200, resamples=50).counts
    free, each = choices.choose_weights(sides([0.5, 0.5]), counts)
    assert [own.overlaps(free) for own in each] == [True, True]
    assert free.weight == pytest.approx(2.0, abs=0.05)
    # The minimum of (0.5 w - 1)² + w² / 4, both over √π, is at 1.
    costly, _ = choices.choose_weights(sides([0.5, 0.5], 1.0), counts)
    assert costly.weight == pytest.approx(1.0, abs=0.1)
    shifted = criterion([s.terms(np.ones(1), np.ones((1, 200))) for s in sides([0.5, 0.5])])
    assert shifted[0, 0] == pytest.approx(0.5**2 / np.sqrt(np.pi), rel=0.2)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_a_shift_that_images_share_costs_its_square_however_few_they_are(n: int) -> None:
    weights, at = np.array([1.0, 2.0]), np.array([1.0, 1.7])
    common, mixed = np.full((2, n), 0.7), np.ones((2, n))
    mixed[:, ::2] = -1
    # The mean over pairs of images, written out.
    pairs = [mixed[0, i] * mixed[0, j] for i in range(n) for j in range(n) if i != j]
    for shifts, expected in ((common, 0.49), (mixed, np.mean(pairs))):
        found = Shifts(np.arange(n), shifts).mean_square(weights, at, np.ones((1, n)))
        assert found == pytest.approx(np.full((2, 1), expected))


def test_noise_of_single_images_costs_nothing_and_shifts_do_not_cancel_over_values() -> None:
    """In standard deviations of images with the same value: a judge may be surer of one."""
    noise = 3 + NOISE.T
    real = real_images(TWO, noise + 6 * np.stack([0 * OWN, TWO["male"]], axis=1))

    def shift(others: np.ndarray | float) -> float:
        read = real.readings + np.stack([0 * NOISE[0], 0 * NOISE[0] + others], axis=1)
        return weight(real, lambda w: read).off_target

    assert shift(np.random.default_rng(1).normal(size=N)) < 0.1  # each changes by 0.8 on average
    assert shift(np.where(TWO["male"] == 1, -0.3, 0.3)) == pytest.approx(0.3, abs=0.03)
    assert shift(-0.2) == pytest.approx(0.2, abs=0.02)


def test_directions_that_need_other_weights_are_told_apart() -> None:
    slope = np.where(OWN == 1, 1.5, 3.0)  # down to 0 is half as fast as up to 1
    real = real_images({"smiling": OWN}, (3 + NOISE[0])[:, None])
    found = weight(real, lambda w: (slope * w + NOISE[0])[:, None])
    assert found.directions_differ
    assert found.directions["to 0"].weight == pytest.approx(2.0, abs=0.15)
    assert found.directions["to 1"].weight == pytest.approx(1.0, abs=0.15)
    assert 1.0 < found.weight < 2.0
    assert found.off_target == 0.0  # there are no other attributes


def test_real_images_of_a_level_or_near_a_value_are_compared_with() -> None:
    space = AttributeSpace([Continuous("age", 0, 100), Categorical("hair", ["dark", "red"])])
    table = {"age": np.arange(100.0), "hair": np.arange(100) % 2}
    real = real_images(table, np.zeros((100, 2)), space)
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


def test_raised_weights_are_no_larger_than_they_must_be() -> None:
    matched, raised = (smiling(1.0, at_least_real=yes) for yes in (False, True))
    assert matched.weight == pytest.approx(1.0, abs=0.1)
    assert raised.raised_from == matched.weight
    assert raised.weight > matched.weight
    assert (raised.low, raised.high) == (matched.low, matched.high)
    assert raised.separation[0] == matched.separation[0]
    # The readings of these sides are Gaussian, and so is the difference of the areas: at the
    # raised weight it is about two standard errors of 0.03 above 0, and at most three.
    ahead = raised.separation[1] - raised.separation[0]
    assert 0.03 < ahead < 0.09
    assert raised.weight <= max(side.high for side in raised.directions.values())
    matched, raised = (smiling(0.4, at_least_real=yes) for yes in (False, True))
    assert raised == matched
    assert raised.raised_from is None
    found = smiling(6.0, at_least_real=True)  # so noisy that no weight is enough
    assert found.weight == max(side.high for side in found.directions.values())


def test_the_areas_are_those_of_the_metric() -> None:
    both, weights = list[Side](), np.array([1.0, 2.0])
    for rows, reading in ((np.arange(0, N, 2), NOISE[0]), (np.arange(1, N, 2), 1 + NOISE[1])):
        back, read = rows[::-1], np.stack([reading[rows]] * 2)
        both.append(Side(weights, rows, read, (), back, 2 * reading[back], 0.5))
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
    hair, reading = AttributeSpace([Categorical("hair", ["dark", "red"])]), (1 + NOISE[0])[:, None]
    for real, to in (
        (real_images({"hair": OWN}, reading, hair), 1 - OWN),
        (real_images({"smiling": OWN}, reading), np.ones(N)),
    ):
        found = weight(real, lambda w: (w + NOISE[1])[:, None], to, at_least_real=True)
        assert found.separation is found.raised_from is None


def test_the_command_says_how_well_values_are_told_apart(capsys) -> None:
    about = {"rule": "contrast:1.0", "sampling": "ddim uniform 2", "data": {}, "seed": 0}
    about |= {"model": "0", "images": N, "references": N}
    for at_least_real, spread, end in (
        (False, 1.2, ": --at-least-real raises it."),
        (True, 1.2, ", raised from "),
        (False, 0.4, "."),
        (True, 6.0, ", raised from "),  # as far as possible, and not enough
    ):
        found = smiling(spread, at_least_real=at_least_real)
        print_calibration(Calibration(**about, attributes={"smiling": found}))
        (line,) = (x for x in capsys.readouterr().out.splitlines() if "AUROC" in x)
        assert f"on real images, at weight {found.weight:g}{end}" in line


@pytest.mark.parametrize(("given", "raises"), [(None, True), (False, False), (True, True)])
def test_many_images_raise_weights_unless_told_not_to(given, raises, monkeypatch) -> None:
    monkeypatch.setattr("fcfg.calibration.run.RAISING", 24)
    pipeline, drawn = tiny_model(), fcfg.datasets.portraits.sample(24, seed=5, size=SIZE)
    options = {"sampling": "ddim uniform 2", "weights": (1, 2), "at_least_real": given}
    for count, expected in ((24, raises), (23, given or False)):
        found = fcfg.calibrate(
            pipeline, drawn.images, drawn.attributes, count=count, accept=True, **options
        )
        assert found.at_least_real is expected
