"""`WordSplitter` against Google's algorithm, written plainly."""

import itertools
import unicodedata

import numpy as np
import pytest
from helpers import google_oracle
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.text.flat_tokens import WordSplitter
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceSettings

SPLITTERS = {
    settings: WordSplitter(settings)
    for settings in itertools.starmap(WordPieceSettings, itertools.product((True, False), (None, True, False), (True, False)))
}
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cn", "Cs"]) | st.sampled_from("aΣ\u0301\U0001d165中 .\t\0İ"), max_size=20),
    max_size=5,
)


@pytest.mark.parametrize("settings", SPLITTERS, ids=str)
@given(texts=TEXTS)
def test_words_are_googles_and_every_character_has_its_origin(settings, texts):
    flat = SPLITTERS[settings](texts, True)
    told = {"strip_accents": settings.strip_accents, "tokenize_chinese_chars": settings.tokenize_chinese_chars}
    expected = [google_oracle.words(text, not settings.do_lower_case, **told) for text in texts]
    assert flat.lengths.tolist() == [len(words) for words in expected]
    assert flat.strings(np.arange(len(flat.begins))) == [word for words in expected for word in words]
    owners = np.repeat(np.arange(len(texts)), flat.lengths)
    for begin, stop, owner in zip(flat.begins, flat.stops, owners, strict=True):
        for character, origin in zip(flat.characters[begin:stop], flat.origins[begin:stop] - flat.texts[owner], strict=True):
            source = texts[owner][origin]
            form = source.lower() if settings.do_lower_case else source
            form = unicodedata.normalize("NFD", form) if settings.strips else form
            assert chr(character) in form or (source, chr(character)) == ("Σ", "ς")


def test_without_offsets_none_are_returned():
    flat = WordSplitter(WordPieceSettings())(["a b"], False)
    assert flat.origins is None
    assert flat.texts is None


def test_no_texts_have_no_words():
    for texts in ([], ["", " \0"]):
        flat = WordSplitter(WordPieceSettings())(texts, True)
        assert flat.strings(np.arange(0)) == []
        assert flat.lengths.tolist() == [0] * len(texts)
