"""The options of all verbs as data, generated from the parser: `python tests/helpers/parser_file.py` writes the file."""

from keras_bert_rebuild.cli.main import make_parser
from keras_bert_rebuild.cli.parser_table import FILE, as_text, parser_table


def text():
    """The text of the file, as it should be."""
    return as_text(parser_table(make_parser()))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
