"""Write constants and formulas of the sensitivities as definitions of Coq, `Formulas.v`.

python -m tests.proofs.generate          write the file
python -m tests.proofs.generate --check  fail if it is not what the code says
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dpfast.bayesopt import portfolio
from dpfast.models import (
    Huber,
    LogCosh,
    Logistic,
    OstrovskiiBach,
    PseudoHuber,
    Quantile,
    SmoothAbsolute,
    SmoothedHuber,
)
from dpfast.models.concordance import release_constants, smooth_constants
from dpfast.privacy import mechanisms, rounding, sensitivity, sensitivity_sides
from dpfast.privacy.blackbox import sensitivity as blackbox
from dpfast.privacy.nonconvex import sensitivity as nonconvex
from dpfast.privacy.release import sensitivity as release
from dpfast.privacy.scaling import sensitivity as scaling
from dpfast.privacy.tables import sensitivity as tables
from tests.proofs.translate import Formula, constant, define, translate

FILE = Path(__file__).parent / "Formulas.v"
ROOT = Path(__file__).parents[2]

HEAD = """\
(* Written by `python -m tests.proofs.generate` from dpfast/privacy; do not edit. *)
Require Import Reals Bool List.
From dpfast Require Import Meaning.
Open Scope R_scope.
"""

#: (module, name of a constant); a name that two modules have must be one value.
CONSTANTS = [
    *((rounding, name) for name in ("UNIT_ROUNDOFF", "ROUNDING_PRODUCT", "ROUNDING_FORMULA",
                                    "ROUNDING_ELEMENTARY", "ROUNDING_SUM", "ROUNDING_SHARES")),
    *((sensitivity, name) for name in ("RECORD_ERROR", "JOINT_MARGIN", "_UP", "SQUARE_MU",
                                       "MAJORIZER_STEP", "MAJORIZER_REACH")),
    *((room, "_UP") for room in (tables, scaling, blackbox, nonconvex, release)),
    *((room, "_DOWN") for room in (tables, scaling, release)),
    *((tables, name) for name in ("SQUARE_AT", "_WITH_SQUARES", "_WITHOUT", "GRAM_ROUNDING",
                                  "_COUNT_SQUARE", "_PRODUCT", "_WEIGHT_SQUARE",
                                  "_WEIGHTED_COUNT", "_HISTOGRAM_SQUARE")),
    (scaling, "_WEIGHT_STEP"),
    (mechanisms, "GRID_COST"),
    (release, "ROWS"),
    (release, "STEP_COUNT"),
    (release, "HELD_CELLS"),
]  # fmt: skip

#: Constants of one name and two values: (module, name, name of the definition).
RENAMED = [
    (tables, "SQUARE_WEIGHT", "TABLES_SQUARE_WEIGHT"),
    (scaling, "SQUARE_WEIGHT", "SCALING_SQUARE_WEIGHT"),
    *(
        (portfolio, name, f"PORTFOLIO_{name}")
        for name in ("RANGE", "CHOICE", "VALUES_ALONE", "VALUES", "GRADIENTS")
    ),
]

#: Constants of kernels: the header in csrc, the macro, and the name of what it exceeds 1 by.
MACROS = [("records/view.h", "ROUND_UP", "KEPT_LENGTH")]

#: Losses with a corner, width or bandwidth of 1: a scale divides their constants (claim R1).
CONCORDANT = {
    "LOGISTIC": Logistic(),
    "LOG_COSH": LogCosh(1.0),
    "PSEUDO_HUBER": PseudoHuber(1.0),
    "OSTROVSKII_BACH": OstrovskiiBach(1.0),
    "SMOOTH_ABSOLUTE": SmoothAbsolute(),
    "QUANTILE": Quantile(0.25, 1.0),
}
SMOOTH = {"SMOOTHED_HUBER": SmoothedHuber(1.0, 1.0)}
WITH_SCALE = {"HUBER": Huber(1.0), "PSEUDO_HUBER": PseudoHuber(1.0)}

FORMULAS = [
    Formula(sensitivity.relative_slack),
    Formula(sensitivity.mean_score),
    Formula(sensitivity.mean_rank_one, {"alone": False}),
    Formula(sensitivity.mean_rank_one, {"alone": True}, "mean_rank_one_alone"),
    Formula(sensitivity.mean_square),
    Formula(sensitivity.extreme_eigenvalue),
    Formula(sensitivity.loss_difference),
    Formula(sensitivity.centred_share),
    Formula(sensitivity.histogram),
    Formula(sensitivity.relative),
    Formula(sensitivity._peak),
    Formula(sensitivity._collinear),
    Formula(sensitivity._logistic),
    Formula(sensitivity._within_cell),
    Formula(sensitivity._beyond_grid),
    *(
        Formula(sensitivity.joint_mu, {"coupling": c, "means": means}, f"joint_mu_{name}{end}")
        for c in ("none", "independent", "one-minus-square", "circle", "logistic")
        for name in (c.replace("-", "_"),)
        for means, end in ((False, ""), (True, "_of_means"))
    ),
    Formula(sensitivity_sides._crest),
    Formula(sensitivity_sides._collinear, {}, "collinear_sides"),
    Formula(tables.cell_counts),
    Formula(tables.cell_sums),
    Formula(tables.count_weight),
    Formula(tables.cell_moments),
    Formula(tables.cell_distribution),
    Formula(tables.weighted_factors),
    Formula(tables.count_square_factor),
    Formula(tables.histogram_square_factor),
    Formula(tables.weighted_cell_counts),
    Formula(tables.weighted_cell_moments),
    Formula(tables.weighted_cell_distribution),
    Formula(tables.cell_grams),
    Formula(scaling.complete_weight),
    Formula(scaling.counts),
    Formula(scaling.distances),
    Formula(scaling.clipped_moments),
    Formula(scaling.query_mu),
    Formula(blackbox.clipped_mean),
    Formula(blackbox.mean_loss),
    Formula(blackbox.loss_steps),
    Formula(nonconvex.mean_gradient),
    Formula(nonconvex.gradient_change),
    Formula(nonconvex.change_error),
    Formula(nonconvex.gradient_norm),
    Formula(nonconvex.norm_steps),
    Formula(mechanisms.gaussian_scale),
    Formula(release.eigenvalue_step),
    Formula(release.step_shift),
    Formula(release.step_grid),
]  # fmt: skip


def of_losses() -> list[str]:
    """Define the constants of losses that claims R1, R27, C34 and C35 name."""
    tables = {name: release_constants(loss) for name, loss in CONCORDANT.items()}
    tables |= {name: smooth_constants(loss) for name, loss in SMOOTH.items()}
    lines = [
        define(f"{name}_{field}", value)
        for name, table in tables.items()
        for field, value in table._asdict().items()
    ]
    for name, loss in WITH_SCALE.items():
        part = loss.scale_part
        assert part is not None
        lines.append(define(f"{name}_score_limit", part.score_limit))
        lines.append(define(f"{name}_curvature_limit", part.curvature_limit))
    return lines


def of_kernels() -> list[str]:
    """Define the constants that a macro ``(1.0 + x)`` of a header states, x of them."""
    lines = []
    for header, macro, name in MACROS:
        source = (ROOT / "csrc" / header).read_text(encoding="utf-8")
        found = re.search(rf"#define {macro} \(1\.0 \+ (\S+)\)", source)
        if found is None:
            raise ValueError(f"{macro} of {header} is not 1.0 plus a number")
        lines.append(define(name, float.fromhex(found.group(1))))
    return lines


def text() -> str:
    """Return the file as the code says that it is."""
    constants: dict[str, str] = {}
    for module, name in CONSTANTS:
        line = constant(module, name)
        if constants.setdefault(name.lstrip("_"), line) != line:
            raise ValueError(f"{name} has two values")
    renamed = [define(new, getattr(module, name)) for module, name, new in RENAMED]
    known = [*constants.values(), *renamed, *of_kernels(), *of_losses()]
    return "\n".join([HEAD, *known, "", *translate(FORMULAS), ""])


def main() -> int:
    if "--check" in sys.argv:
        current = FILE.read_text(encoding="utf-8") == text()
        print(f"{FILE.name} is current" if current else f"{FILE.name} differs from the code")
        return int(not current)
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
