"""Formulas written as plain text, `mu <= sqrt(2) D/s`, are typeset when pages are built.

The proofs stay readable in an editor: nothing in them changes.  Sphinx calls :func:`typeset` for
the pages listed in ``typeset_pages``: whatever stands between backticks there and can be read as
a formula becomes one; the rest is code, and is left alone.  In prose, Greek letters by name and
short relations (`k >= 1`) become formulas, too.  Examples: ``tests/packaging/test_mathematics.py``.
"""

from __future__ import annotations

import re
from typing import Any


def _words(text: str) -> list[str]:
    return text.split()


GREEK = _words(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega"
)
SPELT = {"epsilon": r"\varepsilon", "eps": r"\varepsilon", "pi": r"\pi", "phi": r"\varphi"}
NAMED = {name: SPELT.get(name, "\\" + name) for name in (*GREEK, "eps", "pi")}

#: Functions TeX knows, and those it has to be told.
KNOWN = _words("exp log sin cos tan tanh sinh cosh coth max min sup det dim lim Pr arg")
TOLD = _words(
    "tr diag sign sgn clip erf erfc erfcx expm1 log1p log2 ndtr ndtri softplus Var Cov med median "
    "round expit acos asin atan cov rank dist ess diam conv var logit arsinh artanh arcosh sech"
)
FUNCTIONS = {name: "\\" + name for name in KNOWN}
FUNCTIONS |= {name: rf"\operatorname{{{name}}}" for name in TOLD}
FUNCTIONS |= {"argmin": r"\operatorname*{arg\,min}", "argmax": r"\operatorname*{arg\,max}"}
LARGE = {"sum": r"\sum", "prod": r"\prod", "int": r"\int", "union": r"\bigcup"}
SIGNS = {
    "<=": r"\le", ">=": r"\ge", "!=": r"\ne", "<<": r"\ll", ">>": r"\gg", "->": r"\to",
    "=>": r"\Rightarrow", "~=": r"\approx", "+-": r"\pm", "-+": r"\mp", "...": r"\dots",
    "..": r"\dots", ".": r"\cdot", "<": "<", ">": ">", "=": "=", "+": "+", "-": "-", "/": "/",
    ",": ",", ";": ";", ":": ":", "!": "!", "~": r"\sim", "[": "[", "]": "]",
}  # fmt: skip
RELATIONS = {"<=", ">=", "!=", "<<", ">>", "->", "=>", "~=", "<", ">", "=", "~"}
#: Relations as they are typeset; a line may end before one that follows so many signs, and before
#: a plus that follows more.
RELATED = {SIGNS[sign] for sign in RELATIONS} | {r"\in"}
SHORT, LONG = 10, 34
#: English within a formula.
WORDS = _words(
    "all and any are as at both but by each else even every exactly for from given has if iff "
    "independent is its largest least most no odd of on only or otherwise over same some such than "
    "that the then this times to two until usable when where which with without"
)

TOKEN = re.compile(
    r"(?P<number>\d+(?:,\d{3})+(?!\d)|\d+(?:\.(?!\.)\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)"
    r"|(?P<name>[A-Za-z](?:[A-Za-z0-9]|_(?=[A-Za-z0-9]))*)"
    r"|(?P<sign>\.\.\.?|\.(?=\|)|<=|>=|!=|<<|>>|->|=>|~=|\+-|-\+|\|\||[-+/<>=,;:!~*^_(){}\[\]|'])"
    r"|(?P<space>\s+)"
)
CLOSING = {"(": ")", "[": "]", "{": "}"}

#: What formulas do not have: quotes, dotted names, keyword arguments, options, powers in Python.
CODE = re.compile(
    r"""["\\@#%&$]|==|\*\*|//|::|__|--|\(\)|[A-Za-z_]\.[A-Za-z]|\w=\S|[A-Za-z]-[a-z]{2}|\s-[a-z]\s[a-z]+\."""
)


