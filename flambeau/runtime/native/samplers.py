"""Random numbers that take a varying count of uniform ones, and how they move with their parameters: one element after the other.

The generator's state is `runtime.generator`'s: 624 words of 32 bits, 16 more, then position, whether a normal number is kept, and it.
Parameters that are single precision in the program stay so here (``single``), so that the same draws are accepted as in PyTorch.
"""

from __future__ import annotations

from flambeau.runtime.native.language import Double, Doubles, External, Word, Words, double, native, single

log = External("log", "double")
log1p = External("log1p", "double")
exp = External("exp", "double")
power = External("pow", "double")
square_root = External("sqrt", "double")
floor = External("floor", "double")
ceil = External("ceil", "double")
cosine = External("cos", "double")
sine = External("sin", "double")
lgamma = External("lgamma", "double")

POSITION, HAS_NORMAL, NORMAL = 320, 321, 322
TWO_PI = 6.283185307179586
# Constants that PyTorch writes in single precision.
THIRD, SQUEEZE = 0.3333333432674408, 0.033100001513957977
SMALL = 1e-17
MOST_TERMS = 10_000_000


@native
def word_at(state: Words, i: Word) -> Word:
    """Word ``i`` of the twister."""
    return (state[i >> 1] >> ((i & 1) << 5)) & 0xFFFFFFFF


@native
def next_of(state: Words, i: Word, following: Word, far: Word) -> Word:
    """The word that takes the place of word ``i`` (Matsumoto and Nishimura, 1998)."""
    joined = (word_at(state, i) & 0x80000000) | (word_at(state, following) & 0x7FFFFFFF)
    return word_at(state, far) ^ (joined >> 1) ^ ((joined & 1) * 0x9908B0DF)


@native
def twist_words(state: Words) -> None:
    """The next 624 words, two at a time."""
    far = 397
    for pair in range(312):
        i = pair + pair
        after = i + 2
        if after == 624:
            after = 0
        beyond = far + 1
        if beyond == 624:
            beyond = 0
        low = next_of(state, i, i + 1, far)
        high = next_of(state, i + 1, after, beyond)
        state[pair] = low | (high << 32)
        far = beyond + 1
        if far == 624:
            far = 0
    state[POSITION] = 0


@native
def next_word(state: Words) -> Word:
    """The next 32 random bits."""
    if state[POSITION] >= 624:
        twist_words(state)
    y = word_at(state, state[POSITION])
    state[POSITION] += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    return y ^ (y >> 18)


@native
def uniform(state: Words) -> Double:
    """A number in [0, 1) with 53 bits."""
    high = next_word(state)
    return double(((high << 32) | next_word(state)) & 0x1FFFFFFFFFFFFF) * 1.1102230246251565e-16


@native
def normal(state: Words) -> Double:
    """Box and Muller's pairs; the second of a pair is kept."""
    kept: Doubles = state
    if state[HAS_NORMAL]:
        state[HAS_NORMAL] = 0
        return kept[NORMAL]
    angle = TWO_PI * uniform(state)
    radius = square_root(-2.0 * log1p(-uniform(state)))
    kept[NORMAL] = radius * sine(angle)
    state[HAS_NORMAL] = 1
    return radius * cosine(angle)


@native
def sample_normal(state: Words, count: Word, is_single: Word, unused: Doubles, other: Doubles, out: Doubles) -> None:
    """Normal numbers, one by one."""
    for i in range(count):
        out[i] = normal(state)


@native
def rounded(x: Double, is_single: Word) -> Double:
    """``x`` in the precision of the program."""
    if is_single:
        return single(x)
    return x


@native
def gamma_of(state: Words, given: Double, is_single: Word) -> Double:
    """Marsaglia and Tsang, A simple method for generating gamma variables (2000)."""
    alpha = given
    scale = 1.0
    if alpha < 1.0:
        if alpha == 0.0:
            return 0.0
        scale = power(1.0 - uniform(state), rounded(1.0 / alpha, is_single))
        alpha = rounded(alpha + 1.0, is_single)
    d = rounded(alpha - THIRD, is_single)
    c = 1.0 / square_root(9.0 * d)
    while 1:
        x = normal(state)
        y = 1.0 + c * x
        if y > 0.0:
            v = y * y * y
            u = 1.0 - uniform(state)
            square = x * x
            if u < 1.0 - SQUEEZE * square * square or log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                return scale * d * v
    return 0.0


@native
def sample_gamma(state: Words, count: Word, is_single: Word, alphas: Doubles, unused: Doubles, out: Doubles) -> None:
    """Gamma numbers of rate 1."""
    for i in range(count):
        out[i] = gamma_of(state, alphas[i], is_single)


