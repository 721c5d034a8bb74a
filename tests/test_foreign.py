"""What-ifs of other people's networks, in pixels and latents, as noises and as flows."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fcfg
import tiny_foreign
from fcfg import Abduction, AttributeTokens, CausalGraph, Guidance, StructuralCausalModel, wrap
from fcfg.diagnosis import diagnose
from fcfg.diffusion import AttributeEmbedder, Denoiser, NoiseSchedule
from fcfg.diffusion.codec import AbstractCodec, Autoencoder
from fcfg.diffusion.libraries import config_of
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.generation import generate
from fcfg.pipeline.foreign import ForeignPipeline
from fcfg.trust.signals import LEVELS, denoising_loss
from refusal import refused
from studios import ask, client_of, of, png, studio_of
from tiny import draw
from tiny_foreign import SPACE, autoencoder, foreign, prompted_unet, randomised, volume_autoencoder

ASKED = {"smiling": [0, 1], "hair": ["dark", "red"]}
LATENT = {"prompted_unet", "sdxl", "dit", "sd3", "flux", "monai_unet"}
FLOWS = {"sd3", "flux", "monai_unet"}
GROUPS = Guidance.fcfg(affected=2, invariant=1.2)
CLASSES = {"unet", "dit"}  # whose conditions are whole
TWO = "affected=2,invariant=-0.5"
RULES = ["cfg:2", f"fcfg:{TWO}", "contrast:1.5", "apg:2", f"fapg:{TWO}"]
SOLVERS = ["ddim", "fixed-point:2", "dpm-2m", "heun", "bdia"]


def scm() -> StructuralCausalModel:
    return StructuralCausalModel(SPACE, CausalGraph({"smiling": [], "hair": []}))


@lru_cache
def model(name: str, dtype: torch.dtype = torch.float64) -> ForeignPipeline:
    """A network of each library, in pixels or latents, as noises or flows."""
    network = foreign(name)
    codec: AbstractCodec | None = None
    if name in LATENT:
        module, config = volume_autoencoder() if name == "monai_unet" else autoencoder()
        scaling = {"scale": 0.5, "shift": 0.1}
        codec = Autoencoder(module, config or config_of(module, None), **scaling)
    schedule = NoiseSchedule("flow" if name in FLOWS else "scaled-linear", shift=1.0)
    inner, conditioner = deepcopy(network.network), deepcopy(network.conditioner)
    pipeline = wrap(inner, schedule, scm(), conditioner, codec=codec, config=network.config)
    pipeline.denoiser.to(dtype)  # in float32, networks that nobody trained let rounding grow
    return pipeline


def images(pipeline: ForeignPipeline) -> Tensor:
    sides = [pipeline.size or 8] * pipeline.dimensions
    generator = torch.Generator().manual_seed(1)
    return torch.rand(2, pipeline.channels, *sides, generator=generator) * 2 - 1


COVERING = [
    (name, rules[(row + column) % len(rules)], SOLVERS[column], (row + column) % 2 == 0)
    for row, name in enumerate(tiny_foreign.NETWORKS)
    for rules in [[rule for rule in RULES if name not in CLASSES or TWO not in rule]]
    for column in range(5)
]


@pytest.mark.parametrize(("name", "rule", "solver", "drawn"), COVERING)
def test_doing_nothing_returns_the_image_without_the_shortcut(
    name: str, rule: str, solver: str, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(abduction: Abduction, action: object) -> Tensor:
        return torch.zeros(len(abduction.images), dtype=torch.bool)

    monkeypatch.setattr(Abduction, "unchanged", none)
    pipeline = model(name)
    x = images(pipeline)
    guidance = Guidance.parse(rule).replace(anchor=True, drawn_noise=drawn)
    how: dict[str, Any] = {"guidance": guidance, "sampling": f"{solver} uniform 3"}
    same = pipeline.counterfactual(x, ASKED, {"smiling": ASKED["smiling"]}, **how)
    assert (same.images - x).abs().max() < 1e-5
    other = pipeline.counterfactual(x, ASKED, {"smiling": "flip"}, **how)
    assert other.images.isfinite().all()
    assert (other.images - x).square().mean() > 1e-6
    if pipeline.denoiser.codec is None:
        assert other.decoded is None
    else:
        assert other.trajectory.x.dtype == torch.float64
        codec = pipeline.denoiser.codec
        lost = (codec.decode(codec.encode(x)) - x).square().mean(tuple(range(1, x.ndim))).sqrt()
        assert torch.allclose(other.decoded.round_trip, lost, atol=1e-5)


@pytest.mark.parametrize("name", ["unet", "sd3", "monai_unet"])
def test_a_model_of_another_library_is_saved_and_loaded_without_its_network(
    name: str, tmp_path: Path
) -> None:
    pipeline = model(name, torch.float32)
    pipeline.save(tmp_path / "model")
    other = fcfg.load(tmp_path / "model")
    assert isinstance(other, ForeignPipeline)
    x, how = images(pipeline), {"sampling": "ddim uniform 3", "guidance": Guidance.cfg(2)}
    one = pipeline.counterfactual(x, ASKED, {"hair": "grey"}, **how)
    two = other.counterfactual(x, ASKED, {"hair": "grey"}, **how)
    assert torch.allclose(one.images, two.images, atol=1e-4)
    kept = pipeline.abduct(x, ASKED, sampling="ddim uniform 3")
    action = other.act(kept.attributes, {"hair": "grey"})
    again = other.predict(kept, action, Guidance.cfg(2))
    assert torch.allclose(again.images, two.images, atol=1e-4)
    refused("abduction", "another model").by(model("dit").predict, kept, action, Guidance.cfg(2))


def test_a_scheduler_and_weights_of_a_folder_are_kept_as_what_they_are(tmp_path: Path) -> None:
    diffusers = pytest.importorskip("diffusers")
    network, (module, _) = foreign("sd3"), autoencoder()
    network.network.save_pretrained(tmp_path / "hub" / "transformer")
    module.save_pretrained(tmp_path / "hub" / "vae")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(8)
    vae, place = (
        {"source": str(tmp_path / "hub"), "subfolder": folder} for folder in ("vae", "transformer")
    )
    own: dict[str, Any] = {"codec": Autoencoder(module, config_of(module, None), source=vae)}
    pipeline = wrap(network.network, scheduler, scm(), network.conditioner, source=place, **own)
    pipeline.save(tmp_path / "model")
    kept = sorted(path.name.partition("-")[0] for path in (tmp_path / "model").iterdir())
    assert kept == ["conditioner", "config.json", "scm"]
    other = fcfg.load(tmp_path / "model")
    assert other.denoiser.schedule == pipeline.denoiser.schedule
    x = images(pipeline)
    how = {"sampling": "ddim uniform 3", "guidance": Guidance.cfg(2)}
    one, two = (p.counterfactual(x, ASKED, {"hair": "grey"}, **how) for p in (pipeline, other))
    assert torch.allclose(one.images, two.images, atol=1e-5)


def test_our_own_network_works_on_latents_too() -> None:
    module, _ = autoencoder()
    codec = Autoencoder(module, config_of(module, None))
    shape = {"channels": 4, "size": 8, "base": 8, "multipliers": (1, 2), "attention": ()}
    network = randomised(UNet(UNetConfig(condition=16, blocks=1, **shape)), 0.1)
    embedder = AttributeEmbedder(SPACE, 8)
    denoiser = Denoiser(network, embedder, NoiseSchedule("cosine"), codec=codec)
    assert (denoiser.channels, denoiser.stride, denoiser.size) == (3, 4, 16)
    assert denoiser.state_shape((16, 8)) == (4, 8, 4)
    pipeline = fcfg.CounterfactualPipeline(denoiser, scm())
    x = torch.rand(2, 3, 16, 16) * 2 - 1
    found = pipeline.counterfactual(x, ASKED, {"smiling": "flip"}, sampling="ddim uniform 3")
    assert found.trajectory.x.shape == (2, 4, 8, 8)
    assert found.images.shape == x.shape
    assert found.decoded.round_trip.shape == (2,)


def test_without_an_anchor_latents_are_encoded_again_for_their_round_trip() -> None:
    pipeline = model("dit")
    x = images(pipeline)
    how: dict[str, Any] = {"sampling": "ddim uniform 3", "anchor": False}
    how["guidance"] = Guidance.cfg(2)
    found = pipeline.counterfactual(x, ASKED, {"smiling": "flip"}, **how)
    codec = pipeline.denoiser.codec
    decoded = codec.decode(found.trajectory.x) - codec.decode(codec.encode(x.double()))
    assert torch.allclose(found.decoded.images, (x + decoded).float(), atol=1e-5)


def test_groups_where_a_class_is_of_all_and_abductions_of_other_weights_are_refused() -> None:
    pipeline = model("dit")
    with refused("guidance", "one group of attributes", "cfg:2"):
        pipeline.counterfactual(images(pipeline), ASKED, {"hair": 0}, guidance=GROUPS)
    own, other = model("unet"), deepcopy(model("unet"))
    abduction = own.abduct(images(own), ASKED, sampling=2)
    *_, last = other.denoiser.network.parameters()
    last.data += 1
    with refused("abduction", "that of another model"):
        other.predict(abduction, other.act(ASKED, {"smiling": "flip"}))


def test_what_cannot_be_built_again_is_not_saved(tmp_path: Path) -> None:
    class Same(AbstractCodec):
        channels, latent_channels, factor = 4, 4, 1

        def encode(self, images: Tensor) -> Tensor:
            return images

        decode = encode

    network = foreign("dit")
    pipeline = wrap(network.network, NoiseSchedule(), scm(), network.conditioner, codec=Same())
    refused("codec", "Autoencoder", "Same").by(pipeline.save, tmp_path / "model")

    class Own(AttributeTokens):
        """A conditioner of a user."""

    unet, _ = prompted_unet()
    pipeline = wrap(unet[0], NoiseSchedule(), scm(), Own(SPACE, tiny_foreign.WIDTH))
    refused("conditioner", "Lookup or AttributeTokens").by(pipeline.save, tmp_path / "model")
    plain = Denoiser(nn.Identity(), network.attributes, NoiseSchedule(), channels=4)
    with refused("denoiser, network", "ForeignNetwork", "Identity"):
        ForeignPipeline(plain, scm()).save(tmp_path / "model")


def test_records_signals_and_diagnoses_are_measured_on_latents(tmp_path: Path) -> None:
    pipeline = model("sd3", torch.float32)
    files = draw(tmp_path, ["one.png"], 16)
    asked = {"do": {"hair": "grey"}, "attributes": "smiling=0,hair=dark", "sampling": 3}
    (result,) = generate(pipeline, files, out=tmp_path / "out", **asked)
    assert result.round_trip is not None
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["images"][0]["round_trip"] == pytest.approx(result.round_trip)
    assert result.change is not None
    pipeline = model("sd3", torch.float32)
    x, table = images(pipeline), SPACE.parse(ASKED)
    losses = denoising_loss(pipeline.denoiser, x, table)
    assert losses.shape == (2, len(LEVELS))
    assert losses.isfinite().all()
    found = diagnose(pipeline, x, ASKED, noised=2, times=2)
    assert found.by_attribute.groups


def test_the_studio_shows_answers_of_latents_without_coarse_ones(monkeypatch) -> None:
    monkeypatch.setattr("fcfg.studio.answers._BETWEEN", 0.0)
    with client_of(studio_of(model("sd3", torch.float32))) as client:
        image = client.post("/api/images", content=png(size=16)).json()["id"]
        known = {"smiling": 0, "hair": "dark"}
        events = ask(client, image, attributes=known, sampling="dpm-2m uniform 6")
    assert len(of(events, "answer")) == 1
    assert of(events, "progress")
    assert not any("image" in event for event in of(events, "progress"))
