"""`keras-bert vocab`: learn a WordPiece vocabulary from a corpus."""

import sys
from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing, whole
from keras_bert_rebuild.cli.said import counted
from keras_bert_rebuild.cli.shared_options import add_flag
from keras_bert_rebuild.files.kinds import VOCABULARY
from keras_bert_rebuild.files.output import claimed_file

_BLOCK_BYTES = 1_000_000  # the bar advances with each block


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("corpus", type=existing, metavar="CORPUS", help="text file or folder of text files, also .gz or .xz")
    parser.add_argument(
        "--vocab-size",
        type=whole,
        default=30000,
        metavar="N",
        help="tokens of the vocabulary, including special ones (default: 30000)",
    )
    add_flag(parser, "cased", "keep upper case and accents (default: uncased)", no="--uncased", default=False)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="vocabulary to write, one token per line")
    add_overwrite(parser, "the vocabulary")


def run(args):
    """Learn, write and print what was done; return the exit code."""
    with claimed_file(args.output, VOCABULARY, [args.corpus], args.overwrite):
        return _learn(args)


def _learn(args):
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import ReadingProgress
    from keras_bert_rebuild.data.corpora.read_corpus import LONGEST_WORD, CorpusReader, WordCounts
    from keras_bert_rebuild.text.vocabulary import SPECIAL_TOKENS, save_vocabulary, train_vocabulary

    console = Console(stderr=True)
    if args.vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(f"--vocab-size must be above {len(SPECIAL_TOKENS)}, the number of special tokens; got {args.vocab_size}.")
    reader = CorpusReader(args.corpus, block_bytes=_BLOCK_BYTES)
    words = WordCounts(args.cased)
    with ReadingProgress(console, "counting words", reader.file_bytes) as bar:
        done = 0
        for block in reader.blocks():
            for document in block.documents:
                for passage in document:
                    words.add(passage)
            bar.advance(block.file_bytes - done, block.text_bytes)
            done = block.file_bytes
    for note in reader.notes():
        print(f"keras-bert vocab: {note}", file=sys.stderr)
    counts = words.finish()
    if words.too_long:
        print(f"keras-bert vocab: {words.too_long:,} words of over {LONGEST_WORD} characters left out", file=sys.stderr)
    with console.status(f"learning pieces from {len(counts):,} words"):
        tokens = train_vocabulary(counts, args.vocab_size)
    save_vocabulary(tokens, args.output)
    files, words = counted(len(reader.files), "file"), counted(counts.total(), "word")
    print(f"read     {counted(reader.file_bytes, 'byte')} in {files}: {words}, {len(counts):,} different")
    print(f"wrote    {args.output}  {counted(len(tokens), 'token')}")
    if len(tokens) < args.vocab_size:
        print(f"         no further piece occurs twice; {args.vocab_size:,} were requested")
    return 0
