"""An HTML page that a notebook shows and `save` writes."""

import os
from pathlib import Path

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import PAGE
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.printable import Element, Verbatim


class HtmlPage:
    """A page that a notebook shows and `save` writes.

    Args:
        html: the text of the page.
        height: height of its frame in a notebook, in pixels.
        title: title of the frame, for screen readers.
        scripts: whether the page has scripts, which the frame then allows.
    """

    def __init__(self, html: str, height: int = 760, title: str = "Attention", scripts: bool = True) -> None:
        self.html, self.height, self.title, self.scripts = html, height, title, scripts

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file atomically.

        Args:
            path: a name that ends in .html or .htm; an existing page is replaced, any other file is not.

        Returns:
            The path.

        Raises:
            ValueError: another suffix, or the existing file is not a page.
            OSError: the file cannot be written.
        """
        path = Path(path)
        check_file(path, PAGE)
        write_text(path, self.html)
        return path

    def _repr_html_(self) -> str:
        # In a frame with its own origin: styles and scripts of page and notebook stay separate.
        sandbox = "allow-scripts" if self.scripts else ""
        style = f"width:100%;height:{self.height}px;border:0"
        return str(Element("iframe", title=self.title, sandbox=sandbox, style=style, srcdoc=Verbatim(self.html)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.html):,} characters; save(path) writes it>"
