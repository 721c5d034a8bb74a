"""Shared tools: errors, configuration and output files, hashing, images, names, progress."""
