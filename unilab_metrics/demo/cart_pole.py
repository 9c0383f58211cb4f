"""Physics of many cart-poles, integrated in small semi-implicit Euler steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

CONTROL_DT_S = 0.02
SUBSTEPS = 4
PHYSICS_DT_S = CONTROL_DT_S / SUBSTEPS

GRAVITY = 9.81
CART_KG = 1.0
POLE_KG = 0.1
HALF_POLE_M = 0.5
MAX_FORCE_N = 10.0


class CartPoleBackend:
    """States as arrays of (environments,): metres, radians from upright, and per second."""

    def __init__(self, num_envs: int) -> None:
        self.cart_position: Vector = np.zeros(num_envs, dtype=np.float32)
        self.cart_velocity: Vector = np.zeros(num_envs, dtype=np.float32)
        self.pole_angle: Vector = np.zeros(num_envs, dtype=np.float32)
        self.pole_velocity: Vector = np.zeros(num_envs, dtype=np.float32)

    def reset(self, chosen: NDArray[np.bool_], *, position: Vector, angle: Vector) -> None:
        """Puts the chosen environments at rest at the given positions and angles."""
        self.cart_position[chosen] = position
        self.pole_angle[chosen] = angle
        self.cart_velocity[chosen] = 0.0
        self.pole_velocity[chosen] = 0.0

    def step(self, actions: Vector) -> None:
        """Advances every environment by one control tick under a force held constant."""
        force = actions * np.float32(MAX_FORCE_N)
        total_kg = CART_KG + POLE_KG
        for _ in range(SUBSTEPS):
            sine, cosine = np.sin(self.pole_angle), np.cos(self.pole_angle)
            centrifugal = POLE_KG * HALF_POLE_M * np.square(self.pole_velocity) * sine
            push = (force + centrifugal) / total_kg
            inertia = HALF_POLE_M * (4.0 / 3.0 - POLE_KG * np.square(cosine) / total_kg)
            pole_acceleration = (GRAVITY * sine - cosine * push) / inertia
            cart_acceleration = push - POLE_KG * HALF_POLE_M * pole_acceleration * cosine / total_kg
            self.cart_velocity += PHYSICS_DT_S * cart_acceleration
            self.pole_velocity += PHYSICS_DT_S * pole_acceleration
            self.cart_position += PHYSICS_DT_S * self.cart_velocity
            self.pole_angle += PHYSICS_DT_S * self.pole_velocity
