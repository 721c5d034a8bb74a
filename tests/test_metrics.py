"""Metrics and their intervals, against scikit-learn and on answers that are known."""

from __future__ import annotations

import json
import operator
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm, rankdata, spearmanr
from sklearn.metrics import roc_auc_score

from fcfg.metrics import (
    MIN_IMAGES,
    Bootstrap,
    Estimate,
    amplification,
    attenuation,
    auroc,
    correlation,
    directions,
    image_errors,
    image_mae,
    level_scores,
    mean,
    mean_absolute_error,
    ratio,
    signed_shift,
)
from fcfg.metrics.intervals import average, holm, wilson
from refusal import all_refused

N = 400


def share(holds: np.ndarray, bootstrap: Bootstrap) -> Estimate:
    """The share of images, or of their groups, of which something holds."""
    return mean(holds, bootstrap).off_ceiling(int(bootstrap.owners.max()) + 1)


def scored(seed: int = 0, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and scores that say something of them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, N)
    scores = rng.normal(labels, 1.5)
    return (scores.round() if ties else scores), labels


def levelled(levels: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, levels, N)
    raw = rng.normal(size=(N, levels)) + np.eye(levels)[labels]
    return np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (scored(), {}),
        (scored(ties=True), {}),
        (levelled(), {"multi_class": "ovr", "average": "macro"}),
    ],
)
def test_an_auroc_and_every_draw_of_it_agree_with_scikit_learn(data, options) -> None:
    scores, labels = data
    bootstrap = Bootstrap(N, resamples=50)
    found = auroc(scores, labels, bootstrap)
    assert found.value == pytest.approx(roc_auc_score(labels, scores, **options), abs=1e-12)
    for counts, replicate in zip(bootstrap.counts, found.replicates, strict=True):
        expected = roc_auc_score(labels, scores, sample_weight=counts, **options)
        assert replicate == pytest.approx(expected, abs=1e-12)


def test_a_draw_of_one_class_has_no_auroc_and_is_left_out() -> None:
    rare = auroc([0.1, 0.2, 0.3, 0.9], [0, 0, 0, 1], Bootstrap(4), few=True)
    assert np.isnan(rare.replicates).mean() == pytest.approx(0.75**4 + 0.25**4, abs=0.05)
    tiny = auroc(np.eye(3), [0, 1, 2], Bootstrap(3), few=True)
    assert np.isnan(tiny.replicates).any()
    for found in (rare, tiny):
        assert (found.value, found.high) == (1, 1)
        assert np.nanmin(found.replicates) == 1


@pytest.mark.parametrize(("positive", "negative"), [(250, 150), (3, 397)])
def test_an_auroc_at_the_ceiling_is_as_uncertain_as_a_share_of_disjoint_pairs(
    positive: int, negative: int
) -> None:
    labels = np.repeat([0, 1], [negative, positive])
    bootstrap, pairs = Bootstrap(N, resamples=20), min(positive, negative)
    wanted = binomtest(pairs, pairs).proportion_ci(method="wilson")
    for scores, sign in ((labels, 1), (-labels, -1)):
        found = auroc(scores, labels, bootstrap)
        assert [found.low, found.high][::sign] == pytest.approx(
            [(1 - sign) / 2 + sign * end for end in (wanted.low, wanted.high)]
        )
    levels = auroc(np.stack([1 - labels, labels], axis=1), labels, bootstrap)
    assert (levels.value, levels.low) == (1, pytest.approx(wanted.low))
    below = labels.astype(float)
    below[0] = 2
    assert auroc(below, labels, bootstrap).beyond == (0, 0)


@pytest.mark.parametrize("count", [0, 1, 7, 20])
def test_a_share_has_the_interval_of_wilson_where_the_bootstrap_has_none(count: int) -> None:
    found = share(np.arange(20) < count, Bootstrap(20, resamples=100))
    assert found.value == count / 20
    wanted = binomtest(count, 20).proportion_ci(method="wilson")
    assert wilson(count / 20, 20) == pytest.approx((wanted.low, wanted.high))
    if count in (0, 20):
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    else:
        assert found.low == np.quantile(found.replicates, 0.025)


