"""One input or output is passed bare, not in a list of one."""


def bare_if_one(values):
    """The values if there are several, else the only one: Keras then takes and returns arrays, not lists of one."""
    return values if len(values) > 1 else values[0]
