"""Networks of diffusers and MONAI answer behind our call as they do by themselves."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import tiny_foreign
from fcfg import AttributeTokens, Autoencoder, Lookup, NoiseSchedule, wrap, wrap_pipeline
from fcfg.diffusion.conditioners import conditioner_of
from fcfg.diffusion.foreign import ForeignNetwork
from fcfg.diffusion.libraries import build_network, config_of, read_network
from refusal import all_refused, refused
from tiny_foreign import NETWORKS, NULL, SCM, SPACE, TABLE, WRITE, foreign, volume_autoencoder

KNOWN = SPACE.parse({"smiling": [1, 0], "hair": ["grey", "red"]})
VALUES = torch.from_numpy(SPACE.encode(KNOWN)).float()
TIMES = torch.tensor([700, 3])


def image_for(network: ForeignNetwork) -> torch.Tensor:
    sides = (4, 8, 8)[-network.dimensions :] if network.dimensions == 3 else (8, 8)
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, network.channels, *sides, generator=generator)


def by_itself(name: str, network: ForeignNetwork, x: torch.Tensor) -> torch.Tensor:
    """The call as the library's own pipeline writes it."""
    inner, made = network.network, network.conditioner(VALUES, torch.ones(2, 2, dtype=torch.bool))
    if name == "flux":
        tokens = x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).permute(0, 2, 4, 1, 3, 5)
        rows = torch.arange(4)
        ids = torch.stack(torch.broadcast_tensors(torch.tensor(0), rows[:, None], rows[None]), -1)
        about = {"img_ids": ids.flatten(0, 1).float(), "txt_ids": torch.zeros(3, 3)}
        tokens = tokens.flatten(3).flatten(1, 2)
        out = inner(hidden_states=tokens, timestep=TIMES / 1000, **about, **made).sample
        out = out.unflatten(1, (4, 4)).unflatten(3, (4, 2, 2)).permute(0, 3, 1, 4, 2, 5)
        return out.flatten(4).flatten(2, 3)
    if name == "monai_unet":
        return inner(x, timesteps=TIMES, **made)
    if name == "sdxl":
        tokens = made.pop("encoder_hidden_states")
        beside = {key.partition(".")[2]: table for key, table in made.items()}
        made = {"encoder_hidden_states": tokens, "added_cond_kwargs": beside}
    out = inner(x, timestep=TIMES, **made).sample
    return out.chunk(2, dim=1)[0] if name == "dit" else out


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_answers_as_by_itself_and_its_condition_matters(name: str) -> None:
    network = foreign(name)
    x, c = image_for(network), network.attributes(VALUES)
    found = network(x, TIMES, c)
    assert found.shape == x.shape
    assert torch.equal(found, by_itself(name, network, x))
    hidden = network(x, TIMES, torch.zeros_like(c))
    assert (found - hidden).square().mean() > 1e-4 * found.square().mean()
    assert all(side % network.stride == 0 for side in x.shape[2:])
    assert network.size == (None if name in ("flux", "monai_unet") else 8)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_built_again_from_what_is_stored(name: str) -> None:
    network = foreign(name)
    stored = network.stored
    inner = build_network(stored["name"], stored["config"])
    conditioner = conditioner_of(SPACE, stored["conditioner"])
    other = ForeignNetwork(inner, conditioner, stored["config"]).eval()
    other.load_state_dict(network.state_dict())
    x, c = image_for(network), network.attributes(VALUES)
    assert torch.allclose(network(x, TIMES, c), other(x, TIMES, c), atol=1e-5)
    assert other.stored == stored


