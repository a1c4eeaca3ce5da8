"""`keras-bert demo`: the whole library in one run, on text that is on every machine."""

import time
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import above_zero, add_overwrite, positive
from keras_bert_rebuild.files.durable import remove_leftovers, written_path
from keras_bert_rebuild.files.kinds import DEMO, visible_names
from keras_bert_rebuild.files.output import check_folder, claimed_run

# BERT-base with the arguments of the article "Understanding BERT architecture".
ARTICLE_MODEL = {
    "token_num": 30000,
    "head_num": 12,
    "transformer_num": 12,
    "embed_dim": 768,
    "feed_forward_dim": 3072,
    "seq_len": 512,
    "pos_num": 512,
    "dropout_rate": 0.05,
}

SMALL_MODEL = {"head_num": 2, "transformer_num": 2, "embed_dim": 128, "feed_forward_dim": 512, "dropout_rate": 0.0}
VOCAB_SIZE = 8000
SEQ_LEN = 64
MAX_PREDICTIONS = 10
BATCH_SIZE = 16
LEARNING_RATE = 1e-3
DEFAULT_STEPS = 3000
EVALUATION_STEPS = 100

# Keras compiles with XLA by itself on JAX; on TensorFlow a step takes half the time with it.
COMPILED = ("jax", "tensorflow")

SENTENCES = (
    "returns the [MASK] of the array .",
    "the function returns a [MASK] of strings .",
    "if the file does not exist , an exception is [MASK] .",
    "the default [MASK] is none .",
    "see the documentation for [MASK] information .",
)

PACKAGES = ("numpy", "keras")


