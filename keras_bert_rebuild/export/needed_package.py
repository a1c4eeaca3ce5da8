"""Packages that an export needs, but the library does not."""

import importlib

# Extra of setup.cfg to its packages, which can be installed wherever the library came from.
PACKAGES = {"onnx": "onnx", "openvino": "openvino nncf onnx"}


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
        raise ValueError(f"this needs the package {name}, which is not installed: pip install {PACKAGES[extra]}.") from None
