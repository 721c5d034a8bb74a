"""Whole pipelines of diffusers: each text encoder, network and autoencoder is tiny and real."""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest

from tiny_foreign import WIDTH, autoencoder, filled, flux, prompted_unet, sd3, sdxl

STEPS = 5  #: that the timesteps of flows are set to
_LETTERS = [*ascii_lowercase, ","]


def _library(name: str) -> Any:
    return pytest.importorskip(name, reason="needs the extra diffusers")


def _clip(kind: str = "CLIPTextModel") -> tuple[Any, Any]:
    """A tokenizer of letters, and a text encoder."""
    library = _library("transformers")
    words = ["<|startoftext|>", "<|endoftext|>", *(x + e for x in _LETTERS for e in ("", "</w>"))]
    shape = {"hidden_size": WIDTH, "intermediate_size": 8, "num_hidden_layers": 2}
    shape |= {"num_attention_heads": 2, "max_position_embeddings": 40, "projection_dim": WIDTH}
    config = library.CLIPTextConfig(**shape, vocab_size=len(words), bos_token_id=0, eos_token_id=1)
    vocabulary = {word: at for at, word in enumerate(words)}
    tokenizer = library.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=40)
    return tokenizer, filled(lambda: getattr(library, kind)(config))


def _t5(width: int) -> tuple[Any, Any]:
    library = _library("transformers")
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", *_LETTERS]
    shape = {"d_model": width, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    config = library.T5Config(**shape, vocab_size=len(pieces))
    scores = [(piece, -float(at > 3)) for at, piece in enumerate(pieces)]
    tokenizer = library.T5Tokenizer(vocab=scores, extra_ids=0)
    return tokenizer, filled(lambda: library.T5EncoderModel(config))


def _ddim() -> Any:
    betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    own = {"clip_sample": False, "set_alpha_to_one": False, "steps_offset": 1}
    return _library("diffusers").DDIMScheduler(**betas, **own)


def stable_diffusion() -> Any:
    """As Stable Diffusion 1 and 2."""
    tokenizer, encoder = _clip()
    parts = {"text_encoder": encoder, "tokenizer": tokenizer, "unet": prompted_unet()[0][0]}
    parts |= {"vae": autoencoder()[0], "scheduler": _ddim(), "requires_safety_checker": False}
    none = {"safety_checker": None, "feature_extractor": None}
    return _library("diffusers").StableDiffusionPipeline(**parts, **none)


def stable_diffusion_xl() -> Any:
    """As Stable Diffusion XL: two encoders, and zeros in place of an empty prompt."""
    tokenizer, encoder = _clip()
    other_tokenizer, other_encoder = _clip("CLIPTextModelWithProjection")
    texts = {"text_encoder": encoder, "text_encoder_2": other_encoder, "tokenizer": tokenizer}
    texts |= {"tokenizer_2": other_tokenizer}
    parts = {"vae": autoencoder()[0], "unet": sdxl(2 * WIDTH)[0][0], "scheduler": _ddim()}
    library = _library("diffusers")
    return library.StableDiffusionXLPipeline(**texts, **parts, add_watermarker=False)


def stable_diffusion_3() -> Any:
    """As Stable Diffusion 3: three encoders, and the shift of a flow."""
    library = _library("diffusers")
    tokenizer, encoder = _clip("CLIPTextModelWithProjection")
    last_tokenizer, last_encoder = _t5(2 * WIDTH)
    scheduler = library.FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(STEPS)
    return library.StableDiffusion3Pipeline(
        vae=autoencoder()[0],
        text_encoder=encoder,
        text_encoder_2=encoder,
        text_encoder_3=last_encoder,
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        tokenizer_3=last_tokenizer,
        transformer=sd3(2 * WIDTH)[0][0],
        scheduler=scheduler,
    )


def undistilled_flux() -> Any:
    """As Flux before its guidance is distilled, with a shift that depends on the size."""
    library = _library("diffusers")
    tokenizer, encoder = _clip()
    other_tokenizer, other_encoder = _t5(WIDTH)
    scheduler = library.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    scheduler.set_timesteps(sigmas=np.linspace(1, 1 / STEPS, STEPS), mu=0.459375)  # of 16 tokens
    texts = {"text_encoder": encoder, "text_encoder_2": other_encoder, "tokenizer": tokenizer}
    texts |= {"tokenizer_2": other_tokenizer}
    parts = {"vae": autoencoder()[0], "transformer": flux()[0][0], "scheduler": scheduler}
    return library.FluxPipeline(**texts, **parts)


PIPELINES = {"sd": stable_diffusion, "sdxl": stable_diffusion_xl}
PIPELINES |= {"sd3": stable_diffusion_3, "flux": undistilled_flux}
