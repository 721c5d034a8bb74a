"""How fast this machine trains and samples, beside what others would write, and what it can do."""

from fcfg.bench.bench_model import Subject, preset_subject, stored_subject
from fcfg.bench.record import Measurement, Record, read_record
from fcfg.bench.run import PARTS, Bench, Scale
from fcfg.bench.table import heading, tables

__all__ = [
    "PARTS",
    "Bench",
    "Measurement",
    "Record",
    "Scale",
    "Subject",
    "heading",
    "preset_subject",
    "read_record",
    "stored_subject",
    "tables",
]
