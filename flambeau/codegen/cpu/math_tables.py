"""erf and tanh of float lanes from tables that lie in registers: one short polynomial for each of 16 or 32 parts of the range.

Part ``i`` has its centre at ``i * step``; row ``k`` of a table holds each part's coefficient of the distance from the centre to the
power ``k``. They are minimax fits weighted for relative error, around constant terms that are floats. Results differ from those of
machines without 512-bit permutations by units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.lanes import Lanes, fma, select

Table = tuple[tuple[float, ...], ...]

LANES = 16
# erf; in the first part of erf(x) - x
ERF_STEP = 1043 / 4096
ERF_PARTS = (
    (0.0, 0.28123772, 0.5286147, 0.7200094, 0.850261, 0.9282289, 0.96928, 0.98829097, 0.9960347, 0.998809, 0.99968314,
     0.99992543, 0.9999845, 0.99999714, 0.9999995, 0.99999994),
    (0.12837917, 1.0575358, 0.87059253, 0.6295277, 0.39984778, 0.22307682, 0.10931863, 0.047055874, 0.017791538,
     0.005908715, 0.0017236639, 0.00044166407, 9.940575e-05, 1.9652187e-05, 3.4126379e-06, 5.2053446e-07),
    (2.4462827e-07, -0.26928687, -0.4433621, -0.48091066, -0.40727243, -0.2840319, -0.16702805, -0.08387453, -0.036242854,
     -0.0135425, -0.0043757446, -0.0012338212, -0.00030839109, -5.8795813e-05, -4.804124e-06, -5.095896e-06),
    (-0.3761405, -0.30682185, -0.13965265, 0.035061877, 0.1432624, 0.16671331, 0.13367988, 0.08398642, 0.043290913,
     0.018719284, 0.006876311, 0.002162825, 0.0005855932, 0.00013699887, 2.7770548e-05, 4.887804e-06),
    (0.0002721179, 0.12800919, 0.18188457, 0.14676826, 0.063242525, -0.010368679, -0.045685325, -0.04684128, -0.032045856,
     -0.016910877, -0.008156063, -0.0028424202, -0.0005179982, -0.0005930806, -0.00049886806, 0.00018214028),
    (0.111023925, 0.07999115, 0.0038676593, -0.054479472, -0.06808231, -0.043977838, -0.011797231, 0.008079564, 0.013027967,
     0.009900901, 0.0053778086, 0.0022974522, 0.00080233376, 0.00023372874, 5.7524492e-05, 1.2057721e-05),
)  # fmt: skip
TANH_STEP = 1176 / 4096
TANH_PARTS = (
    (0.0, 0.2794721, 0.5184508, 0.6969413, 0.81723577, 0.8927977, 0.93818206, 0.96471107, 0.97997284, 0.98867226, 0.993605,
     0.9963937, 0.99796754, 0.99885494, 0.99935496, 0.9996367, 0.9997954, 0.9998848, 0.9999351, 0.99996346, 0.99997944,
     0.99998844, 0.9999935, 0.9999963, 0.9999979, 0.9999988, 0.99999934, 0.99999964, 0.9999998, 0.9999999, 0.99999994,
     0.99999994),
    (1.0, 0.9218953, 0.73120874, 0.5142728, 0.33212563, 0.20291223, 0.11981438, 0.06933255, 0.039653197, 0.022527143,
     0.012749052, 0.00719966, 0.0040608454, 0.0022888752, 0.0012896128, 0.00072644325, 0.00040915757, 0.00023043549,
     0.00012977504, 7.308419e-05, 4.115763e-05, 2.3177909e-05, 1.3052581e-05, 7.350512e-06, 4.1394082e-06, 2.3310877e-06,
     1.3127403e-06, 7.392629e-07, 4.16312e-07, 2.344439e-07, 1.3202585e-07, 7.434965e-08),
    (-1.0934582e-07, -0.25764057, -0.3790868, -0.35841194, -0.27140307, -0.18115161, -0.11238458, -0.0668832, -0.03884241,
     -0.022260755, -0.012660256, -0.007185191, -0.00407775, -0.002310582, -0.0012655612, -0.000723859, -0.00038929353,
     -0.00023779657, -0.00011273894, -7.7475925e-05, -5.4401342e-05, -4.5262626e-05, -3.8302107e-05, 1.0016214e-05,
     9.991105e-06, 2.0465155e-05, -1.9303445e-06, -1.1046416e-05, -2.5611456e-05, 1.4720168e-06, -5.634614e-06, 1.9185445e-05),
    (-0.3333244, -0.23528583, -0.047188427, 0.07837386, 0.11111576, 0.09410255, 0.06552147, 0.041414846, 0.024863105,
     0.014510601, 0.008336806, 0.004747921, 0.0026907292, 0.0015206714, 0.00085807487, 0.0004837656, 0.00027260304,
     0.00015356987, 8.649945e-05, 4.8717233e-05, 2.7436601e-05, 1.5451333e-05, 8.701511e-06, 4.9002642e-06, 2.759575e-06,
     1.5540459e-06, 8.751545e-07, 4.928391e-07, 2.7754018e-07, 1.5629513e-07, 8.8016115e-08, 4.956607e-08),
    (-0.00026693413, 0.15125477, 0.14980538, 0.06412618, -0.0030952352, -0.02465184, -0.02697673, -0.018003006,
     -0.013557137, -0.0083666295, -0.004997502, -0.0008579639, 0.0019082273, 0.0023787704, -0.003420732, -0.0005405963,
     -0.0026856868, 0.0008754473, -0.0022379493, 0.0005420431, 0.0016933846, 0.0028388265, 0.003250092, -0.002240858,
     -0.001822672, -0.002939003, 7.916605e-05, 0.001328251, 0.003247284, -0.00022002526, 0.00070918904, -0.0024824354),
    (0.1369486, 0.055976626, -0.045990944, -0.05980436, -0.029825395, -0.005902827, 0.0032640728, 0.0047512846,
     0.0037753482, 0.0025105737, 0.0015424917, 0.00091068627, 0.0005264043, 0.0003007848, 0.00017077899, 9.66115e-05,
     5.4547276e-05, 3.0761465e-05, 1.7337727e-05, 9.76789e-06, 5.502109e-06, 3.098887e-06, 1.7452548e-06, 9.82932e-07,
     5.535633e-07, 3.1172814e-07, 1.7554426e-07, 9.885991e-08, 5.566121e-08, 3.1353004e-08, 1.7681806e-08, 9.947548e-09),
    (-0.022674844, -0.06066144, -0.0049002217, 0.033989932, 0.10575841, 0.042077728, 0.09837372, 0.010949382, 0.06849431,
     0.045970116, 0.02978156, -0.04812755, -0.10487692, -0.10135061, 0.09658438, 0.009625122, 0.082307935, -0.030757727,
     0.07086389, -0.018292883, -0.05512606, -0.091919385, -0.105090186, 0.07228038, 0.058811385, 0.09487851, -0.002570549,
     -0.042898703, -0.10486294, 0.007102329, -0.022901937, 0.08015982),
)  # fmt: skip


def has_tables(x: Lanes) -> bool:
    return x.kind == "float" and "avx512f" in x.e.features


def erf(x: Lanes) -> Lanes:
    """At most 1.3 units in the last place."""
    return in_full_registers(x, _erf)


def tanh(x: Lanes) -> Lanes:
    """At most 1 unit in the last place."""
    return in_full_registers(x, _tanh)


def _erf(x: Lanes) -> Lanes:
    a = x.absolute().at_most(15.49 * ERF_STEP)
    slope, distance, part, index = _slope(a, ERF_STEP, ERF_PARTS)
    return fma(slope, distance, select(part.equals(0.0), a, lookup(ERF_PARTS[0], index))).with_sign_of(x)


def _tanh(x: Lanes) -> Lanes:
    a = x.absolute().at_most(31.49 * TANH_STEP)
    slope, distance, _, index = _slope(a, TANH_STEP, TANH_PARTS)
    return fma(slope, distance, lookup(TANH_PARTS[0], index)).with_sign_of(x)


def _slope(a: Lanes, step: float, table: Table) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """The polynomial without its constant term, divided by the distance from the centre; that, the part and its number in low bits."""
    magic = a.format.magic
    shifted = fma(a, 1.0 / step, magic)
    part, index = shifted - magic, shifted.bits()
    distance = fma(part, -step, a)
    slope = lookup(table[-1], index)
    for row in table[-2:0:-1]:
        slope = fma(slope, distance, lookup(row, index))
    return slope, distance, part, index


def lookup(row: Sequence[float], index: Lanes) -> Lanes:
    """The entry of a row of 16 or 32 whose number stands in the low bits of each lane."""
    e = index.e
    tables = [_constants(index, row[start : start + LANES]) for start in range(0, len(row), LANES)]
    out = Value(e.fresh(), "float", LANES)
    if len(tables) == 1:
        name, operands = "permvar.sf.512", (tables[0], index.value)
    else:
        name, operands = "vpermi2var.ps.512", (tables[0], index.value, tables[1])
    e.declare(f"declare {out.type} @llvm.x86.avx512.{name}({', '.join(o.type for o in operands)})")
    e.emit(f"{out.text} = call {out.type} @llvm.x86.avx512.{name}({', '.join(map(str, operands))})")
    return Lanes(e, out)


def _constants(index: Lanes, numbers: Sequence[float]) -> Value:
    entries = (index.e.const(number, "float") for number in numbers)
    return Value("<" + ", ".join(map(str, entries)) + ">", "float", LANES)


def in_full_registers(x: Lanes, function: Callable[[Lanes], Lanes]) -> Lanes:
    """Apply a function of 16 lanes to fewer or more."""
    e, value, width = x.e, x.value, x.width
    if width == LANES:
        return function(x)
    if width == 1:
        return Lanes(e, e.extract(function(Lanes(e, e.splat(value, LANES))).value, 0))
    if width > LANES:
        halves = [Lanes(e, e.shuffle(value, value, range(start, start + width // 2))) for start in (0, width // 2)]
        low, high = (in_full_registers(half, function).value for half in halves)
        return Lanes(e, e.shuffle(low, high, range(width)))
    wide = e.shuffle(value, value, [lane % width for lane in range(LANES)])
    result = function(Lanes(e, wide)).value
    return Lanes(e, e.shuffle(result, result, range(width)))
