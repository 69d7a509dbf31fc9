"""Settings, CPU features, events and counters."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields

import pytest

from flambeau.core import cpu, events
from flambeau.core.config import Config, config


def test_defaults():
    settings = Config.from_environment({})
    assert settings.threads == len(os.sched_getaffinity(0))
    assert settings.debug == 0 and settings.cache and settings.native and not settings.checked
    assert settings.cache_dir.endswith("flambeau") and os.path.isabs(settings.cache_dir)


def test_environment_is_read():
    settings = Config.from_environment(
        {"FLAMBEAU_DEBUG": "3", "FLAMBEAU_NUM_THREADS": "5", "FLAMBEAU_CACHE": "off", "FLAMBEAU_VECTOR_BITS": "256",
         "FLAMBEAU_CACHE_DIR": "~/somewhere", "OTHER": "ignored"}
    )
    assert (settings.debug, settings.threads, settings.cache, settings.vector_bits) == (3, 5, False, 256)
    assert settings.cache_dir == os.path.expanduser("~/somewhere")


@pytest.mark.parametrize(
    ("variable", "value", "needed"),
    [
        ("FLAMBEAU_DEBUG", "7", "a whole number from 0 to 6"),
        ("FLAMBEAU_NUM_THREADS", "many", "a whole number from 1 to 256"),
        ("FLAMBEAU_NATIVE", "maybe", "on or off"),
        ("FLAMBEAU_VECTOR_BITS", "300", "auto, 128, 256 or 512"),
        ("FLAMBEAU_CACHE_DIR", " ", "the path of a folder"),
    ],
)
def test_bad_values_name_the_variable_and_what_is_needed(variable, value, needed):
    with pytest.raises(ValueError, match=needed) as caught:
        Config.from_environment({variable: value})
    assert variable in str(caught.value) and repr(value) in str(caught.value)


def test_settings_are_documented_and_few():
    assert len(fields(Config)) <= 25
    for setting in fields(Config):
        assert len(setting.metadata["doc"]) > 20, setting.name
        assert setting.metadata["variable"].startswith("FLAMBEAU_")


def test_code_key_holds_exactly_what_changes_code():
    before = config.code_key()
    for name, value, changes in [("debug", 2, False), ("threads", 3, False), ("checked", not config.checked, True), ("opt_level", 1, True)]:
        with config.override(**{name: value}):
            assert (config.code_key() != before) == changes, name
    assert config.code_key() == before


def test_override_checks_and_restores():
    before = config.debug
    with pytest.raises(RuntimeError, match="inside"), config.override(debug=before + 1):
        assert config.debug == before + 1
        raise RuntimeError("inside")
    assert config.debug == before
    with pytest.raises(TypeError, match="no setting 'colour'"), config.override(colour=1):
        raise AssertionError("not reached")
    with pytest.raises(ValueError, match="0 to 6"), config.override(debug=99):
        raise AssertionError("not reached")


def test_settings_cannot_be_assigned():
    with pytest.raises(FrozenInstanceError):
        config.debug = 3  # type: ignore[misc]


def test_cpuinfo_keeps_what_every_core_has():
    text = "vendor_id : GenuineIntel\nflags : fpu avx2 fma avx512f amx_tile\n\nvendor_id : GenuineIntel\nflags : fpu avx2 fma\n"
    assert cpu.parse_cpuinfo(text) == ("GenuineIntel", frozenset({"avx2", "fma"}))
    assert cpu.parse_cpuinfo("") == ("", frozenset())


def test_vector_bits_follow_the_setting():
    assert cpu.vector_bits() in (128, 256, 512)
    with config.override(vector_bits=128):
        assert cpu.vector_bits() == 128


def test_subscribers_get_events_until_they_leave():
    seen = []
    unsubscribe = events.subscribe(lambda kind, fields: seen.append((kind, fields)))
    assert events.enabled("anything")
    events.emit("graph", nodes=3)
    unsubscribe()
    unsubscribe()
    events.emit("graph", nodes=4)
    assert seen == [("graph", {"nodes": 3})]
    assert not events.enabled("anything")


def test_debug_levels_print_to_stderr(capsys):
    with config.override(debug=2):
        events.emit("timing", stage="schedule", milliseconds=1.25)
        events.emit("kernel_text", text="line 1\nline 2")
    with config.override(debug=4):
        events.emit("kernel_text", text="line 3\nline 4")
    printed = capsys.readouterr().err
    assert "timing: stage=schedule milliseconds=1.25" in printed
    assert "line 1" not in printed and "line 3\nline 4" in printed


def test_counters_count_and_reset():
    counters = type(events.counters)()
    counters["kernel_compiles"] += 2
    snapshot = counters.snapshot()
    counters.reset()
    assert snapshot == {"kernel_compiles": 2} and counters["kernel_compiles"] == 0


def test_core_needs_no_llvmlite():
    code = "import sys, flambeau.core.config, flambeau.core.cpu, flambeau.core.events; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
