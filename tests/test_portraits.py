"""The drawn world: exact counterfactuals, hard enough to be worth anything, and to train on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import rankdata
from torch.nn import functional

from fcfg import AttributeSpace, Binary, Continuous, to_pictures
from fcfg.datasets import portraits
from fcfg.datasets.portraits import world
from fcfg.datasets.portraits.data import VALIDATION_SEED, PortraitsData
from refusal import refused


def auroc(score: np.ndarray, label: np.ndarray) -> float:
    positives = label.sum()
    ranks = rankdata(score)[label == 1].sum() - positives * (positives + 1) / 2
    return ranks / (positives * (len(label) - positives))


BOTH = pytest.mark.parametrize("variant", ["portraits", "portraits-causal"])


@BOTH
def test_a_sample_is_images_in_range_and_a_legal_table(variant: str) -> None:
    record = portraits.sample(5, seed=1, size=24, variant=variant)
    space, graph = portraits.space(variant), portraits.graph(variant)
    assert record.images.shape == (5, 3, 24, 24)
    assert record.images.dtype == torch.float32
    assert record.images.abs().max() <= 1
    assert list(space.parse(record.attributes)) == list(record.attributes) == list(space.names)
    assert set(record.factors) == set(space.names) == set(graph.nodes)
    assert "tensor" not in repr(record)


@BOTH
def test_the_seed_says_it_all_and_factual_values_change_nothing(variant: str) -> None:
    few, many = (portraits.sample(n, seed=3, size=16, variant=variant) for n in (3, 1100))
    assert torch.allclose(few.images, many.images[:3], atol=1e-6)
    for name in few.attributes:
        assert np.array_equal(few.attributes[name], many.attributes[name][:3])
    other = portraits.sample(3, seed=4, size=16, variant=variant)
    assert (few.images - other.images).abs().mean() > 0.05
    record = portraits.sample(20, variant=variant)
    for do in ({}, record.attributes):
        same = portraits.counterfactual(record, do)
        assert torch.equal(same.images, record.images)
        assert all(np.array_equal(same.factors[n], record.factors[n]) for n in record.factors)


CHANGES = {name: st.just("flip") for name in ("smiling", "sex", "glasses")}
CHANGES |= {"age": st.floats(20, 80), "hair": st.sampled_from(["dark", "red", "grey"])}


@settings(max_examples=15)
@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_only_descendants_change_and_the_way_back_is_exact(do) -> None:
    record = portraits.sample(30, seed=5, size=16, variant="portraits-causal")
    changed = portraits.counterfactual(record, do)
    affected = portraits.graph("portraits-causal").affected(do)
    for name in record.attributes:
        if name not in affected:
            assert np.array_equal(changed.attributes[name], record.attributes[name])
            assert np.array_equal(changed.factors[name], record.factors[name])
    back = portraits.counterfactual(changed, {name: record.attributes[name] for name in do})
    assert torch.equal(back.images, record.images)


def test_age_brings_glasses_and_grey_hair_by_their_stated_probabilities() -> None:
    record = portraits.sample(2000, size=8, variant="portraits-causal")
    for age in (30, 50, 75):
        table = portraits.counterfactual(record, {"age": age}).attributes
        assert abs(table["glasses"].mean() - 1 / (1 + np.exp(-(age - 50) / 10))) < 0.03
        logits = np.array([0.6, 0.3, -0.6, (age - 55) / 6])
        wanted = np.exp(logits) / np.exp(logits).sum()
        assert np.abs(np.bincount(table["hair"], minlength=4) / 2000 - wanted).max() < 0.03
    assert abs(record.attributes["age"].mean() - 50) < 1
    do = {"age": np.minimum(record.attributes["age"] + 20, 80)}
    older = portraits.counterfactual(record, do)
    had = record.attributes["glasses"] == 1
    assert (older.attributes["glasses"][had] == 1).all()  # age never takes glasses away


def test_attributes_go_together_as_in_celeba_and_do_not_cause_each_other() -> None:
    record = portraits.sample(10_000, size=8)
    male, young, smiling = (record.attributes[name] for name in ("male", "young", "smiling"))
    assert abs(np.corrcoef(male, young)[0, 1] + 0.3) < 0.02
    assert abs(np.corrcoef(smiling, male)[0, 1]) < 0.02
    for name, column in record.attributes.items():
        assert abs(column.mean() - 0.5) < 0.02
        assert abs(auroc(record.factors[name], column) - 0.95) < 0.01  # of a perfect reader


def test_the_world_is_not_easy() -> None:
    """Every attribute shows, two in the same places, and what makes the person dominates."""
    faces = portraits.sample(150, seed=portraits.EVALUATION_SEED)
    between = (faces.images - faces.images.roll(1, dims=0)).abs().mean()
    regions: dict[str, torch.Tensor] = {}
    for name in faces.attributes:
        change = (portraits.counterfactual(faces, {name: "flip"}).images - faces.images).abs()
        regions[name] = change.amax(dim=1) > 0.05
        assert regions[name].float().mean() > 0.02
        assert change.mean() < between / 4
    both, either = regions["male"] & regions["young"], regions["male"] | regions["young"]
    assert (both.sum(dim=(1, 2)) / either.sum(dim=(1, 2))).mean() > 0.25


def test_drawings_are_anti_aliased_and_every_factor_shows() -> None:
    """A drawing at half the size is nearly the average of the one at full size."""
    large, small = (portraits.sample(50, seed=2, size=size) for size in (64, 32))
    assert (functional.avg_pool2d(large.images, 2) - small.images).abs().mean() < 0.01
    record = portraits.sample(30, seed=6)
    for name in world._PERSON:
        noise = record.noise | {name: record.noise[name] + 1}
        other = world._draw(noise, {}, "portraits", 32)
        assert (other.images - record.images).abs().max() > 0.02, name


def test_illegal_questions_are_refused_and_faces_are_drawn_as_ever() -> None:
    for name, value in {"n": 0, "seed": -1, "size": 4, "variant": "portrait"}.items():
        refused(f"portraits, {name}").by(portraits.sample, **{"n": 1, name: value})
    record = portraits.sample(3, size=8, variant="portraits-causal")
    for name, value in {"smiling": 2, "sex": [0, 1], "age": "flip"}.items():
        refused(f"intervention on '{name}'").by(portraits.counterfactual, record, {name: value})
    for do in ({"hat": 1}, ["smiling"]):
        refused("intervention").by(portraits.counterfactual, record, do)
    # Models and results refer to them: hair, eyes, mouth, and beard with neck.
    bands = portraits.sample(6, seed=0, size=32).images.unflatten(2, (4, 8)).mean(dim=(0, 1, 3, 4))
    assert bands.tolist() == pytest.approx([0.2527, 0.1426, 0.0534, -0.0844], abs=5e-4)


@BOTH
def test_data_are_the_drawings_rounded_as_files_would_round_them(variant) -> None:
    config = PortraitsData(format=variant, size=8, count=1030, val=3, seed=4)
    told: list[tuple[str, int, int]] = []
    space = portraits.space(variant)
    splits = config.load(space, on_progress=lambda *record: told.append(record))
    assert told == [("drawing portraits", done, 1033) for done in (0, 1024, 1030, 1033)]
    for (split, examples), seed in zip(splits.items(), (4, VALIDATION_SEED), strict=True):
        record = portraits.sample(len(examples), seed=seed, size=8, variant=variant)
        pictures = np.stack([np.asarray(picture) for picture in to_pictures(record.images)])
        assert examples.images.dtype == np.uint8
        difference = examples.images.transpose(0, 2, 3, 1).astype(int) - pictures
        assert np.abs(difference).max() <= 1  # a last bit may decide the rounding
        assert (difference == 0).mean() > 0.999
        assert len(examples) == {"train": 1030, "val": 3}[split]
        for name in space.names:
            assert np.array_equal(examples.attributes[name], record.attributes[name])
            assert np.allclose(examples.factors[name], record.factors[name])
        assert len(set(examples.names)) == len(examples)


def test_nothing_is_trained_or_validated_on_what_is_for_evaluation() -> None:
    assert VALIDATION_SEED < portraits.EVALUATION_SEED
    for seed in (-1, VALIDATION_SEED, portraits.EVALUATION_SEED):
        with pytest.raises(ValidationError, match="for validation and evaluation"):
            PortraitsData(seed=seed)


def test_some_attributes_suffice_and_they_must_be_those_of_the_world() -> None:
    config = PortraitsData(format="portraits-causal", size=8, count=5, val=2)
    some = AttributeSpace([Continuous("age", 20, 80)])
    assert list(config.load(some)["train"].attributes) == ["age"]
    with refused("attributes of 'portraits-causal'", "did you mean 'hair'"):
        config.load(AttributeSpace([Binary("hairs")]))
    with refused("attribute 'age' of", "20", "as the world does"):
        config.load(AttributeSpace([Continuous("age", 0, 100)]))
    with refused("data, count", "fit into the memory"):  # before the first is drawn
        PortraitsData(count=10**8, size=1024).load(portraits.space())
