"""SA-DCG as a kind of model: a pipeline whose denoiser knows what an image shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.guidance import Guidance
from fcfg.model import Traits
from fcfg.pipeline.counterfactual import CounterfactualPipeline, DenoiserConfig
from fcfg.pipeline.plans import Defaults
from fcfg.rivals.sadcg.denoiser import SemanticDenoiser, SemanticEmbedder
from fcfg.rivals.sadcg.network import SemanticConfig, SemanticEncoder, SemanticUNet
from fcfg.storage import register_kind


class SemanticPipelineConfig(DenoiserConfig[SemanticDenoiser]):
    """A diffusion pipeline with semantic abduction (SA-DCG)."""

    network: SemanticConfig

    @classmethod
    def describe(cls, image_model: SemanticDenoiser) -> dict[str, Any]:
        return super().describe(image_model) | {"network": image_model.encoder.config}

    @classmethod
    def networks(cls, image_model: SemanticDenoiser) -> dict[str, nn.Module]:
        names = ("network", "embedder", "encoder")
        return {name: getattr(image_model, name) for name in names}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> SemanticDenoiser:
        with torch.device("meta"):
            return SemanticDenoiser(
                SemanticUNet(self.network),
                SemanticEmbedder(space, self.network.latent),
                self.noising,
                SemanticEncoder(self.network),
                parameterisation=self.parameterisation,
            )


@register_kind(SemanticPipelineConfig)
class SemanticPipeline(CounterfactualPipeline):
    """A pipeline that also infers the semantics of an image, and masks all attributes together."""

    kind = "semantic"
    traits = Traits(
        steps=True,
        any_size=True,
        trust=True,
        compared={
            "guidance": ["cfg:2.0", "cfg:3.0", "cfg:2.0;align=1", "cfg:2.0;anchor=true"],
            "sampling": "ddim uniform 50",  # which the alignment needs
        },
    )
    defaults = Defaults(own=Guidance.cfg(2.0), paper=Guidance.cfg(2.0))
