"""Models of fcfg that do not ride in its wheel: one folder each, as ``fcfg.save`` writes it."""
