"""Packages of others that an export needs, and that the library does without."""

import importlib


def needed_package(name, extra):
    """A module by name.

    Args:
        name: such as "onnx".
        extra: the extra of setup.cfg that installs it.

    Raises:
        ValueError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ValueError(
            f'this needs the package {name}, which is not installed: pip install "keras-bert-rebuild[{extra}]".'
        ) from None
