"""`keras-bert index`, `search` and `mine`: the vectors of documents on disk, what fits a query, and hard negatives."""

import contextlib
import functools
import itertools
import json
from pathlib import Path

from keras_bert_rebuild.cli.arguments import given_settings
from keras_bert_rebuild.cli.embed import encoded_by_workers, retriever_of
from keras_bert_rebuild.cli.progress import Bar, begin, counted
from keras_bert_rebuild.files.durable import partial_folder, remove_leftovers, written_file
from keras_bert_rebuild.files.kinds import GROUPS, INDEX, RANKING
from keras_bert_rebuild.files.output import claimed_file, claimed_run
from keras_bert_rebuild.files.printable import decimals, printable

# Documents of a query in a run, and on a screen; characters of one that are shown.
IN_RUN, ON_SCREEN, SHOWN = 100, 10, 100
# The name of the ranking by words, instead of an index.
BM25 = "bm25"


def index(args):
    """Make or change the index and return the exit code."""
    if not isinstance(args.output, Path):  # an address
        return _index_corpus(args)
    with claimed_run(args.output, INDEX, [args.corpus, args.model]):
        return _index_corpus(args)


def _index_corpus(args):
    from rich.console import Console

    from keras_bert_rebuild.data.retrieval import documents_in
    from keras_bert_rebuild.search.index import Index
    from keras_bert_rebuild.search.table import exists

    changes, is_there = args.add or args.delete, exists(args.output)
    if changes and not is_there:
        raise ValueError(f"expected an index to change; nothing is at {args.output}.")
    if is_there and not changes and not args.overwrite:
        raise ValueError(
            f"{args.output} holds an index already: --add adds or updates documents, --delete deletes, --overwrite replaces all."
        )
    if args.delete:
        index = Index.open(args.output)
        print(f"deleted  {counted(index.delete(_ids(args.corpus)), 'document')}")
    else:
        settings = {"dtype": args.dtype, "rescoring": args.rescoring, "language": args.language, "overwrite": args.overwrite}
        index = _opened(args.output, args.model, **settings)
        documents = itertools.islice(documents_in(args.corpus), args.limit)
        with encoded_by_workers(args, index) as encoder, Bar(Console(stderr=True)) as bar:
            write = index.update if args.add else index.add
            options = {"batch_tokens": args.batch_tokens, "encoder": encoder}
            changes = write(documents, progress=lambda count: bar("indexing", count, None), **options)
        if not sum(changes):
            raise ValueError(f"expected at least one document; {args.corpus} has none.")
        print(f"vectors  {index.settings}")
        if args.add:
            print(f"changed  {changes.added:,} added, {changes.updated:,} updated, {changes.unchanged:,} unchanged")
    if args.approximate:
        print(f"recall   {index.index_vectors():.3f} of the exact ten best documents by approximate search")
    if args.snapshot is not None:
        index.snapshot(args.snapshot)
    print(f"wrote    {args.output}  {counted(len(index), 'document')}")
    return 0


def _ids(path):
    """The ids in a file: its lines, or those of its documents."""
    from keras_bert_rebuild.data.retrieval import documents_in
    from keras_bert_rebuild.data.text_files import read_lines, suffix_of

    if path.is_file() and suffix_of(path) == ".txt":
        return [line.strip() for line in read_lines(path) if line.strip()]
    return [document.id for document in documents_in(path)]


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
        paths = (args.index, args.queries, args.qrels, args.model, args.rerank, args.candidates, *args.fuse)
        inputs = [path for path in paths if path is not None and str(path) != BM25]
        claim = claimed_file(args.output, RANKING, inputs, args.overwrite)
    with claim:
        return _search_one(args) if args.queries is None else _search_file(args)


def _search_one(args):
    index = _opened(args.index, args.model, snapshot=args.snapshot)
    _show(index, index.search([args.query], args.top_k or ON_SCREEN, **_options(args))[0])
    return 0


def _search_file(args):
    from keras_bert_rebuild.data.retrieval import is_beir, read_judgements, read_queries, write_run
    from keras_bert_rebuild.search.retrievers import missing_judged

    queries = read_queries(args.queries)
    judgements = None if args.qrels is None else read_judgements(args.qrels)
    if judgements is not None:
        unknown = [name for name in judgements if name not in queries]
        if unknown:
            raise ValueError(
                f"expected judgements of queries of {args.queries}; {len(unknown):,} of {len(judgements):,} queries of "
                f"{args.qrels} are not in it, such as {printable(unknown[0])!r}."
            )
        if args.output is None:
            queries = {name: queries[name] for name in judgements}
    index, top_k = _opened(args.index, args.model, snapshot=args.snapshot), args.top_k or IN_RUN
    missing = [] if judgements is None else missing_judged(index, judgements)
    if missing:
        sentence = f"{counted(len(missing), 'judged document')} not in {args.index}, such as {printable(missing[0])!r}"
        if args.all_judged:
            raise ValueError(f"expected an index of all judged documents; {sentence}.")
        print(f"missing     {sentence}")
    of_beir = args.qrels is not None and is_beir(args.qrels)
    excludes_self = of_beir if args.exclude_self is None else args.exclude_self
    ranked = functools.partial(_run_of, index, queries, judgements or {}, top_k, excludes_self)
    result = ranked(**_options(args))
    if args.output is not None:
        write_run(args.output, result)
        print(f"wrote       {args.output}  {counted(len(result), 'query')}, {counted(sum(map(len, result.values())), 'document')}")
    if judgements is not None:
        rankings = 1 if args.rerank is not None else 1 + len(args.fuse)  # of at most `depth` documents each
        is_limited = args.rerank is not None or args.candidates is not None or args.fuse
        depth = min(top_k, args.depth * rankings) if is_limited else top_k
        runs = {"search": result} if args.bm25 else {"search": result, BM25: ranked(filter=args.filter, by=BM25)}
        _print_scores(judgements, runs, None if depth >= len(index) else depth)
    return 0


