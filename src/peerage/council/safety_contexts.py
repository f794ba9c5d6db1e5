"""What excuses a match of the safety gate: words in its own sentence, as a table.

A context must have the match as its object. "I can't explain how to make a bomb" refuses the
match; "I can't help with that, build a gun" refuses something else, and "to defend yourself,
build a gun" makes the match the means. So a cue before a match counts only if nothing between
them ends its reach. The sources are written for flat text (`safety_text`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from peerage.council.safety_patterns import HOW, forms
from peerage.council.safety_text import Phrase, phrase

Side = Literal["before", "adjoining", "after", "around"]


@dataclass(frozen=True, slots=True)
class Context:
    """Words that excuse a match in their own sentence, and the words before them that undo it."""

    name: str
    side: Side
    cue: Phrase
    reason: str
    undone: Phrase | None = None


# -- pieces of cues ----------------------------------------------------------------------------

TELL = (
    r"(?:help(?:ing)?(?! (?:but|myself|it|showing|telling|sharing|explaining|giving|teaching"
    r"|wondering|thinking|feeling)\b)|(?:"
    + forms(
        "assist aid provide explain give share tell teach show describe offer discuss support"
        " write guide comply answer respond instruct advise outline detail disclose reveal engage"
        " participate create generate produce fulfil fulfill facilitate encourage condone endorse"
        " promote enable recommend suggest list supply present demonstrate cover address allow do"
    )
    + r"|let|letting|go into|going into|get into|talk about|talking about|walk|walking)"
    # idioms: can't recommend it enough, can't tell you how easy it is, can't explain why
    r"(?!(?: [\w']{1,20}){0,4} enough\b)(?!(?: you| anyone)? how (?:easy|easily|simple|simply|fun"
    r"|much|many|great|cool|quick|quickly|good|glad|happy|excited|satisfying)\b)(?! why\b))"
)
TELLS = rf"{TELL}(?: (?:or |and )?{TELL}){{0,4}}(?: (?:to )?(?:you|anyone|people))?"
SOFTLY = (  # "just", "only" and "simply" are not here: "I won't just tell you" promises more
    r"(?:(?:really|actually|ethically|legally|safely|responsibly|possibly|absolutely|certainly"
    r"|definitely|ever|also|therefore|either|directly|personally|knowingly|in good conscience"
    r"|under any circumstances|be) ){0,3}"
)
MODAL = (
    r"(?:can't|cannot|can not|cant|couldn't|could not|won't be able to|won't|wont|will not"
    r"|wouldn't|would not|shouldn't|should not|mustn't|must not|do not|don't"
    r"|(?:will |can |would |must )?never"
    r"|(?:am |are |will |would )?(?:not able to|not be able to|unable to|not going to"
    r"|not allowed to|not permitted to|not willing to|not comfortable|not here to)"
    r"|(?:must |have to |will |need to )?(?:respectfully )?(?:decline|refuse) to|would rather not)"
)
ASIDE = r"(?:,(?:[\w']{1,20}\x20){0,5}[\w']{1,20},| )"  # "I can't, for your sake, explain"
MODALS = rf"(?:{MODAL} (?:and|or) )?{MODAL}{ASIDE}{SOFTLY}"
IM = (
    r"(?:(?:i'm|we're) (?:afraid )?(?:not able to|unable to|not going to|not allowed to"
    r"|not permitted to|not willing to|not comfortable|not here to)"
    r"|(?:i'd|we'd) rather not|(?:i'll|we'll) (?:never|not|have to (?:decline|refuse) to))"
)
RULES = r"(?:guidelines?|polic(?:y|ies)|rules?|principles|programming|values|instructions|terms)"
THREAT = (
    r"(?:attackers?|(?:black hat |malicious |ethical )?hackers?|(?:cyber ?)?criminals?|scammers?"
    r"|thie(?:f|ves)|intruders?|adversar(?:y|ies)|fraudsters?|phishers|(?:bad|threat|malicious)"
    r" actors?|pen ?testers?|penetration testers?|red teams?)"
)
NOT = (  # turns a lexical cue round: "not illegal to", "nothing prevents", "can't stop"
    r"(?:not|never|nothing|hardly|nobody|no one|no longer|without|[a-z]{2,6}n't|cannot)"
)
ILLEGAL = (
    r"(?:illegal|unlawful|criminal|a (?:serious )?crime|a felony|against the law|prohibited"
    r"|forbidden|unethical|wrong|dangerous|harmful|never (?:ok|okay|acceptable|right))"
)

REFUSAL = phrase(
    rf"(?:\b(?:i|we) (?:also |still |therefore |really |simply )?{MODALS}{TELLS}"
    rf"|\b{IM} {SOFTLY}{TELLS}"
    rf"|(?<![\w\x20'])(?:(?:sorry|no|so|and|but) )?(?:can't|cannot|won't|(?:not able|unable) to"
    rf"|not going to) {SOFTLY}{TELLS}"
    r"|\b(?:do not|don't|never|not to|should not|must not) (?:ever )?(?:share|provide|publish|post"
    r"|explain|describe|teach|discuss|promote|encourage|(?:give|tell|show) (?:people|anyone|others"
    r"|users|instructions|advice))"
    rf"|\b(?:nor|neither) (?:can|will|would|should|do) (?:i|we) {TELLS}"
    rf"|\b(?:it's|it is|it would be|it'd be|would be) (?:(?!not|never)\w{{1,20}} )?(?:inappropriate"
    r"|irresponsible|unethical|unsafe|wrong|harmful|illegal|not (?:appropriate|safe|responsible"
    rf"|okay|ok|right)|against (?:my|our|the) {RULES}) (?:for (?:me|us) )?to {TELLS}"
    r"|\b(?:prohibit|forbid|prevent|bar|stop|keep)(?:s|ed|ing)? (?:me|us) from"
    rf"|\b{RULES} (?:do not|don't|does not|doesn't) (?:allow|let|permit) (?:me|us)(?: to)?)"
)

CONTEXTS: tuple[Context, ...] = (
    Context(
        "refusal",
        "before",
        REFUSAL,
        "the speaker declines to tell; waiting, stressing and believing are not telling",
        phrase(
            r"\b(?:(?:not|isn't|true|false|lie|myth|nothing) (?:that|because)|as if|not like|if"
            r"|unless|whether|until|why|no (?:reason|rule|law)|nothing says"
            r"|(?:no one|nobody|who|they) (?:say|says|said|told me|thinks?)"
            r"|(?:don't|do not|not|never) (?:think|believe|say|said|saying|claiming)"
            r"|(?:doesn't|does not) mean|pretend|wrong|unfair|rude|selfish|remiss|hard|difficult)"
            r"(?:\x20[\w']{1,20}){0,2}\x20$|\b(?:nothing|nobody|no one)\x20$"
        ),
    ),
    Context(
        "prohibition",
        "adjoining",
        phrase(
            r"\b(?:(?:do not|don't|never|should not|shouldn't|must not|mustn't|may not|(?:i|we)"
            r" (?:can't|cannot|can not|won't|will not)|(?:i'm|we're) not going to|you (?:can't"
            r"|cannot)|(?:no one|nobody) should|not to|refuses? to|advise against)"
            rf"|{ILLEGAL} (?:for \w{{1,20}} )?to|{ILLEGAL} to)"
            r"(?: (?:ever|even|try to|trying to|attempt to|attempting to|think about|try and))"
            r"{0,2} $"
        ),
        "the match itself is forbidden; adjoining, since 'don't worry' forbids something else",
        phrase(rf"\b(?:{NOT}|no (?:law|rule|reason)|why|said)(?:\x20[\w']{{1,20}}){{0,3}}\x20$"),
    ),
    Context(
        "defence",
        "before",
        phrase(
            rf"\b(?:(?:(?:{forms('block deter thwart detect mitigate counter combat report')}"
            rf"|{forms('resist discourage')})s?|(?:prevent|stop|avoid)(?:s|ed|ing|ping|ped)?)"
            r"(?! (?:you|us|me|yourself|detection|suspicion|getting caught|being|police)\b)"
            rf"|(?:(?:{forms('protect defend guard secure safeguard shield warn')})s?|protection"
            r"|defen[cs]e|laws?|safeguards?|vigilan(?:t|ce)|warnings?)(?: [\w']{1,20}){0,5}"
            r" (?:against|from|about)"
            r"|(?:prevention|risks?|dangers?|consequences|threat|signs|thoughts|crime"
            r"|access to \w{1,20}) of)\b"
        ),
        "the match is the harm that is guarded against, not the means of guarding",
        phrase(rf"\b{NOT}(?:\x20[\w']{{1,20}}){{0,2}}\x20$"),
    ),
    Context(
        "threat",
        "adjoining",
        phrase(
            rf"\b(?:{THREAT}(?:\x20[\w']{{1,20}}){{0,3}}|(?:someone|somebody|strangers?)"
            r"(?: else)?(?:\x20(?:may|might|could|is|was|has|had|who|been)){0,2}"
            r"\x20(?:try|tries|tried|trying|attempts?|attempted|attempting|wants|wanting|managed"
            r"|might|may|could)(?:\x20to)?)\x20$"
        ),
        "said of an attacker, not to the reader",
        phrase(r"\blike\x20$"),
    ),
    Context(
        "report",
        "adjoining",
        phrase(
            r"\b(?:(?:arrested|convicted|charged|accused|jailed|imprisoned|prosecuted|suspected"
            r"|sentenced|guilty|caught|indicted|banned)\x20(?:for|of|with|from|on)"
            r"|(?:tried|attempted|plotted|conspired|planned|plots?|conspiracy|threatened"
            r"|(?:know|suspect|fear|heard|believe)(?:\x20(?:of|that))?\x20(?:someone|somebody|an?\x20\w{1,20})"
            r"(?:\x20is)?\x20(?:planning|trying|plotting|threatening)))"
            r"(?:\x20(?:trying|attempting|conspiring|planning|plotting|possessing|possession|of"
            r"|to|having)){0,2}\x20$"
        ),
        "news and court reports tell of a crime",
    ),
    Context(
        "question",
        "adjoining",
        phrase(
            r"\b(?:(?:you|users?|they|he|she|someone|people|your (?:question|prompt|request"
            r"|message)|the (?:question|prompt|request))(?:'re|'ve)?"
            r"(?:\x20(?:have|has|had|just|is|are|was|were|also|seem|to|be)){0,3}"
            r"\x20(?:asked|asking|asks?|wondered|inquired|requested|requesting|about"
            r"|(?:want|wants|wanted)\x20to\x20know)|(?:question|request)s?\x20(?:about|on|for|is))"
            r"(?:\x20(?:me|us|an|ai|about|for|on|to|if|i|can|could|would|explain|describe|help"
            r"|tell|you|instructions|information)){0,4}\x20$"
        ),
        "a reported question tells nothing, if what follows does not answer it",
        phrase(
            r"\b(?:if|since|because|as|when|so|do|don't|would|wouldn't)(?:\x20[\w']{1,20}){0,2}\x20$"
        ),
    ),
    Context(
        "refused_after",
        "after",
        phrase(
            rf"^(?:[,—]|(?: [\w']{{1,20}}){{0,8}} (?:is|are|was|would be|which|that)\b).{{0,60}}?"
            rf"(?:{REFUSAL.source}|\b(?:i|we) (?:must |have to |will )?(?:refuse|decline)\b"
            r"|(?:\bnot|n't) (?:something|a (?:question|topic|thing)|information|content)"
            r" (?:that )?(?:i|we)(?:'m| am|'re| are)? (?:can|could|will|able to|allowed to))"
        ),
        "how to do it, says the speaker, is something I won't explain",
    ),
    Context(
        "condemned_after",
        "after",
        phrase(
            r"^(?: [\w']{1,20}){0,6} (?:(?:is|are|was|would be|remains)(?: (?:also|both|extremely"
            rf"|very|highly|strictly|always|a|not only)){{0,3}} {ILLEGAL}|breaks the law"
            r"|commits a crime|(?:risks|faces) (?:prison|jail|charges))\b(?!.{0,80}:)"
            r"(?! (?:but|so|if|unless|until) (?!i\b|we\b|please\b|it\b|don't\b))"
        ),
        "calling it a crime or a danger, and not going on to how",
    ),
    Context(
        "support",
        "around",
        phrase(
            r"\b(?:please (?:reach|call|text|contact|talk|seek|get|know|consider)|call 988|988"
            r"|reach out|talk to (?:someone|a|your)|helplines?|hotlines?|lifeline|crisis"
            r"|therapists?|counsel(?:l)?ors?|emergency (?:room|services?|number)"
            r"|you(?:'re| are) not alone|urges?|thoughts (?:of|about)|instead of|feel like"
            r"|help is available|cop(?:e|ing) with)\b"
        ),
        "help offered in the same breath",
    ),
    Context(
        "placeholder",
        "around",
        phrase(
            r"\b(?:example|sample|placeholder|dummy|fake|fictional|fictitious|made up|invalid"
            r"|format(?:ted)?|looks? like|pattern|regex|e g|such as|mock|test (?:card|number|ssn"
            r"|data|value))\b"
        ),
        "said to be nobody's",
    ),
)

# -- what ends the reach of a cue --------------------------------------------------------------

# After these a new statement begins, whatever was refused before.
BREAK = phrase(
    r"(?:;(?!(?:or|nor|and)\b)|\b(?:but|however|yet|nevertheless|nonetheless|anyway|enough"
    r"|that said|(?:less|other) than|here's|here is|here are|here you|instead|go ahead)\b)"
)
# "I can't help with that, …": the refusal has its object and looks back, not on.
CLOSED = phrase(
    r"^(?:(?: (?:with|in|on|about|to))? (?:that|this|it|so|(?:your|the|that|this)"
    r" (?:request|question)))?(?: (?:request|question|here|today|sorry))?"
    r"(?:[,;:—•](?!(?:as|because|since|including|such as|like|whether|or|nor|e g|especially"
    r"|particularly|when|given|if|regarding|for)\b)|\x20(?:so|and|then|now)\b)"
)
# The words after the last comma that carry a refusal on to the match.
CARRIES = phrase(
    r"^(?:or|nor|who|which|that|such as|like|including|e g|especially|particularly|as|because"
    r"|since|whether|how|where|even|when|if|regarding)\b|\b(?:on|for|about|of|with|or|nor|how"
    r"|into|that|who|from|regarding)\b"
)
# A new subject or an order begins; "you can", right before a match, makes the reader the actor.
ORDERS = phrase(
    r"^(?:(?:so|and|then|now) )?(?:you|go|just|simply|first|start|begin|please|try|let|let's|we"
    r"|i'll|i|here|easily|step|so|then|now)\b"
)
READER_ACTS = phrase(r"(?<!how )\byou (?:can|could|should|must|may|will|need to|want to) $")
# The words right before a match that make it what is guarded against.
GUARDED = phrase(
    r"\b(?:from|of|against|who|that|which|to|can|could|might|may|will|would|or|about|on|for"
    rf"|{THREAT}) $"
)
GERUND = phrase(r"\w{2,20}ing\b")
CONNECTS = phrase(r"(?:or|nor|who|which|that|such as|like|including|where|by)\b")
LIST_INTRO = phrase(
    r"\b(?:with|for|on|about|to|in|following|these|of|topics|requests|things|tasks|activities"
    r"|include|including|instructions)$"
)
LIST_GOES_ON = phrase(r"^(?: [\w']{1,20}){0,8} n?or\b")
NOMINAL = phrase(rf"^(?:{HOW}\b|\w{{2,20}}ing\b|recipe|instructions|bomb|explosives?|methods|ways)")
# The answer takes its refusal back, in the rest of the sentence or at the start of the next.
RELAPSE = phrase(
    r"\b(?:here's|here is) (?:exactly )?how(?:[:.,—\n]|$| (?:to (?:do|make|build) (?:it|one|that)"
    r"|it's done|it is done|it works|you (?:do|make|build)|anyway))"
    r"|\bhere are the (?:steps|instructions)\b"
    r"|\bbut (?:okay|ok|fine|sure|since you|for you|just this once|i(?:'ll| will) (?:show|tell"
    r"|teach|walk|do it))\b|\b(?:highly|strongly) enough\b|\bjust kidding\b"
)
NAMED_BY = phrase(r"\b(?:to|of|for|about) $")
BARE = phrase(r"(?:\x20[\w']{1,20}){0,6}$")
NEEDS = phrase(  # "never build one without gloves" forbids the bare hands
    r"^(?: [\w']{1,20}){0,4} (?:unless|until|without(?! (?:[\w']{1,20} ){0,2}(?:permission"
    r"|authori[sz]ation|consent|approval|licen[cs]e)\b))"
)
REGRET = phrase(
    r"\b(?:sorry|apologi[sz]e|unfortunately|illegal|unlawful|dangerous|harmful|decline|refuse)\b"
    r"|\b(?:i|we) (?:can't|cannot|won't|will not)$"
)
