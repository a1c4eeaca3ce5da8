"""What masked words of the demo's small world are found without a network: by neighbours, by copying, by a bag of words.

Command: python benchmarks/world_probe.py
Time: a second
"""

import math
import random
from collections import Counter, defaultdict

from keras_bert_rebuild.cli.demo_texts import world_documents


def words_of(document):
    return ["<s>", *" ".join(document).split(), "</s>"]


def main():
    train, held_out = world_documents()
    between, after, together, counts = defaultdict(Counter), defaultdict(Counter), defaultdict(Counter), Counter()
    for document in train:
        words = words_of(document)
        for i in range(1, len(words) - 1):
            word = words[i]
            counts[word] += 1
            between[words[i - 1], words[i + 1]][word] += 1
            after[words[i - 1]][word] += 1
            for other in {*words[:i], *words[i + 1 :]}:
                together[other][word] += 1
    rng, right, total = random.Random(1), Counter(), 0
    for document in held_out * 4:
        words = words_of(document)
        masked = set(rng.sample(range(1, len(words) - 1), max(1, round(0.15 * (len(words) - 2)))))
        visible = [None if i in masked else word for i, word in enumerate(words)]
        seen = {word for word in visible if word}

        def score(word, known, seen=seen):
            found = sum(math.log((together[other][word] + 0.1) / (counts[word] + 5)) for other in seen)
            return found + math.log(counts[word]) + math.log(known[word] + 0.01)

        for i in masked:
            known = between.get((visible[i - 1], visible[i + 1])) or after.get(visible[i - 1]) or counts
            guesses = {
                "word before": max(after.get(visible[i - 1], counts).items(), key=lambda pair: pair[1])[0],
                "words on both sides": max(known, key=known.get),
                "the same, copied from the text if it can be": max(known, key=lambda word: (word in seen, known[word])),
                "bag of the text, and both sides": max(known, key=lambda word: score(word, known)),
            }
            total += 1
            right.update(name for name, guess in guesses.items() if guess == words[i])
    for name, number in right.items():
        print(f"{number / total:6.1%}  {name}")


if __name__ == "__main__":
    main()
