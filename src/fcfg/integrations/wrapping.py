"""One call from a network of diffusers or MONAI, or a whole pipeline, to what-if questions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn

from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.codec import AbstractCodec, Autoencoder
from fcfg.diffusion.conditioners import AbstractConditioner, Lookup, Setting
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.foreign import ForeignNetwork
from fcfg.diffusion.libraries import check_config, check_labels, config_of
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.pipeline.foreign import ForeignPipeline
from fcfg.support.errors import InputError, check_is, quoted, short

__all__ = ["wrap", "wrap_pipeline"]

#: What ``encode_prompt`` of a family returns, in its order, as arguments of the network; None
#: where it returns what is not needed.
_RETURNED: Mapping[str, tuple[str | None, ...]] = {
    "UNet2DConditionModel": ("encoder_hidden_states", None),
    "SDXL": ("encoder_hidden_states", None, "added_cond_kwargs.text_embeds", None),
    "SD3Transformer2DModel": ("encoder_hidden_states", None, "pooled_projections", None),
    "FluxTransformer2DModel": ("encoder_hidden_states", "pooled_projections", None),
}

#: Stable Diffusion 3 has zeros in place of its third encoder.
_OPTIONAL = frozenset({"text_encoder_3", "tokenizer_3"})


def wrap(
    network: nn.Module,
    scheduler: Any,
    scm: StructuralCausalModel,
    conditioner: AbstractConditioner,
    *,
    codec: AbstractCodec | None = None,
    judge: nn.Module | None = None,
    config: Mapping[str, Any] | None = None,
    source: Mapping[str, str] | None = None,
) -> ForeignPipeline:
    """Return a pipeline around a network of diffusers or MONAI.

    Args:
        network: Network, such as a ``UNet2DModel`` or a ``DiffusionModelUNet``.
        scheduler: Scheduler of its training, or a :class:`fcfg.NoiseSchedule`.
        scm: Attribute model.
        conditioner: Turns attributes into arguments of the network.
        codec: Autoencoder of a network that works on latents.
        judge: Classifier that reads attributes from images.
        config: Arguments that the network was built from; those of diffusers know them.
        source: Place of its weights, instead of storing them: 'source' and, if there are some,
            'revision' and 'subfolder', as ``from_pretrained`` takes them.
    """
    check_is("network", network, nn.Module, "a network, built from its class")
    check_is("conditioner", conditioner, AbstractConditioner, "Lookup or AttributeTokens")
    check_is("codec", codec, (AbstractCodec, NoneType), "an Autoencoder, or None")
    if source is not None and {"source", *source} - {"revision", "subfolder"} != {"source"}:
        expected, do = "'source', maybe 'revision' and 'subfolder'", "write source={'source': ...}"
        raise InputError("source", expected=expected, got=short(source), do=do)
    schedule = scheduler if isinstance(scheduler, NoiseSchedule) else NoiseSchedule.of(scheduler)
    if config is not None:
        check_config(network, config)
    check_labels(network, conditioner.labels)
    foreign = ForeignNetwork(network.eval(), conditioner.eval(), config, source)
    denoiser = Denoiser(foreign, foreign.attributes, schedule, codec=codec)
    if any(weight.is_meta for weight in denoiser.state_dict().values()):
        expected, do = "weights in memory", "load them all, without offloading, and then wrap"
        raise InputError("network, conditioner or codec", expected=expected, got="meta", do=do)
    return ForeignPipeline(denoiser, scm, judge=judge)


@torch.no_grad()
def wrap_pipeline(
    pipeline: Any,
    scm: StructuralCausalModel,
    write: Callable[[Setting], str],
    *,
    judge: nn.Module | None = None,
    source: Mapping[str, str] | None = None,
) -> ForeignPipeline:
    """Return a pipeline around one of diffusers, with its scheduler, VAE and text encoders.

    Each prompt is encoded once. Where the pipeline has zeros in place of an empty prompt, so has
    the null. A LoRA that is loaded is asked, too; one that is fused and unloaded is part of the
    network, and saved with it.

    Args:
        pipeline: Pipeline of Stable Diffusion 1, 2, XL or 3, or of Flux.
        scm: Attribute model, of attributes with choices.
        write: Returns the prompt of what is visible, such as
            :class:`fcfg.diffusion.conditioners.Phrases`.
        judge: Classifier that reads attributes from images.
        source: Place of the weights, as of :func:`wrap`, without 'subfolder'.
    """
    parts: Any = getattr(pipeline, "components", None)
    check_is("pipeline", parts, dict, "one of diffusers", do="load it with from_pretrained")
    check_is("scm", scm, StructuralCausalModel, "a fcfg.StructuralCausalModel")
    part = "transformer" if parts.get("transformer") is not None else "unet"
    network, vae, name = parts.get(part), parts.get("vae"), type(pipeline).__name__
    sizes = _sizes(pipeline, network)
    returned = _RETURNED.get("SDXL" if sizes else type(network).__name__)
    if returned is None:
        raise InputError(
            f"pipeline {name}",
            expected=f"one whose network is among {quoted(_RETURNED)}",
            got=type(network).__name__,
            do="encode the prompts with Lookup.prompts, and call wrap",
        )
    texts = {each for each in parts if each.startswith(("text_encoder", "tokenizer"))}
    wanted = {"vae", "text_encoder", "tokenizer", *texts} - _OPTIONAL
    if lacking := sorted(each for each in wanted if parts.get(each) is None):
        do, expected = "load it whole, with from_pretrained", "VAE, tokenizers and text encoders"
        raise InputError(f"pipeline {name}", expected=expected, got=f"no {quoted(lacking)}", do=do)
    if source is not None and getattr(pipeline, "fused_loras", None):
        raise InputError(
            "source",
            expected="none of a pipeline with a fused LoRA, whose weights are others",
            got=source,
            do="leave it out: the weights are then stored",
        )
    has_zeros = pipeline.config.get("force_zeros_for_empty_prompt", False)
    known = inspect.signature(pipeline.encode_prompt).parameters
    options = {"prompt_2": None, "prompt_3": None, "do_classifier_free_guidance": False}
    options |= {"device": network.device, "num_images_per_prompt": 1}
    given = {name: value for name, value in options.items() if name in known}

    def encode(prompts: list[str]) -> dict[str, Tensor]:
        found = pipeline.encode_prompt(prompt=prompts, **given)
        named = {n: t for n, t in zip(returned, found, strict=False) if n is not None}
        if has_zeros:
            for table in named.values():
                table[[not prompt for prompt in prompts]] = 0
        if sizes:
            named["added_cond_kwargs.time_ids"] = torch.tensor(sizes).expand(len(prompts), -1)
        return named

    def at(folder: str) -> dict[str, str] | None:
        return None if source is None else {**source, "subfolder": folder}

    if vae.dtype == torch.float16 and vae.config.force_upcast:
        vae = deepcopy(vae).float()  # it overflows in float16
    about = {"scale": vae.config.scaling_factor, "shift": vae.config.shift_factor or 0.0}
    codec = Autoencoder(vae.eval(), config_of(vae, None), source=at("vae"), **about)
    conditioner = Lookup.prompts(scm.space, write, encode)
    scheduler = parts["scheduler"]
    return wrap(network, scheduler, scm, conditioner, codec=codec, judge=judge, source=at(part))


def _sizes(pipeline: Any, network: Any) -> list[float]:
    """Return the sizes that Stable Diffusion XL is told: no crop, at the size of its training."""
    config: Any = getattr(network, "config", None)
    if getattr(config, "addition_embed_type", None) != "text_time":
        return []
    side = float(config.sample_size * pipeline.vae_scale_factor)
    return [side, side, 0.0, 0.0, side, side]
