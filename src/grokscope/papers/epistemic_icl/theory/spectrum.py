"""The flow's risks for many examples: averages over the Marchenko-Pastur law.

X'X / n of n standard normal rows in d = lambda n dimensions, lambda < 1, has eigenvalues nu on
[nu-, nu+] = (1 -+ sqrt(lambda))^2 with density sqrt((nu+ - nu)(nu - nu-)) / (2 pi lambda nu). A
mode decays at the rate a(nu) = (n / sigma^2) nu + 1 / tau^2.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

Side = Literal["train", "test"]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
NEGLIGIBLE = 60.0  # an integrand e^-60 below its maximum is left out


class Regime(NamedTuple):
    """What the delays depend on."""

    ratio: float  # lambda = d / n
    strength: float  # n / sigma^2
    damping: float  # 1 / tau^2

    @property
    def edge(self) -> float:
        """nu- = (1 - sqrt(lambda))^2."""
        return (1 - math.sqrt(self.ratio)) ** 2

    @property
    def slowest(self) -> float:
        """kappa = 2 [(n / sigma^2) nu- + 1 / tau^2], the rate at which risks decay in the end."""
        return 2 * (self.strength * self.edge + self.damping)


def log_transient(regime: Regime, time: float, side: Side) -> float:
    """log E_MP[nu^j e^{-2 a(nu) t}], j = 1 for the training risk, 0 for the test risk.

    With nu = nu- + 2 sqrt(lambda) (1 - cos phi) the law is (2 sin^2 phi / (pi nu)) dphi, without
    any singularity at the edges. What is left is steep within phi ~ 1 - sqrt(lambda), through 1/nu,
    and within phi ~ t^{-1/2}, through the exponential: panels grow fourfold from the smaller of
    both, each with Gauss-Legendre nodes, and e^{-kappa t} is taken out before anything underflows.
    """
    root = math.sqrt(regime.ratio)
    speed = 4 * regime.strength * root * time  # the exponent is -speed (1 - cos phi)
    end = math.acos(max(-1.0, 1 - NEGLIGIBLE / speed)) if speed > 0 else math.pi
    begin = min(1 - root, end)
    count = max(1, math.ceil(math.log(end / begin, 4)) + 1)
    steps = np.arange(count) / max(count - 1, 1)
    borders = np.concatenate([[0.0], begin * (end / begin) ** steps])
    borders[-1] = end
    half = np.diff(borders)[:, None] / 2
    phi = borders[:-1, None] + half * (NODES + 1)
    fall = 2 * np.sin(phi / 2) ** 2  # 1 - cos phi, without cancellation
    nu = regime.edge + 2 * root * fall
    density = 2 * np.sin(phi) ** 2 / (math.pi * nu) * half * WEIGHTS
    power = nu if side == "train" else 1.0
    return float(logsumexp(-speed * fall, b=density * power)) - regime.slowest * time


def log_transient_on_grid(regime: Regime, time: float, side: Side, nodes: int) -> float:
    """The same by the trapezoidal rule on a uniform grid of nu: what a first attempt would do. It
    cannot see the lower edge once nu- is closer than a step."""
    high = (1 + math.sqrt(regime.ratio)) ** 2
    nu = np.linspace(regime.edge, high, nodes)
    density = np.sqrt((high - nu) * (nu - regime.edge)) / (2 * math.pi * regime.ratio * nu)
    step = (high - regime.edge) / (nodes - 1)
    power = nu if side == "train" else 1.0
    exponent = -2 * regime.strength * (nu - regime.edge) * time
    return float(logsumexp(exponent, b=density * power * step)) - regime.slowest * time


def late_amplitude(regime: Regime, side: Side) -> float:
    """K of the late law E ~ K t^{-3/2} e^{-kappa t}, from the square root at the lower edge:

    K_test = lambda^{1/4} / (2 lambda nu- sqrt(pi)) (2 n / sigma^2)^{-3/2},  K_train = nu- K_test
    """
    ratio, edge = regime.ratio, regime.edge
    test = ratio**0.25 / (2 * ratio * edge * math.sqrt(math.pi)) * (2 * regime.strength) ** -1.5
    return test if side == "test" else edge * test


def time_at(regime: Regime, level: float, side: Side, transient=log_transient) -> float:
    """When C_0 E falls to a risk; `level` is risk / C_0. NaN if the risk starts below. The root is
    sought in log t: times may be 1e-9, and an absolute tolerance would be a large part of them."""

    def above(time: float) -> float:
        return transient(regime, time, side) - math.log(level)

    if above(0.0) <= 0:
        return math.nan
    high = 1.0 / regime.slowest
    while above(high) > 0:
        high *= 2
    low = high / 2
    while above(low) < 0:
        low /= 2
    root = brentq(lambda log: above(math.exp(log)), math.log(low), math.log(high), xtol=1e-13)
    return math.exp(root)


def delay(regime: Regime, level: float, transient=log_transient) -> float:
    """How much later the test risk falls to a level than the training risk."""
    test, train = (time_at(regime, level, side, transient) for side in ("test", "train"))
    return test - train


def late_delay(regime: Regime) -> float:
    """Formula (13): log(1 / (1 - sqrt(lambda))) / [(n / sigma^2)(1 - sqrt(lambda))^2 + 1 / tau^2].
    It follows from K_test / K_train = (1 - sqrt(lambda))^{-2} if both times are late, and does not
    depend on the level."""
    return -math.log(1 - math.sqrt(regime.ratio)) / (regime.slowest / 2)
