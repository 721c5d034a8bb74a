"""The network that docs/your-model.md trains on drawn volumes knows their truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fcfg
from test_package import blocks

PAGE = "docs/your-model.md"


def trained(steps: int) -> dict[str, Any]:
    """Run the last two blocks of the page with more steps."""
    pytest.importorskip("monai", reason="needs the extra monai")
    world, training = (code for code in blocks(PAGE, "python") if "draw_people(" in code)
    assert "steps, (people, centres) = 3," in training
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(world + training.replace("centres) = 3,", f"centres) = {steps},"), names)
    return names


@pytest.mark.long
def test_an_anchored_answer_is_nearer_to_the_truth_than_no_change(tmp_path: Path) -> None:
    names = trained(600)
    model, draw, (people, centres) = names["model"], names["draw"], names["draw_people"](32, 1)
    model.save(tmp_path)
    volumes = draw(**people, centre=centres)
    for target in ("sex", "disease"):
        answer = fcfg.load(tmp_path).counterfactual(volumes, people, {target: "flip"}, sampling=10)
        assert answer.plan.setting.anchor
        truth = draw(**answer.attributes, centre=centres)
        error, change = ((v - truth).square().mean().sqrt() for v in (answer.images, volumes))
        assert error < 0.8 * change, target