class NoFormula(ValueError):
    """What was written is code, or nothing that can be typeset."""


# ---- names -----------------------------------------------------------------------------------


def is_symbol(name: str) -> bool:
    """Whether a name is that of a quantity: a letter, Greek or not, with an index or without."""
    base = re.fullmatch(r"([A-Za-z]+?)(\d*)(?:_([A-Za-z0-9]+))?", name)
    return base is not None and (len(base[1]) == 1 or base[1] in NAMED or _barred(base[1]))


def _barred(base: str) -> bool:
    return len(base) == 4 and base.endswith("bar")


def symbol(name: str) -> str:
    base, digits, index = re.fullmatch(r"([A-Za-z]+?)(\d*)(?:_([A-Za-z0-9]+))?", name).groups()  # type: ignore[union-attr]
    letter = rf"\bar {base[0]}" if _barred(base) else NAMED.get(base, base)
    if index == "hat":
        letter, index = rf"\hat {letter}", None
    below = ",".join(part for part in (digits, _index(index)) if part)
    return f"{letter}_{{{below}}}" if below else letter


def _index(index: str | None) -> str:
    if not index:
        return ""
    if index in NAMED:
        return NAMED[index]
    several = (len(index) > 2 and index.isalpha()) or index in ("in", "to", "no", "at")
    return rf"\mathrm{{{index}}}" if several else index


def _product(name: str) -> bool:
    """Two letters side by side that are two quantities: `x x'`, `b L`."""
    return len(name) == 2 and (name[0] == name[1] or (name[0].islower() and name[1].isupper()))


def is_code(name: str) -> bool:
    """A name that only a program has: an underscore, or capitals within."""
    return not (is_symbol(name) or _product(name)) and (
        "_" in name or re.search(r"[a-z][A-Z]", name) is not None
    )


def _function(name: str) -> bool:
    """Whether TeX has a name for it, with an index below or without."""
    return name.partition("_")[0] in FUNCTIONS | LARGE


# ---- a formula -------------------------------------------------------------------------------


def tokens(text: str) -> list[tuple[str, str, bool]]:
    """Kind, text, and whether there is space before."""
    found, place, spaced = [], 0, False
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise NoFormula(text)
        place = match.end()
        kind = str(match.lastgroup)
        if kind == "space":
            spaced = True
            continue
        found.append((kind, match.group(), spaced))
        spaced = False
    return found


def tex(text: str) -> str:
    """A formula in TeX.  Raises NoFormula for what is code."""
    return " ".join(pieces(text))


def pieces(text: str) -> list[str]:
    """The same, in pieces between which a line may end: before relations, and before sums if long.

    Raises NoFormula for what is code.
    """
    text = " ".join(text.split())
    if CODE.search(text):
        raise NoFormula(text)
    found = tokens(text)
    names = [value for kind, value, _ in found if kind == "name"]
    if not found or (len(found) == 1 and not (names and is_symbol(names[0])) and names):
        raise NoFormula(text)
    known = [
        n for n in names if is_symbol(n) or _function(n) or _product(n) or n in ("sqrt", "inf")
    ]
    call = found[0][0] == "name" and is_code(names[0]) and not _function(names[0])
    if len(found) > 1 and names and (call or not known):
        relation = {value for kind, value, _ in found if kind == "sign"} & RELATIONS
        numbers = any(kind == "number" for kind, _, _ in found)
        if not (relation and numbers):
            raise NoFormula(text)
    if all(kind == "name" and not is_symbol(value) for kind, value, _ in found):
        raise NoFormula(text)
    reader = _Reader(found)
    reader.until(None)
    if reader.place != len(found):
        raise NoFormula(text)
    return broken(reader.parts)


