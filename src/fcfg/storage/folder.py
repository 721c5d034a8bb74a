"""Models in folders: a ``config.json``, files of weights, and records.

The config is written after the weights, in one atomic step, and names their files by their
content: even after a crash, a folder holds either the old model or the new one. Records follow.
They name the weights that they belong to, so that those of an older model are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.networks import Judge
from fcfg.judge import AttributeJudge
from fcfg.storage.kinds import FORMAT, ModelConfig, StorableModel, Storage, find_kind
from fcfg.storage.places import (
    ADVICE,
    CONFIG,
    as_folder,
    check_exists,
    expected_folder,
    model_folder,
)
from fcfg.support.config_files import parse_json, read_text, validate
from fcfg.support.errors import InputError, check_among, check_is
from fcfg.support.files import write_atomically
from fcfg.support.hashing import digest_of_values
from fcfg.support.tensors import check_finite
from fcfg.version import __version__

_HEADER = 4096  # bytes that a file of weights may have for each tensor, beside its numbers


def read_outline(path: str | os.PathLike[str]) -> tuple[type[Any], CausalGraph]:
    """Return the class of a model and its causal graph, without reading its weights."""
    config, _ = read_config(model_folder(path))
    return find_kind(config.kind, f"model {path}").model, CausalGraph(config.graph)


def replaced_files(folder: Path) -> set[str]:
    """Return the names of the files, beside the config, that a new model in a folder replaces.

    A ``config.json`` that fcfg did not write is refused.
    """
    if not (folder / CONFIG).exists():
        return set()
    try:
        config, _ = read_config(folder)
    except InputError as error:
        raise error.about(f"model {folder}", "choose another folder") from error
    weights = {Path(name).name for name in config.files.values()}
    return weights | {record.file for record in config.records.values()}


def read_config(folder: Path) -> tuple[ModelConfig[Any], dict[str, Any]]:
    """Return the config, and the same as plain values."""
    check_exists(folder)
    subject, expected = f"model {folder}", expected_folder()
    text = read_text(folder / CONFIG, subject, expected=expected)
    values = parse_json(text, f"{subject}, {CONFIG}", do=ADVICE)
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
    kind = find_kind(values.get("kind", "diffusion"), subject)
    try:
        return kind.config.model_validate_json(text), values
    except ValidationError as error:
        first = error.errors()[0]
        keys = [str(key) for key in first["loc"]]
        where = ".".join(key for key in keys if not key.startswith("literal["))  # of a union
        raise refusal(folder, f"a valid {CONFIG}", f"'{where}': {first['msg']}") from error


def save_model(model: StorableModel, path: str | os.PathLike[str], storage: Storage) -> None:
    """Write a model to a folder, atomically."""
    kind = find_kind(model.kind, "model")
    check_is("model", model, kind.model, f"a {kind.model.__name__}, which has its kind")
    folder, scm, judge = as_folder(path), model.scm, model.judge
    if judge is not None and not isinstance(judge, AttributeJudge):
        raise InputError(
            "judge",
            expected="a fcfg.AttributeJudge, which a config can describe",
            got=type(judge).__name__,
            do="save another judge by yourself, and set pipeline.judge after loading",
        )
    stale = replaced_files(folder)
    check_among("storage", storage, get_args(Storage))
    networks = kind.config.networks(model.image_model)
    parts = {part: stored_tensors(module, storage) for part, module in networks.items()}
    parts["scm"] = exact_tensors(scm)
    check_finite("weights of the causal model", parts["scm"])
    if judge is not None:
        parts["judge"] = stored_tensors(judge.network, storage)
    contents = {part: safetensors.save(tensors) for part, tensors in parts.items()}
    fields = {
        "format": FORMAT,
        "fcfg": __version__,
        "storage": storage,
        **kind.config.describe(model.image_model),
        "attributes": scm.space.to_config(),
        "graph": {node: list(parents) for node, parents in scm.graph.parents.items()},
        "mechanisms": {node: list(parents) for node, parents in scm.fitted_parents.items()},
        "judge": None if judge is None else judge.network.config,
        "factors": {} if judge is None else judge.factors,
        "files": {part: f"{part}-{digest(data)}.safetensors" for part, data in contents.items()},
        "provenance": _json_values(model.provenance),
        "kind": model.kind,
    }
    config = validate(kind.config, fields, f"config of a model of kind '{model.kind}'")
    values = json.loads(config.model_dump_json(exclude={"digest"}))
    values["digest"] = digest_of_values(values)
    written = {config.files[part]: data for part, data in contents.items()}
    written[CONFIG] = json.dumps(values, indent=2, ensure_ascii=False).encode()
    for name, kind_of_record in config.records.items():
        record = getattr(model, name)
        if record is None:
            stale.add(kind_of_record.file)
        else:
            record.check(scm.space, f"{record.noun} of the model")
            written[kind_of_record.file] = record.to_bytes()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in written.items():
            write_atomically(folder / name, data)
        for name in stale - set(written):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"model {folder}",
            expected="a folder that can be written",
            got=error.strerror or error,
            do="choose another path or make room; what was there before is whole",
        ) from error


def load_model(path: str | os.PathLike[str], network: nn.Module | None) -> Any:
    """Return the model of a folder, of whichever kind, on the CPU."""
    folder = model_folder(path)
    config, values = read_config(folder)
    if config.digest not in (None, digest_of_values(values)):
        raise InputError(
            f"model {folder}",
            expected=f"the {CONFIG} that was written with its weights",
            got="an edited one",
            do="copy the folder again; or remove 'digest' from it, if the change is meant",
        )
    wanted = config.network if isinstance(config.network, str) else None
    if (network is None) != (wanted is None):
        raise InputError(
            f"model {folder}",
            expected=f"network= with a {wanted}, whose weights it holds"
            if network is None
            else "no network=, since it holds one that fcfg knows",
            got="none" if network is None else type(network).__name__,
            do="call load again so",
        )
    try:
        model = _build(folder, config, network)
    except (InputError, RuntimeError, ValueError, TypeError, ArithmeticError) as error:
        if isinstance(error, InputError) and str(folder) in str(error):
            raise
        told = str(error).partition("\n")[0]  # without the stack of torch
        raise refusal(folder, f"a {CONFIG} that makes sense", told) from error
    model.folder = folder
    for name, kind_of_record in config.records.items():
        record = kind_of_record.of_model(folder, model.image_model, model.judge)
        if record is not None:
            record.check(model.space, f"{record.noun} {folder / record.file}")
        setattr(model, name, record)
    return model


def _build(folder: Path, config: ModelConfig[Any], network: nn.Module | None) -> Any:
    space = AttributeSpace.from_config(config.attributes)
    scm = StructuralCausalModel(space, CausalGraph(config.graph))
    for node, parents in config.mechanisms.items():
        scm.add_mechanism(node, parents)
    fill(scm, folder, config.files, "scm")
    scm.requires_grad_(False)
    reader = None
    if config.judge is not None:
        with torch.device("meta"):  # shapes only: every weight comes from the file
            judge = Judge(config.judge)
        fill(judge, folder, config.files, "judge")
        reader = AttributeJudge(judge, space, config.factors).eval()
    image_model = config.build(space, network)
    for part, module in config.networks(image_model).items():
        fill(module, folder, config.files, part)
    model = find_kind(config.kind, f"model {folder}").model
    return model(image_model.eval(), scm, judge=reader, provenance=config.provenance)


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


def fill(module: nn.Module, folder: Path, files: Mapping[str, str], part: str) -> None:
    """Load the weights of one part, and check that they are the ones that were saved."""
    name = Path(files.get(part, "missing")).name
    tensors: Mapping[str, Tensor] = module.state_dict()
    most = _HEADER + sum(_HEADER + 8 * tensor.numel() for tensor in tensors.values())
    try:
        status = (folder / name).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            kind = "a pipe or a device" if not stat.S_ISREG(status.st_mode) else "a larger file"
            raise refusal(folder, f"weights in {name} that fit its {part}", kind)
        data = (folder / name).read_bytes()
        if name != f"{part}-{digest(data)}.safetensors":
            raise refusal(folder, f"{name} as it was written", "other contents, or a part of it")
        tensors = safetensors.load(data)
        check_finite(f"model {folder}, {part}", tensors)
        if part != "scm":
            tensors = {k: t.float() if t.is_floating_point() else t for k, t in tensors.items()}
        meta = any(parameter.is_meta for parameter in module.parameters())
        module.load_state_dict(tensors, assign=meta)
    except OSError as error:
        raise refusal(folder, f"the file {name}", error.strerror) from error
    except (RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise refusal(folder, f"weights in {name} that fit its {part}", reason) from error


def stored_tensors(module: nn.Module, storage: Storage) -> dict[str, Tensor]:
    """Return the weights of a module in the precision of the file."""
    target = getattr(torch, storage)
    stored: dict[str, Tensor] = {}
    for key, tensor in exact_tensors(module).items():
        if not tensor.is_floating_point():
            stored[key] = tensor
            continue
        stored[key] = tensor.to(target)
        lost = tensor.dtype == torch.float64 or not torch.isfinite(stored[key]).all()
        if lost:
            raise InputError(
                f"weights '{key}'",
                expected=f"finite numbers that fit into {storage}",
                got=f"{tensor.dtype} up to {tensor.abs().max().item():.3g}".replace("torch.", ""),
                do="convert the network to float32, or look for a training that diverged",
            )
    return stored


def exact_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of the tensors of a module, tied weights included."""
    state: Mapping[str, Tensor] = module.state_dict()
    own = torch.contiguous_format
    return {key: tensor.detach().cpu().clone(memory_format=own) for key, tensor in state.items()}


def digest(data: bytes) -> str:
    """Return the digest that names a file."""
    return hashlib.sha256(data).hexdigest()[:12]


def refusal(folder: Path, expected: str, got: object) -> InputError:
    """Return the refusal of a folder."""
    return InputError(f"model {folder}", expected=expected, got=got, do=ADVICE)
