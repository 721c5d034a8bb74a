"""Tiny real networks of diffusers and MONAI, no weight of which is zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fcfg import AttributeSpace, Binary, Categorical, CausalGraph, Guidance, StructuralCausalModel
from fcfg.diffusion.conditioners import AbstractConditioner, AttributeTokens, Lookup, Phrases
from fcfg.diffusion.foreign import ForeignNetwork
from fcfg.pipeline.foreign import ForeignPipeline
from fcfg.sampling import DDIM, Trajectory, integrate, steps_along
from tiny import randomised

SPACE = AttributeSpace([Binary("smiling"), Categorical("hair", ["dark", "grey", "red"])])
SCM = StructuralCausalModel(SPACE, CausalGraph({"smiling": [], "hair": []}))
TABLE = {"smiling": [1, 0], "hair": ["grey", "red"]}
WIDTH, TEXT = 8, 3  # of a token, and tokens of a text
COMBINATIONS, NULL = 6, 6
HAIR = {"dark": "dark hair", "grey": "grey hair", "red": "red hair"}
WRITE = Phrases("a face", "", smiling=("serious", "smiling"), hair=HAIR)


def diffusers(kind: str, **config: Any) -> tuple[nn.Module, None]:
    library = pytest.importorskip("diffusers", reason="needs the extra diffusers")
    return filled(lambda: getattr(library, kind)(**config)), None


def monai(kind: str, **config: Any) -> tuple[nn.Module, dict[str, Any]]:
    library = pytest.importorskip("monai.networks.nets", reason="needs the extra monai")
    return filled(lambda: getattr(library, kind)(**config)), config


def filled(build: Callable[[], nn.Module], scale: float = 0.1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return randomised(build().eval(), scale).requires_grad_(False)


def texts(prompts: list[str]) -> dict[str, Tensor]:
    """Stands for a text encoder: each text has numbers of its own."""
    rows = [
        torch.randn(TEXT, WIDTH, generator=torch.Generator().manual_seed(sum(map(ord, p))))
        for p in prompts
    ]
    return {"encoder_hidden_states": torch.stack(rows)}


def texts_and_pooled(prompts: list[str]) -> dict[str, Tensor]:
    found = texts(prompts)
    return found | {"pooled_projections": found["encoder_hidden_states"].mean(dim=1)}


def unet() -> tuple[tuple[nn.Module, Any], AbstractConditioner]:
    shape = {"block_out_channels": (8, 8), "layers_per_block": 1, "norm_num_groups": 4}
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    own = {"sample_size": 8, "num_class_embeds": COMBINATIONS + 1, "attention_head_dim": 4}
    return diffusers("UNet2DModel", **shape, **blocks, **own), Lookup.classes(SPACE, NULL)


def prompted_unet(**more: Any) -> tuple[tuple[nn.Module, Any], AbstractConditioner]:
    shape = {"sample_size": 8, "block_out_channels": (8, 8), "layers_per_block": 1}
    shape |= {"norm_num_groups": 4, "attention_head_dim": 4, "cross_attention_dim": WIDTH}
    blocks = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
    blocks |= {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}
    network = diffusers("UNet2DConditionModel", **blocks, **shape | more)
    return network, Lookup.prompts(SPACE, WRITE, texts)


def sdxl(width: int = WIDTH) -> tuple[tuple[nn.Module, Any], AbstractConditioner]:
    """Beside tokens it takes pooled texts and sizes, in a mapping."""

    def encode(prompts: list[str]) -> dict[str, Tensor]:
        found = texts(prompts)
        pooled = found["encoder_hidden_states"].mean(dim=1)
        beside = {"text_embeds": pooled, "time_ids": torch.arange(6.0).expand(len(prompts), 6)}
        return found | {f"added_cond_kwargs.{name}": table for name, table in beside.items()}

    widths = {"addition_time_embed_dim": 4, "projection_class_embeddings_input_dim": WIDTH + 24}
    widths["cross_attention_dim"] = width
    network, _ = prompted_unet(addition_embed_type="text_time", **widths)
    return network, Lookup.prompts(SPACE, WRITE, encode)


def dit() -> tuple[tuple[nn.Module, Any], AbstractConditioner]:
    heads = {"num_attention_heads": 2, "attention_head_dim": 4, "num_layers": 2}
    shape = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 8}
    network = diffusers(
        "DiTTransformer2DModel", num_embeds_ada_norm=COMBINATIONS, **heads, **shape
    )
    return network, Lookup.classes(SPACE, NULL)


def sd3(width: int = WIDTH) -> tuple[tuple[nn.Module, Any], AbstractConditioner]:
    heads = {"num_attention_heads": 2, "attention_head_dim": 4, "num_layers": 2}
    shape = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4}
    widths = {"joint_attention_dim": width, "caption_projection_dim": 8}
    widths |= {"pooled_projection_dim": width, "pos_embed_max_size": 8}
    network = diffusers("SD3Transformer2DModel", **heads, **shape, **widths)
    return network, Lookup.prompts(SPACE, WRITE, texts_and_pooled)


def flux() -> tuple[tuple[nn.Module, Any], AbstractConditioner]:
    heads = {"num_attention_heads": 2, "attention_head_dim": 8, "axes_dims_rope": (2, 2, 4)}
    widths = {"joint_attention_dim": WIDTH, "pooled_projection_dim": WIDTH, "in_channels": 16}
    layers = {"num_layers": 1, "num_single_layers": 1}
    network = diffusers("FluxTransformer2DModel", **heads, **widths, **layers)
    return network, Lookup.prompts(SPACE, WRITE, texts_and_pooled)


def monai_unet(dimensions: int = 3, channels: int = 2) -> tuple[Any, AbstractConditioner]:
    shape = {"spatial_dims": dimensions, "in_channels": channels, "out_channels": channels}
    inner = {"channels": [8, 8], "attention_levels": [False, True], "num_res_blocks": 1}
    heads = {"num_head_channels": 4, "norm_num_groups": 4}
    tokens = {"with_conditioning": True, "cross_attention_dim": WIDTH}
    network = monai("DiffusionModelUNet", **shape, **inner, **heads, **tokens)
    return network, randomised(AttributeTokens(SPACE, WIDTH, "context"), 0.1)


NETWORKS = {
    make.__name__: make for make in (unet, prompted_unet, sdxl, dit, sd3, flux, monai_unet)
}


@lru_cache
def foreign(name: str) -> ForeignNetwork:
    (network, config), conditioner = NETWORKS[name]()
    return ForeignNetwork(network, conditioner, config).eval()


def autoencoder() -> tuple[nn.Module, Any]:
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "layers_per_block": 1}
    blocks |= {"up_block_types": ("UpDecoderBlock2D",) * 2, "block_out_channels": (8, 8)}
    return diffusers("AutoencoderKL", **blocks, norm_num_groups=4)


def volume_autoencoder(
    dimensions: int = 3, channels: int = 1, latent_channels: int = 2
) -> tuple[nn.Module, dict[str, Any]]:
    shape = {"spatial_dims": dimensions, "in_channels": channels, "out_channels": channels}
    inner = {"num_res_blocks": [1, 1], "channels": [8, 8], "attention_levels": [False, False]}
    own = {"latent_channels": latent_channels, "norm_num_groups": 4}
    plain = dict.fromkeys(("with_encoder_nonlocal_attn", "with_decoder_nonlocal_attn"), False)
    return monai("AutoencoderKL", **shape, **inner, **own, **plain)


def generated(pipeline: ForeignPipeline, x: Tensor, times: Sequence[int], weight: float) -> Tensor:
    """Guided generation of those of TABLE, from noise or its latents."""
    denoiser, guidance = pipeline.denoiser, Guidance.cfg(weight)
    plan = pipeline.plan(["smiling"], guidance, sampling="ddim uniform 5")
    condition = denoiser.condition(SPACE.parse(TABLE))
    predictor = plan.setting.predictor(denoiser, condition, condition, plan.keep)
    weights = torch.full((len(times) - 1, 1), weight, dtype=x.dtype)
    guided = [True] * (len(times) - 1)
    steps = steps_along(denoiser.schedule, times, weights=weights, guided=guided, dtype=x.dtype)
    return integrate(predictor, Trajectory(x), steps, DDIM()).x