def broken(parts: list[str]) -> list[str]:
    """Parts of a formula put together to pieces that are short, but not very."""
    lines: list[list[str]] = [[]]
    for part in parts:
        room = visible(lines[-1])
        relation = part.strip() in RELATED and room > SHORT
        addition = part.strip() in ("+", "-", r"\pm") and room > LONG
        if relation or addition:
            lines.append([])
        lines[-1].append(part)
    if len(lines) > 1 and visible(lines[-1]) <= 4:
        last = lines.pop()
        lines[-1] += last
    return ["".join(line).strip() for line in lines]


def visible(parts: list[str]) -> int:
    """About how many signs a reader sees."""
    return len(
        re.sub(r"\\(?:mathrm|mathtt|operatorname|text)|[{}\s^_]|(?<=\\)\w+", "", "".join(parts))
    )


class _Reader:
    """Reads tokens one by one; brackets, bars and exponents call it again for what is inside."""

    def __init__(self, found: list[tuple[str, str, bool]]) -> None:
        self.found = found
        self.place = 0
        self.parts: list[str] = []  # of the whole formula

    def peek(self, ahead: int = 0) -> tuple[str, str, bool]:
        place = self.place + ahead
        return self.found[place] if place < len(self.found) else ("end", "", False)

    def until(self, end: str | None) -> str:
        """Up to a closing sign, which is consumed."""
        parts: list[str] = []
        before = "sign"  # what the last part was: words need room beside atoms
        while self.place < len(self.found):
            kind, value, _spaced = self.peek()
            if kind == "sign" and value == end and not (value in ("|", "||") and self.opens(parts)):
                self.place += 1
                return "".join(parts).strip()
            if kind == "sign" and value in (")", "}"):
                raise NoFormula("brackets")
            if value == "<" and (not parts or before == "sign"):
                self.place += 1
                part, word = self.hung(rf"\langle {self.until('>')} \rangle "), False
            else:
                part, word = self.one()
            now = "word" if word else "sign" if part in SIGNS.values() else "atom"
            if "word" in (before, now) and "sign" not in (before, now):
                part = r"\, " + part
            parts.append(part + " ")
            before = now
        if end is not None:
            raise NoFormula("brackets")
        self.parts = parts
        return "".join(parts).strip()

    def opens(self, parts: list[str]) -> bool:
        """Whether a bar begins something: after nothing, or with room before it and none after."""
        _, _, spaced = self.peek()
        _, following, room = self.peek(1)
        return not parts or (spaced and not room and following not in ("", "^", "_", ",", ")"))

    def one(self) -> tuple[str, bool]:
        """One atom with what hangs on it, or one sign; and whether it is a word."""
        kind, value, _spaced = self.peek()
        self.place += 1
        if kind == "number":
            return self.hung(number(value)), False
        if kind == "name":
            return self.name(value)
        if value in ("(", "["):
            # half-open intervals close with the other bracket
            inside, closed = self.bracket(value)
            return self.hung(rf"{value}{inside}{closed}"), False
        if value == "{":
            return self.hung(rf"\{{{self.until('}')}\}}"), False
        if value in ("|", "||"):
            bar = (r"\lvert ", r"\rvert ") if value == "|" else (r"\lVert ", r"\rVert ")
            return self.hung(bar[0] + self.until(value) + bar[1]), False
        if value == "*":
            return r"\cdot", False
        if value in ("^", "_", "'", ")", "}"):
            raise NoFormula("nothing for it to hang on")
        if value in ("<", ">", "-") and self.peek()[1] == "" and self.place > 1:
            raise NoFormula("half a relation")
        return SIGNS[value], False

    def bracket(self, opening: str) -> tuple[str, str]:
        start = self.place
        for closing in (CLOSING[opening], "]" if opening == "(" else ")"):
            self.place = start
            try:
                return self.until(closing), closing
            except NoFormula:
                if closing != CLOSING[opening]:
                    raise
        raise NoFormula("brackets")

    def name(self, value: str) -> tuple[str, bool]:
        following = self.peek()
        if value == "sqrt":
            if following[1] == "(":
                self.place += 1
                return self.hung(rf"\sqrt{{{self.until(')')}}}"), False
            return self.hung(rf"\sqrt{{{self.one()[0]}}}"), False
        if value in ("floor", "ceil") and following[1] == "(":
            self.place += 1
            return self.hung(rf"\l{value} {self.until(')')} \r{value} "), False
        large, _, index = value.partition("_")
        if large in LARGE and (not index or len(index) <= 2):
            below = f"_{{{_index(index)}}}" if index else ""
            return self.hung(LARGE[large] + below), False
        if large in FUNCTIONS:
            below = f"_{{{_index(index)}}}" if index else ""
            return self.hung(FUNCTIONS[large] + below), False
        if value == "inf":
            alone = following[0] == "end" or following[1] in (")", "]", ",", "}")
            return (r"\infty", False) if alone else (self.hung(r"\inf"), False)
        if value in ("infinity", "oo"):
            return self.hung(r"\infty"), False
        if value == "in":
            return r"\in", False
        if value == "grad":
            return self.hung(r"\nabla"), False
        if is_symbol(value):
            return self.hung(symbol(value)), False
        if _product(value):
            return f"{value[0]} {self.hung(value[1])}", False  # a product: x x', b L
        if re.fullmatch(r"d[A-Z]|d[a-z]|d[A-Z]_\w+", value):  # a differential
            return self.hung("d" + symbol(value[1:])), True
        if value in WORDS:
            return rf"\text{{ {value} }}", False
        if is_code(value) or value.isupper():
            return self.hung(rf"\mathtt{{{value.replace('_', chr(92) + '_')}}}"), True
        return self.hung(rf"\mathrm{{{value}}}"), True

    def hung(self, atom: str) -> str:
        """Primes, tildes, stars, indices and exponents of an atom."""
        raised = False
        while True:
            kind, value, spaced = self.peek()
            if kind != "sign" or spaced:
                return atom
            if value == "'":
                atom = f"{{{atom}}}'" if raised else atom + "'"
                self.place += 1
                continue
            _, following, apart = self.peek(1)
            nothing = apart or following in ("", ")", ",", "]", "}", "|", "||", "(", "^", "'")
            if value in ("~", "*") and nothing:
                atom = rf"\tilde{{{atom}}}" if value == "~" else f"{atom}^*"
                raised = raised or value == "*"
                self.place += 1
                continue
            if value == "+" and (following in ("", ")", ",", "|", "||") or apart):
                self.place += 1
                return f"{atom}^+"
            if value not in ("^", "_"):
                return atom
            self.place += 1
            if value == "^" and raised:
                atom, raised = f"{{{atom}}}", False
            atom += f"{value}{{{self.script()}}}"
            raised = raised or value == "^"

    def script(self) -> str:
        """What stands above or below: a signed atom, or all that is in brackets."""
        kind, value, _ = self.peek()
        if kind == "sign" and value in ("(", "{"):
            self.place += 1
            inside = self.until(CLOSING[value])
            derivative = value == "(" and inside.isdigit()  # f^(5) is no power
            return f"({inside})" if derivative else inside
        if kind == "sign" and value in ("+", "*"):
            self.place += 1
            return value
        sign = ""
        if kind == "sign" and value == "-":
            self.place += 1
            sign, (kind, value, _) = "-", self.peek()
        if kind == "number":
            self.place += 1
            half = [self.peek(k) for k in range(2)]
            if half[0][1] == "/" and half[1][1] == "2" and value == "1":  # a root
                self.place += 2
                return sign + "1/2"
            return sign + number(value)
        if kind == "name":
            self.place += 1
            if value == "inf":
                return sign + r"\infty"
            primes = ""
            while self.peek()[1] == "'" and not self.peek()[2]:
                self.place += 1
                primes += "'"
            return sign + (symbol(value) if is_symbol(value) else rf"\mathrm{{{value}}}") + primes
        if kind == "sign" and value in ("|", "||"):
            return sign + self.one()[0]
        raise NoFormula("an exponent")


