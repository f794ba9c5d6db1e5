"""Text as it may be stored: valid Unicode."""

from __future__ import annotations


def is_unicode(text: str) -> bool:
    """Whether a text holds no half of a surrogate pair, which no file can store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def valid_text(text: str) -> str:
    """A text with a replacement mark for each half of a surrogate pair."""
    if is_unicode(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
