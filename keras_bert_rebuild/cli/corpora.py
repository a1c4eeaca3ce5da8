"""`keras-bert vocab` and `prepare`: from a corpus to a WordPiece vocabulary, and to tokens that training reads from disk."""

import sys
from collections import deque

from keras_bert_rebuild.cli.arguments import vocabulary_file, workers_of
from keras_bert_rebuild.cli.progress import Bar, counted
from keras_bert_rebuild.files.kinds import STORE, VOCABULARY
from keras_bert_rebuild.files.output import claimed_file, claimed_run
from keras_bert_rebuild.files.printable import printable

_BLOCK_BYTES = 1_000_000  # the bar advances with each block
_LIKE = {"exact": "the same as", "near": "nearly the same as"}


def vocab(args):
    """Learn a vocabulary, write it and print what was done; return the exit code."""
    with claimed_file(args.output, VOCABULARY, [args.corpus], args.overwrite):
        return _learn(args)


def _learn(args):
    from rich.console import Console

    from keras_bert_rebuild.data.corpora.read_corpus import LONGEST_WORD, CorpusReader, WordCounts, make_chunk_counter
    from keras_bert_rebuild.data.corpora.worker_pool import mapped
    from keras_bert_rebuild.text.vocabulary import SPECIAL_TOKENS, save_vocabulary, train_vocabulary

    console = Console(stderr=True)
    if args.vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(f"--vocab-size must be above {len(SPECIAL_TOKENS)}, the number of special tokens; got {args.vocab_size}.")
    reader = CorpusReader(args.corpus, block_bytes=_BLOCK_BYTES)
    words, read = WordCounts(args.cased), deque()

    def texts():
        for block in reader.blocks():
            read.append(block.file_bytes)
            yield block.text

    with workers_of(args) as workers, Bar(console, "bytes") as bar:
        for chunks in mapped(make_chunk_counter, (), texts(), workers):
            words.add_chunks(chunks)
            bar("counting words", total=reader.file_bytes, done=read.popleft())
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


def prepare(args):
    """Tokenise and print what was done; return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.data.corpora import prepare as preparation
    from keras_bert_rebuild.data.text_files import corpus_files

    if args.similarity is not None and args.deduplicate != "near":
        raise ValueError("--similarity is for --deduplicate near: give both, or leave it out.")
    size = sum(path.stat().st_size for _, path in corpus_files(args.corpus))
    with (
        claimed_run(args.output, STORE, [args.corpus, *args.apart_from]),
        workers_of(args) as workers,
        Bar(Console(stderr=True), "bytes") as bar,
    ):
        done = preparation.prepare(
            args.corpus,
            vocabulary_file(args.tokenizer),
            args.output,
            cased=args.cased,
            workers=workers,
            document_per_file=args.document_per_file,
            progress=lambda file_bytes, text_bytes: bar("tokenising", file_bytes, size),
            deduplicate=args.deduplicate,
            apart_from=args.apart_from,
            similarity=preparation.SIMILARITY if args.similarity is None else args.similarity,
        )
    for note in done.notes:
        print(f"keras-bert prepare: {note}", file=sys.stderr)
    counts = done.counts
    unknown = counts["unknown"] / max(counts["tokens"], 1)
    print(f"tokens   {counts['tokens']:,}, {'cased' if done.cased else 'uncased'}; {unknown:.2%} of them [UNK]")
    print(f"of       {counted(counts['documents'], 'document')}, {counted(counts['passages'], 'passage')}")
    for unit, kinds in (done.removed or {}).items():
        for kind, removed in kinds.items():
            texts, tokens = counted(removed["texts"], unit.removesuffix("s")), counted(removed["tokens"], "token")
            print(f"removed  {texts} of {tokens}, {_LIKE[kind]} an earlier one")
            if "example" in removed:
                print(f"         such as    {printable(removed['example']['removed'])}")
                if kind == "near":
                    print(f"         keeping    {printable(removed['example']['stays'])}")
    existing = "" if done.made == done.shards else "; the rest existed already"
    print(f"wrote    {args.output}  {done.made:,} of {counted(done.shards, 'shard')}{existing}")
    return 0
