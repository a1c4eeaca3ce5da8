"""The gallery of the families, drawn from their anatomy: `python tests/helpers/families_page.py` writes page and pictures."""

import ast
import re
from pathlib import Path

from helpers.tiny_families import CAPABILITIES, MISSING, formats_of, has_files, heads_of, modules, name_of_module
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.anatomy_words import facts_of
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.families import bert

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
TABLES = PAGE.parent / "checkpoints.md"
PICTURES = PAGE.parent / "images" / "families"

# What is said of a family where it differs from BERT.
SUBJECTS = (
    "embedding width",
    "segments",
    "positions",
    "token embedding scale",
    "embedding norm",
    "blocks",
    "norm",
    "attention to",
    "feed-forward",
    "biases",
    "convolution",
    "final norm",
)

INTRODUCTION = """\
# The families

One block of each family as the library builds it, and what is different from BERT. Everything here is computed from the anatomy
(`BertConfig.encoder()`): the drawings are those of `plot_model(config, block=True)`, the words and numbers those of
`keras-bert explain --model A --other B`. Parameters are those of the encoder, with its pooler if it has one. What each family can
do is in [Checkpoints](checkpoints.md#what-each-family-can-do).
"""


def page():
    """The page as text."""
    return "\n".join([INTRODUCTION, *map(_section, modules())])


def pictures():
    """The name of each picture to its text."""
    return {f"{name_of_module(module)}.svg": plot_model(_first(module)[1], [], block=True).to_svg() for module in modules()}


NO_FILES = "no other library has files of it"
FORMATS = {"huggingface": "Hugging Face", "google": "Google", "keras": "Keras"}

# The section of docs/checkpoints.md that is written here: everything between these.
BEFORE, AFTER = "## What each family can do\n", "\n## Heads\n"

ABOUT = """
What a family lacks is refused in one sentence. Formats are read and written. The gallery of [the families](families.md) has their
anatomy.
"""


def tables():
    """The section of docs/checkpoints.md as text: formats and heads of every family, and what can be done with it."""
    rows = ["| family | formats | heads | not there, and why |", "|:--|:--|:--|:--|"]
    for module in modules():
        missing = [f"{capability}: {why}" for (family, capability), why in MISSING.items() if family == name_of_module(module)]
        missing += [] if has_files(module) else [f"Hugging Face and Google: {NO_FILES}"]
        formats, heads = (
            ", ".join(FORMATS[name] for name in formats_of(module)),
            ", ".join(f"`{head}`" for head in heads_of(module)),
        )
        rows.append(f"| {_short(module)} | {formats} | {heads} | {'; '.join(missing)} |")
    rows += ["", "| what | by | not for |", "|:--|:--|:--|"]
    for capability, call in CAPABILITIES.items():
        without = [_short(module) for module in modules() if (name_of_module(module), capability) in MISSING]
        rows.append(f"| {capability} | {call} | {', '.join(without)} |")
    return "\n".join([ABOUT, *rows, ""])


def page_with_tables():
    """docs/checkpoints.md with the section as it is written here."""
    text = TABLES.read_text(encoding="utf-8")
    start, end = text.split(BEFORE)[0], text.split(AFTER)[1]
    return f"{start}{BEFORE}{tables()}{AFTER}{end}"


def write():
    """Write the page, its pictures and the tables."""
    TABLES.write_text(page_with_tables(), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")


def _doc(module):
    return " ".join(ast.get_docstring(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))).split())


def _short(module):
    """The name of a family in a table: the beginning of its docstring."""
    return re.split(r",| and |:", _doc(module).removeprefix("The encoder of the "))[0]


def _section(module):
    doc = _doc(module)
    title, _, rest = doc.partition(": ")
    described, _, reference = rest.partition(" Reference: ")
    reference = re.sub(r" \((https://\S+?)\)", r" (<\1>)", reference.partition("; names")[0].partition(". ")[0].rstrip("."))
    name, first = _first(module)
    sizes = [(size, config.num_params(heads)) for size, *_ in module.SIZES for config, heads in [released()[size]]]
    return "\n".join(
        [
            f"## {title}",
            "",
            f"![A block of {name}](images/families/{name_of_module(module)}.svg)",
            "",
            f"- **What**: {described}",
            f"- **{'Anatomy' if module is bert else 'From BERT'}**: {_differences(first)}",
            f"- **Source**: {reference}.",
            "",
            "| released | parameters |",
            "|:--|--:|",
            *(f"| {size} | {count:,} |" for size, count in sizes),
            "",
        ]
    )


def _first(module):
    """The name and the config of the first size."""
    name = module.SIZES[0][0]
    return name, released()[name][0]


def _differences(config):
    theirs = {fact.subject: fact.words for fact in facts_of(BertConfig().encoder())}
    facts = {fact.subject: fact.words for fact in facts_of(config.encoder())}
    changed = [f"{subject}: {facts[subject]}" for subject in SUBJECTS if facts[subject] != theirs[subject]]
    changed = changed or [f"{subject}: {theirs[subject]}" for subject in SUBJECTS if theirs[subject] not in ("none", "1")]
    return "; ".join(changed) + "."


if __name__ == "__main__":
    write()
