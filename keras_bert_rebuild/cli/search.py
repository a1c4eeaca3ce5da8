"""`keras-bert search`: the documents of an index that fit a query, or a run of TREC for a file of queries."""

import contextlib
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing, positive, yes_or_no
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.files.kinds import RANKING
from keras_bert_rebuild.files.output import claimed_file
from keras_bert_rebuild.files.printable import printable

MEASURES = ("ndcg@10", "mrr@10", "recall@100", "map")
# Documents of a query in a run, and on a screen.
IN_RUN, ON_SCREEN = 100, 10
# Characters of a document that are shown.
SHOWN = 100


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("index", type=existing, metavar="INDEX", help="folder that keras-bert index wrote")
    parser.add_argument("query", nargs="?", metavar="QUERY", help="query to search for, unless --queries is given")
    parser.add_argument(
        "--queries",
        type=existing,
        metavar="FILE",
        help="queries with ids, .jsonl in BEIR's format or .tsv, also .gz or .xz (default: QUERY)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="ranking to write for --queries, in TREC's format: .tsv, .txt, .run (default: none)",
    )
    parser.add_argument(
        "--qrels",
        type=existing,
        metavar="FILE",
        help=f"relevance judgements in TREC's or BEIR's format, to print {', '.join(MEASURES)} (default: no evaluation)",
    )
    parser.add_argument(
        "--top-k", type=positive, metavar="N", help=f"documents per query (default: {ON_SCREEN}; {IN_RUN} with --queries)"
    )
    parser.add_argument(
        "--model", type=existing, metavar="PATH", help="model of the index (default: where it was when it was indexed)"
    )
    parser.add_argument(
        "--rerank", type=existing, metavar="MODEL", help="reranker that scores the best --depth documents again (default: none)"
    )
    parser.add_argument(
        "--candidates",
        type=existing,
        metavar="INDEX",
        help="another index of the same documents, whose best --depth documents alone are scored (default: all documents)",
    )
    parser.add_argument(
        "--fuse",
        type=existing,
        action="append",
        default=[],
        metavar="INDEX",
        help="another index of the same documents, to combine by reciprocal rank fusion; may be repeated (default: none)",
    )
    parser.add_argument(
        "--depth", type=positive, default=100, metavar="N", help="documents for --rerank, --candidates and --fuse (default: 100)"
    )
    parser.add_argument(
        "--rescore",
        type=positive,
        metavar="N",
        help="rescore N times --top-k candidates of int8 or binary vectors at higher precision (default: 4 for int8, 16 "
        "for binary)",
    )
    parser.add_argument(
        "--engine", choices=("numpy", "faiss"), default="numpy", help="library that searches dense vectors (default: numpy)"
    )
    parser.add_argument(
        "--verify",
        type=yes_or_no,
        default=True,
        metavar="YES/NO",
        help="compare the SHA-256 of the files of an index when they are first read, at about a gigabyte per second (default: yes)",
    )
    add_overwrite(parser, "the ranking")
    add_device_options(parser)


def run(args):
    """Search and return the exit code."""
    if (args.query is None) == (args.queries is None):
        raise ValueError("expected a query or --queries FILE, and not both.")
    for option in ("output", "qrels"):
        if getattr(args, option) is not None and args.queries is None:
            raise ValueError(f"--{option} is for a file of queries: give --queries FILE.")
    if args.queries is not None and args.output is None and args.qrels is None:
        raise ValueError("--queries is for --output FILE, --qrels FILE or both.")
    claim = contextlib.nullcontext()
    if args.output is not None:
        inputs = [args.index, args.queries, args.qrels, args.model, args.rerank, args.candidates, *args.fuse]
        claim = claimed_file(args.output, RANKING, inputs, args.overwrite)
    with claim:
        return _search_one(args) if args.queries is None else _search_file(args)


def _search_one(args):
    index = _with_model(args.index, args.verify, args.model)
    _show(index, index.search([args.query], args.top_k or ON_SCREEN, **_options(args))[0])
    return 0


