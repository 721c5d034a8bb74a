r"""What attributes change in predictions of noise: the gap of groups, and the gain of all.

FCFG assumes that groups are independent given :math:`x_t` (Sec. 3.2). Then the score difference of
the joint condition is the sum of those of the groups, and the gap is 0:

.. math:: \frac{\lVert \Delta_{joint} - \sum_m \Delta_m \rVert}{\lVert \Delta_{joint} \rVert},
    \qquad \Delta_m = \epsilon_\theta(x_t, t, c^{(m)}) - \epsilon_\theta(x_t, t, \varnothing)

A gap of 1 is as wrong as no push at all. Norms are root mean squares over images. One number for
all times weighs them by the push that guidance gives there to the noisy image,
:math:`\sqrt{1 - \alpha_t}\, \Delta_{joint}` for a unit of log-SNR, on times that are even in
log-SNR: a time at which the attributes change nothing counts nothing.

Gaps of a network that does not know what its attributes mean say nothing. The gain compares the
error of the predicted noise under the attributes of another image, :math:`c'`, and under its own:

.. math:: \frac{\lVert \epsilon - \epsilon_\theta(x_t, t, c') \rVert^2
    - \lVert \epsilon - \epsilon_\theta(x_t, t, c) \rVert^2}
    {\lVert \epsilon_\theta(x_t, t, c) - \epsilon_\theta(x_t, t, c') \rVert^2}

On average it is 1 for exact predictions, by the theorem of Pythagoras. For a network that was not
trained it is 0, because it cannot tell its own attributes from those of another image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.metrics import Bootstrap, Estimate, mean, ratio
from fcfg.support.errors import InputError, check_integer, quoted
from fcfg.support.hashing import stream_seed
from fcfg.support.images import image_keys
from fcfg.support.progress import OnProgress

Groups: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Gap:
    """The additivity gap of some groups of attributes."""

    groups: Groups
    overall: Estimate  #: over all times
    over_time: tuple[Estimate, ...] = field(repr=False)
    push: tuple[float, ...] = field(repr=False)
    """Root mean square over images of the push of all groups together, at each time."""

    @property
    def missed(self) -> float:
        """Size of the push that the sum of the groups misses, over all times."""
        return self.overall.value * float(np.linalg.norm(self.push))

    def to_json(self) -> dict[str, Any]:
        """All numbers, for a file."""
        return {
            "groups": [list(group) for group in self.groups],
            "overall": self.overall.to_json(),
            "over_time": [estimate.to_json() for estimate in self.over_time],
            "push": list(self.push),
        }


def measure_gaps(
    denoiser: Denoiser,
    images: Float[Tensor, "image channel *size"],
    attributes: Table,
    groupings: Sequence[Groups],
    times: Sequence[int],
    *,
    seed: int = 0,
    batch_size: int = 256,
    on_progress: OnProgress | None = None,
) -> list[Gap]:
    """Measure the gaps of groups on the same noisy images; attributes in no group are masked."""
    check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
    names, count = denoiser.embedder.space.names, len(images)
    joints = [tuple(sorted(sum(groups, ()))) for groups in groupings]
    sets = [(), *dict.fromkeys([group for groups in groupings for group in groups] + joints)]
    keep = torch.tensor([[name in members for name in names] for members in sets])
    squares = np.zeros((len(groupings), 2, len(times), count))
    size, done = max(1, batch_size // len(sets)), 0
    with torch.no_grad(), evaluation_mode(denoiser):
        for at in _noised(denoiser, images, times, seed, size):
            table = {name: values[at.rows] for name, values in attributes.items()}
            eps = _evaluate(denoiser, at, table, keep, batch_size)
            push = (at.level * (eps - eps[0])).double()  # of a unit of log-SNR
            for row, (groups, members) in enumerate(zip(groupings, joints, strict=True)):
                joint = push[sets.index(members)]
                parts = push[[sets.index(group) for group in groups]].sum(dim=0)
                both = torch.stack([joint - parts, joint]).square().flatten(2).sum(dim=2)
                squares[row, :, times.index(at.t), at.rows] = both.cpu().numpy()
            done += len(at.x)
            if on_progress is not None:
                on_progress(done / (count * len(times)))
    bootstrap = Bootstrap(count)
    pairs = zip(groupings, squares, strict=True)
    return [_gap(groups, both[0], both[1], times, bootstrap) for groups, both in pairs]


def measure_gain(
    denoiser: Denoiser,
    images: Float[Tensor, "image channel *size"],
    attributes: Table,
    times: Sequence[int],
    *,
    seed: int = 0,
    batch_size: int = 256,
) -> Estimate:
    """Measure the gain over all times, which count as in the gaps."""
    count = len(images)
    order = np.argsort(image_keys(images))  # so that the order of the images does not matter
    other = np.empty(count, dtype=np.int64)
    other[order] = np.roll(order, 1)
    gained, moved = np.zeros(count), np.zeros(count)
    with torch.no_grad(), evaluation_mode(denoiser):
        for at in _noised(denoiser, images, times, seed, batch_size):
            right, wrong = (
                denoiser.noise(
                    at.x, at.time, denoiser.condition({k: v[i] for k, v in attributes.items()})
                )
                for i in (np.arange(count)[at.rows], other[at.rows])
            )
            there, here, apart = (
                (at.level * (a - b)).double().square().flatten(1).sum(dim=1).cpu().numpy()
                for a, b in ((wrong, at.drawn), (right, at.drawn), (right, wrong))
            )
            gained[at.rows] += there - here
            moved[at.rows] += apart
    bootstrap = Bootstrap(count)
    return ratio(gained, moved, bootstrap) if moved.any() else mean(moved, bootstrap)


class _Noised(NamedTuple):
    """Some images with the noise of one time."""

    rows: slice
    t: int
    x: Tensor
    drawn: Tensor
    level: float  #: of the noise

    @property
    def time(self) -> Tensor:
        return torch.full((len(self.x),), self.t, device=self.x.device)


def _noised(
    denoiser: Denoiser, images: Tensor, times: Sequence[int], seed: int, size: int
) -> Iterator[_Noised]:
    """Return images at all times, on the device; no image depends on the others."""
    keys, place = image_keys(images), (denoiser.device, denoiser.state_dtype)
    for first in range(0, len(images), size):
        rows = slice(first, first + size)
        x = denoiser.encoded(images[rows]).cpu()
        for t in times:
            draws = [
                torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(number))
                for number in (stream_seed(seed, "diagnosis", key, t) for key in keys[rows])
            ]
            levels = denoiser.schedule.signal, denoiser.schedule.noise
            signal, noise = (float(level(torch.tensor(t))) for level in levels)
            drawn = torch.stack(draws)
            x_t = signal * x + noise * drawn
            yield _Noised(rows, t, x_t.to(*place), drawn.to(*place), noise)


def _evaluate(
    denoiser: Denoiser, at: _Noised, table: Table, keep: Tensor, batch_size: int
) -> Float[Tensor, "sets image channel *size"]:
    condition, pieces = denoiser.condition(table), list[Tensor]()
    for some in keep.to(at.x.device).split(max(1, batch_size // len(at.x))):
        masked = [denoiser.embedder.masked(condition, row[None]) for row in some]
        eps = denoiser.noise(at.x, at.time, torch.cat(masked))
        pieces.append(eps.unflatten(0, (len(some), len(at.x))))
    return torch.cat(pieces)


def _gap(
    groups: Groups,
    missed: NDArray[np.float64],
    joint: NDArray[np.float64],
    times: Sequence[int],
    bootstrap: Bootstrap,
) -> Gap:
    """Turn squared norms, (times, images), into a gap."""
    still = [t for t, row in zip(times, joint, strict=True) if not row.any()]
    if still:
        raise InputError(
            f"diagnosis of {quoted(sorted(sum(groups, ())))}",
            expected="a network whose prediction depends on these attributes",
            got=f"the same prediction with and without them at t = {still[0]}",
            do="train the model first, or for longer",
        )
    over_time = tuple(_root(ratio(*rows, bootstrap)) for rows in zip(missed, joint, strict=True))
    overall = _root(ratio(missed.sum(axis=0), joint.sum(axis=0), bootstrap))
    return Gap(groups, overall, over_time, tuple(np.sqrt(joint.mean(axis=1)).tolist()))


def _root(squared: Estimate) -> Estimate:
    return Estimate(float(np.sqrt(squared.value)), np.sqrt(squared.replicates), squared.n)
