#!/usr/bin/env python3
"""Writes known.csv: known answers of scipy and statsmodels for crates/stats/tests/known.rs.

Made with scipy 1.17.1 and statsmodels 0.15.0; needed only to make the table anew:
    python3 known.py > known.csv
Columns: what is computed, its arguments (lists are separated by blanks), the result.
Numbers are printed with 17 digits. Tests of ranks are here without ties only: with ties, scipy's
exact methods ignore them, and the oracle is the enumeration in enumeration.rs.
"""

import random

import mpmath
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower, TTestPower

mpmath.mp.dps = 40
random.seed(20081)


def row(what, *columns):
    cells = []
    for column in columns:
        if isinstance(column, (list, tuple)):
            cells.append(" ".join(repr(float(x)) for x in column))
        elif isinstance(column, str):
            cells.append(column)
        else:
            cells.append(repr(float(column)))
    print(",".join([what, *cells]))


def t_tail(t, df):
    """P(T > t), t > 0, by the hypergeometric series in 40 digits, as scipy loses some far out."""
    a, t, df = mpmath.mpf(df) / 2, mpmath.mpf(t), mpmath.mpf(df)
    x = df / (df + t * t)
    beta = mpmath.beta(a, mpmath.mpf(1) / 2)
    return x**a * mpmath.sqrt(1 - x) / (2 * a * beta) * mpmath.hyp2f1(a + 0.5, 1, a + 1, x)


print("# Known answers of scipy and statsmodels; written by known.py beside it.")
for z in [-37, -30, -20, -12.5, -9, -6, -3, -1.96, -1, -0.1, 0, 0.5, 1.64, 3, 5.5, 8]:
    row("normal_cdf", z, stats.norm.cdf(z))
for p in [1e-300, 1e-100, 1e-20, 1e-9, 1e-4, 0.025, 0.05, 0.3, 0.5, 0.6, 0.9, 0.975, 0.9995]:
    # As scipy rounds a few of these in the thirteenth digit, in 40 digits.
    z = mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z) / mpmath.mpf(p)), stats.norm.ppf(p))
    row("normal_quantile", p, z)
for df in [1, 1.5, 2, 3, 4.75, 9, 14, 29, 30, 61, 250, 1e4]:
    for t in [0.001, 0.1, 0.7, 1.3, 2.1, 4, 9, 25]:
        row("t_cdf", -t, df, t_tail(t, df))
        row("t_cdf", t, df, 1 - t_tail(t, df))
    for p in [1e-30, 1e-12, 1e-6, 0.005, 0.025, 0.3, 0.8, 0.95, 0.975, 0.995]:
        row("t_quantile", p, df, stats.t.ppf(p, df))


def values(n, shift=0.0, sd=1.0):
    return [round(10 + shift + random.gauss(0, sd), 6) for _ in range(n)]


for n, m in [(2, 2), (3, 5), (5, 3), (8, 8), (15, 12), (40, 30)]:
    for shift in [0, 0.8, -3]:
        x, y = values(n), values(m, shift, 2)
        for alternative in ["two-sided", "less", "greater"]:
            found = stats.ttest_ind(y, x, equal_var=False, alternative=alternative)
            row("welch", x, y, alternative, found.statistic, found.df, found.pvalue)
        interval = stats.ttest_ind(y, x, equal_var=False).confidence_interval(0.95)
        row("welch_interval", x, y, interval.low, interval.high)
for n, m in [(1, 4), (4, 1), (3, 3), (4, 6), (6, 4), (5, 5), (9, 12), (12, 9), (25, 20), (30, 40)]:
    for shift in [0, 0.8, -3]:
        x, y = values(n), values(m, shift)
        assert len(set(x + y)) == n + m
        for alternative in ["two-sided", "less", "greater"]:
            found = stats.mannwhitneyu(y, x, alternative=alternative, method="exact")
            row("rank_sum", x, y, alternative, found.statistic, found.pvalue)
for n in [1, 2, 4, 5, 6, 9, 13, 20, 33, 50]:
    for shift in [0, 0.5, -2]:
        x, y = values(n), values(n, shift)
        d = [b - a for a, b in zip(x, y)]
        assert len(set(map(abs, d))) == n and 0.0 not in d
        for alternative in ["two-sided", "less", "greater"]:
            found = stats.wilcoxon(y, x, alternative=alternative, method="exact")
            row("signed_rank", x, y, alternative, stats.wilcoxon(
                y, x, alternative="greater", method="exact").statistic, found.pvalue)
# Beyond the exact range: the corrected normal approximation, ties and zeros included.
for shift in [0, 0.1]:
    x = [round(v, 1) for v in values(600)]
    y = [round(v, 1) for v in values(600, shift)]
    for zeros, method in [("wilcox", "signed_rank_normal"), ("pratt", "signed_rank_normal_pratt")]:
        found = stats.wilcoxon(y, x, zero_method=zeros, correction=True, method="asymptotic")
        row(method, x, y, found.pvalue)
    found = stats.mannwhitneyu(y, x, method="asymptotic")
    row("rank_sum_normal", x, y, found.pvalue)
for n in [1, 5, 40]:
    p = [random.random() ** 3 for _ in range(n)]
    row("holm", p, list(multipletests(p, method="holm")[1]))
    row("benjamini_hochberg", p, list(multipletests(p, method="fdr_bh")[1]))
for effect in [0.2, 0.5, 1, 1.67, 3]:
    for n in [3, 6, 10, 25, 100]:
        for what, test in [("power_unpaired", TTestIndPower()), ("power_paired", TTestPower())]:
            power = test.power(effect, n, 0.05)
            # scipy's noncentral t gives NaN where the power is all but one.
            if power == power:
                row(what, effect, n, power)
