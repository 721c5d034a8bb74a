"""Measure how fast this machine samples, beside baselines and the rate of its hardware."""

from fcfg.bench.bench_model import BenchModel, Workload
from fcfg.bench.record import Measurement, Record, heading, read_record, tables
from fcfg.bench.run import PARTS, Bench

__all__ = [
    "PARTS",
    "Bench",
    "BenchModel",
    "Measurement",
    "Record",
    "Workload",
    "heading",
    "read_record",
    "tables",
]
