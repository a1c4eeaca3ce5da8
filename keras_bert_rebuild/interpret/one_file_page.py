"""A page as one self-contained HTML file, with its data, style and script."""

import base64
import hashlib
import html
import re
from importlib import resources

from keras_bert_rebuild.explain.attention_page import as_script_data

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<noscript>This page draws its tables with JavaScript, which is switched off.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def one_file_page(title, body, name, values):
    """The text of an HTML file.

    Args:
        title: the title of the window, any text.
        body: trusted HTML of this library.
        name: the name of its style and its script in the folder `page`, which are added to the common ones.
        values: the data for the script, encoded as JSON; texts in it are escaped.
    """
    style = "\n" + _part("base.css", "explain") + _part("page.css") + _part(f"{name}.css")
    script = "\n(() => {\n'use strict';\n" + _part("page.js") + _part(f"{name}.js") + "})();\n"
    hashes = f"script-src {_hash(script)}; style-src {_hash(style)}"
    parts = {
        "policy": f"default-src 'none'; {hashes}; img-src data:; base-uri 'none'; form-action 'none'",
        "title": html.escape(title),
        "style": style,
        "body": body,
        "data": as_script_data(values),
        "script": script,
    }
    # In one pass, since inserted text may look like a placeholder.
    return re.sub(r"\{(policy|title|style|body|data|script)\}", lambda placeholder: parts[placeholder[1]], TEMPLATE)


def _part(name, package="interpret"):
    return (resources.files(f"keras_bert_rebuild.{package}") / "page" / name).read_text(encoding="utf-8")


def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
