"""Checkpoints: a folder with ``config.json`` and safetensors files, and nothing to unpickle.

The config is written last, in one atomic step, and names the weight files by their content: even
after a crash, a folder holds either the old pipeline or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from safetensors import torch as safetensors
from torch import nn

from fcfg.causal.graph import CausalGraph
from fcfg.hvae import HVAEModel
from fcfg.judge import AttributeJudge
from fcfg.model import AnyModel
from fcfg.pipeline.calibration import Calibration
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.model_configs import (
    CONFIGS,
    FORMAT,
    FORMATS,
    CheckpointConfig,
    build_model,
    describe_model,
)
from fcfg.pipeline.thresholds import Thresholds
from fcfg.pipeline.weight_files import (
    ADVICE,
    Storage,
    digest,
    exact_tensors,
    refusal,
    stored_tensors,
)
from fcfg.support.config_files import parse_json, read_text
from fcfg.support.errors import InputError, check_among, check_is
from fcfg.support.files import write_atomically
from fcfg.version import __version__

_CONFIG = "config.json"
_MODELS = Path(__file__).parent / "models"


def save(model: AnyModel, path: str | os.PathLike[str], storage: Storage = "float32") -> None:
    """Write a model to a folder, atomically.

    Args:
        model: The model. Of a network that is not a :class:`fcfg.UNet`, only the weights are
            stored, and :func:`load` needs the module.
        path: The folder, which is created if missing; an older model in it is replaced.
        storage: 'float32', which keeps counterfactuals identical bit by bit, or 'float16', half
            the size. The structural causal model is always stored exactly.
    """
    known = (CounterfactualPipeline, HVAEModel)
    check_is("model", model, known, "a fcfg.CounterfactualPipeline or a fcfg.hvae.HVAEModel")
    folder, scm, judge = _folder(path), model.scm, model.judge
    if judge is not None and not isinstance(judge, AttributeJudge):
        raise InputError(
            "judge",
            expected="a fcfg.AttributeJudge, which a config can describe",
            got=type(judge).__name__,
            do="save another judge by yourself, and set pipeline.judge after loading",
        )
    stale = replaced_files(folder)
    check_among("storage", storage, get_args(Storage))
    own, networks = describe_model(model)
    parts = {part: stored_tensors(module, storage) for part, module in networks.items()}
    parts["scm"] = exact_tensors(scm)
    if judge is not None:
        parts["judge"] = stored_tensors(judge.network, storage)
    contents = {part: safetensors.save(tensors) for part, tensors in parts.items()}
    config = CONFIGS[model.kind](
        format=FORMATS[model.kind],
        fcfg=__version__,
        storage=storage,
        **own,
        attributes=model.space.to_config(),
        graph={node: list(parents) for node, parents in model.graph.parents.items()},
        mechanisms={node: list(parents) for node, parents in scm.fitted_parents.items()},
        judge=None if judge is None else judge.network.config,
        factors={} if judge is None else judge.factors,
        files={part: f"{part}-{digest(data)}.safetensors" for part, data in contents.items()},
        provenance=_json_values(model.provenance),
    )
    values = json.loads(config.model_dump_json(exclude={"digest"}))
    values["digest"] = _digest_of_values(values)
    described = json.dumps(values, indent=2, ensure_ascii=False).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part, data in contents.items():
            write_atomically(folder / config.files[part], data)
        write_atomically(folder / _CONFIG, described)
        is_pipeline = isinstance(model, CounterfactualPipeline)
        kept = {
            Calibration: model.calibration if is_pipeline else None,
            Thresholds: model.thresholds if is_pipeline else None,
        }
        for kind, record in kept.items():
            if record is None:
                (folder / kind.file).unlink(missing_ok=True)
            else:
                record.save(folder)
        for name in stale - set(config.files.values()):
            (folder / Path(name).name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"checkpoint {folder}",
            expected="a folder that can be written",
            got=error.strerror or error,
            do="choose another path or make room; what was there before is whole",
        ) from error


def load(path: str | os.PathLike[str], *, network: nn.Module | None = None) -> AnyModel:
    """Read a model that :func:`save` wrote, onto the CPU.

    Args:
        path: A folder, or the name of a model that comes with the package (see
            :func:`shipped`); a folder of that name is ``./name``.
        network: The module the weights belong to, where it is not a
            :class:`fcfg.diffusion.networks.UNet`.

    Returns:
        Whichever model the folder holds; the shipped ones are
        :class:`fcfg.CounterfactualPipeline`.
    """
    folder = _model_folder(path)
    config, values = _read_config(folder)
    if config.digest not in (None, _digest_of_values(values)):
        raise InputError(
            f"checkpoint {folder}",
            expected=f"the {_CONFIG} that was written with its weights",
            got="an edited one",
            do="copy the folder again; or remove 'digest' from it, if the change is meant",
        )
    wanted = config.network if isinstance(config.network, str) else None
    if (network is None) != (wanted is None):
        raise InputError(
            f"checkpoint {folder}",
            expected=f"network= with a {wanted}, whose weights it holds"
            if network is None
            else "no network=, since it holds one that fcfg knows",
            got="none" if network is None else type(network).__name__,
            do="call load again so",
        )
    try:
        model = build_model(folder, config, network)
    except (InputError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError) and str(folder) in str(error):
            raise
        raise refusal(folder, f"a {_CONFIG} that makes sense", error) from error
    model.folder = folder
    if isinstance(model, CounterfactualPipeline):
        model.calibration = Calibration.of_model(folder, model.denoiser)
        if model.calibration is not None:
            model.space.check_known(model.calibration.attributes, f"calibration {folder}")
        model.thresholds = Thresholds.of_model(folder, model.denoiser, model.judge)
    return model


def load_pipeline(path: str | os.PathLike[str], purpose: str) -> CounterfactualPipeline:
    """Read a diffusion pipeline; refuse other models.

    Args:
        path: Folder or name, as in :func:`load`.
        purpose: Name of the work that needs it, such as 'fcfg calibrate'.
    """
    model = load(path)
    if isinstance(model, CounterfactualPipeline):
        return model
    raise InputError(
        f"model {path}",
        expected=f"a diffusion model, since {purpose} is about guidance",
        got=f"a model of kind '{model.kind}', which has a temperature and no weight to calibrate",
        do=f"compare its settings with 'fcfg evaluate {path} baselines'",
    )


def shipped() -> tuple[str, ...]:
    """Return the names of the models that come with the package."""
    return tuple(sorted(config.parent.name for config in _MODELS.glob(f"*/{_CONFIG}")))


def read_outline(path: str | os.PathLike[str]) -> tuple[str, CausalGraph]:
    """Return the kind of a model and its causal graph, without reading its weights.

    Args:
        path: Folder or name, as in :func:`load`.
    """
    config, values = _read_config(_model_folder(path))
    return values.get("kind", "diffusion"), CausalGraph(config.graph)


def replaced_files(folder: Path) -> set[str]:
    """Return the names of the weight files that a new pipeline in a folder replaces.

    A ``config.json`` that fcfg did not write is refused.
    """
    if not (folder / _CONFIG).exists():
        return set()
    try:
        return set(_read_config(folder)[0].files.values())
    except InputError as error:
        raise error.about(f"checkpoint {folder}", "choose another folder") from error


def _folder(path: str | os.PathLike[str]) -> Path:
    check_is(
        "checkpoint",
        path,
        (str, os.PathLike),
        "the path of a folder",
        do="pass a string or a path",
    )
    return Path(path)


def _model_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a model, or of one that comes with the package by its name."""
    folder = _folder(path)
    return _MODELS / folder if str(path) in shipped() else folder


