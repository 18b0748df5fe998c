#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make derivatives`: proves that each backward formula of core/ops/*.def is the reverse-mode derivative of its forward
formula (formulas.py has both, beside the words of the row that state them).

For each case sympy derives the forward formula and shows that the difference to the backward formula is 0 as an identity
of its symbols: exponentials, tanh, erf, log and roots are symbols too, of which only their own derivatives, and that a root
squared is what is under it, are used. Then each operator, constant, sign and comparison of the backward formula is
changed, one at a time, and the changed formula must differ from the derivative at a random rational point. Every row
whose name ends as a gradient's, and every loss, must have a case, and the row's comment the words of its cases.

  derivatives.py [WORD]     the cases of rows whose names have WORD; all rows without
  derivatives.py list       rows and cases

Writes build/derivatives/report.txt and ends with `N passed, N failed`. Needs sympy 1.11 or later (Debian: python3-sympy);
without it the goal fails, and with OPTIONAL=1 it is skipped.
"""
import ast
import glob
import inspect
import os
import random
import re
import sys
import textwrap

try:
    import sympy
except ImportError:
    OPTIONAL = os.environ.get("OPTIONAL") == "1"
    print(f"{'skipped' if OPTIONAL else 'missing'}: python3-sympy is not installed; nothing was proved")
    if not OPTIONAL:
        print("try: OPTIONAL=1, which skips goals whose tools are not installed")
    print(f"0 passed, {int(not OPTIONAL)} failed")
    sys.exit(int(not OPTIONAL))

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, HERE)
import formulas  # noqa: E402
import kit  # noqa: E402

# verifies number-20.3b00

GRADIENTS = re.compile(r"backward|^batchnorm_sums$|_loss$|^cross_entropy(_columns)?$|^distill$|^row_scale$|^dropout$|"
                       r"^rotary$|^regroup$")
# Rows with such names that have no formula of their own.
WITHOUT = {
    "attention_backward_over": "attention_backward in another place (test_attention_forms.c compares bits)",
    "attention_strip_backward": "attention_backward in parts (test_attention_strips.c compares bits)",
    "distill_columns": "columns of what distill makes, by the same formula (test_distill.c compares bits)",
    "loss_sum": "a sum of losses, whose derivative is 1",
}
# Changes that change nothing.
EQUAL = {
    ("preference_loss", "kto_slopes: no sign: -(beta * (a - refc - zed))"): "s(x) (1 - s(x)) is even in x",
}
DIGITS = 30


def rows():
    """From each row of kernels.def to the comment above it."""
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "core/ops/*.def"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\s*)?^KERNEL\((\w+)\)", text, re.M):
            found[match.group(2)] = match.group(1) or ""
    return found


def words_of(text):
    return " ".join(text.split())


class Algebra:
    """Functions as symbols of their own, so that an identity of rational functions is left."""

    def __init__(self):
        self.symbols = {}
        self.roots = {}

    def symbol(self, kind, argument):
        key = (kind, sympy.expand(argument))
        if key not in self.symbols:
            self.symbols[key] = sympy.Symbol(f"f{len(self.symbols)}_{kind}")
        return self.symbols[key]

    def root(self, base):
        symbol = self.symbol("root", base)
        self.roots[symbol] = sympy.expand(base)
        return symbol

    def exponential(self, argument):
        """exp(-u) is 1 / exp(u), and one of the two is the symbol."""
        argument = sympy.expand(argument)
        return (1 / self.symbol("E", -argument) if argument.could_extract_minus_sign() else
                self.symbol("E", argument))

    def plain(self, expression):
        expression = expression.replace(sympy.exp, kit.E)
        expression = expression.replace(kit.E, lambda u: self.exponential(self.plain(u)))
        for kind in (sympy.tanh, sympy.erf, sympy.log):
            expression = expression.replace(kind, lambda u, kind=kind: self.symbol(kind.__name__, self.plain(u)))
        return expression.replace(lambda e: e.is_Pow and e.exp.is_Rational and e.exp.q == 2,
                                  lambda e: self.root(self.plain(e.base)) ** (2 * e.exp))

    def is_zero(self, expression):
        numerator = sympy.numer(sympy.together(self.plain(expression)))
        numerator = sympy.expand(numerator)
        # Later roots may hold earlier ones.
        for symbol, base in reversed(list(self.roots.items())):
            if numerator.has(symbol):
                over, under = sympy.fraction(sympy.together(base))
                numerator = sympy.expand(sympy.rem(numerator, under * symbol ** 2 - over, symbol))
        return numerator == 0


class Change(ast.NodeTransformer):
    """Makes the change number `at` of those that there are in a function; counts them."""

    def __init__(self, at):
        self.at, self.count, self.what = at, 0, ""

    def is_it(self, node, what):
        self.count += 1
        if self.count - 1 != self.at:
            return False
        self.what = f"{what}: {ast.unparse(node)}"
        return True

    def visit_BinOp(self, node):
        self.generic_visit(node)
        other = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}.get(type(node.op))
        if other and self.is_it(node, other.__name__):
            node.op = other()
        return node

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if self.is_it(node, "Sub"):
            node.op = ast.Sub()
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub) and self.is_it(node, "no sign") else node

    def visit_Constant(self, node):
        if type(node.value) is int and self.is_it(node, "one more"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        other = {ast.Eq: ast.NotEq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.In: ast.NotIn}.get(type(node.ops[0]))
        if other and self.is_it(node, other.__name__):
            node.ops = [other()]
        return node

    def visit_IfExp(self, node):
        self.generic_visit(node)
        if self.is_it(node, "other way round"):
            node.body, node.orelse = node.orelse, node.body
        return node


def changed(function, at):
    """The function with change `at`, and its words; None beyond the last."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    change = Change(at)
    tree.body[0].decorator_list = []
    tree.body[0].args.defaults = []
    change.visit(tree.body[0])
    if not change.what:
        return None, None
    names = dict(vars(formulas))
    names.update(inspect.getclosurevars(function).nonlocals)
    exec(compile(ast.fix_missing_locations(tree), function.__name__, "exec"), names)
    return names[function.__name__], change.what


