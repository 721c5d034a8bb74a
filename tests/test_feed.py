"""Batches: their contents depend only on the seed and the step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.datasets.base import Examples
from fcfg.training.feed import Feed, rows_of_step, scales_of

SPACE = AttributeSpace([Binary("smiling")])


@given(st.integers(0, 2**40), st.integers(1, 9), st.integers(1, 12), st.integers(1, 3))
def test_every_epoch_shows_every_example_once(seed, batch, count, epochs) -> None:
    steps = -(-epochs * count // batch)
    rows = np.concatenate([rows_of_step(seed, step, batch, count) for step in range(steps)])
    for epoch in range(epochs):
        assert sorted(rows[epoch * count : (epoch + 1) * count]) == list(range(count))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [rows_of_step(seed, step, 50, 50).tolist() for seed in (0, 1) for step in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def examples(count: int = 10) -> Examples:
    generator = np.random.default_rng(0)
    return Examples(
        generator.integers(0, 256, (count, 1, 4, 4), dtype=np.uint8),
        {"smiling": generator.integers(0, 2, count)},
        tuple(f"{i}.png" for i in range(count)),
        {"smiling": generator.normal(3.0, 2.0, count)},
    )


def feed(data: Examples, share: slice = slice(None)) -> Feed:
    options = {"device": torch.device("cpu"), "seed": 3, "batch": 4, "share": share}
    return Feed(data, SPACE, scales_of(data), **options)


@pytest.mark.parametrize("room", [2**30, 0])
def test_a_batch_holds_the_rows_of_its_step_in_any_order_of_asking(room, monkeypatch) -> None:
    """Whether images are resident or streamed."""
    monkeypatch.setattr("fcfg.training.feed._HOST_BYTES", room)
    data = examples()
    batches = feed(data)
    (mean, sd) = scales_of(data)["smiling"]
    for step in (5, 6, 7, 2, 3, 30):
        rows, batch = rows_of_step(3, step, 4, 10), batches.at(step)
        expected = torch.from_numpy(data.images[rows]).float() / 127.5 - 1
        assert torch.equal(batch.images, expected)
        assert batch.values[:, 0].tolist() == data.attributes["smiling"][rows].tolist()
        expected_factors = (data.factors["smiling"][rows] - mean) / sd
        np.testing.assert_allclose(batch.factors[:, 0].numpy(), expected_factors, rtol=1e-6)
    assert batches.waited > 0
    batches.close()


def test_shares_of_processes_make_the_batch_and_factors_need_not_be_there() -> None:
    whole = feed(examples()).at(1)
    parts = [feed(examples(), slice(start, start + 2)).at(1) for start in (0, 2)]
    assert torch.equal(torch.cat([part.images for part in parts]), whole.images)
    assert torch.equal(torch.cat([part.values for part in parts]), whole.values)
    data = replace(examples(), factors={"smiling": np.full(10, 7.0)})
    assert scales_of(data) == {"smiling": (7.0, 1.0)}
    assert feed(data).at(0).factors.tolist() == [[0.0]] * 4
    assert feed(replace(data, factors={})).at(0).factors.shape == (4, 0)