def test_what_follows_from_a_ceiling_has_an_interval_too() -> None:
    """A difference has that of Newcombe, if that of each side is known."""
    bootstrap = Bootstrap(50, resamples=400)
    whole, some = share(np.ones(50), bootstrap), share(np.arange(50) < 40, bootstrap)
    low, high = wilson(1, 50)
    both = whole - whole
    assert (both.value, both.low, both.high) == pytest.approx((0, low - high, high - low))
    assert not both.excludes_zero
    gap = whole - some
    assert gap.low == pytest.approx(0.2 - np.hypot(1 - low, some.high - 0.8))
    assert gap.high == pytest.approx(0.2 + (0.8 - some.low))
    assert gap.excludes_zero
    away = some - whole
    assert (away.low, away.high) == pytest.approx((-gap.high, -gap.low))
    assert (abs(away).low, abs(away).high) == pytest.approx((gap.low, gap.high))
    assert (abs(both).low, abs(both).high) == pytest.approx((0, high - low))
    assert (whole.scaled(100).low, whole.scaled(100).high) == pytest.approx((100 * low, 100))
    mean_of = average([whole, some])
    assert mean_of.low == pytest.approx(0.9 - np.hypot(0.8 - some.low, 1 - low) / 2)
    assert mean_of.high == pytest.approx((1 + some.high) / 2)
    nearly = share(np.arange(50) < 49, bootstrap)
    for close in (abs(whole - nearly), abs(nearly - whole)):
        assert (close.value, close.low) == pytest.approx((0.02, 0))
        assert close.high >= 0.02 + 1 - low
    assert average([some, some]).beyond == (0, 0)


def test_holm_keeps_the_chance_of_any_false_claim() -> None:
    """Of twenty means of nothing, one in twenty has a p-value below 5 %, but no table in three."""
    rng, m = np.random.default_rng(0), 20
    tables = rng.uniform(size=(4000, m))
    plain = (tables < 0.05).any(axis=1).mean()
    corrected = np.mean([any(holm(row.tolist())) for row in tables])
    assert plain > 0.6
    assert corrected == pytest.approx(1 - (1 - 0.05 / m) ** m, abs=0.012)
    for values in ([0.012, 0.02, 0.03, 0.9], [0.013, 0.001, 0.04, 0.02]):
        ranked, worst, wanted = sorted(range(4), key=values.__getitem__), 0.0, [False] * 4
        for k, number in enumerate(ranked):
            worst = max(worst, (4 - k) * values[number])
            wanted[number] = worst <= 0.05
        assert holm(values) == wanted
    assert holm([]) == []


def test_a_p_value_is_that_of_a_z_test() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0.15, size=300)
    found = mean(values, Bootstrap(300, resamples=8000))
    z = values.mean() / values.std() * np.sqrt(300)
    assert norm.isf(found.p_value / 2) == pytest.approx(abs(z), rel=0.03)
    assert mean(-values, Bootstrap(300, resamples=8000)).p_value == pytest.approx(found.p_value)
    assert mean([0.0, 0.0], Bootstrap(2)).p_value == 1
    assert mean([0.5, 0.5], Bootstrap(2)).p_value == 0
    whole, half = share(np.ones(50), Bootstrap(50)), mean(np.full(50, 0.99), Bootstrap(50))
    apart = whole - half  # all of its spread is what resamples do not show
    below = half - whole
    for one in (apart, below):
        assert norm.isf(one.p_value / 2) == pytest.approx(0.01 / (1 - whole.low) * 1.96, rel=1e-4)


# Groups of images -------------------------------------------------------------------------------


def test_groups_are_resampled_with_all_of_their_images() -> None:
    """Each patient is in a resample as often as it was drawn; a mean is that of its images."""
    rng = np.random.default_rng(3)
    groups, values = rng.permutation(np.repeat(np.arange(30), 4))[:100], rng.normal(size=100)
    bootstrap = Bootstrap(100, resamples=300, groups=groups.tolist())
    for own in range(30):
        assert (np.ptp(bootstrap.counts[:, groups == own], axis=1) == 0).all()
    first = [int(np.flatnonzero(groups == own)[0]) for own in range(30)]
    assert (bootstrap.counts[:, first].sum(axis=1) == 30).all()
    found = mean(values, bootstrap)
    for counts, replicate in zip(bootstrap.counts, found.replicates, strict=True):
        assert replicate == pytest.approx(np.repeat(values, counts.astype(int)).mean())
    area = auroc(values, groups % 2, bootstrap, few=True)
    expected = roc_auc_score(groups % 2, values, sample_weight=bootstrap.counts[7])
    assert area.replicates[7] == pytest.approx(expected)


