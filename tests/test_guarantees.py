"""What is promised of the package as a whole; other tests hold promises of their rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Loads, asks, saves, reads again and reports, where a network and pickle end the process.
WATCHED = """
import os, sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "pickle.find_class"):
        os.write(2, f"{event} {arguments}".encode())
        os._exit(3)
import torch, fcfg
from fcfg.cli import main
sys.addaudithook(watch)
torch.set_num_threads(1)
model = fcfg.load("portraits")
faces = fcfg.datasets.portraits.sample(1, seed=1_000_000)
model.counterfactual(faces.images, faces.attributes, do={"smiling": "flip"}, progress=False)
fcfg.save(model, "model")
fcfg.to_pictures(faces.images)[0].save("face.png")
assert main(["generate", "model", "face.png", "--do", "young=flip", "--sampling", "2"]) == 0
words = ["--images", "4", "--sampling", "2", "--device", "cpu"]
assert main(["evaluate", "model", "portraits/demo", *words]) == 0
assert main(["models"]) == 0
"""


@pytest.mark.promise("No network is used, unless you name a hub")
@pytest.mark.promise("No pickle is read, except weights of LPIPS, as tensors alone")
def test_neither_a_network_nor_pickle_is_used(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WATCHED]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.promise("No pickle is read, except weights of LPIPS, as tensors alone")
def test_nothing_of_the_package_reads_objects_from_pickle() -> None:
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "pickle" not in ast.unparse(node), file
            if isinstance(node, ast.Call):
                call = ast.unparse(node)
                if call.startswith("torch.load("):
                    assert "weights_only=True" in call, file
                if call.startswith("np.load("):
                    assert "allow_pickle=True" not in call, file
