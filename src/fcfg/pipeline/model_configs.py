"""How a folder describes a model: a config for each kind, from a model and back to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import (
    Judge,
    JudgeConfig,
    SemanticConfig,
    SemanticEncoder,
    SemanticUNet,
    UNet,
    UNetConfig,
)
from fcfg.diffusion.schedule import Kind, NoiseSchedule, Parameterisation
from fcfg.diffusion.semantic import SemanticDenoiser, SemanticEmbedder
from fcfg.hvae import HVAE, HVAEConfig, HVAEModel
from fcfg.judge import AttributeJudge
from fcfg.model import AnyModel
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.weight_files import Storage, fill

FORMAT = 2
#: Older releases, which read format 1, know diffusion pipelines only.
FORMATS = {"diffusion": 1, "semantic": FORMAT, "hvae": FORMAT}


class CheckpointConfig(BaseModel):
    """Contents of ``config.json`` of any model: everything that is not a tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int = Field(ge=1)  #: of the folder; readers refuse a newer one
    fcfg: str  #: version that wrote it
    storage: Storage  #: of the weights of networks and judge
    attributes: dict[str, dict[str, Any]]
    graph: dict[str, list[str]]
    mechanisms: dict[str, list[str]]  #: node to the parents its mechanism was fitted on
    judge: JudgeConfig | None
    factors: dict[
        str, tuple[float, float]
    ] = {}  #: mean and standard deviation of those that the judge reads
    files: dict[str, str]  #: part to file name
    network: Any  #: shape of the image model, or the name of a user-defined class
    provenance: dict[str, Any]
    digest: str | None = None  #: of all other fields; missing in older folders


class DiffusionConfig(CheckpointConfig):
    """A diffusion pipeline."""

    network: UNetConfig | str  #: or the name of a user-defined class
    channels: int = Field(ge=1)
    stride: int = Field(ge=1)
    parameterisation: Parameterisation
    schedule: Kind
    steps: int  #: number T of times
    embedding: int = Field(ge=1)  #: width of an attribute's block


class SemanticPipelineConfig(CheckpointConfig):
    """A diffusion pipeline with semantic abduction (SA-DCG)."""

    kind: Literal["semantic"] = "semantic"
    network: SemanticConfig
    parameterisation: Parameterisation
    schedule: Kind
    steps: int  #: number T of times


class HVAEModelConfig(CheckpointConfig):
    """A hierarchical VAE."""

    kind: Literal["hvae"] = "hvae"
    network: HVAEConfig


#: The config of each kind of model; folders that name no kind hold a diffusion pipeline.
CONFIGS: dict[str, type[CheckpointConfig]] = {
    "diffusion": DiffusionConfig,
    "semantic": SemanticPipelineConfig,
    "hvae": HVAEModelConfig,
}


def describe_model(model: AnyModel) -> tuple[dict[str, Any], dict[str, nn.Module]]:
    """Return the fields of a config that only this kind of model has, and its networks."""
    if isinstance(model, HVAEModel):
        return {"network": model.network.config}, {"network": model.network}
    assert isinstance(model, CounterfactualPipeline), "save refuses others"
    denoiser = model.denoiser
    network, parts = denoiser.network, {"network": denoiser.network, "embedder": denoiser.embedder}
    own = {
        "network": getattr(network, "config", None),
        "parameterisation": denoiser.parameterisation,
        "schedule": denoiser.schedule.kind,
        "steps": denoiser.schedule.steps,
    }
    if isinstance(denoiser, SemanticDenoiser):
        return own, parts | {"encoder": denoiser.encoder}
    own |= {"channels": denoiser.channels, "stride": denoiser.stride}
    own |= {"embedding": denoiser.embedder.width}
    if type(network) is not UNet:
        own["network"] = type(network).__qualname__
    return own, parts


def build_model(folder: Path, config: CheckpointConfig, network: nn.Module | None) -> AnyModel:
    """Return the model of a folder.

    Args:
        folder: The folder, with files of weights.
        config: Its config.
        network: Network of a user-defined class.
    """
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
    about: dict[str, Any] = {"judge": reader, "provenance": config.provenance}
    if isinstance(config, HVAEModelConfig):
        with torch.device("meta"):
            vae = HVAE(config.network)
        fill(vae, folder, config.files, "network")
        return HVAEModel(vae.eval(), scm, **about)
    denoiser = _denoiser(config, space, network)
    for part in ("embedder", "network", "encoder"):
        if hasattr(denoiser, part):
            fill(getattr(denoiser, part), folder, config.files, part)
    return CounterfactualPipeline(denoiser.eval(), scm, **about)


def _denoiser(
    config: CheckpointConfig, space: AttributeSpace, network: nn.Module | None
) -> Denoiser:
    """Return the denoiser of a config, without weights."""
    assert isinstance(config, DiffusionConfig | SemanticPipelineConfig)
    schedule = NoiseSchedule(config.schedule, config.steps)
    with torch.device("meta"):
        if isinstance(config, SemanticPipelineConfig):
            return SemanticDenoiser(
                SemanticUNet(config.network),
                SemanticEmbedder(space, config.network.latent),
                schedule,
                SemanticEncoder(config.network),
                parameterisation=config.parameterisation,
            )
        embedder = AttributeEmbedder(space, config.embedding)
        if isinstance(config.network, UNetConfig):
            network = UNet(config.network)
    assert network is not None
    return Denoiser(
        network,
        embedder,
        schedule,
        channels=config.channels,
        stride=config.stride,
        parameterisation=config.parameterisation,
    )
