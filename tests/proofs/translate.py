"""Translate formulas of Python functions into definitions of Coq over the real numbers.

Numbers become the exact rationals that the doubles are.  Rounding is not modelled: a margin such as
``_UP`` stays a factor of the formula, and claim C65 says that it covers the roundings of one.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

#: Checks of public arguments.  They only raise, so a formula does not depend on them.
CHECKS = {"_check", "check_constants", "_nonnegative", "refuse_range", "_checked", "_check_scale"}

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {
    ast.Lt: "ltb {0} {1}", ast.LtE: "leb {0} {1}", ast.Gt: "ltb {1} {0}", ast.GtE: "leb {1} {0}",
}  # fmt: skip
_CALLS = {
    "math.sqrt": "sqrt", "math.exp": "exp", "math.log": "ln", "abs": "Rabs",
    "math.floor": "floor", "float": "", "math.cosh": "cosh", "math.sinh": "sinh",
    "math.hypot": "hypot", "math.expm1": "expm1", "math.log1p": "log1p",
}  # fmt: skip


class Untranslatable(ValueError):
    """A construct for which there is no formula over the reals."""


class Formula(NamedTuple):
    """A function, arguments that are fixed, and the name of its definition."""

    function: Callable[..., Any]
    fixed: Mapping[str, Any] = {}
    name: str = ""

    @property
    def definition(self) -> str:
        return self.name or self.function.__name__.lstrip("_")


def number(value: float) -> str:
    """Write a number exactly, as the rational that it is."""
    numerator, denominator = float(value).as_integer_ratio()
    sign, numerator = ("-", -numerator) if numerator < 0 else ("", numerator)
    text = f"{numerator}"
    if denominator > 1:
        bits = denominator.bit_length() - 1  # doubles have powers of two below
        text = f"{numerator} / 2 ^ {bits}" if bits > 9 else f"{numerator} / {denominator}"
        return f"({sign}({text}))" if sign else f"({text})"
    return f"({sign}{text})" if sign else text


class Translator:
    """Translate one function, given the definitions that stand before it."""

    def __init__(self, formula: Formula, known: Mapping[tuple[Any, ...], str]) -> None:
        function = inspect.unwrap(formula.function)
        self.module = inspect.getmodule(function)
        self.tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(self.tree, ast.FunctionDef)
        self.formula, self.known = formula, known
        #: Python values of names whose value is known before the function is called.
        self.values: dict[str, Any] = dict(formula.fixed)
        defaults = inspect.signature(function).parameters.values()
        for parameter in defaults:
            if isinstance(parameter.default, bool):
                self.values.setdefault(parameter.name, parameter.default)

    def definition(self) -> str:
        arguments = self.tree.args
        left = [a for a in (*arguments.args, *arguments.kwonlyargs) if a.arg not in self.values]
        parameters = " ".join(p for a in left for p in self.parameters(a))
        head = f"Definition {self.formula.definition}"
        body = self.block(list(self.tree.body))
        if not parameters:
            return f"{head} : R := {body}."
        return f"{head} {parameters} : {self.result()} :=\n  {body}."

    def parameters(self, argument: ast.arg) -> list[str]:
        """Declare an argument: a number, a list of them, or the fields of a tuple that are used."""
        annotation = ast.unparse(argument.annotation or ast.Constant(""))
        if "Sequence" in annotation:
            return [f"({self.name(argument.arg)} : list R)"]
        fields = getattr(getattr(self.module, annotation, None), "_fields", ())
        used = {n.attr for n in ast.walk(self.tree) if isinstance(n, ast.Attribute)}
        names = [f"{argument.arg}_{f}" for f in fields if f in used] or [self.name(argument.arg)]
        return [f"({name} : R)" for name in names]

    def result(self) -> str:
        """Name the type of what is returned, a number or a tuple of numbers."""
        text = ast.unparse(self.tree.returns or ast.Constant(0))
        return " * ".join(["R"] * (text.count(",") + 1)) if text.startswith("tuple") else "R"

    # ---- statements -----------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt], result: str = "") -> str:
        """Translate statements that end in a return, or in the names of ``result``."""
        if not statements:
            if not result:
                raise Untranslatable("a path without a return")
            return result
        first, rest = statements[0], statements[1:]
        match first:
            case ast.Expr(ast.Constant()):
                return self.block(rest, result)
            case ast.Expr(ast.Call(ast.Name(name))) if name in CHECKS:
                return self.block(rest, result)
            case ast.Return(value):
                return self.expression(value)
            case ast.If(test, body, orelse):
                return self.condition(test, body, orelse, rest, result)
            case ast.Assign([target], value) | ast.AnnAssign(target, _, value):
                return self.let(target, self.expression(value), rest, result)
            case ast.AugAssign(target, operator, value):
                return self.let(
                    target, self.expression(ast.BinOp(target, operator, value)), rest, result
                )
            case ast.For(ast.Tuple() | ast.Name() as target, ast.Tuple(items), body, []):
                unrolled: list[ast.stmt] = []
                for item in items:
                    unrolled += [ast.Assign([target], item), *body]
                return self.block([*unrolled, *rest], result)
            case ast.FunctionDef(name, arguments, body):
                inner = " ".join(self.name(a.arg) for a in arguments.args)
                text = f"let {name} := fun {inner} : R => {self.block(body)} in"
                self.values.pop(name, None)
                return f"{text}\n  {self.block(rest, result)}"
        raise Untranslatable(f"{ast.unparse(first)!r} in {self.formula.definition}")

    def let(self, target: ast.expr, value: str, rest: list[ast.stmt], result: str) -> str:
        if isinstance(target, ast.Tuple):
            names = ", ".join(self.expression(e) for e in target.elts)
            return f"let '({names}) := {value} in\n  {self.block(rest, result)}"
        assert isinstance(target, ast.Name)
        self.values.pop(target.id, None)
        return f"let {self.name(target.id)} := {value} in\n  {self.block(rest, result)}"

    def condition(
        self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt],
        rest: list[ast.stmt], result: str,
    ) -> str:  # fmt: skip
        if all(isinstance(s, ast.Raise) for s in body) and not orelse:
            return self.block(rest, result)
        decided = self.decided(test)
        if decided is not None:
            return self.block([*(body if decided else orelse), *rest], result)
        if any(isinstance(s, ast.Return) for s in body):
            otherwise = self.block([*orelse, *rest], result)
            return f"(if {self.truth(test)} then {self.block(body)} else {otherwise})"
        names = sorted({n.id for s in (*body, *orelse) for n in ast.walk(s)
                        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})  # fmt: skip
        if len(names) != 1:
            raise Untranslatable(f"branches that assign {names}")
        (name,) = names
        value = (
            f"if {self.truth(test)} then {self.block(body, self.name(name))} "
            f"else {self.block(orelse, self.name(name))}"
        )
        return self.let(ast.Name(name, ast.Store()), f"({value})", rest, result)

    # ---- conditions -----------------------------------------------------------------------------

    def decided(self, test: ast.expr) -> bool | None:
        """Return the truth of a condition that only names known values, or None."""
        match test:
            case ast.BoolOp(operator, values):
                parts = [self.decided(v) for v in values]
                absorbing = isinstance(operator, ast.Or)
                if absorbing in parts:
                    return absorbing
                return None if None in parts else not absorbing
            case ast.UnaryOp(ast.Not(), operand):
                inner = self.decided(operand)
                return None if inner is None else not inner
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        if names <= self.values.keys():
            return bool(eval(ast.unparse(test), {}, dict(self.values)))
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot | ast.Is):
            raise Untranslatable(ast.unparse(test))
        return None

    def truth(self, test: ast.expr) -> str:
        decided = self.decided(test)
        if decided is not None:
            return "true" if decided else "false"
        match test:
            case ast.BoolOp(operator, values):
                sign = " && " if isinstance(operator, ast.And) else " || "
                left = [v for v in values if self.decided(v) is None]
                return f"({sign.join(self.truth(v) for v in left)})"
            case ast.UnaryOp(ast.Not(), operand):
                return f"negb {self.truth(operand)}"
            case ast.Compare(left, operators, comparators):
                parts, before = [], self.expression(left)
                for operator, comparator in zip(operators, comparators, strict=True):
                    after = self.expression(comparator)
                    if isinstance(operator, ast.Eq):
                        parts.append(f"eqb {before} {after}")
                    else:
                        parts.append(_COMPARE[type(operator)].format(before, after))
                    before = after
                return f"({' && '.join(parts)})"
        raise Untranslatable(f"condition {ast.unparse(test)}")

    # ---- expressions ----------------------------------------------------------------------------

    def name(self, identifier: str) -> str:
        """Avoid the names that Coq has for something else."""
        return {"lambda": "lam", "e": "err", "fix": "fix_"}.get(identifier, identifier.lstrip("_"))

    def expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(bool()):
                raise Untranslatable("a truth value as a number")
            case ast.Constant(int() | float() as value):
                return number(value)
            case ast.Name(identifier):
                return self.value_of(identifier)
            case ast.Attribute(ast.Name(identifier), field):
                return f"{identifier}_{field}"
            case ast.Tuple(elements):
                return f"({', '.join(self.expression(e) for e in elements)})"
            case ast.UnaryOp(ast.USub(), operand):
                return f"(- {self.expression(operand)})"
            case ast.BinOp(left, ast.Pow(), ast.Constant(int() as power)):
                return f"({self.expression(left)} ^ {power})"
            case ast.BinOp(left, operator, right):
                if not any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(node)):
                    return number(eval(ast.unparse(node)))  # such as 2.0**-53
                sign = _BINARY.get(type(operator))
                if sign is None:
                    raise Untranslatable(ast.unparse(node))
                return f"({self.expression(left)} {sign} {self.expression(right)})"
            case ast.IfExp(test, body, orelse):
                decided = self.decided(test)
                if decided is not None:
                    return self.expression(body if decided else orelse)
                yes, no = self.expression(body), self.expression(orelse)
                return f"(if {self.truth(test)} then {yes} else {no})"
            case ast.Call(ast.Name("len"), [ast.Name(identifier)]):
                return f"(INR (length {self.name(identifier)}))"
            case ast.Call(ast.Attribute(ast.Name("math"), "fsum"), [ast.ListComp(term, [each])]):
                variable, items = self.expression(each.target), self.expression(each.iter)
                return f"(total_of (fun {variable} => {self.expression(term)}) {items})"
            case ast.Call(function, arguments, keywords):
                return self.call(ast.unparse(function), arguments, keywords)
        raise Untranslatable(f"{ast.unparse(node)!r} in {self.formula.definition}")

    def value_of(self, identifier: str) -> str:
        if identifier in self.values:
            return number(self.values[identifier])
        value = getattr(self.module, identifier, None)
        if isinstance(value, float | int) and not isinstance(value, bool):
            return self.name(identifier)  # a constant: written before
        return self.name(identifier)

    def call(self, name: str, arguments: list[ast.expr], keywords: list[ast.keyword]) -> str:
        if name in ("max", "min") and len(arguments) > 1:
            values = [self.expression(a) for a in arguments]
            text = values[0]
            for value in values[1:]:
                text = f"(R{name} {text} {value})"
            return text
        if name in _CALLS:
            inner = " ".join(self.expression(a) for a in arguments)
            return f"({_CALLS[name]} {inner})" if _CALLS[name] else inner
        function = getattr(self.module, name, None)
        if callable(function):
            signature = inspect.signature(inspect.unwrap(function))
            bound = signature.bind(*arguments, **{k.arg or "": k.value for k in keywords})
            given, fixed = [], {}
            for parameter in signature.parameters.values():
                value = bound.arguments.get(parameter.name)
                known = self.known_value(value, parameter.default)
                if isinstance(known, bool | str):
                    fixed[parameter.name] = known
                else:
                    given.append(number(known) if value is None else self.expression(value))
            key = (inspect.unwrap(function), *sorted(fixed.items()))
            if key not in self.known:
                raise Untranslatable(f"{name}, which is not translated")
            return f"({' '.join([self.known[key], *given])})"
        inner = " ".join(self.expression(a) for a in arguments)  # a function defined inside
        return f"({self.name(name)} {inner})"

    def known_value(self, node: ast.expr | None, default: Any) -> Any:
        match node:
            case None:
                return default
            case ast.Constant(value):
                return value
            case ast.Name(identifier) if identifier in self.values:
                return self.values[identifier]
        return None


def translate(formulas: list[Formula]) -> list[str]:
    """Translate formulas in this order; each may call those before it."""
    known: dict[tuple[Any, ...], str] = {}
    definitions = []
    for formula in formulas:
        translator = Translator(formula, known)
        definitions.append(translator.definition())
        fixed = {k: v for k, v in translator.values.items() if isinstance(v, bool | str)}
        fixed |= dict(formula.fixed)
        key = (inspect.unwrap(formula.function), *sorted(fixed.items()))
        known[key] = formula.definition
    return definitions


def constant(module: ModuleType, name: str) -> str:
    """Define a constant as the exact value that the code imports."""
    return define(name.lstrip("_"), getattr(module, name))


def define(name: str, value: float) -> str:
    """Define a name as a number, exactly."""
    assert isinstance(value, float | int) and math.isfinite(value)
    return f"Definition {name} : R := {number(value)}. (* {value!r} *)"
