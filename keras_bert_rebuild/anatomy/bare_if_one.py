"""A single input or output is passed bare, not as a list of one."""


def bare_if_one(values):
    """The values, or the value itself if there is only one, so that Keras takes and returns an array and not a list of one."""
    return values if len(values) > 1 else values[0]
