"""Does an encoder of `race.py` read its context, and does transformers' own code give it the same loss?

Command: python benchmarks/race_probe.py MODEL --work RACE --ours PYTHON --peer PYTHON
Time: a minute
Needs: keras with a backend in the first environment; torch and transformers in the second

MODEL is a Hugging Face folder of the race, such as RACE/modern-seed-0/run/model. The masked tokens of the race's held-out text are
predicted by `AutoModelForMaskedLM` of transformers, from

    the text           as the race's evaluator gives it: the loss of our own code is printed beside it
    shuffled           the other tokens of each row in random order: what their order tells is lost
    another text       the other tokens of another row: context that misleads
    nothing            every other token masked: what positions tell

An encoder that saw the answers in any way would keep its loss without the text; one that reads it falls to the unigram's, or below.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

SEQ_LEN = 128


def batches(model, work, path):
    """Write the batches of `masked_score`, and return the losses of our code and of the unigram."""
    import numpy as np

    from keras_bert_rebuild.data.corpora.token_store import TokenStore
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.recipes.pretraining.masked_score import masked_score, score_batches

    held_out, train = (TokenStore(work / f"{name}-tokens") for name in ("held_out", "train"))
    encoder = from_pretrained(model, heads=("mlm",))
    found = score_batches(held_out, SEQ_LEN, segments=False)
    parts = [found.batch(0, index) for index in range(len(found))]
    ids, chosen = (np.concatenate([inputs[i] for inputs, _ in parts]) for i in (0, 1))
    labels = np.concatenate([labels[..., 0] for _, labels in parts])
    vocabulary = held_out.vocabulary
    special = {name: vocabulary.index(token) for name, token in (("pad", "[PAD]"), ("mask", "[MASK]"))}
    special["kept"] = [vocabulary.index(token) for token in ("[PAD]", "[CLS]", "[SEP]")]
    np.savez(path, ids=ids, chosen=chosen, labels=labels)
    score = masked_score(encoder, held_out, train, SEQ_LEN)
    return {"loss": score.loss, "unigram": score.unigram_loss, **special}


def losses(model, path, special):
    """The losses by transformers, by context."""
    import numpy as np
    import torch
    from transformers import AutoModelForMaskedLM

    encoder = AutoModelForMaskedLM.from_pretrained(model).eval()
    with np.load(path) as file:
        ids, labels, chosen = (torch.from_numpy(file[name]).long() for name in ("ids", "labels", "chosen"))
    # Tokens of the context: neither predicted nor special.
    context = (chosen == 0) & ~torch.isin(ids, torch.tensor(special["kept"]))
    generator = torch.Generator().manual_seed(0)
    shuffled = ids.clone()
    for row, at in zip(shuffled, context, strict=True):
        row[at] = row[at][torch.randperm(int(at.sum()), generator=generator)]
    contexts = {
        "the text": ids,
        "shuffled": shuffled,
        "another text": torch.where(context & context.roll(1, 0), ids.roll(1, 0), ids),
        "nothing": torch.where(context, special["mask"], ids),
    }
    found = {}
    for name, rows in contexts.items():
        total = 0.0
        for part in torch.arange(len(rows)).split(32):
            with torch.no_grad():
                logits = encoder(rows[part], attention_mask=(rows[part] != special["pad"]).long()).logits
            at = chosen[part] == 1
            total += float(torch.nn.functional.cross_entropy(logits[at], labels[part][at], reduction="sum"))
        found[name] = total / int(chosen.sum())
    return found


def main(args):
    """Run both parts, each in its environment, and print the losses."""
    path = args.work.resolve() / "probe.npz"

    def part(python, backend, *words):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "KERAS_BACKEND": backend, "HF_HUB_OFFLINE": "1"}
        command = [python, __file__, str(args.model.resolve()), "--work", str(args.work.resolve()), "--part", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{words[0]} ended with {done.returncode}: {done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    ours = part(args.ours, args.backend, "batches")
    theirs = part(args.peer, "torch", json.dumps(ours))
    path.unlink()
    print(f"our code, the text: {ours['loss']:.4f}; unigram: {ours['unigram']:.4f}")
    for name, loss in theirs.items():
        print(f"transformers, {name}: {loss:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--work", type=Path, default=Path("race"), help="the folder of the race")
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with the backend")
    parser.add_argument("--peer", default=sys.executable, help="the interpreter with transformers")
    parser.add_argument("--backend", default="tensorflow", help="of ours")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "batches":
        print(json.dumps(batches(given.model, given.work, given.work / "probe.npz")))
    elif given.part:
        print(json.dumps(losses(given.model, given.work / "probe.npz", json.loads(given.part))))
    else:
        main(given)