def test_images_of_one_patient_count_once() -> None:
    """Copies of every image leave the interval as it was, instead of narrowing it."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=50)
    once = mean(values, Bootstrap(50))
    copies = mean(
        np.repeat(values, 9), Bootstrap(450, groups=np.repeat(np.arange(50), 9).tolist())
    )
    assert (copies.low, copies.high) == pytest.approx((once.low, once.high))
    own = Bootstrap(50, groups=rng.permutation(99)[:50].tolist())  # whatever their numbers are
    assert (mean(values, own).replicates == once.replicates).all()
    apart = mean(np.repeat(values, 9), Bootstrap(450))
    assert apart.high - apart.low < 0.5 * (copies.high - copies.low)


def test_a_ceiling_counts_patients() -> None:
    patients = np.repeat(np.arange(20), 5)
    bootstrap = Bootstrap(100, resamples=20, groups=patients.tolist())
    assert share(np.ones(100), bootstrap).low == pytest.approx(wilson(1, 20)[0])
    for labels, pairs in (
        (patients < 6, 6),  # six patients have the class, and fourteen have not
        (np.arange(100) % 5 == 0, 10),  # all have both, so ten pairs use up all patients
        (np.arange(100) == 0, 1),
    ):
        area = auroc(labels, labels, bootstrap, few=True)
        assert area.low == pytest.approx(wilson(1, pairs)[0])
    alone = Bootstrap(4, resamples=5, groups=[7] * 4)
    assert auroc([0, 1, 0, 1], [0, 1, 0, 1], alone, few=True).low == pytest.approx(wilson(1, 1)[0])
    all_refused("bootstrap, groups", partial(Bootstrap, 3, groups=[1, 2]))


@pytest.mark.parametrize("levels", [(0, 2), (0, 1)])
def test_levels_that_do_not_occur_do_not_count(levels: tuple[int, int]) -> None:
    """And two levels are a binary attribute."""
    scores, labels = levelled(1 + levels[1])
    labels = np.where(labels == 1, levels[1], labels)
    bootstrap = Bootstrap(N, resamples=20)
    found = auroc(scores, labels, bootstrap)
    each = [auroc(scores[:, level], labels == level, bootstrap) for level in levels]
    assert found.replicates == pytest.approx(np.mean([one.replicates for one in each], axis=0))
    assert found.value == pytest.approx(np.mean([one.value for one in each]))


def test_what_has_no_auroc_is_refused() -> None:
    n, (scores, labels), bootstrap = MIN_IMAGES - 1, scored(), Bootstrap(N)
    levels = np.stack([-scores, scores], axis=1)
    for given in (scores, levels):
        all_refused("AUROC", partial(auroc, given[:n], labels[:n], Bootstrap(n)))
        for wrong in (np.ones(N), 2 * labels, labels[1:]):
            all_refused("labels", partial(auroc, given, wrong, bootstrap))
    for wrong in (scores[:, None], np.full((N, 2), np.nan), np.float64(1)):
        all_refused("scores", partial(auroc, wrong, labels, bootstrap))
    assert auroc(scores[:n], labels[:n], Bootstrap(n), few=True).n == n


def test_the_error_of_a_continuous_attribute_is_in_its_own_unit() -> None:
    rng = np.random.default_rng(0)
    ages = rng.uniform(20, 80, N)
    bootstrap = Bootstrap(N)
    off = mean_absolute_error(ages + np.where(rng.integers(0, 2, N), 3, -3), ages, bootstrap)
    assert (off.value, off.low, off.high) == pytest.approx((3, 3, 3))


@pytest.mark.parametrize("ties", [False, True])
def test_a_correlation_is_spearmans_up_to_the_ranks_of_values(ties: bool) -> None:
    rng = np.random.default_rng(0)
    values = rng.permutation(40.0 * np.arange(40))  # as far apart as their ranks
    scores = values / 400 + rng.normal(size=40)
    scores = scores.round() if ties else scores
    bootstrap = Bootstrap(40, resamples=30)
    found = correlation(scores, values, bootstrap)
    assert found.value == pytest.approx(spearmanr(scores, values).statistic)
    ranks = rankdata(scores)
    for counts, replicate in zip(bootstrap.counts, found.replicates, strict=True):
        rows = np.repeat(np.arange(40), counts.astype(int))
        assert replicate == pytest.approx(np.corrcoef(ranks[rows], values[rows])[0, 1])


def test_a_correlation_of_two_levels_is_that_of_one() -> None:
    rng = np.random.default_rng(1)
    label, score = rng.integers(0, 2, 30), rng.random(30)
    levels = np.stack([1 - score, score], axis=1), np.eye(2)[label]
    one, both = (
        correlation(*pair, Bootstrap(30, resamples=20)) for pair in ((score, label), levels)
    )
    assert one.replicates == pytest.approx(both.replicates)


def test_what_has_no_spread_has_no_correlation() -> None:
    assert correlation([0.3] * 5, [0, 1, 0, 1, 1], Bootstrap(5)) is None
    assert correlation([0.1, 0.2, 0.7], [1, 1, 1], Bootstrap(3)) is None
    two = correlation([0.1, 0.9], [0, 1], Bootstrap(2, resamples=50))
    assert np.isnan(two.replicates).any()  # draws of one image alone
    assert (two.value, two.low, two.high) == (1, 1, 1)


def test_a_shift_is_counted_toward_the_value_and_in_its_scale() -> None:
    rng = np.random.default_rng(0)
    values, reference = rng.integers(0, 2, N), rng.uniform(size=N)
    bootstrap, toward = Bootstrap(N), directions("binary", values)
    stronger = signed_shift(reference + 0.3 * toward, reference, toward, bootstrap, scale=2.0)
    assert stronger.value == pytest.approx(0.15)
    weaker = signed_shift(reference - 0.3 * toward, reference, toward, bootstrap)
    assert (amplification(stronger), attenuation(stronger)) == (stronger.value, 0)
    assert (amplification(weaker), attenuation(weaker)) == (0, pytest.approx(0.3))
    none = signed_shift(reference, reference, toward, bootstrap)
    assert (none.value, none.low, none.high) == (0, 0, 0)


def test_directions_by_kind() -> None:
    assert directions("binary", [1, 0, 1]).tolist() == [1, -1, 1]
    assert directions("categorical", ["red", "dark"]).tolist() == [1, 1]
    assert directions("continuous", [10, 50, 90], factual=[40, 60]).tolist() == [-1, 0, 1]
    assert level_scores([[0.2, 0.8], [0.6, 0.4]], [1, 1]).tolist() == [0.8, 0.4]


def test_directions_that_mean_nothing_are_refused() -> None:
    all_refused("attribute kind", partial(directions, "binray", [0, 1]))
    all_refused("directions of a continuous", partial(directions, "continuous", [0, 1]))
    shift = partial(signed_shift, [0, 1], [0, 1], [1, 1], Bootstrap(2))
    all_refused("shift, scale", *(partial(shift, scale=scale) for scale in (0.0, -1.0, np.nan)))


def images(n: int = 5, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, 3, 6, 4, generator=generator, dtype=torch.float64).mul(2).sub(1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_pixel_error_agrees_with_numpy(dtype: torch.dtype) -> None:
    x, y = images(dtype=dtype), images(seed=1, dtype=dtype)
    expected = np.abs(x.double().numpy() - y.double().numpy()).mean(axis=(1, 2, 3))
    assert image_mae(x, y) == pytest.approx(expected, rel=1e-6)
    assert image_mae(x, y) == pytest.approx(image_mae(y, x))
    assert image_mae(x, x).tolist() == [0] * 5
    assert image_mae(torch.ones(1, 1, 2, 2), -torch.ones(1, 1, 2, 2)).tolist() == [2]


def test_images_of_another_range_or_shape_are_refused() -> None:
    x = images()
    others = (x.long(), 255 * x, x[:, 0], x[:0])
    wrong = {
        "images and others": [partial(image_mae, x, x[1:])],
        "images": [
            partial(image_mae, y, x)
            for y in (((x + 1) * 127.5).to(torch.uint8), x * torch.nan, x.numpy())
        ],
        "others": [partial(image_mae, x, y) for y in others],
        "generated and truth and factual": [partial(image_errors, x, x[:, :1], x)],
    }
    for subject, calls in wrong.items():
        all_refused(subject, *calls)
    assert image_mae(x.clamp(-1, 1) * 1.00005, x).max() < 1e-4  # rounding is no other range


def test_only_truly_changed_pixels_count_as_changed() -> None:
    truth, made = torch.tensor([[[[[0.0, 0.04, 0.5, 1.0]]]], [[[[0.9, 0.0, 0.4, 1.0]]]]]) - 0.1
    factual = torch.full((1, 1, 1, 4), -0.1)
    errors = image_errors(made, truth, factual)
    assert errors.changed == pytest.approx([1.5])
    assert errors.missed == pytest.approx([0.1])
    assert errors.mae == pytest.approx([(0.9 + 0.04 + 0.1) / 4])
    assert image_errors(made, truth, factual, threshold=0.0).changed == pytest.approx([1.54])


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
    width = np.mean([estimate.high - estimate.low for estimate in found])
    assert width == pytest.approx(2 * 1.96 / N**0.5, rel=0.02)  # as theory says


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


def test_a_distance_from_zero_is_positive() -> None:
    found = abs(Estimate(-0.2, np.array([-0.5, -0.1, 0.3]), 5))
    assert (found.value, found.replicates.tolist()) == (0.2, [0.5, 0.1, 0.3])


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
