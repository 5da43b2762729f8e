"""TAB in real shells, in a folder with a hostile recipe: nothing of it is run, neither at TAB nor at Enter."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMANDS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
SOURCE = {
    "bash": 'eval "$(wheel-bakery completion bash)"',
    "zsh": 'autoload -Uz compinit; compinit -D -u; eval "$(wheel-bakery completion zsh)"',
    "fish": "wheel-bakery completion fish | source",
}
HOSTILE = {
    "AA": r"x\$(touch WITNESS)y",
    "BB": "x;touch$IFS'WITNESS'",
    "CC": "`touch WITNESS`",
    "DD": "'$(touch WITNESS)'\"$(touch WITNESS)\"",
    "EE": "(touch WITNESS)",
    "FF": "<(touch WITNESS)|touch WITNESS&",
    "GG": r"\";touch WITNESS;\"",
    "HH": "a'b)))' ; touch WITNESS; : '",
}
FILE = "x$(touch ran);`touch ran` y.whl"
WAIT_S = 120


class Terminal:
    """A shell in a pseudo-terminal."""

    def __init__(self, shell: str, folder: Path) -> None:
        self._result = folder / "result"
        program = Path(sys.executable).parent
        variables = {"PATH": f"{program}:{os.defpath}", "HOME": str(folder), "TERM": "vt100", "LANG": "C.UTF-8"}
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(COMMANDS[shell][0], COMMANDS[shell], variables)
        self._type(f"stty cols 200; {SOURCE[shell]}")

    def completed(self, line: str) -> str:
        """Press TAB after a line, then run the words that it has by then as arguments of ``echo``; return these."""
        self._result.unlink(missing_ok=True)
        self._type(f"{line}\t\x01echo \x05 >result")
        return self._result.read_text().strip()

    def _type(self, line: str) -> None:
        # The quotes tell what is typed from what is printed.
        os.write(self.terminal, f"{line}\recho E'N'D\r".encode())
        shown, end = b"", time.monotonic() + WAIT_S
        while b"END" not in shown:
            assert time.monotonic() < end, shown.decode(errors="replace")
            if select.select([self.terminal], [], [], 1)[0]:
                shown += os.read(self.terminal, 65536)

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("shell", COMMANDS)
def test_values_of_a_recipe_are_never_run(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}: apt-get install {shell}")
    witness = tmp_path / "ran"
    values = "".join(f"{name} = '''{value.replace('WITNESS', str(witness))}'''\n" for name, value in HOSTILE.items())
    (tmp_path / "bakery.toml").write_text(
        f'name = "demo"\n[variables]\n{values}SPEED = "fast"\n[matrix]\npython = ["3.11"]\n'
    )
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools==80.9.0"]\n')
    subprocess.run([sys.executable, "-m", "bakery", "check"], cwd=tmp_path, check=True)
    (tmp_path / FILE).touch()
    terminal = Terminal(shell, tmp_path)
    try:
        for name in HOSTILE:
            assert terminal.completed(f"wheel-bakery wheel --set {name}") == f"wheel-bakery wheel --set {name}="
            assert not witness.exists(), name
        assert terminal.completed("wheel-bakery wheel --set SPE") == "wheel-bakery wheel --set SPEED=fast"
        # All of them are listed.
        terminal.completed("wheel-bakery wheel --set \t")
        assert terminal.completed("wheel-bakery whe") == "wheel-bakery wheel"
        assert terminal.completed("wheel-bakery wheel --onl") == "wheel-bakery wheel --only"
        assert terminal.completed("wheel-bakery wheel --only c") == "wheel-bakery wheel --only cp311"
        # The shell completes files, and quotes them.
        assert terminal.completed("wheel-bakery audit x") == f"wheel-bakery audit {FILE}"
    finally:
        terminal.close()
    assert not witness.exists()
