"""Options that several verbs have, each with one name and one meaning."""

import argparse
from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import above_zero, checkpoint, existing, positive
from keras_bert_rebuild.cli.parsers import Flag
from keras_bert_rebuild.data.labelled.read_labelled import FORMATS

# Names in Python whose options have the usual name of the field.
OPTIONS = {
    "seq_len": "max-seq-length",
    "max_len": "max-seq-length",
    "evaluate_steps": "eval-steps",
    "evaluation_steps": "eval-batches",
    "warmup": "warmup-ratio",
    "warmup_fraction": "warmup-ratio",
    "format": "input-format",
    "layers": "num-hidden-layers",
    "attention_heads": "num-attention-heads",
}


def option_of(name):
    """The option for a name in Python, such as --batch-size for batch_size."""
    return f"--{OPTIONS.get(name, name).replace('_', '-')}"


def refuse_together(args, *pairs):
    """Refuse two options that exclude each other.

    Args:
        args: the arguments.
        *pairs: names in the namespace, `(one, other)`.

    Raises:
        ValueError: both of a pair were given.
    """
    for one, other in pairs:
        if all(getattr(args, name) not in (None, False) for name in (one, other)):
            raise ValueError(f"{option_of(one)} and {option_of(other)} exclude each other: leave one of them out.")


def add_flag(parser, name, help, no=None, dest=None, default=None):
    """Declare --name and --no-name.

    Args:
        parser: where.
        name: of the option, without hyphens in front.
        help: its help.
        no: the option for no; None for `--no-name`.
        dest: its name in the namespace; None for that of the option.
        default: its value if neither is given.
    """
    dest = dest or name.replace("-", "_")
    parser.add_argument(f"--{name}", no or f"--no-{name}", action=Flag, dest=dest, default=default, help=help)


def add_model(parser, more=""):
    """Declare --model for a checkpoint of any format; `more` is a part of the help."""
    what = "model: a folder or file in the format of Hugging Face, Google or Keras"
    parser.add_argument("--model", type=checkpoint, required=True, metavar="PATH", help=f"{what}{more and f', {more}'}")


def add_other(parser, help):
    """Declare --other and --other-tokenizer, for a second model."""
    parser.add_argument("--other", type=checkpoint, metavar="PATH", help=help)
    parser.add_argument(
        "--other-tokenizer", type=existing, metavar="PATH", help="tokenizer of the second model (default: the one in its folder)"
    )


def add_tokenizer(parser):
    """Declare --tokenizer, a folder or a file of one."""
    parser.add_argument(
        "--tokenizer",
        type=existing,
        metavar="PATH",
        help="folder or file of the tokenizer (default: the one in the model's folder)",
    )


def add_pair(parser):
    """Declare --pair, for one second text."""
    parser.add_argument("--pair", metavar="TEXT", help="second text (default: none)")


def add_reading_options(parser, formats=True):
    """Declare --columns, --header and --input-format, for files of examples."""
    parser.add_argument(
        "--columns",
        nargs="+",
        action=Columns,
        metavar="PART=NAME",
        help="columns of the files, by name or number from 1, such as text=utterance label=2 (default: the usual names)",
    )
    add_flag(parser, "header", "the first row of a table holds the column names (default: detected)")
    if formats:
        parser.add_argument("--input-format", choices=FORMATS, help="format of the files (default: by the file name)")


def add_mix(parser):
    """Declare --mix, for several token stores."""
    parser.add_argument(
        "--mix",
        type=above_zero,
        nargs="+",
        metavar="X",
        help="sampling weight of every token store (default: in proportion to their tokens)",
    )


def check_mix(args):
    """Refuse weights that are not one for every store.

    Raises:
        ValueError: they are not.
    """
    if args.mix is not None and len(args.mix) != len(args.store):
        raise ValueError(f"--mix must have one weight for every token store; got {len(args.mix)} for {len(args.store)}.")


def add_document_per_file(parser, where=""):
    """Declare --document-per-file; `where` is the beginning of the help."""
    parser.add_argument(
        "--document-per-file", action="store_true", help=f"{where}every file is one document; blank lines do not separate documents"
    )


def add_processes(parser, where=""):
    """Declare --processes; `where` is the beginning of the help."""
    parser.add_argument(
        "--processes", type=positive, metavar="N", help=f"{where}processes that tokenise (default: one per processor core)"
    )


def add_format(parser, formats, file):
    """Declare --format and --output, where one of the formats is that of a file."""
    parser.add_argument("--format", choices=formats, help=f"how to show it (default: text, or {file} with --output)")
    parser.add_argument("--output", type=Path, metavar="FILE", help=f".{file} file to write (default: print)")


def check_format(args, file):
    """Complete --format, of which one is that of a file.

    Raises:
        ValueError: it needs an output and there is none, or the output is a file of another format.
    """
    if args.format is None:
        args.format = "text" if args.output is None else file
    if args.format == file and args.output is None:
        raise ValueError(f"--format {file} needs a file to write: add --output FILE.{file}.")
    if args.format != file and args.output is not None:
        raise ValueError(f"--output is only for --format {file}; the format {args.format} is printed.")


def add_embedding_options(parser, otherwise, where=""):
    """Declare --pooling, --prompt and --normalize.

    Args:
        parser: where.
        otherwise: what happens without a pooling.
        where: the beginning of the help.
    """
    parser.add_argument(
        "--pooling",
        metavar="POOLING,...",
        help=f"{where}cls, max, mean, mean_sqrt_len, weightedmean, lasttoken, or several separated by commas (default: "
        f"{otherwise})",
    )
    parser.add_argument(
        "--prompt",
        metavar="NAME|TEXT",
        help="prompt in front of every text: the name of one of the model's prompts, such as query, or a text (default: "
        "the model's)",
    )
    add_flag(parser, "normalize", "scale vectors to length 1 (default: as the model does)")


def add_max_seq_length(parser):
    """Declare --max-seq-length, of texts that are read."""
    parser.add_argument(
        "--max-seq-length",
        type=positive,
        metavar="N",
        help="maximum sequence length in tokens; longer texts are truncated (default: the model's maximum, at most 512)",
    )


def add_batch_size(parser):
    """Declare --batch-size, of a computation without training."""
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="sequences per batch (default: 32)")


def add_batch_tokens(parser):
    """Declare --batch-tokens."""
    parser.add_argument(
        "--batch-tokens",
        type=positive,
        metavar="N",
        help="tokens per batch, including padding (default: 2048; 16384 on an accelerator)",
    )


def add_top_k(parser, default, what):
    """Declare --top-k."""
    parser.add_argument("--top-k", type=positive, default=default, metavar="N", help=f"{what} (default: {default})")


def vocabulary_file(path):
    """The file of a vocabulary: that of a folder, or the path itself."""
    return path / "vocab.txt" if path.is_dir() and (path / "vocab.txt").is_file() else path


class Columns(argparse.Action):
    """PART=NAME, or PART=NAME,NAME for parts of several columns, as a dictionary."""

    def __call__(self, parser, namespace, values, option=None):
        found = parts(parser, option, values)
        setattr(namespace, self.dest, {part: name.split(",") if "," in name else name for part, name in found.items()})


def parts(parser, option, values):
    """A dictionary from words of the form NAME=VALUE."""
    wrong = next((value for value in values if not value.partition("=")[0] or not value.partition("=")[2]), None)
    if wrong is not None:
        parser.error(f"argument {option}: expected NAME=VALUE; got {wrong!r}")
    return {name: value for name, _, value in (text.rpartition("=") for text in values)}
