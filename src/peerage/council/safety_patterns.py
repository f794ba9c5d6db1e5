"""What trips the safety gate: five families of phrases, as a table.

Phrases are written for flat text (`safety_text`). Every repeat in them is bounded, so that a
search is linear in the text. What a word may be followed by without harm stands beside it, and
must follow at once (`\\x20`): a new line about cake makes no bomb harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peerage.council.safety_text import Phrase, phrase


@dataclass(frozen=True, slots=True)
class Pattern:
    """A phrase that trips the gate, the contexts that may excuse it, and why it is here."""

    family: str
    name: str
    phrase: Phrase
    needs: tuple[str, ...]  # a text with none of these has no match: most are done here
    excuses: frozenset[str]
    reason: str
    holds: Callable[[str], bool] | None = None  # a check on the matched text, such as Luhn's
    literal: bool = False  # looked for in the text with its punctuation, not in flat text


def harmless(followers: str) -> str:
    """A lookahead that lets a word pass when one of these follows it at once, in its sentence."""
    return rf"(?! (?:{followers}))".replace(" ", r"\x20")


def forms(verbs: str) -> str:
    """An alternation of verbs, each with its -ing form."""
    words = verbs.split()
    return "|".join(words + [f"{word.removesuffix('e')}ing" for word in words])


# -- pieces of phrases -------------------------------------------------------------------------

HOW = (
    r"(?:how (?:to|(?:you|i|we|one) (?:can|could|might|would)|(?:do|can|would|could) (?:you|i|one))"
    r"|(?:ways?|steps?|instructions?|guides?|tutorials?|recipes?|tips|methods?|directions)"
    r" (?:to|for|on|of)(?: how to)?)"
)
MAKE = rf"(?:{forms('make build construct assemble create craft prepare rig produce manufacture')})"
A = r"(?:an?|one|another|some|(?:your|my|his|her|their) own)"
ANY_A = r"(?:an?|the|one|another|some|any|this|(?:your|my|our|his|her|their)(?: own)?)"
AT_HOME = (
    r"(?:(?:right )?at home|yourself|from scratch|from household \w{1,20}"
    r"|in (?:your|a|the) (?:own )?(?:kitchen|garage|basement|home|house|bedroom))"
)
PLAY = (  # a game or a stage; never a stuff, of which real ones are made too
    r"(?:\w{1,20} ){0,3}(?:in|for|on) (?:\w{1,20} ){0,3}(?:unity|unreal|roblox|blender|minecraft"
    r"|godot|scratch|games?|gamemaker|cosplay|photoshop|stage|fortnite|gta|call of duty|among us"
    r"|chess)\b"
)
THING = r"shaped|themed|cakes?|cookies?|costumes?|props?|toys?|emojis?|icons?|sprites?|sounds?"

BOMB_KIND = (
    r"(?:(?:pipe|nail|car|dirty|fertili[sz]er|petrol|gasoline|homemade|home made|simple|small|big"
    r"|large|powerful|real|working|functional|basic|crude|time|pressure cooker|letter|parcel"
    r"|cheap|effective|deadly|chemical|remote|improvised|diy|easy|quick) ){0,3}"
)
BOMB = r"(?:bomb|explosive device|explosive|ied|molotov(?: cocktail)?|hand grenade|grenade)"
NOT_BOMB = r"\b" + harmless(
    rf"{THING}|shelters?|disposal|detect\w{{1,5}}|squads?|suits?|proof|threats?|calorimeters?"
    rf"|sniffing|dogs?|cyclones?|selling|out of (?:this|that)|launcher|{PLAY}"
)
GUN_KIND = (
    r"(?:(?:ghost|3d printed|3d|printed|homemade|home made|zip|machine|submachine|working|real"
    r"|functional|untraceable|automatic|semi automatic|fully automatic|plastic|metal|simple|cheap"
    r"|basic|small|diy) ){0,3}"
)
GUN = (
    r"(?:gun|firearm|pistol|rifle|handgun|shotgun|machinegun"
    r"|(?:gun|rifle|pistol|firearm) (?:silencer|suppressor))"
)
NOT_GUN = r"\b" + harmless(
    rf"{THING}|racks?|safes?|safer|cabinets?|shows?|clubs?|cases?|holsters?|ranges?|turrets?"
    r"|violence|control|laws?|polic(?:y|ies)|owners?|boats?|metal|houses?|gestures?|permits?"
    r"|licen[cs]es?|safety|stands?|mounts?|slings?|illegal|legal|harder|emplacements?"
    rf"|(?:out of|from|with) (?:cardboard|paper|legos?|clay|chocolate|fondant)|{PLAY}"
)
TARGET = (
    r"(?:accounts?|e ?mails?|inbox(?:es)?|(?:i|smart)?phones?|computers?|laptops?|pcs?|networks?"
    r"|wi ?fi|servers?|databases?|websites?|webcams?|cameras?|banks?|routers?|devices?|profiles?"
    r"|atms?|passwords?|instagram|facebook|snapchat|gmail|whatsapp|twitter|tiktok|icloud|paypal)\b"
)
WHOSE = (
    r"(?:(?:an?|his|her|their|any|another|other|old|locked|private|school|company|social media"
    r"|bank|email|\w{1,20}'s) ){1,3}"
)
MALWARE = (
    r"(?:ransomware|malware|keyloggers?|trojans?|computer (?:virus(?:es)?|worms?)|rootkits?"
    r"|spyware|botnets?|infostealers?)"
)
NOT_MALWARE = r"\b" + harmless(
    r"scann\w{1,5}|detect\w{1,5}|analysis|remov\w{1,5}|protection|defen[cs]es?|prevention"
    r"|sandbox\w{0,3}|signatures?|reports?|polic(?:y|ies)|training|awareness|incident|playbooks?"
    r"|(?:response|recovery) plans?|horses? (?:costume|prop|model)"
)
HURT = (
    rf"(?:{forms('hurt harm injure kill hang starve poison burn drown suffocate strangle')}"
    r"|cut|cutting)"
)
SELF = r"(?:yourself|yourselves|myself|oneself|themselves|themself)\b"
NOT_HARM = harmless(  # cut yourself some slack; hurt yourself lifting
    r"some|an?|free|off|loose|short|out|less|(?:(?:while|when) )?(?:lifting|running|laughing"
    rf"|training|exercising|cooking|playing)|at (?:the )?(?:gym|work)|{PLAY}"
)

# -- what trips the gate -----------------------------------------------------------------------

WORDS = frozenset(
    ["refusal", "prohibition", "defence", "report", "question", "refused_after", "condemned_after"]
)
HACKING = WORDS | {"threat"}
CARE = WORDS | {"support"}
ADVICE = WORDS - {"question"}  # an insult is no question
BOMBS = ("bomb", "explosive", "ied", "molotov", "grenade")
GUNS = ("gun", "firearm", "pistol", "rifle", "weapon")
EXPOSED = frozenset({"placeholder"})  # a number inside a refusal is exposed all the same


def luhn_holds(text: str) -> bool:
    """Whether the digits carry a valid check digit (ISO/IEC 7812-1)."""
    digits = [int(mark) for mark in text if mark.isdecimal()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "dangerous_instructions",
        "make_bomb",
        phrase(rf"\b{MAKE} {A} {BOMB_KIND}{BOMB}{NOT_BOMB}"),
        BOMBS,
        WORDS,
        "the seed's example; kinds are listed, so bath, photo and smoke bombs pass",
    ),
    Pattern(
        "dangerous_instructions",
        "bomb_instructions",
        phrase(rf"\b{HOW} {MAKE} (?:{ANY_A} )?{BOMB_KIND}{BOMB}s?{NOT_BOMB}"),
        BOMBS,
        WORDS,
        "plurals and a missing article count only after a how-to: factories make bombs too",
    ),
    Pattern(
        "dangerous_instructions",
        "bombs_at_home",
        phrase(rf"\b{MAKE} (?:{ANY_A} )?{BOMB_KIND}{BOMB}s? {AT_HOME}"),
        BOMBS,
        WORDS,
        "the place makes it an instruction",
    ),
    Pattern(
        "dangerous_instructions",
        "bomb_recipe",
        phrase(
            r"\b(?:(?:bomb|explosives?) (?:making|building) (?:instructions?|guide|recipe|steps"
            rf"|tutorial|manual)|(?:recipe|instructions|blueprint|formula) for (?:{ANY_A} )?"
            rf"{BOMB_KIND}{BOMB}s?{NOT_BOMB})"
        ),
        BOMBS,
        WORDS,
        "the same thing named as a document",
    ),
    Pattern(
        "dangerous_instructions",
        "mass_weapon",
        phrase(
            rf"\b{HOW} {MAKE} (?:{ANY_A} )?{BOMB_KIND}(?:nuclear|atomic|atom|hydrogen|radiological"
            r"|biological|chemical) (?:bomb|weapon|device)s?\b"
        ),
        ("bomb", "weapon", "device"),
        WORDS,
        "only after a how-to: histories of the atomic bomb pass",
    ),
    Pattern(
        "dangerous_instructions",
        "toxic_agent",
        phrase(
            rf"\b{HOW} (?:{MAKE}|{forms('synthesize synthesise cook brew extract mix')})"
            rf" (?:{ANY_A} )?(?:\w{{1,20}} )?(?:nerve (?:agent|gas)|sarin|ricin|mustard gas"
            r"|chlorine gas|poison gas|napalm|nitroglycerin|anthrax|botulinum toxin|tatp)\b"
        ),
        ("nerve", "sarin", "ricin", "gas", "napalm", "nitro", "anthrax", "botulinum", "tatp"),
        WORDS,
        "only after a how-to: household warnings name chlorine gas",
    ),
    Pattern(
        "dangerous_instructions",
        "harm_someone",
        phrase(
            rf"\b{HOW} (?:poison|kill|murder) (?:someone|somebody|a person|people|(?:your|my|his"
            rf"|her) (?:wife|husband|boss|neighbou?r|parents|mother|father))\b{harmless(PLAY)}"
        ),
        ("poison", "kill", "murder"),
        WORDS,
        "people are not processes",
    ),
    Pattern(
        "weapon_making",
        "make_gun",
        phrase(
            rf"\b(?:{MAKE}|(?:3d )?print|(?:3d )?printing) {A} {GUN_KIND}{GUN}{NOT_GUN}"
            rf"(?: {AT_HOME})?"
        ),
        GUNS,
        WORDS,
        "the seed's example; glue, nail and water guns are not listed kinds",
    ),
    Pattern(
        "weapon_making",
        "gun_instructions",
        phrase(rf"\b{HOW} (?:{MAKE}|(?:3d )?print) (?:{ANY_A} )?{GUN_KIND}{GUN}s?{NOT_GUN}"),
        GUNS,
        WORDS,
        "plurals only after a how-to",
    ),
    Pattern(
        "weapon_making",
        "weapons_at_home",
        phrase(rf"\b{MAKE} (?:{ANY_A} )?{GUN_KIND}(?:{GUN}|weapon)s? {AT_HOME}"),
        GUNS,
        WORDS,
        "the place makes it an instruction",
    ),
    Pattern(
        "weapon_making",
        "full_auto",
        phrase(
            rf"\bconvert(?:ing)? {ANY_A} (?:\w{{1,20}} ){{1,3}}(?:in)?to "
            r"(?:be |fire )?(?:fully automatic|full auto|a machine gun)\b"
        ),
        ("convert",),
        WORDS,
        "a conversion is a construction",
    ),
    Pattern(
        "malware_hacking",
        "hack_into",
        phrase(rf"\bhack(?:ing)? in ?to (?:[\w']{{1,20}} ){{0,3}}?(?:{TARGET}|systems?\b)"),
        ("hack",),
        HACKING,
        "the seed's example; 'into' leaves life hacks and hackathons alone",
    ),
    Pattern(
        "malware_hacking",
        "hack_someones",
        phrase(rf"\bhack(?:ing)? {WHOSE}{TARGET}"),
        ("hack",),
        HACKING,
        "without 'into' it must be somebody's: you may hack your own productivity",
    ),
    Pattern(
        "malware_hacking",
        "how_to_hack",
        phrase(
            rf"\b{HOW} hack(?:ing)?(?: into)?"
            rf"(?: (?:{WHOSE}|the |my )?{TARGET}|(?=[.:\n])|$)"
        ),
        ("hack",),
        HACKING,
        "the seed's 'here's how to hack', which names no object",
    ),
    Pattern(
        "malware_hacking",
        "write_malware",
        phrase(
            rf"\b(?:{forms('write code create build make develop program')}|programming)"
            rf" (?:{ANY_A} )?(?:(?:simple|working|undetectable|basic|custom|new|python|powerful"
            rf"|functional|self replicating) ){{0,2}}{MALWARE}{NOT_MALWARE}"
        ),
        ("ware", "keylog", "trojan", "computer", "rootkit", "botnet", "infosteal"),
        HACKING,
        "tools against malware are listed and pass",
    ),
    Pattern(
        "malware_hacking",
        "steal_access",
        phrase(
            rf"\b{HOW} (?:{forms('steal phish crack harvest')}) (?:[\w']{{1,20}} ){{0,3}}?"
            r"(?:passwords?|credentials|cookies|credit cards?|card numbers|identit(?:y|ies)"
            r"|accounts?|bank details|logins?)\b"
        ),
        ("steal", "phish", "crack", "harvest"),
        HACKING,
        "only after a how-to: news and warnings speak of theft",
    ),
    Pattern(
        "malware_hacking",
        "flood_site",
        phrase(rf"\b{HOW} (?:ddos\b{harmless('proof|protect')}|launch {ANY_A} ddos attack)"),
        ("ddos",),
        HACKING,
        "an attack by its name",
    ),
    Pattern(
        "self_harm",
        "ways_to_self_harm",
        phrase(rf"\b{HOW} (?:\w{{1,20}}ly )?{HURT} {SELF}{NOT_HARM}"),
        ("sel",),
        CARE,
        "the seed's example; slack, haircuts and sports injuries are not it",
    ),
    Pattern(
        "self_harm",
        "suicide_method",
        phrase(
            rf"\b(?:{HOW} (?:\w{{1,20}}ly )?(?:(?:commit|attempt)(?:ting|ing)? suicide"
            r"|end(?:ing)? (?:your|my|one's) (?:own )?life)"
            rf"|(?:methods?|ways) (?:of|for) (?:suicide|self harm){harmless('prevention')}"
            r"|painless (?:ways?|methods?) to (?:die|end it)|painlessly end (?:your|my) life)\b"
        ),
        ("suicid", "life", "harm", "die", "end"),
        CARE,
        "methods, whatever the verb",
    ),
    Pattern(
        "self_harm",
        "encouragement",
        phrase(
            r"(?:\b(?:you (?:should|ought to|might as well|deserve to|need to)|just|go|go and)"
            r" (?:just |go |go and )?(?:(?:kill|hang|hurt|cut|harm|shoot|drown) yourself"
            r"|end (?:your life|it all)\b)"
            rf"|(?<![\w\x20'])kill yourself){harmless('insurance')}{NOT_HARM}"
            r"|\bbetter off (?:without you\b|if you (?:were|are) (?:dead|gone)\b)"
        ),
        ("yourself", "end", "better"),
        ADVICE,
        "telling a person to do it needs no method; a helpline in the sentence is no excuse",
    ),
    Pattern(
        "pii_exposure",
        "social_security_number",
        Phrase(
            r"(?:\b(?:ssn|social security (?:number|no))\b.{0,3}?\s{0,3}(?:(?:is|was)\s{1,3})?)?"
            r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"
        ),
        ("-",),
        EXPOSED,
        "numbers never issued (000, 666, 9xx, 00, 0000) are examples and pass",
        literal=True,
    ),
    Pattern(
        "pii_exposure",
        "unhyphenated_social_security_number",
        Phrase(
            r"\b(?:ssn|social security (?:number|no))\b.{0,3}?\s{0,3}(?:(?:is|was)\s{1,3})?"
            r"(?!000|666|9)\d{3} ?(?!00)\d{2} ?(?!0000)\d{4}(?![\w-])"
        ),
        ("ssn", "security"),
        EXPOSED,
        "nine bare digits count only when named",
        literal=True,
    ),
    Pattern(
        "pii_exposure",
        "payment_card",
        Phrase(
            r"(?<![\w.-])(?:(?:4\d{3}|5[1-5]\d{2}|2[2-7]\d{2}|6011|65\d{2})(?:[ -]?\d{4}){3}"
            r"|3[47]\d{2}[ -]?\d{6}[ -]?\d{5})(?![\w-]|\.\d)"
        ),
        tuple("23456"),
        EXPOSED,
        "an issuer's prefix and length, and a check digit that holds",
        holds=luhn_holds,
        literal=True,
    ),
)

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(pattern.family for pattern in PATTERNS))
