"""`keras-bert index`: the vectors of the documents of a corpus, on disk, for `keras-bert search`."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive

DTYPES = ("float32", "float16", "int8", "binary")
RESCORING = ("none", "int8", "float16", "float32")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "corpus",
        type=Path,
        help="a .jsonl file of BEIR (_id, title, text), a .tsv file (id, text, title) or a text file with a document per line, "
        "also as .gz or .xz",
    )
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        help="the folder of a model that makes vectors: dense, sparse or one for each token; or of keras-bert export for OpenVINO",
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="the folder to write; called again, it resumes an interrupted run"
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        help="how vectors are stored (float32; vectors of tokens float16): int8 takes a quarter of float32, binary a 32nd",
    )
    parser.add_argument(
        "--rescoring",
        choices=RESCORING,
        help="how int8 or binary vectors are stored a second time, to score exactly what they found (of binary ones int8)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="documents to read (all)")
    parser.add_argument(
        "--batch-tokens", type=positive, metavar="N", help="tokens in a batch, padding included (2048; on an accelerator 16384)"
    )
    add_overwrite(parser, "the index that is made with other settings, and the interrupted one")
    add_device_options(parser)


def run(args):
    """Make or finish the index and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import IndexingBar
    from keras_bert_rebuild.search.build import claimed_index

    with claimed_index(args.corpus, args.output, args.model):
        if not args.corpus.is_file():
            raise ValueError(
                f"expected a file of a corpus; {'a folder' if args.corpus.is_dir() else 'nothing'} is at {args.corpus}."
            )

        from keras_bert_rebuild.cli.retriever import load_retriever
        from keras_bert_rebuild.search.index import Index

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
    print(f"wrote    {args.output}  {len(index):,} documents")
    return 0
