"""Files of these tests need not survive a power cut: syncing them takes most of the time."""

import os

import pytest


@pytest.fixture(autouse=True, scope="package")
def no_sync():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
