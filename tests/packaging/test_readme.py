"""The code in README runs as printed."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.usefixtures("repeated")
def test_every_python_block_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    result = names["result"]
    assert np.isfinite(result.params).all()
    assert "-GDP), one record replaced" in capsys.readouterr().out


def test_what_readme_shows_is_what_the_seeded_fit_and_the_stored_results_say():
    """``python docs/readme.py`` writes these parts."""
    pytest.importorskip("formulaic")
    path = README.parent / "docs/readme.py"
    spec = importlib.util.spec_from_file_location("readme", path)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    text = README.read_text(encoding="utf-8")
    assert page.written(text, page.parts()) == text
    assert page.PICTURE.read_text(encoding="utf-8") == page.picture(*page.fits())
