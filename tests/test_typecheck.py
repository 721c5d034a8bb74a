"""The run-time checker of the tests is at work."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from fcfg.causal.mechanisms import gumbel_posterior
from fcfg.sampling import Trajectory


def test_tensors_of_other_shapes_are_no_arguments_and_no_fields() -> None:
    rows, uniform = torch.zeros(4, 2), torch.rand(4, 3)
    assert gumbel_posterior(rows, torch.zeros(4, dtype=torch.long), uniform).shape == (4, 2)
    with pytest.raises(TypeCheckError, match="gumbel_posterior"):
        gumbel_posterior(rows, torch.zeros(5, dtype=torch.long), uniform)
    assert Trajectory(torch.zeros(2, 1, 4, 4)).x.shape == (2, 1, 4, 4)
    with pytest.raises(TypeCheckError, match="Trajectory"):
        Trajectory(torch.zeros(4))
