"""The code in README runs as printed."""

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
