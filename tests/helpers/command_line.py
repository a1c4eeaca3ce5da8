"""A verb of `keras-bert`, run in this process, and a folder with a model for it."""

from collections import namedtuple

from helpers.small import small_model
from keras_bert_rebuild import save_pretrained
from keras_bert_rebuild.cli.main import main

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "."]

# The exit code, and the text on both outputs.
Said = namedtuple("Said", ["code", "out", "err"])


def run_verb(verb, capsys, *arguments):
    """Run a verb with arguments, converted to strings; returns `Said`, which is never a traceback."""
    try:
        code = main([verb, *map(str, arguments)])
    except SystemExit as exit_:
        code = exit_.code
    said = Said(code, *capsys.readouterr())
    assert "Traceback" not in said.err
    return said


def said_by_verb(verb, capsys, *arguments, code=0):
    """The same, where the exit code is known."""
    said = run_verb(verb, capsys, *arguments)
    assert said.code == code, said.err
    return said


def save_small_model(path):
    """Write a Hugging Face folder with a small model whose vocabulary is `WORDS`."""
    save_pretrained(small_model(token_num=len(WORDS)), path, vocabulary={word: i for i, word in enumerate(WORDS)})
    return path
