"""`keras-bert fill`: the words that a model predicts for the masks of texts."""

import json
import sys

from keras_bert_rebuild.cli.progress import Bar, begin, counted
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.kinds import FILLED
from keras_bert_rebuild.files.output import claimed_file
from keras_bert_rebuild.files.printable import printable

# Texts whose answers are in memory at a time.
CHUNK = 1024


def run(args):
    """Print or write the words for every mask, and return the exit code."""
    if args.text and args.input is not None:
        raise ValueError("TEXT and --input exclude each other: leave one of them out.")
    if args.output is None:
        for row in _filled(args, _texts(args)):
            print(json.dumps(row, ensure_ascii=False) if args.format == "json" else _as_text(row), flush=True)
        return 0
    if args.format is not None:
        raise ValueError(f"--format is for what is printed, and --output writes JSON lines; got --format {args.format}.")
    with claimed_file(args.output, FILLED, [args.input, args.model, args.tokenizer], args.overwrite):
        return _write(args)


def _write(args):
    from rich.console import Console

    texts = _texts(args)
    with written_file(args.output, claimed=True) as file, Bar(Console(stderr=True)) as bar:
        for row in _filled(args, texts):
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))
            bar("filling", 1, len(texts))
    print(f"wrote    {args.output}  {counted(len(texts), 'text')}")
    return 0


def _texts(args):
    """The texts of the command line, or the lines of a file or of standard input."""
    from keras_bert_rebuild.cli.embed import lines_of_file

    if args.text:
        return args.text
    if args.input is None and (sys.stdin is None or sys.stdin.isatty()):
        raise ValueError("expected a text with a mask, --input FILE, or texts on standard input.")
    if args.input is not None and not args.input.is_file():
        raise ValueError(f"--input must be a file of texts; {args.input} is not a file.")
    lines = sys.stdin if args.input is None else lines_of_file(args.input)
    texts = [line.rstrip("\r\n") for line in lines if line.strip()]
    if not texts:
        raise ValueError(f"the texts must be lines with a mask; {args.input or 'standard input'} has none.")
    return texts


def _filled(args, texts):
    """Yield a dictionary for every text: `text`, and in `masks` for every mask the tokens with their probabilities."""
    from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
    from keras_bert_rebuild.tasks.pretraining_heads import fill_mask
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    begin("loading", args.model)
    model, tokenizer = from_pretrained(args.model), load_tokenizer(args.tokenizer or args.model)
    for first in range(0, len(texts), CHUNK):
        chunk = texts[first : first + CHUNK]
        for text, masks in zip(chunk, fill_mask(model, tokenizer, chunk, args.top_k, batch_size=args.batch_size), strict=True):
            answers = [[{"token": token, "probability": round(value, 6)} for token, value in mask] for mask in masks]
            yield {"text": text, "masks": answers}


def _as_text(row):
    """A text, and a line for each of its masks."""
    lines = [printable(row["text"])]
    for number, answers in enumerate(row["masks"], 1):
        words = "  ".join(f"{printable(answer['token'])} {answer['probability']:.3f}" for answer in answers)
        lines.append(f"  {f'{number}  ' if len(row['masks']) > 1 else ''}{words}")
    return "\n".join(lines)
