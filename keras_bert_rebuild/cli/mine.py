"""`keras-bert mine`: hard negatives for pairs of a query and a text that it shall find."""

import contextlib
import json
from dataclasses import fields
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.cli.settings_options import docs, kind_of, with_default
from keras_bert_rebuild.cli.shared_options import option_of
from keras_bert_rebuild.files.durable import partial_folder, remove_leftovers, written_file
from keras_bert_rebuild.files.kinds import GROUPS
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    from keras_bert_rebuild.search.mining import MiningSettings

    parser.add_argument("pairs", type=existing, metavar="PAIRS", help="pairs of a query and a relevant text (.jsonl, .tsv or .csv)")
    parser.add_argument(
        "--corpus",
        type=existing,
        metavar="PATH",
        help="documents to find negatives in, or their index by the same model (default: the relevant texts of the pairs)",
    )
    parser.add_argument("--model", type=existing, required=True, metavar="PATH", help="embedding model that finds the negatives")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help=".jsonl file to write, with query, positive and negatives"
    )
    helps = docs(MiningSettings)
    for field in fields(MiningSettings):
        kind = {"choices": ("best", "random")} if field.name == "sampling" else kind_of(field)
        parser.add_argument(
            option_of(field.name), default=field.default, help=with_default(helps[field.name], field.default), **kind
        )
    parser.add_argument(
        "--scores-by",
        type=existing,
        metavar="MODEL",
        help="reranker whose scores of the positive and the negatives are written too, for distillation (default: none)",
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
    begin("loading", args.model)
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
    print(f"searched {counted(documents, 'text')} for {counted(len(pairs), 'pair')}")
    if short:
        print(f"fewer    {counted(short, 'pair')} with less than {counted(settings.negatives, 'negative')} within the limits")
    print(f"wrote    {args.output}  {counted(found, 'negative')}")
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
