"""The constants and bounds of the paper's theorems, as pure functions.

Symbols: K arms, d observed features, d_h non-zero latent coefficients, T the horizon, t a
round, p the coupling probability, delta the confidence, sigma the noise, s_max^2 and s_min^2 the
largest diagonal entry and the smallest eigenvalue of the augmented Gram matrix.

What is here is what the paper states. Where a statement does not survive a check by simulation,
the docstring says so and a test shows it.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.augment import Augmentation
from rolf.kernel import shared
from rolf.types import FloatArray

# --- constants of the algorithms ---------------------------------------------------------------
# Those marked @shared are what the policies themselves run, compiled and online.


@shared
def cap_on_draws(round: int, p: float, delta: float) -> float:
    """rho_t = log((t+1)^2/delta) / log(1/(1-p)); with 1-p for p, that of an appendix."""
    log = 2.0 * math.log(round + 1.0) - math.log(delta)
    return log / -math.log(1.0 - p)


def resampling_cap(t: int, *, p: float = 0.6, delta: float = 1e-4) -> float:
    """rho_t: the probability that no draw of round t matches is at most delta/(t+1)^2.

    >>> round(resampling_cap(1, p=0.6, delta=1e-4), 2)
    11.56
    """
    return cap_on_draws(t, p, delta)


@shared
def draw_probabilities(
    round: int, arms: int, p: float, delta: float, greedy: bool
) -> tuple[float, float]:
    """The probability of the centre of round t's draw, and that of each other arm.

    ``greedy``: pseudo-actions are drawn around the centre, not around the action.
    """
    return capped_probabilities(round, arms, p, greedy, int(cap_on_draws(round, p, delta)) + 1)


@shared
def capped_probabilities(
    round: int, arms: int, p: float, greedy: bool, most: int
) -> tuple[float, float]:
    """The same, for at most ``most`` draws."""
    if arms == 1:
        return 1.0, 0.0
    leave = 1.0 / math.sqrt(round)
    others = arms - 1.0
    if not greedy:  # a match is as likely for every arm, so it favours none
        return 1.0 - leave, leave / others
    # One trial ends at arm k, matched, with these probabilities; q is their sum.
    at_centre = (1.0 - leave) * p
    at_other = leave / others * (1.0 - p) / others
    q = at_centre + others * at_other
    ends = (1.0 - (1.0 - q) ** most) / q
    last = (1.0 - q) ** (most - 1.0)  # no match before the last trial
    centre = at_centre * ends + last * (1.0 - leave - at_centre)
    return centre, at_other * ends + last * (leave / others - at_other)


def lasso_exploration(augmented: Augmentation) -> float:
    """C_e (1 - p)^2 of RoLF-Lasso: (8K)^3 s_max^2/s_min^2."""
    ratio = (augmented.sigma_max / augmented.sigma_min) ** 2
    return float((8.0 * augmented.arms) ** 3 * ratio)


def ridge_exploration(size: int) -> float:
    """C_e (1 - p)^2 of a RoLF ridge in ``size`` dimensions: 32 size^2."""
    return 32.0 * size**2


def exploration_factor_lasso(features: FloatArray, *, p: float = 0.6) -> float:
    """C_e of RoLF-Lasso, (8K)^3 s_max^2 / (s_min^2 (1-p)^2)."""
    return lasso_exploration(Augmentation(features)) / (1.0 - p) ** 2


def exploration_factor_ridge(size: int, *, p: float = 0.6) -> float:
    """C_e of RoLF-Ridge with size K, and of RoLF-V with size K + d: 32 size^2/(1-p)^2."""
    return ridge_exploration(size) / (1.0 - p) ** 2


def exploration_rounds(factor: float, size: int, horizon: int, *, delta: float = 1e-4) -> int:
    """Forced rounds until the horizon: while their count is at most C_e log(2 size t^2/delta)."""
    needed = math.floor(factor * math.log(2.0 * size * horizon**2 / delta)) + 1
    return min(horizon, needed)


def forced_phase(factor: float, size: int, *, delta: float = 1e-4) -> int:
    """The first round that is not forced: t = C_e log(2 size t^2/delta).

    >>> round(forced_phase(exploration_factor_ridge(30), 30) / 1e6, 1)  # million rounds
    8.1
    """
    t = 1
    for _ in range(200):  # a fixed point
        t = math.ceil(factor * math.log(2.0 * size * t**2 / delta))
    return t


@shared
def penalty_growth(arms: int, delta: float, round: int) -> float:
    """sqrt(t log(2 K t^2/delta)), by which the lasso's penalties grow."""
    log = math.log(2.0 * arms) + 2.0 * math.log(round) - math.log(delta)
    return math.sqrt(round * log)


