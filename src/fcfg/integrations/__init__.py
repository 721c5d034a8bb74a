"""Other people's libraries; each module needs its own extra."""
