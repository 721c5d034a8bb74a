"""Folders of models: ``config.json`` and safetensors files, and nothing to unpickle.

A model is kept if its kind is registered with a :class:`ModelConfig`, which says what a folder of
that kind holds, and how to build the image model again.
"""

from fcfg.storage.beside import Number, Record, StoredRecord, read_beside, read_words
from fcfg.storage.folder import load_model, read_outline, replaced_files, save_model
from fcfg.storage.kinds import (
    FORMAT,
    ModelConfig,
    StorableModel,
    Storage,
    find_setting,
    register_kind,
)
from fcfg.storage.places import shipped

__all__ = [
    "FORMAT",
    "ModelConfig",
    "Number",
    "Record",
    "StorableModel",
    "Storage",
    "StoredRecord",
    "find_setting",
    "load_model",
    "read_beside",
    "read_outline",
    "read_words",
    "register_kind",
    "replaced_files",
    "save_model",
    "shipped",
]
