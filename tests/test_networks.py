from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from fcfg.diffusion.networks import Judge, JudgeConfig, UNet, UNetConfig, repeat_for_conditions
from fcfg.diffusion.networks.group_norm import GroupNorm
from fcfg.training import read_config
from place import DEVICE, anywhere

TINY = UNetConfig(size=16, base=8, multipliers=(1, 2, 3), attention=(8,), condition=12)


def count_flops(call: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def awake(network: nn.Module) -> nn.Module:
    """Replace the zeros that a new network starts with."""
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator)
    return network.to(DEVICE)


def inputs(batch: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 3, 16, 16, generator=generator)
    t, c = torch.tensor([1, 500, 1000])[:batch], torch.randn(batch, 12, generator=generator)
    return x.to(DEVICE), t.to(DEVICE), c.to(DEVICE)


def paper(name: str) -> UNetConfig:
    config = read_config(name)
    return config.model.shape(config.inputs)


MILLIONS = {"celeba-hq": (3, 60.5), "embed": (2, 29.0), "mimic-cxr": (4, 16.1)}


@pytest.mark.parametrize("name", MILLIONS)
def test_the_papers_networks_have_the_papers_size(name: str) -> None:
    attributes, millions = MILLIONS[name]
    with torch.device("meta"):
        network = UNet(paper(name))
    assert network.config.condition == 32 * attributes
    count = sum(p.numel() for p in network.parameters())
    assert abs(count / 1e6 - millions) < 0.05


# Group normalisation


def norm_and_image(dtype, layout) -> tuple[GroupNorm, Tensor]:
    generator = torch.Generator().manual_seed(2)
    norm = GroupNorm(4, 12).to(dtype)
    for parameter in norm.parameters():
        parameter.data = torch.randn(12, generator=generator).to(dtype)
    x = 3 + 2 * torch.randn(2, 12, 5, 7, generator=generator)
    return norm.to(DEVICE), x.to(DEVICE, dtype).contiguous(memory_format=layout)


def modulation_of(x: Tensor) -> tuple[Tensor, Tensor]:
    scale, shift = torch.randn(2, *x.shape[:2], generator=torch.Generator().manual_seed(4))
    return scale.to(x), shift.to(x)


layouts = pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])


@anywhere
@layouts
@pytest.mark.parametrize(
    ("dtype", "far", "rounding"),
    [(torch.float64, 1e-13, 0.0), (torch.float32, 1e-5, 2**-20), (torch.bfloat16, 0.05, 2**-8)],
)
def test_by_channels_it_is_torchs_and_rounded_once(layout, dtype, far, rounding) -> None:
    """However coarse the image is: between image and answer all is float32, or finer."""
    norm, x = norm_and_image(dtype, layout)
    found, modulated = norm.by_channels(x), norm.by_channels(x, modulation_of(x))
    assert found.dtype == modulated.dtype == dtype
    assert (found - norm(x)).abs().max() <= far
    assert found.is_contiguous(memory_format=layout)
    scale, shift = (each.double() for each in modulation_of(x))
    expected = norm.double()(x.double(), (scale, shift))
    within = 1e-13 if dtype == torch.float64 else 1e-5
    assert torch.allclose(modulated.double(), expected, rtol=rounding, atol=within)


@anywhere
def test_normalised_by_channels_it_has_torchs_gradients() -> None:
    norm, x = norm_and_image(torch.float64, torch.channels_last)
    scale, shift = modulation_of(x)
    wanted = [x.requires_grad_(), norm.weight, norm.bias]
    wanted += [scale.requires_grad_(), shift.requires_grad_()]
    towards = torch.randn(x.shape, generator=torch.Generator().manual_seed(3)).to(x)
    found, expected = (
        torch.autograd.grad((f(x, (scale, shift)) * towards).sum(), wanted)
        for f in (norm.by_channels, norm)
    )
    for ours, other in zip(found, expected, strict=True):
        assert torch.allclose(ours, other, rtol=0, atol=1e-12)


@anywhere
@pytest.mark.parametrize("level", [0.0, 0.1, 77.7, 1234.5])
def test_normalised_by_channels_an_image_of_one_colour_is_the_bias(level: float) -> None:
    """Its spread is 0, or a little less by rounding."""
    norm, x = norm_and_image(torch.float32, torch.channels_last)
    bias = norm.bias[:, None, None].expand_as(x)
    found = norm.by_channels(torch.full_like(x, level))
    assert torch.allclose(found, bias, atol=1e-3 + level / 1e3)


# Several conditions


@anywhere
@layouts
def test_images_under_several_conditions_are_as_asked_one_by_one(layout) -> None:
    network = awake(UNet(TINY, channels_last=layout == torch.channels_last)).eval()
    x, t, c = inputs(2)
    conditions = [c, torch.zeros_like(c), -c]
    with torch.no_grad():
        together = network(x, t, torch.cat(conditions))
        one_by_one = torch.cat([network(x, t, condition) for condition in conditions])
    assert torch.allclose(together, one_by_one, rtol=1e-4, atol=1e-4)
    assert (one_by_one[:2] - one_by_one[2:4]).abs().max() > 1e-2


