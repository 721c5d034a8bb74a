"""Factored guidance in two stock blocks of diffusers: one reads pairs, one fields of its state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from refusal import refused

pytest.importorskip("transformers", reason="blocks of diffusers import it")

from diffusers import (
    ClassifierFreeGuidance,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    WanTransformer3DModel,
)
from diffusers.modular_pipelines.stable_diffusion_3.denoise import (
    StableDiffusion3DenoiseStep,
)
from diffusers.modular_pipelines.wan.denoise import WanDenoiseStep

from fcfg.integrations.guider import FactoredGuidance

STEPS = 4
Conditions = dict[str, dict[str, Tensor]]  # of every field, by name: 'cond', 'null', and groups


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def awake(network: torch.nn.Module) -> torch.nn.Module:
    """Fill layers that begin at zero, so that a condition changes the prediction."""
    generator = torch.Generator().manual_seed(7)
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
    return network.eval().requires_grad_(False)


class Block:
    """A stock denoising step with a tiny network."""

    def __init__(self, step: Any, network: Any, latents: Tensor, conditions: Conditions) -> None:
        self.network, self.latents, self.conditions = awake(network), latents, conditions
        self.pipeline = step.init_pipeline()
        self.calls = 0
        self.network.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.calls += 1

    def run(self, guider: Any, **inputs: Any) -> Tensor:
        """Return the latents after all steps."""
        scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
        scheduler.set_timesteps(STEPS)
        self.calls = 0
        self.pipeline.update_components(
            transformer=self.network, scheduler=scheduler, guider=guider
        )
        self.pipeline.set_progress_bar_config(disable=True)
        return self.pipeline(
            latents=self.latents,
            timesteps=scheduler.timesteps,
            num_inference_steps=STEPS,
            output="latents",
            **inputs,
        )

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

    def predict(self, x: Tensor, t: Tensor, name: str) -> Tensor:
        own = {self.arguments[field]: values[name] for field, values in self.conditions.items()}
        time = t.expand(len(x))
        return self.network(hidden_states=x, timestep=time, **own, return_dict=False)[0]

    def bound(self, *groups: str) -> Conditions:
        return {
            field: {group: values[group] for group in groups}
            for field, values in self.conditions.items()
        }

    arguments: ClassVar[dict[str, str]]
    inputs: Callable[[], dict[str, Any]]


class SD3(Block):
    arguments: ClassVar = {
        "encoder_hidden_states": "encoder_hidden_states",
        "text_embeds": "pooled_projections",
    }

    def __init__(self) -> None:
        network = SD3Transformer2DModel(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_layers=1,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=16,
            caption_projection_dim=16,
            pooled_projection_dim=12,
            out_channels=4,
            pos_embed_max_size=8,
        )
        names = ("cond", "null", "smiling", "beard")
        conditions = {
            "encoder_hidden_states": {n: drawn(i, 1, 3, 16) for i, n in enumerate(names)},
            "text_embeds": {n: drawn(9 + i, 1, 12) for i, n in enumerate(names)},
        }
        super().__init__(StableDiffusion3DenoiseStep(), network, drawn(5, 1, 4, 8, 8), conditions)

    def inputs(self) -> dict[str, Any]:
        tokens, pooled = self.conditions["encoder_hidden_states"], self.conditions["text_embeds"]
        return {
            "prompt_embeds": tokens["cond"],
            "negative_prompt_embeds": tokens["null"],
            "pooled_prompt_embeds": pooled["cond"],
            "negative_pooled_prompt_embeds": pooled["null"],
        }


class Wan(Block):
    arguments: ClassVar = {"encoder_hidden_states": "encoder_hidden_states"}

    def __init__(self) -> None:
        network = WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=4,
            out_channels=4,
            text_dim=16,
            freq_dim=16,
            ffn_dim=32,
            num_layers=1,
            rope_max_seq_len=8,
        )
        names = ("cond", "null", "smiling", "beard")
        conditions = {
            "encoder_hidden_states": {n: drawn(i, 1, 3, 16) for i, n in enumerate(names)}
        }
        super().__init__(WanDenoiseStep(), network, drawn(5, 1, 4, 1, 8, 8), conditions)

    def inputs(self) -> dict[str, Any]:
        tokens = self.conditions["encoder_hidden_states"]
        return {
            "prompt_embeds": tokens["cond"],
            "negative_prompt_embeds": tokens["null"],
            "dtype": torch.float32,
        }


@pytest.fixture(scope="module", params=[SD3, Wan])
def block(request: pytest.FixtureRequest) -> Block:
    return request.param()


@pytest.mark.parametrize(
    "options",
    [{}, {"start": 0.25, "stop": 0.75}, {"guidance_rescale": 0.7}, {"enabled": False}],
)
@pytest.mark.parametrize("weight", [3.0, 1.0])
def test_one_group_is_classifier_free_guidance(
    block: Block, weight: float, options: dict[str, Any]
) -> None:
    stock = block.run(ClassifierFreeGuidance(weight, **options), **block.inputs())
    calls = block.calls
    ours = block.run(FactoredGuidance({"all": weight}, **options), **block.inputs())
    assert torch.equal(ours, stock)
    assert block.calls == calls


@pytest.mark.parametrize(
    "weights", [{"beard": 1.2, "smiling": 3.0}, {"beard": -1.0, "smiling": 3.0}]
)
def test_groups_are_the_plain_loop(block: Block, weights: dict[str, float]) -> None:
    guider = FactoredGuidance(weights).bind(**block.bound(*weights))
    ours = block.run(guider, **block.inputs())
    assert block.calls == 3 * STEPS
    assert torch.equal(ours, block.plain(weights))
    unguided = block.plain({})
    assert (ours - unguided).abs().mean() > 0.01 * unguided.abs().mean()


def test_a_weight_of_0_costs_no_pass(block: Block) -> None:
    weights = {"smiling": 3.0, "beard": 0.0}
    ours = block.run(FactoredGuidance(weights).bind(**block.bound(*weights)), **block.inputs())
    assert block.calls == 2 * STEPS
    assert torch.equal(ours, block.plain({"smiling": 3.0}))
    block.run(FactoredGuidance({"smiling": 1.0}).bind(**block.bound("smiling")), **block.inputs())
    assert block.calls == STEPS


def test_only_passes_with_a_condition_say_so(block: Block) -> None:
    guider = FactoredGuidance({"smiling": 3.0, "beard": 2.0})
    seen = []
    for _ in range(guider.num_conditions):
        guider.prepare_models(block.network)
        seen.append(guider.is_conditional)
    assert seen == [True, True, False]


def test_a_guider_is_saved_and_loaded_and_bound_again(block: Block, tmp_path: Path) -> None:
    weights = {"smiling": 3.0, "beard": -1.0}
    FactoredGuidance(weights, start=0.25).bind(**block.bound(*weights)).save_pretrained(tmp_path)
    loaded = FactoredGuidance.from_pretrained(tmp_path)
    assert loaded.config.weights == weights
    assert loaded.config.start == 0.25
    with refused("bind", "not saved"):
        block.run(loaded, **block.inputs())
    again = FactoredGuidance(weights, start=0.25).bind(**block.bound(*weights))
    loaded.bind(**block.bound(*weights))
    assert torch.equal(block.run(loaded, **block.inputs()), block.run(again, **block.inputs()))


@pytest.mark.parametrize(
    ("weights", "options", "subject"),
    [
        ({}, {}, "weights"),
        ({"smiling": float("nan")}, {}, "weights"),
        ({"pred_uncond": 1.0}, {}, "weights"),
        ({"smiling": 2.0, "beard": 2.0}, {"guidance_rescale": 0.5}, "guidance_rescale"),
    ],
)
def test_impossible_settings_are_refused(weights: Any, options: Any, subject: str) -> None:
    with refused(subject):
        FactoredGuidance(weights, **options)


def test_what_would_mix_conditions_is_refused(block: Block) -> None:
    two, inputs = {"smiling": 3.0, "beard": 1.0}, block.inputs()
    bound = block.bound(*two)
    with refused("bind, encoder_hidden_states", "each group"):
        FactoredGuidance(two).bind(**block.bound("smiling"))
    with refused("bind", "inputs of this block", "prompt_tokens"):
        block.run(
            FactoredGuidance(two).bind(prompt_tokens=bound["encoder_hidden_states"]), **inputs
        )
    with refused("bind", "every group"):
        block.run(FactoredGuidance(two), **inputs)
    same = {name: inputs[name.removeprefix("negative_")] for name in inputs}
    with refused("null condition", "the same"):
        block.run(FactoredGuidance({"all": 3.0}), **same)


def test_a_pooled_vector_that_is_not_bound_is_refused() -> None:
    block, two = SD3(), {"smiling": 3.0, "beard": 1.0}
    tokens = block.bound(*two)["encoder_hidden_states"]
    with refused("bind", "text_embeds"):
        block.run(FactoredGuidance(two).bind(encoder_hidden_states=tokens), **block.inputs())
    lone = {k: v for k, v in block.inputs().items() if "negative" not in k}
    with refused("null condition", "encoder_hidden_states"):
        block.run(FactoredGuidance(two).bind(**block.bound(*two)), **lone)
