"""Fixtures of the benchmark cases."""

from __future__ import annotations

import pytest

from bench.harness import is_quick


@pytest.fixture(scope="session")
def quick() -> bool:
    """Whether to keep sizes and rounds small."""
    return is_quick()
