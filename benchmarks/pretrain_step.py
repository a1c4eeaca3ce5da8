"""A pretraining step of ours, transformers and KerasHub, in turn: time, ratios, fraction of the matrix ceiling, peak memory.

Command: python benchmarks/pretrain_step.py --ours tensorflow=PYTHON --ours jax=PYTHON --peer transformers=PYTHON \
--peer keras_hub=PYTHON --workload 128 512 --output TABLE
Time: a quarter of an hour on two idle cores
Needs: 20 GB of memory for the four processes of BERT-base; gcc and Python's headers for --try-ways, which runs torch.compile
The real lengths: the same with --ours tensorflow=PYTHON --peer transformers=PYTHON --workload real
Packed rows: the same with --packing, where ours fills rows with several passages (documents, for 128 and 512) and trains the MLM
head alone, and the peers get the same texts one a row; with --packing pairs both train NSP too, on pairs of segments
On an NVIDIA GPU: python benchmarks/pretrain_step.py --device gpu --ours jax=PYTHON --peer transformers=PYTHON --dtype bfloat16 \
--workload 128 512 --batch 64

PYTHON is the interpreter of an environment that has the contender. All train the same model on the same batches with the same
dropouts, threads and AdamW without decay of biases and norms; ours also has the NSP head, which KerasHub lacks. Every contender
is a separate process (`pretrain_step_worker.py`), and in every round each trains on the same batches while the others wait.
A contender that can be run in several ways is run in the first one in `WAYS`; with --try-ways all are tried first
and the fastest is used.

Batches come from the docstrings of installed packages. The workload "real" is single passages of
docstrings, which are short: ours batches them by length and pads to 32, 64, 96 or 128; transformers gets them in their order, each
batch padded to its longest as its collator does; KerasHub padded to 128 as its preprocessor does. Its rounds are the quarters of
a window of 32 batches, whatever --rounds and --steps say, and its ratios are of their sums. With --packing the rounds are such
quarters too, of about as many tokens on both sides, and the ratios are those of tokens per second.

A round is one call of `fit` for ours and KerasHub, whose beginning and end are in its time; on a GPU, where a step takes less than
they do, --passes 6 makes rounds of some dozens of steps for all.

Columns: tokens do not include padding. The ceiling is the rate of a large matrix product, measured in every round; its fraction
counts the operations that the step needs, with predictions at the masked positions only, whatever else a contender computes.
Processor time is that of all threads. Memory is the highest resident set of the whole process, with imports, building and
compiling; on a GPU the maximum that was allocated on it.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pretrain_step_worker import TITLES, WAYS, write_batches
from workers import Contender, environment

from keras_bert_rebuild import BertConfig, WordPieceTokenizer, pretraining_batches
from keras_bert_rebuild.data.batches import WINDOW
from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files, encode_documents
from keras_bert_rebuild.data.pretraining.packed_rows import sequence_lengths
from keras_bert_rebuild.recipes.step_costs import Work, train_flops
from keras_bert_rebuild.text.normalization import split_words
from keras_bert_rebuild.text.vocabulary import train_vocabulary

SIZES = {
    "tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
VOCABULARY, POSITIONS = 30522, 512


@dataclasses.dataclass(frozen=True)
class Workload:
    """The training data."""

    batch: int
    length: int
    max_predictions: int
    lengths: tuple | None = None
    """Lengths that ours pads to, of single segments; None for pairs, padded to `length`."""


WORKLOADS = {"128": Workload(8, 128, 20), "512": Workload(2, 512, 77), "real": Workload(8, 128, 20, (32, 64, 96))}

OURS, PEERS = ("tensorflow", "jax", "torch"), ("transformers", "keras_hub")
# The step between lengths, as a part of the longest, with --group-peers: transformers' `train_sampling_strategy="group_by_length"`.
GROUPED = 16
QUARTERS = 4  # the rounds of the workload "real", together a window of batches


def docstring_corpora(vocabulary=VOCABULARY):
    """The docstrings as documents, and every passage of them as a separate document, in a vocabulary of a size."""
    documents = [document for path in docstring_files(["numpy", "keras"]) if (document := docstring_document(path))]
    tokens = train_vocabulary((word for document in documents for passage in document for word in split_words(passage)), vocabulary)
    tokenizer = WordPieceTokenizer({token: i for i, token in enumerate(tokens)}, cased=False)

    def encode(passages):
        ids, lengths = tokenizer.encode_flat(passages)
        return np.split(ids, np.cumsum(lengths)[:-1])

    encoded = [encode(document) for document in documents]
    passages = [[passage] for document in encoded for passage in document]
    return [encode_documents(corpus, lambda ids: ids, tokens) for corpus in (encoded, passages)]


def make_batches(corpora, workload, args):
    """The batches of ours and of the peers, with the same examples; packed, of the same corpus and about as many tokens."""
    step = workload.length // GROUPED
    steps, grouped = args.steps, tuple(range(step, workload.length, step)) if args.group_peers else None
    shape = (workload.batch, workload.length, workload.max_predictions)
    if args.packing:
        corpus = corpora[0 if workload.lengths is None else 1]
        second = "nsp" if args.packing == "pairs" else None
        packed = pretraining_batches(corpus, *shape, next_sentence=second, packed=True)
        padded = pretraining_batches(corpus, *shape, next_sentence=second, lengths=grouped)
        # Batches of one length are made of a window, and an epoch may be shorter than that.
        theirs = [padded.batch(0, i) for i in range(min(WINDOW, len(padded)) if grouped else WINDOW)]
        tokens, ours = work_of(theirs).tokens, []
        while len(ours) % QUARTERS or work_of(ours).tokens < tokens:
            ours.append(packed.batch(0, len(ours)))
        return ours, theirs
    if workload.lengths is None:
        data = pretraining_batches(corpora[0], *shape)
        made = [data.batch(0, i) for i in range(steps)]
        return made, made
    ours, theirs = (
        pretraining_batches(corpora[1], *shape, next_sentence=None, lengths=lengths) for lengths in (workload.lengths, grouped)
    )
    return tuple([data.batch(0, i) for i in range(WINDOW)] for data in (ours, theirs))


def work_of(batches):
    """The operations that the batches need, without padding."""
    works = []
    for (tokens, _, chosen, *numbers), _ in batches:
        lengths = sequence_lengths(numbers[0]) if numbers else (tokens != 0).sum(1)
        works.append(Work(int(lengths.sum()), int((lengths**2).sum()), int(chosen.sum()), len(lengths)))
    return sum(works, Work())


def start(name, python, ways, job, folder):
    """A contender, warmed up, in the fastest of several ways, and its title."""
    best = None
    for way in ways:
        title = f"{TITLES[name]}, {way}"
        began = time.perf_counter()
        try:
            backend = name if name in OURS else "tensorflow"
            given = json.dumps({**job, "contender": name, "way": way})
            command = [python, str(Path(__file__).with_name("pretrain_step_worker.py")), given]
            worker = Contender(command, folder / f"{name}.log", environment(backend, job["threads"]))
            versions = worker.answer()["versions"]
        except RuntimeError as error:
            print(f"  {title} does not run: {error}", flush=True)
            continue
        print(f"  {title}: {versions}, ready after {time.perf_counter() - began:.0f} s", flush=True)
        first = worker.ask(*run_of(slice(0, 1)))
        print(f"    {first['seconds']:.2f} s a step, {first['peak'] / 1e9:.2f} GB", flush=True)
        if best is None or first["seconds"] < best[0]:
            best, worker = (first["seconds"], worker, title), best and best[1]
        if worker is not None:
            worker.end()
    if best is None:
        raise RuntimeError(f"{TITLES[name]} runs in none of the ways {', '.join(ways)}.")
    return best[1:]


def run_of(part, passes=1):
    """The command to train on the batches of a slice, several times."""
    return "run", part.start, part.stop, passes


def measure(args, workload, dtype, corpora, folder):
    """Results of every contender in every round, the ceilings, and the work and the batches of ours and of the peers."""
    batches = make_batches(corpora, workload, args)
    pairs = pairs_in(workload, args)
    for name, made in zip(("ours", "theirs"), batches, strict=True):
        write_batches(folder / f"{name}.npz", made)
    job = {
        "size": {**SIZES[args.size], "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS},
        "max_predictions": workload.max_predictions,
        "pairs": pairs,
        "dropout": args.dropout,
        "dtype": dtype,
        "threads": args.threads,
        "device": "cuda" if args.device == "gpu" else "cpu",
    }
    parts = [[slice(0, args.steps)] * args.rounds] * 2
    if not in_turn(workload, args):
        sizes = [len(made) // QUARTERS for made in batches]
        parts = [[slice(i * size, (i + 1) * size) for i in range(QUARTERS)] for size in sizes]
    workers, titles = {}, {}
    try:
        for name, python in {**args.ours, **args.peer}.items():
            data = str(folder / ("ours.npz" if name in OURS else "theirs.npz"))
            ways = WAYS[args.device][name]
            ways = ways if args.try_ways else ways[:1]
            workers[name], titles[name] = start(name, python, ways, {**job, "data": data}, folder)
        answers, ceilings = {name: [] for name in workers}, []
        for ours, theirs in zip(*parts, strict=True):
            ceilings.append(workers[next(iter(args.ours))].ask("ceiling")["flops"])
            for name, worker in workers.items():
                answers[name].append(worker.ask(*run_of(ours if name in OURS else theirs, args.passes)))
    finally:
        for worker in workers.values():
            worker.end()
    parts = [of_side * args.passes for of_side in parts]
    works = [sum((work_of(made[part]) for part in of_side), Work()) for made, of_side in zip(batches, parts, strict=True)]
    steps = [sum(part.stop - part.start for part in of_side) for of_side in parts]
    return {titles[name]: (name, rounds) for name, rounds in answers.items()}, ceilings, works, steps


def pairs_in(workload, args):
    """Whether the examples are pairs of segments."""
    return args.packing == "pairs" or (workload.lengths is None and not args.packing)


def in_turn(workload, args):
    """Whether all contenders train on the same batches, so that every round is a comparison."""
    return workload.lengths is None and not args.packing


def table(measured, ceilings, works, all_steps, config, pairs, same):
    """Lines of Markdown: a row for every contender, with ratios of rounds taken side by side if the batches are the same."""
    ceiling = max(ceilings)
    theirs = {name: rounds for name, rounds in measured.values() if name in PEERS}
    more = works[0].tokens / works[1].tokens  # packed, there are about as many
    shown = [TITLES[name].split(",")[0] for name in theirs]
    head = ["", "s/step", "processor s/step", "tokens/s", *(f"times {name}" for name in shown), "of the ceiling", "memory, GB"]
    head += [*(f"of {name}" for name in shown), "loss"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for title, (name, rounds) in measured.items():
        work, steps = (side[0 if name in OURS else 1] for side in (works, all_steps))
        # Rounds of the same batches differ only by chance; those of a window belong together.
        seconds = total(rounds, "seconds") if not same else statistics.median(answer["seconds"] for answer in rounds) * len(rounds)
        peak = max(answer["peak"] for answer in rounds)
        cells = [title, f"{seconds / steps:.3f}", f"{total(rounds, 'processor') / steps:.3f}", f"{work.tokens / seconds:,.0f}"]
        cells += [f"{times(rounds, other, same) * (more if name in OURS else 1):.2f}" for other in theirs.values()]
        cells += [f"{train_flops(config, work, pairs) / seconds / ceiling:.0%}", f"{peak / 1e9:.2f}"]
        cells += [f"{peak / max(answer['peak'] for answer in other):.2f}" for other in theirs.values()]
        cells.append(f"{total(rounds, 'loss') / len(rounds):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    others = max(answer["others"] for _, rounds in measured.values() for answer in rounds)
    note = f"Matrix ceiling {ceiling / 1e9:,.0f} GFLOP/s ({min(ceilings) / 1e9:,.0f} in the worst round)."
    return [*lines, "", f"{note} Other processes took up to {others:.0%} of the processor time of a round."]


def times(rounds, other, same_batches):
    """The speed relative to another: the median of the rounds, or the ratio of the sums."""
    if same_batches:
        return statistics.median(b["seconds"] / a["seconds"] for a, b in zip(rounds, other, strict=True))
    return total(other, "seconds") / total(rounds, "seconds")


def total(rounds, what):
    return sum(answer[what] for answer in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--ours", action="append", default=[], metavar="BACKEND=PYTHON", help="tensorflow, jax or torch; one or more"
    )
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help="transformers or keras_hub")
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--dtype", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--batch", type=int, help="examples per batch, instead of 8 of 128 and 2 of 512")
    parser.add_argument("--dropout", type=float, default=0.1, help="everywhere, for attention probabilities too (0.1)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=1, help="batches per round (1)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--passes", type=int, default=1, help="how often a round goes through its batches (1)")
    parser.add_argument("--try-ways", action="store_true", help="try every way to run a contender and take the fastest")
    parser.add_argument("--group-peers", action="store_true", help="peers get batches of texts of about the same length")
    parser.add_argument(
        "--packing", nargs="?", const="texts", choices=("texts", "pairs"), help="ours packs texts, without NSP, or pairs into rows"
    )
    parser.add_argument("--output", type=Path, help="a file for the tables, which are also printed")
    args = parser.parse_args()
    args.ours = dict(pair.split("=", 1) for pair in args.ours) or {"tensorflow": sys.executable}
    args.peer = dict(pair.split("=", 1) for pair in args.peer)
    wrong = [*(set(args.ours) - set(OURS)), *(set(args.peer) - set(PEERS))]
    if wrong:
        parser.error(f"--ours takes {' or '.join(OURS)}, --peer takes {' or '.join(PEERS)}; got {', '.join(wrong)}.")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # the workers too
    corpora = docstring_corpora()
    config = BertConfig(**SIZES[args.size], vocab_size=VOCABULARY, max_position_embeddings=POSITIONS)
    with tempfile.TemporaryDirectory() as folder:
        for workload_name in args.workload:
            workload = WORKLOADS[workload_name]
            workload = dataclasses.replace(workload, batch=args.batch or workload.batch)
            for dtype in args.dtype:
                shape = workload_name if workload.lengths else f"{workload.batch} x {workload.length}"
                title = f"{shape}, {dtype}, BERT-{args.size}, dropout {args.dropout:g}"
                print(title, flush=True)
                measured, *rest = measure(args, workload, dtype, corpora, Path(folder))
                title += f"{f', packed {args.packing}' if args.packing else ''}, {args.threads} threads, {rest[-1][0]} batches"
                same = in_turn(workload, args)
                lines = ["", f"### {title}", "", *table(measured, *rest, config, pairs_in(workload, args), same), ""]
                print("\n".join(lines), flush=True)
                if args.output is not None:
                    with args.output.open("a", encoding="utf-8") as file:
                        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
