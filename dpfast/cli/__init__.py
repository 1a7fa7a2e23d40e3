"""The ``dpfast`` command.

Exit codes: 0 done; 1 refused; 2 wrong usage; 3 the ledger has too little budget; 4 budget spent,
output not written as requested (a message names the file with the result); 5 budget spent, no
usable record; 128 plus the number of the signal that ended the command, such as 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections.abc import Sequence

from dpfast.cli.interrupts import INTERRUPTS
from dpfast.cli.output import silence, tell
from dpfast.cli.parser import in_shell_words, make_parser, option_for
from dpfast.fit_requests.progress import ProgressBar

__all__ = ["ProgressBar", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        option = option_for([*unknown, str(getattr(arguments, "data", ""))])
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{option}")
    if any("\0" in value for value in vars(arguments).values() if isinstance(value, str)):
        parser.error("no argument can hold the character NUL")
    if arguments.command is None:
        parser.print_help()
        return 2
    try:
        with INTERRUPTS.raised():
            code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt as stopped:
        tell("interrupted. The budget charged so far stays spent.")
        return 128 + int(getattr(stopped, "number", signal.SIGINT))
    except BrokenPipeError:
        silence()
        return 1
    except OSError as error:
        tell(str(error))
        return 1
    except Exception as error:  # a defect, whose message may quote a cell: only its type is shown
        tell(
            f"an unexpected error: {type(error).__name__}. The budget charged so far stays spent. "
            "Please report the command and this line."
        )
        return 1


def _run(arguments: argparse.Namespace) -> int:
    from dpfast.errors import BudgetExceeded, DpfastError

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: tell(str(message))
        try:
            from dpfast.cli import commands  # loads NumPy, so after the arguments are checked
            from dpfast.fit_requests.planned_run import quietly

            with quietly():  # tables have the warnings
                return commands.COMMANDS[arguments.command](arguments)
        except BudgetExceeded as error:
            tell(str(error))
            return 3
        except (DpfastError, ImportError) as error:
            tell(in_shell_words(str(error)))
            return 1
