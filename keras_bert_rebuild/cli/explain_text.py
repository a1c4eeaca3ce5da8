"""`keras-bert explain-text`: the words that carry a text, by the weights of its sparse vector."""

import json

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import existing
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.cli.shared_options import add_top_k

FORMATS = ("text", "json")

# Characters of the longest bar.
BAR = 30


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("text", metavar="TEXT", help="text to explain")
    parser.add_argument(
        "--model", type=existing, required=True, metavar="PATH", help="sparse embedding model, or a masked language model"
    )
    parser.add_argument(
        "--prompt", default="document", metavar="NAME", help="query, document or another prompt of the model (default: document)"
    )
    add_top_k(parser, 20, "words to show, by descending weight")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to print it (default: text)")
    add_device_options(parser)


def run(args):
    """Print the words and return the exit code."""
    from keras_bert_rebuild.tasks.saved_task import load_task

    folder = args.model / "model" if (args.model / "settings.yaml").is_file() else args.model
    begin("loading", args.model)
    task = load_task(folder, "sparse_embedding")
    (vector,) = task([args.text], args.prompt)
    own = set(task.tokenizer.tokenize(args.text))
    words = [
        {"word": token, "weight": round(weight, 4), "in_text": token in own} for token, weight in task.tokens_of(vector, args.top_k)
    ]
    if args.format == "json":
        print(json.dumps({"text": args.text, "words": words, "count": len(vector[0])}, indent=2, ensure_ascii=False))
    else:
        _print(args.text, words, len(vector[0]))
    return 0


def _print(text, words, count):
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("word", "left"), ("weight", "right"), ("", "left"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)
    strongest = words[0]["weight"] if words else 1.0
    for word in words:
        style = "bold" if word["in_text"] else "cyan"
        bar = "█" * max(1, round(BAR * word["weight"] / strongest))
        note = "" if word["in_text"] else "added"
        table.add_row(Text(word["word"], style), f"{word['weight']:.3f}", Text(bar, style), Text(note, "dim"))
    console.print(Text(text, "italic"))
    console.print()
    console.print(table)
    console.print()
    more = f", the strongest {len(words)} shown" if count > len(words) else ""
    added = sum(not word["in_text"] for word in words)
    console.print(f"{counted(count, 'word')} with a weight{more}; {added} of {len(words)} not in the text.")