def number(text: str) -> str:
    mantissa, _, power = text.partition("e")
    mantissa = mantissa.replace(",", "{,}")
    if not power:
        return mantissa
    ten = f"10^{{{int(power)}}}"
    return ten if mantissa == "1" else rf"{mantissa} \cdot {ten}"


# ---- prose -----------------------------------------------------------------------------------

_LETTER = (
    "(?:" + "|".join(sorted(GREEK, key=len, reverse=True)) + r"|[A-Za-z]\d?)(?:_\w{1,3})?~?['’]*"
)
_ATOM = rf"(?:{_LETTER}(?:\([A-Za-z]['’]?\))?|\d+(?:\.\d+)?(?:e-?\d+)?)(?:\^\d)?"
_SIDE = rf"{_ATOM}(?:[/*]{_ATOM}|\s{_ATOM}(?=\s*[<>=^/,.;:)]))*"
PROSE = re.compile(
    rf"(?<![\w^/'.`-])(?:{_SIDE}(?:\s(?:<=|>=|!=|<|>|=)\s{_SIDE})+|{_LETTER}(?:/{_LETTER})+|{_LETTER}\^\d|[A-Za-z]_\w{{1,3}}['’]*"
    rf"|(?:{'|'.join(GREEK)})(?:_\w{{1,3}})?~?['’]*(?:\([A-Za-z]['’]?\))?)(?![\w^'’(~])"
)


