"""Factored guidance in two stock blocks of diffusers: one reads pairs, one fields of its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from refusal import refused
from tiny import randomised

pytest.importorskip("transformers", reason="blocks of diffusers import it")

from diffusers import (
    ClassifierFreeGuidance,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    WanTransformer3DModel,
)
from diffusers.modular_pipelines.stable_diffusion_3.denoise import StableDiffusion3DenoiseStep
from diffusers.modular_pipelines.wan.denoise import WanDenoiseStep

from fcfg.integrations.guider import FactoredGuidance

STEPS = 4
Conditions = dict[str, dict[str, Tensor]]  # of every field, by name: 'cond', 'null', and groups


class Field(NamedTuple):
    """What a guider binds."""

    prompt: str  # input of the block, with negative_ before it for the null
    argument: str  # of the network
    shape: tuple[int, ...]


TOKENS = Field("prompt_embeds", "encoder_hidden_states", (1, 3, 16))
POOLED = Field("pooled_prompt_embeds", "pooled_projections", (1, 12))


def drawn(seed: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Block:
    """A stock denoising step with a tiny network."""

    def __init__(
        self,
        step: Any,
        network: Any,
        shape: tuple[int, ...],
        fields: dict[str, Field],
        **inputs: Any,
    ) -> None:
        self.network = randomised(network, 0.2).eval().requires_grad_(False)
        self.latents = drawn(5, shape)
        self.fields, self.pipeline, self.calls = fields, step.init_pipeline(), 0
        names = ("cond", "null", "smiling", "beard")
        self.conditions = {
            name: {n: drawn(9 * number + i, field.shape) for i, n in enumerate(names)}
            for number, (name, field) in enumerate(fields.items())
        }
        self.inputs = inputs
        for name, field in fields.items():
            self.inputs[field.prompt] = self.conditions[name]["cond"]
            self.inputs[f"negative_{field.prompt}"] = self.conditions[name]["null"]
        self.network.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.calls += 1

    def run(self, guider: Any, **changes: Any) -> Tensor:
        """Return the latents after all steps."""
        scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
        scheduler.set_timesteps(STEPS)
        self.calls = 0
        parts = {"transformer": self.network, "scheduler": scheduler, "guider": guider}
        self.pipeline.update_components(**parts)
        self.pipeline.set_progress_bar_config(disable=True)
        asked = {"latents": self.latents, "timesteps": scheduler.timesteps}
        asked |= {"num_inference_steps": STEPS, "output": "latents"}
        return self.pipeline(**asked, **(self.inputs | changes))

    def plain(self, weights: dict[str, float]) -> Tensor:
        """The loop written out: the formula, and Euler's steps."""
        scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
        scheduler.set_timesteps(STEPS)
        x = self.latents
        for t in scheduler.timesteps:
            null = guided = self.predict(x, t, "null")
            for group, weight in weights.items():
                guided = guided + weight * (self.predict(x, t, group) - null)
            x = scheduler.step(guided, t, x, return_dict=False)[0]
        return x

    def predict(self, x: Tensor, t: Tensor, group: str) -> Tensor:
        own = {field.argument: self.conditions[name][group] for name, field in self.fields.items()}
        time = t.expand(len(x))
        return self.network(hidden_states=x, timestep=time, **own, return_dict=False)[0]

    def bound(self, *groups: str) -> Conditions:
        return {
            field: {group: values[group] for group in groups}
            for field, values in self.conditions.items()
        }


def sd3() -> Block:
    shape = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "num_layers": 1}
    shape |= {"attention_head_dim": 8, "num_attention_heads": 2, "joint_attention_dim": 16}
    shape |= {"caption_projection_dim": 16, "pooled_projection_dim": 12, "out_channels": 4}
    network = SD3Transformer2DModel(**shape, pos_embed_max_size=8)
    fields = {"encoder_hidden_states": TOKENS, "text_embeds": POOLED}
    return Block(StableDiffusion3DenoiseStep(), network, (1, 4, 8, 8), fields)


