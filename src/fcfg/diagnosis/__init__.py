"""Diagnosis of a model: do the groups of its attributes act independently (``fcfg diagnose``)?"""

from fcfg.diagnosis.diagnosis import THRESHOLD, Association, Diagnosis, diagnose
from fcfg.diagnosis.page import diagnosis_page
from fcfg.diagnosis.pushes import Gap

__all__ = ["THRESHOLD", "Association", "Diagnosis", "Gap", "diagnose", "diagnosis_page"]
