"""The Fréchet distance against a root of a matrix and closed forms; the network of FID."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torch import nn
from torch.nn import functional

from fcfg.metrics import Inception, Missing, find_inception, frechet_distance
from refusal import refused
from stored import images, shared


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def reference(x: np.ndarray, y: np.ndarray) -> float:
    s, t = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = np.trace(sqrtm(s @ t)).real
    return float(((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(s) + np.trace(t) - 2 * root)


@pytest.mark.parametrize(("n", "m", "d"), [(50, 70, 6), (40, 40, 30), (200, 31, 30)])
def test_the_distance_agrees_with_a_root_of_the_product(n: int, m: int, d: int) -> None:
    x, y = rows(n, d), rows(m, d, seed=1)
    assert frechet_distance(x, y) == pytest.approx(reference(x, y), rel=1e-8)


@pytest.mark.parametrize(("n", "d"), [(50, 6), (10, 40)])  # also with fewer images than features
def test_the_distance_is_zero_for_equal_features_and_symmetric(n: int, d: int) -> None:
    x, y = rows(n, d), rows(n + 3, d, seed=1)
    for same in (x, x[::-1]):
        assert 0 <= frechet_distance(x, same) <= 1e-10 * (x**2).sum()
    assert frechet_distance(x, y) == pytest.approx(frechet_distance(y, x))


def test_features_that_have_no_distance_are_refused() -> None:
    x = rows(5, 3)
    refused("features").by(frechet_distance, x, x[:, :2])
    for wrong in (x[:1], x[:, 0], np.full((5, 3), np.nan)):
        refused("others").by(frechet_distance, x, wrong)


class Means(nn.Module):
    """Mean of each channel, times a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert list(x.shape[1:]) == [3, 299, 299]
        return x.mean(dim=[2, 3]) * self.weight


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "inception_fid.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Means().half()).save(path)
    return path


def test_images_are_rounded_to_bytes_enlarged_and_scaled(script: Path) -> None:
    network = Inception.load(script)
    flat = torch.tensor([-1.0, 0.0, 1.0])[:, None, None].expand(2, 3, 8, 8)
    wanted = (torch.tensor([0.0, 128.0, 255.0]) - 128) / 128
    assert network.features(flat)[1] == pytest.approx(wanted.numpy(), abs=1e-6)
    x = images(5, size=20)
    small = ((x + 1) * 127.5).round()
    large = (functional.interpolate(small, size=(299, 299), mode="bilinear") - 128) / 128
    found = network.features(x, batch_size=2)
    assert found.shape == (5, 3)
    assert found == pytest.approx(large.mean(dim=(2, 3)).numpy(), abs=1e-5)
    grey = network.features(x[:, :1])
    assert grey == pytest.approx(network.features(x[:, :1].expand(-1, 3, -1, -1)))


def test_what_the_network_cannot_take_is_refused(script: Path, tmp_path: Path) -> None:
    network = Inception.load(script)
    for wrong in (images().to(torch.uint8), images(channels=2)):
        refused("images").by(network.features, wrong)
    refused("batch_size").by(network.features, images(), batch_size=0)
    other = tmp_path / "state.pth"
    torch.save(Means().state_dict(), other)
    refused("state.pth", "a TorchScript file").by(Inception.load, other)
    broken = nn.Linear(2, 2)
    broken.bias.data[1] = torch.nan
    refused("FID weights", "NaN or infinity in 'bias'").by(Inception, broken)


def test_the_network_is_looked_for_and_never_fetched(nowhere, script, monkeypatch) -> None:
    missing = find_inception()
    assert isinstance(missing, Missing)
    assert "no weights for FID: set FCFG_WEIGHTS" in str(missing)
    monkeypatch.setenv("FCFG_WEIGHTS", str(script.parent))
    for found in (find_inception(), find_inception(script)):
        assert isinstance(found, Inception)
        assert (found.about["name"], found.about["weights"]) == ("FID", "inception_fid.pt")
        assert len(found.about["sha256"]) == 64
    refused("FID weights", "inception_fid.pt or", "none of them").by(find_inception, nowhere)


def test_the_published_network_tells_images_apart() -> None:
    network = find_inception(shared("weights/inception_fid_fp16storage.pt"))
    x = images(3, size=64)
    features = network.features(torch.cat([x, x[:1]]))
    assert features.shape == (4, 2048)
    assert features[3] == pytest.approx(features[0], abs=1e-4)
    assert frechet_distance(features, features) == pytest.approx(0, abs=1e-6)
    assert features.min() >= 0  # means of what a ReLU left
    assert np.abs(features[0] - features[1]).max() > 0.1
