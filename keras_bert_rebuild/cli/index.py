"""`keras-bert index`: the vectors of the documents of a corpus, on disk, for `keras-bert search`."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing, positive
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.cli.shared_options import add_batch_tokens

DTYPES = ("float32", "float16", "int8", "binary")
RESCORING = ("none", "int8", "float16", "float32")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "corpus",
        type=existing,
        metavar="CORPUS",
        help="documents: .jsonl in BEIR's format (_id, title, text), .tsv (id, text, title) or text, one document per "
        "line; also .gz "
        "or .xz",
    )
    parser.add_argument(
        "--model",
        type=existing,
        required=True,
        metavar="PATH",
        help="embedding model (dense, sparse or late interaction), also of sentence-transformers or exported for OpenVINO",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="index to write; the same command resumes an interrupted run"
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        help="storage of the vectors: int8 takes a quarter of the space of float32, binary 1/32 (default: float32; float16 "
        "for late "
        "interaction)",
    )
    parser.add_argument(
        "--rescoring",
        choices=RESCORING,
        help="second copy of int8 or binary vectors, with which candidates are rescored (default: int8 for binary, otherwise none)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="documents to read (default: all)")
    add_batch_tokens(parser)
    add_overwrite(parser, "the index with other settings, or the unfinished one,")
    add_device_options(parser)


def run(args):
    """Make or finish the index and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import IndexingBar
    from keras_bert_rebuild.search.build import claimed_index

    with claimed_index(args.corpus, args.output, args.overwrite, args.model):
        if not args.corpus.is_file():
            raise ValueError(
                f"CORPUS must be a file of documents; {args.corpus} {'is a folder' if args.corpus.is_dir() else 'does not exist'}."
            )

        from keras_bert_rebuild.cli.retriever import load_retriever
        from keras_bert_rebuild.search.index import Index

        begin("loading", args.model)
        retriever = load_retriever(args.model)
        with IndexingBar(Console(stderr=True)) as bar:
            index = Index.build(
                args.corpus,
                args.output,
                retriever,
                dtype=args.dtype,
                rescoring=args.rescoring,
                limit=args.limit,
                batch_tokens=args.batch_tokens,
                model=args.model.resolve(),
                overwrite=args.overwrite,
                progress=bar,
            )
    again = "" if index.rescoring == "none" else f", and again as {index.rescoring}"
    print(f"vectors  {index.vectors}, {index.width:,} {'tokens' if index.vectors == 'sparse' else 'numbers'}, {index.dtype}{again}")
    print(f"wrote    {args.output}  {counted(len(index), 'document')}")
    return 0
