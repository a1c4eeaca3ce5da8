"""Options of the verbs that read the vectors of every block of a model and print a table or draw it."""

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive, whole
from keras_bert_rebuild.cli.shared_options import add_batch_size, add_format, add_max_seq_length, add_tokenizer

FORMATS = ("text", "json", "svg")


def add_block_options(parser, limit, texts, seed):
    """Declare the sample of the texts, their vectors, and what is done with the result.

    Args:
        parser: of the verb.
        limit: the default number of texts of the sample.
        texts: what the texts are, such as "texts to use".
        seed: what the seed decides.
    """
    parser.add_argument("--limit", type=positive, default=limit, metavar="N", help=f"{texts}, a random sample (default: {limit})")
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean", help="vector of a text (default: mean)")
    add_max_seq_length(parser)
    add_batch_size(parser)
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help=f"random seed of {seed} (default: 0)")
    add_format(parser, FORMATS, "svg")
    add_tokenizer(parser)
    add_overwrite(parser, "the picture")
    add_device_options(parser)
