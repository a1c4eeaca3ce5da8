"""The corpus of short runs."""

import pytest
from helpers.small_corpus import small_corpus


@pytest.fixture(scope="module")
def corpus():
    return small_corpus(documents=16, passages=4, longest=10)