def add_arguments(parser):
    """Declare the options."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive, default=None, help=f"training steps; they decide the result ({DEFAULT_STEPS})")
    length.add_argument(
        "--minutes", type=above_zero, help="choose the steps so that training takes about this long, and print them"
    )
    parser.add_argument("--seed", type=int, default=0, help="the same steps and seed give the same loss (0)")
    parser.add_argument(
        "--corpus", type=Path, help="a text file or a folder of them, instead of the docstrings of installed libraries"
    )
    parser.add_argument("--output", type=Path, default=Path("keras-bert-demo"), help="folder to write to (keras-bert-demo)")
    add_overwrite(parser, "the demo")
    add_device_options(parser)


def run(args):
    """Run the demo and return the exit code."""
    check_folder(args.output, DEMO, [args.corpus], args.overwrite)
    with claimed_run(args.output, DEMO, [args.corpus]):
        for name in DEMO.names:  # files of two demos would not match
            remove_leftovers(args.output / name)
            (args.output / name).unlink(missing_ok=True)
        return _run(args)


def _run(args):
    import keras
    from rich.console import Console

    from keras_bert_rebuild.data.corpora.documents import hold_out, read_documents

    started = time.perf_counter()
    console = Console()
    parts = None if args.corpus is None else hold_out(read_documents(args.corpus))
    console.rule("[bold]BERT-base, as the article builds it")
    _show_article_model(console, args.output)

    console.rule("[bold]A corpus")
    train, test = parts or hold_out(_read_docstrings(console))
    vocabulary = _learn_vocabulary(console, train, args.output)
    train_corpus, test_corpus = _encode_parts(console, train, test, vocabulary)

    console.rule("[bold]Pretraining a small BERT")
    model, batches, held_out = _build(args.seed, vocabulary, train_corpus, test_corpus)
    steps = args.steps or (_steps_for(args.minutes, model, batches) if args.minutes else DEFAULT_STEPS)
    model, batches, held_out = _build(args.seed, vocabulary, train_corpus, test_corpus, steps)
    console.print(
        f"{model.count_params():,} parameters, {steps:,} steps of {BATCH_SIZE} pairs of passages, {SEQ_LEN} tokens long, seed "
        f"{args.seed}, {keras.backend.backend()} backend."
    )
    _train(console, model, batches, steps)
    _evaluate(console, model, batches, held_out, train_corpus, len(vocabulary))
    _fill(console, model, vocabulary)
    _save_and_reload(console, model, held_out, args.output / "bert.keras")
    console.rule()
    console.print(f"Done in {time.perf_counter() - started:.0f} s; {args.output} holds {_listing(args.output)}.")
    return 0


def _show_article_model(console, output):
    import keras

    from keras_bert_rebuild import compile_model, get_model, print_summary

    model = get_model(**ARTICLE_MODEL)
    compile_model(model)
    print_summary(model)
    picture = output / "bert-base.png"
    try:
        with written_path(picture, claimed=True) as temporary:
            keras.utils.plot_model(model, to_file=str(temporary), show_shapes=True, show_layer_names=True, dpi=80)
        console.print(f"Drawn to {picture}.")
    except ImportError:
        console.print("For a drawing of it: pip install pydot, and install Graphviz (its command is dot).")


def _read_docstrings(console):
    """A document for every file of the installed libraries that has docstrings in prose."""
    import keras

    from keras_bert_rebuild.cli.progress import track
    from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files

    packages = (*PACKAGES, keras.backend.backend())
    console.print(f"The docstrings of the standard library, {', '.join(packages)}:")
    files = docstring_files(packages)
    documents = [docstring_document(file) for file in track(console, files, "reading", "files")]
    return [document for document in documents if document]


def _learn_vocabulary(console, documents, output):
    from keras_bert_rebuild.cli.progress import track
    from keras_bert_rebuild.text.normalization import split_words
    from keras_bert_rebuild.text.vocabulary import save_vocabulary, train_vocabulary

    documents = track(console, documents, "counting words", "documents")
    words = (word for document in documents for passage in document for word in split_words(passage))
    tokens = train_vocabulary(words, VOCAB_SIZE)
    save_vocabulary(tokens, output / "vocab.txt")
    console.print(f"Learnt {len(tokens):,} word pieces.")
    return {token: i for i, token in enumerate(tokens)}


def _encode_parts(console, train, test, vocabulary):
    """Two corpora of ids: the training documents, and the test documents without passages that are also in training."""
    from keras_bert_rebuild.data.corpora.held_out import unseen

    train_corpus, test_corpus = (_encode(console, part, vocabulary, name) for part, name in ((train, "training"), (test, "test")))
    test_corpus = unseen(test_corpus, train_corpus)  # compares ids, since different texts may have the same
    passages = [f"{len(corpus.passage_starts) - 1:,}" for corpus in (train_corpus, test_corpus)]
    console.print(
        f"{len(train):,} documents of {passages[0]} passages to train on; {len(test):,} of {passages[1]} held out, "
        "without passages that occur in training too."
    )
    return train_corpus, test_corpus


def _encode(console, documents, vocabulary, name):
    import numpy as np

    from keras_bert_rebuild.cli.progress import track
    from keras_bert_rebuild.data.corpora.documents import encode_documents
    from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

    tokenizer = WordPieceTokenizer(vocabulary, cased=False, fast=False)

    def encoded(document):
        ids, lengths = tokenizer.encode_flat(document)
        return np.split(ids, np.cumsum(lengths)[:-1])

    documents = track(console, documents, f"tokenising {name} text", "documents")
    return encode_documents(map(encoded, documents), lambda ids: ids, list(vocabulary))


def _build(seed, vocabulary, train_corpus, test_corpus, steps=1):
    """The model, its training batches and the held-out batches, which depend on the seed alone."""
    import keras

    from keras_bert_rebuild import compile_model, get_model
    from keras_bert_rebuild.data.corpora.documents import unigram_log_probabilities
    from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches

    keras.utils.set_random_seed(seed)
    model = get_model(len(vocabulary), seq_len=SEQ_LEN, pos_num=SEQ_LEN, **SMALL_MODEL)
    compile_model(
        model,
        learning_rate=LEARNING_RATE,
        decay_steps=steps,
        warmup_steps=steps // 10,
        max_predictions=MAX_PREDICTIONS,
        jit_compile=keras.backend.backend() in COMPILED,
    )
    # The head starts with the frequencies of the tokens, and learns what the context adds.
    log_probabilities = unigram_log_probabilities(train_corpus.ids, len(vocabulary))
    model.get_layer("MLM-Sim").bias.assign(log_probabilities.astype("float32"))
    shape = (BATCH_SIZE, SEQ_LEN, MAX_PREDICTIONS)
    batches = pretraining_batches(train_corpus, *shape, seed=seed, short_seq_prob=0.0, steps_per_epoch=steps)
    held_out = pretraining_batches(
        test_corpus, *shape, seed=seed + 1, short_seq_prob=0.0, steps_per_epoch=EVALUATION_STEPS, repeat=True
    )
    return model, batches, held_out


def _steps_for(minutes, model, batches):
    """The number of steps that the model makes in this time; the weights are discarded."""
    x, y = batches[0]
    for _ in range(3):
        model.train_on_batch(x, y)
    started = time.perf_counter()
    for _ in range(20):
        model.train_on_batch(x, y)
    return max(int(minutes * 60 / (time.perf_counter() - started) * 20), 1)


def _train(console, model, batches, steps):
    from keras_bert_rebuild.cli.progress import TrainingProgress

    started = time.perf_counter()
    model.fit(batches, epochs=1, shuffle=False, verbose=0, callbacks=[TrainingProgress(console, "training", steps)])
    seconds = time.perf_counter() - started
    console.print(f"{steps / seconds:.1f} steps/s, {steps * BATCH_SIZE * SEQ_LEN / seconds:,.0f} tokens/s, {seconds:.0f} s.")


def _evaluate(console, model, batches, held_out, train_corpus, vocab_size):
    import numpy as np

    from keras_bert_rebuild.cli.progress import TrainingProgress
    from keras_bert_rebuild.data.corpora.documents import unigram_log_probabilities
    from keras_bert_rebuild.data.pretraining.pair_probe import probe_of_pairs

    progress = TrainingProgress(console, "evaluating", len(held_out))
    logs = model.evaluate(held_out, verbose=0, return_dict=True, callbacks=[progress])
    log_probabilities = unigram_log_probabilities(train_corpus.ids, vocab_size)
    chosen = []
    for index in range(len(held_out)):
        (_, _, positions), (labels, _) = held_out[index]
        chosen.append(labels[..., 0][positions == 1])
    chosen = np.concatenate(chosen)
    unigram_loss = -log_probabilities[chosen].mean()
    unigram_accuracy = (chosen == log_probabilities.argmax()).mean()
    # What lengths and edges of the segments reveal needs no understanding.
    probe = probe_of_pairs(batches, held_out)
    gain = unigram_loss - logs["MLM_loss"]
    console.print(f"On {len(chosen):,} masked words of documents never seen:")
    verdict = f"{abs(gain):.3f} {'better' if gain > 0 else 'worse'}"
    console.print(f"  MLM loss      {logs['MLM_loss']:.3f} nats   unigram {unigram_loss:.3f}   {verdict}")
    console.print(f"  MLM accuracy  {logs['MLM_accuracy']:.1%}        unigram {unigram_accuracy:.1%}")
    without = f"always the more frequent answer {probe.prior:.1%}, lengths and edge words alone {probe.accuracy:.1%}"
    console.print(f"  NSP accuracy  {logs['NSP_accuracy']:.1%}        {without}")


def _fill(console, model, vocabulary):
    from keras_bert_rebuild.tasks.fill_mask import fill_mask

    console.rule("[bold]Filling masks")
    for sentence in SENTENCES:
        answers = fill_mask(model, vocabulary, sentence)[0]
        shown = ", ".join(f"{token} {probability:.2f}" for token, probability in answers)
        console.print(f"{sentence.replace('[MASK]', '____')}\n    {shown}", markup=False)


def _save_and_reload(console, model, held_out, path):
    import keras
    import numpy as np

    with written_path(path, claimed=True) as temporary:
        model.save(temporary)
    reloaded = keras.models.load_model(path)
    x, _ = held_out[0]
    pairs = zip(model.predict(x, verbose=0), reloaded.predict(x, verbose=0), strict=True)
    difference = max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)
    console.print(f"Saved to {path}, loaded without custom objects; predictions differ by {difference}.")


def _listing(folder):
    return ", ".join(visible_names(folder))