@native
def poisson_of(state: Words, rate: Double) -> Double:
    """Products of uniform numbers, and for rates of 10 and more Hoermann's PTRS (1993)."""
    if rate == 0.0:
        return 0.0
    if rate < 10.0:
        least = exp(-rate)
        product = uniform(state)
        hits = 0
        while product > least:
            hits += 1
            product = product * uniform(state)
        return double(hits)
    logarithm = log(rate)
    b = 0.931 + 2.53 * square_root(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    inner = 0.9277 - 3.6224 / (b - 2.0)
    while 1:
        u = uniform(state) - 0.5
        v = uniform(state)
        side = 0.5 - u
        if u < 0.0:
            side = 0.5 + u
        k = floor((2.0 * a / side + b) * u + rate + 0.43)
        if side >= 0.07 and v <= inner:
            return k
        if k >= 0.0 and (side >= 0.013 or v <= side):
            height = log(v) + log(inverse_alpha) - log(a / (side * side) + b)
            if height <= k * logarithm - rate - lgamma(k + 1.0):
                return k
    return 0.0


@native
def sample_poisson(state: Words, count: Word, is_single: Word, rates: Doubles, unused: Doubles, out: Doubles) -> None:
    """Poisson numbers."""
    for i in range(count):
        out[i] = poisson_of(state, rates[i])


@native
def stirling_tail(k: Double) -> Double:
    """log(k!) less Stirling's approximation of it."""
    if k <= 9.0:
        return lgamma(k + 1.0) - (k + 0.5) * log(k + 1.0) + (k + 1.0) - 0.9189385332046727
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)


@native
def few_hits(state: Words, n: Double, p: Double, is_single: Word) -> Double:
    """How many gaps between hits, which are geometric numbers, fit into ``n`` trials (Devroye 1986, X.4.3)."""
    logarithm = rounded(log1p(-p), is_single)
    sum = ceil(log(uniform(state)) / logarithm)
    hits = 0
    while sum <= n:
        hits += 1
        sum = sum + ceil(log(uniform(state)) / logarithm)
    return double(hits)


@native
def many_hits(state: Words, n: Double, p: Double, is_single: Word) -> Double:
    """Hoermann's BTRS, The generation of binomial random variates (1993)."""
    mean = rounded(n * p, is_single)
    deviation = rounded(square_root(rounded(mean * rounded(1.0 - p, is_single), is_single)), is_single)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = mean + 0.5
    inner = 0.92 - 4.2 / b
    odds = rounded(p / rounded(1.0 - p, is_single), is_single)
    alpha = (2.83 + 5.1 / b) * deviation
    m = floor(rounded((n + 1.0) * p, is_single))
    while 1:
        u = uniform(state) - 0.5
        v = uniform(state)
        side = 0.5 - u
        if u < 0.0:
            side = 0.5 + u
        k = floor((2.0 * a / side + b) * u + center)
        if k >= 0.0 and k <= n:
            if side >= 0.07 and v <= inner:
                return k
            bound = (m + 0.5) * log((m + 1.0) / (odds * (n - m + 1.0))) + (n + 1.0) * log((n - m + 1.0) / (n - k + 1.0))
            bound = bound + (k + 0.5) * log(odds * (n - k + 1.0) / (k + 1.0))
            bound = bound + stirling_tail(m) + stirling_tail(n - m) - stirling_tail(k) - stirling_tail(n - k)
            if log(v * alpha / (a / (side * side) + b)) <= bound:
                return k
    return 0.0


@native
def hits_of(state: Words, n: Double, p: Double, is_single: Word) -> Double:
    """A binomial number for a probability of at most a half."""
    if rounded(n * p, is_single) >= 10.0:
        return many_hits(state, n, p, is_single)
    return few_hits(state, n, p, is_single)


@native
def sample_binomial(state: Words, count: Word, is_single: Word, totals: Doubles, chances: Doubles, out: Doubles) -> None:
    """Binomial numbers."""
    for i in range(count):
        n = totals[i]
        p = chances[i]
        if n <= 0.0 or p <= 0.0:
            out[i] = 0.0
        elif p >= 1.0:
            out[i] = n
        elif p <= 0.5:
            out[i] = hits_of(state, n, p, is_single)
        elif p > 0.5:
            out[i] = n - hits_of(state, n, rounded(1.0 - p, is_single), is_single)
        else:
            out[i] = p


# -- how samples move with their parameters -----------------------------------------------------------------
# A sample x of a distribution function F(x; a) moves by -(dF/da) / (dF/dx) when a grows and F(x; a) is held (Figurnov, Mohamed and
# Mnih, Implicit reparameterization gradients, 2018).
@native
def digamma(given: Double) -> Double:
    """The derivative of log(gamma(x)) for x > 0: recurrence up to 10, then its asymptotic series."""
    x = given
    total = 0.0
    while x < 10.0:
        total = total - 1.0 / x
        x = x + 1.0
    r = 1.0 / (x * x)
    series = r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - r * (1.0 / 240.0 - r * (1.0 / 132.0)))))
    return total + log(x) - 0.5 / x - series


