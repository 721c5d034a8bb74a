"""Estimates and their intervals, on columns whose spread is known."""

from __future__ import annotations

import json
import operator
from functools import partial

import numpy as np
import pytest

from fcfg.metrics import Bootstrap, mean, ratio
from refusal import all_refused

N = 400


@pytest.fixture(scope="module")
def bootstrap() -> Bootstrap:
    return Bootstrap(N)


def column(seed: int = 0, centre: float = 0.0, sd: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(centre, sd, N)


def test_each_draw_has_as_many_images_and_each_image_is_drawn_once_on_average(bootstrap) -> None:
    assert bootstrap.counts.shape == (2000, N)
    assert (bootstrap.counts.sum(axis=1) == N).all()
    assert bootstrap.counts.mean(axis=0) == pytest.approx(1, abs=0.15)
    assert (Bootstrap(N).counts == bootstrap.counts).all()
    assert (Bootstrap(N, seed=1).counts != bootstrap.counts).any()


def test_intervals_cover_the_known_mean_as_often_as_they_say(bootstrap) -> None:
    found = [mean(column(seed, centre=5), bootstrap) for seed in range(300)]
    covered = np.mean([estimate.low <= 5 <= estimate.high for estimate in found])
    assert covered == pytest.approx(0.95, abs=0.04)


def test_a_paired_difference_is_narrower_than_an_unpaired_one(bootstrap) -> None:
    image = column(1, sd=1)  # what both settings share: the image itself
    first, second = image + column(2, 0.1, 0.1), image + column(3, 0.0, 0.1)
    paired = mean(first, bootstrap) - mean(second, bootstrap)
    unpaired = mean(first, bootstrap) - mean(second, Bootstrap(N, seed=1))
    assert paired.value == pytest.approx((first - second).mean())
    assert paired.replicates == pytest.approx(mean(first - second, bootstrap).replicates)
    assert paired.high - paired.low < 0.2 * (unpaired.high - unpaired.low)
    assert paired.excludes_zero
    assert not unpaired.excludes_zero


def test_signs_and_units(bootstrap) -> None:
    estimate = mean(column(centre=2), bootstrap)
    flipped, nothing = estimate.scaled(-100), estimate - estimate
    assert estimate.excludes_zero
    assert flipped.excludes_zero
    assert not nothing.excludes_zero
    assert (flipped.value, flipped.low, flipped.high) == pytest.approx(
        (-100 * estimate.value, -100 * estimate.high, -100 * estimate.low)
    )
    assert json.loads(json.dumps(nothing.to_json())) == {"value": 0, "low": 0, "high": 0, "n": N}


def test_a_ratio_is_one_of_sums_not_a_mean_of_ratios(bootstrap) -> None:
    weights = np.random.default_rng(0).uniform(0, 1, N)
    exact = ratio(0.4 * weights, weights, bootstrap)
    assert (exact.value, exact.low, exact.high) == pytest.approx((0.4, 0.4, 0.4))
    values = column()
    assert ratio(values, weights, bootstrap).value == pytest.approx(values.sum() / weights.sum())


def test_draws_without_a_value_are_left_out_of_the_interval() -> None:
    lone = ratio([1.0, 0, 0], [2.0, 0, 0], Bootstrap(3))  # some draws miss the first image
    assert np.isnan(lone.replicates).any()
    assert (lone.value, lone.low, lone.high) == (0.5, 0.5, 0.5)


def test_what_cannot_be_estimated_or_paired_is_refused(bootstrap) -> None:
    estimate = mean(column(), bootstrap)
    others = (mean(column(), Bootstrap(N, resamples=50)), mean([1, 2, 3], Bootstrap(3)), 0.5)
    wrong = {
        "values": [partial(mean, v, bootstrap) for v in ([1, 2, 3], np.full(N, np.nan))],
        "denominators": [partial(ratio, column(), v, bootstrap) for v in (np.zeros(N), column())],
        "difference": [partial(operator.sub, estimate, other) for other in others],
        "bootstrap, n": [partial(Bootstrap, 0)],
        "bootstrap, resamples": [partial(Bootstrap, 10, resamples=1)],
        "bootstrap, seed": [partial(Bootstrap, 10, seed=-1)],
    }
    for subject, calls in wrong.items():
        all_refused(subject, *calls)
