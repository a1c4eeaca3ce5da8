"""The seed generators of a model, with the names of their owners."""

import keras


def seed_generators(model):
    """All seed generators of a model, including those of nested layers.

    Args:
        model: a Keras model.

    Returns:
        A list of `(name, generator)`: the names of the layers from the outermost to the owner, and the attribute, as in
        `Encoder-1-MultiHeadSelfAttention/dropout/seed_generator`. A nested model adds nothing to the name, as it adds nothing to
        the path of a weight.
    """
    found, seen = [], {id(model)}
    waiting = [("", model)]
    while waiting:  # breadth first, so that a shared generator has its shortest name
        path, owner = waiting.pop(0)
        for attribute, value in _attributes(owner):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, keras.random.SeedGenerator):
                found.append((path + attribute, value))
            elif isinstance(value, keras.Model):
                waiting.append((path, value))
            else:
                waiting.append((f"{path}{value.name}/", value))
    return found


def _attributes(owner):
    """The layers and seed generators of an object, also in lists and dictionaries, each with its attribute."""
    layers = owner.layers if isinstance(owner, keras.Model) else []
    yield from (("layers", layer) for layer in layers)
    # Public attributes first: Keras also has a list of the same generators under a private name.
    for attribute, value in sorted(vars(owner).items(), key=lambda item: item[0].startswith("_")):
        yield from ((attribute, item) for item in _items(value, depth=3))


def _items(value, depth):
    if isinstance(value, (keras.layers.Layer, keras.random.SeedGenerator)):
        yield value
    elif isinstance(value, (list, tuple, dict)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _items(item, depth - 1)
