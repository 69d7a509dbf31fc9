"""What the CPU of this machine can do, told without LLVM so that a warm process can know it."""

from __future__ import annotations

import os
from functools import cache

from flambeau.core.config import config

__all__ = ["architecture", "cpu_features", "cpu_name", "known_features", "parse_cpuinfo", "vector_bits"]

# Name of the flag in /proc/cpuinfo -> name of the feature in LLVM. Only what generated code can use.
_X86_FEATURES = {
    "sse4a": "sse4a", "pni": "sse3", "ssse3": "ssse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "cx16": "cx16", "popcnt": "popcnt",
    "movbe": "movbe", "aes": "aes", "pclmulqdq": "pclmul", "avx": "avx", "f16c": "f16c", "fma": "fma", "avx2": "avx2",
    "bmi1": "bmi", "bmi2": "bmi2", "abm": "lzcnt", "adx": "adx", "gfni": "gfni", "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq", "avx512f": "avx512f", "avx512cd": "avx512cd", "avx512dq": "avx512dq",
    "avx512bw": "avx512bw", "avx512vl": "avx512vl", "avx512ifma": "avx512ifma", "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2", "avx512_vnni": "avx512vnni", "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni", "amx_tile": "amx-tile", "amx_bf16": "amx-bf16", "amx_int8": "amx-int8",
}

# Scheduling models by what the machine must have, best first.
_INTEL_MODELS = (
    ("avx512fp16", "sapphirerapids"), ("avx512vbmi2", "icelake-server"), ("avx512vl", "skylake-avx512"), ("avx2", "haswell"),
)
_AMD_MODELS = (("avx512vbmi2", "znver4"), ("vaes", "znver3"), ("avx2", "znver2"))


def architecture() -> str:
    """``x86_64`` or ``aarch64``, as the operating system names it."""
    return os.uname().machine


def parse_cpuinfo(text: str) -> tuple[str, frozenset[str]]:
    """The vendor and the LLVM feature names in a ``/proc/cpuinfo`` text; a feature counts only when every core has it."""
    vendor = ""
    common: frozenset[str] | None = None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "vendor_id":
            vendor = value.strip()
        elif name.strip() == "flags":
            flags = frozenset(_X86_FEATURES[flag] for flag in value.split() if flag in _X86_FEATURES)
            common = flags if common is None else common & flags
    return vendor, common or frozenset()


@cache
def _machine() -> tuple[str, frozenset[str]]:
    if architecture() != "x86_64":
        raise NotImplementedError(f"CPU kernels on {architecture()}: only x86_64 is supported; run on an x86_64 machine.")
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        return parse_cpuinfo(file.read())


def known_features() -> frozenset[str]:
    """Every feature name that `cpu_features` can contain."""
    return frozenset(_X86_FEATURES.values())


def cpu_features() -> frozenset[str]:
    """The features that this machine has, by LLVM's names (``avx2``, ``fma``, ``avx512f``, ``amx-bf16`` ...)."""
    return _machine()[1]


@cache
def cpu_name() -> str:
    """The LLVM name of the CPU whose scheduling model fits this machine best."""
    vendor, features = _machine()
    for needed, name in _AMD_MODELS if vendor == "AuthenticAMD" else _INTEL_MODELS:
        if needed in features:
            return name
    return "x86-64"


def vector_bits() -> int:
    """Width of the vectors to use in kernels, in bits: the setting ``vector_bits``, or the widest that the machine has."""
    if config.vector_bits:
        return config.vector_bits
    features = cpu_features()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features:
        return 512
    return 256 if "avx2" in features else 128
