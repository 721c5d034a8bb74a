"""The models that come with the package: small, whole, described, and of some use."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

import fcfg
from fcfg.datasets import portraits
from fcfg.generation import sample_pictures
from fcfg.metrics import stroke_thickness
from fcfg.storage import shipped

DRAWN = ("portraits", "portraits-128", "portraits-causal")
REAL = ("digits", "radiographs")


def test_all_shipped_models_are_small_and_known_by_their_names(tmp_path, monkeypatch) -> None:
    assert set(shipped()) == {*DRAWN, *REAL}
    files = [file for home in shipped().values() for file in home.glob("*.safetensors")]
    assert 0 < sum(file.stat().st_size for file in files) <= 40e6
    monkeypatch.chdir(tmp_path)
    (tmp_path / "portraits").mkdir()
    assert fcfg.load("portraits").space == portraits.space()
    with pytest.raises(fcfg.InputError, match="shipped models \\(digits, portraits"):
        fcfg.load("./portraits")


def test_a_model_of_the_second_package_is_refused_with_its_name_where_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fcfg.storage.places._MORE", "fcfg_models_of_nobody")
    assert {*shipped()} == {"portraits", "portraits-128"}
    for name, advice in (("digits", "fcfg\\[models\\]"), ("digit", "mean 'digits'")):
        with pytest.raises(fcfg.InputError, match=advice):
            fcfg.load(name)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_says_where_it_comes_from(name: str) -> None:
    pipeline = fcfg.load(name)
    training = pipeline.provenance["training"]
    assert training["seed"] == 0
    if name in DRAWN:
        assert training["data"]["seed"] < portraits.EVALUATION_SEED
    card = (shipped()[name] / "README.md").read_text()
    assert "commit" in card
    assert "![" in card


@pytest.mark.parametrize("name", DRAWN)
def test_the_table_of_a_card_is_what_was_measured_on_the_very_model(name: str) -> None:
    config = (shipped()[name] / "config.json").read_bytes()
    card = (shipped()[name] / "README.md").read_text("utf-8")
    assert f"config.json sha256 {hashlib.sha256(config).hexdigest()[:12]}." in card
    weights = set(json.loads(config)["files"].values())
    assert weights == {path.name for path in (shipped()[name]).glob("*.safetensors")}


@pytest.mark.parametrize("name", REAL)
def test_a_model_of_real_images_is_the_calibrated_one_and_brings_held_out_pictures(name) -> None:
    model = fcfg.load(name)  # a calibration of other weights would be refused with a warning
    assert model.calibration is not None
    assert model.thresholds is not None
    found = sample_pictures(model)
    assert found.images.shape[1:] == (1, model.size, model.size)
    judge = model.judge
    (discrete, *_) = [a.name for a in model.space if not isinstance(a, fcfg.Continuous)]
    read = judge.read(found.images).attributes[discrete]
    assert np.mean(read == found.attributes[discrete]) >= 0.75  # digits all, sexes most


def test_models_without_pictures_have_none() -> None:
    assert sample_pictures(fcfg.load("portraits")) is None


def test_a_digit_becomes_thicker_and_darker_with_it() -> None:
    """Thickness causes intensity; both are measured from the pixels of the answer."""
    model = fcfg.load("digits")
    found = sample_pictures(model)
    thin = found.attributes["thickness"].argsort()[:3]
    factual = {name: column[thin] for name, column in found.attributes.items()}
    pair = model.counterfactual(found.images[thin], factual, {"thickness": 4.5})
    assert np.abs(stroke_thickness(pair.images) - 4.5).max() < 0.8
    assert (pair.attributes["intensity"] > factual["intensity"]).all()
    read = model.judge.read(pair.images).attributes["digit"]
    assert (read == factual["digit"]).all()


def test_the_shipped_model_changes_what_it_is_asked_to_change() -> None:
    """Eight drawings, eight steps: enough to see a smile come or go, and the rest stay."""
    faces = portraits.sample(8, seed=portraits.EVALUATION_SEED)
    pipeline = fcfg.load("portraits")
    how = {"guidance": fcfg.Guidance.none(), "sampling": 8}
    do = {"smiling": lambda smiling: 1 - smiling}
    pair = pipeline.counterfactual(faces.images, faces.attributes, do, **how)
    before, after = (pipeline.judge.read(i).factors for i in (faces.images, pair.images))
    sign = 2 * pair.attributes["smiling"] - 1
    shift = {name: sign * (after[name] - before[name]) for name in before}
    assert (shift["smiling"] > 0).all()
    assert np.mean(shift["smiling"]) > 1.0  # the truth is 2.3
    others = [abs(np.mean(shift[name])) for name in ("male", "young")]
    assert max(others) < np.mean(shift["smiling"]) / 4
