"""Networks of other libraries train from their configuration, and any denoiser in latents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import fcfg
from fcfg import Abduction, Autoencoder, Denoiser, Guidance
from fcfg.datasets.base import Splits
from fcfg.diffusion.foreign import ForeignNetwork
from fcfg.pipeline.foreign import ForeignPipeline
from fcfg.support.config_files import to_yaml, validate
from fcfg.support.images import images_from_bytes
from fcfg.training import TrainingConfig, read_config, train
from fcfg.training.feed import first_batch, rows_of_step
from fcfg.training.preflight import check_batches, describe
from refusal import refused
from runs import DENOISING, TINY, Recorder, same, weights
from tiny_foreign import autoencoder, volume_autoencoder

UNET: dict[str, Any] = {"block_out_channels": [8, 8], "layers_per_block": 1, "norm_num_groups": 4}
UNET |= {"cross_attention_dim": 8, "attention_head_dim": 4}
UNET |= {"down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"]}
UNET |= {"up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"]}
SHORT = {"batch": 4, "steps": 3, "learning_rate": 1e-3, "ema": 0.5}
ASKED = {"smiling": [0, 1], "male": [1, 0], "young": [1, 1]}
HOW: dict[str, Any] = {
    "sampling": "ddim uniform 3",
    "guidance": Guidance.cfg(2).replace(anchor=True),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep latents of drawn images away from those of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "fcfg"


def foreign(channels: int = 3, size: int = 8, **more: Any) -> dict[str, Any]:
    pytest.importorskip("diffusers", reason="needs the extra diffusers")
    shape = {"in_channels": channels, "out_channels": channels, "sample_size": size}
    network = {"name": "diffusers.UNet2DConditionModel", "config": UNET | shape}
    own = {"kind": "foreign", "network": network, "conditioner": {"width": 8}}
    return SHORT | own | more


def ours(**more: Any) -> dict[str, Any]:
    return DENOISING | SHORT | more


def codec(folder: Path, **more: Any) -> dict[str, Any]:
    """Write the tiny autoencoder to a folder; return the section that names it."""
    if not folder.exists():
        autoencoder()[0].save_pretrained(folder)
    config = {"in_channels": 3, "latent_channels": 4, "block_out_channels": [8, 8]}
    module = {"name": "diffusers.AutoencoderKL", "config": config, "source": str(folder)}
    return {"module": module, "scale": 0.5, "shift": 0.1} | more


def configuration(model: dict[str, Any], **run: Any) -> TrainingConfig:
    run = {**TINY["run"], **run}
    judge = {"width": 4, "batch": 8, "steps": 1}
    return validate(TrainingConfig, {**TINY, "model": model, "judge": judge, "run": run}, "tiny")


def images(count: int = 2) -> torch.Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1


def has_encoded(recorder: Recorder) -> bool:
    return "encoding images" in {activity for activity, *_ in recorder.counts}


def check_answers(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer has pixels; where nothing is asked, the loop itself returns the image."""

    def none(abduction: Abduction, action: object) -> torch.Tensor:
        return torch.zeros(len(abduction.images), dtype=torch.bool)

    model.denoiser.double()  # rounding grows in networks that were hardly trained
    x = images()
    other = model.counterfactual(x, ASKED, {"smiling": "flip"}, **HOW)
    assert other.images.shape == x.shape
    assert other.images.isfinite().all()
    monkeypatch.setattr(Abduction, "unchanged", none)
    nothing = {"smiling": ASKED["smiling"]}
    assert (model.counterfactual(x, ASKED, nothing, **HOW).images - x).abs().max() < 1e-5


@pytest.mark.parametrize("kind", ["linear", "flow"])
def test_a_network_of_diffusers_trains_from_a_file_and_answers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(to_yaml(configuration(foreign(schedule={"kind": kind, "steps": 100}))))
    config = read_config(str(path))
    assert "conditioner" in to_yaml(config)
    folder = train(config, tmp_path / "out")
    model = fcfg.load(folder)
    assert isinstance(model, ForeignPipeline)
    assert model.denoiser.parameterisation == ("flow" if kind == "flow" else "noise")
    network = model.denoiser.network
    assert isinstance(network, ForeignNetwork)
    assert type(network.network).__name__ == "UNet2DConditionModel"
    untrained = config.model.build(config.inputs).state_dict()
    moved = {
        k.partition(".")[0] for k, v in network.state_dict().items() if _moved(k, v, untrained)
    }
    assert moved == {"network", "conditioner"}
    check_answers(model, monkeypatch)


