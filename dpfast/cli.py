"""The ``dpfast`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO


class ProgressBar:
    """A bar on standard error, drawn only where a person can see it.

    Call it with ``(done, total)``; it is what ``fit(progress=...)`` takes.
    """

    def __init__(self, label: str, stream: TextIO | None = None, width: int = 30) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.width = width
        self.visible = self.stream.isatty()
        self._filled = -1

    def __call__(self, done: int, total: int) -> None:
        if not self.visible:
            return
        filled = self.width * done // max(total, 1)
        if filled != self._filled:
            self._filled = filled
            bar = "#" * filled + "." * (self.width - filled)
            self.stream.write(f"\r{self.label} [{bar}] {done}/{total}")
        if done >= total:
            self.stream.write("\r\033[K")  # leave no trace in the output
        self.stream.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.command is None:
        _parser().print_help()
        return 2
    from dpfast.demo import run  # NumPy is loaded only once there is work to do
    from dpfast.errors import DpfastError

    try:
        run(
            arguments.mu,
            seed=arguments.seed,
            plot=not arguments.no_plot,
            progress=ProgressBar("private fit"),
        )
    except DpfastError as error:
        print(f"dpfast: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    import dpfast

    parser = argparse.ArgumentParser(
        prog="dpfast", description="Differentially private regression with honest intervals."
    )
    parser.add_argument("--version", action="version", version=f"dpfast {dpfast.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="private wage regression on embedded census microdata",
        description="Fit the Mincer wage equation to 29,501 persons of the 2000 US Census, "
        "privately, and print it beside the non-private fit.",
    )
    demo.add_argument(
        "--mu",
        type=float,
        default=1.0,
        help="total privacy budget, mu of Gaussian differential privacy (default: 1)",
    )
    demo.add_argument(
        "--seed",
        type=int,
        help="simulate with this seed instead of operating-system entropy: reproducible, and "
        "without any privacy guarantee",
    )
    demo.add_argument("--no-plot", action="store_true", help="do not write demo-census2000.png")
    return parser
