"""Pages of one HTML file: put together from the files of this package, shown in a notebook, and saved."""

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import PAGE
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.printable import Element, Verbatim, html_page


def page_of_files(
    title: str, folder: str, styles: Sequence[str], *content: Any, scripts: Sequence[str] = (), data: Any = None
) -> str:
    """The text of an HTML file that needs no network. Colours, fonts and the dark mode are those of `explain/page/base.css`.

    Args:
        title: the title of the window.
        folder: the folder of the package whose folder `page` has the files.
        styles: its style sheets, after that one.
        *content: see `markup.Element`.
        scripts: its scripts, parts of one function in this order.
        data: the values that the scripts find in the element `data`, as JSON.
    """
    style = "\n" + "\n".join([file_of_page("explain", "base.css"), *(file_of_page(folder, name) for name in styles)])
    script = "\n(() => {\n'use strict';\n" + "\n".join(file_of_page(folder, name) for name in scripts) + "})();\n"
    return html_page(title, style, *content, script=script if scripts else "", data=data)


def file_of_page(folder: str, name: str) -> str:
    """The text of a file that pages are made of."""
    return (resources.files(f"keras_bert_rebuild.{folder}") / "page" / name).read_text(encoding="utf-8")


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
