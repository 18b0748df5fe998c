# SPDX-License-Identifier: MIT
"""Forward and backward formulas of the rows of core/ops/*.def, as the comments above the rows state them.

A case is a function that names its row, the words of the row's comment (or of another file) that the backward formula
repeats, and returns the inputs with respect to which is derived, the forward formula, and the backward formula as a
function of its own, which derivatives.py also changes, one operator at a time. Symbols are exact: what a proof does not
cover (rounding, the order of sums, approximations of exp) is in README.md beside this file.
"""
import sympy
from kit import A, B, E, abs_less, array, case, dot, erf, log, logistic, scalar, sqrt, tanh, total, zeros

half = sympy.Rational(1, 2)
PI = sympy.pi


# Sums, tables and rows.

@case("bias_backward", "d_bias (n) (+)= sum over rows, in order, of d_y")
def bias():
    x, b, g = A("x", 3, 2), A("b", 2), A("g", 3, 2)
    y = array(3, 2, lambda r, c: x[r, c] + b[c])

    def backward():
        return {"b": array(2, lambda c: total(g[r, c] for r in range(3)))}
    return {"b": b}, total(g[i] * y[i] for i in y.keys()), backward


@case("embedding_token_backward",
      "d_wte[v] (+)= sum over rows r with ids[r] = first + v, in increasing r, of mask(r) * d_out[r]")
def embedding_token():
    table, g, mask = A("w", 5, 2), A("g", 4, 2), A("m", 4)
    ids, first, count = (3, 1, 3, 0), 1, 3
    y = array(4, 2, lambda r, c: mask[r] * table[ids[r], c])

    def backward():
        return {"w": array(count, 2, lambda v, c: total(
            mask[r] * g[r, c] for r in range(4) if ids[r] == first + v))}
    part = B({(v, c): table[first + v, c] for v in range(count) for c in range(2)})
    return {"w": part}, total(g[i] * y[i] for i in y.keys()), backward


@case("embedding_position_backward", "d_wpe[t] (+)= sum over samples b, in order, of mask * d_out[b, t]; "
      "rows t >= sequence get 0")
def embedding_position():
    table, g, mask = A("w", 4, 1), A("g", 2, 3), A("m", 2, 3)
    y = array(2, 3, lambda b, t: mask[b, t] * table[t, 0])

    def backward():
        return {"w": array(4, 1, lambda t, c: total(
            mask[b, t] * g[b, t] for b in range(2)) if t < 3 else scalar(0))}
    return {"w": table}, total(g[i] * y[i] for i in y.keys()), backward


@case("sample_row_backward", "in the rows that sample_row picks, divided by their\nnumber, 0 elsewhere")
def sample_row():
    x, g = A("x", 4), scalar("g")
    picked = (1, 2)
    y = total(x[t] for t in picked) / len(picked)

    def backward():
        return {"x": array(4, lambda t: g / len(picked) if t in picked else scalar(0))}
    return {"x": x}, g * y, backward


def pooled(name, weight, divisor):
    @case("pool_rows_backward", "of token t < n of sample b w[t] d_y[s + b] / d, else 0", name=name)
    def pool_rows():
        x, g, n = A("x", 4), scalar("g"), 3
        y = total(weight(t, n) * x[t] for t in range(n)) / divisor(n)

        def backward():
            return {"x": array(4, lambda t: weight(t, n) * g / divisor(n) if t < n else scalar(0))}
        return {"x": x}, g * y, backward


pooled("mean", lambda t, n: 1, lambda n: n)
pooled("first", lambda t, n: int(t == 0), lambda n: 1)
pooled("last", lambda t, n: int(t == n - 1), lambda n: 1)
pooled("sqrt", lambda t, n: 1, lambda n: sqrt(n))
pooled("weighted", lambda t, n: t + 1, lambda n: sympy.Integer(n * (n + 1)) / 2)


@case("unit_rows_backward", "d_x = (d_y - y (y . d_y)) / n")
def unit_rows():
    x, g = A("x", 3), A("g", 3)
    n = sqrt(total(x[i] ** 2 for i in range(3)))
    y = array(3, lambda i: x[i] / n)

    def backward():
        along = dot(y, g)
        return {"x": array(3, lambda i: (g[i] - y[i] * along) / n)}
    return {"x": x}, dot(g, y), backward


@case("row_scale", "times weights[r], row by row")
def row_scale():
    losses, w, z, g = A("l", 2), A("w", 2), A("z", 2, 2), A("s", 2, 2)
    # A loss is any function of its logits; its slope s is what cross_entropy leaves in their place.
    y = total(w[r] * total(g[r, c] * z[r, c] for c in range(2)) for r in range(2))
    del losses

    def backward():
        return {"z": array(2, 2, lambda r, c: g[r, c] * w[r])}
    return {"z": z}, y, backward


# Experts.

def routed(name, words, chosen_alone):
    @case("route_backward", words, name=name)
    def route():
        z, d_w, chosen, experts = A("z", 4), A("d", 2), (2, 0), 4
        whole = total(E(z[e]) for e in (chosen if chosen_alone else range(4)))
        w = array(2, lambda j: E(z[chosen[j]]) / whole)

        def backward_alone():
            mean = dot(w, d_w)
            return {"z": array(experts, lambda e: w[chosen.index(e)] * (d_w[chosen.index(e)] - mean) if e in chosen
                               else scalar(0))}

        def backward():
            p = array(experts, lambda e: E(z[e]) / whole)
            s = array(experts, lambda e: d_w[chosen.index(e)] if e in chosen else 0)
            return {"z": array(experts, lambda e: p[e] * (s[e] - dot(p, s)))}
        return {"z": z}, dot(w, d_w), backward_alone if chosen_alone else backward


routed("renormalised", "of a chosen expert w (d_w - sum_m w_m d_w_m), else 0", True)
routed("plain", "p (s - sum_m p_m s_m), s being d_w of a chosen expert and 0 of others", False)


def scored(name, words, renormalised):
    @case("route_scored_backward", words, name=name)
    def route():
        z, d_w, chosen, experts, scale = A("z", 4), A("d", 2), (2, 0), 4, scalar("c")
        s = array(2, lambda j: 1 / (1 + E(-z[chosen[j]])))
        whole = total(s[j] for j in range(2)) if renormalised else 1
        w = array(2, lambda j: scale * s[j] / whole)

        def backward():
            mean = total(s[j] / whole * d_w[j] for j in range(2)) if renormalised else 0
            d_s = array(2, lambda j: scale * (d_w[j] - mean) / whole)
            return {"z": array(experts, lambda e: d_s[chosen.index(e)] * s[chosen.index(e)] * (1 - s[chosen.index(e)])
                               if e in chosen else scalar(0))}
        return {"z": z}, dot(w, d_w), backward


