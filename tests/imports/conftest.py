"""A store in a folder of its own."""

import asyncio

import pytest

from peerage.stores import open_store


@pytest.fixture
def opened(tmp_path):
    """Opens stores by name, and closes them."""
    stores = []

    def open_(name="peerage"):
        stores.append(open_store(f"sqlite:///{tmp_path / name}.db"))
        return stores[-1]

    yield open_
    for store in stores:
        asyncio.run(store.close())


@pytest.fixture
def store(opened):
    return opened()
