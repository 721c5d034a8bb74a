"""LPIPS: published values with the published weights, laws with any."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path

import pytest
import torch

from fcfg.metrics import LPIPS, Missing, find_lpips
from refusal import refused
from stored import alexnet, images, linear_layers, shared

ALEXNET = "alexnet-owt-7be5be79.pth"


@pytest.fixture(scope="module")
def lpips() -> LPIPS:
    return LPIPS(alexnet() | linear_layers())


def test_published_weights_give_the_reference_values() -> None:
    lpips = LPIPS.load(shared("weights/lpips_alex_full.pt"))
    c, i, j = torch.meshgrid(*map(torch.arange, (3.0, 64.0, 64.0)), indexing="ij")
    a = torch.sin(0.1 * (c + 1) * i + 0.05 * j)[None]
    b = torch.cos(0.07 * (c + 1) * j - 0.03 * i)[None]
    assert lpips(a, b).item() == pytest.approx(0.48695, abs=1e-5)
    assert lpips(a, -a).item() == pytest.approx(0.30746, abs=1e-5)
    assert lpips(a, 0.9 * a).item() == pytest.approx(0.000452, abs=1e-6)
    assert lpips(a, a).item() == 0


def test_distances_are_zero_symmetric_positive_and_weighed_by_layers(lpips: LPIPS) -> None:
    """And does not depend on the neighbours of an image; no gradient is kept."""
    x, y = images().requires_grad_(), images(seed=1)
    found = lpips(x, y)
    assert lpips(x, x).tolist() == [0, 0, 0]
    assert (found > 0).all()
    assert torch.allclose(found, lpips(y, x))
    alone = torch.cat([lpips(x[i : i + 1], y[i : i + 1]) for i in range(3)])
    assert torch.allclose(found, alone, rtol=1e-4)
    assert not any(tensor.requires_grad for tensor in (found, *lpips.parameters()))
    x, y = images(), images(seed=1)
    for factor in (0, 2):
        weighed = {name: factor * weight for name, weight in linear_layers().items()}
        assert torch.allclose(LPIPS(alexnet() | weighed)(x, y), factor * lpips(x, y))


def test_grey_images_are_repeated_and_sizes_used_as_they_are(lpips: LPIPS) -> None:
    x, y = images(channels=1), images(channels=1, seed=1)
    assert torch.allclose(lpips(x, y), lpips(x.expand(-1, 3, -1, -1), y.expand(-1, 3, -1, -1)))
    assert lpips(images(size=32), images(size=32, seed=1)).isfinite().all()
    wrong = (images(size=31), images(channels=2), images().to(torch.uint8))
    for each in wrong:
        refused("images").by(lpips, each, each)


def save(folder: Path, one_file: bool) -> None:
    folder.mkdir(exist_ok=True)
    if one_file:
        torch.save(alexnet() | linear_layers(), folder / "lpips_alex_full.pt")
    else:
        torch.save(alexnet(), folder / ALEXNET)
        torch.save(linear_layers(), folder / "alex.pth")


def test_one_file_and_two_are_the_same(lpips: LPIPS, tmp_path: Path) -> None:
    save(tmp_path, one_file=True)
    save(tmp_path, one_file=False)
    x, y = images(), images(seed=1)
    one = LPIPS.load(tmp_path / "lpips_alex_full.pt")
    two = LPIPS.load(tmp_path / ALEXNET, tmp_path / "alex.pth")
    assert torch.equal(one(x, y), lpips(x, y))
    assert torch.equal(two(x, y), lpips(x, y))
    assert two.about["weights"] == f"{ALEXNET} + alex.pth"
    names = ("lpips_alex_full.pt", ALEXNET, "alex.pth")
    own, *others = (hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in names)
    assert two.about["sha256"] == " + ".join(others)
    about = {"name": "LPIPS", "network": "AlexNet v0.1", "range": "[-1, 1]"}
    assert one.about == about | {"weights": names[0], "sha256": own}


def test_weights_of_something_else_are_refused(tmp_path: Path) -> None:
    broken = {name: torch.full_like(weight, torch.inf) for name, weight in linear_layers().items()}
    for wrong in ({}, linear_layers() | {"lin4.model.1.weight": torch.zeros(1)}, broken):
        refused("LPIPS weights").by(LPIPS, alexnet() | wrong)
    (tmp_path / "broken.pt").write_bytes(b"no tensors")
    for name in ("absent.pt", "broken.pt"):
        refused(name).by(LPIPS.load, tmp_path / name)


@pytest.mark.parametrize("one_file", [True, False])
def test_weights_are_found_in_every_place(nowhere: Path, tmp_path, monkeypatch, one_file) -> None:
    save(nowhere, one_file)
    assert isinstance(find_lpips(), LPIPS)  # torch's hub
    (tmp_path / "named").mkdir()
    monkeypatch.setenv("FCFG_WEIGHTS", str(tmp_path / "named"))
    assert isinstance(find_lpips(), LPIPS)  # nothing in the folder, so the hub
    save(tmp_path / "named", one_file)
    for file in nowhere.iterdir():
        file.unlink()
    assert isinstance(find_lpips(), LPIPS)
    monkeypatch.delenv("FCFG_WEIGHTS")
    assert isinstance(find_lpips(), Missing)
    assert isinstance(find_lpips(tmp_path / "named"), LPIPS)


def test_linear_layers_of_an_installed_lpips_are_found(nowhere, tmp_path, monkeypatch) -> None:
    package = tmp_path / "site" / "lpips"
    (package / "weights" / "v0.1").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not to be imported')")
    torch.save(linear_layers(), package / "weights" / "v0.1" / "alex.pth")
    torch.save(alexnet(), nowhere / ALEXNET)
    assert isinstance(find_lpips(), Missing)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    importlib.invalidate_caches()
    found = find_lpips()
    assert isinstance(found, LPIPS)
    assert found.about["weights"] == f"{ALEXNET} + alex.pth"


def test_a_place_that_is_named_must_have_them(nowhere: Path, tmp_path, monkeypatch) -> None:
    refused("absent.pt").by(find_lpips, tmp_path / "absent.pt")
    refused("LPIPS weights").by(find_lpips, nowhere)
    monkeypatch.setenv("FCFG_WEIGHTS", str(tmp_path / "absent"))
    refused("FCFG_WEIGHTS").by(find_lpips)
