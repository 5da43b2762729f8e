"""Text that somebody else wrote, made safe to show or to write."""


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` with unprintable characters escaped, except those in ``keep``: it must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; text that was decoded from other bytes has surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def is_line(text: str) -> bool:
    """Whether a text is one line of Unicode text without control characters."""
    return is_unicode(text) and not any(ord(char) < 32 or ord(char) == 127 for char in text)