def _moved(name: str, tensor: torch.Tensor, untrained: dict[str, torch.Tensor]) -> bool:
    return not torch.equal(tensor, untrained[f"network.{name}"])


def test_a_network_of_monai_predicts_velocities_and_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("monai", reason="needs the extra monai")
    config = {"spatial_dims": 2, "in_channels": 3, "out_channels": 3, "channels": [8, 8]}
    config |= {"attention_levels": [False, True], "num_res_blocks": 1, "num_head_channels": 4}
    config |= {"norm_num_groups": 4, "with_conditioning": True, "cross_attention_dim": 8}
    own: dict[str, Any] = {"kind": "foreign", "conditioner": {"width": 8, "tokens": "context"}}
    own |= {"network": {"name": "monai.DiffusionModelUNet", "config": config}}
    own |= {"schedule": {"parameterisation": "velocity"}}
    model = fcfg.load(train(configuration(SHORT | own), tmp_path / "out"))
    assert model.denoiser.parameterisation == "velocity"
    assert model.counterfactual(images(), ASKED, {"male": "flip"}, **HOW).images.isfinite().all()


@pytest.mark.promise("A training that is killed goes on, and ends with the same bits (CPU)")
def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path: Path) -> None:
    model = foreign()
    whole = train(configuration(model), tmp_path / "whole")
    parted = tmp_path / "parted"
    train(configuration(model | {"steps": 2}, checkpoint_steps=1), parted)
    train(configuration(model, checkpoint_steps=1), parted)
    assert same(whole, parted)
    assert any("conditioner" in name for name in weights(whole))


def test_a_foreign_network_has_a_cost_that_is_known_or_is_refused_before_the_run(tmp_path) -> None:
    about = describe(configuration(foreign()))
    assert about.parameters > 1000
    assert about.embedder_parameters > 8 * 3
    check_batches(configuration(foreign()))
    for change, words in (
        ({"network": {"name": "os.system"}}, ("network", "diffusers or MONAI", "os.system")),
        ({"conditioner": {"tokens": "context"}}, ("network", "context", "the conditioner")),
        ({"conditioner": {"width": 4, "kind": "lookup"}}, ("conditioner.kind", "'tokens'")),
    ):
        refused(*words).by(configuration, foreign() | change)
    with refused("model.batch", "8 × 8 pixels"):
        train(configuration(foreign(channels=4)), tmp_path / "out")


#: Arguments that no network has, one in place of another.
_HOSTILE: dict[str, list[Any]] = {
    "block_out_channels": [None, [], [0, 8], [8, -8], "8", {}],
    "layers_per_block": ["1", [1], -1.5],
    "down_block_types": [None, 3, [[8], "DownBlock2D"], ["x", "y"], "os.system"],
    "up_block_types": [[0, "UpBlock2D"], [None, None]],
    "cross_attention_dim": [7, "8", -8],
    "attention_head_dim": [0, 3.5, {}],
    "in_channels": [None, 0, "three", [3]],
    "norm_num_groups": [0, 3, float("nan")],
    "nonsense": [1],
}


def test_hostile_arguments_are_refused_in_one_line_each() -> None:
    for name, values in _HOSTILE.items():
        for value in values:
            model = foreign()
            model["network"]["config"] |= {name: value}
            refused("").by(lambda model=model: check_batches(configuration(model)))


def test_what_a_configuration_leaves_out_is_the_default_of_the_class() -> None:
    model = foreign()
    del model["network"]["config"]["in_channels"]  # 4, beside drawings with 3
    with refused("model.batch", "8 × 8 pixels"):
        check_batches(configuration(model))


def test_a_codec_that_is_missing_is_refused_before_the_judge_is_trained(tmp_path: Path) -> None:
    section = codec(tmp_path / "vae")
    (tmp_path / "vae").rename(tmp_path / "elsewhere")
    recorder = Recorder()
    with refused("network diffusers.AutoencoderKL", "download that revision"):
        train(configuration(ours(codec=section)), tmp_path / "out", reporter=recorder)
    assert not recorder.losses


