"""The run-time type checker of the tests: a whole number may stand where a float is declared."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