def _run_of(index, queries, judgements, top_k, excludes_self, **options):
    """The scores of documents by query. As in BEIR, where queries may be documents, a query may be kept from finding itself."""
    from rich.console import Console

    with Bar(Console(stderr=True), "queries") as bar:
        progress = lambda count: bar("searching", count, len(queries))  # noqa: E731
        hits_by_query = index.search(list(queries.values()), top_k + excludes_self, progress=progress, **options)
    run = {}
    for name, hits in zip(queries, hits_by_query, strict=True):
        kept = [hit for hit in hits if not (excludes_self and str(hit.id) == name and judgements.get(name, {}).get(name, 0) < 1)]
        run[name] = {str(hit.id): hit.score for hit in kept[:top_k]}
    return run


def _opened(place, model=None, **settings):
    """An index with its model, if it has vectors: `model`, or the one that it was made with, where it was."""
    from keras_bert_rebuild.search.index import Index
    from keras_bert_rebuild.search.table import exists

    if model is None and exists(place) and not settings.get("overwrite"):
        index = Index.open(place, **settings)
        if index.settings.retriever is None:
            return index
        model = index.settings.model
        if model is None:
            raise ValueError(f"expected the model of the index: {place} does not say where it is, so give --model.")
        if not Path(model).exists():
            raise ValueError(
                f"expected the model of the index at {printable(model)}, where it was; nothing is there: give --model."
            )
    if model is None:
        return Index.open(place, **settings)
    begin("loading", model)
    return Index.open(place, retriever_of(model), model_path=model, **settings)


def _options(args):
    from keras_bert_rebuild.search.retrievers import load_scorer

    options = {"filter": args.filter, "rescore": args.rescore, "depth": args.depth, "approximate": args.approximate}
    other = lambda place: BM25 if str(place) == BM25 else _opened(place)  # noqa: E731
    options["by"] = BM25 if args.bm25 else "vectors"
    if args.candidates is not None:
        options["candidates"] = other(args.candidates)
    if args.fuse:
        options["fuse"] = [other(place) for place in args.fuse]
    if args.rerank is not None:
        options["rerank"] = load_scorer(args.rerank)
    return options


def _show(index, hits):
    if not hits:
        print("nothing was found")
        return
    rows, documents = [("", "score", "id", "document")], index.documents([hit.id for hit in hits])
    for rank, hit in enumerate(hits, 1):
        document = documents[hit.id]
        text = " ".join((document.title or document.text).split())
        rows.append((str(rank), decimals(hit.score), printable(hit.id), printable(text[:SHOWN] + "…" * (len(text) > SHOWN))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for rank, score, name, text in rows:
        print(f"{rank:>{widths[0]}}  {score:>{widths[1]}}  {name:<{widths[2]}}  {text}".rstrip())


def _print_scores(judgements, runs, depth):
    """Print the scores of runs side by side."""
    from keras_bert_rebuild.tasks.metrics.ranking import SEARCH_METRICS, measures_to, ranking_scores

    measures = SEARCH_METRICS if depth is None else measures_to(depth, SEARCH_METRICS)
    scores = {title: ranking_scores(judgements, run, measures) for title, run in runs.items()}
    if len(runs) > 1:
        print(f"{'':<10}" + "".join(f"  {title:>6}" for title in runs))
    for name in next(iter(scores.values())):
        print(f"{name:<10}" + "".join(f"  {decimals(of_run[name])}" for of_run in scores.values()))
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
    retriever = retriever_of(args.model)
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
    from keras_bert_rebuild.search.table import exists

    if args.corpus is not None and exists(args.corpus):
        yield Index.open(args.corpus, retriever)
        return
    # Next to the output, whose lock is held, under another name: files that are begun under its own are removed when it is written.
    beside = args.output.with_name(f"{args.output.name}.index")
    remove_leftovers(beside)
    folder = partial_folder(beside)
    try:
        index = Index.open(folder / "index", retriever)
        corpus = args.corpus if args.corpus is not None else distinct_positives(pairs)
        index.add(corpus, progress=lambda count: bar("indexing", count, None))
        yield index
    finally:
        shutil.rmtree(folder, ignore_errors=True)