scored("renormalised", "d_s = scale d_w, with `renormalise` scale (d_w - sum_m v_m d_w_m)\n/ sum", True)
scored("plain", "d_logits = d_s s (1 - s) of chosen experts, else 0", False)


@case("route_balance_loss", "slopes\n(experts) = weight * experts * N_e / R / R")
def balance():
    n, p, w, rows = A("n", 3), A("p", 3), scalar("w"), scalar("r")

    def backward():
        return {"p": array(3, lambda e: w * 3 * n[e] / rows / rows)}
    return {"p": p}, w * 3 * total(n[e] / rows * (p[e] / rows) for e in range(3)), backward


@case("route_balance_backward", "d_logits += w p_e (slope_e - sum_m slope_m p_m)")
def balanced():
    z, slope, w, g = A("z", 3), A("s", 3), scalar("w"), A("g", 3)
    whole = total(E(z[e]) for e in range(3))
    p = array(3, lambda e: E(z[e]) / whole)

    def backward():
        return {"z": array(3, lambda e: g[e] + w * p[e] * (slope[e] - dot(slope, p)))}
    return {"z": z}, dot(g, z) + w * dot(slope, p), backward


@case("clamped_backward", "d_gate = d_y (u + 1) s (1 + alpha g (1 - s)), 0 where gate > limit; d_up = d_y g s, 0\nwhere up is beyond its bounds")
def clamped():
    # Three pairs: within the bounds, the gate beyond its own, and the up.
    gate, up, d_y, alpha, limit = A("z", 3), A("x", 3), A("g", 3), scalar("a"), scalar("l")
    g = array(3, lambda i: limit if i == 1 else gate[i])
    u = array(3, lambda i: -limit if i == 2 else up[i])
    s = array(3, lambda i: 1 / (1 + E(-alpha * g[i])))

    def backward():
        return {"z": array(3, lambda i: scalar(0) if i == 1 else
                           d_y[i] * (u[i] + 1) * s[i] * (1 + alpha * g[i] * (1 - s[i]))),
                "x": array(3, lambda i: scalar(0) if i == 2 else d_y[i] * g[i] * s[i])}
    return {"z": gate, "x": up}, total(d_y[i] * (u[i] + 1) * g[i] * s[i] for i in range(3)), backward


@case("expert_bias_backward", "the sum over the rows of each expert, in order, of d_y's row")
def expert_biases():
    # Three rows, of which the first is the first expert's; they are weighed.
    of, b, w, d_y = (0, 1, 1), A("b", 2, 2), A("w", 3), A("g", 3, 2)

    def backward():
        return {"b": array(2, 2, lambda e, c: total(w[r] * d_y[r, c] for r in range(3) if of[r] == e)),
                "w": array(3, lambda r: total(b[of[r], c] * d_y[r, c] for c in range(2)))}
    return {"b": b, "w": w}, total(w[r] * b[of[r], c] * d_y[r, c] for r in range(3) for c in range(2)), backward


@case("expert_bias_weights", "<b_e, d_y> of each choice's row of d_y and its expert's of bias", name="weights")
def expert_bias_weights():
    of, b, w, d_y, before = (0, 1, 1), A("b", 2, 2), A("w", 3), A("g", 3, 2), A("d", 3)

    def backward():
        return {"w": array(3, lambda r: before[r] + total(b[of[r], c] * d_y[r, c] for c in range(2)))}
    return {"w": w}, dot(before, w) + total(w[r] * b[of[r], c] * d_y[r, c] for r in range(3) for c in range(2)), backward


@case("row_gate_backward", "d_x = s d_y, d_gate = s (1 - s) <x, d_y> of each row")
def row_gate():
    x, z, d_y = A("x", 3), A("z", 1), A("g", 3)
    s = 1 / (1 + E(-z[0]))

    def backward():
        return {"x": array(3, lambda i: s * d_y[i]), "z": array(1, lambda _: s * (1 - s) * dot(x, d_y))}
    return {"x": x, "z": z}, s * dot(x, d_y), backward


@case("expert_weights_backward", "d_weights (rows, top) = <x, g> of each choice's row, then g times the row's weight "
      "is x's\ngradient")
def expert_weights():
    x, w, m, d_y = A("x", 2, 3), A("w", 2), A("m", 2, 3), A("g", 2)
    y = array(2, lambda o: total(w[r] * total(m[o, i] * x[r, i] for i in range(3)) for r in range(2)))

    def backward():
        g = array(3, lambda i: total(m[o, i] * d_y[o] for o in range(2)))
        return {"w": array(2, lambda r: total(x[r, i] * g[i] for i in range(3))),
                "x": array(2, 3, lambda r, i: w[r] * g[i])}
    return {"x": x, "w": w}, dot(d_y, y), backward


# Norms.

@case("layernorm_backward_input",
      "d_x = residual + rstd * (g - mean(g) - xhat * mean(g * xhat)), g = d_y * weight")
def layernorm_input():
    n = 3
    x, w, b, d_y, res, eps = A("x", n), A("w", n), A("b", n), A("g", n), A("r", n), scalar("eps")
    mean = total(x[i] for i in range(n)) / n
    rstd = 1 / sqrt(total((x[i] - mean) ** 2 for i in range(n)) / n + eps)
    y = array(n, lambda i: (x[i] - mean) * rstd * w[i] + b[i])

    def backward():
        g = array(n, lambda i: d_y[i] * w[i])
        xhat = array(n, lambda i: (x[i] - mean) * rstd)
        mean_g = total(g[i] for i in range(n)) / n
        mean_gx = dot(g, xhat) / n
        return {"x": array(n, lambda i: res[i] + rstd * (g[i] - mean_g - xhat[i] * mean_gx))}
    return {"x": x}, dot(d_y, y) + dot(res, x), backward


@case("layernorm_backward_parameters",
      "d_weight (+)= sum over rows of d_y * xhat, d_bias (+)= sum over rows of d_y")
