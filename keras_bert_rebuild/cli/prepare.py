"""`keras-bert prepare`: tokenise a corpus once, into a folder that training reads from disk."""

import argparse
import re
import sys
from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import above_zero, existing
from keras_bert_rebuild.cli.said import counted
from keras_bert_rebuild.cli.shared_options import add_document_per_file, add_flag, add_processes, vocabulary_file
from keras_bert_rebuild.files.printable import printable

_LIKE = {"exact": "the same as", "near": "nearly the same as"}


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "corpus", type=existing, metavar="CORPUS", help="text file or folder of text files, also .gz or .xz, one passage per line"
    )
    parser.add_argument(
        "--tokenizer",
        type=existing,
        required=True,
        metavar="PATH",
        help="vocabulary file, one token per line, or a folder with a vocab.txt",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="token store to write; the same command resumes an interrupted run",
    )
    add_flag(parser, "cased", "keep upper case and accents (default: as the vocabulary does)", no="--uncased")
    add_processes(parser)
    parser.add_argument(
        "--shard", type=_part, default=(0, 1), metavar="I/N", help="process only part I of N, counted from 0 (default: everything)"
    )
    parser.add_argument(
        "--deduplicate",
        choices=("no", "exact", "near"),
        default="no",
        help="remove repeated documents, and repeated passages of at least 8 words, that are exact or near duplicates "
        "(default: no)",
    )
    parser.add_argument(
        "--similarity",
        type=above_zero,
        metavar="X",
        help="for near duplicates, the minimum Jaccard similarity of word trigrams, from 0.5 to 1 (default: 0.8)",
    )
    parser.add_argument(
        "--apart-from",
        type=existing,
        nargs="+",
        default=(),
        metavar="STORE",
        help="with --deduplicate, also remove what these token stores contain, such as a test set (default: none)",
    )
    add_document_per_file(parser)


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
            vocabulary_file(args.tokenizer),
            args.output,
            cased=args.cased,
            workers=args.processes,
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
    print(f"of       {counted(counts['documents'], 'document')}, {counted(counts['passages'], 'passage')}")
    for unit, kinds in (done.removed or {}).items():
        for kind, found in kinds.items():
            texts, tokens = counted(found["texts"], unit.removesuffix("s")), counted(found["tokens"], "token")
            print(f"removed  {texts} of {tokens}, {_LIKE[kind]} an earlier one")
            if "example" in found:
                print(f"         such as    {printable(found['example']['removed'])}")
                if kind == "near":
                    print(f"         keeping    {printable(found['example']['stays'])}")
    existing = "" if done.made == done.shards else "; the rest existed already"
    print(f"wrote    {args.output}  {done.made:,} of {counted(done.shards, 'shard')}{existing}")
    return 0


def _part(text):
    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected I/N with I from 0 to N - 1; got {text!r}")
    return int(found[1]), int(found[2])
