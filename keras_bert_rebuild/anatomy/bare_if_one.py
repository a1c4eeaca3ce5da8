"""A model of one input or output takes or gives it bare."""


def bare_if_one(values):
    """Several values as they are, and one alone as it is: Keras then takes and gives arrays and no lists of one."""
    return values if len(values) > 1 else values[0]