def layernorm_parameters():
    n = 2
    x, w, b, d_y, mean, rstd = A("x", 2, n), A("w", n), A("b", n), A("g", 2, n), A("m", 2), A("s", 2)
    y = array(2, n, lambda r, i: (x[r, i] - mean[r]) * rstd[r] * w[i] + b[i])

    def backward():
        return {"w": array(n, lambda i: total(d_y[r, i] * (x[r, i] - mean[r]) * rstd[r] for r in range(2))),
                "b": array(n, lambda i: total(d_y[r, i] for r in range(2)))}
    return {"w": w, "b": b}, total(d_y[i] * y[i] for i in y.keys()), backward


def rms(offset):
    @case("rmsnorm_backward_input",
          "d_x = residual + rstd * (g - h * mean(g * h)), g = d_y * (offset + weight), h = x * rstd",
          name=f"offset {offset}")
    def rmsnorm_input():
        n = 3
        x, w, d_y, res, eps = A("x", n), A("w", n), A("g", n), A("r", n), scalar("eps")
        rstd = 1 / sqrt(total(x[i] ** 2 for i in range(n)) / n + eps)
        y = array(n, lambda i: x[i] * rstd * (offset + w[i]))

        def backward():
            g = array(n, lambda i: d_y[i] * (offset + w[i]))
            h = array(n, lambda i: x[i] * rstd)
            mean_gh = dot(g, h) / n
            return {"x": array(n, lambda i: res[i] + rstd * (g[i] - h[i] * mean_gh))}
        return {"x": x}, dot(d_y, y) + dot(res, x), backward


rms(0)
rms(1)


@case("rmsnorm_backward_weight", "d_weight (+)= sum over rows, in order, of d_y * x * rstd")
def rmsnorm_weight():
    x, w, d_y, rstd = A("x", 2, 2), A("w", 2), A("g", 2, 2), A("s", 2)
    y = array(2, 2, lambda r, i: x[r, i] * rstd[r] * w[i])

    def backward():
        return {"w": array(2, lambda i: total(d_y[r, i] * x[r, i] * rstd[r] for r in range(2)))}
    return {"w": w}, total(d_y[i] * y[i] for i in y.keys()), backward


def batch_values(n):
    x, w, b, eps = A("x", n), scalar("w"), scalar("b"), scalar("eps")
    mean = total(x[i] for i in range(n)) / n
    rstd = 1 / sqrt(total((x[i] - mean) ** 2 for i in range(n)) / n + eps)
    return x, w, b, mean, rstd


@case("batchnorm_sums", "d_bias = the sum over rows of d_y, d_weight = that of d_y xhat, xhat = (x - mean) rstd")
def batchnorm_sums():
    n = 3
    x, w, b, mean, rstd = batch_values(n)
    d_y = A("g", n)
    y = array(n, lambda i: (x[i] - mean) * (rstd * w) + b)

    def backward():
        return {"w": B({(): total(d_y[i] * (x[i] - mean) * rstd for i in range(n))}),
                "b": B({(): total(d_y[i] for i in range(n))})}
    return {"w": B({(): w}), "b": B({(): b})}, dot(d_y, y), backward


@case("batchnorm_backward", "d_x = rstd weight (d_y - (d_bias + xhat d_weight) / n)")
def batchnorm():
    n = 3
    x, w, b, mean, rstd = batch_values(n)
    d_y = A("g", n)
    y = array(n, lambda i: (x[i] - mean) * (rstd * w) + b)

    def backward():
        xhat = array(n, lambda i: (x[i] - mean) * rstd)
        d_bias, d_weight = total(d_y[i] for i in range(n)), dot(d_y, xhat)
        return {"x": array(n, lambda i: rstd * w * (d_y[i] - (d_bias + xhat[i] * d_weight) / n))}
    return {"x": x}, dot(d_y, y), backward


@case("batchnorm_backward", "with statistics that do not depend on x, rstd weight d_y", name="frozen")
def batchnorm_frozen():
    x, w, b, d_y, mean, rstd = A("x", 2), scalar("w"), scalar("b"), A("g", 2), scalar("m"), scalar("s")
    y = array(2, lambda i: (x[i] - mean) * (rstd * w) + b)

    def backward():
        return {"x": array(2, lambda i: rstd * w * d_y[i])}
    return {"x": x}, dot(d_y, y), backward


# Functions of elements.

def gelu_tanh(x):
    return half * x * (1 + tanh(sqrt(2 / PI) * (x + sympy.Rational(44715, 1000000) * x ** 3)))


def gelu_tanh_slope(x):
    c = sqrt(2 / PI)
    t = tanh(c * (x + sympy.Rational(44715, 1000000) * x ** 3))
    return half * (1 + t) + half * x * (1 - t ** 2) * c * (1 + sympy.Rational(134145, 1000000) * x ** 2)


def gelu_erf(x):
    return half * x * (1 + erf(x / sqrt(2)))


def gelu_erf_slope(x):
    return half * (1 + erf(x / sqrt(2))) + x * E(-x ** 2 / 2) / sqrt(2 * PI)


def silu(x):
    return x / (1 + E(-x))


def silu_slope(x):
    s = 1 / (1 + E(-x))
    return s * (1 + x * (1 - s))


@case("gelu_backward", "d_x = d_y * GELU'(x)")
def gelu():
    x, g = scalar("x"), scalar("g")

    def backward():
        return {"x": B({(): g * gelu_tanh_slope(x)})}
    return {"x": B({(): x})}, g * gelu_tanh(x), backward, gelu_tanh_slope


def gated(name, f, slope):
    @case("swiglu_backward", "d_gate = d_y * up * f'(gate), d_up = d_y * f(gate)", name=name)
    def swiglu():
        gate, up, g = scalar("a"), scalar("u"), scalar("g")

        def backward():
            return {"a": B({(): g * up * slope(gate)}), "u": B({(): g * f(gate)})}
        return {"a": B({(): gate}), "u": B({(): up})}, g * f(gate) * up, backward, slope


gated("silu", silu, silu_slope)
gated("tanh gelu", gelu_tanh, gelu_tanh_slope)
gated("erf gelu", gelu_erf, gelu_erf_slope)


def tanh_slope(x):
    return 1 - tanh(x) ** 2


def activated(name, f, slope):
    @case("activation_backward", "d_x = d_y * f'(x)", name=name)
    def activation():
        x, g = scalar("x"), scalar("g")

        def backward():
            return {"x": B({(): g * slope(x)})}
        return {"x": B({(): x})}, g * f(x), backward, slope


