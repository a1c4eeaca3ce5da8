"""Chromium, and a trained model for its pages."""

import os
from pathlib import Path

import pytest
from helpers.chromium import Browser, chromium


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(driver):
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return Browser(driver, Path(folder) if folder else None)


@pytest.fixture(scope="session")
def trained():
    from helpers import minilm

    from keras_bert_rebuild import WordPieceTokenizer, from_pretrained

    return from_pretrained(minilm.FOLDER), WordPieceTokenizer.from_pretrained(minilm.FOLDER)
