"""Whole pipelines of diffusers: wrapped by one call, they do what they do by themselves."""

from __future__ import annotations

from copy import deepcopy
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fcfg
from fcfg import Guidance, wrap_pipeline
from fcfg.diffusion.foreign import _pack
from fcfg.pipeline.foreign import ForeignPipeline
from refusal import refused
from tiny_foreign import SCM, SPACE, TABLE, WRITE, generated
from tiny_pipelines import PIPELINES, STEPS, stable_diffusion

FLOWS = {"sd3", "flux"}
WEIGHT = 4.0
VALUES, WHOLE = torch.from_numpy(SPACE.encode(SPACE.parse(TABLE))), torch.ones(2, 2).bool()
GROUPS = Guidance.fcfg(affected=3, invariant=-1).replace(anchor=True, drawn_noise=True)


def told() -> list[str]:
    """The prompts of those of TABLE."""
    return ["a face, smiling, grey hair", "a face, serious, red hair"]


def answer(model: ForeignPipeline) -> Tensor:
    model = deepcopy(model)
    model.denoiser.double()  # rounding grows in networks that nobody trained
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 16, 16, generator=generator) * 2 - 1
    how: dict[str, Any] = {"guidance": GROUPS, "sampling": "ddim uniform 4"}
    return model.counterfactual(images, TABLE, {"smiling": "flip"}, **how).images


def itself(name: str, pipeline: Any, x: Tensor) -> Tensor:
    """The call of a pipeline with its own guidance, and latents from its last step."""
    asked = {"num_inference_steps": STEPS, "output_type": "latent", "height": 16, "width": 16}
    if name != "flux":
        return pipeline(told(), guidance_scale=WEIGHT, latents=x, **asked).images
    asked |= {"true_cfg_scale": WEIGHT, "negative_prompt": ["", ""]}
    return pipeline(told(), latents=_pack(x), **asked).images


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_takes_the_steps_of_its_own_call(name: str) -> None:
    pipeline = PIPELINES[name]().to(torch.float64)
    pipeline.set_progress_bar_config(disable=True)
    for table in {"alphas_cumprod", "final_alpha_cumprod"} & set(vars(pipeline.scheduler)):
        setattr(pipeline.scheduler, table, getattr(pipeline.scheduler, table).double())
    model = wrap_pipeline(pipeline, SCM, WRITE)
    x = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    other = itself(name, pipeline, x)
    times = [int(t) + 1 for t in pipeline.scheduler.timesteps] + [1]
    times = list(range(STEPS, -1, -1)) if name in FLOWS else times
    with torch.no_grad():
        one, plain = (generated(model, x, times, weight) for weight in (WEIGHT, 1.0))
    one, plain = (_pack(each) if name == "flux" else each for each in (one, plain))
    bound = 1e-6 if name in FLOWS else 1e-12  # steps of flows are rounded to float32 there
    assert ((one - other).abs().max() / other.abs().max()).item() < bound
    assert ((one - plain).square().mean() / plain.square().mean()).sqrt() > 0.01


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_is_saved_and_loaded_without_its_network(name: str, tmp_path: Path) -> None:
    model = wrap_pipeline(PIPELINES[name](), SCM, WRITE)
    one = answer(model)
    assert one.isfinite().all()
    model.save(tmp_path / "model")
    other = fcfg.load(tmp_path / "model")
    assert isinstance(other, ForeignPipeline)
    assert torch.allclose(answer(other), one, atol=1e-4)


def test_each_prompt_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = stable_diffusion()
    asked: list[str] = []
    encode = pipeline.encode_prompt

    def listening(prompt: list[str], *args: Any, **options: Any) -> Any:
        asked.extend(prompt)
        return encode(prompt, *args, **options)

    listening.__signature__ = signature(encode)
    monkeypatch.setattr(pipeline, "encode_prompt", listening)
    model = wrap_pipeline(pipeline, SCM, WRITE)
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) == 12
    made = model.denoiser.network.conditioner(VALUES.float(), WHOLE)
    embedded = encode(told(), "cpu", 1, False)[0]
    assert torch.allclose(made["encoder_hidden_states"], embedded, atol=1e-6)


