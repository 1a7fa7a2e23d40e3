"""Completion of commands and options in bash and zsh, written from the parser."""

from __future__ import annotations

import argparse

from dpfast.cli.parser import make_parser

SCRIPT = """_dpfast() {{
  local words="{commands}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _dpfast dpfast
"""


def completion(shell: str) -> str:
    """A script for ``eval "$(dpfast completion bash)"``; zsh reads the same one."""
    commands = _commands(make_parser())
    cases = [
        f'      {name}) words="{" ".join(_words(parser))}" ;;' for name, parser in commands.items()
    ]
    script = SCRIPT.format(commands=" ".join(commands), cases="\n".join(cases))
    return ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + script


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Actions and long options of a command, those of its actions included."""
    words = [word for action in parser._actions for word in action.option_strings]
    for name, below in _commands(parser).items():
        words += [name, *_words(below)]
    return sorted({word for word in words if not word.startswith("-") or word.startswith("--")})
