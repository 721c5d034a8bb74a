"""The models that come with the package: small, whole, described, and of some use."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import fcfg
import pages
from fcfg.datasets import portraits
from fcfg.pipeline.checkpoint import shipped

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "src" / "fcfg" / "pipeline" / "models"


def test_all_shipped_weights_fit_into_16_megabytes() -> None:
    assert {"portraits", "portraits-causal"} <= set(shipped())
    sizes = [path.stat().st_size for path in MODELS.rglob("*.safetensors")]
    assert 0 < sum(sizes) <= 16e6


def test_a_shipped_name_goes_before_a_folder_and_an_unknown_one_names_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "portraits").mkdir()
    assert fcfg.load("portraits").space == portraits.space()
    with pytest.raises(fcfg.InputError, match="shipped models \\(portraits"):
        fcfg.load("./portraits")


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_says_where_it_comes_from(name: str) -> None:
    pipeline = fcfg.load(name)
    training = pipeline.provenance["training"]
    assert training["seed"] == 0
    assert training["data"]["seed"] < portraits.EVALUATION_SEED
    card = (MODELS / name / "README.md").read_text()
    assert "commit" in card
    assert "![" in card


@pytest.mark.parametrize("name", shipped())
def test_the_table_of_a_card_is_what_was_measured_on_the_very_model(name: str) -> None:
    result = json.loads((ROOT / f"docs/results/{name}-truth.json").read_text())
    config = (MODELS / name / "config.json").read_bytes()
    assert result["model"]["config_sha256"] == hashlib.sha256(config).hexdigest()
    card = f"src/fcfg/pipeline/models/{name}/README.md"
    assert pages.PAGES[card] == (f"truth/{name}",)
    assert pages.filled(card) == (ROOT / card).read_text()
    weights = set(json.loads(config)["files"].values())
    assert weights == {path.name for path in (MODELS / name).glob("*.safetensors")}


def test_the_shipped_model_changes_what_it_is_asked_to_change() -> None:
    """Eight drawings, twenty steps: enough to see a smile come or go, and the rest stay."""
    faces = portraits.sample(8, seed=portraits.EVALUATION_SEED)
    pipeline = fcfg.load("portraits")
    pair = pipeline.counterfactual(
        faces.images,
        faces.attributes,
        do={"smiling": lambda smiling: 1 - smiling},
        guidance=fcfg.Guidance.none(),
        sampling=20,
    )
    assert pipeline.judge is not None
    before, after = (pipeline.judge.read(i).factors for i in (faces.images, pair.images))
    sign = 2 * pair.attributes["smiling"] - 1
    shift = {name: sign * (after[name] - before[name]) for name in before}
    assert (shift["smiling"] > 0).all()
    assert np.mean(shift["smiling"]) > 1.0  # the truth is 2.3
    others = [abs(np.mean(shift[name])) for name in ("male", "young")]
    assert max(others) < np.mean(shift["smiling"]) / 4
