"""Automatic mixed precision: products in a lower precision, what needs range in float32, and gradients that are scaled meanwhile."""

from __future__ import annotations

from flambeau.amp.autocast_mode import autocast as autocast
from flambeau.amp.autocast_mode import custom_bwd as custom_bwd
from flambeau.amp.autocast_mode import custom_fwd as custom_fwd
from flambeau.amp.autocast_mode import is_autocast_available as is_autocast_available
from flambeau.amp.grad_scaler import GradScaler as GradScaler
