"""The small world of the demo: households with animals, in sentences whose every masked word follows from the others."""

import random

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
SENTENCES = (
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
    return [sentence.format(**_words(household)) for sentence in SENTENCES]


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