@native
def gamma_move_low(a: Double, x: Double) -> Double:
    """By the series of the incomplete gamma function, the sum of x ** (n + 1) / (a (a + 1) ... (a + n)), term by term."""
    logarithm = log(x)
    slope = digamma(a) + 1.0 / a
    term = x / a
    total = 0.0
    size = 0.0
    n = 0
    at = a
    while n < MOST_TERMS and (term > SMALL * size or at < x):
        total = total - term * (logarithm - slope)
        size = size + term
        at = at + 1.0
        slope = slope + 1.0 / at
        term = term * (x / at)
        n += 1
    return total


@native
def gamma_move_high(a: Double, x: Double) -> Double:
    """By Legendre's continued fraction for the upper function (Lentz' method), with the derivative of each step by ``a``."""
    b = x - a + 1.0
    d = 1.0 / b
    d_slope = d * d
    c = 1e300
    c_slope = 0.0
    h = d
    h_slope = d_slope
    n = 1
    # Where a is whole the value has settled at n = a, but not its derivative.
    change = 1.0
    factor_slope = 1.0
    while n < MOST_TERMS and (change * change > 1e-32 or factor_slope * factor_slope > 1e-32):
        k = double(n)
        numerator = k * (a - k)
        b = b + 2.0
        bottom = numerator * d + b
        # The derivative of b is -1, that of the numerator k.
        bottom_slope = k * d + numerator * d_slope - 1.0
        c_slope = (k - numerator * c_slope / c) / c - 1.0
        c = b + numerator / c
        d = 1.0 / bottom
        d_slope = -bottom_slope * d * d
        factor = c * d
        factor_slope = c_slope * d + c * d_slope
        h_slope = h_slope * factor + h * factor_slope
        h = h * factor
        change = factor - 1.0
        n += 1
    return x * ((log(x) - digamma(a)) * h + h_slope)


@native
def move_gamma(state: Words, count: Word, is_single: Word, alphas: Doubles, samples: Doubles, out: Doubles) -> None:
    """The derivative of gamma numbers by their shape."""
    for i in range(count):
        a = alphas[i]
        x = samples[i]
        if x <= 0.0:
            out[i] = 0.0
        elif a > 1e8:
            # Cornish and Fisher: x = a + z sqrt(a) + (z * z - 1) / 3 + ...
            root = square_root(a)
            z = (x - a) / root
            z = z - (z * z - 1.0) / (3.0 * root)
            out[i] = 1.0 + z / (2.0 * root)
        elif x < a + 1.0:
            out[i] = gamma_move_low(a, x)
        else:
            out[i] = gamma_move_high(a, x)


@native
def beta_move_low(a: Double, b: Double, x: Double) -> Double:
    """By the series of the incomplete beta function in powers of ``x``."""
    logarithm = log(x)
    slope = digamma(a + b) - digamma(a) - 1.0 / a
    term = x / a
    total = 0.0
    size = 0.0
    n = 0.0
    while n < 1e7 and (term > SMALL * size or (a + b + n) * x > a + n + 1.0):
        total = total - term * (logarithm + slope)
        size = size + term
        slope = slope + 1.0 / (a + b + n) - 1.0 / (a + n + 1.0)
        term = term * (x * (a + b + n) / (a + n + 1.0))
        n = n + 1.0
    return total


@native
def beta_move_high(a: Double, b: Double, x: Double) -> Double:
    """By the same series of the other tail, in powers of 1 - ``x``."""
    y = 1.0 - x
    slope = log1p(-y) + digamma(a + b) - digamma(a)
    term = x / b
    total = 0.0
    size = 0.0
    n = 0.0
    while n < 1e7 and (term > SMALL * size or (a + b + n) * y > b + n + 1.0):
        total = total + term * slope
        size = size + term
        slope = slope + 1.0 / (a + b + n)
        term = term * (y * (a + b + n) / (b + n + 1.0))
        n = n + 1.0
    return total


@native
def move_beta(state: Words, count: Word, is_single: Word, firsts: Doubles, seconds: Doubles, samples: Doubles) -> None:
    """The derivative of beta numbers by their first parameter, over 1 - x; it takes the places of the samples."""
    for i in range(count):
        a = firsts[i]
        b = seconds[i]
        x = samples[i]
        mean = a / (a + b)
        deviation = square_root(mean * b / ((a + b) * (a + b + 1.0)))
        low = x <= mean
        # A series in powers of nearly 1 is long; the other one serves as well unless nearly all weight lies on one side.
        if low and x > 0.9 and x > mean - 5.0 * deviation:
            low = 0
        elif not low and x < 0.1 and x < mean + 5.0 * deviation:
            low = 1
        if x <= 0.0 or x >= 1.0:
            samples[i] = 0.0
        elif low:
            samples[i] = beta_move_low(a, b, x)
        else:
            samples[i] = beta_move_high(a, b, x)
