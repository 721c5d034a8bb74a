"""Measure how fast this machine samples, beside baselines and the rate of its hardware."""

from fcfg.bench.bench import Bench, Measurement, Record, plan
from fcfg.bench.workload import Workload, from_preset

__all__ = ["Bench", "Measurement", "Record", "Workload", "from_preset", "plan"]
