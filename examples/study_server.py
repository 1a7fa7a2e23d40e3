"""A study behind a web server: quotes for nobody's privacy, answers for a share of the total each.

The server is the standard library's; put what serves your house in its place.  Run as it stands it
asks itself two questions:

    python examples/study_server.py
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import Request, urlopen

import numpy as np

import dpfast
from dpfast.errors import BudgetExceeded, DpfastError

LONGEST = 1 << 16  # bytes of a request
PATIENCE = 10.0  # seconds that a client may send nothing


def handler_of(study):
    """What answers POST /quote and POST /run, each with a request as its body."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_POST(self):
            size = self.headers.get("Content-Length", "")
            ask = {"/quote": lambda body: study.quote(body).to_dict(), "/run": study.answer}
            if self.path not in ask or not size.isdecimal() or int(size) > LONGEST:
                return self.send(400, {"refused": f"POST at most {LONGEST} bytes: /quote or /run"})
            body = self.rfile.read(int(size))
            try:
                return self.send(200, ask[self.path](body))
            except DpfastError as error:  # says what to do, and nothing of any record
                code = 402 if isinstance(error, BudgetExceeded) else 400
                return self.send(code, {"refused": str(error)})
            except Exception:  # what Python says of odd input may quote a cell
                return self.send(500, {"refused": "an error; what was charged stays charged"})

        def send(self, code, told):
            body = json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told):
            """The ledger is the log."""

    return Handler


def server_of(study):
    """A thread for each client, so that a slow one holds up nobody; on a port that is free."""
    return ThreadingHTTPServer(("127.0.0.1", 0), handler_of(study))


def example_study():
    """Wages of 20,000 persons who do not exist."""
    rng = np.random.default_rng(0)
    table = {"region": rng.choice(["north", "south"], 20_000), "age": rng.uniform(20, 60, 20_000)}
    table["wage"] = 10 + 0.2 * table["age"] + rng.normal(0, 4, 20_000)
    schema = {"region": dpfast.Categorical(["north", "south"]), "age": dpfast.Numeric(18, 70)}
    schema = dpfast.Schema(schema | {"wage": dpfast.Numeric(0, 60)})
    return dpfast.Study(table, privacy=1.0, schema=schema, ledger="study.ledger")


def demonstrate(url, study):
    """Ask as a client would, and show what the page of the study is."""
    request = {"analysis": "means", "columns": "wage", "by": "region", "share": 0.25}
    for path in ("/quote", "/run"):
        with urlopen(Request(url + path, json.dumps(request).encode())) as reply:
            told = json.load(reply)
        print(told["summary"] if path == "/run" else f"would cost {told['spend']}")
    study.report("study.html")
    print(dpfast.inference.verify_report("study.html"))


if __name__ == "__main__":
    study = example_study()
    with server_of(study) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        demonstrate(f"http://127.0.0.1:{server.server_port}", study)
        server.shutdown()
