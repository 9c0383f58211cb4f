"""Losses and policy state, training diagnostics, replay ingress, everything else. Pure."""

from __future__ import annotations

from unilab_sidecar.panels.parts import grid, grids, heading, metric_cell, subheading
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Block, Segment, line

USUAL_OTHERS = 24


def losses(picture: Picture, width: int) -> Block:
    """Losses, and in rows of their own below them the policy's state, with short labels."""
    of_losses = [metric_cell(metric) for metric in picture.losses]
    of_policy = [metric_cell(metric) for metric in picture.policy]
    rows = [row for block in grids([of_losses, of_policy], width) for row in block]
    return [heading("Losses and policy", width), *rows] if rows else []


def diagnostics(picture: Picture, width: int) -> Block:
    """Training diagnostics, then ingress gauges, indented; never among the losses."""
    training = [metric_cell(metric) for metric in picture.diagnostics]
    ingress = [metric_cell(metric) for metric in picture.ingress]
    return [row for block in grids([training, ingress], width, indent=2) for row in block]


def metrics(picture: Picture, width: int) -> Block:
    """The whole panel, for screens that have it beside the rewards."""
    rows = losses(picture, width)
    if more := diagnostics(picture, width):
        title = subheading("Training") if rows else heading("Training", width)
        rows += [title, *more]
    return rows


def others(picture: Picture, width: int, most: int = USUAL_OTHERS) -> Block:
    """Tags outside the table, by their whole names; beyond ``most`` they are counted."""
    shown = picture.others
    if not shown:
        return []
    rows = grid([metric_cell(metric) for metric in shown[:most]], width)
    if len(shown) > most:
        more = f"and {len(shown) - most:,} more; / filters them"
        rows.append(line(Segment(more, "dim")))
    return [heading("Other metrics", width), *rows]
