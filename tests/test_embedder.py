from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.diffusion.embedder import AttributeEmbedder
from worlds import binary_space

SPACE = AttributeSpace(
    [Binary("sex"), Categorical("race", ["a", "b", "c"]), Continuous("age", 0, 100)]
)


@pytest.fixture(scope="module")
def embedder() -> AttributeEmbedder:
    torch.manual_seed(0)
    return AttributeEmbedder(SPACE, width=8)


def test_forty_scalar_attributes_have_the_papers_44800_parameters() -> None:
    space = AttributeSpace([Binary(f"a{i}") for i in range(40)])
    assert sum(p.numel() for p in AttributeEmbedder(space).parameters()) == 44_800


def test_a_block_is_a_two_layer_network_of_its_value() -> None:
    embedder = AttributeEmbedder(binary_space(1), width=8)
    first, second = embedder.branches[0][0], embedder.branches[0][2]
    value = torch.tensor([[0.3], [-2.0]])
    hidden = value * first.weight[:, 0] + first.bias
    expected = (hidden * hidden.sigmoid()) @ second.weight.T + second.bias
    assert torch.allclose(embedder(value), expected, atol=1e-6)


def test_one_attribute_changes_one_block_only(embedder: AttributeEmbedder) -> None:
    table = SPACE.parse({"sex": [0, 0], "race": ["a", "c"], "age": [30, 30]})
    one, other = embedder(torch.from_numpy(SPACE.encode(table)).float()).unflatten(1, (3, 8))
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])
    assert torch.equal(one[2], other[2])
    assert embedder.condition_width == 24


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_masking_sets_blocks_to_zero_and_leaves_the_others(keep: list[bool]) -> None:
    torch.manual_seed(1)
    embedder = AttributeEmbedder(binary_space(), width=8)
    condition = embedder(torch.randn(5, 3))
    masked = embedder.masked(condition, torch.tensor([keep])).unflatten(1, (3, 8))
    for block, kept in enumerate(keep):
        expected = condition.unflatten(1, (3, 8))[:, block]
        assert torch.equal(masked[:, block], expected if kept else torch.zeros(5, 8))


def test_masking_removes_even_what_is_not_finite(embedder: AttributeEmbedder) -> None:
    condition = torch.full((1, 24), torch.nan)
    assert torch.equal(
        embedder.masked(condition, torch.zeros(1, 3, dtype=torch.bool)), torch.zeros(1, 24)
    )
