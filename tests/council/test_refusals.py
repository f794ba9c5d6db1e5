"""Which short answers look like a refusal, measured on a table of both kinds."""

import pytest

from peerage.council.safety import looks_like_a_refusal
from peerage.scoring import score

REFUSALS = [
    "I can't help with that.",
    "I can’t help with that.",
    "I cannot assist with this request.",
    "I'm sorry, but I can't assist with that.",
    "I'm sorry, but as an AI language model, I cannot provide medical advice.",
    "Sorry, I can't do that.",
    "I apologize, but I cannot fulfill this request.",
    "I won't write that for you.",
    "I will not provide instructions for making weapons.",
    "I'm unable to help with that request.",
    "I am not able to discuss this topic.",
    "Unfortunately, I can't share that information.",
    "As an AI, I cannot give legal advice. Please consult a lawyer.",
    "I must decline to answer.",
    "I must respectfully decline.",
    "I'm not comfortable writing that.",
    "I'm not going to help with that.",
    "I'm afraid I can't do that.",
    "No, I won't help you with this.",
    "I cannot and will not provide this content.",
    "I can't.",
    "**I can't help with that.**",
    "I understand your frustration, but I can't help you hurt someone.",
    "Thank you for asking, but I can't discuss other customers.",
    "I can't provide that, but I can suggest some safer alternatives.",
    "It would be inappropriate for me to share someone's address.",
]
ANSWERS = [
    "Yes.",
    "The sky is blue because air scatters short waves most.",
    "I can't overstate how important sleep is: adults need seven hours.",
    "I can't believe it is already 2026! The answer is 42.",
    "I cannot recall a better example than the Roman aqueducts.",
    "You can't help with that command; use `git rebase` instead.",
    "I can help with that. First, open the settings.",
    "I'm sorry for your loss. Grief takes time, and there is no right way to do it.",
    "Sorry, the earlier answer was wrong: it is 7.",
    "Unfortunately, the bridge closed in 1998.",
    "No, a tomato is a fruit.",
    "As an AI, I find this proof elegant. Let n be even; then n squared is even.",
    "I will not keep you in suspense: Paris.",
    "I won't lie, it is hard. Start with chords.",
    "The model should refuse to answer and say 'I can't help with that.'",
    "He said: I cannot provide the documents.",
    "I can't tell you the exact number, but it is roughly 300.",
    "I can't give an exact figure, but most estimates are near 8 billion.",
    "In the story, the robot says it won't do that.",
    "Rust's borrow checker won't allow two mutable references.",
    "You should not share your password with anyone.",
    "This is against the rules of chess: a king may not move into check.",
    "It depends on the jurisdiction; in most, yes.",
    "We cannot divide by zero, so the function has no value at 0.",
    "",
    "I can't help with that. " + "Here is why this matters in practice. " * 30,
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_short_answer_that_declines_looks_like_a_refusal(text):
    assert looks_like_a_refusal(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_does_not_look_like_a_refusal(text):
    assert not looks_like_a_refusal(text)


def test_a_refusal_in_words_is_judged_as_it_stands_and_flagged():
    """It may be the right answer, and here it wins."""
    ballots = {
        "responses": [
            {"model": "mule", "response": "I'm sorry, but I can't help with that."},
            {"model": "wren", "response": "Mix the two and heat them."},
        ],
        "rankings": [
            {"model": name, "parsed_ranking": {"ranking": ["Response A", "Response B"]}}
            for name in ("r", "s")
        ],
    }
    scored = score(ballots)
    assert [one.model for one in scored.scores] == ["mule", "wren"]
    assert scored.session.flags == ("looks_like_a_refusal:mule",)