def _read_config(folder: Path) -> tuple[CheckpointConfig, dict[str, Any]]:
    """Return the config, and the same as plain values."""
    subject = f"checkpoint {folder}"
    names = f", or one of the shipped models ({', '.join(shipped())})" if shipped() else ""
    expected = f"a folder with a {_CONFIG} that fcfg wrote{names}"
    if not (folder / _CONFIG).exists():
        close = get_close_matches(str(folder), shipped(), n=1)
        found = "a file" if folder.is_file() else "no such folder"
        raise InputError(
            subject,
            expected=expected,
            got=f"no {_CONFIG} in it" if folder.is_dir() else found,
            do=f"did you mean '{close[0]}'?" if close else ADVICE,
        )
    text = read_text(folder / _CONFIG, subject, expected=expected)
    values = parse_json(text, f"{subject}, {_CONFIG}", do=ADVICE)
    if "format" not in values:
        raise refusal(folder, expected, "something else")
    version = values["format"]
    if not isinstance(version, int) or version > FORMAT:
        raise InputError(
            subject,
            expected=f"format version {FORMAT} or older",
            got=repr(version),
            do="upgrade fcfg to read it",
        )
    kind = values.get("kind", "diffusion")
    if kind not in CONFIGS:
        raise refusal(folder, f"a model of kind {' or '.join(CONFIGS)}", repr(kind))
    try:
        return CONFIGS[kind].model_validate_json(text), values
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"])
        raise refusal(folder, f"a valid {_CONFIG}", f"'{where}': {first['msg']}") from error


def _json_values(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance as JSON values, or raise before anything is written."""
    try:
        return json.loads(json.dumps(provenance, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            "provenance",
            expected="texts, finite numbers, lists and mappings of them",
            got=error,
            do="convert arrays and tensors with .tolist() or .item()",
        ) from error


def _digest_of_values(values: Mapping[str, Any]) -> str:
    """Return the digest of a config, independent of its layout; the order of keys counts."""
    rest = {key: value for key, value in values.items() if key != "digest"}
    return digest(json.dumps(rest).encode())
