"""Diagnosis of a model: do the groups of its attributes act independently (``fcfg diagnose``)?"""

from fcfg.diagnosis.additivity import Gap, measure_gaps
from fcfg.diagnosis.diagnosis import THRESHOLD, Diagnosis, diagnose, percent
from fcfg.diagnosis.entanglement import Entanglement, measure_entanglement
from fcfg.diagnosis.page import diagnosis_page, groupings

__all__ = [
    "THRESHOLD",
    "Diagnosis",
    "Entanglement",
    "Gap",
    "diagnose",
    "diagnosis_page",
    "groupings",
    "measure_entanglement",
    "measure_gaps",
    "percent",
]