def in_prose(text: str) -> list[tuple[bool, str]]:
    """Pieces of a text: (True, TeX) or (False, words)."""
    pieces, place = [], 0
    for match in PROSE.finditer(text):
        try:
            formula = tex(match.group().replace("’", "'"))  # Sphinx has made quotes of primes
        except NoFormula:
            continue
        pieces += [(False, text[place : match.start()]), (True, formula)]
        place = match.end()
    return [piece for piece in (*pieces, (False, text[place:])) if piece[1]]


# ---- Sphinx ----------------------------------------------------------------------------------


def typeset(app: Any, doctree: Any) -> None:
    """Turn what can be read as a formula into one, on the pages that are about formulas."""
    from docutils import nodes

    page = app.env.docname
    prose = any(re.fullmatch(pattern, page) for pattern in app.config.typeset_prose)
    if not prose and not any(re.fullmatch(pattern, page) for pattern in app.config.typeset_pages):
        return
    for literal in list(doctree.findall(nodes.literal)):
        if literal.get("classes"):
            continue
        if not prose and not re.search(r"[\s<>^/]", literal.astext()):
            continue  # a name of something in the program, there
        try:
            formulas = pieces(literal.astext())
        except NoFormula:
            continue
        made: list[Any] = []
        for formula in formulas:
            made += [nodes.Text(" ")] if made else []
            made.append(nodes.math(formula, formula))
        literal.replace_self(made)
    if not prose:
        return
    for block in list(doctree.findall(nodes.literal_block)):
        try:
            rows = [tex(line) for line in block.astext().splitlines()]
        except NoFormula:
            continue
        formula = r"\begin{gathered}" + r"\\ ".join(rows) + r"\end{gathered}"
        block.replace_self(nodes.math_block(formula, formula, number=None, nowrap=False))
    untouched = (
        nodes.literal,
        nodes.literal_block,
        nodes.math,
        nodes.math_block,
        nodes.title,
        nodes.raw,
    )
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent, untouched):
            continue
        found = in_prose(str(text))
        if any(formula for formula, _ in found):
            made = [nodes.math(t, t) if formula else nodes.Text(t) for formula, t in found]
            text.parent.replace(text, made)


def setup(app: Any) -> dict[str, bool]:
    app.add_config_value("typeset_pages", [], "env")
    app.add_config_value("typeset_prose", [], "env")
    app.connect("doctree-read", typeset)
    return {"parallel_read_safe": True}
