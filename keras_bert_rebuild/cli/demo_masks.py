"""The masks of the demo: sentences that training never had, with what the model says, what is true, and how many are right."""

import hashlib

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
    found = []
    for document in documents:
        for passage in document:
            words = passage.split()
            places = [i for i, word in enumerate(words) if word.isascii() and word.isalpha() and len(word) >= LETTERS]
            if WORDS[0] <= len(words) <= WORDS[1] and places:
                number = int.from_bytes(hashlib.sha256(passage.encode()).digest()[:8], "big")
                place = places[number % len(places)]
                asked = " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
                found.append((number, asked, words[place].lower()))
                break
    return [(text, word) for _, text, word in sorted(found)[:count]]


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
