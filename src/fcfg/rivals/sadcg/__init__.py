"""SA-DCG, a rival: diffusion counterfactuals with semantic abduction."""

from fcfg.rivals.sadcg.denoiser import SemanticDenoiser, SemanticEmbedder
from fcfg.rivals.sadcg.network import SemanticConfig, SemanticEncoder, SemanticUNet
from fcfg.rivals.sadcg.pipeline import SemanticPipeline

__all__ = [
    "SemanticConfig",
    "SemanticDenoiser",
    "SemanticEmbedder",
    "SemanticEncoder",
    "SemanticPipeline",
    "SemanticUNet",
]
