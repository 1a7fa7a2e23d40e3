"""Figure 7: the losses themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

import dpfast
from bench.figures.runner import Outcome, Panel, Run, declared

LOSSES = {
    "Huber": dpfast.Huber(),
    "smoothed Huber": dpfast.models.SmoothedHuber(),
    "Ostrovskii-Bach": dpfast.models.OstrovskiiBach(),
    "log-cosh": dpfast.LogCosh(),
    "pseudo-Huber": dpfast.models.PseudoHuber(),
}


@declared("paper1/figure-7")
def figure_7(run: Run) -> Outcome:
    t = np.linspace(-6.0, 6.0, 121)
    h = 1e-5
    data: dict[str, Any] = {"t": t}
    sound = True
    for label, loss in LOSSES.items():
        psi, slope = loss.psi(t), loss.psi_prime(t)
        data[label] = {"loss": loss.loss(t), "psi": psi, "psi_prime": slope}
        middle = (loss.loss(t + h) - loss.loss(t - h)) / (2.0 * h)
        sound &= bool(np.abs(psi - middle).max() < 1e-6)
        sound &= bool(np.abs(psi).max() <= loss.psi_bound * (1.0 + 1e-12))
        if label != "Huber":
            jump = np.abs(loss.psi_prime(t + 1e-7) - loss.psi_prime(t - 1e-7)).max()
            sound &= bool(jump < 1e-4)

    panels = [
        Panel(t, {label: data[label][part] for label in LOSSES}, {"title": part})
        for part in ("loss", "psi", "psi_prime")
    ]
    panels[0].axes["ylim"] = (-0.3, 11.0)
    return Outcome(
        data,
        "yes" if sound else "no",
        "psi is the derivative of the loss and bounded, psi' continuous but Huber's: checked at "
        "121 points. log-cosh and pseudo-Huber are added.",
        panels,
    )
