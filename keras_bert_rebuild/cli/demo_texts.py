"""What the demo reads and asks: a small world, real English, sentences with masks, and what the model says of them.

The small world has households with animals, in sentences whose every masked word follows from the others. The English is the
documentation in the source of the libraries that are installed, with a vocabulary of it.
"""

import hashlib
import random
import re
from itertools import chain

from keras_bert_rebuild.cli.progress import track

# An animal: what it eats, where it lives, what it does.
ANIMALS = {
    "cow": ("grass", "meadow", "moos"),
    "cat": ("fish", "kitchen", "purrs"),
    "dog": ("meat", "yard", "barks"),
    "hen": ("corn", "coop", "clucks"),
    "mouse": ("cheese", "cellar", "squeaks"),
    "horse": ("hay", "stable", "neighs"),
    "sheep": ("clover", "hill", "bleats"),
    "pig": ("acorns", "sty", "grunts"),
    "frog": ("flies", "pond", "croaks"),
    "owl": ("beetles", "barn", "hoots"),
}
OWNERS = ("anna", "ben", "clara", "david", "emma", "felix", "greta", "hugo")
LOOKS = ("brown", "white", "black", "small", "large", "young", "tired", "happy")

# A document has four of these, in any order.
LENGTH = 4
WORLD_SENTENCES = (
    "{owner} has a {look} {animal} .",
    "the {look} {animal} of {owner} eats {food} .",
    "{owner} brings the {look} {animal} {food} .",
    "the {look} {animal} of {owner} lives in the {home} .",
    "{owner} finds the {look} {animal} in the {home} .",
    "the {look} {animal} {noise} when {owner} comes .",
)

# One in ten of the households: none of their sentences is in training.
HELD_OUT = 64

# What is masked in the second of two sentences, by their numbers.
_ASKED = (("food", 0, 1), ("noise", 3, 5), ("look", 0, 2), ("owner", 0, 3), ("animal", 4, 5))


def households(seed=0):
    """Every animal of every owner and look, shuffled: `(those to train on, those held out)`, triples `(owner, look, animal)`."""
    all_of_them = [(owner, look, animal) for owner in OWNERS for look in LOOKS for animal in ANIMALS]
    random.Random(seed).shuffle(all_of_them)
    return all_of_them[HELD_OUT:], all_of_them[:HELD_OUT]


def sentences(household):
    """The sentences about a household. Each names its owner, look and animal, so that no two households share one."""
    return [sentence.format(**_words(household)) for sentence in WORLD_SENTENCES]


def world_documents(seed=0):
    """Two documents for every household, each of some of its sentences: `(training documents, held-out documents)`."""
    draw = random.Random(seed)
    return tuple([draw.sample(sentences(one), LENGTH) for one in part for _ in range(2)] for part in households(seed))


def world_masks(seed=0):
    """Texts of held-out households with one word masked, each of another kind: `(text, word)`."""
    masks = []
    for household, (kind, first, second) in zip(households(seed)[1], _ASKED, strict=False):
        said = sentences(household)
        word = _words(household)[kind]
        asked = " ".join("[MASK]" if token == word else token for token in said[second].split())
        masks.append((f"{said[first]} {asked}", word))
    return masks


def _words(household):
    owner, look, animal = household
    food, home, noise = ANIMALS[animal]
    return {"owner": owner, "look": look, "animal": animal, "food": food, "home": home, "noise": noise}


PACKAGES = ("numpy", "keras")
VOCAB_SIZE = 8000

# A string in triple quotes; the first group matches where nothing is before it on its line, as before documentation.
_STRING = re.compile(r"(^[ \t]*)?[rRuUbBfF]{0,2}(\"\"\"|''')(.*?)(?<!\\)\2", re.MULTILINE | re.DOTALL)


def documented(source):
    """The prose of the strings in triple quotes that begin a line of Python source: a list of passages.

    Seven times as fast as parsing, by `docstring_document`, which would take a fifth of the demo. In the standard library,
    NumPy and Keras it finds 97 % of the same passages, and a sixth more in documentation that is not a docstring.
    """
    from keras_bert_rebuild.data.corpora.documents import prose

    texts = (match[3] for match in _STRING.finditer(source) if match[1] is not None)
    passages = chain.from_iterable(map(prose, texts))
    return list(dict.fromkeys(passage for passage in passages if "--" not in passage))  # no titles of sections


