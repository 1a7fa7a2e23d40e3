"""The scripts in `examples` run as they stand, and print what they are about."""

from __future__ import annotations

import json
import re
import runpy
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection
from threading import Thread

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))

#: Of each script, what it has to print, and the files it has to leave.
PRINTS = {
    "csv_to_table.py": (["Together: 0.848528-GDP", "left for later: GDP(mu=0.43"],
                        ["table.md", "table.tex", "wages.csv", "wages.ledger"]),
    "first_regression.py": (["effect of the dose: between 0.", "yes  the charges add up"],
                            ["fit.html"]),
    "inside_a_package.py": (["the package keeps its promises"], []),
    "logistic_regression.py": (["odds ratio of the treatment: ", "refused: resid has a value"],
                               []),
    "study_server.py": (["would cost {'type': 'GDP', 'mu': 0.5}", "north", "yes  the ledger's"],
                        ["study.html", "study.ledger"]),
    "tune_boosting.py": (["half of the wages are predicted to a factor of 1.", "GDP(mu=0.44721"],
                         []),
}  # fmt: skip


def test_every_script_is_swept_and_listed():
    assert sorted(PRINTS) == SCRIPTS
    listed = re.findall(r"`(\w+\.py)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == SCRIPTS


@pytest.mark.usefixtures("repeated")
@pytest.mark.filterwarnings("ignore::dpfast.errors.SimulationWarning")
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name == "tune_boosting.py" else [])
    for name in SCRIPTS
])  # fmt: skip
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    """Noise is drawn as from entropy, and what is looked for hardly depends on it."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    said = capsys.readouterr().out
    words, files = PRINTS[name]
    for word in words:
        assert word in said, said
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_the_server_refuses_what_a_study_refuses(tmp_path, monkeypatch):
    """Odd paths and bodies, requests that are none, and one that was paid for by somebody else."""
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(FOLDER / "study_server.py"))
    study = example["example_study"]()
    request = {"analysis": "counts", "by": "region", "share": 0.25}
    with example["server_of"](study) as server:
        Thread(target=server.serve_forever, daemon=True).start()

        def post(path, body):
            client = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
            client.request("POST", path, body)
            reply = client.getresponse()
            return reply.status, json.loads(reply.read())

        assert post("/quote", json.dumps(request))[1]["spend"] == {"type": "GDP", "mu": 0.5}
        for path, body in (("/", "{}"), ("/run", "{"), ("/run", "x" * (1 << 17)), ("/run", ""),
                           ("/run", '{"analysis": "counts", "by": "/etc/passwd", "share": 1}'),
                           ("/study.ledger", "{}")):  # fmt: skip
            code, told = post(path, body)
            assert code == 400 and set(told) == {"refused"}, (path, told)
        assert study.ledger.entries == ()
        code, told = post("/run", json.dumps(request))
        assert code == 200 and told["answer"]["n_records"] == 20_000
        assert post("/run", json.dumps(request)) == (code, told)  # from the log
        assert post("/run", json.dumps(request | {"share": 0.9}))[0] == 402
        assert len(study.ledger.entries) == 1
        server.shutdown()


def test_a_slow_client_holds_up_nobody(tmp_path, monkeypatch):
    """One that sent half of its request, and one that sent nothing at all."""
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(FOLDER / "study_server.py"))
    study = example["example_study"]()
    with example["server_of"](study) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = "127.0.0.1", server.server_port
        with create_connection(address) as slow, create_connection(address):
            slow.sendall(b"POST /quote HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
            client = HTTPConnection(*address, timeout=30)
            client.request("POST", "/quote", '{"analysis": "counts", "by": "region", "share": 1}')
            assert client.getresponse().status == 200
        server.shutdown()
    handler = example["handler_of"](study)
    assert 0.0 < handler.timeout < 60.0  # and it is let go, with its thread
