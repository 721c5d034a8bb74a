"""Where the laws of computing are tested: on the CPU, or where ``pytest --device`` says."""

from __future__ import annotations

import os

import pytest
import torch

# Set by conftest.py; processes that tests start have it, too.
DEVICE = torch.device(os.environ.get("FCFG_TEST_DEVICE", "cpu"))

anywhere = pytest.mark.anywhere  #: of tests that compute there; on a GPU, only they are run
