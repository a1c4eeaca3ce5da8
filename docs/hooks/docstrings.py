"""An extension of griffe: docstrings of this library as Markdown wants them."""

import re

import griffe

SESSION = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
SHAPES = re.compile(r"^((?:Input shape|Output shape): .*)$", re.MULTILINE)
# Several arguments with one explanation.
NAMES = re.compile(r"^ +(?:\*{0,2}[a-z_]\w*, )+\*{0,2}[a-z_]\w*: ", re.MULTILINE)
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


class Docstrings(griffe.Extension):
    """Fence sessions, keep the lines of shapes apart, and names that share an explanation together."""

    def on_instance(self, *, obj, **kwargs):
        """Change the docstring of an object."""
        if obj.docstring is not None:
            text = SESSION.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
            text = SHAPES.sub(r"\1  ", text)
            obj.docstring.value = NAMES.sub(lambda found: found[0].replace(", ", f",{NO_BREAK_SPACE}"), text)