@pytest.mark.parametrize("kind", ["foreign", "diffusion"])
def test_training_in_latents_ends_with_a_model_of_pixels(
    kind: str, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = codec(tmp_path / "vae")
    model = ours(codec=section) if kind == "diffusion" else foreign(4, 4, codec=section)
    config = configuration(model, sheets=1)
    recorder = Recorder()
    folder = train(config, tmp_path / "out", reporter=recorder)
    assert has_encoded(recorder)
    latents = sorted(own_cache.glob("latents-*.npy"))
    stored = {np.load(path).shape: np.load(path) for path in latents}
    assert set(stored) == {(48, 4, 4, 4), (16, 4, 4, 4)}
    assert {array.dtype for array in stored.values()} == {np.dtype(np.float16)}
    assert str(tmp_path) not in (folder / "config.json").read_text()
    loaded = fcfg.load(folder)
    denoiser = loaded.denoiser
    assert isinstance(denoiser, Denoiser)
    assert isinstance(denoiser.codec, Autoencoder)
    assert (denoiser.channels, denoiser.size, denoiser.codec.scale) == (3, 8, 0.5)
    vae, kept = autoencoder()[0].state_dict(), denoiser.codec.network.state_dict()
    assert all(torch.equal(vae[name], kept[name]) for name in vae)
    check_answers(loaded, monkeypatch)
    assert list((folder / "training" / "sheets").iterdir())


def test_training_in_latents_of_monai_ends_with_a_model_of_pixels(tmp_path: Path) -> None:
    network, config = volume_autoencoder(2, 3, 4)
    folder = tmp_path / "vae"
    folder.mkdir()
    save_file(network.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    shape = {"in_channels": 3, "latent_channels": 4, "channels": [8, 8]}
    module = {"name": "monai.AutoencoderKL", "config": shape, "source": str(folder)}
    section = {"module": module, "scale": 0.5, "low": 0.0}
    trained = train(configuration(ours(codec=section)), tmp_path / "out")
    assert str(tmp_path) not in (trained / "config.json").read_text()
    kept = fcfg.load(trained).denoiser.codec
    assert isinstance(kept, Autoencoder)
    for name, weight in network.state_dict().items():
        assert torch.equal(kept.network.state_dict()[name], weight)


def test_a_second_run_finds_the_latents_and_another_codec_makes_its_own(
    tmp_path: Path, own_cache: Path
) -> None:
    def run(name: str, **codec_of: Any) -> Recorder:
        recorder = Recorder()
        section = codec(tmp_path / "vae", **codec_of)
        train(configuration(ours(codec=section)), tmp_path / name, reporter=recorder)
        return recorder

    run("one")
    before = {path: path.stat().st_mtime_ns for path in own_cache.iterdir()}
    assert len(before) == 2
    assert not has_encoded(run("two"))
    assert {path: path.stat().st_mtime_ns for path in own_cache.iterdir()} == before
    assert same(tmp_path / "one", tmp_path / "two")
    assert has_encoded(run("three", scale=0.25))
    assert len(list(own_cache.iterdir())) == 4


def test_a_batch_of_latents_is_what_the_codec_says(tmp_path: Path) -> None:
    config = configuration(ours(codec=codec(tmp_path / "vae")))
    splits: Splits = config.data.load(config.space)
    device = torch.device("cpu")
    found = config.model.encoded(splits, config.data, device, lambda *_: None)
    batch = first_batch(found["val"], 8, config.space, {}, device)
    rows = rows_of_step(0, 0, 8, 8)
    network = autoencoder()[0]
    with torch.no_grad():
        mean = network.encode(images_from_bytes(splits["val"].images[rows])).latent_dist.mode()
    assert batch.images.dtype == torch.float32
    assert torch.allclose(batch.images, (mean - 0.1) * 0.5, atol=1e-3)
    assert found["val"].attributes is splits["val"].attributes


def test_a_codec_needs_weights_that_fit_the_images_and_latents_of_its_shape(tmp_path) -> None:
    section = codec(tmp_path / "vae")
    module = section["module"]
    with refused("model.codec", "the place of the weights", "none"):
        configuration(ours(codec=section | {"module": {**module, "source": None}}))
    for wrong in ({"in_channels": 1}, {"block_out_channels": [8] * 5}):
        config = module["config"] | wrong
        with refused("model.codec", "images of 8 pixels with 3 channels"):
            configuration(ours(codec=section | {"module": {**module, "config": config}}))
    for wrong in ({"scale": 0.0}, {"low": 1.0}, {"shift": ".nan"}):
        refused("codec").by(configuration, ours(codec=section | wrong))
    section = codec(tmp_path / "vae")
    config = {"in_channels": 3, "latent_channels": 2, "block_out_channels": [8, 8]}
    module = {**section["module"], "config": config}
    with refused("model.codec", "finite latents of shape (2, 4, 4)", "(4, 4, 4)"):
        train(configuration(ours(codec=section | {"module": module})), tmp_path / "out")
