# SPDX-License-Identifier: MIT
"""Symbols, arrays and cases for formulas.py."""
import itertools
import sympy

erf, log, sqrt, tanh = sympy.erf, sympy.log, sympy.sqrt, sympy.tanh
CASES = []


class E(sympy.Function):
    """The exponential, which sympy neither splits nor joins: its own derivative, and nothing else is known of it."""
    nargs = 1

    def fdiff(self, argindex=1):
        return self


class B(dict):
    """An array: from indices to expressions. One index may be written without a tuple."""

    def __getitem__(self, index):
        return dict.__getitem__(self, index if isinstance(index, tuple) else (index,))

    def __setitem__(self, index, value):
        dict.__setitem__(self, index if isinstance(index, tuple) else (index,), value)


def array(*shape_and_function):
    *shape, f = shape_and_function
    return B({i: f(*i) for i in itertools.product(*(range(n) for n in shape))})


def scalar(name):
    return sympy.Symbol(name, positive=True) if isinstance(name, str) else sympy.Integer(name)


def A(name, *shape):
    return array(*shape, lambda *i: sympy.Symbol(name + "_" + "_".join(map(str, i)), positive=True))


def zeros(*shape):
    return array(*shape, lambda *i: sympy.Integer(0))


def total(terms):
    return sum(terms, sympy.Integer(0))


def dot(a, b):
    return total(a[i] * b[i] for i in a.keys())


def logistic(x):
    return 1 / (1 + E(-x))


def abs_less(i, j, window):
    return abs(i - j) < window


def case(row, words, name="", where=""):
    """The decorated function is a case of `row`, whose comment, or the file `where`, has these words."""
    def keep(function):
        CASES.append((row, name, words, where, function))
        return function
    return keep
