"""Results that show themselves in one way: as tables in a terminal, as Markdown and as JSON."""

import io
import json
from typing import Any, ClassVar

from rich import box
from rich.console import Console
from rich.table import Table

# Options of a column of numbers, see `make_table`.
NUMBER = {"justify": "right", "no_wrap": True}


class Record:
    """A result, usually a frozen dataclass. A subclass has `to_tables`, `to_json` and, for formats with Markdown, `to_markdown`."""

    json_indent: ClassVar[int | None] = 2
    """Spaces by which values are indented in JSON; None for all on one line."""

    def to_tables(self, width: int = 100) -> Any:
        """The tables for `rich`.

        Args:
            width: of the terminal, in characters.
        """
        raise NotImplementedError

    def to_json(self) -> Any:
        """The record as JSON values."""
        raise NotImplementedError

    def to_markdown(self) -> str:
        """The tables in Markdown."""
        raise NotImplementedError

    def to_text(self, width: int = 100) -> str:
        """The tables as plain text.

        Args:
            width: of a line, in characters.
        """
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(self.to_tables(width))
        return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines()) + "\n"

    def json_text(self) -> str:
        """The JSON values as text."""
        return json.dumps(self.to_json(), indent=self.json_indent, ensure_ascii=False) + "\n"

    def show(self, form: str = "text") -> None:
        """Print the record.

        Args:
            form: "text" for tables as wide as the terminal, "markdown" or "json".
        """
        if form == "text":
            console = Console()
            console.print(self.to_tables(console.width))
        else:
            print(self.to_markdown() if form == "markdown" else self.json_text(), end="")


def make_table(*columns: Any, **options: Any) -> Table:
    """An empty table in the style of all records.

    Args:
        *columns: pairs of a heading and the options for `add_column`.
        **options: of the table.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", **options)
    for name, of_column in columns:
        table.add_column(name, **of_column)
    return table


def spread(count: int, maximum: int) -> list[int]:
    """At most `maximum` numbers from 0 to `count` - 1, evenly spread, including the first and, if two fit, the last.

    Example:

    >>> spread(13, 5), spread(3, 5)
    ([0, 3, 6, 9, 12], [0, 1, 2])
    """
    size = min(count, max(maximum, 1))
    return [round(i * (count - 1) / max(size - 1, 1)) for i in range(size)]