@pytest.mark.filterwarnings("ignore:The `local_dir_use_symlinks` argument:UserWarning")
def test_weights_are_found_again_in_a_folder_and_nothing_is_downloaded(tmp_path: Path) -> None:
    network = foreign("prompted_unet")
    network.network.save_pretrained(tmp_path / "model" / "unet")
    name = "diffusers.UNet2DConditionModel"
    other = read_network(name, {}, str(tmp_path / "model"), None, "unet")
    for one, two in zip(network.network.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
    refused(name, "of owner/model at abc").by(read_network, name, {}, "owner/model", "abc", "unet")
    (tmp_path / "empty").mkdir()
    with refused(name, "a folder without them"):
        read_network(name, {}, str(tmp_path / "empty"), None, "")


def test_weights_of_monai_are_found_in_a_folder_of_one_file(tmp_path: Path) -> None:
    network, config = volume_autoencoder()
    name, folder = "monai.AutoencoderKL", tmp_path / "models" / "vae"
    with refused(name, f"in {folder}", "0 such files", "save_file"):
        read_network(name, config, str(tmp_path / "models"), None, "vae")
    folder.mkdir(parents=True)
    save_file(network.state_dict(), folder / "model.safetensors")
    other = read_network(name, config, str(tmp_path / "models"), None, "vae")
    (folder / "config.json").write_text(json.dumps(config | {"latent_channels": 3}))
    assert config_of(other, None) == config
    with refused(name, "model.safetensors: others"):
        read_network(name, config, str(folder), None, "")
    (folder / "config.json").write_text(json.dumps({"no": "argument"}))
    refused(name, "arguments of its class").by(read_network, name, config, str(folder), None, "")
    (folder / "model.safetensors").write_bytes(b"broken")
    (folder / "config.json").unlink()
    with refused(name, "model.safetensors: others"):
        read_network(name, config, str(folder), None, "")
    for own, weight in network.state_dict().items():
        assert torch.equal(other.state_dict()[own], weight)


def test_codecs_give_scaled_latents_and_their_images() -> None:
    network, _ = tiny_foreign.autoencoder()
    codec = Autoencoder(network, config_of(network, None), scale=0.2, shift=0.5)
    x = torch.randn(2, 3, 16, 16).clamp(-1, 1)
    z = codec.encode(x)
    mean = network.encode(x).latent_dist.mean
    assert torch.allclose(z, (mean - 0.5) * 0.2, atol=1e-6)
    assert torch.allclose(codec.decode(z), network.decode(mean).sample, atol=1e-5)
    assert (codec.channels, codec.factor) == (3, 2)
    assert z.shape == (2, 4, 8, 8)
    network, config = volume_autoencoder()
    codec = Autoencoder(network, config, low=0.0)
    x = torch.randn(1, 1, 8, 8, 8).clamp(-1, 1).double()
    mean, _ = network.encode((x.float() + 1) / 2)
    assert torch.allclose(codec.encode(x).float(), mean)
    assert codec.decode(codec.encode(x)).dtype == torch.float64
    assert torch.allclose(codec.decode(mean), network.decode(mean) * 2 - 1, atol=1e-5)


def test_a_codec_may_return_its_latents_and_what_else_it_returns_is_refused() -> None:
    class Plain(nn.Linear):
        encode = decode = nn.Linear.forward

    plain = Autoencoder(Plain(1, 1), {"in_channels": 1})
    assert torch.equal(plain.encode(torch.ones(2, 1)), plain.network(torch.ones(2, 1)))
    assert plain.factor == 1

    class Wordy(nn.Linear):
        def encode(self, x: torch.Tensor) -> str:
            return "latents"

    with refused("codec", "str", "AutoencoderKL"):
        Autoencoder(Wordy(1, 1), {"in_channels": 1}).encode(torch.zeros(1, 1))


def test_a_codec_from_which_no_image_comes_back_is_refused() -> None:
    network, config = volume_autoencoder()
    codec: Any = partial(Autoencoder, network, config)
    for numbers in ({"scale": 0.0}, {"scale": nan}, {"shift": inf}, {"low": 1.0}, {"low": nan}):
        with refused("codec, scale, shift and low", "a scale other than 0 and a low below 1"):
            codec(**numbers)
    all_refused(
        "codec",
        lambda: codec(scale="1"),
        lambda: codec(shift=None),
        *(lambda wrong=wrong: Autoencoder(network, wrong) for wrong in _MISSHAPEN),
        lambda: Autoencoder("vae", config),  # pyright: ignore[reportArgumentType]
    )


_MISSHAPEN: list[Any] = [None, {"in_channels": None}, {"in_channels": "three"}]
_MISSHAPEN += [
    {"in_channels": 3} | more for more in ({"latent_channels": 0}, {"block_out_channels": 8})
]


def test_what_cannot_be_called_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (network, _), _ = NETWORKS["dit"]()
    wrong = Lookup.prompts(SPACE, str, tiny_foreign.texts_and_pooled)
    with refused("diffusers.DiTTransformer2DModel", "'pooled_projections'", "class_labels"):
        ForeignNetwork(network, wrong)
    with refused("diffusers.DiTTransformer2DModel", "distilled", "null condition"):
        ForeignNetwork(network, Lookup.classes(SPACE, NULL), {"guidance_embeds": True})
    (volume, config), tokens = NETWORKS["monai_unet"]()
    refused("network DiffusionModelUNet", "config=", "none").by(ForeignNetwork, volume, tokens)
    for name in ("os.system", "diffusers.DDIMScheduler", "torch.Linear"):
        refused("network").by(build_network, name, {})
    refused("network").by(build_network, "monai.DiffusionModelUNet", config | {"nonsense": 1})
    refused("network").by(config_of, nn.Linear(1, 1), {})
    monkeypatch.setitem(sys.modules, "diffusers", None)
    name = "diffusers.UNet2DModel"
    refused(f"network {name}", "the extra 'diffusers'").by(build_network, name, {})


def test_what_cannot_be_wrapped_is_refused_in_one_line() -> None:
    (network, _), labels = NETWORKS["unet"]()
    (volume, config), tokens = NETWORKS["monai_unet"]()
    even = NoiseSchedule()
    all_refused(
        "network",
        lambda: wrap(type(network), even, SCM, labels),  # pyright: ignore[reportArgumentType]
        lambda: wrap(deepcopy(network).to("meta"), even, SCM, labels),
        lambda: wrap(volume, even, SCM, tokens, config=config | {"nonsense": 1}),
        lambda: wrap(network, even, SCM, Lookup.classes(SPACE, NULL + 1)),
    )
    with refused("network diffusers.DiTTransformer2DModel", "9 classes, the null", "table of 7"):
        wrap(NETWORKS["dit"]()[0][0], even, SCM, Lookup.classes(SPACE, 0, first=3))
    refused("judge", "AttributeJudge, or None").by(wrap, network, even, SCM, labels, judge="x")
    with refused("config of monai.DiffusionModelUNet", "of another"):
        wrap(volume, even, SCM, tokens, config=config | {"in_channels": 1})
    refused("conditioner").by(wrap, network, even, SCM, WRITE)
    refused("source", "'hub'").by(wrap, network, even, SCM, labels, source="hub")
    refused("pipeline", "from_pretrained").by(wrap_pipeline, "hub", SCM, WRITE)


def test_a_condition_that_does_not_fit_its_network_is_named(monkeypatch) -> None:
    (network, _), _ = tiny_foreign.prompted_unet()
    wide = wrap(network, NoiseSchedule(), SCM, AttributeTokens(SPACE, 2 * tiny_foreign.WIDTH))
    with refused("UNet2DConditionModel", "'encoder_hidden_states'", "8x8"):
        wide.counterfactual(torch.zeros(2, 4, 8, 8), TABLE, {"smiling": 1}, sampling=2)
    monkeypatch.setattr(network, "forward", Mock(side_effect=torch.OutOfMemoryError))
    with pytest.raises(torch.OutOfMemoryError):
        wide.counterfactual(torch.zeros(2, 4, 8, 8), TABLE, {"smiling": 1}, sampling=2)