def penalty_factors(sigma_max: float, noise: float, p: float) -> tuple[float, float]:
    """What the growth is multiplied by in the imputation and in the main lasso."""
    imputation = 2.0 * sigma_max * noise * math.sqrt(2.0 * p)
    return imputation, 4.0 * sigma_max * noise * math.sqrt(2.0) / p


def lasso_penalties(
    t: int,
    arms: int,
    *,
    sigma_max: float,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> tuple[float, float]:
    """Penalties of the imputation and of the main lasso in round t."""
    growth = penalty_growth(arms, delta, t)
    imputation, main = penalty_factors(sigma_max, noise, p)
    return imputation * growth, main * growth


def eigenvalue_interval(features: FloatArray) -> tuple[float, float]:
    """Where all eigenvalues of the augmented Gram matrix lie; both ends are attained.

    The paper's interval is [min(l_min, 1), max(l_max, 1)] with l the eigenvalues of X X'; for
    d = K nothing is augmented and the 1 does not count.
    """
    augmented = Augmentation(features)
    values = (augmented.scales**2).tolist()
    if augmented.rank < augmented.arms:
        values.append(1.0)
    return min(values), max(values)


# --- how often the greedy arm is left -------------------------------------------------------------


def departures(
    horizon: int,
    arms: int,
    *,
    start: int = 1,
    p: float = 0.6,
    delta: float = 1e-4,
    coupling: str = "action",
) -> float:
    """Expected number of rounds, from ``start`` on, that leave the greedy arm: exact."""
    greedy = coupling == "greedy"
    rounds = range(start, horizon + 1)
    return math.fsum((arms - 1) * draw_probabilities(t, arms, p, delta, greedy)[1] for t in rounds)


def departures_bound(horizon: int, arms: int, *, delta: float = 1e-4) -> float:
    """The paper's bound on it, 2 sqrt(T)/(K-1) + 2 delta.

    For the paper's own coupling, around the action, departures are sum t^(-1/2), about
    2 sqrt(T): the bound holds for K = 2 and fails from K = 3 on, because the proof bounds the
    chance of one other arm and drops the sum over K - 1 of them. For coupling around the greedy
    arm it holds from round 3 on; round 1 leaves the greedy arm for certain.
    """
    return 2.0 * math.sqrt(horizon) / (arms - 1) + 2.0 * delta


# --- the Gram matrix ----------------------------------------------------------------------------


def gram_rounds(arms: int, epsilon: float, *, p: float = 0.6, delta: float = 1e-4) -> int:
    """From which t on the corollary puts the weighted Gram matrix within epsilon of all arms'."""
    return forced_phase(8.0 * arms**2 / (epsilon * (1.0 - p)) ** 2, arms, delta=delta)


def gram_deviation(counts: FloatArray, *, p: float = 0.6) -> float:
    """||I - V^-1/2 A V^-1/2||, A the sum of x x'/p over matched rounds, V that over all arms.

    The augmented features of all arms, made orthonormal by V, are a square orthogonal matrix, so
    the eigenvalues are N_a/(p t) and this is the largest |1 - N_a/(p t)|. They add up to 1/p. The
    paper's corollary, that all of them approach 1, therefore fails for any K >= 2: it takes the
    pseudo-action to have probabilities phi, but redrawn until it matches it has the action's.
    """
    shares = np.asarray(counts, dtype=np.float64) / (p * float(np.sum(counts)))
    return float(np.abs(1.0 - shares).max())


# --- consistency ------------------------------------------------------------------------------


def lasso_error_bound(
    t: int,
    arms: int,
    sparsity: int,
    *,
    sigma_max: float,
    sigma_min: float,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """Largest error of an arm's estimated reward, RoLF-Lasso; ``sparsity`` is d + d_h.

    With probability at least 1 - 3 delta, after the forced phase. As stated it does not hold: an
    arm that is not the greedy one is played about 2 sqrt(t)/(K-1) times, so its error falls no
    faster than t^(-1/4), and with the theory's penalties it even grows.
    """
    root = math.sqrt(2.0 * sparsity / t * math.log(2.0 * arms * t**2 / delta))
    return 8.0 * noise * sigma_max / (p * sigma_min) * root


def ridge_error_bound(
    t: int, arms: int, *, noise: float, p: float = 0.6, delta: float = 1e-4
) -> float:
    """The same for RoLF-Ridge, for parameters and augmented features of at most 1.

    As stated it does not hold, for the same reason: it falls as t^(-1/2), the error as t^(-1/4).
    """
    inner = noise / p * math.sqrt(arms * math.log((t + 1.0) / delta)) + math.sqrt(arms)
    return 2.0 / math.sqrt(t) * inner


# --- regret -----------------------------------------------------------------------------------


def _coin_terms(horizon: int, arms: int, delta: float) -> float:
    return (
        4.0 * math.sqrt(horizon) / (arms - 1)
        + 2.0 * math.sqrt(2.0 * horizon * math.log(2.0 / delta))
        + 4.0 * delta
    )


def lasso_regret_bound(
    horizon: int,
    arms: int,
    sparsity: int,
    *,
    sigma_max: float,
    sigma_min: float,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """Regret of RoLF-Lasso, with probability at least 1 - 6 delta; ``sparsity`` is d + d_h.

    As stated it does not hold: its first term leaves out the s_max^2/s_min^2 that is in C_e, so
    the forced phase alone can cost more.
    """
    log = math.log(2.0 * arms * horizon**2 / delta)
    forced = 2.0 * 8.0**3 * arms**3 / (1.0 - p) ** 2 * log
    slope = 32.0 * noise * sigma_max / (p * sigma_min)
    error = slope * math.sqrt(2.0 * sparsity * horizon * log)
    return forced + _coin_terms(horizon, arms, delta) + error


def ridge_regret_bound(
    horizon: int,
    arms: int,
    observed: int,
    *,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """Regret of RoLF-Ridge, with probability at least 1 - 4 delta.

    As stated it does not hold: a forced round costs up to 2, which the proof says and then
    drops, and the phase lasts log(2 K t^2/delta), not log(2 d T^2/delta).
    """
    factor = exploration_factor_ridge(arms, p=p)
    forced = factor * math.log(2.0 * observed * horizon**2 / delta)
    inner = noise / p * math.sqrt(math.log(horizon / delta)) + 1.0
    error = 8.0 * math.sqrt(arms * horizon) * inner
    return forced + _coin_terms(horizon, arms, delta) + error


def varying_regret_bound(
    horizon: int,
    arms: int,
    observed: int,
    *,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """Regret of RoLF-V, with probability at least 1 - 4 delta.

    As stated it does not hold, for the reason given at ``ridge_regret_bound``.
    """
    size = arms + observed
    factor = exploration_factor_ridge(size, p=p)
    forced = factor * math.log(2.0 * size * horizon**2 / delta)
    coin = 4.0 * delta + 2.0 * math.sqrt(horizon) / (size - 1)
    inner = noise / p * math.sqrt(math.log(horizon**2 / delta)) + 1.0
    return forced + coin + 8.0 * math.sqrt(size * horizon) * inner


def repaired_ridge_bound(
    horizon: int, arms: int, *, noise: float, p: float = 0.6, delta: float = 1e-4
) -> float:
    """``ridge_regret_bound`` with its constants repaired: a forced round costs 2, the forced phase
    has log(2 K T^2/delta), and the greedy arm is left 2 sqrt(T) times.

    It does not hold either: a gap of the order T^(-1/4) costs more
    (``exploration_exponent``).
    """
    factor = exploration_factor_ridge(arms, p=p)
    forced = 2.0 * factor * math.log(2.0 * arms * horizon**2 / delta)
    coin = 2.0 * math.sqrt(2.0 * horizon * math.log(2.0 / delta)) + 4.0 * delta
    inner = noise / p * math.sqrt(math.log(horizon / delta)) + 1.0
    error = 8.0 * math.sqrt(arms * horizon) * inner
    return forced + coin + 4.0 * math.sqrt(horizon) + error


def repaired_lasso_bound(
    horizon: int,
    arms: int,
    sparsity: int,
    *,
    sigma_max: float,
    sigma_min: float,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """``lasso_regret_bound`` with its constants repaired: the forced phase has the factor
    s_max^2/s_min^2 of C_e, and the greedy arm is left 2 sqrt(T) times.

    It does not hold either: with the theory's penalties a run can stay on a worse arm for ever.
    """
    log = math.log(2.0 * arms * horizon**2 / delta)
    ratio = sigma_max / sigma_min
    forced = 2.0 * (8.0 * arms) ** 3 * ratio**2 / (1.0 - p) ** 2 * log
    coin = 2.0 * math.sqrt(2.0 * horizon * math.log(2.0 / delta)) + 4.0 * delta
    error = 32.0 * noise * ratio / p * math.sqrt(2.0 * sparsity * horizon * log)
    return forced + coin + 4.0 * math.sqrt(horizon) + error


def repaired_varying_bound(
    horizon: int,
    arms: int,
    observed: int,
    *,
    noise: float,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """``varying_regret_bound`` with its constants repaired like those of
    ``repaired_ridge_bound``, whose fate it shares."""
    size = arms + observed
    factor = exploration_factor_ridge(size, p=p)
    forced = 2.0 * factor * math.log(2.0 * size * horizon**2 / delta)
    coin = 2.0 * math.sqrt(2.0 * horizon * math.log(2.0 / delta)) + 4.0 * delta
    inner = noise / p * math.sqrt(math.log(horizon**2 / delta)) + 1.0
    error = 8.0 * math.sqrt(size * horizon) * inner
    return forced + coin + 4.0 * math.sqrt(horizon) + error


def ridge_rate_bound(
    horizon: int,
    features: FloatArray,
    *,
    noise: float,
    size: float,
    forced: int,
    p: float = 0.6,
    delta: float = 1e-4,
) -> float:
    """Regret of RoLF-Ridge, with probability at least 1 - 4 delta: of the order
    sqrt(K log T) T^(3/4). Proved in the documentation (proofs).

    For coupling around the action, mean rewards within [-1, 1], coefficients of norm at most
    ``size`` and ``forced`` forced rounds until the horizon.
    """
    augmented = Augmentation(features)
    arms, log = augmented.arms, math.log(2.0 * augmented.arms * horizon / delta)
    start = max(2.0 * arms, 2.0 + 4.0 * (arms - 1) * log, p * (arms / augmented.sigma_min) ** 2)
    departures = 2.0 * math.sqrt(horizon) + math.sqrt(horizon * math.log(1.0 / delta) / 2.0)
    error = 2.0 * noise * math.sqrt(2.0 * log) + math.sqrt(p) * size
    narrow = 8.0 / 3.0 * math.sqrt(arms) * math.pow(horizon, 0.75) * error
    return 2.0 * (start * start + 1.0 + forced + departures) + narrow


def standard_lower_bound(horizon: int, arms: int, *, noise: float = 1.0) -> float:
    """sigma sqrt((K-1) T)/27: the regret of any policy on one of the K instances that have the
    feature e_1 and the means D e_1 + 2 D e_j or D e_1, for T >= (K-1) sigma^2.

    All of them have d + d_h <= 2 and singular values 1 (proofs, in the documentation).
    """
    return noise * math.sqrt((arms - 1.0) * horizon) / 27.0


def frontier(horizon: int, arms: int, regret: float, *, noise: float = 1.0) -> float:
    """What a policy loses on one of those instances if it loses at most ``regret`` on all that
    are linear in the feature: (K-1) sigma^2 T/(16 e B).

    For (K-1) sigma^2 <= B <= sigma sqrt((K-1) T/(16 e)).
    """
    return (arms - 1.0) * noise**2 * horizon / (16.0 * math.e * regret)


def ucb_regret_bound(horizon: int, gaps: FloatArray, *, noise: float) -> float:
    """Expected regret of UCB with the radius sigma sqrt(4 log(T)/N): 8 sigma sqrt(K T log T) and
    three times the sum of the gaps (Lattimore and Szepesvari, theorem 7.2)."""
    rest = 3.0 * float(np.sum(gaps))
    return 8.0 * noise * math.sqrt(len(gaps) * horizon * math.log(horizon)) + rest


def exploration_exponent(leave: float) -> float:
    """How the worst regret grows, as a power of T, if the greedy arm is left with probability
    t^-leave.

    The other arms are played of the order of T^(1-leave) times, at a cost of that order. A gap of
    the order of T^(-(1-leave)/2) cannot be seen in that many plays; missing it costs
    T^((1+leave)/2). The larger of the two counts.

    >>> exploration_exponent(1 / 2)  # RoLF
    0.75
    >>> round(exploration_exponent(1 / 3), 3)  # the best such schedule
    0.667
    """
    return max(1.0 - leave, (1.0 + leave) / 2.0)


def information(horizon: int, features: FloatArray, *, ridge: float = 1.0) -> float:
    """gamma_T = K log(1 + T g/(ridge K)), g the largest squared norm of an augmented feature.

    It bounds log det(I + sum x x'/ridge) over any T plays.
    """
    matrix = Augmentation(features).matrix
    arms, largest = len(matrix), float((matrix**2).sum(axis=1).max())
    return arms * math.log1p(horizon * largest / (ridge * arms))


def optimism_regret_bound(
    horizon: int,
    features: FloatArray,
    *,
    noise: float,
    size: float,
    ridge: float = 1.0,
    delta: float = 1e-4,
) -> float:
    """Regret of OFUL on the augmented features, with probability at least 1 - delta.

    2 max(1, b) sqrt(2 T gamma_T) with b = noise sqrt(gamma_T + 2 log(1/delta)) + sqrt(ridge) size,
    for mean rewards within [-1, 1] and coefficients of norm at most ``size``. The proof is in the
    documentation (theory).
    """
    gained = information(horizon, features, ridge=ridge)
    radius = noise * math.sqrt(gained - 2.0 * math.log(delta)) + math.sqrt(ridge) * size
    return 2.0 * max(1.0, radius) * math.sqrt(2.0 * horizon * gained)


def varying_optimism_bound(
    horizon: int,
    arms: int,
    observed: int,
    *,
    noise: float,
    size: float,
    length: float,
    ridge: float = 1.0,
    delta: float = 1e-4,
) -> float:
    """Regret of OFUL on the features (x_{a,t}, e_a), with probability at least 1 - delta.

    The bound of ``optimism_regret_bound`` in dimension d + K, for features of norm at most
    ``length``, chosen in any way that does not look ahead, and coefficients and biases that
    together have a norm of at most ``size``.
    """
    dimension = arms + observed
    gained = dimension * math.log1p(horizon * (1.0 + length**2) / (ridge * dimension))
    radius = noise * math.sqrt(gained - 2.0 * math.log(delta)) + math.sqrt(ridge) * size
    return 2.0 * max(1.0, radius) * math.sqrt(2.0 * horizon * gained)


def oful_lower_bound(horizon: int) -> float:
    """Regret of OFUL on the two-arm instance is at least T/16 (for T > 256 sigma^2 log 2)."""
    return horizon / 16.0


def lints_lower_bound(horizon: int, *, slack: float = 0.0) -> float:
    """Regret of LinTS there is at least (1/2 - slack) T/8 (for T > 256 sigma^2 log(1/slack))."""
    return (0.5 - slack) * horizon / 8.0


def observed_only_lower_bound(horizon: int) -> float:
    """Regret on the three-arm instance of any policy that sees observed features only: T/6."""
    return horizon / 6.0


def aligned_basis(features: FloatArray, means: FloatArray) -> FloatArray:
    """A basis of the complement in which at most one latent coefficient is not zero.

    The paper says that d_h = K - d for any basis where the latent features span the observed
    ones. Turning the basis towards the latent part of these very means gives d_h = 1. (It
    needs the means, so no policy can have it; but "for any basis" is too much.)
    """
    augmented = Augmentation(features)
    latent = augmented.project(means)
    turn = np.linalg.qr(np.column_stack([latent, np.eye(latent.size)[:, 1:]]))[0]
    return np.asarray(augmented.basis() @ turn, dtype=np.float64)