def with_other(function, name, other):
    """`function` with `other` where it uses `name`."""
    names = dict(vars(formulas))
    names.update(inspect.getclosurevars(function).nonlocals)
    for key, value in list(names.items()):
        if value is name:
            names[key] = other
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    exec(compile(tree, function.__name__, "exec"), names)
    return names[function.__name__]


def mutants(backward, helper):
    for at in range(10000):
        mutant, what = changed(backward, at)
        if mutant is None:
            break
        yield inspect.getsource(backward), mutant, what
    if helper is None or helper.__name__ == "<lambda>":
        return
    for at in range(10000):
        mutant, what = changed(helper, at)
        if mutant is None:
            break
        yield inspect.getsource(helper), with_other(backward, helper, mutant), f"{helper.__name__}: {what}"


def value(expression, point):
    return sympy.sympify(expression).replace(kit.E, sympy.exp).evalf(DIGITS, subs=point)


def flat(arrays):
    return {(name, index): sympy.sympify(e) for name, array in arrays.items() for index, e in array.items()}


def differs(mutant, right, point):
    try:
        got = flat(mutant())
        if got.keys() != right.keys():
            return True
        return any(not abs(value(got[k], point) - right[k]) < 10 ** (-DIGITS // 2) for k in right)
    except (ArithmeticError, KeyError, TypeError, ValueError, IndexError):
        return True


def prove(function):
    """Faults of a case, how many derivatives it proves, and which changes of its backward formula it finds."""
    inputs, loss, backward, *more = function()
    helper = more[0] if more else None
    given = flat(backward())
    wanted = {k: sympy.diff(loss, symbol) for k, symbol in flat(inputs).items()}
    if given.keys() != wanted.keys():
        return [f"gradients of {sorted(map(str, given))}, inputs {sorted(map(str, wanted))}"], 0, {}
    faults = [f"d_{name}{list(index)} is not the derivative" for (name, index), e in given.items()
              if not Algebra().is_zero(wanted[name, index] - e)]
    symbols = sorted(set().union(loss.free_symbols, *(e.free_symbols for e in given.values())), key=str)
    draw = random.Random(len(symbols))
    point = {s: sympy.Rational(draw.randint(11, 97), 100) for s in symbols}
    right = {k: value(e, point) for k, e in wanted.items()}
    changes = {(code, number, what): differs(mutant, right, point)
               for number, (code, mutant, what) in enumerate(mutants(backward, helper))}
    return faults, len(given), changes


def not_found(changes):
    """Changes that no case of a row with the same code found, less those that change nothing."""
    found = {(row, *key) for row, case in changes for key, seen in case.items() if seen}
    missed = sorted({(row, *key) for row, case in changes for key, seen in case.items() if not seen} - found)
    return [(row, what) for row, _, _, what in missed if (row, what) not in EQUAL]


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    comments = rows()
    if word == "list":
        for row, name, words, _, _ in kit.CASES:
            print(f"{row}\t{name}\t{words_of(words)}")
        return 0
    lines, passed, failed, changes = [], 0, 0, []
    have = {row for row, *_ in kit.CASES}
    for row in sorted(r for r in comments if GRADIENTS.search(r) and word in r):
        if row not in have and row not in WITHOUT:
            lines.append(f"FAILED {row}: no case in formulas.py")
            failed += 1
    for row, name, words, where, function in kit.CASES:
        if word not in row:
            continue
        faults, proved, case = prove(function)
        changes.append((row, case))
        if row not in comments:
            faults.append("kernels.def has no such row")
        text = comments.get(row, "")
        if where:
            with open(os.path.join(ROOT, where), encoding="utf-8") as file:
                text = file.read()
        if words_of(words) not in words_of(text.replace("\n *", "\n")):
            faults.append(f"its words are not there: {words_of(words)}")
        title = f"{row} ({name})" if name else row
        lines.append(f"{'FAILED' if faults else 'proved'} {title}: {proved} derivatives, {sum(case.values())} changes found")
        lines += [f"    {fault}" for fault in faults]
        passed, failed = passed + (not faults), failed + bool(faults)
        print(lines[-1 - len(faults)], *lines[len(lines) - len(faults):], sep="\n", flush=True)
    for row, what in not_found(changes):
        lines.append(f"FAILED {row}: a change was not found: {what}")
        print(lines[-1])
        failed += 1
    out = os.path.join(ROOT, "build/derivatives")
    os.makedirs(out, exist_ok=True)
    lines += [f"changes nothing: {row}: {what}: {why}" for (row, what), why in EQUAL.items() if word in row]
    lines += [f"without a formula of its own: {row}: {why}" for row, why in sorted(WITHOUT.items())]
    counts = f"{passed} passed, {failed} failed"
    with open(os.path.join(out, "report.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines + [counts]) + "\n")
    print(*(line for line in lines if "no case" in line), counts, sep="\n")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
