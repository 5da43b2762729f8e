"""Text that somebody else wrote, made safe to show."""


def printable(text: str) -> str:
    """Return ``text`` with everything unprintable escaped: a file name must not drive the terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
