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


def prepare_tales(capsys, folder):
    """Write `vocab.txt` and `tokens` of thirty short tales into a folder that is the current one."""
    who, does, what = ("the miller", "her sister", "a fox"), ("found", "lost", "sold"), ("a ring", "the mill", "two geese")
    tales = [[f"on day {a + 7 * b} {who[a % 3]} {does[b % 3]} {what[(a + b) % 3]} ." for a in range(6)] for b in range(30)]
    (folder / "tales.txt").write_text("\n\n".join("\n".join(passages) for passages in tales))
    said_by_verb("vocab", capsys, "tales.txt", "--vocab-size", 170, "--output", "vocab.txt")
    said_by_verb("prepare", capsys, "tales.txt", "--tokenizer", "vocab.txt", "--output", "tokens", "--processes", 1)
