"""Write constants and formulas of the sensitivities as definitions of Coq, `Formulas.v`.

python -m tests.proofs.generate          write the file
python -m tests.proofs.generate --check  fail if it is not what the code says
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpfast.privacy import mechanisms, rounding, sensitivity, sensitivity_sides
from dpfast.privacy.blackbox import sensitivity as blackbox
from dpfast.privacy.nonconvex import sensitivity as nonconvex
from dpfast.privacy.release import sensitivity as release
from dpfast.privacy.scaling import sensitivity as scaling
from dpfast.privacy.tables import sensitivity as tables
from tests.proofs.translate import Formula, constant, translate

FILE = Path(__file__).parent / "Formulas.v"

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
    *((sensitivity, name) for name in ("RECORD_ERROR", "JOINT_MARGIN", "_UP", "SQUARE_MU")),
    *((tables, name) for name in ("_UP", "_DOWN", "SQUARE_AT", "_WITH_SQUARES", "_WITHOUT")),
    (scaling, "_WEIGHT_STEP"),
    (mechanisms, "GRID_COST"),
    (release, "ROWS"),
    (release, "STEP_COUNT"),
]  # fmt: skip

#: Constants of one name and two values: (module, name, name of the definition).
RENAMED = [
    (tables, "SQUARE_WEIGHT", "TABLES_SQUARE_WEIGHT"),
    (scaling, "SQUARE_WEIGHT", "SCALING_SQUARE_WEIGHT"),
]

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


def text() -> str:
    """Return the file as the code says that it is."""
    constants: dict[str, str] = {}
    for module, name in CONSTANTS:
        line = constant(module, name)
        if constants.setdefault(name.lstrip("_"), line) != line:
            raise ValueError(f"{name} has two values")
    renamed = [constant(module, name).replace(name, new) for module, name, new in RENAMED]
    return "\n".join([HEAD, *constants.values(), *renamed, "", *translate(FORMULAS), ""])


def main() -> int:
    if "--check" in sys.argv:
        current = FILE.read_text(encoding="utf-8") == text()
        print(f"{FILE.name} is current" if current else f"{FILE.name} differs from the code")
        return int(not current)
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