def wan() -> Block:
    shape = {"num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4}
    shape |= {"out_channels": 4, "text_dim": 16, "freq_dim": 16, "ffn_dim": 32, "num_layers": 1}
    network = WanTransformer3DModel(patch_size=(1, 2, 2), **shape, rope_max_seq_len=8)
    fields = {"encoder_hidden_states": TOKENS}
    return Block(WanDenoiseStep(), network, (1, 4, 1, 8, 8), fields, dtype=torch.float32)


@pytest.fixture(scope="module", params=[sd3, wan])
def block(request: pytest.FixtureRequest) -> Block:
    return request.param()


@pytest.mark.parametrize(
    "options", [{}, {"start": 0.25, "stop": 0.75}, {"guidance_rescale": 0.7}, {"enabled": False}]
)
@pytest.mark.parametrize("weight", [3.0, 1.0])
def test_one_group_is_classifier_free_guidance(block, weight, options) -> None:
    stock = block.run(ClassifierFreeGuidance(weight, **options))
    calls = block.calls
    ours = block.run(FactoredGuidance({"all": weight}, **options))
    assert torch.equal(ours, stock)
    assert block.calls == calls


@pytest.mark.parametrize(
    "weights", [{"beard": 1.2, "smiling": 3.0}, {"beard": -1.0, "smiling": 3.0}]
)
def test_groups_are_the_plain_loop(block: Block, weights: dict[str, float]) -> None:
    guider = FactoredGuidance(weights).bind(**block.bound(*weights))
    ours = block.run(guider)
    assert block.calls == 3 * STEPS
    assert torch.equal(ours, block.plain(weights))
    unguided = block.plain({})
    assert (ours - unguided).abs().mean() > 0.01 * unguided.abs().mean()


def test_a_weight_of_0_costs_no_pass(block: Block) -> None:
    weights = {"smiling": 3.0, "beard": 0.0}
    ours = block.run(FactoredGuidance(weights).bind(**block.bound(*weights)))
    assert block.calls == 2 * STEPS
    assert torch.equal(ours, block.plain({"smiling": 3.0}))
    block.run(FactoredGuidance({"smiling": 1.0}).bind(**block.bound("smiling")))
    assert block.calls == STEPS
    guider, seen = FactoredGuidance({"smiling": 3.0, "beard": 2.0}), []
    for _ in range(guider.num_conditions):
        guider.prepare_models(block.network)
        seen.append(guider.is_conditional)
    assert seen == [True, True, False]  # only passes with a condition say so


def test_a_guider_is_saved_and_loaded_and_bound_again(block: Block, tmp_path: Path) -> None:
    weights = {"smiling": 3.0, "beard": -1.0}
    guider = FactoredGuidance(weights, start=0.25).bind(**block.bound(*weights))
    guider.save_pretrained(tmp_path)
    loaded = FactoredGuidance.from_pretrained(tmp_path)
    assert (loaded.config.weights, loaded.config.start) == (weights, 0.25)
    refused("bind", "not saved").by(block.run, loaded)
    loaded.bind(**block.bound(*weights))
    assert torch.equal(block.run(loaded), block.run(guider))


def test_impossible_settings_and_what_would_mix_conditions_are_refused(block: Block) -> None:
    two = {"smiling": 3.0, "beard": 1.0}
    for wrong in ({}, {"smiling": float("nan")}, {"pred_uncond": 1.0}, 3.0, {"smiling": "3"}):
        refused("weights").by(FactoredGuidance, wrong)
    refused("guidance_rescale").by(FactoredGuidance, two, guidance_rescale=0.5)
    tokens = block.bound(*two)["encoder_hidden_states"]
    with refused("bind, encoder_hidden_states", "each group"):
        FactoredGuidance(two).bind(**block.bound("smiling"))
    with refused("bind", "inputs of this block", "prompt_tokens"):
        block.run(FactoredGuidance(two).bind(prompt_tokens=tokens))
    refused("bind", "every group").by(block.run, FactoredGuidance(two))
    same = {name: block.inputs[name.removeprefix("negative_")] for name in block.inputs}
    refused("null condition", "the same").by(block.run, FactoredGuidance({"all": 3.0}), **same)


def test_a_pooled_vector_that_is_not_bound_is_refused() -> None:
    block, two = sd3(), {"smiling": 3.0, "beard": 1.0}
    tokens = block.bound(*two)["encoder_hidden_states"]
    with refused("bind", "text_embeds"):
        block.run(FactoredGuidance(two).bind(encoder_hidden_states=tokens))
    lone = {name: None for name in block.inputs if "negative" in name}
    with refused("null condition", "encoder_hidden_states"):
        block.run(FactoredGuidance(two).bind(**block.bound(*two)), **lone)
    with refused("null condition", "none for 'text_embeds'"):
        block.run(FactoredGuidance({"all": 3.0}), negative_pooled_prompt_embeds=None)
