"""The entry point of `keras-bert`."""

import argparse
import importlib
import os
import sys

from keras_bert_rebuild.files.printable import printable_lines

# Verb, module with `add_arguments` and `run`, one line of help.
VERBS = (
    ("demo", "keras_bert_rebuild.cli.demo", "see BERT's architecture, pretrain a small one on real text and fill its masks"),
    ("vocab", "keras_bert_rebuild.cli.vocab", "learn a vocabulary from a corpus"),
    ("prepare", "keras_bert_rebuild.cli.prepare", "tokenise a corpus into a folder that training reads from disk"),
    ("pretrain", "keras_bert_rebuild.cli.pretrain", "train a BERT on such a folder; a stopped run goes on where it was"),
    ("finetune", "keras_bert_rebuild.cli.finetune", "train a model for a task on files of examples, and measure it"),
    ("predict", "keras_bert_rebuild.cli.predict", "answer a file of examples with a fine-tuned model"),
    ("curves", "keras_bert_rebuild.cli.curves", "draw the curves of a training from its folder"),
    ("plan", "keras_bert_rebuild.cli.plan", "will a training fit, how fast is it, what does it take, before a machine is rented"),
    ("convert", "keras_bert_rebuild.cli.convert", "write a checkpoint of one format in another"),
    ("embed", "keras_bert_rebuild.cli.embed", "write a vector for every line of a file"),
    ("export", "keras_bert_rebuild.cli.export", "write a model for TensorFlow Serving, ONNX Runtime, OpenVINO or transformers"),
    ("inspect", "keras_bert_rebuild.cli.inspect", "show the format, the config and every name of a checkpoint"),
    ("explain", "keras_bert_rebuild.cli.explain", "show where the parameters and the work of a model are, step by step"),
    ("attention", "keras_bert_rebuild.cli.attention", "show who looks at whom in a text, as one HTML file"),
)


def main(argv=None):
    """Run a verb.

    Args:
        argv: the arguments, or None for those of the process.

    Returns:
        The exit code: 0, or 2 where the user can mend it, with one sentence on standard error.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's notes on the processor are not the user's concern
    parser = argparse.ArgumentParser(prog="keras-bert", description="BERT for Keras 3.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for verb, module, text in VERBS:
        sub = verbs.add_parser(verb, help=text, description=f"{text[0].upper()}{text[1:]}.")
        importlib.import_module(module).add_arguments(sub)
    args = parser.parse_args(argv)
    if args.version:
        from keras_bert_rebuild import __version__

        print(f"keras-bert {__version__}")
        return 0
    if args.verb is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return importlib.import_module(next(module for verb, module, _ in VERBS if verb == args.verb)).run(args)
    except (ValueError, OSError, MemoryError) as error:
        print(f"keras-bert {args.verb}: {printable_lines(_sentence(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"keras-bert {args.verb}: stopped", file=sys.stderr)
        return 130


def _sentence(error):
    """What an error says, without the number of the operating system."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__  # a MemoryError may say nothing
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


if __name__ == "__main__":
    sys.exit(main())
