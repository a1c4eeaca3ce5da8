"""The demo's first act: BERT-base of the article, as a table that fits a terminal, with the whole in a file, and as a picture."""

import re

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
            place = len(lines)
        else:
            lines.append((f"{row.name} ({row.type})", _shape(row.output_shape), f"{row.params:,}"))
    if later:
        numbers = sorted(later)
        which = f"Encoder-{numbers[0]}" + (f" to Encoder-{numbers[-1]}" if len(numbers) > 1 else "")
        parameters = f"{sum(map(sum, later.values())):,}"
        lines.insert(place, (f"{which}: the same {len(later[numbers[0]])} layers again", "", parameters))
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
