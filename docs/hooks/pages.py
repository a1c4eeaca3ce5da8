"""A hook of mkdocs: pages of the site whose files lie outside of docs, and the links that lead to them."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
# A file of the repository, the page that it becomes.
PAGES = {"CHANGELOG.md": "changelog.md", "benchmarks/RESULTS.md": "benchmarks.md"}


def on_files(files, config):
    """Add the pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead links to the files, as they hold in the repository, to the pages, and links of these to docs."""
    here = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri in PAGES.values():
        markdown = re.sub(r"\]\((?:\.\./)*docs/", "](", markdown)
    for source, target in PAGES.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{re.escape(source)}", f"]({posixpath.relpath(target, here or '.')}", markdown)
    return markdown
