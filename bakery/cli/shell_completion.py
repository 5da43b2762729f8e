"""The scripts with which shells ask for completions, and the answers.

What is offered may come from anybody's recipe, and lands in a command line. The scripts therefore evaluate nothing: they
read an answer line by line, and give each line to the shell as one word. Only words that no shell interprets are offered.
"""

from __future__ import annotations

import os
import re
from typing import Any

from typer._click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from bakery.cli.command_group import COMPLETE, PROGRAM
from wheel_audit.text import printable

HARMLESS = re.compile(r"[A-Za-z0-9._:/+,=-]*")
"""Words that bash, zsh and fish take as they are, with or without quotes."""

_BASH = """\
_wheel_bakery_completion() {
    local word
    COMPREPLY=()
    while IFS=$'\\t' read -r word _; do
        if [ -n "$word" ]; then
            printf -v word %q "$word"
            COMPREPLY+=("$word")
        fi
    done < <(IFS=$'\\n'; COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD VARIABLE=complete_bash \\
        command PROGRAM 2>/dev/null)
}

complete -o default -F _wheel_bakery_completion PROGRAM
"""

_ZSH = """\
#compdef PROGRAM

_wheel_bakery_completion() {
    local word text
    local -a found shown
    while IFS=$'\\t' read -r word text; do
        if [[ -n $word ]]; then
            found+=("$word")
            shown+=("$word${text:+  -- $text}")
        fi
    done < <(COMP_WORDS="${(F)words}" COMP_CWORD=$((CURRENT - 1)) VARIABLE=complete_zsh command PROGRAM 2>/dev/null)
    if (( $#found )); then
        compadd -l -d shown -a found
    else
        _files
    fi
}

compdef _wheel_bakery_completion PROGRAM
"""

_FISH = """\
function __wheel_bakery_completion
    set -lx COMP_WORDS (commandline -cp | string collect)
    set -lx COMP_CWORD (count (commandline -cpo))
    set -lx VARIABLE complete_fish
    set -l found (command PROGRAM 2>/dev/null | string match -v '')
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end

complete --command PROGRAM --no-files --arguments '(__wheel_bakery_completion)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def script(shell: str) -> str:
    """Return the script of a shell: ``bash``, ``zsh`` or ``fish``."""
    return _SCRIPTS[shell].replace("PROGRAM", PROGRAM).replace("VARIABLE", COMPLETE)


class _Answer(ShellComplete):
    """Prints a line for each word: the word, and for zsh and fish a tab and its meaning."""

    source_template = ""

    def source_vars(self) -> dict[str, Any]:
        return {}

    def get_completion_args(self) -> tuple[list[str], str]:
        words = split_arg_string(os.environ.get("COMP_WORDS", ""))
        position = os.environ.get("COMP_CWORD", "")
        at = int(position) if re.fullmatch(r"[0-9]{1,6}", position) else len(words)
        return words[1:at], words[at] if at < len(words) else ""

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.value}\t{printable(item.help)}" if item.help and self.name != "bash" else str(item.value)

    def complete(self) -> str:
        items = self.get_completions(*self.get_completion_args())
        return "\n".join(self.format_completion(item) for item in items if HARMLESS.fullmatch(str(item.value)))


def install() -> None:
    """Make typer answer the printed scripts in this way, and not in its own."""
    for shell in _SCRIPTS:
        add_completion_class(type(shell, (_Answer,), {"name": shell}), shell)
