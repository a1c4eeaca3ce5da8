"""`keras-bert prepare`: tokenise a corpus once, into a folder that training reads from disk."""

import argparse
import re
import sys
from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import above_zero, positive
from keras_bert_rebuild.files.printable import printable

_LIKE = {"exact": "the same as", "near": "nearly the same as"}


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("corpus", type=Path, help="a text file or a folder of them, plain, .gz or .xz, one passage per line")
    parser.add_argument("--vocab", type=Path, required=True, help="the vocabulary, a file with one token per line")
    parser.add_argument(
        "--output", type=Path, required=True, help="the folder to write; called again, it resumes an interrupted run"
    )
    case = parser.add_mutually_exclusive_group()
    case.add_argument("--cased", action="store_true", default=None, dest="cased", help="keep case and accents")
    case.add_argument(
        "--uncased", action="store_false", default=None, dest="cased", help="do not keep them; by default the vocabulary decides"
    )
    parser.add_argument("--workers", type=positive, help="processes (one for every core)")
    parser.add_argument("--shard", type=_part, default=(0, 1), metavar="I/N", help="make this of N parts, from 0; by default all")
    parser.add_argument(
        "--deduplicate",
        choices=("no", "exact", "near"),
        default="no",
        help="remove documents and then passages of at least 8 words that repeat an earlier one, exactly or nearly (no)",
    )
    parser.add_argument(
        "--similarity",
        type=above_zero,
        metavar="X",
        help="with near, the least fraction of their runs of three words that two texts share, from 0.5 to 1 (0.8)",
    )
    parser.add_argument(
        "--apart-from",
        type=Path,
        nargs="+",
        default=(),
        metavar="STORE",
        help="with --deduplicate, folders of tokens whose texts are removed too: those to mix this one with, or to test on",
    )
    parser.add_argument("--document-per-file", action="store_true", help="blank lines do not end a document, files do")


def run(args):
    """Tokenise and print what was done; return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import ReadingProgress
    from keras_bert_rebuild.data.corpora.prepare import SIMILARITY, claimed_store, prepare
    from keras_bert_rebuild.data.text_files import corpus_files

    if args.similarity is not None and args.deduplicate != "near":
        raise ValueError("--similarity is for --deduplicate near: give both, or leave it out.")
    file_bytes = sum(path.stat().st_size for _, path in corpus_files(args.corpus))
    with (
        claimed_store(args.corpus, args.output, args.shard, args.apart_from),
        ReadingProgress(Console(stderr=True), "tokenising", file_bytes) as bar,
    ):
        done = prepare(
            args.corpus,
            args.vocab,
            args.output,
            cased=args.cased,
            workers=args.workers,
            part=args.shard,
            document_per_file=args.document_per_file,
            progress=bar.advance,
            deduplicate=args.deduplicate,
            apart_from=args.apart_from,
            similarity=SIMILARITY if args.similarity is None else args.similarity,
        )
    for note in done.notes:
        print(f"keras-bert prepare: {note}", file=sys.stderr)
    counts = done.counts
    unknown = counts["unknown"] / max(counts["tokens"], 1)
    print(f"tokens   {counts['tokens']:,}, {'cased' if done.cased else 'uncased'}; {unknown:.2%} of them [UNK]")
    print(f"of       {counts['documents']:,} documents, {counts['passages']:,} passages")
    for unit, kinds in (done.removed or {}).items():
        for kind, found in kinds.items():
            print(f"removed  {found['texts']:,} {unit} of {found['tokens']:,} tokens, {_LIKE[kind]} an earlier one")
            if "example" in found:
                print(f"         such as    {printable(found['example']['removed'])}")
                if kind == "near":
                    print(f"         staying    {printable(found['example']['stays'])}")
    existing = "" if done.made == done.shards else "; the others existed"
    print(f"wrote    {args.output}  {done.made:,} shards of {done.shards:,}{existing}")
    return 0


def _part(text):
    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected I/N with I from 0 to N - 1; got {text!r}")
    return int(found[1]), int(found[2])
