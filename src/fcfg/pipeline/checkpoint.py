"""Checkpoints: a folder with ``config.json`` and safetensors files, and nothing to unpickle.

The config is written last, in one atomic step, and names the weight files by their content: even
after a crash, a folder holds either the old pipeline or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import Judge, JudgeConfig, UNet, UNetConfig
from fcfg.diffusion.schedule import Kind, NoiseSchedule, Parameterisation
from fcfg.judge import AttributeJudge
from fcfg.pipeline.calibration import Calibration
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.thresholds import Thresholds
from fcfg.support.config_files import parse_json, read_text
from fcfg.support.errors import InputError, check_among, check_is
from fcfg.support.files import write_atomically
from fcfg.version import __version__

FORMAT = 1
Storage: TypeAlias = Literal["float32", "float16"]
_CONFIG = "config.json"
_MODELS = Path(__file__).parent / "models"
_ADVICE = "check the path, or copy the folder again"
_HEADER = 4096  # bytes that a file of weights may have for each tensor, beside its numbers


class CheckpointConfig(BaseModel):
    """Contents of ``config.json``: everything of a pipeline that is not a tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int = Field(ge=1)  #: of the folder; readers refuse a newer one
    fcfg: str  #: version that wrote it
    storage: Storage  #: of the weights of network, embedder and judge
    network: UNetConfig | str  #: or the name of a user-defined class
    channels: int = Field(ge=1)
    stride: int = Field(ge=1)
    parameterisation: Parameterisation
    schedule: Kind
    steps: int  #: number T of times
    embedding: int = Field(ge=1)  #: width of an attribute's block
    attributes: dict[str, dict[str, Any]]
    graph: dict[str, list[str]]
    mechanisms: dict[str, list[str]]  #: node to the parents its mechanism was fitted on
    judge: JudgeConfig | None
    factors: dict[
        str, tuple[float, float]
    ] = {}  #: mean and standard deviation of those that the judge reads
    files: dict[str, str]  #: part to file name
    provenance: dict[str, Any]
    digest: str | None = None  #: of all other fields; missing in older folders


def save(
    pipeline: CounterfactualPipeline, path: str | os.PathLike[str], storage: Storage = "float32"
) -> None:
    """Write a pipeline to a folder, atomically.

    Args:
        pipeline: The pipeline. Of a network that is not a :class:`fcfg.UNet`, only the weights are
            stored, and :func:`load` needs the module.
        path: The folder, which is created if missing; an older pipeline in it is replaced.
        storage: 'float32', which keeps counterfactuals identical bit by bit, or 'float16', half
            the size. The structural causal model is always stored exactly.
    """
    folder = _folder(path)
    denoiser, scm, judge = pipeline.denoiser, pipeline.scm, pipeline.judge
    if judge is not None and not isinstance(judge, AttributeJudge):
        raise InputError(
            "judge",
            expected="a fcfg.AttributeJudge, which a config can describe",
            got=type(judge).__name__,
            do="save another judge by yourself, and set pipeline.judge after loading",
        )
    stale = replaced_files(folder)
    check_among("storage", storage, get_args(Storage))
    parts = {
        "network": _stored(denoiser.network, storage),
        "embedder": _stored(denoiser.embedder, storage),
        "scm": _tensors(scm),
    }
    if judge is not None:
        parts["judge"] = _stored(judge.network, storage)
    contents = {part: safetensors.save(tensors) for part, tensors in parts.items()}
    network = denoiser.network
    config = CheckpointConfig(
        format=FORMAT,
        fcfg=__version__,
        storage=storage,
        network=network.config if type(network) is UNet else type(network).__qualname__,
        channels=denoiser.channels,
        stride=denoiser.stride,
        parameterisation=denoiser.parameterisation,
        schedule=denoiser.schedule.kind,
        steps=denoiser.schedule.steps,
        embedding=denoiser.embedder.width,
        attributes=pipeline.space.to_config(),
        graph={node: list(parents) for node, parents in pipeline.graph.parents.items()},
        mechanisms={node: list(parents) for node, parents in scm.fitted_parents.items()},
        judge=None if judge is None else judge.network.config,
        factors={} if judge is None else judge.factors,
        files={part: f"{part}-{_digest(data)}.safetensors" for part, data in contents.items()},
        provenance=_json_values(pipeline.provenance),
    )
    values = json.loads(config.model_dump_json(exclude={"digest"}))
    values["digest"] = _digest_of_values(values)
    described = json.dumps(values, indent=2, ensure_ascii=False).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part, data in contents.items():
            write_atomically(folder / config.files[part], data)
        write_atomically(folder / _CONFIG, described)
        kept = {Calibration: pipeline.calibration, Thresholds: pipeline.thresholds}
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


