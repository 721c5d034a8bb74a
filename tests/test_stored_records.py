"""The records beside the weights of a model: what cannot be one is neither read nor written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fcfg
from evaluations import calibration_of
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.hashing import digest_of_values
from fcfg.trust import Thresholds
from refusal import refused
from tiny import tiny_pipeline


@pytest.fixture
def model() -> CounterfactualPipeline:
    """A model with both records, whose numbers nobody measured."""
    pipeline = tiny_pipeline()
    pipeline.calibration = calibration_of(pipeline, smiling=1.25)
    about: dict[str, Any] = {"images": 2, "references": 2, "share": 0.01, "guidance": ("none",)}
    digest = Thresholds.digest(pipeline.denoiser, pipeline.judge)
    limits = {"change smiling": 1.0}
    pipeline.thresholds = Thresholds(model=digest, sampling="2", limits=limits, **about)
    return pipeline


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_records_are_kept_with_the_model_and_go_with_it(model, tmp_path: Path, storage) -> None:
    fcfg.save(model, tmp_path, storage)
    again = fcfg.load(tmp_path)
    assert (again.calibration, again.thresholds) == (model.calibration, model.thresholds)
    fcfg.save(tiny_pipeline(), tmp_path)  # another pipeline replaces all of it
    again = fcfg.load(tmp_path)
    assert again.calibration is again.thresholds is None
    assert not (tmp_path / "trust.json").exists()


@pytest.mark.parametrize("part", ["denoiser", "judge"])
def test_thresholds_hold_for_both_networks(model, tmp_path: Path, part: str) -> None:
    next(getattr(model, part).parameters()).data += 1
    model.calibration = None
    fcfg.save(model, tmp_path)
    with pytest.warns(UserWarning, match=r"trust\.json: made for other .* run 'fcfg calibrate'"):
        assert fcfg.load(tmp_path).thresholds is None


@pytest.mark.parametrize(
    ("record", "change", "fragment"),
    [
        ("calibration", {"format": 2}, "'format'"),
        ("calibration", {"rule": "none"}, "a rule with one weight"),
        ("calibration", {"rule": "cfg"}, "cfg"),
        ("calibration", {"rule": "cfg++:0.5"}, "a λ from 0 to 1, got float 1.25"),
        ("calibration", {"attributes": {}}, "'attributes'"),
        ("calibration", {"attributes": {"smiling": {"weight": 1}}}, "'attributes.smiling.low'"),
        ("calibration", {"more": 1}, "'more'"),
        ("calibration", "{", "JSON"),
        ("thresholds", {"limits": {}}, "limits"),
        ("thresholds", {"limits": {"loss 0.1": float("nan")}}, "limits"),
        ("thresholds", {"limits": {"nonsense": 1}}, "names of signals, such as 'loss 0.1', "),
        ("thresholds", {"limits": {"change": 1e308}}, "got 'change': 1e+308; remove the file"),
        ("thresholds", {"limits": {"change smiling": 3}}, "'change smiling' from 0 to 2.002, got"),
        ("thresholds", {"limits": {"change smiling": -0.1}}, "'change smiling': -0.1"),
        ("thresholds", {"limits": {"loss 0.6": 90}}, "'loss 0.6' from -104 to 89"),
        ("thresholds", {"limits": {"correction": 1e39}}, "'correction' from 0 to 3.4e+38"),
        ("thresholds", {"limits": {"asked hair": 7}}, "'asked hair' from 0 to 6.9"),
        ("thresholds", {"limits": {"moved hair": 14}}, "'moved hair' from 0 to 13.8"),
        ("thresholds", {"limits": {"moved age": 1e3}}, "'moved age' from 0 to 100.1"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    model, tmp_path: Path, record: str, change: Any, fragment: str
) -> None:
    fcfg.save(model, tmp_path)
    file = tmp_path / getattr(model, record).file
    if isinstance(change, dict):
        values = json.loads(file.read_text()) | change
        change = json.dumps(values | {"digest": digest_of_values(values)})
    file.write_text(change)
    with refused(f"{record} {file}", fragment):
        fcfg.load(tmp_path)


def test_what_a_model_cannot_have_is_neither_written_nor_read(model, tmp_path: Path) -> None:
    thresholds = model.thresholds
    model.thresholds = thresholds.model_copy(update={"limits": {"asked smiling": 7.0}})
    with refused("thresholds of the model", "'asked smiling' from 0 to 6.9", "7"):
        fcfg.save(model, tmp_path / "new")
    model.thresholds = thresholds
    model.calibration = calibration_of(model, male=1.25)
    with refused("calibration of the model", "'male'"):
        fcfg.save(model, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    fcfg.save(tiny_pipeline(), tmp_path)
    model.calibration.save(tmp_path)
    with refused(f"calibration {tmp_path}", "'male'"):
        fcfg.load(tmp_path)
