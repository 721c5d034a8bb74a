"""Data sets: drawn worlds, data sets on disk, and your own folder of images."""

from fcfg.datasets import base, check, folder, portraits, registry

__all__ = ["base", "check", "folder", "portraits", "registry"]
