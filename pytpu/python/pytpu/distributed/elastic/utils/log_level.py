"""The level of messages of agents."""


def get_log_level() -> str:
    """Return the level of the messages that agents show by default. The variable `LOGLEVEL` replaces it."""
    return "WARNING"
