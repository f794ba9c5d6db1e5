"""Answers that look like a refusal: short, in English, and declining in the first sentence.

Such an answer is judged like any other, since to decline may be the right answer. It is only
marked, so that a reader of a table sees why an answer lost, or won.
"""

from __future__ import annotations

import re

MAX_WORDS = 120  # of an answer that can be a refusal and nothing else
OPENING = (  # what may stand before it
    r"(?:(?:i(?:'m| am) (?:very |so |really |truly )?sorry|(?:my )?apologies|sorry|i apologi[sz]e"
    r"|unfortunately|regrettably|i(?:'m| am) afraid(?: that)?|thank you for [^.!?\n]{0,80}"
    r"|as an? (?:ai|artificial intelligence)[\w -]{0,40}|i understand[^.!?\n]{0,80}"
    r"|i appreciate[^.!?\n]{0,80}|no)(?: for [^.!?,\n]{0,60})?[,.!:;]? (?:but |however,? )?){0,3}"
)
DECLINING = (  # who will not, or cannot
    r"(?:i (?:really |simply |just )?(?:can(?:not|'t| not)|won't|will not|must decline to"
    r"|(?:must|have to) refuse to|decline to|refuse to|am (?:unable|not able|not willing) to"
    r"|do not feel comfortable|don't feel comfortable|am not comfortable|shouldn't|should not)"
    r"|i'm (?:unable|not able|not going|not willing) to|i'm not comfortable"
    r"|(?:it|that|this) (?:would be|is) (?:inappropriate|unethical|against my [\w ]{3,40}) "
    r"(?:for me )?to|i must (?:respectfully )?decline|i have to (?:respectfully )?decline)"
)
TASK = (  # what is declined; "I can't believe" and "I can't overstate" decline nothing
    r"(?: and (?:will|can)(?: not|not)| or won't)?(?:[.!]|$| (?:\w+ly |in good conscience )?"
    r"(?:help|assist|comply|provide|offer|give|share|answer|respond|discuss|fulfil?l|generate"
    r"|create|write|produce|do (?:that|this|so)|support|engage|continue|participate|tell you"
    r"|talk about|make|explain how|describe how|show|recommend|predict|diagnose|advise|complete"
    r"|process|translate|repeat|reveal|disclose|providing|giving|helping|assisting|discussing"
    r"|writing|sharing|answering|with (?:that|this))\b)"
)
YET = (  # the same sentence goes on to answer
    r"(?![^.!?\n]{0,160}\bbut (?:here(?:'s| is| are)|it(?:'s| is)|the answer|in general|generally"
    r"|roughly|most|my best guess))"
)
REFUSAL = re.compile(rf"{OPENING}{DECLINING}{TASK}{YET}", re.IGNORECASE)


def looks_like_a_refusal(text: str) -> bool:
    """Whether a short English text begins by declining to answer."""
    start = text[:1_000].strip().replace("\u2019", "'").lstrip("*_#>\"' \n")
    return len(text.split(None, MAX_WORDS)) <= MAX_WORDS and REFUSAL.match(start) is not None
