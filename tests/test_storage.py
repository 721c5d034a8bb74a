"""Every kind of model is kept in a folder by the same two methods, and so is one's own."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as safetensors

import fcfg
from evaluations import calibration_of, tiny_model
from fcfg.model import AnyModel
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.storage import register_kind
from fcfg.storage.folder import digest
from fcfg.support.hashing import digest_of_values
from fcfg.trust import Thresholds
from laws import KINDS, shift
from own_kind import ShiftConfig, ShiftModel
from refusal import refused
from tiny import tiny_pipeline

NAMES = tuple(KINDS)
Models = dict[str, AnyModel]


@pytest.fixture(scope="module")
def models() -> dict[str, AnyModel]:
    return {kind: make() for kind, make in KINDS.items()}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("after", NAMES)
@pytest.mark.parametrize("before", NAMES)
def test_of_an_older_model_of_any_kind_nothing_is_left(models, before, after, tmp_path) -> None:
    models[before].save(tmp_path / "one")
    models[after].save(tmp_path / "one")
    models[after].save(tmp_path / "other")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_records_of_ones_own_kind_are_kept_and_hold_for_their_weights(tmp_path: Path) -> None:
    model = shift()
    model.save(tmp_path)
    assert ShiftModel.load(tmp_path).note == model.note
    model.network.bias.data += 1
    model.save(tmp_path)
    with pytest.warns(UserWarning, match=r"note\.json: made for other weights") as told:
        assert fcfg.load(tmp_path).note is None
    assert told[0].filename == __file__  # where load was called
    model.note = None
    model.save(tmp_path)
    assert not (tmp_path / "note.json").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ShiftModel.load(tmp_path).note is None


def test_an_edited_record_is_noticed(tmp_path: Path) -> None:
    shift().save(tmp_path)
    file = tmp_path / "note.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values))  # laid out otherwise
    assert ShiftModel.load(tmp_path).note.text == "seed 4"
    without = {key: value for key, value in values.items() if key != "digest"}
    for edited, got in (
        (values | {"text": "seed 5"}, "an edited one"),
        (values | {"digest": 1}, "an edited one"),
        (without, "one without"),
    ):
        file.write_text(json.dumps(edited))
        refused(f"note {file}", got, "remove the file").by(ShiftModel.load, tmp_path)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_in_every_part(
    models: Models, kind: str, bad: float, tmp_path: Path
) -> None:
    """Even where the digests agree; the message names the part and the tensor."""
    models[kind].save(tmp_path)
    files = json.loads((tmp_path / "config.json").read_text())["files"]
    for part, file in files.items():
        tensors = safetensors.load((tmp_path / file).read_bytes())
        # A causal model without mechanisms has no numbers; others have masks, which are bool.
        names = [name for name, tensor in tensors.items() if tensor.is_floating_point()]
        for name in sorted(names)[-1:]:
            tensors[name].view(-1)[-1] = bad
            data = safetensors.save(tensors)
            broken = f"{part}-{digest(data)}.safetensors"
            (tmp_path / broken).write_bytes(data)
            edit(tmp_path, files=files | {part: broken}, digest=None)
            with refused(f"model {tmp_path}, {part}", f"NaN or infinity in '{name}'"):
                fcfg.load(tmp_path)


def test_what_could_not_come_back_is_not_written(tmp_path: Path, monkeypatch) -> None:
    broken, own = tiny_model("portraits-causal", saved=True), tiny_model(saved=True)
    next(broken.scm.parameters()).data[...] = torch.nan
    own.denoiser.embedder = torch.nn.Identity()
    unknown, other = shift(), shift()
    unknown.kind, other.kind = "shifted", "diffusion"
    for model, *said in (
        (broken, "weights of the causal model", "NaN or infinity"),
        (own, "denoiser, embedder", "an AttributeEmbedder"),
        (unknown, "model", "or shift", "'shifted'", "fcfg.storage.register_kind"),
        (other, "model", "a CounterfactualPipeline", "ShiftModel"),
    ):
        refused(*said).by(model.save, tmp_path / "model")
    monkeypatch.setattr(ShiftConfig, "describe", lambda network: {})
    refused("kind 'shift', 'network'", "got none").by(shift().save, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_class_loads_its_own_models_and_kinds_are_registered_once(models, tmp_path) -> None:
    models["shift"].save(tmp_path)
    with refused(f"model {tmp_path}", "a CounterfactualPipeline", "a ShiftModel", "fcfg.load"):
        fcfg.CounterfactualPipeline.load(tmp_path)
    assert fcfg.CounterfactualPipeline.load("portraits").calibration is not None
    models["shift"].save(tmp_path)
    known = f"a model of kind {' or '.join(sorted(KINDS))}"
    for kind in ("gan", "Shift", None, ["shift"], {}):
        edit(tmp_path, kind=kind)
        refused(f"model {tmp_path}", known, str(kind)).by(fcfg.load, tmp_path)
        refused(f"model {tmp_path}", known).by(models["diffusion"].save, tmp_path)
    for kind in ("diffusion", "shift"):
        other = type("Other", (ShiftModel,), {"kind": kind})
        refused(f"kind '{kind}'", "not taken").by(register_kind(ShiftConfig), other)


def test_the_kinds_of_the_package_are_found_by_whoever_reads_a_folder(models, tmp_path) -> None:
    """Of the foreign kind it is enough to be found: its libraries take long to import."""
    kinds = [kind for kind in KINDS if kind not in ("shift", "foreign")]
    for kind in kinds:
        models[kind].save(tmp_path / kind)
    code = "import sys, fcfg.storage as storage; from fcfg.storage.kinds import find_kind; "
    code += "print(find_kind('foreign', 'it').model.kind, "
    code += "*(storage.load_model(path, None).kind for path in sys.argv[1:]))"
    command = [sys.executable, "-c", code, *(str(tmp_path / kind) for kind in kinds)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["foreign", *kinds]


@pytest.fixture
def recorded() -> CounterfactualPipeline:
    """A model with both records, whose numbers nobody measured."""
    pipeline = tiny_pipeline()
    pipeline.calibration = calibration_of(pipeline, smiling=1.25)
    about: dict[str, Any] = {"images": 2, "references": 2, "share": 0.01, "guidance": ("none",)}
    digest = Thresholds.digest(pipeline.denoiser, pipeline.judge)
    limits = {"change smiling": 1.0}
    pipeline.thresholds = Thresholds(model=digest, sampling="2", limits=limits, **about)
    return pipeline


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_records_are_kept_with_the_model_and_go_with_it(recorded, tmp_path: Path, storage) -> None:
    fcfg.save(recorded, tmp_path, storage)
    again = fcfg.load(tmp_path)
    assert (again.calibration, again.thresholds) == (recorded.calibration, recorded.thresholds)
    fcfg.save(tiny_pipeline(), tmp_path)  # another pipeline replaces all of it
    again = fcfg.load(tmp_path)
    assert again.calibration is again.thresholds is None
    assert not (tmp_path / "trust.json").exists()


def test_thresholds_hold_for_both_networks(recorded, tmp_path: Path) -> None:
    recorded.calibration = None
    told = r"trust\.json: made for other .* run 'fcfg calibrate'"
    for part, change in (("denoiser", 1), ("denoiser", -1), ("judge", 1)):
        next(getattr(recorded, part).parameters()).data += change
        if change > 0:
            fcfg.save(recorded, tmp_path)
            with pytest.warns(UserWarning, match=told):
                assert fcfg.load(tmp_path).thresholds is None


WRONG = {  # values of each record that make no sense, and what is said of them
    "calibration": [
        *(({"format": 2}, "'format'"), ({"more": 1}, "'more'"), ({"rule": "cfg"}, "cfg")),
        ({"rule": "none"}, "a rule with one weight"),
        ({"rule": "cfg++:0.5"}, "a λ from 0 to 1, got float 1.25"),
        ({"attributes": {}}, "'attributes'"),
        ({"attributes": {"smiling": {"weight": 1}}}, "'attributes.smiling.low'"),
    ],
    "thresholds": [
        ({"limits": limits}, fragment)
        for limits, fragment in (
            *(({}, "limits"), ({"loss 0.1": float("nan")}, "limits")),
            ({"nonsense": 1}, "names of signals, such as 'loss 0.1', "),
            ({"change": 1e308}, "got 'change': 1e+308; remove the file"),
            ({"change smiling": 3}, "'change smiling' from 0 to 2.002, got"),
            ({"change smiling": -0.1}, "'change smiling': -0.1"),
            ({"loss 0.6": 90}, "'loss 0.6' from -104 to 89"),
            ({"correction": 1e39}, "'correction' from 0 to 3.4e+38"),
            ({"asked hair": 7}, "'asked hair' from 0 to 6.9"),
            ({"moved hair": 14}, "'moved hair' from 0 to 13.8"),
            ({"moved age": 1e3}, "'moved age' from 0 to 100.1"),
        )
    ],
}


@pytest.mark.parametrize("record", WRONG)
def test_a_file_that_makes_no_sense_is_refused(recorded, tmp_path: Path, record: str) -> None:
    fcfg.save(recorded, tmp_path)
    file = tmp_path / getattr(recorded, record).file
    whole = json.loads(file.read_text())
    for change, fragment in WRONG[record]:
        values = whole | change
        file.write_text(json.dumps(values | {"digest": digest_of_values(values)}))
        refused(f"{record} {file}", fragment).by(fcfg.load, tmp_path)
    file.write_text("{")
    refused(f"{record} {file}", "JSON").by(fcfg.load, tmp_path)


def test_what_a_model_cannot_have_is_neither_written_nor_read(recorded, tmp_path: Path) -> None:
    thresholds = recorded.thresholds
    recorded.thresholds = thresholds.model_copy(update={"limits": {"asked smiling": 7.0}})
    with refused("thresholds of the model", "'asked smiling' from 0 to 6.9", "7"):
        fcfg.save(recorded, tmp_path / "new")
    recorded.thresholds = thresholds
    recorded.calibration = calibration_of(recorded, male=1.25)
    refused("calibration of the model", "'male'").by(fcfg.save, recorded, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    fcfg.save(tiny_pipeline(), tmp_path)
    recorded.calibration.save(tmp_path)
    refused(f"calibration {tmp_path}", "'male'").by(fcfg.load, tmp_path)
