"""Folders of models: ``config.json`` and safetensors files, and nothing to unpickle.

A model is kept if its kind is registered with a :class:`ModelConfig`, which says what a folder of
that kind holds, and how to build the image model again.
"""

from fcfg.storage.beside import read_beside, read_words
from fcfg.storage.config import FORMAT, ModelConfig
from fcfg.storage.config_file import read_outline, replaced_files, shipped
from fcfg.storage.folder import StorableModel, load_model, save_model
from fcfg.storage.kinds import find_setting, register_kind, register_setting
from fcfg.storage.stored_record import Number, Record, StoredRecord
from fcfg.storage.weight_files import Storage

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
    "register_setting",
    "replaced_files",
    "save_model",
    "shipped",
]
