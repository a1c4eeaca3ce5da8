"""A hook of mkdocs: pages of the site whose files lie outside of docs, the links that lead to them, and the table of limits."""

import ast
import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A file of the repository, the page that it becomes.
PAGES = {"CHANGELOG.md": "changelog.md", "benchmarks/RESULTS.md": "benchmarks.md"}


def on_files(files, config):
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead links to the files, as they hold in the repository, to the pages, and links of these to docs; fill in the limits."""
    here = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri in PAGES.values():
        markdown = re.sub(r"\]\((?:\.\./)*docs/", "](", markdown)
    for source, target in PAGES.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{re.escape(source)}", f"]({posixpath.relpath(target, here or '.')}", markdown)
    return markdown.replace("<!-- limits -->", limits_table())


def limits_table():
    """The limits of `keras_bert_rebuild/files/limits.py`, which is read and not run, since the package needs a backend."""
    tree = ast.parse((ROOT / "keras_bert_rebuild" / "files" / "limits.py").read_text(encoding="utf-8"))
    table = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "LIMITS")
    limits = eval(compile(ast.Expression(table), "limits.py", "eval"), {"Limit": lambda *fields: fields})
    rows = [f"| `{name}` | {number:,} {unit} | {why} |\n" for name, (number, unit, why) in limits.items()]
    return "".join(["| name | maximum | why |\n|---|---|---|\n", *rows])
