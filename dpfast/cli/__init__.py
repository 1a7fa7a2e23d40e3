"""The ``dpfast`` command.

Exit codes: 0 done; 1 refused, with a message that says what to do; 2 wrong usage; 3 the ledger
cannot pay; 4 paid for, but not delivered as asked: a message says where the result is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dpfast.cli.parser import make_parser
from dpfast.cli.progress import ProgressBar

__all__ = ["ProgressBar", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 2
    from dpfast.cli import commands  # NumPy is loaded only once there is work to do
    from dpfast.errors import BudgetExceeded, DpfastError

    try:
        return commands.COMMANDS[arguments.command](arguments)
    except BudgetExceeded as error:
        print(f"dpfast: {error}", file=sys.stderr)
        return 3
    except (DpfastError, ImportError, OSError) as error:
        print(f"dpfast: {error}", file=sys.stderr)
        return 1