def load(
    path: str | os.PathLike[str], *, network: nn.Module | None = None
) -> CounterfactualPipeline:
    """Read a pipeline that :func:`save` wrote, onto the CPU.

    Args:
        path: A folder, or the name of a model that comes with the package (see
            :func:`shipped`); a folder of that name is ``./name``.
        network: The module the weights belong to, where it is not a
            :class:`fcfg.diffusion.networks.UNet`.
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
    if (network is None) == isinstance(config.network, str):
        raise InputError(
            f"checkpoint {folder}",
            expected=f"network= with a {config.network}, whose weights it holds"
            if network is None
            else "no network=, since it holds a UNet",
            got="none" if network is None else type(network).__name__,
            do="call load again so",
        )
    try:
        pipeline = _build(folder, config, network)
    except (InputError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError) and str(folder) in str(error):
            raise
        raise _refusal(folder, f"a {_CONFIG} that makes sense", error) from error
    pipeline.folder = folder
    pipeline.calibration = Calibration.of_model(folder, pipeline.denoiser)
    if pipeline.calibration is not None:
        pipeline.space.check_known(pipeline.calibration.attributes, f"calibration {folder}")
    pipeline.thresholds = Thresholds.of_model(folder, pipeline.denoiser, pipeline.judge)
    return pipeline


def shipped() -> tuple[str, ...]:
    """Return the names of the models that come with the package."""
    return tuple(sorted(config.parent.name for config in _MODELS.glob(f"*/{_CONFIG}")))


def read_graph(path: str | os.PathLike[str]) -> CausalGraph:
    """Return the causal graph of a pipeline without reading its weights.

    Args:
        path: Folder or name, as in :func:`load`.
    """
    return CausalGraph(_read_config(_model_folder(path))[0].graph)


def _build(
    folder: Path, config: CheckpointConfig, network: nn.Module | None
) -> CounterfactualPipeline:
    space = AttributeSpace.from_config(config.attributes)
    scm = StructuralCausalModel(space, CausalGraph(config.graph))
    for node, parents in config.mechanisms.items():
        scm.add_mechanism(node, parents)
    _fill(scm, folder, config, "scm")
    scm.requires_grad_(False)
    with torch.device("meta"):  # shapes only: every weight comes from the file
        embedder = AttributeEmbedder(space, config.embedding)
        judge = None if config.judge is None else Judge(config.judge)
        if isinstance(config.network, UNetConfig):
            network = UNet(config.network)
    assert network is not None
    _fill(embedder, folder, config, "embedder")
    _fill(network, folder, config, "network")
    if judge is not None:
        _fill(judge, folder, config, "judge")
    denoiser = Denoiser(
        network,
        embedder,
        NoiseSchedule(config.schedule, config.steps),
        channels=config.channels,
        stride=config.stride,
        parameterisation=config.parameterisation,
    )
    denoiser.eval()
    reader = None if judge is None else AttributeJudge(judge, space, config.factors).eval()
    return CounterfactualPipeline(denoiser, scm, judge=reader, provenance=config.provenance)


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
    text = read_text(folder / _CONFIG, subject, expected=expected)
    values = parse_json(text, f"{subject}, {_CONFIG}", do=_ADVICE)
    if "format" not in values:
        raise _refusal(folder, expected, "something else")
    version = values["format"]
    if not isinstance(version, int) or version > FORMAT:
        raise InputError(
            subject,
            expected=f"format version {FORMAT} or older",
            got=repr(version),
            do="upgrade fcfg to read it",
        )
    try:
        return CheckpointConfig.model_validate_json(text), values
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"])
        raise _refusal(folder, f"a valid {_CONFIG}", f"'{where}': {first['msg']}") from error


def _fill(module: nn.Module, folder: Path, config: CheckpointConfig, part: str) -> None:
    """Load the weights of one part, and check that they are the ones that were saved."""
    name = Path(config.files.get(part, "missing")).name
    tensors: Mapping[str, Tensor] = module.state_dict()
    most = _HEADER + sum(_HEADER + 8 * tensor.numel() for tensor in tensors.values())
    try:
        status = (folder / name).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            kind = "a pipe or a device" if not stat.S_ISREG(status.st_mode) else "a larger file"
            raise _refusal(folder, f"weights in {name} that fit its {part}", kind)
        data = (folder / name).read_bytes()
        if name != f"{part}-{_digest(data)}.safetensors":
            raise _refusal(folder, f"{name} as it was written", "other contents, or a part of it")
        tensors = safetensors.load(data)
        if part != "scm":
            tensors = {key: _widened(tensor) for key, tensor in tensors.items()}
        meta = any(parameter.is_meta for parameter in module.parameters())
        module.load_state_dict(tensors, assign=meta)
    except OSError as error:
        raise _refusal(folder, f"the file {name}", error.strerror) from error
    except (RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise _refusal(folder, f"weights in {name} that fit its {part}", reason) from error


def _stored(module: nn.Module, storage: Storage) -> dict[str, Tensor]:
    """Return the weights in the precision of the file."""
    target = getattr(torch, storage)
    stored: dict[str, Tensor] = {}
    for key, tensor in _tensors(module).items():
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


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of the tensors of a module, tied weights included."""
    state: Mapping[str, Tensor] = module.state_dict()
    own = torch.contiguous_format
    return {key: tensor.detach().cpu().clone(memory_format=own) for key, tensor in state.items()}


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


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _digest_of_values(values: Mapping[str, Any]) -> str:
    """Return the digest of a config, independent of its layout; the order of keys counts."""
    rest = {key: value for key, value in values.items() if key != "digest"}
    return _digest(json.dumps(rest).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _refusal(folder: Path, expected: str, got: object) -> InputError:
    return InputError(
        f"checkpoint {folder}",
        expected=expected,
        got=got,
        do=_ADVICE,
    )
