"""The judge: how its outputs are laid out, what it loses, what it reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from fcfg import AttributeJudge, AttributeSpace, Binary, Judge, JudgeConfig, to_pictures
from fcfg.causal import Categorical, Continuous
from refusal import refused

HAIRS, AGES = Categorical("hair", ["dark", "fair", "red"]), Continuous("age", 20, 80)
SPACE = AttributeSpace([Binary("smiling"), HAIRS, AGES, Binary("male")])
FACTORS = {"curve": (3.0, 0.5), "tone": (-10.0, 4.0)}
# Columns of the outputs: attributes as they are encoded, then factors.
SMILING, HAIR, AGE, MALE, CURVE, TONE = 0, slice(1, 4), 4, 5, 6, 7
WIDTH = 8


def judge(space: AttributeSpace = SPACE, factors=FACTORS, channels: int = 1) -> AttributeJudge:
    torch.manual_seed(0)
    outputs = sum(space.widths) + len(factors or {})
    network = Judge(JudgeConfig(channels=channels, outputs=outputs, width=4))
    return AttributeJudge(network, space, factors)


def always(outputs: list[float], space: AttributeSpace = SPACE, factors=FACTORS) -> AttributeJudge:
    """A judge that says the same of every image, in evaluation mode."""
    made = judge(space, factors).eval()
    with torch.no_grad():
        made.network.head.weight.zero_()
        made.network.head.bias.copy_(torch.tensor(outputs))
    return made


def pictures(count: int = 5, size: int = 8) -> Tensor:
    return 2 * torch.rand(count, 1, size, size, generator=torch.Generator().manual_seed(1)) - 1


def table(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    columns = {"smiling": rng.integers(0, 2, count), "hair": rng.integers(0, 3, count)}
    columns |= {"age": rng.uniform(20, 80, count), "male": rng.integers(0, 2, count)}
    return SPACE.parse(columns)


def test_the_loss_is_cross_entropies_and_squared_errors_summed_over_the_heads() -> None:
    """Against the definitions, written out with NumPy."""
    rng, count = np.random.default_rng(3), 6
    outputs, factors = rng.normal(0, 2, (count, WIDTH)), rng.normal(size=(count, 2))
    rows = table(count)
    expected = 0.0
    for name, column in (("smiling", SMILING), ("male", MALE)):
        p = 1 / (1 + np.exp(-outputs[:, column]))
        expected -= np.mean(np.where(rows[name] == 1, np.log(p), np.log(1 - p)))
    powers = np.exp(outputs[:, HAIR])
    chosen = powers[np.arange(count), rows["hair"]]
    expected -= np.mean(np.log(chosen / powers.sum(axis=1)))
    expected += np.mean((outputs[:, AGE] - (rows["age"] - 50) / 30) ** 2)
    given = [torch.from_numpy(each) for each in (outputs, SPACE.encode(rows), factors)]
    alone = judge(factors=None)
    assert alone.loss(*given).item() == pytest.approx(expected, rel=1e-9)
    assert alone.read(pictures()).factors == {}
    for column, number in ((CURVE, 0), (TONE, 1)):
        expected += np.mean((outputs[:, column] - factors[:, number]) ** 2)
    assert judge().loss(*given).item() == pytest.approx(expected, rel=1e-9)


def test_each_output_is_taught_by_its_own_value_alone() -> None:
    """The gradient of an output is its error, so that a change of its target changes no other."""
    outputs = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH).requires_grad_()
    values = torch.from_numpy(SPACE.encode(table(3))).float()
    made, targets = judge(), torch.cat([values, torch.ones(3, 2)], dim=1)

    def gradient(targets: Tensor) -> Tensor:
        loss = made.loss(outputs, targets[:, :-2], targets[:, -2:])
        return torch.autograd.grad(loss, outputs)[0]

    before = gradient(targets)
    for column in range(WIDTH):
        other = targets.clone()
        other[:, column] += 0.25
        changed = set((gradient(other) != before).any(dim=0).nonzero().flatten().tolist())
        head = range(WIDTH)[HAIR]
        assert {column} <= changed <= ({*head} if column in head else {column})


def test_what_the_judge_expects_is_where_its_loss_is_least() -> None:
    """A proper score: its gradient vanishes at its own probabilities, and only there."""
    outputs = torch.linspace(-2, 3, 3 * WIDTH).reshape(3, WIDTH).requires_grad_()
    made = judge()
    expected = made.expected_values(outputs).detach()
    assert expected.shape == (3, WIDTH - 2)  # factors are not expected
    assert torch.allclose(expected[:, HAIR].sum(dim=1), torch.ones(3))
    for target, vanishes in ((expected, True), (expected + 0.1, False)):
        (slope,) = torch.autograd.grad(made.attribute_loss(outputs, target), outputs)
        assert (slope.abs().max() < 1e-6) == vanishes
        assert not slope[:, CURVE:].any()


def test_outputs_are_read_by_the_kind_of_their_attribute_and_factors_in_their_units() -> None:
    logits = [-2.0, 0.5, 1.5, -1.0, 0.5, 0.3, 2.0, -1.0]
    reading = always(logits).read(pictures(2))
    columns = {name: column.tolist() for name, column in reading.attributes.items()}
    assert columns.pop("age") == pytest.approx([65, 65])
    assert columns == {"smiling": [0, 0], "hair": [1, 1], "male": [1, 1]}
    np.testing.assert_allclose(reading.scores["smiling"], 1 / (1 + np.exp(2.0)), rtol=1e-6)
    np.testing.assert_allclose(reading.scores["male"], 1 / (1 + np.exp(-0.3)), rtol=1e-6)
    powers = np.exp([0.5, 1.5, -1.0])
    expected = np.tile(powers / powers.sum(), (2, 1))
    np.testing.assert_allclose(reading.scores["hair"], expected, rtol=1e-6)
    np.testing.assert_array_equal(reading.scores["age"], reading.attributes["age"])
    assert list(reading.factors) == ["curve", "tone"]
    np.testing.assert_allclose(reading.factors["curve"], 3.0 + 0.5 * 2.0)
    np.testing.assert_allclose(reading.factors["tone"], -10.0 + 4.0 * -1.0)


@given(
    tenths=st.lists(st.integers(-999, 999), min_size=2, max_size=2, unique=True).map(sorted),
    outputs=st.lists(st.floats(-1e3, 1e3, width=32), min_size=5, max_size=5),
)
def test_whatever_is_read_is_legal(tenths: list[int], outputs: list[float]) -> None:
    """Rounding included: -89.7 + (2.9 - -89.7) is more than 2.9."""
    low, high = (number / 10 for number in tenths)
    kinds = Binary("a"), Categorical("b", ["x", "y", "z"]), Continuous("c", low, high)
    space = AttributeSpace(kinds)
    reading = always(outputs, space, None).read(pictures(1))
    parsed, scale = space.parse(reading.attributes), (outputs[4] + 1) / 2
    expected = min(max(low + (high - low) * scale, low), high)  # beyond its range, its end
    assert reading.attributes["c"][0] == pytest.approx(expected, rel=1e-4, abs=1e-4)
    for name, column in reading.attributes.items():
        np.testing.assert_array_equal(parsed[name], column)
        assert parsed[name].dtype == column.dtype


def test_the_size_of_batches_does_not_matter() -> None:
    made = judge().train()
    for _ in range(3):  # so that what batch normalisation remembers is not what it began with
        made(pictures(6))
    readings = [made.read(pictures(7), batch_size=size) for size in (1, 3, 7, 256)]
    for other in readings[1:]:
        for kind in ("attributes", "scores", "factors"):
            columns = getattr(other, kind)
            for name, column in getattr(readings[0], kind).items():
                np.testing.assert_allclose(columns[name], column, rtol=1e-4, atol=1e-5)
    refused("batch_size", "256 is the default").by(made.read, pictures(), batch_size=0)


@pytest.mark.parametrize("training", [True, False])
def test_reading_changes_nothing_even_where_it_fails(training: bool) -> None:
    made = judge().train(training)
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    first = made.read(pictures())
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.state_dict().items())
    np.testing.assert_array_equal(made.read(pictures()).scores["age"], first.scores["age"])
    made.network.head.double()  # does not fit the rest
    with pytest.raises(RuntimeError, match="dtype"):
        made.read(pictures())
    assert all(module.training is training for module in made.modules())


def test_pictures_are_read_as_their_pixels_and_what_is_no_judge_is_refused() -> None:
    drawn = to_pictures(pictures(3))
    pixels = np.stack([np.asarray(picture) for picture in drawn])[:, None]
    made = judge().eval()
    expected = made.read(torch.from_numpy(pixels).float() / 127.5 - 1)
    for images in (drawn, tuple(drawn)):
        for name, column in made.read(images).scores.items():
            np.testing.assert_allclose(column, expected.scores[name])
    assert made.read(drawn[0]).scores["hair"].shape == (1, 3)
    refused("picture 0", "mode L", "mode RGB").by(made.read, Image.new("RGB", (8, 8)))
    for outputs in (WIDTH - 2, WIDTH + 1):
        with refused("judge", f"{WIDTH} outputs", "'smiling'", str(outputs)):
            AttributeJudge(Judge(JudgeConfig(outputs=outputs, width=4)), SPACE, FACTORS)
    broken = judge()  # one made in Python: those of files are refused when they are loaded
    broken.network.head.bias.data[0] = torch.nan
    refused("judge", "NaN or infinity in 'outputs'").by(broken.read, torch.zeros(2, 1, 8, 8))


def test_a_judge_learns_to_read() -> None:
    """Images whose halves are as bright as two attributes say."""
    rng, count = np.random.default_rng(4), 32
    space = AttributeSpace([Binary("left"), Continuous("right", 0, 10)])
    rows = space.parse({"left": rng.integers(0, 2, count), "right": rng.uniform(0, 10, count)})
    values = torch.from_numpy(space.encode(rows)).float()
    images = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(5)) * 0.1
    images[..., :4] += values[:, 0, None, None, None] - 0.5
    images[..., 4:] += values[:, 1, None, None, None] * 0.5
    made, images = judge(space, None).train(), images.clamp(-1, 1)
    optimiser = torch.optim.AdamW(made.parameters(), 1e-2)
    for _ in range(40):
        optimiser.zero_grad()
        made.loss(made(images), values, torch.empty(count, 0)).backward()
        optimiser.step()
    reading = made.read(images)
    assert (reading.attributes["left"] == rows["left"]).mean() > 0.95
    assert np.abs(reading.attributes["right"] - rows["right"]).mean() < 1.5  # 2.5 by chance
