"""docs/the-article.md from the notebook: its texts, its code, and what the code prints.

`KERAS_BACKEND=torch PYTHONPATH=.:tests python tests/helpers/article_page.py` writes the page.
"""

import contextlib
import io
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "09_the_article.ipynb"
PAGE = ROOT / "docs" / "the-article.md"
NOTE = "This page is `examples/09_the_article.ipynb` with what it printed.\n"


def page():
    """The text of the page: the notebook is run."""
    parts, namespace = [], {"__name__": "__main__"}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, NOTEBOOK.name, "exec"), namespace)
        parts.append(f"```python\n{source}\n```")
        if printed.getvalue():
            parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
    return "\n\n".join([parts[0], NOTE.rstrip(), *parts[1:]]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