def _search_file(args):
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import progress_bar
    from keras_bert_rebuild.data.retrieval import is_beir, read_judgements, read_queries, write_run
    from keras_bert_rebuild.search.index import Index
    from keras_bert_rebuild.search.retrievers import check_judgements

    queries = read_queries(args.queries)
    judgements = None
    if args.qrels is not None:
        judgements = read_judgements(args.qrels)
        check_judgements(Index.open(args.index, verify=False), judgements)  # what answers is verified
        unknown = [name for name in judgements if name not in queries]
        if unknown:
            raise ValueError(
                f"expected judgements of queries of {args.queries}; {len(unknown):,} of {len(judgements):,} queries of "
                f"{args.qrels} are not in it, such as {printable(unknown[0])!r}."
            )
        if args.output is None:
            queries = {name: queries[name] for name in judgements}
    index, top_k = _with_model(args.index, args.verify, args.model), args.top_k or IN_RUN
    # As in BEIR, where queries may be documents, a query does not find itself.
    apart = args.qrels is not None and is_beir(args.qrels)
    with progress_bar(Console(stderr=True)) as bar:
        task = bar.add_task("searching", total=len(queries), unit="queries", note="")
        options = {**_options(args), "progress": lambda count: bar.advance(task, count)}
        found = index.search(list(queries.values()), top_k + apart, **options)
    others = (
        [hit for hit in hits if not (apart and hit.id == name and judgements.get(name, {}).get(name, 0) < 1)][:top_k]
        for name, hits in zip(queries, found, strict=True)
    )
    result = {name: {hit.id: hit.score for hit in hits} for name, hits in zip(queries, others, strict=True)}
    if args.output is not None:
        write_run(args.output, result)
        print(f"wrote       {args.output}  {counted(len(result), 'query')}, {counted(sum(map(len, result.values())), 'document')}")
    if judgements is not None:
        depth = min(top_k, args.depth) if args.rerank is not None or args.candidates is not None else top_k
        _print_scores(judgements, result, None if depth >= len(index) else depth)
    return 0


def _with_model(path, verify, model=None):
    """An index with its model, from where it was or is now."""
    from keras_bert_rebuild.search.index import Index

    return Index.open(path, _model_of(path, model), verify)


def _model_of(index, given):
    from keras_bert_rebuild.cli.retriever import load_retriever
    from keras_bert_rebuild.search.index_files import read_manifest

    path = given or read_manifest(index)["model"]
    if path is None:
        raise ValueError(f"expected the model of the index: {index} does not say where it is, so give --model.")
    if given is None and not Path(path).exists():
        raise ValueError(f"expected the model of the index at {printable(path)}, where it was; nothing is there: give --model.")
    begin("loading", path)
    return load_retriever(path)


def _options(args):
    from keras_bert_rebuild.search.retrievers import load_scorer

    options = {"rescore": args.rescore, "depth": args.depth, "engine": args.engine}
    if args.candidates is not None:
        options["candidates"] = _with_model(args.candidates, args.verify)
    if args.fuse:
        options["fuse"] = [_with_model(path, args.verify) for path in args.fuse]
    if args.rerank is not None:
        options["reranker"] = load_scorer(args.rerank)
    return options


def _show(index, hits):
    if not hits:
        print("nothing was found")
        return
    rows = [("", "score", "id", "document")]
    for rank, hit in enumerate(hits, 1):
        document = index.document(hit.id)
        text = " ".join((document.title or document.text).split())
        rows.append((str(rank), f"{hit.score:.4f}", printable(hit.id), printable(text[:SHOWN] + "…" * (len(text) > SHOWN))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for rank, score, name, text in rows:
        print(f"{rank:>{widths[0]}}  {score:>{widths[1]}}  {name:<{widths[2]}}  {text}".rstrip())


def _print_scores(judgements, result, depth):
    from keras_bert_rebuild.tasks.metrics.ranking import measures_to, ranking_scores

    scores = ranking_scores(judgements, result, MEASURES if depth is None else measures_to(depth, MEASURES))
    for name, score in scores.items():
        print(f"{name:<10}  {score:.4f}")
    judged = sum(any(grade > 0 for grade in grades.values()) for grades in judgements.values())
    print(f"{'queries':<10}  {judged:,}")
