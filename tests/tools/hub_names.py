"""Models of the table by their names on the real hub, for whoever has a network: the suite has one on the loopback interface.

    KERAS_BACKEND=torch python tests/tools/hub_names.py [NAME ...] [--count 20]

Without names, the smallest of the table. Each is downloaded, unless it is in the cache, and a line says its name, family, commit,
megabytes, parameters in millions, the shape of the vector of a text, and what is wrong: another family or number of parameters
than in the table, or a vector that is not finite or all zeros. The exit code is 1 if one fails.
"""

import argparse
import sys

import numpy as np

from keras_bert_rebuild import SentenceEmbedder, from_pretrained, load_tokenizer
from keras_bert_rebuild.files.hub import MODELS, SHORT_NAMES, origin_of
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint, located_model
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder


def tried(name):
    """What is wrong with a model, a list, and the line about it.

    Args:
        name: a name of the table, or any other on the hub.
    """
    try:
        folder = located_model(name)
        retriever = read_retriever_folder(folder)
        weights = folder if retriever is None else retriever.folder
        model = from_pretrained(weights, heads=None if find_checkpoint(weights).config is None else ())
        vectors = SentenceEmbedder(model, load_tokenizer(weights), normalize=False)(["The cat sat on the mat."])
    except (ValueError, OSError, ImportError) as error:
        return [" ".join(str(error).split())], name
    config, params = model.config, model.count_params() / 1e6
    megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    known = MODELS.get(SHORT_NAMES.get(name, name))
    wrong = []
    if vectors.shape != (1, config.hidden_size) or not np.isfinite(vectors).all() or not vectors.any():
        wrong.append(f"expected a finite vector of {config.hidden_size} numbers; got {vectors!r:.80}")
    if known is not None and config.family != known["family"]:
        wrong.append(f"the table has the family {known['family']}")
    if known is not None and not 0.75 < params / known["parameters"] < 1.1:  # a table without the head of masked words
        wrong.append(f"the table has {known['parameters']} million parameters")
    commit = str(origin_of(folder)).rpartition("@")[2]
    return wrong, f"{name:<45} {config.family:<12} {commit} {megabytes:>8,.0f} MB {params:>6.1f} M  {vectors.shape}"


def main(arguments=None):
    """Try them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names on the hub (default: the smallest of the table)")
    parser.add_argument("--count", type=int, default=20, help="how many of the table (default: 20)")
    given = parser.parse_args(arguments)
    names = given.names or sorted(MODELS, key=lambda name: MODELS[name]["megabytes"])[: given.count]
    failed = 0
    for name in names:
        wrong, line = tried(name)
        failed += bool(wrong)
        print(f"{line}  {'; '.join(wrong) or 'ok'}", flush=True)
    print(f"{len(names) - failed} of {len(names)} as expected")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
