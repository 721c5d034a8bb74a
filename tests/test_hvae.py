"""The hierarchical VAE: its shapes, its Gaussians, its likelihood and what its parts know."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import norm
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from fcfg.rivals.hvae import CONFIGS, HVAE, HVAEConfig, PixelDistribution, transfer_residual
from fcfg.rivals.hvae.blocks import Gaussian
from fcfg.rivals.hvae.likelihood import PixelHead, log_probability
from tiny import randomised
from tiny_rivals import VAE, pictures, tiny_vae

LEVELS = torch.arange(256, dtype=torch.float64) / 127.5 - 1


def parents(count: int = 3, seed: int = 2) -> Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def noise(network: HVAE, count: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator) for shape in network.noise_shapes(count)]


def fix_posterior(network: HVAE, loc: float = 0.0, log_scale: float = 0.0) -> HVAE:
    """Make the posterior of every latent the same Gaussian, whatever the image."""
    for block in network.blocks:
        last = block.posterior.convolutions[-1]
        last.weight.data.zero_()
        last.bias.data.copy_(torch.tensor([loc, log_scale]).repeat_interleave(3))
    return network


def test_the_published_networks_have_their_published_sizes() -> None:
    for name, millions, digits, latents, blocks in (
        ("mimic-192", 7.98, 2, 38, 40),
        ("celeba-64", 30.7, 1, 24, 24),
        ("morphomnist-32", 2.05, 2, 20, 20),
    ):
        with torch.device("meta"):
            network = HVAE(CONFIGS[name])
        count = sum(parameter.numel() for parameter in network.parameters())
        assert round(count / 1e6, digits) == millions
        assert (len(network.noise_shapes(1)), len(network.blocks)) == (latents, blocks)


def test_a_network_that_cannot_be_built_is_refused() -> None:
    def wrong(fragment: str, **changes: object) -> None:
        with pytest.raises(ValidationError, match=re.escape(fragment)):
            HVAEConfig(**VAE.model_dump() | changes)

    wrong("encoder '8b2d2,4b1d4' must have 3 stages", encoder="8b2d2,4b1d4")
    for encoder in ("8b2d2,4bd4,1b1", "8b0d2,4b1d4,1b1"):
        wrong("must have 3 stages", encoder=encoder)
    for encoder in ("16b2d4,4b1d4,1b1", "8b2d3,4b1d4,1b1", "8b2d2,4b1d2,2b1"):
        wrong("must lead from 8 to 1 pixel", encoder=encoder)
    wrong("must lead from 16 to 1 pixel", size=16)
    wrong("must have 2 stages, one for each width", widths=(8, 16))
    wrong("must have the sizes of the encoder, reversed: [8, 4, 1]", decoder="1b2,8b2,4b1")
    wrong("decoder '1b2,4b1d2,8b2'", decoder="1b2,4b1d2,8b2")
    wrong("dropped (5,) must be among the 5 parents", dropped=(5,))
    wrong("an exogenous prior has no attributes", dropped=(1,), prior="exogenous")
    wrong("Extra inputs", depth=3)


def test_the_divergence_is_that_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, c, d = torch.randn(4, 5, 2, 3, 3, generator=generator, dtype=torch.float64)
    ours = Gaussian(a, b).divergence(Gaussian(c, d))
    theirs = kl_divergence(Normal(a, b.exp()), Normal(c, d.exp()))
    assert torch.allclose(ours, theirs.sum(dim=(1, 2, 3)), rtol=1e-12)


@given(st.floats(-1.2, 1.2), st.floats(-9, 2))
def test_the_probabilities_of_all_levels_add_up_to_one(loc: float, log_scale: float) -> None:
    x = LEVELS.view(-1, 1, 1, 1)
    pixel = [torch.full_like(x, value) for value in (loc, log_scale)]
    assert math.isclose(log_probability(x, *pixel).exp().sum().item(), 1, abs_tol=1e-9)


def test_levels_are_as_likely_as_a_gaussian_says_and_impossible_ones_have_a_finite_loss() -> None:
    x = LEVELS.view(-1, 1, 1, 1)
    for loc, scale in ((0.0, 0.3), (0.9, 0.1), (-0.4, 0.02)):
        pixel = [torch.full_like(x, value) for value in (loc, math.log(scale))]
        edges = norm.cdf((LEVELS.numpy()[:-1] + 1 / 255 - loc) / scale)
        exact = torch.tensor([edges[0], *(edges[1:] - edges[:-1]), 1 - edges[-1]])
        # The distribution function itself is approximated, to within 4e-4.
        assert (log_probability(x, *pixel).exp().flatten() - exact).abs().max() < 8e-4
    head = PixelHead(4, 3)
    nn.init.constant_(head.log_scale.bias, -100.0)
    scale = head(torch.zeros(1, 4, 2, 2)).scale
    assert torch.allclose(scale, torch.full_like(scale, math.exp(-9)))
    loc = torch.full((1, 1, 1, 1), -1.0, requires_grad=True)
    log_scale = torch.full((1, 1, 1, 1), -9.0, requires_grad=True)
    loss = -log_probability(torch.full((1, 1, 1, 1), 0.5), loc, log_scale).sum()
    loss.backward()
    assert math.isclose(loss.item(), -math.log(1e-12), rel_tol=1e-6)
    assert all(bool(p.grad.isfinite().all()) for p in (loc, log_scale))


def colours(seed: int = 4) -> PixelDistribution:
    generator = torch.Generator().manual_seed(seed)
    loc, log_scale, coupling = torch.randn(3, 2, 3, 4, 4, generator=generator).double()
    return PixelDistribution(0.2 * loc, log_scale - 1, coupling.tanh())


def test_each_channel_is_a_distribution_given_the_channels_before_it() -> None:
    parts = [[0.1, -0.2, 0.3], [-1.0, -1.2, -0.8], [0.5, -0.7, 0.9]]  # the last couples channels
    pixels = PixelDistribution(*(torch.tensor(part).view(1, 3, 1, 1) for part in parts))
    x = torch.tensor([0.25, -0.5, 0.75]).view(1, 3, 1, 1)
    loc = [0.1, -0.2 + 0.5 * 0.25, 0.3 - 0.7 * 0.25 + 0.9 * -0.5]
    expected = log_probability(x, torch.tensor(loc).view(1, 3, 1, 1), pixels.log_scale)
    assert torch.allclose(pixels.log_prob(x), expected)
    many = PixelDistribution(
        *(part.repeat(256, 1, 1, 1) for part in (pixels.loc, pixels.log_scale, pixels.coupling))
    )
    for channel in range(3):
        every = x.repeat(256, 1, 1, 1)
        every[:, channel, 0, 0] = LEVELS
        total = many.log_prob(every)[:, channel].exp().sum().item()
        assert math.isclose(total, 1, abs_tol=1e-4)


def test_the_predicted_image_is_the_likeliest_colour_in_every_channel_given_those_before() -> None:
    """Also where a location leaves the range, and the channels after it see a legal one."""
    generator = torch.Generator().manual_seed(0)
    loc, coupling = 3 * torch.randn(2, 99, 3, 1, 1, generator=generator, dtype=torch.float64)
    coupling = coupling.tanh()
    image = PixelDistribution(loc, torch.full_like(loc, -1.0), coupling).image
    red, green, _ = image.unbind(dim=1)
    red_green, red_blue, green_blue = coupling.unbind(dim=1)
    given = torch.stack([0 * red, red_green * red, red_blue * red + green_blue * green], dim=1)
    levels = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    nearest = levels[(levels - (loc + given)).abs().argmin(dim=-1, keepdim=True)]
    assert (image[:, 1].abs() == 1).sum() > 30
    torch.testing.assert_close(image, nearest, atol=6e-4, rtol=0)


def test_an_answer_is_as_far_from_its_prediction_as_the_image_in_standard_deviations() -> None:
    """This number is the exogenous noise of a pixel, which a counterfactual keeps."""
    coloured = colours(4), colours(5)
    grey = tuple(PixelDistribution(p.loc, p.log_scale) for p in coloured)
    x = pictures(2, size=4).double()
    for there, back in (coloured, grey):
        answer = transfer_residual(x, there, back)
        noise, kept = (x - there.image) / there.scale, (answer - back.image) / back.scale
        torch.testing.assert_close(kept, noise)
        some = back.image + 0.25 * (answer - back.image)
        torch.testing.assert_close(transfer_residual(x, there, back, 0.25), some)
        torch.testing.assert_close(transfer_residual(answer, back, there), x)
        assert not torch.allclose(answer, x, atol=0.1)


def test_a_new_network_has_the_standard_normal_as_prior() -> None:
    network = fix_posterior(HVAE(VAE), loc=0.7, log_scale=-0.5)
    _, kl = network.free_energy(pictures(), parents(), noise(network))
    one = kl_divergence(Normal(0.7, math.exp(-0.5)), Normal(0.0, 1.0))
    latents = sum(math.prod(shape) for shape in network.noise_shapes(1))
    assert torch.allclose(kl, (one * latents / (3 * 8 * 8)).expand(3))


def test_new_weights_that_add_to_features_shrink_with_the_number_of_blocks() -> None:
    torch.manual_seed(0)
    network = HVAE(CONFIGS["morphomnist-32"])
    encoder = [b.body for stage in network.encoder.stages for b in stage]
    encoder += [block.body for block in network.encoder.transitions]
    groups = [
        [body.convolutions[-1] for body in encoder],
        [block.body.body.convolutions[-1] for block in network.blocks],
        [block.merge for block in network.blocks],
    ]
    for group in groups:
        for convolution in group:
            fan_in, largest = convolution.in_channels, convolution.weight.abs().max().item()
            assert 0.8 < largest * math.sqrt(fan_in * len(group)) <= 1  # torch's bound is 1
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert all(not convolution.bias.any() for convolution in convolutions)


OTHER = {"size": 14, "encoder": "14b1d2,7b1d7,1b1", "decoder": "1b1,7b1,14b1"}
SIZES = [({}, {1, 4, 8}), ({"prior": "exogenous"}, {1, 4, 8}), ({"largest_latent": 4}, {1, 4})]


@pytest.mark.parametrize(("changes", "sizes"), [*SIZES, (OTHER, {1, 7, 14})])
def test_latents_follow_their_noise_and_are_decoded_as_they_were_inferred(changes, sizes) -> None:
    network = tiny_vae(**changes)
    images, drawn = pictures(size=network.config.size), noise(network)
    mean, once, twice = (
        network.infer(images, parents(), given) for given in (None, drawn, [2 * d for d in drawn])
    )
    first = once.latents[0] - mean.latents[0]
    assert torch.allclose(twice.latents[0] - mean.latents[0], 2 * first, atol=1e-5)
    assert first.abs().max() > 0.1
    shapes = [tuple(latent.shape) for latent in once.latents]
    assert shapes == network.noise_shapes(3) == sorted(shapes)
    assert shapes[0] == (3, 3, 1, 1)
    assert {size for *_, size in shapes} == sizes
    pixels = network.decode(once.latents, parents())
    assert torch.equal(pixels.image, once.pixels.image)
    assert torch.equal(pixels.scale, once.pixels.scale)
    other = network.decode(once.latents, parents(seed=9))
    assert not torch.allclose(other.image, pixels.image, atol=1e-3)


def test_the_prior_alone_knows_hidden_attributes_if_it_is_conditional() -> None:
    for prior, knows in (("conditional", True), ("exogenous", False)):
        network = fix_posterior(tiny_vae(prior=prior))
        first, second = (
            network.infer(pictures(), parents(seed=seed), noise(network)) for seed in (2, 9)
        )
        assert torch.equal(first.kl, second.kl) != knows
        assert not torch.allclose(first.pixels.image, second.pixels.image, atol=1e-3)
    network = fix_posterior(tiny_vae(dropped=(1, 3)))
    for block in network.blocks:  # what the prior adds to the features, so that paths are apart
        block.prior.convolutions[-1].weight.data[6:].zero_()
    known, zeroed = parents(), parents() * torch.tensor([1.0, 0, 1, 0, 1])
    whole, less = (network.infer(pictures(), pa, noise(network)) for pa in (known, zeroed))
    hidden = network.infer(pictures(), known, noise(network), torch.tensor([0, 1, 2]))
    assert torch.allclose(hidden.kl, torch.cat([less.kl[:1], whole.kl[1:]]))
    assert not torch.allclose(whole.kl, less.kl)
    expected = whole.pixels.image.clone()
    expected[1] = less.pixels.image[1]
    assert torch.allclose(hidden.pixels.image, expected)
    assert not torch.allclose(expected, whole.pixels.image)


def test_every_parameter_has_a_gradient_and_likelihoods_stay_precise_in_autocast() -> None:
    for changes in ({}, {"prior": "exogenous", "largest_latent": 4, "channels": 1}):
        network = tiny_vae(**changes)
        images = pictures(channels=network.config.channels)
        nll, kl = network.free_energy(images, parents(), noise(network))
        (nll + kl).mean().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert bool(parameter.grad.any()), name
    network = tiny_vae()
    drawn = noise(network)
    exact = network.free_energy(pictures(), parents(), drawn)
    with torch.autocast("cpu", torch.bfloat16):
        inference = network.infer(pictures(), parents(), drawn)
        rough = network.free_energy(pictures(), parents(), drawn)
    tensors = [inference.pixels.image, inference.pixels.scale, *inference.latents, *rough]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    for a, b in zip(exact, rough, strict=True):
        assert torch.allclose(a, b, rtol=0.05)


def test_the_bound_holds_against_the_exact_likelihood() -> None:
    """One latent number in all: the marginal likelihood is an integral that can be summed."""
    torch.manual_seed(0)
    config = HVAEConfig(
        size=2, channels=1, parents=1, encoder="2b1d2,1b1", decoder="1b1,2b1",
        widths=(4, 4), latent=1, largest_latent=1,
    )  # fmt: skip
    network = randomised(HVAE(config), 0.4, 5).double()
    generator = torch.Generator().manual_seed(5)
    images, pa = pictures(1, 1, 2).double(), torch.ones(1, 1, dtype=torch.float64)
    prior, _ = network.blocks[0].prior_of(network.biases["1"], pa[:, :, None, None])
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64).view(-1, 1, 1, 1)
    z = prior.loc + prior.log_scale.exp() * z
    pixels = network.decode([z], pa.expand(len(z), 1))
    density = Normal(prior.loc.item(), prior.log_scale.exp().item()).log_prob(z.flatten())
    joint = pixels.log_prob(images.expand(len(z), -1, -1, -1)).sum(dim=(1, 2, 3)) + density
    exact = -(joint.logsumexp(dim=0) + (z[1] - z[0]).flatten().log()).item() / 4
    draws = torch.randn(4000, 1, 1, 1, generator=generator, dtype=torch.float64)
    many = [images.expand(4000, -1, -1, -1), pa.expand(4000, 1), [draws]]
    nll, kl = network.free_energy(*many)
    error = 4 * nll.std().item() / math.sqrt(4000)
    assert (nll + kl).mean().item() > exact - error
    # The gap is the divergence of the posterior from the exact one.
    inferred = network.infer(images, pa)
    spread = network.infer(images, pa, [torch.ones(1, 1, 1, 1, dtype=torch.float64)])
    loc, one = inferred.latents[0].item(), spread.latents[0].item()
    q = Normal(loc, one - loc).log_prob(z.flatten()).exp() * (z[1] - z[0]).item()
    gap = (q * (q.clamp(min=1e-300).log() - (joint - joint.logsumexp(dim=0)))).sum().item() / 4
    assert abs((nll + kl).mean().item() - exact - gap) < error + 1e-6
