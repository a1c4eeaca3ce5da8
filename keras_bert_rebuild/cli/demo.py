"""`keras-bert demo`: the whole library in one run, on two corpora that every machine has."""

import re
import time

from keras_bert_rebuild.cli.demo_texts import (
    SENTENCES,
    households,
    learn_vocabulary,
    read_documentation,
    sentences,
    show_masks,
    unchosen,
    without,
    world_documents,
    world_masks,
)
from keras_bert_rebuild.cli.demo_training import DemoTraining, build, encode, evaluate, steps_for, train
from keras_bert_rebuild.files.durable import remove_leftovers, written_path
from keras_bert_rebuild.files.kinds import DEMO, visible_names
from keras_bert_rebuild.files.output import check_folder, claimed_run

# Lines are at most this long, in a terminal that is wider, too.
WIDTH = 88

WORLD = DemoTraining(
    sizes={
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "initializer_range": 0.1,
    },
    pairs=False,
    steps=1200,
    batch_size=16,
    seq_len=40,
    max_predictions=8,
    mask_rate=0.2,
    learning_rate=6e-3,
    evaluation_steps=20,
    compiled=("jax",),
)
DOCSTRINGS = DemoTraining(
    sizes={
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 512,
        "initializer_range": None,
    },
    steps=3000,
    learning_rate=2e-3,
    # Keras compiles with XLA by itself on JAX; on TensorFlow a step takes half the time with it.
    compiled=("jax", "tensorflow"),
)

# The folder of the model of the small world, next to the file of the other one.
SMALL_WORLD = "small-world"


def run(args):
    """Run the demo and return the exit code."""
    check_folder(args.output, DEMO, [args.corpus], args.overwrite)
    with claimed_run(args.output, DEMO, [args.corpus]):
        for name in DEMO.names:  # files of two demos would not match
            remove_leftovers(args.output / name)
            if not (args.output / name).is_dir():  # a model in a folder is replaced as a whole
                (args.output / name).unlink(missing_ok=True)
        return _run(args)


def _run(args):
    from rich.console import Console

    from keras_bert_rebuild.data.corpora.documents import hold_out, read_documents

    started = time.perf_counter()
    console = Console()
    console = Console(width=min(console.width, WIDTH))
    parts = None if args.corpus is None else hold_out(read_documents(args.corpus))
    console.rule("[bold]1  BERT-base, as the article builds it")
    show_architecture(console, args.output)
    console.rule("[bold]2  A small world")
    _learn_world(console, args)
    console.rule("[bold]3  Real English")
    _learn_text(console, args, parts)
    console.rule("[bold]What next")
    _show_next(console, args.output)
    console.print(f"\nDone in {time.perf_counter() - started:.0f} s; {args.output} holds {', '.join(visible_names(args.output))}.")
    return 0


def _learn_world(console, args):
    from keras_bert_rebuild import save_pretrained

    train_documents, test_documents = world_documents(args.seed)
    words = sorted({word for document in train_documents for passage in document for word in passage.split()})
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    console.print(f"Animals and their owners, such as: {' '.join(train_documents[0])}", highlight=False)
    corpora = encode(console, train_documents, test_documents, vocabulary)
    training = build(WORLD, args.seed, vocabulary, *corpora)
    _say_sizes(console, training, args.seed)
    train(console, training)
    evaluate(console, training)
    show_masks(console, training, world_masks(args.seed), "A word of each kind, in households that training never had:")
    save_pretrained(training.model, args.output / SMALL_WORLD, vocabulary=vocabulary)


def _learn_text(console, args, parts):
    from keras_bert_rebuild.data.corpora.documents import hold_out
    from keras_bert_rebuild.text.vocabulary import save_vocabulary

    train_documents, test_documents = parts or hold_out(read_documentation(console))
    train_documents = without(train_documents)
    vocabulary = learn_vocabulary(console, train_documents)
    save_vocabulary(vocabulary, args.output / "vocab.txt")
    corpora = encode(console, train_documents, test_documents, vocabulary)
    training = build(DOCSTRINGS, args.seed, vocabulary, *corpora)
    if args.steps or args.minutes:
        steps = args.steps or steps_for(args.minutes, training)
        training = build(DOCSTRINGS, args.seed, vocabulary, *corpora, steps)
    _say_sizes(console, training, args.seed)
    train(console, training)
    evaluate(console, training)
    if args.corpus is None:
        show_masks(console, training, SENTENCES, "Sentences written for this demo; training had none of them:")
    show_masks(console, training, unchosen(test_documents, 5), "Held-out passages that nobody chose:")
    _save_and_reload(console, training, args.output / "bert.keras")


