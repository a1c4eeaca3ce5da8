"""`keras-bert index`, `search` and `mine`: the vectors of documents on disk, what fits a query, and hard negatives."""

import contextlib
import json
from pathlib import Path

from keras_bert_rebuild.cli.arguments import given_settings
from keras_bert_rebuild.cli.progress import Bar, begin, counted
from keras_bert_rebuild.files.durable import partial_folder, remove_leftovers, written_file
from keras_bert_rebuild.files.kinds import GROUPS, RANKING
from keras_bert_rebuild.files.output import claimed_file
from keras_bert_rebuild.files.printable import decimals, printable

MEASURES = ("ndcg@10", "mrr@10", "recall@100", "map")
# Documents of a query in a run, and on a screen.
IN_RUN, ON_SCREEN = 100, 10
# Characters of a document that are shown.
SHOWN = 100


def _retriever(path):
    """Load a model that makes vectors: as `load_task` reads it, or exported for OpenVINO.

    Args:
        path: a folder of a fine-tuned model or of sentence-transformers, or one of `keras-bert export` for OpenVINO.

    Raises:
        ValueError: the model does not make vectors, or a package is missing.
    """
    from keras_bert_rebuild.export.runtimes import SETTINGS

    path = Path(path)
    if (path / SETTINGS).is_file():
        from keras_bert_rebuild.export.exported_retriever import ExportedRetriever

        return ExportedRetriever.load(path)
    from keras_bert_rebuild.search.retrievers import load_retriever

    return load_retriever(path)


def index(args):
    """Make or finish the index and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.search.build import claimed_index

    with claimed_index(args.corpus, args.output, args.overwrite, args.model):
        if not args.corpus.is_file():
            raise ValueError(
                f"CORPUS must be a file of documents; {args.corpus} {'is a folder' if args.corpus.is_dir() else 'does not exist'}."
            )

        from keras_bert_rebuild.search.index import Index

        begin("loading", args.model)
        retriever = _retriever(args.model)
        with Bar(Console(stderr=True)) as bar:
            index = Index.build(
                args.corpus,
                args.output,
                retriever,
                dtype=args.dtype,
                rescoring=args.rescoring,
                limit=args.limit,
                batch_tokens=args.batch_tokens,
                model=Path(args.model).resolve(),
                overwrite=args.overwrite,
                progress=bar,
            )
    again = "" if index.rescoring == "none" else f", and again as {index.rescoring}"
    print(f"vectors  {index.vectors}, {index.width:,} {'tokens' if index.vectors == 'sparse' else 'numbers'}, {index.dtype}{again}")
    print(f"wrote    {args.output}  {counted(len(index), 'document')}")
    return 0


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
    with Bar(Console(stderr=True), "queries") as bar:
        options = {**_options(args), "progress": lambda count: bar("searching", count, len(queries))}
        hits_by_query = index.search(list(queries.values()), top_k + apart, **options)
    ranked = (
        [hit for hit in hits if not (apart and hit.id == name and judgements.get(name, {}).get(name, 0) < 1)][:top_k]
        for name, hits in zip(queries, hits_by_query, strict=True)
    )
    result = {name: {hit.id: hit.score for hit in hits} for name, hits in zip(queries, ranked, strict=True)}
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


def _model_of(index, model):
    from keras_bert_rebuild.search.index_files import read_manifest

    path = model or read_manifest(index)["model"]
    if path is None:
        raise ValueError(f"expected the model of the index: {index} does not say where it is, so give --model.")
    if model is None and not Path(path).exists():
        raise ValueError(f"expected the model of the index at {printable(path)}, where it was; nothing is there: give --model.")
    begin("loading", path)
    return _retriever(path)


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
        rows.append((str(rank), decimals(hit.score), printable(hit.id), printable(text[:SHOWN] + "…" * (len(text) > SHOWN))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for rank, score, name, text in rows:
        print(f"{rank:>{widths[0]}}  {score:>{widths[1]}}  {name:<{widths[2]}}  {text}".rstrip())


def _print_scores(judgements, result, depth):
    from keras_bert_rebuild.tasks.metrics.ranking import measures_to, ranking_scores

    scores = ranking_scores(judgements, result, MEASURES if depth is None else measures_to(depth, MEASURES))
    for name, score in scores.items():
        print(f"{name:<10}  {decimals(score)}")
    judged = sum(any(grade > 0 for grade in grades.values()) for grades in judgements.values())
    print(f"{'queries':<10}  {judged:,}")


def mine(args):
    """Mine and return the exit code."""
    from keras_bert_rebuild.search.mining import MiningSettings

    settings = MiningSettings(**given_settings(args, MiningSettings))
    with claimed_file(args.output, GROUPS, [args.pairs, args.corpus, args.model, args.scores_by], args.overwrite):
        return _mine(args, settings)


def _mine(args, settings):
    from rich.console import Console

    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.search.mining import mine, row_of
    from keras_bert_rebuild.search.retrievers import load_scorer

    pairs = read_examples(args.pairs, "retrieval", labelled=False)
    if args.corpus is not None and not args.corpus.exists():
        raise ValueError(f"expected a corpus or an index; nothing is at {args.corpus}.")
    begin("loading", args.model)
    retriever = _retriever(args.model)
    scorer = None if args.scores_by is None else load_scorer(args.scores_by)
    negatives = short = 0
    console = Console(stderr=True)
    with Bar(console) as bar, _index(args, pairs, retriever, bar) as index:
        with written_file(args.output, claimed=True) as file:
            for mined in mine(pairs, index, settings, scorer, lambda count: bar("mining", count, len(pairs))):
                file.write((json.dumps(row_of(mined), ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))
                negatives += len(mined.group.negatives)
                short += len(mined.group.negatives) < settings.negatives
        documents = len(index)
    print(f"searched {counted(documents, 'text')} for {counted(len(pairs), 'pair')}")
    if short:
        print(f"fewer    {counted(short, 'pair')} with less than {counted(settings.negatives, 'negative')} within the limits")
    print(f"wrote    {args.output}  {counted(negatives, 'negative')}")
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
    beside = args.output.with_name(f"{args.output.name}.index")
    remove_leftovers(beside)
    folder = partial_folder(beside)
    try:
        corpus = args.corpus if args.corpus is not None else distinct_positives(pairs)
        yield Index.build(corpus, folder / "index", retriever, progress=bar)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
