"""Visits to a studio: a real server, and pages that may not fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import fcfg
from browser import Tab
from evaluations import tiny_model
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.studio.app import Studio
from fcfg.studio.models import StudioModel, as_studio_models
from studios import serving

QUICK = "sampling=dpm-2m+uniform+4&tab=history"  # an answer in a moment, and no strip after it


@contextmanager
def running_studio(*sources: str) -> Iterator[str]:
    """The address of a studio of some models."""
    models = as_studio_models([(source, fcfg.load(source).prepare()) for source in sources])
    with serving(Studio(models)) as address:
        yield address


def listening_model() -> CounterfactualPipeline:
    """A tiny model of a drawn world that nobody trained, and that listens to its condition."""
    pipeline = tiny_model(saved=True)
    for parameter in pipeline.denoiser.network.parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape)
    return pipeline


def studio_model() -> StudioModel:
    """The same model as the studio knows it."""
    (model,) = as_studio_models([("portraits", listening_model())])
    return model


class Visit(Tab):
    """A page of the studio, served or exported, which may ask nobody else."""

    def __init__(
        self,
        browser: Any,
        address: str,
        size: tuple[int, int] = (1280, 800),
        scheme: str = "light",
        **options: Any,
    ) -> None:
        super().__init__(browser, size, scheme, **options)
        self.address, self.expected_errors = address, 0  # of requests that a test makes fail

    def open(self, fragment: str = "") -> None:
        """Open the page, and wait for its answer."""
        self.page.goto(f"{self.address}#{fragment}")
        self.answered()

    def answered(self) -> None:
        """Wait until the question is answered."""
        self.page.locator("#status", has_text="network rows").wait_for()

    def texts(self, selector: str) -> list[str]:
        """Return the texts of elements."""
        return self.page.locator(selector).all_inner_texts()

    def questions(self) -> list[dict[str, Any]]:
        """Return what the page asked the server to draw."""
        return [each.post_data_json for each in self.asked if each.url.endswith("/api/answer")]

    def shown(self, name: str) -> str:
        """Return the address of the picture on a canvas."""
        return self.page.locator(f"#{name}").get_attribute("data-address")

    def close(self) -> None:
        """Close the page; it must have logged nothing and asked nobody else."""
        self.context.close()
        assert self.foreign(self.address.partition("#")[0]) == []
        assert len(self.errors) == self.expected_errors, self.errors