def _say_sizes(console, training, seed):
    import keras

    recipe = training.recipe
    examples = "pairs of segments" if recipe.pairs else "segments"
    console.print(
        f"{training.model.count_params():,} parameters, {len(training.batches):,} steps of {recipe.batch_size} {examples}, "
        f"{recipe.seq_len} tokens long, seed {seed}, {keras.backend.backend()} backend."
    )


def _save_and_reload(console, training, path):
    import keras
    import numpy as np

    with written_path(path, claimed=True) as temporary:
        training.model.save(temporary)
    reloaded = keras.models.load_model(path)
    x, _ = training.held_out[0]
    pairs = zip(training.model.predict(x, verbose=0), reloaded.predict(x, verbose=0), strict=True)
    difference = max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)
    console.print(f"\nSaved to {path}, loaded without custom objects; predictions differ by {difference}.")


def next_commands(output):
    """What to type after the demo: `(a line about it, the command)`."""
    first, _, second, *_ = sentences(households()[1][0])
    return (
        (
            "who looks at whom in the small world, as a page",
            f'keras-bert attention "{first}" --pair "{second}" --model {output / SMALL_WORLD} --output attention.html',
        ),
        ("what changes from one model to another", "keras-bert explain --model bert-base-uncased --other modernbert-base"),
        ("a model of your own text", "keras-bert pretrain --recipe modern --minutes 30 --output my-bert YOUR-TEXT.txt"),
    )


def _show_next(console, output):
    for about, command in next_commands(output):
        console.print(f"# {about}\n{command}", markup=False, highlight=False, soft_wrap=True)


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

# The files that are written: the summary of all layers, and a picture of the model.
SUMMARY, PICTURE = "bert-base.txt", "bert-base.svg"


def folded(rows, view):
    """The rows of a summary in which the blocks after the first are one line.

    Args:
        rows: as from `summary_rows`.
        view: the `EncoderView` of the model.

    Returns:
        A list of `(name and class, shape, parameters)`, shapes without the batch, as "512×768".
    """
    lines, later = [], {}
    numbers = {layer.name: n for n, block in zip(view.numbers, view.blocks, strict=True) for layer in block.layers if n > 1}
    for row in rows:
        if row.name in numbers:
            later.setdefault(numbers[row.name], []).append(row.params)
            first = len(lines)
        else:
            lines.append((f"{row.name} ({row.type})", _shape(row.output_shape), f"{row.params:,}"))
    if later:
        numbers = sorted(later)
        which = f"Encoder-{numbers[0]}" + (f" to Encoder-{numbers[-1]}" if len(numbers) > 1 else "")
        parameters = f"{sum(map(sum, later.values())):,}"
        lines.insert(first, (f"{which}: the same {len(later[numbers[0]])} layers again", "", parameters))
    return lines


def _shape(shape):
    """The sizes after the batch of the first output."""
    first = re.search(r"\(None,? ?([^)]*)\)", shape)
    return "×".join(first[1].replace(" ", "").strip(",").split(",")) if first else ""


def table(lines, width):
    """Lines of text of at most a width: the name may be cut, the numbers not."""
    shapes, numbers = (max(len(line[i]) for line in lines) for i in (1, 2))
    names = min(max(len(line[0]) for line in lines), width - shapes - numbers - 2)
    return [f"{_cut(name, names):<{names}} {shape:<{shapes}} {number:>{numbers}}" for name, shape, number in lines]


def _cut(name, length):
    return name if len(name) <= length else name[: max(length - 1, 0)] + "…"


def show_architecture(console, output):
    """Build the model, print it folded, and write the whole summary and the picture into a folder."""
    from keras_bert_rebuild import compile_model, get_model, print_summary
    from keras_bert_rebuild.explain.plot_model import plot_model
    from keras_bert_rebuild.explain.summary import summary_rows
    from keras_bert_rebuild.files.durable import write_file, write_text
    from keras_bert_rebuild.models.encoder_view import EncoderView

    model = get_model(**ARTICLE_MODEL)
    compile_model(model)
    rows = summary_rows(model)
    for line in table([("Layer (class)", "Output", "Parameters"), *folded(rows, EncoderView(model))], console.width):
        console.print(line, highlight=False, markup=False, no_wrap=True)
    console.print(f"Total params: {model.count_params():,}, in {len(rows)} layers.")
    svg = plot_model(model).to_svg()
    write_file(output / PICTURE, lambda file: file.write(svg.encode("utf-8")), claimed=True)
    lines = []
    print_summary(model, lines.append)
    write_text(output / SUMMARY, "\n".join([*lines, ""]), claimed=True)
    console.print(f"All layers: {output / SUMMARY}\nA picture:  {output / PICTURE} (opens in a browser)", markup=False)