activated("erf gelu", gelu_erf, gelu_erf_slope)
activated("tanh", tanh, tanh_slope)
# A function of pieces is proved on each: below, between and above its corners.
activated("relu above", lambda x: x, lambda x: sympy.Integer(1))
activated("relu beside", lambda x: 0 * x, lambda x: sympy.Integer(0))


@case("dropout", "the mask is its\nown derivative")
def dropout():
    x, mask, p, g, res = A("x", 3), A("m", 3), scalar("p"), A("g", 3), A("r", 3)
    y = array(3, lambda i: res[i] + x[i] * mask[i] / (1 - p))

    def backward():
        return {"x": array(3, lambda i: g[i] * mask[i] / (1 - p)), "r": array(3, lambda i: g[i])}
    return {"x": x, "r": res}, dot(g, y), backward


# Positions.

@case("rotary", "back, which is the derivative")
def rotary():
    width = 4
    x, g, c, s = A("x", width), A("g", width), A("c", width // 2), A("s", width // 2)
    h = width // 2

    def turned(v, sign):
        return array(width, lambda i: v[i] * c[i] - sign * v[i + h] * s[i] if i < h
                     else v[i] * c[i - h] + sign * v[i - h] * s[i - h])
    y = turned(x, 1)

    def backward():
        return {"x": turned(g, -1)}
    return {"x": x}, dot(g, y), backward, turned


@case("regroup", "derivative is the row with groups and parts the other way round")
def regroup():
    groups, parts = 2, 3
    x, g = A("x", groups, parts), A("g", parts, groups)
    y = array(parts, groups, lambda p, q: x[q, p])

    def backward():
        return {"x": array(groups, parts, lambda q, p: g[p, q])}
    return {"x": x}, total(g[i] * y[i] for i in y.keys()), backward


# Attention: probabilities are recomputed from scores and log-sum-exp.

def attends(name, length, heads, causal, window, cap, dropped):
    @case("attention_backward", "d_i = sum_j d_out_ij * out_ij. The\n"
          "gradients of a key-value head add up over its query heads in order", name=name)
    def attention():
        q, k, v = A("q", heads, length), A("k", length), A("v", length)
        g, scale, mask = A("g", heads, length), scalar("scale"), A("m", heads, length, length)

        def seen(i):
            return [j for j in range(length) if (not causal or j <= i) and (window == 0 or abs_less(i, j, window))]

        def score(h, i, j):
            x = scale * q[h, i] * k[j]
            return cap * tanh(x / cap) if cap else x

        def keeps(h, i, j):
            return mask[h, i, j] if dropped else 1

        def share(h, i):
            whole = total(E(score(h, i, j)) for j in seen(i))
            return {j: E(score(h, i, j)) / whole for j in seen(i)}
        p = {(h, i): share(h, i) for h in range(heads) for i in range(length)}
        out = {(h, i): total(keeps(h, i, j) * p[h, i][j] * v[j] for j in seen(i)) for h, i in p}

        def backward():
            d_q, d_k, d_v = zeros(heads, length), zeros(length), zeros(length)
            for h in range(heads):
                for i in range(length):
                    d_i = g[h, i] * out[h, i]
                    for j in seen(i):
                        d_v[j] += p[h, i][j] * keeps(h, i, j) * g[h, i]
                        d_score = p[h, i][j] * (g[h, i] * keeps(h, i, j) * v[j] - d_i)
                        if cap:
                            d_score = d_score * (1 - (score(h, i, j) / cap) ** 2)
                        d_q[h, i] += scale * d_score * k[j]
                        d_k[j] += scale * d_score * q[h, i]
            return {"q": d_q, "k": d_k, "v": d_v}
        return {"q": q, "k": k, "v": v}, total(g[i] * out[i] for i in out), backward


attends("causal, two query heads of one key head", 2, 2, True, 0, 0, False)
attends("both ways", 2, 1, False, 0, 0, False)
attends("three keys in a window of two", 3, 1, True, 2, 0, False)
attends("capped scores", 2, 1, True, 0, scalar("cap"), False)
attends("dropped probabilities", 2, 1, False, 0, 0, True)


@case("attention_biased_backward", "at place T + j - i the sum\n"
      "of p_ij (d_p_ij - d_i), in increasing i")
def attention_biased():
    # Three places, both ways: five distances, of which the middle one is of three pairs.
    length = 3
    q, k, v, g, scale = A("q", length), A("k", length), A("v", length), A("g", length), scalar("scale")
    bias = A("bias", 2 * length - 1)
    score = {(i, j): scale * q[i] * k[j] + bias[length - 1 + j - i] for i in range(length) for j in range(length)}

    def share(i):
        whole = total(E(score[i, j]) for j in range(length))
        return {j: E(score[i, j]) / whole for j in range(length)}
    p = {i: share(i) for i in range(length)}
    out = {i: total(p[i][j] * v[j] for j in range(length)) for i in range(length)}

    def backward():
        d_bias, d_q = zeros(2 * length - 1), zeros(length)
        for i in range(length):
            d_i = g[i] * out[i]
            for j in range(length):
                d_score = p[i][j] * (g[i] * v[j] - d_i)
                d_bias[length - 1 + j - i] += d_score
                d_q[i] += scale * d_score * k[j]
        return {"bias": d_bias, "q": d_q}
    return {"bias": bias, "q": q}, total(g[i] * out[i] for i in range(length)), backward


@case("attention_disentangled_backward", "of s_b the sum of ds_ij k_j, of r_b that of ds_ij q_i, over the pairs of the bucket")
def attention_disentangled():
    # Three places in four buckets, of which the first is of two pairs.
    length, bucket = 3, {-2: 0, -1: 0, 0: 1, 1: 2, 2: 3}
    q, k, v, g, scale = A("q", length), A("k", length), A("v", length), A("g", length), scalar("scale")
    r, s = A("r", 4), A("s", 4)
    pairs = [(i, j) for i in range(length) for j in range(length)]
    b = {(i, j): bucket[i - j] for i, j in pairs}
    score = {(i, j): scale * (q[i] * k[j] + q[i] * r[b[i, j]] + s[b[i, j]] * k[j]) for i, j in pairs}

    def share(i):
        whole = total(E(score[i, j]) for j in range(length))
        return {j: E(score[i, j]) / whole for j in range(length)}
    p = {i: share(i) for i in range(length)}
    out = {i: total(p[i][j] * v[j] for j in range(length)) for i in range(length)}

    def backward():
        d_q, d_k, d_v, d_r, d_s = zeros(length), zeros(length), zeros(length), zeros(4), zeros(4)
        for i, j in pairs:
            ds = p[i][j] * (g[i] * v[j] - g[i] * out[i]) * scale
            d_v[j] += p[i][j] * g[i]
            d_s[b[i, j]] += ds * k[j]
            d_r[b[i, j]] += ds * q[i]
            d_q[i] += ds * (k[j] + r[b[i, j]])
            d_k[j] += ds * (q[i] + s[b[i, j]])
        return {"q": d_q, "k": d_k, "v": d_v, "r": d_r, "s": d_s}
    return {"q": q, "k": k, "v": v, "r": r, "s": s}, total(g[i] * out[i] for i in range(length)), backward


@case("attention_cross_backward", "attention_backward, likewise: d_q and d_kv")
def attention_cross():
    # Two queries and three other rows, of which the last is beyond the sample's length.
    queries, keys, length = 2, 3, 2
    q, k, v, g, scale = A("q", queries), A("k", keys), A("v", keys), A("g", queries), scalar("scale")
    whole = [total(E(scale * q[i] * k[j]) for j in range(length)) for i in range(queries)]
    p = {(i, j): E(scale * q[i] * k[j]) / whole[i] for i in range(queries) for j in range(length)}
    out = {i: total(p[i, j] * v[j] for j in range(length)) for i in range(queries)}

    def backward():
        d_q, d_k, d_v = zeros(queries), zeros(keys), zeros(keys)
        for i in range(queries):
            for j in range(length):
                ds = p[i, j] * (g[i] * v[j] - g[i] * out[i]) * scale
                d_v[j] += p[i, j] * g[i]
                d_q[i] += ds * k[j]
                d_k[j] += ds * q[i]
        return {"q": d_q, "k": d_k, "v": d_v}
    return {"q": q, "k": k, "v": v}, total(g[i] * out[i] for i in range(queries)), backward


@case("attention_sinks_backward", "- sum of e^(sink - lse) <out, d_out> over the rows of each head")
def attention_sinks():
    # Two queries of one head; what attention_backward makes of out and lse with the sink is checked as well.
    length = 2
    q, k, v, g, sink, scale = A("q", length), A("k", length), A("v", length), A("g", length), A("s", 1), scalar("scale")
    whole = [total(E(scale * q[i] * k[j]) for j in range(i + 1)) + E(sink[0]) for i in range(length)] # e^lse
    p = {(i, j): E(scale * q[i] * k[j]) / whole[i] for i in range(length) for j in range(i + 1)}
    out = {i: total(p[i, j] * v[j] for j in range(i + 1)) for i in range(length)}

    def backward():
        d_q, d_k, d_v = zeros(length), zeros(length), zeros(length)
        d_s = array(1, lambda _: -total(E(sink[0]) / whole[i] * (g[i] * out[i]) for i in range(length)))
        for i in range(length):
            for j in range(i + 1):
                ds = p[i, j] * (g[i] * v[j] - g[i] * out[i]) * scale
                d_v[j] += p[i, j] * g[i]
                d_q[i] += ds * k[j]
                d_k[j] += ds * q[i]
        return {"q": d_q, "k": d_k, "v": d_v, "s": d_s}
    return {"q": q, "k": k, "v": v, "s": sink}, total(g[i] * out[i] for i in range(length)), backward


@case("relative_bias_backward", "sum over the places c of bucket b, in order, and the samples s, in order, of d_bias[s, h, c]")
def relative_bias():
    # Two samples of five places in three buckets.
    bucket = (0, 1, 1, 2, 1)
    table, g = A("table", 3), A("g", 2, 5)
    bias = {c: table[bucket[c]] for c in range(5)}

    def backward():
        d_table = zeros(3)
        for c in range(5):
            for s in range(2):
                d_table[bucket[c]] += g[s, c]
        return {"table": d_table}
    return {"table": table}, total(g[s, c] * bias[c] for s in range(2) for c in range(5)), backward


@case("attention_packed_backward", "attention_backward, likewise")
def attention_packed():
    # Two documents in a row of three places: the first of one place, the second of two.
    start, length = (0, 1, 1), 3
    q, k, v, g, scale = A("q", length), A("k", length), A("v", length), A("g", length), scalar("scale")
    keys = {i: [j for j in range(start[i], i + 1)] for i in range(length)}

    def share(i):
        whole = total(E(scale * q[i] * k[j]) for j in keys[i])
        return {j: E(scale * q[i] * k[j]) / whole for j in keys[i]}
    p = {i: share(i) for i in range(length)}
    out = {i: total(p[i][j] * v[j] for j in keys[i]) for i in range(length)}

    def backward():
        d_q, d_k, d_v = zeros(length), zeros(length), zeros(length)
        for i in range(length):
            d_i = g[i] * out[i]
            for j in keys[i]:
                d_v[j] += p[i][j] * g[i]
                d_score = p[i][j] * (g[i] * v[j] - d_i)
                d_q[i] += scale * d_score * k[j]
                d_k[j] += scale * d_score * q[i]
        return {"q": d_q, "k": d_k, "v": d_v}
    return {"q": q, "k": k, "v": v}, total(g[i] * out[i] for i in out), backward


# Images: windows of two by two places over three by three, every second place, one beyond the left edge.

def windows(height, width, kernel, stride, top, left, out):
    for oy in range(out):
        for ox in range(out):
            for ky in range(kernel):
                for kx in range(kernel):
                    y, x = oy * stride + ky - top, ox * stride + kx - left
                    if 0 <= y < height and 0 <= x < width:
                        yield (oy, ox), (ky, kx), (y, x)


SEEN = list(windows(3, 3, 2, 2, 1, 1, 2))


@case("patches_backward", "for each place the sum of what the windows' gradients have of it")
def patches():
    x, g = A("x", 3, 3), A("g", 2, 2, 2, 2)
    loss = total(g[o + k] * x[p] for o, k, p in SEEN)

    def backward():
        return {"x": array(3, 3, lambda y, z: total(g[o + k] for o, k, p in SEEN if p == (y, z)))}
    return {"x": x}, loss, backward


def depthwise_loss(x, w, b, g):
    y = {o: b + total(x[p] * w[k] for q, k, p in SEEN if q == o) for o, _, _ in SEEN}
    return total(g[o] * y[o] for o in y)


@case("depthwise_backward_input", "d_x = the sum over (ky, kx), in order, of d_y weight")
def depthwise_input():
    x, w, g, b = A("x", 3, 3), A("w", 2, 2), A("g", 2, 2), scalar("b")

    def backward():
        return {"x": array(3, 3, lambda y, z: total(g[o] * w[k] for o, k, p in SEEN if p == (y, z)))}
    return {"x": x}, depthwise_loss(x, w, b, g), backward


@case("depthwise_backward_weight", "d_weight[c, ky, kx] (+)= the sum over windows, in order, of d_y[.., c] x[.., c]")
def depthwise_weight():
    x, w, g, b = A("x", 3, 3), A("w", 2, 2), A("g", 2, 2), scalar("b")

    def backward():
        return {"w": array(2, 2, lambda y, z: total(g[o] * x[p] for o, k, p in SEEN if k == (y, z)))}
    return {"w": w}, depthwise_loss(x, w, b, g), backward


@case("window_max_backward", "d_x = the sum of d_y over the windows whose largest it is")
def window_max():
    # The order of the values is given, and holds around a point: the function is linear there.
    x, g = A("x", 3, 3), A("g", 2, 2)
    rank = {(y, z): (5 * y + 7 * z) % 9 for y in range(3) for z in range(3)}
    best = {o: max((p for q, _, p in SEEN if q == o), key=rank.get) for o, _, _ in SEEN}

    def backward():
        return {"x": array(3, 3, lambda y, z: total(g[o] for o in best if best[o] == (y, z)))}
    return {"x": x}, total(g[o] * x[best[o]] for o in best), backward


def means(name, inside):
    @case("window_mean_backward", "d_x = the sum, by (ky, kx) in order, of d_y by the same number", name=name)
    def window_mean():
        x, g = A("x", 3, 3), A("g", 2, 2)
        n = {o: sympy.Integer(sum(1 for q, _, _ in SEEN if q == o) if inside else 4) for o, _, _ in SEEN}

        def backward():
            return {"x": array(3, 3, lambda y, z: total(g[o] / n[o] for o, k, p in SEEN if p == (y, z)))}
        return {"x": x}, total(g[o] * x[p] / n[o] for o, k, p in SEEN), backward


means("all places", False)
means("those inside", True)


# Recurrent cells.

@case("gru_backward", "d_n = d (1 - z) (1 - n^2), d_r = d_n kept r (1 - r), d_z = d (h_before - n) z\n(1 - z); "
      "d_gates = (d_r, d_z, d_n), d_hidden = (d_r, d_z, d_n r), and d_h becomes d z")
def gru():
    gates, hidden, before = A("a", 3), A("h", 3), scalar("p")
    d_y, d_h = scalar("g"), scalar("e")
    r, z = logistic(gates[0] + hidden[0]), logistic(gates[1] + hidden[1])
    kept = hidden[2]
    n = tanh(gates[2] + r * kept)

    def backward():
        d = d_y + d_h
        d_n = d * (1 - z) * (1 - n ** 2)
        d_r = d_n * kept * r * (1 - r)
        d_z = d * (before - n) * z * (1 - z)
        return {"a": B({(0,): d_r, (1,): d_z, (2,): d_n}), "h": B({(0,): d_r, (1,): d_z, (2,): d_n * r}),
                "p": B({(): d * z})}
    h = (1 - z) * n + z * before
    return {"a": gates, "h": hidden, "p": B({(): before})}, (d_y + d_h) * h, backward


@case("lstm_backward", "With d = d_y + d_h, t = tanh(c) and e = d_c + d o (1 - t^2): d_gates = (e g i (1 - i), "
      "e c_before f\n(1 - f), e i (1 - g^2), d t o (1 - o)), and d_c becomes e f")
def lstm():
    gates, before = A("a", 4), scalar("p")
    d_y, d_h, d_c = scalar("g"), scalar("h"), scalar("k")
    i, f, g, o = logistic(gates[0]), logistic(gates[1]), tanh(gates[2]), logistic(gates[3])
    c = f * before + i * g

    def backward():
        d, t = d_y + d_h, tanh(c)
        e = d_c + d * o * (1 - t ** 2)
        return {"a": B({(0,): e * g * i * (1 - i), (1,): e * before * f * (1 - f), (2,): e * i * (1 - g ** 2),
                        (3,): d * t * o * (1 - o)}), "p": B({(): e * f})}
    return {"a": gates, "p": B({(): before})}, (d_y + d_h) * o * tanh(c) + d_c * c, backward


# Adapters.

@case("magnitude_backward", "d_magnitude (n) (+)= sum over rows, in order, of d_y (rows, n; pitch) * x (rows, n) / norms")
def magnitude():
    x, g, m, norm, less, res = A("x", 3, 2), A("g", 3, 2), A("m", 2), A("n", 2), scalar("l"), A("r", 3, 2)
    y = array(3, 2, lambda r, c: res[r, c] + (m[c] / norm[c] - less) * x[r, c])

    def backward():
        return {"m": array(2, lambda c: total(g[r, c] * x[r, c] / norm[c] for r in range(3)))}
    return {"m": m}, total(g[i] * y[i] for i in y.keys()), backward


@case("magnitude_apply", "(magnitude[c] / norms[c] - less) * x", name="its derivative by x is itself")
def magnitude_apply():
    x, g, m, norm, less, res = A("x", 1, 2), A("g", 1, 2), A("m", 2), A("n", 2), scalar("l"), A("r", 1, 2)
    y = array(1, 2, lambda r, c: res[r, c] + (m[c] / norm[c] - less) * x[r, c])

    def backward():
        return {"x": array(1, 2, lambda r, c: (m[c] / norm[c] - less) * g[r, c])}
    return {"x": x}, total(g[i] * y[i] for i in y.keys()), backward


# Losses, whose rows leave the gradient in place of the logits.

def entropy(name, smoothing):
    @case("cross_entropy", "(softmax - target) * step.inverse_valid", name=name)
    def cross_entropy():
        n, label = 3, 1
        z, by, scale = A("z", n), scalar("v"), scalar("scale")
        lse = log(total(E(z[i]) for i in range(n)))
        mean = total(z[i] for i in range(n)) / n
        loss = lse - z[label] + smoothing * (z[label] - mean)

        def backward():
            whole = total(E(z[i]) for i in range(n))
            target = array(n, lambda i: (1 - smoothing) * int(i == label) + smoothing / n)
            return {"z": array(n, lambda i: (E(z[i]) / whole - target[i]) * by * scale)}
        return {"z": z}, loss * by * scale, backward


entropy("label", sympy.Integer(0))
entropy("smoothed", scalar("s"))


@case("cross_entropy_columns", "Columns first .. first + columns - 1 of the gradient that cross_entropy makes")
def cross_entropy_columns():
    n, label, first = 3, 2, 1
    z, by = A("z", n), scalar("v")
    loss = log(total(E(z[i]) for i in range(n))) - z[label]

    def backward():
        whole = total(E(z[i]) for i in range(n))
        return {"z": array(2, lambda i: (E(z[first + i]) / whole - int(first + i == label)) * by)}
    return {"z": B({(i,): z[first + i] for i in range(2)})}, loss * by, backward


@case("sample_loss", "(1 - smoothing) w[y] (-log p[y]) + smoothing / k sum over c of w[c] (-log p[c])", name="classes")
def sample_classes():
    k, label = 3, 0
    z, w, s, by = A("z", k), A("w", k), scalar("s"), scalar("v")
    whole = total(E(z[i]) for i in range(k))
    minus = array(k, lambda c: log(whole) - z[c])
    loss = (1 - s) * w[label] * minus[label] + s / k * total(w[c] * minus[c] for c in range(k))

    def backward():
        share = array(k, lambda c: (1 - s) * w[label] * int(c == label) + s / k * w[c])
        every = total(share[c] for c in range(k))
        return {"z": array(k, lambda c: (every * E(z[c]) / whole - share[c]) * by)}
    return {"z": z}, loss * by, backward


@case("sample_loss", "the bits of the classes that hold (binary\ncross entropy, mean over classes)", name="labels")
def sample_labels():
    k, bits = 2, (1, 0)
    z, by = A("z", k), scalar("v")
    loss = total(-log(logistic(z[c])) if bits[c] else -log(1 - logistic(z[c])) for c in range(k)) / k

    def backward():
        return {"z": array(k, lambda c: (logistic(z[c]) - bits[c]) / k * by)}
    return {"z": z}, loss * by, backward


@case("sample_loss", "a float (squared error, mean over classes)", name="numbers")
def sample_numbers():
    k = 2
    z, t, by = A("z", k), A("t", k), scalar("v")
    loss = total((z[c] - t[c]) ** 2 for c in range(k)) / k

    def backward():
        return {"z": array(k, lambda c: 2 * (z[c] - t[c]) / k * by)}
    return {"z": z}, loss * by, backward


@case("contrast_loss", "(softmax - 1 at first + r) * scale * step.inverse_valid")
def contrast():
    n, own = 3, 1
    z, scale, by = A("z", n), scalar("scale"), scalar("v")
    loss = log(total(E(scale * z[j]) for j in range(n))) - scale * z[own]

    def backward():
        whole = total(E(scale * z[j]) for j in range(n))
        return {"z": array(n, lambda j: (E(scale * z[j]) / whole - int(j == own)) * scale * by)}
    return {"z": z}, loss * by, backward


@case("distill", "losses[r] = (1 - alpha) cross entropy + alpha temperature^2 KL(teacher ||\nstudent)")
def distill():
    n, label = 3, 2
    z, p, alpha, t, by = A("z", n), A("p", 2), scalar("alpha"), scalar("temp"), scalar("v")
    teacher = {0: p[0], 1: 1 - p[0], 2: sympy.Integer(0)}
    whole, soft = total(E(z[i]) for i in range(n)), total(E(z[i] / t) for i in range(n))
    # KL without the teacher's own entropy, which does not depend on the logits.
    kl = total(teacher[i] * (log(soft) - z[i] / t) for i in range(n))
    loss = (1 - alpha) * (log(whole) - z[label]) + alpha * t ** 2 * kl

    def backward():
        return {"z": array(n, lambda i: ((1 - alpha) * (E(z[i]) / whole - int(i == label)) +
                                         alpha * t * (E(z[i] / t) / soft - teacher[i])) * by)}
    return {"z": z}, loss * by, backward


# Preferences: a = minus the sum of a row's losses; weights[r] is the derivative by each of these losses.

PAIRS = "core/ops/preference.h"


def pairs(name, loss, slopes, words, where=PAIRS):
    @case("preference_loss", words, name=name, where=where)
    def preference():
        chosen, rejected, n = A("c", 2), A("r", 3), {"c": 2, "r": 3}
        numbers = {x: scalar(x) for x in ("beta", "smooth", "gamma", "refc", "refr", "zed", "good")}
        a, b = -total(chosen[i] for i in range(2)), -total(rejected[i] for i in range(3))

        def backward():
            up, down = slopes(a, b, n, **numbers)
            return {"c": array(2, lambda i: -up), "r": array(3, lambda i: -down)}
        return {"c": chosen, "r": rejected}, loss(a, b, n, **numbers), backward, slopes


def softplus(x):
    return log(1 + E(x))


def sigmoid_loss(a, b, n, beta, smooth, refc, refr, **_):
    x = beta * ((a - refc) - (b - refr))
    return (1 - smooth) * softplus(-x) + smooth * softplus(x)


def sigmoid_slopes(a, b, n, beta, smooth, refc, refr, **_):
    x = beta * ((a - refc) - (b - refr))
    by_x = smooth * (1 / (1 + E(-x))) - (1 - smooth) * (E(-x) / (1 + E(-x)))
    return beta * by_x, -beta * by_x


def hinge_slopes(a, b, n, beta, **_):
    return -beta, beta


def ipo_loss(a, b, n, beta, refc, refr, **_):
    off = (a - refc) / n["c"] - (b - refr) / n["r"] - 1 / (2 * beta)
    return off ** 2


def ipo_slopes(a, b, n, beta, refc, refr, **_):
    off = (a - refc) / n["c"] - (b - refr) / n["r"] - 1 / (2 * beta)
    return 2 * off / n["c"], -(2 * off / n["r"])


def orpo_loss(a, b, n, beta, **_):
    # log(1 + e^-x) of x = (p - q) + log((1 - e^q) / (1 - e^p)).
    p, q = a / n["c"], b / n["r"]
    return beta * log(1 + E(q) * (1 - E(p)) / (E(p) * (1 - E(q))))


def orpo_slopes(a, b, n, beta, **_):
    p, q = a / n["c"], b / n["r"]
    odds = E(p) * (1 - E(q)) / (E(q) * (1 - E(p)))
    by_x = -(1 / (1 + odds)) * beta
    return by_x / n["c"] / (1 - E(p)), -(by_x / n["r"] / (1 - E(q)))


def simpo_loss(a, b, n, beta, smooth, gamma, **_):
    x = beta * (a / n["c"] - b / n["r"]) - gamma
    return (1 - smooth) * softplus(-x) + smooth * softplus(x)


def simpo_slopes(a, b, n, beta, smooth, gamma, **_):
    x = beta * (a / n["c"] - b / n["r"]) - gamma
    by_x = smooth * (1 / (1 + E(-x))) - (1 - smooth) * (E(-x) / (1 + E(-x)))
    return beta * by_x / n["c"], -(beta * by_x / n["r"])


def kto_loss(a, b, n, beta, refc, zed, good, **_):
    return good * (1 - 1 / (1 + E(-(beta * (a - refc - zed)))))


def kto_slopes(a, b, n, beta, refc, zed, good, **_):
    up = 1 / (1 + E(-(beta * (a - refc - zed))))
    return -(beta * good * up * (1 - up)), sympy.Integer(0)


LOGISTIC = "*slope = smoothing * up - (1.0 - smoothing) * down;"
pairs("sigmoid (DPO)", sigmoid_loss, sigmoid_slopes, LOGISTIC)
pairs("hinge", lambda a, b, n, beta, refc, refr, **_: 1 - beta * ((a - refc) - (b - refr)), hinge_slopes,
      "slope = x < 1.0 ? -n->beta : 0.0;")
pairs("IPO", ipo_loss, ipo_slopes, "slope = 2.0 * off;")
pairs("ORPO", orpo_loss, orpo_slopes, "by[0] /= less[0];")
pairs("SimPO", simpo_loss, simpo_slopes, "x -= n->kind == BP_PREFERENCE_SIMPO ? n->gamma : 0.0;")
pairs("KTO", kto_loss, kto_slopes, "*slope = -up * down;")


# Linear attention by the gated delta rule, one head of two keys' and two values' widths.

def conv_sums(x, w, places, taps):
    return array(places, lambda t: total(
        w[j] * x[t - taps + 1 + j] for j in range(taps) if t - taps + 1 + j >= 0))


@case("short_conv_backward", "d_x_t = sum over j of weight[j] d_p_(t + taps - 1 - j), in the order of j, "
      "d_p = d_y silu'(p)")
def short_conv():
    places, taps = 3, 2
    x, w, g = A("x", places), A("w", taps), A("g", places)
    p = conv_sums(x, w, places, taps)

    def backward():
        d_p = array(places, lambda t: g[t] * silu_slope(p[t]))
        return {"x": array(places, lambda t: total(
            w[j] * d_p[t + taps - 1 - j] for j in range(taps) if t + taps - 1 - j < places))}
    return {"x": x}, total(g[t] * silu(p[t]) for t in range(places)), backward


@case("short_conv_backward_weight", "d_weight[j] (+)= the sum of d_p_t x_(t - taps + 1 + j) over all places")
def short_conv_weight():
    places, taps = 3, 2
    x, w, g = A("x", places), A("w", taps), A("g", places)
    p = conv_sums(x, w, places, taps)

    def backward():
        d_p = array(places, lambda t: g[t] * silu_slope(p[t]))
        return {"w": array(taps, lambda j: total(
            d_p[t] * x[t - taps + 1 + j] for t in range(places) if t - taps + 1 + j >= 0))}
    return {"w": w}, total(g[t] * silu(p[t]) for t in range(places)), backward


@case("delta_backward", "d += q d_y^T, d_q = S d_y, d_u = d^T k, d_b = <d_u, v - S'^T k>, d_v = b d_u, "
      "d_k = d u - S' (b d_u), d' = d - k (b d_u)^T, d_g = <d', S'>, d = e^(-g) d'")
def delta():
    # q and k are what their roots of squares have divided (unit_rows), h is -g.
    places, keys, values = 2, 2, 2
    at_key, at_value = range(keys), range(values)
    q, k, v, g = A("q", places, keys), A("k", places, keys), A("v", places, values), A("g", places, values)
    b, h = A("b", places), A("h", places)
    state, before, after, off, u = zeros(keys, values), {}, {}, {}, {}
    for t in range(places):
        before[t] = array(keys, values, lambda i, c: E(h[t]) * state[i, c])
        off[t] = array(values, lambda c: v[t, c] - total(before[t][i, c] * k[t, i] for i in at_key))
        u[t] = array(values, lambda c: b[t] * off[t][c])
        state = after[t] = array(keys, values, lambda i, c: before[t][i, c] + k[t, i] * u[t][c])

    def backward():
        d_q, d_k, d_v, d_b, d_h = B(), B(), B(), B(), B()
        d = zeros(keys, values)
        for t in reversed(range(places)):
            d = array(keys, values, lambda i, c: d[i, c] + q[t, i] * g[t, c])
            d_u = array(values, lambda c: total(d[i, c] * k[t, i] for i in at_key))
            for i in at_key:
                d_q[t, i] = total(after[t][i, c] * g[t, c] for c in at_value)
                d_k[t, i] = total(d[i, c] * u[t][c] - before[t][i, c] * b[t] * d_u[c] for c in at_value)
            for c in at_value:
                d_v[t, c] = b[t] * d_u[c]
            d_b[t] = dot(d_u, off[t])
            d = array(keys, values, lambda i, c: d[i, c] - k[t, i] * b[t] * d_u[c])
            d_h[t] = dot(d, before[t])
            d = array(keys, values, lambda i, c: E(h[t]) * d[i, c])
        return {"q": d_q, "k": d_k, "v": d_v, "b": d_b, "h": d_h}
    y = total(g[t, c] * after[t][i, c] * q[t, i] for t in range(places) for i in at_key for c in at_value)
    return {"q": q, "k": k, "v": v, "b": b, "h": h}, y, backward


@case("delta_gates_backward", "d_b b (1 - b), and d_g times -e^a_log sigmoid(a_t + dt_bias)")
def delta_gates():
    to_b, to_a, a_log, dt_bias, d_b, d_g = A("b", 1), A("a", 1), scalar("l"), scalar("t"), scalar("d"), scalar("g")
    y = d_b * logistic(to_b[0]) + d_g * -(E(a_log) * log(1 + E(to_a[0] + dt_bias)))

    def backward():
        b = logistic(to_b[0])
        return {"b": B({(0,): d_b * b * (1 - b)}),
                "a": B({(0,): d_g * -(E(a_log) * logistic(to_a[0] + dt_bias))})}
    return {"b": to_b, "a": to_a}, y, backward
