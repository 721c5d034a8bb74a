"""Models that are compared with the method. Nothing outside needs this room.

What it registers is found by name: ``fcfg.rivals.training`` has the kinds and presets of
``fcfg train``.
"""
