"""`keras-bert mine`: hard negatives for pairs of a query and a text that it shall find."""

import contextlib
import json
from dataclasses import fields
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, docs, option_kind
from keras_bert_rebuild.files.durable import partial_folder, remove_leftovers, written_file
from keras_bert_rebuild.files.kinds import GROUPS
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    from keras_bert_rebuild.search.mining import MiningSettings

    parser.add_argument("pairs", type=Path, help="a .jsonl, .tsv or .csv file of queries and the texts that they shall find")
    parser.add_argument(
        "--corpus", type=Path, help="where negatives are found: a corpus, or its index by the same model (the texts of the pairs)"
    )
    parser.add_argument("--model", type=Path, required=True, help="the folder of the model that finds them")
    parser.add_argument("--output", type=Path, required=True, help="the .jsonl file to write: query, positive, negatives")
    helps = docs(MiningSettings)
    for field in fields(MiningSettings):
        default = "" if field.default is None else f" ({field.default})"
        kind = option_kind(field, {"sampling": ("best", "random")})
        parser.add_argument(f"--{field.name.replace('_', '-')}", default=field.default, help=helps[field.name] + default, **kind)
    parser.add_argument(
        "--scores-by",
        type=Path,
        metavar="MODEL",
        help="a reranker, whose scores of positive and negatives are written to learn from",
    )
    add_overwrite(parser, "the pairs with negatives")
    add_device_options(parser)


def run(args):
    """Mine and return the exit code."""
    from keras_bert_rebuild.search.mining import MiningSettings

    settings = MiningSettings(**{field.name: getattr(args, field.name) for field in fields(MiningSettings)})
    with claimed_file(args.output, GROUPS, [args.pairs, args.corpus, args.model, args.scores_by], args.overwrite):
        return _mine(args, settings)


def _mine(args, settings):
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import IndexingBar
    from keras_bert_rebuild.cli.retriever import load_retriever
    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.search.mining import mine, row_of
    from keras_bert_rebuild.search.retrievers import load_scorer

    pairs = read_examples(args.pairs, "retrieval", labelled=False)
    if args.corpus is not None and not args.corpus.exists():
        raise ValueError(f"expected a corpus or an index; nothing is at {args.corpus}.")
    retriever = load_retriever(args.model)
    scorer = None if args.scores_by is None else load_scorer(args.scores_by)
    found = short = 0
    console = Console(stderr=True)
    with IndexingBar(console) as bar, _index(args, pairs, retriever, bar) as index:
        with written_file(args.output, claimed=True) as file:
            for mined in mine(pairs, index, settings, scorer, lambda count: bar("mining", count, len(pairs))):
                file.write((json.dumps(row_of(mined), ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))
                found += len(mined.group.negatives)
                short += len(mined.group.negatives) < settings.negatives
        documents = len(index)
    print(f"searched {documents:,} texts for {len(pairs):,} pairs")
    if short:
        print(f"fewer    {short:,} pairs have fewer than {settings.negatives} negatives within the limits")
    print(f"wrote    {args.output}  {found:,} negatives")
    return 0


@contextlib.contextmanager
def _index(args, pairs, retriever, bar):
    """The index to find negatives in: the one that is given, or one that is made next to the output and removed in the end."""
    import shutil

    from keras_bert_rebuild.search.index import Index
    from keras_bert_rebuild.search.mining import distinct_positives

    if args.corpus is not None and args.corpus.is_dir():
        yield Index.open(args.corpus, retriever)
        return
    # Next to the output, whose lock is held, under another name: files that are begun under its own are removed when it is written.
    place = args.output.with_name(f"{args.output.name}.index")
    remove_leftovers(place)
    folder = partial_folder(place)
    try:
        corpus = args.corpus if args.corpus is not None else distinct_positives(pairs)
        yield Index.build(corpus, folder / "index", retriever, progress=bar)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