def read_documentation(console):
    """A document for every file of the installed libraries that has documentation in prose."""
    import keras

    from keras_bert_rebuild.data.corpora.documents import docstring_files

    packages = (*PACKAGES, keras.backend.backend())
    console.print(f"The documentation in the source of the standard library, {', '.join(packages)}:")
    files = docstring_files(packages)
    documents = [
        documented(file.read_text(encoding="utf-8", errors="ignore")) for file in track(console, files, "reading", "files")
    ]
    return [document for document in documents if document]


def learn_vocabulary(console, documents):
    """The word pieces of documents: token to id."""
    from keras_bert_rebuild.text.normalization import split_words
    from keras_bert_rebuild.text.vocabulary import train_vocabulary

    documents = track(console, documents, "counting words", "docs")
    words = (word for document in documents for passage in document for word in split_words(passage))
    tokens = train_vocabulary(words, VOCAB_SIZE)
    console.print(f"Learnt {len(tokens):,} word pieces.")
    return {token: i for i, token in enumerate(tokens)}


# A sentence, the word that is masked: turns of phrase of documentation first, then words that need more training than a demo has.
# They say nothing about the average; the figures on held-out documents do.
SENTENCES = (
    ("the number [MASK] elements in the list .", "of"),
    ("this method should [MASK] called only once .", "be"),
    ("returns a tensor of the same shape [MASK] the input .", "as"),
    ("the file does [MASK] exist in this folder .", "not"),
    ("if the file does not exist , an exception is [MASK] .", "raised"),
    ("the default [MASK] is none .", "value"),
)

# Numbers of words of the held-out passages that are shown, and the fewest letters of a word that is masked.
WORDS, LETTERS = (8, 16), 4


def without(documents, sentences=SENTENCES):
    """The documents without the passages that contain one of the sentences, the masked word filled in."""
    asked = [_plain(text.replace("[MASK]", word)) for text, word in sentences]
    kept = [[passage for passage in document if not any(one in _plain(passage) for one in asked)] for document in documents]
    return [document for document in kept if document]


def _plain(text):
    """The letters of a text, in lower case: spaces and full stops differ between a docstring and a question."""
    return "".join(char for char in text.lower() if char.isalnum())


def unchosen(documents, count):
    """Passages of documents with a word masked; a hash of the passage chooses both, and nobody else.

    Args:
        documents: those held out.
        count: how many, each of another document.

    Returns:
        A list of `(text, word)`.
    """
    masked = []
    for document in documents:
        for passage in document:
            words = passage.split()
            positions = [i for i, word in enumerate(words) if word.isascii() and word.isalpha() and len(word) >= LETTERS]
            if WORDS[0] <= len(words) <= WORDS[1] and positions:
                number = int.from_bytes(hashlib.sha256(passage.encode()).digest()[:8], "big")
                position = positions[number % len(positions)]
                asked = " ".join([*words[:position], "[MASK]", *words[position + 1 :]])
                masked.append((number, asked, words[position].lower()))
                break
    return [(text, word) for _, text, word in sorted(masked)[:count]]


def show_masks(console, training, masks, title):
    """Fill the masks, print what the model says and what is true, and return how many are right.

    Args:
        console: where to print.
        training: a `Training`.
        masks: pairs of a text with one `[MASK]` and the word that was there.
        title: a line above them.
    """
    from keras_bert_rebuild.tasks.pretraining_heads import fill_mask

    console.print(f"\n{title}")
    right = 0
    answers = fill_mask(training.model, training.vocabulary, [text for text, _ in masks], top_k=3)
    for (text, word), (answer,) in zip(masks, answers, strict=True):
        hit = answer[0][0] == word
        right += hit
        shown = ", ".join(f"{token} {probability:.2f}" for token, probability in answer)
        console.print(f"  {text.replace('[MASK]', '____')}", markup=False, highlight=False)
        verdict = "right" if hit else f"wrong: {word}"
        console.print(f"      {shown}   [{'green' if hit else 'red'}]{verdict}[/]", highlight=False)
    console.print(f"  {right} of {len(masks)} right.", highlight=False)
    return right