@pytest.mark.parametrize("name", MILLIONS)
def test_what_no_condition_has_entered_is_computed_once(name: str) -> None:
    """The time's network, the stem, and the first convolution of the first block."""
    config = paper(name)
    with torch.device("meta"), torch.no_grad():
        network = UNet(config).eval()
        x = torch.empty(2, config.channels, config.size, config.size)
        t, c = torch.empty(2, dtype=torch.int64), torch.empty(6, config.condition)
        shared = count_flops(lambda: network(x, t, c))
        repeated = count_flops(
            lambda: network(repeat_for_conditions(x, c), repeat_for_conditions(t, c), c)
        )
        level = network.down[0].block.first
        once = count_flops(lambda: (network.time(torch.empty(2, config.base)), network.stem(x)))
        once += count_flops(lambda: level(torch.empty(2, config.base, *x.shape[2:])))
    assert shared == repeated - 2 * once
    assert 0.001 < 1 - shared / repeated < 0.03


def straight_line(weights: dict, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
    """The network of TINY written out by hand, from its weights and method.md alone."""

    def conv(name: str, h: Tensor, stride: int = 1) -> Tensor:
        weight = weights[f"{name}.weight"]
        return F.conv2d(h, weight, weights[f"{name}.bias"], stride, weight.shape[-1] // 2)

    def norm(name: str, h: Tensor) -> Tensor:
        groups = {8: 8, 16: 16, 24: 8, 32: 32, 40: 8, 48: 16}[h.shape[1]]
        return F.group_norm(h, groups, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def linear(name: str, h: Tensor) -> Tensor:
        return h @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def residual(name: str, h: Tensor) -> Tensor:
        out = conv(f"{name}.first.2", F.silu(norm(f"{name}.first.0", h)))
        scale, shift = linear(f"{name}.modulation", F.silu(embedding)).chunk(2, dim=1)
        out = norm(f"{name}.norm", out) * (1 + scale[..., None, None]) + shift[..., None, None]
        out = conv(f"{name}.second.2", F.silu(out))
        return out + (conv(f"{name}.skip", h) if f"{name}.skip.weight" in weights else h)

    def attention(name: str, h: Tensor) -> Tensor:
        pixels = conv(f"{name}.qkv", norm(f"{name}.norm", h)).flatten(2)
        q, k, v = pixels.chunk(3, dim=1)  # one head: the widths are below 64 channels
        weight = (q.transpose(1, 2) @ k / q.shape[1] ** 0.5).softmax(dim=2)
        return h + conv(f"{name}.out", (v @ weight.transpose(1, 2)).view_as(h))

    frequencies = 10_000 ** (-torch.arange(4, device=t.device) / 4)
    angles = t[:, None] * frequencies
    time = torch.cat([angles.cos(), angles.sin()], dim=1).double()
    time = linear("time.2", F.silu(linear("time.0", time)))
    embedding = torch.cat([time, c], dim=1)

    h = conv("stem", x)
    skips = [h]
    for i in range(8):  # 16: two blocks; down; 8: two blocks with attention; down; 4: two blocks
        if i in (2, 5):
            h = conv(f"down.{i}", h, stride=2)
        else:
            h = residual(f"down.{i}.block", h)
            h = attention(f"down.{i}.attention", h) if i in (3, 4) else h
        skips.append(h)
    h = residual("middle.1.block", attention("middle.0.attention", residual("middle.0.block", h)))
    for i in range(11):  # three blocks; up; three with attention; up; three
        if i in (3, 7):
            h = conv(f"up.{i}.convolution", h.repeat_interleave(2, 2).repeat_interleave(2, 3))
        else:
            h = residual(f"up.{i}.block", torch.cat([h, skips.pop()], dim=1))
            h = attention(f"up.{i}.attention", h) if i in (4, 5, 6) else h
    assert not skips
    return conv("head.2", F.silu(norm("head.0", h)))


@anywhere
def test_the_unet_is_the_one_written_out_by_hand() -> None:
    network = awake(UNet(TINY)).double()
    x, t, c = inputs()
    x, c = x.double(), c.double()
    expected = straight_line(network.state_dict(), x, t, c)
    assert torch.allclose(network(x, t, c), expected, rtol=1e-5, atol=1e-5)


def test_any_size_divisible_by_the_stride_will_do_and_a_new_network_predicts_zero() -> None:
    assert TINY.stride == 4
    x = torch.ones(1, 3, 20, 12)
    assert torch.equal(UNet(TINY)(x, torch.tensor([1]), torch.zeros(1, 12)), 0 * x)


def test_patches_are_channels_of_a_smaller_image() -> None:
    options = {"base": 8, "multipliers": (1, 2), "attention": (4,), "condition": 12}
    squares = awake(UNet(UNetConfig(size=16, patch=2, **options)))
    pixels = UNet(UNetConfig(size=8, channels=12, **options))
    pixels.load_state_dict(squares.state_dict())
    assert squares.config.stride == 4
    x, t, c = torch.randn(2, 3, 16, 12), torch.tensor([3, 700]), torch.randn(2, 12)
    found = F.pixel_unshuffle(squares(x, t, c), 2)
    assert torch.equal(found, pixels(F.pixel_unshuffle(x, 2), t, c))
    with pytest.raises(ValidationError, match="size 18 is not divisible by 4"):
        UNetConfig(size=18, patch=2, **options)


def test_gradient_checkpointing_recomputes_and_changes_no_gradient() -> None:
    plain, saving = awake(UNet(TINY)), awake(UNet(TINY, gradient_checkpointing=True))
    calls: list[UNet] = []
    for network in (plain, saving):
        network.down[0].register_forward_pre_hook(lambda *_, who=network: calls.append(who))
        network(*inputs()).square().mean().backward()
    assert len(calls) == 3
    assert calls.count(saving) == 2  # once more in the backward pass
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


@anywhere
def test_channels_last_changes_memory_and_no_number() -> None:
    plain, last = awake(UNet(TINY)), UNet(TINY, channels_last=True).to(DEVICE)
    last.load_state_dict(plain.state_dict())
    out = last(*inputs())
    assert last.stem.weight.is_contiguous(memory_format=torch.channels_last)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(out, plain(*inputs()), rtol=1e-4, atol=1e-4)


def test_dropout_acts_in_training_only_and_configs_are_frozen() -> None:
    network = awake(UNet(TINY.model_copy(update={"dropout": 0.5})))
    assert not torch.equal(network(*inputs()), network(*inputs()))
    network.eval()
    assert torch.equal(network(*inputs()), network(*inputs()))
    with pytest.raises(ValidationError, match="frozen"):
        TINY.base = 16
    with pytest.raises(ValidationError, match="Extra inputs"):
        UNetConfig.model_validate({"chanels": 3})
    for wrong in ({"base": 0}, {"size": 30}, {"attention": (17,)}, {"multipliers": ()}):
        with pytest.raises(ValidationError):
            UNetConfig(**wrong)


@given(
    size=st.integers(1, 12),
    base=st.integers(1, 34),
    multipliers=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    head_channels=st.integers(1, 40),
)
@settings(max_examples=30)
@example(size=4, base=16, multipliers=[1, 2, 2], head_channels=8)  # one pixel, 32 channels
@example(size=4, base=2, multipliers=[1, 7, 9], head_channels=64)  # 14 + 18 of them
@example(size=4, base=22, multipliers=[1, 1, 2], head_channels=8)  # 44 channels, five heads
@example(size=8, base=6, multipliers=[1, 3], head_channels=9)
def test_a_shape_is_legal_if_and_only_if_it_can_be_computed(
    size: int, base: int, multipliers: list[int], head_channels: int
) -> None:
    """Of one image; the meta device knows."""
    values = {"size": size, "base": base, "multipliers": multipliers, "blocks": 1}
    values |= {"attention": (), "head_channels": head_channels, "condition": 8, "dropout": 0.0}
    try:
        legal = UNetConfig.model_validate(values)
    except ValidationError:
        legal = None
    with torch.device("meta"):
        x, t, c = torch.empty(1, 3, size, size), torch.ones(1, dtype=torch.int64), torch.ones(1, 8)
    try:
        with torch.device("meta"):
            network = UNet(legal or UNetConfig.model_construct(channels=3, **values))
        computed = network(x, t, c).shape == x.shape
    except (RuntimeError, ValueError, ZeroDivisionError):
        computed = False
    assert computed == (legal is not None)


def test_the_judge_is_resnet_18_and_its_features_feed_its_head() -> None:
    with torch.device("meta"):
        full = Judge(JudgeConfig(outputs=1000))
    trunk = sum(p.numel() for p in full.parameters()) - 1000 * 513
    # torchvision's ResNet-18 without its head has 11,176,512; ours has a 3×3 stem, not a 7×7.
    assert trunk == 11_176_512 - 3 * 64 * (49 - 9)
    narrow = awake(Judge(JudgeConfig(channels=1, outputs=2, width=8))).eval()
    block = narrow.stages[2]
    h = torch.randn(2, 8, 8, 8)
    assert torch.equal(block(h), F.relu(block.body(h) + block.shortcut(h)))
    assert not torch.allclose(block(h), F.relu(block.body(h)))
    judge = Judge(JudgeConfig(channels=1, outputs=2, width=8)).eval()
    images = torch.randn(3, 1, 32, 32)
    features = judge.features(images)
    assert features.shape == (3, 64)
    assert torch.equal(judge.head(features), judge(images))
