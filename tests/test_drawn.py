"""Drawn worlds as data: the same drawings, as bytes, none of them for evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fcfg.causal.attributes import AttributeSpace, Binary, Continuous
from fcfg.datasets import portraits
from fcfg.datasets.portraits.data import VALIDATION_SEED, PortraitsData
from fcfg.support.images import to_pictures
from refusal import refused


@pytest.mark.parametrize("variant", ["portraits", "portraits-causal"])
def test_data_are_the_drawings_rounded_as_files_would_round_them(variant) -> None:
    config = PortraitsData(format=variant, size=8, count=1030, val=3, seed=4)
    told: list[tuple[str, int, int]] = []
    space = portraits.space(variant)
    splits = config.load(space, on_progress=lambda *record: told.append(record))
    assert told[0] == ("drawing portraits", 0, 1033)
    assert told[-1] == ("drawing portraits", 1033, 1033)
    for split, seed in (("train", 4), ("val", VALIDATION_SEED)):
        examples = splits[split]
        record = portraits.sample(len(examples), seed=seed, size=8, variant=variant)
        pictures = np.stack([np.asarray(picture) for picture in to_pictures(record.images)])
        assert examples.images.dtype == np.uint8
        difference = examples.images.transpose(0, 2, 3, 1).astype(int) - pictures
        assert np.abs(difference).max() <= 1  # a last bit may decide the rounding
        assert (difference == 0).mean() > 0.999
        for name in space.names:
            assert np.array_equal(examples.attributes[name], record.attributes[name])
            assert np.allclose(examples.factors[name], record.factors[name])
        assert len(set(examples.names)) == len(examples)
    assert list(splits) == ["train", "val"]


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