def test_a_pipeline_of_another_family_is_refused_with_what_to_do() -> None:
    pipeline = stable_diffusion()
    parts = {"components": pipeline.components | {"unet": pipeline.vae}}
    other = type("Other", (), parts)()
    refused("pipeline Other", "'UNet2DConditionModel'").by(wrap_pipeline, other, SCM, WRITE)


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("sd", "vae"), ("sd", "text_encoder"), ("sdxl", "tokenizer_2"), ("flux", "text_encoder_2")],
)
def test_a_pipeline_without_a_part_is_refused(name: str, lacks: str) -> None:
    pipeline = PIPELINES[name]()
    setattr(pipeline, lacks, None)
    with refused(
        "pipeline", "VAE, tokenizers and text encoders", f"no '{lacks}'", "load it whole"
    ):
        wrap_pipeline(pipeline, SCM, WRITE)


def test_encoders_may_be_missing_and_autoencoders_that_overflow_are_kept_in_float32() -> None:
    pipeline = PIPELINES["sd3"]()
    pipeline.text_encoder_3 = pipeline.tokenizer_3 = None
    assert answer(wrap_pipeline(pipeline, SCM, WRITE)).isfinite().all()
    pipeline = PIPELINES["sdxl"]().to(torch.float16)
    model = wrap_pipeline(pipeline, SCM, WRITE)
    assert next(model.denoiser.codec.parameters()).dtype == torch.float32
    assert pipeline.vae.dtype == torch.float16
    assert answer(model).isfinite().all()


def with_lora(name: str) -> Any:
    """A pipeline with a LoRA that is not fused."""
    peft = pytest.importorskip("peft", reason="needs peft, which no extra installs")
    pipeline = PIPELINES[name]()
    network = pipeline.unet if name in {"sd", "sdxl"} else pipeline.transformer
    shape = {"r": 2, "lora_alpha": 16, "target_modules": ["to_q", "to_k", "to_v"]}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network.add_adapter(peft.LoraConfig(**shape, init_lora_weights=False), "own")
    return pipeline


@pytest.mark.parametrize("name", PIPELINES)
def test_a_lora_is_asked_and_kept_once_it_is_fused(name: str, tmp_path: Path) -> None:
    plain, pipeline = wrap_pipeline(PIPELINES[name](), SCM, WRITE), with_lora(name)
    loose = wrap_pipeline(pipeline, SCM, WRITE)
    asked = answer(loose)
    without = answer(plain)
    assert (asked - without).abs().max() > 0.001 * without.abs().max()
    refused("network diffusers.", "a LoRA beside them").by(loose.save, tmp_path / "loose")
    pipeline.fuse_lora(components=["unet" if name in {"sd", "sdxl"} else "transformer"])
    pipeline.unload_lora_weights()
    with refused("source", "a fused LoRA", "leave it out"):
        wrap_pipeline(pipeline, SCM, WRITE, source={"source": "somewhere"})
    fused = wrap_pipeline(pipeline, SCM, WRITE)
    fused.save(tmp_path / "model")
    for kept in (fused, fcfg.load(tmp_path / "model")):
        assert (answer(kept) - asked).norm() < 0.01 * (asked - without).norm()


def test_a_lora_is_refused_without_peft_too(tmp_path: Path) -> None:
    class Tuned(torch.nn.Module):
        def __init__(self, base_layer: torch.nn.Module) -> None:
            super().__init__()
            self.base_layer = base_layer

        def forward(self, x: Tensor) -> Tensor:
            return 2 * self.base_layer(x)

    pipeline = stable_diffusion()
    pipeline.unet.conv_in = Tuned(pipeline.unet.conv_in)
    model = wrap_pipeline(pipeline, SCM, WRITE)
    with refused("network diffusers.UNet2DConditionModel", "a LoRA beside them", "then save"):
        model.save(tmp_path / "loose")
    pipeline._merged_adapters = {"own"}
    with refused("source", "a fused LoRA", "leave it out"):
        wrap_pipeline(pipeline, SCM, WRITE, source={"source": "somewhere"})
