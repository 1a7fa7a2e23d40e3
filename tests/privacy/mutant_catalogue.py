"""The planted privacy bugs: each is a few exact replacements in one file.

``tests`` are those expected to notice, the quickest first.  A pattern must occur exactly once in
its file (``test_mutants.py`` checks it): whoever changes the line brings the pattern along.
"""
# ruff: noqa: E501 - lines of other files, with their indentation

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """One bug.

    Attributes
    ----------
    name, bug : str
        Short name, and what is wrong in words.
    path : str
        The file, relative to the repository.
    tests : tuple of str
        Files or node ids given to pytest.
    edits : tuple of (str, str)
        Exact text and what replaces it.
    """

    name: str
    bug: str
    path: str
    tests: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]


def plant(name: str, bug: str, path: str, tests: tuple[str, ...], *texts: str) -> Mutant:
    """A mutant; ``texts`` are old, new, old, new, ..."""
    return Mutant(name, bug, path, tests, tuple(zip(texts[::2], texts[1::2], strict=True)))


SENSITIVITY = "dpfast/privacy/sensitivity.py"
MECHANISMS = "dpfast/privacy/mechanisms.py"
NOISE = "dpfast/privacy/noise.py"
BUDGET = "dpfast/privacy/budget.py"
CONVERSIONS = "dpfast/privacy/conversions.py"
LEDGER = "dpfast/privacy/ledger.py"
LEDGER_FILE = "dpfast/privacy/ledger_file.py"
CURATOR = "dpfast/curator/curator.py"
PLANS = "dpfast/curator/joint.py"
ACCOUNTING = "dpfast/curator/bounds.py"
SCALE = "dpfast/privacy/sensitivity_scale.py"
OBJECTIVE = "dpfast/models/objective.py"
LOSSES = "dpfast/models/losses.py"
DATA = "dpfast/data/records.py"
REQUEST = "dpfast/front/request.py"
GUARANTEES = "dpfast/inference/guarantees.py"
PAID = "dpfast/privacy/paid.py"
PAID_TESTS = ("tests/privacy/test_paid_answers.py",)
SCHEDULES = "dpfast/optimize/schedules.py"
PLANNING = "dpfast/optimize/planning.py"
DESCENT = "dpfast/optimize/gradient_descent.py"
ROBUST_H = "csrc/losses/robust.h"
DISPATCH_H = "csrc/losses/dispatch.h"
GUARDS_H = "csrc/records/guards.h"
WEIGHTS_H = "csrc/records/weights.h"
DRIVER = "csrc/records_base.c"
SAMPLER = "csrc/sampler/sampler_core.c"

MECHANISM_TESTS = ("tests/privacy/test_mechanisms.py",)
GRID_TEST = ("tests/privacy/test_mechanisms.py::test_every_released_number_lies_on_its_grid",)
OUTLIER_TEST = (
    "tests/privacy/test_killers.py::test_an_outlier_in_one_data_set_only_changes_no_bound",
)
ATTACKS = ("tests/privacy/test_attacks.py",)
SCALE_TESTS = ("tests/privacy/test_attacks_scale.py",)
ROUNDING_TESTS = ("tests/privacy/test_rounding.py",)
BUDGET_TESTS = ("tests/privacy/test_budget.py",)
LEDGER_TESTS = ("tests/privacy/test_ledger.py",)
LEDGER_FILE_TESTS = ("tests/privacy/test_ledger_file.py",)
LEDGER_MOMENTS = ("tests/privacy/test_ledger_moments.py",)
NOISE_TESTS = ("tests/privacy/test_noise.py",)
SAMPLER_TESTS = ("tests/privacy/test_sampler.py",)
RECORD_TESTS = ("tests/privacy/test_compiled_records.py", "tests/kernels/test_records.py")
SEARCH = ("tests/audit/test_sensitivity_search.py",)
DEPTH_TEST = ("tests/kernels/test_records.py::test_depth_bounds_the_error_against_exact_sums",)
MODEL_TESTS = ("tests/models/test_models.py",)
CURATOR_TESTS = ("tests/curator",)
FIT_TESTS = ("tests/integration/test_fit.py",)
REGISTRY = ("tests/audit/test_registry.py",)
OWN_OPTIMISER_TESTS = ("tests/optimize/test_own_optimiser.py",)
SCHEDULE_TESTS = ("tests/optimize/test_schedules.py",)
ARCHITECTURE = ("tests/test_architecture.py",)
KILLERS = ("tests/privacy/test_killers.py",)

NOISE_TOO_SMALL = (
    plant(
        "noise-calibrated-at-nine-tenths",
        "noise scale 0.9 of what the sensitivity needs",
        MECHANISMS,
        MECHANISM_TESTS,
        "scale = sensitivity / (mu - GRID_COST)",
        "scale = 0.9 * sensitivity / (mu - GRID_COST)",
    ),
    plant(
        "noise-drawn-at-nine-tenths",
        "noise drawn at 0.9 of the announced scale",
        MECHANISMS,
        MECHANISM_TESTS,
        "symmetric_grid)(noise_scale, p)\n",
        "symmetric_grid)(0.9 * noise_scale, p)\n",
    ),
    plant(
        "receipt-overstates-the-noise",
        "the curator draws 0.9 of what its receipt and the audit's observer say",
        PLANS,
        CURATOR_TESTS,
        "tuple([receipt.noise_scale for receipt in receipts])",
        "tuple([0.9 * receipt.noise_scale for receipt in receipts])",
    ),
    plant(
        "noise-reused-within-a-release",
        "arrays released together get the same normals",
        "csrc/sampler.pyx",
        MECHANISM_TESTS,
        "integers = <const int64_t *>cnp.PyArray_DATA(noise) + start",
        "integers = <const int64_t *>cnp.PyArray_DATA(noise)",
        "source = <const int64_t *>cnp.PyArray_DATA(noise) + start",
        "source = <const int64_t *>cnp.PyArray_DATA(noise)",
    ),
    plant(
        "coarser-noise-towards-zero",
        "noise for a coarser grid is rounded towards zero, not down",
        "csrc/sampler.pyx",
        MECHANISM_TESTS,
        "target[i] = source[i] // step if source[i] >= 0 else -((-(source[i] + 1)) // step) - 1",
        "target[i] = source[i] // step if source[i] >= 0 else -((-source[i]) // step)",
    ),
    plant(
        "off-diagonal-noise-halved",
        "off-diagonal noise of a symmetric matrix half, not 1/sqrt 2, of the diagonal's",
        MECHANISMS,
        MECHANISM_TESTS,
        "grid_off = grid * math.sqrt(0.5)",
        "grid_off = grid * 0.5",
    ),
    plant(
        "grid-cost-omitted",
        "rounding to the grid is not paid for",
        MECHANISMS,
        MECHANISM_TESTS,
        "scale = sensitivity / (mu - GRID_COST)",
        "scale = sensitivity / mu",
    ),
    plant(
        "grid-of-four-bits",
        "a grid of 4 bits, whose rounding costs more than is paid for it",
        MECHANISMS,
        MECHANISM_TESTS,
        "return MIN_GRID_BITS + ((dimension - 1).bit_length() + 1) // 2",
        "return 4 + ((dimension - 1).bit_length() + 1) // 2",
    ),
    plant(
        "clamp-not-checked",
        "values beyond the range of the grid are not refused up front",
        MECHANISMS,
        MECHANISM_TESTS,
        "if bound * 2.0 ** grid_bits(dimension) > 0.5 * CLAMP * noise_scale:",
        "if noise_scale <= 0.0:",
    ),
    plant(
        "value-not-rounded-to-the-grid",
        "noise is added in floating point to an unrounded value (Mironov's attack)",
        SAMPLER,
        GRID_TEST,
        "out[i] = grid * (double)(dpf_nearest(value[i], grid) + noise[i]);",
        "out[i] = value[i] + grid * (double)noise[i];",
    ),
    plant(
        "symmetric-value-not-rounded",
        "the same for the diagonal of a symmetric matrix",
        SAMPLER,
        GRID_TEST,
        "out[i * p + i] = grid * (double)(dpf_nearest(matrix[i * p + i], grid) + *noise++);",
        "out[i * p + i] = matrix[i * p + i] + grid * (double)*noise++;",
    ),
    plant(
        "laplace-rate-rounded-up",
        "the rate of the discrete Laplace noise is rounded in favour of accuracy",
        MECHANISMS,
        MECHANISM_TESTS,
        "rate = (numerator << bits) // (denominator * sensitivity)",
        "rate = (numerator << bits) // (denominator * sensitivity) + 1",
    ),
)

WRONG_SENSITIVITY = (
    plant(
        "factor-two-dropped",
        "score diameter taken as the bound of one record: factor 2 dropped",
        OBJECTIVE,
        MODEL_TESTS + SEARCH,
        "self.score_diameter = 2.0 * self.score_bound",
        "self.score_diameter = self.score_bound",
    ),
    plant(
        "lemma-1",
        "matrix sensitivity of paper 1, lemma 1: sqrt 2 dropped",
        SENSITIVITY,
        ATTACKS,
        "factor = 1.0 if alone and dimension == 1 else math.sqrt(2.0)",
        "factor = 1.0",
    ),
    plant(
        "dimension-one-released-jointly",
        "b/n, which is right for a single number released alone, within a joint release",
        PLANS,
        ("tests/audit/test_sensitivity_search.py::test_dimension_one_pays_for_two",),
        "sensitivity = mean_rank_one(bound, n, p, depth=depth)",
        "sensitivity = mean_rank_one(bound, n, p, depth=depth, alone=True)",
    ),
    plant(
        "meat-bound-not-squared",
        "score covariance bounded by B instead of B^2",
        OBJECTIVE,
        MODEL_TESTS + SEARCH,
        "self.meat_bound = self.score_bound**2",
        "self.meat_bound = self.score_bound",
    ),
    plant(
        "meat-with-the-hessians-bound",
        "score covariance calibrated with the Hessian's bound",
        ACCOUNTING,
        SEARCH,
        'bound = objective.meat_bound if query == "meat" else objective.curvature_bound',
        "bound = objective.curvature_bound",
    ),
    plant(
        "hessian-bound-without-scale",
        "curvature bound without the factor 1/scale",
        OBJECTIVE,
        MODEL_TESTS + SEARCH,
        "loss.psi_prime_bound * radius**2 / self.scale",
        "loss.psi_prime_bound * radius**2",
    ),
    plant(
        "huber-psi-bound-of-one",
        "every Huber-type score bounded by 1 instead of the corner c",
        LOSSES,
        MODEL_TESTS,
        "    def psi_bound(self) -> float:\n        return self.c\n",
        "    def psi_bound(self) -> float:\n        return 1.0\n",
    ),
    plant(
        "logistic-curvature-of-one-fifth",
        "logistic curvature bounded by 0.2 instead of 1/4",
        LOSSES,
        MODEL_TESTS,
        "return 0.25\n",
        "return 0.2\n",
    ),
    plant(
        "eigenvalue-sensitivity-halved",
        "an extreme eigenvalue of a mean taken to move by b/(2n)",
        SENSITIVITY,
        ATTACKS,
        "return bound / n * (1.0 + _relative_slack(n, depth) + solver) * _UP",
        "return 0.5 * bound / n * (1.0 + _relative_slack(n, depth) + solver) * _UP",
    ),
    plant(
        "loss-difference-one-sided",
        "difference of losses: the change of one record counted once, not twice",
        SENSITIVITY,
        ATTACKS,
        "return 2.0 * score_bound * distance / n",
        "return score_bound * distance / n",
    ),
    plant(
        "damped-direction-halved",
        "half the sensitivity of a direction (H + damping I)^-1 g",
        SENSITIVITY,
        ATTACKS,
        "exact = bound / (n * damping * damping + bound * damping)",
        "exact = 0.5 * bound / (n * damping * damping + bound * damping)",
    ),
    plant(
        "unequal-scales-ignored",
        "only the smaller of the two end ratios of the noise scales counts",
        "dpfast/privacy/release/profiles.py",
        ("tests/privacy/test_profiles.py",),
        "return np.maximum(kind(epsilon, shift, low), kind(epsilon, shift, high))",
        "return kind(epsilon, shift, low)",
    ),
    plant(
        "laplace-atom-forgotten",
        "a release next to a Laplace release: the largest loss has half its probability",
        "dpfast/privacy/release/profiles.py",
        ("tests/privacy/test_profiles.py",),
        "total = 0.5 * float(ends[0])",
        "total = 0.25 * float(ends[0])",
    ),
    plant(
        "integer-noise-as-continuous",
        "the largest loss of integer noise taken to have probability one half",
        "dpfast/privacy/release/profiles.py",
        ("tests/privacy/test_profiles.py",),
        "one[0] = 1.0 / (1.0 + math.exp(-a))",
        "one[0] = 0.5",
    ),
    plant(
        "rounding-slack-omitted",
        "no slack for the rounding of sums and records",
        SENSITIVITY,
        ROUNDING_TESTS,
        "return JOINT_MARGIN * (RECORD_ERROR + gamma * n * (1.0 + RECORD_ERROR)) * _UP",
        "return 0.0",
    ),
    plant(
        "slack-without-joint-margin",
        "slack enough for one quantity, used for three released together",
        SENSITIVITY,
        ROUNDING_TESTS,
        "JOINT_MARGIN = 3.0",
        "JOINT_MARGIN = 1.0",
    ),
    plant(
        "slack-relative-to-the-sum",
        "slack gamma instead of gamma n: the rounding of the other records forgotten",
        SENSITIVITY,
        ROUNDING_TESTS,
        "RECORD_ERROR + gamma * n *",
        "RECORD_ERROR + gamma *",
    ),
    plant(
        "summation-depth-zero",
        "the kernels announce a summation without any rounding",
        DRIVER,
        DEPTH_TEST,
        "return plan.block_rows + 1 + blocks + whole_chunks(limits, n, plan.n_blocks) + 8;",
        "return 0 * blocks;",
    ),
    plant(
        "summation-depth-of-chunks-cut-exactly",
        "the depth of a sum forgets that the number of chunks is rounded down to a power of two",
        DRIVER,
        ("tests/kernels/test_records.py::test_depth_covers_the_additions_of_every_smaller_plan",),
        "(size_t)(2.0 / (limits.per_row * (double)plan.block_rows)) + 2",
        "(size_t)(1.0 / (limits.per_row * (double)plan.block_rows)) + 2",
    ),
    plant(
        "curator-ignores-summation-depth",
        "the curator asks for sensitivities without slack for its sums",
        PLANS,
        KILLERS,
        "n, p, depth, excess = layout.n, objective.dimension, layout.depth(want), layout.excess",
        "n, p, depth, excess = layout.n, objective.dimension, 0, layout.excess",
    ),
    plant(
        "depth-of-the-first-block",
        "the depth of a sum over several blocks is that of its first block",
        PLANS,
        KILLERS,
        "largest = max(records.block_sizes)",
        "return Layout(records.n, row, records.block_sizes[0], 0)",
    ),
)

WRONG_JOINT_COST = (
    plant(
        "free-scale-bounded-by-half-the-diameter",
        "score covariance of a free scale bounded by half the diameter of the scores, squared",
        SCALE,
        SCALE_TESTS,
        "return (1.0 + (ratio * max(0.5 * kappa, family.chi - 0.5 * kappa)) ** 2) * _UP",
        "return 1.0",
    ),
    plant(
        "free-scale-hubers-hessian-as-if-known",
        "the scale's coordinate left out of the bound on Huber's joint Hessian",
        SCALE,
        SCALE_TESTS,
        "return (1.0 + ratio * ratio) * _UP if family.profile is None else 1.0",
        "return 1.0",
    ),
    plant(
        "free-scale-at-the-largest-scale",
        "curvature calibrated at the largest scale instead of the one it is released at",
        ACCOUNTING,
        SCALE_TESTS,
        "scale = joint.high if theta is None else objective.scale_at(theta)",
        "scale = joint.high",
    ),
    plant(
        "free-scale-hubers-hessian-for-free",
        "Huber's joint Hessian and score charged by the rule of the smooth losses",
        SCALE,
        SCALE_TESTS,
        "squared = g + h + q\n",
        "squared = max(g, h) + q\n",
    ),
    plant(
        "joint-cost-is-the-largest-part",
        "joint releases cost no more than their dearest part",
        SENSITIVITY,
        ATTACKS,
        "squared = g + h + q\n",
        "squared = max(g, h, q)\n",
    ),
    plant(
        "meat-left-out-of-the-joint-cost",
        "the score covariance is released but not charged",
        PLANS,
        CURATOR_TESTS,
        "GDP(joint_cost(objective, budget))",
        "GDP(joint_cost(objective, budget._replace(meat=0.0)))",
    ),
    plant(
        "plan-of-another-data-set",
        "a plan made for one number of records and one objective is used for others",
        PLANS,
        CURATOR_TESTS,
        "    return lru_cache(maxsize=512)(partial(make_plan, constants, layout))\n",
        "    return _MADE.setdefault(0, lru_cache()(partial(make_plan, constants, layout)))\n"
        "\n\n_MADE = {}\n",
    ),
    plant(
        "majorizer-charged-as-hessian",
        "the majorising curvature is charged by the Hessian's rule",
        ACCOUNTING,
        CURATOR_TESTS,
        "coupling = objective.majorizer_coupling if majorize else objective.coupling",
        "coupling = objective.coupling",
    ),
    plant(
        "huber-charged-as-log-cosh",
        "Huber's loss is given the coupling of a smooth loss",
        LOSSES,
        SEARCH,
        '    name = "huber"\n    code = 0\n',
        '    name = "huber"\n    code = 0\n    coupling = "one-minus-square"\n',
    ),
    plant(
        "log-cosh-majorizer-for-free",
        "log-cosh's majorising curvature is given the coupling of its Hessian",
        LOSSES,
        SEARCH,
        'majorizer_coupling = "log-cosh-majorizer"',
        'majorizer_coupling = "one-minus-square"',
    ),
    plant(
        "pseudo-huber-majorizer-for-free",
        "pseudo-Huber's majorising curvature is given the coupling of its Hessian",
        LOSSES,
        KILLERS,
        'majorizer_coupling = "circle"',
        'majorizer_coupling = "one-minus-square"',
    ),
    plant(
        "logistic-ratio",
        "logistic coupling with h = 2 tau (1 - tau), half of its curvature",
        SENSITIVITY,
        ATTACKS,
        "tau * tau * (g + 16.0 * h * (1.0 - tau) ** 2",
        "tau * tau * (g + 4.0 * h * (1.0 - tau) ** 2",
    ),
    plant(
        "majorizer-searched-not-bounded",
        "maximum over a table without what lies between its entries",
        SENSITIVITY,
        KILLERS,
        "between = _STEP * _STEP / 8.0 * (g + 4.0 / 3.0 * h + 2.0 * q)",
        "between = 0.0",
    ),
    plant(
        "meat-free-without-condition",
        "the score covariance is free beside the gradient however accurate it is",
        SENSITIVITY,
        ATTACKS,
        'if coupling == "one-minus-square" and 4.0 * q <= g:',
        'if coupling == "one-minus-square":',
    ),
)

RECORDS_UNBOUNDED = (
    plant(
        "projection-missing",
        "records outside the declared ball are not projected",
        WEIGHTS_H,
        RECORD_TESTS,
        "vd factor = vmin(room / vsqrt(vload(b->norm2 + i)), one);",
        "vd factor = one + 0.0 * room;",
    ),
    plant(
        "intercept-not-in-the-norm",
        "the projection leaves no room for the intercept",
        DRIVER,
        RECORD_TESTS,
        "task->room = sqrt((model->radius - 1.0) * (model->radius + 1.0));",
        "task->room = model->radius;",
    ),
    plant(
        "mallows-first-power",
        "Mallows weights R/||x|| as printed in the paper: no bound on the Hessian",
        WEIGHTS_H,
        RECORD_TESTS,
        "vd weight = vmin(radius2 / stored_norm2(b, i, careful, ones), one);",
        "vd weight = vmin(radius / vsqrt(stored_norm2(b, i, careful, ones)), one) + 0.0 * radius2;",
    ),
    plant(
        "clip-removed",
        "scores are not clipped",
        WEIGHTS_H,
        RECORD_TESTS,
        "g = vcopysign(vmin(size, cap), -psi);",
        "g = vcopysign(size + 0.0 * cap, -psi);",
    ),
    plant(
        "huber-corner-not-clipped",
        "Huber's psi is the residual itself",
        ROBUST_H,
        RECORD_TESTS,
        "psi.numerator = vmin(a, k->c);",
        "psi.numerator = a;",
    ),
    plant(
        "log-cosh-without-its-corner",
        "log-cosh's psi without the factor c: above its bound for c < 1",
        ROBUST_H,
        RECORD_TESTS,
        "psi.numerator = k->c * -psi.minus_one;",
        "psi.numerator = -psi.minus_one;",
    ),
    plant(
        "hessian-not-divided-by-scale",
        "the Hessian is not divided by the residual scale",
        DRIVER,
        RECORD_TESTS,
        "double value = sums[i * task->width + j] / scale / divisor;",
        "double value = sums[i * task->width + j] / divisor + 0.0 * scale;",
    ),
    plant(
        "non-finite-guard-removed",
        "records with infinities or NaNs are used like any other",
        GUARDS_H,
        RECORD_TESTS,
        "    if (!finite) {",
        "    if (!finite && q == 0) {",
    ),
    plant(
        "overflow-guard-removed",
        "rows whose squared norm overflows are taken for ordinary ones",
        GUARDS_H,
        RECORD_TESTS,
        "ordinary &= (norm2 < hi) & (norm2 >= lo);",
        "ordinary &= ((norm2 < hi) | (norm2 == norm2)) & (norm2 >= lo);",
    ),
    plant(
        "label-guard-removed",
        "logistic loss with any label",
        DISPATCH_H,
        RECORD_TESTS,
        "((y == vset(0.0)) | (y == vset(1.0)))",
        "(y == y)",
    ),
    plant(
        "meat-of-the-wrong-weight",
        "score covariance weighted by |score|, which is not bounded by B^2 for B < 1",
        WEIGHTS_H,
        RECORD_TESTS,
        "vstore(b->m + i, g * g);",
        "vstore(b->m + i, vabs(g));",
    ),
    plant(
        "fast-math-build",
        "compiled with -ffast-math, which deletes the NaN guards",
        "setup.py",
        ARCHITECTURE,
        'COMPILE_ARGS = ["-O3",',
        'COMPILE_ARGS = ["-O3", "-ffast-math",',
    ),
    plant(
        "fast-math-for-the-record-loops",
        "-ffast-math for one extension only, past the check of the flags' list",
        "setup.py",
        RECORD_TESTS,
        "extra_compile_args=COMPILE_ARGS,",
        'extra_compile_args=COMPILE_ARGS + ["-ffast-math"] * (name == "records"),',
    ),
    plant(
        "fast-math-from-the-environment",
        "CFLAGS=-ffast-math of the environment is accepted",
        "setup.py",
        KILLERS,
        'for variable in ("CFLAGS", "CPPFLAGS", "LDFLAGS", "CC"):',
        "for variable in ():",
    ),
    plant(
        "float32-sums",
        "partial sums are added in single precision",
        DRIVER,
        DEPTH_TEST,
        "            job->sums[i] += from[i];",
        "            job->sums[i] = (float)(job->sums[i] + from[i]);",
    ),
    plant(
        "sums-in-order-of-arrival",
        "each thread adds up whatever chunks it gets hold of",
        DRIVER,
        ("tests/kernels/test_records.py::test_results_do_not_depend_on_threads",),
        "double *sums = job->sums + chunk * job->task.sum_doubles;",
        "double *sums = job->sums + (size_t)(scratch - job->scratch) / job->task.scratch_doubles *"
        " job->task.sum_doubles;",
        "    memset(sums, 0, job->task.sum_doubles * sizeof(double));\n",
        "",
        "void *memory = malloc((doubles + 8) * sizeof(double));",
        "void *memory = calloc(doubles + 8, sizeof(double));",
    ),
)

BAD_RANDOMNESS = (
    plant(
        "floor-to-truncation",
        "negative normals are truncated towards zero instead of rounded down",
        SAMPLER,
        SAMPLER_TESTS,
        "? magnitude : -magnitude - 1;",
        "? magnitude : -magnitude;",
    ),
    plant(
        "sign-bias",
        "two in three normals are positive",
        SAMPLER,
        SAMPLER_TESTS,
        "return below(stream, 2) ? magnitude",
        "return below(stream, 3) ? magnitude",
    ),
    plant(
        "rejection-step-missing",
        "the integer part is not rejected with probability 1 - exp(-k(k-1)/2)",
        SAMPLER,
        SAMPLER_TESTS,
        "for (uint32_t i = k * (k > 0 ? k - 1 : 0); accepted && i > 0; i--)",
        "for (uint32_t i = 0; accepted && i > 0; i--)",
    ),
    plant(
        "modulo-bias",
        "uniform integers by multiply and shift without rejection",
        SAMPLER,
        SAMPLER_TESTS,
        "uint32_t threshold = (uint32_t)(65536u % m);",
        "uint32_t threshold = 0;",
    ),
    plant(
        "zero-twice",
        "discrete Laplace counts zero for both signs",
        SAMPLER,
        SAMPLER_TESTS,
        "            if (magnitude == 0)\n                continue;",
        "            if (0)\n                continue;",
    ),
    plant(
        "grid-rounding-not-corrected",
        "the division that finds the grid point is not corrected for its own rounding",
        SAMPLER,
        MECHANISM_TESTS,
        "if (remainder > 0.5 * grid)",
        "if (remainder > 2.0 * grid)",
    ),
    plant(
        "buffer-survives-fork",
        "random bytes left in the buffer are used by parent and child",
        "csrc/sampler.pyx",
        NOISE_TESTS,
        "        (void)madvise(page, size, MADV_WIPEONFORK);\n",
        "        (void)page;\n",
        "if self.page[0] != 1 or self.process_id != dpf_process_id():",
        "if self.page[0] != 1:",
    ),
    plant(
        "used-bytes-not-erased",
        "random bytes stay in memory after use",
        SAMPLER,
        NOISE_TESTS + KILLERS,
        "    bytes[0] = bytes[1] = 0;\n",
        "",
    ),
    plant(
        "same-normals-twice",
        "the noise source hands out the same normals for two answers",
        NOISE,
        NOISE_TESTS,
        "        return self._sampler.normals(size, bits)\n",
        "        if getattr(self, '_last', np.empty(0)).size != size:\n"
        "            self._last = self._sampler.normals(size, bits)\n"
        "        return self._last\n",
    ),
    plant(
        "eight-bit-seed",
        "the default source is a generator with an 8-bit seed",
        NOISE,
        KILLERS,
        "ExactSampler(os.urandom)",
        "ExactSampler(np.random.Generator(np.random.PCG64(os.urandom(1)[0])).bytes)",
    ),
    plant(
        "eight-bits-of-the-seed",
        "only 8 bits of a simulation's seed are used",
        NOISE,
        NOISE_TESTS,
        "np.random.SeedSequence(int(seed))",
        "np.random.SeedSequence(int(seed) & 0xFF)",
    ),
    plant(
        "seeded-noise-claims-privacy",
        "a seeded source carries the guarantee",
        NOISE,
        NOISE_TESTS,
        "    return type(noise) is EntropyNoise\n",
        "    return isinstance(noise, (EntropyNoise, SeededNoise))\n",
    ),
    plant(
        "heir-claims-privacy",
        "a user's subclass of the private source carries the guarantee, whatever it draws",
        NOISE,
        ("tests/inference/test_guarantees.py",),
        "    return type(noise) is EntropyNoise\n",
        "    return isinstance(noise, EntropyNoise)\n",
    ),
    plant(
        "source-believed-for-the-asking",
        "a source's own word decides whether results carry the guarantee",
        NOISE,
        ("tests/inference/test_guarantees.py",),
        "    return type(noise) is EntropyNoise\n",
        "    return type(noise) is EntropyNoise or vars(type(noise)).get('guarantee') == 'GDP'\n",
    ),
    plant(
        "result-claims-privacy",
        "a result claims the GDP guarantee whatever the noise source",
        GUARANTEES,
        FIT_TESTS,
        "is_genuine(noise), mu, vouched)",
        "True, mu, vouched)",
    ),
    plant(
        "concentrated-called-gaussian",
        "a choice by the exponential mechanism is reported in Gaussian DP",
        GUARANTEES,
        ("tests/inference/test_guarantees.py",),
        "        if all(isinstance(entry.spend, GDP) for entry in charges):\n"
        "            parts = [(entry.label, entry.spend.mu)",
        "        if True:\n            parts = [(entry.label, GDP.within(entry.charged).mu)",
    ),
    plant(
        "explained-in-gaussian",
        "the plain words are those of a Gaussian parameter of the same size",
        GUARANTEES,
        ("tests/inference/test_guarantees.py",),
        "explain(self.total, delta)",
        "explain(GDP(self.mu) if self.mu > 0.0 else self.total, delta)",
    ),
)

FLATTERING_CONVERSIONS = (
    plant(
        "e-to-the-mu",
        "delta of GDP with exp(mu) for exp(epsilon), as printed in paper 1",
        CONVERSIONS,
        BUDGET_TESTS,
        "    x, y = middle - 0.5 * mu, middle + 0.5 * mu\n",
        "    x, y = middle - 0.5 * mu, middle + 0.5 * mu\n"
        "    return max(0.0, float(ndtr(-x) - math.exp(min(mu, 700.0)) * ndtr(-y)))\n",
    ),
    plant(
        "delta-rounded-down",
        "delta is rounded down",
        CONVERSIONS,
        BUDGET_TESTS,
        "DELTA_MARGIN = 2e-11",
        "DELTA_MARGIN = -2e-11",
    ),
    plant(
        "epsilon-rounded-down",
        "the epsilon of a spend is rounded down",
        CONVERSIONS,
        BUDGET_TESTS,
        "return _certify(root, +1.0, lambda epsilon: _delta_up(mu, epsilon) <= delta)",
        "return root * (1.0 - 1e-10)",
    ),
    plant(
        "mu-rounded-up",
        "the mu that a requested (epsilon, delta) allows is rounded up",
        CONVERSIONS,
        BUDGET_TESTS,
        "return _certify(root, -1.0, lambda mu: _delta_up(mu, epsilon) <= delta)",
        "return root * (1.0 + 1e-10)",
    ),
    plant(
        "zcdp-taken-for-gdp",
        "rho-zCDP is converted to sqrt(2 rho)-GDP",
        BUDGET,
        BUDGET_TESTS,
        "    def as_zcdp(self) -> ZCDP:\n        return self\n",
        "    def as_zcdp(self) -> ZCDP:\n"
        "        return self\n"
        "\n"
        "    def as_gdp(self) -> GDP:\n"
        "        return GDP(math.sqrt(2.0 * self.rho))\n",
    ),
    plant(
        "epsilon-taken-for-mu",
        "epsilon-DP is converted to epsilon-GDP",
        BUDGET,
        KILLERS,
        "return GDP(pure_mu(self.epsilon))",
        "return GDP(self.epsilon)",
    ),
    plant(
        "zcdp-request-not-exact",
        "the mu that a requested rho allows is a rounded square root",
        BUDGET,
        BUDGET_TESTS,
        "if top * denominator <= numerator * bottom:",
        "if top:",
    ),
)

MONEY = (
    plant(
        "float-sums-in-the-ledger",
        "the ledger squares mu in floating point",
        LEDGER,
        LEDGER_TESTS,
        "        return numerator * numerator << QUANTUM_BITS - 2 * (denominator.bit_length() - 1)\n",
        "        numerator, denominator = (x * x).as_integer_ratio()\n",
    ),
    plant(
        "ledger-with-tolerance",
        "the ledger grants charges within a relative 1e-12 of its total",
        LEDGER,
        LEDGER_TESTS,
        "fits = after[0] <= self._limit[0]",
        "fits = after[0] <= self._limit[0] + (self._limit[0] >> 40)",
    ),
    plant(
        "ledger-of-pairs-with-tolerance",
        "a ledger in epsilon and delta grants charges within a relative 1e-12 of its total",
        LEDGER,
        LEDGER_TESTS,
        "fits = all(map(int.__le__, after, self._limit))",
        "fits = all(a <= limit + (limit >> 40) for a, limit in zip(after, self._limit))",
    ),
    plant(
        "spend-reported-down",
        "what was spent is reported rounded down",
        LEDGER,
        LEDGER_TESTS,
        "return self._as_budget(self._current()[0], up=True)",
        "return self._as_budget(self._current()[0], up=False)",
    ),
    plant(
        "child-not-charged",
        "a child ledger is not charged to its parent",
        LEDGER,
        LEDGER_TESTS,
        "        self.charge(total, label)\n        child = Ledger(total)",
        "        child = Ledger(total)",
    ),
    plant(
        "copies-can-spend",
        "a copy of a ledger spends the budget again",
        LEDGER,
        LEDGER_TESTS,
        "    ledger._process = None  # no process\n",
        "",
    ),
    plant(
        "forks-can-spend",
        "a forked process spends its parent's budget again",
        LEDGER,
        LEDGER_TESTS,
        "if self._process is not HERE.token:",
        "if self._process is None:",
    ),
    plant(
        "handlers-charge-in-between",
        "a signal handler charges a ledger in the middle of a charge, which then forgets it",
        LEDGER,
        LEDGER_MOMENTS,
        "if self._lock._is_owned():",
        "if not self._lock:",
    ),
    plant(
        "numbers-stand-for-processes",
        "a child that has its parent's process number, in a namespace of its own, is its parent",
        "dpfast/privacy/process.py",
        LEDGER_MOMENTS,
        "    os.register_at_fork(after_in_child=HERE.__init__)",
        "    HERE.__init__()",
    ),
    plant(
        "forks-behind-pythons-back",
        "a fork that Python was not told about spends its parent's budget",
        "dpfast/privacy/process.py",
        LEDGER_MOMENTS,
        "    if os.getpid() != HERE.number:\n",
        "    if not HERE.number:\n",
    ),
    plant(
        "negative-charges",
        "a negative charge refunds",
        BUDGET,
        LEDGER_TESTS,
        "if type(value) is not float or not 0.0 <= value < math.inf:",
        "if type(value) is not float or math.isnan(value):",
    ),
    plant(
        "subclasses-convert-themselves",
        "a subclass of a guarantee says what it costs",
        BUDGET,
        LEDGER_TESTS,
        "if isinstance(budget, Budget) and type(budget) in _EXACT:",
        "if isinstance(budget, Budget):",
    ),
    plant(
        "threads-race",
        "threads charge without a lock",
        LEDGER,
        LEDGER_TESTS,
        "        with self._lock:\n            self._spent =",
        "        if self._lock:\n            self._spent =",
    ),
    plant(
        "file-ledger-without-lock",
        "processes charge a file-backed ledger without locking it",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "fcntl.flock(file, lock | fcntl.LOCK_NB)",
        "fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    ),
    plant(
        "file-ledger-without-fsync",
        "charges of a file-backed ledger are not forced to disk",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "    os.fsync(file.fileno())\n",
        "",
    ),
    plant(
        "failed-sync-refunds",
        "a charge whose write failed halfway is taken back",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "    os.fsync(file.fileno())\n",
        "    try:\n"
        "        os.fsync(file.fileno())\n"
        "    except OSError:\n"
        "        file.truncate(file.tell() - len(line))\n"
        "        raise\n",
    ),
    plant(
        "half-a-line-is-a-charge",
        "a charge of which only a part could be written is granted",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "    if file.write(line) != len(line):\n",
        "    if not file.write(line):\n",
    ),
    plant(
        "lines-taken-before-they-are-read",
        "a ledger counts lines as read before it has added them up: an interrupt undercounts",
        LEDGER_FILE,
        LEDGER_MOMENTS,
        "        spent, entries = known.spent, list(known.entries)\n",
        "        spent, entries = known.spent, list(known.entries)\n"
        "        self._known = known._replace(content=content[:end])\n",
    ),
    plant(
        "own-charge-counted-before-it-is-written",
        "a ledger takes its own line for written before it is: an interrupt loses the next one",
        LEDGER_FILE,
        LEDGER_MOMENTS,
        "        _write(file, line)\n        self._known = _Known(known.content + line, after, (*known.entries, entry))\n",
        "        self._known = _Known(known.content + line, known.spent, (*known.entries, entry))\n"
        "        _write(file, line)\n"
        "        self._known = self._known._replace(spent=after)\n",
    ),
    plant(
        "damage-is-forgotten",
        "a handle that saw a damaged ledger spends again once the file looks whole",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "        if self._refusal is not None:\n            raise LedgerCorrupted(self._refusal)\n        if not os",
        "        if not os",
    ),
    plant(
        "copies-create-a-ledger",
        "a pickle of a ledger whose file is gone grants the budget anew",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "return FileLedger, (self._path, None, _head(self._known.content))",
        "return FileLedger, (self._path, self._total)",
    ),
    plant(
        "copies-forget-how-far-it-was",
        "a pickle of a ledger accepts any file that is long enough",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "if head is not None and _head(content[: head.length]) != head:",
        "if head is not None and len(content) < head.length:",
    ),
    plant(
        "edited-lines-go-unseen",
        "a handle looks at the header and the length of its file, not at the lines it has read",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "if not content.startswith(known.content):",
        "if len(content) < len(known.content) or content[:99] != known.content[:99]:",
    ),
    plant(
        "ledgers-without-identity",
        "ledgers created at one time by the clock are taken for each other",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        '"id": random_name(),',
        '"id": "",',
    ),
    plant(
        "readers-truncate",
        "looking at a file removes what follows its last newline",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        '        known = self._at_file("rb", fcntl.LOCK_SH, self._read)\n',
        '        known = self._at_file("r+b", fcntl.LOCK_EX, self._read)\n',
        "        return self._take(self._content(file))\n",
        "        known = self._take(self._content(file))\n"
        "        file.truncate(len(known.content))\n"
        "        return known\n",
    ),
    plant(
        "a-cut-header-is-a-new-ledger",
        "a ledger that lost all but a part of its header is granted any total",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "            if os.path.getsize(self._path) > 0:\n",
        "            if os.path.getsize(self._path) > 50:\n",
        "    if file.seek(0, os.SEEK_END):  # another process was first\n        return\n",
        "    file.truncate(0)\n",
    ),
    plant(
        "more-spent-than-granted",
        "a ledger file in which more is spent than its total is believed",
        LEDGER_FILE,
        LEDGER_FILE_TESTS,
        "if any(map(int.__gt__, spent, self._limit)):",
        "if not spent:",
    ),
    plant(
        "forks-inherit-a-charge",
        "a forked child keeps the file lock of a charge of another thread",
        LEDGER_FILE,
        LEDGER_MOMENTS,
        "    before=_while_open.acquire,\n    after_in_parent=_while_open.release,\n",
        "",
    ),
    plant(
        "charged-after-the-records",
        "the records are read before the budget is charged",
        CURATOR,
        CURATOR_TESTS,
        "        self.ledger.charge(plan.cost, plan.label)\n        sums",
        "        sums",
        "        question = (plan.label, mu, theta)\n",
        "        self.ledger.charge(plan.cost, plan.label)\n"
        "        question = (plan.label, mu, theta)\n",
    ),
    plant(
        "charged-after-the-noise",
        "the budget is charged after the noise is drawn, so that an exception is free",
        CURATOR,
        CURATOR_TESTS,
        "        self.ledger.charge(plan.cost, plan.label)\n        sums",
        "        sums",
        "        return joint_answer_of((*answers, mu))\n",
        "        self.ledger.charge(plan.cost, plan.label)\n"
        "        return joint_answer_of((*answers, mu))\n",
    ),
    plant(
        "refund-on-exception",
        "an exception while the query is answered refunds it",
        CURATOR,
        CURATOR_TESTS,
        "        sums = self._sums(theta, plan.want)\n",
        "        spent, entries = self.ledger._spent, self.ledger._entries[:-1]\n"
        "        try:\n"
        "            sums = self._sums(theta, plan.want)\n"
        "        except BaseException:\n"
        "            self.ledger._spent = tuple(0 * part for part in spent)\n"
        "            self.ledger._entries = entries\n"
        "            raise\n",
    ),
    plant(
        "shared-ledger-not-charged",
        "an analysis does not charge the ledger it was given",
        REQUEST,
        FIT_TESTS,
        "        _checked_ledger(ledger).charge(_spend(ledger, privacy, total), label)",
        "        _checked_ledger(ledger)",
    ),
    plant(
        "shared-ledger-charged-last",
        "the shared ledger is charged when the analysis is done",
        "dpfast/regression/fit.py",
        ("tests/audit/test_replay.py",),
        '    charge_shared(ledger, privacy, total, f"fit({objective.loss.name}, n={n}, p={p})")\n',
        "",
        "        found = optimiser.run(answers, theta, recipe.budgets, report, recipe.steering_mu)\n",
        "        found = optimiser.run(answers, theta, recipe.budgets, report, recipe.steering_mu)\n"
        '        charge_shared(ledger, privacy, total, f"fit({objective.loss.name}, n={n}, p={p})")\n',
    ),
    plant(
        "optimiser-writes-on-the-objective",
        "what an optimiser writes on its objective changes the bounds of the curator",
        "dpfast/optimize/protocol.py",
        OWN_OPTIMISER_TESTS,
        "        objective=public_copy(objective),\n",
        "        objective=objective,\n",
    ),
    plant(
        "optimiser-brings-its-own-numbers",
        "a budget of a caller's own kind of number reaches the ledger",
        "dpfast/optimize/protocol.py",
        OWN_OPTIMISER_TESTS,
        "return StepBudget(float(gradient), float(hessian), float(meat), bool(majorize))",
        "return budget",
    ),
    plant(
        "optimiser-gets-the-curator",
        "an optimiser gets the curator itself, with what is not private",
        "dpfast/optimize/protocol.py",
        OWN_OPTIMISER_TESTS,
        "    return cast(Answers, offered)",
        "    return curator",
    ),
    plant(
        "uniform-shares-exceed-the-total",
        "the shares of a uniform schedule add up to more than the total",
        SCHEDULES,
        SCHEDULE_TESTS,
        "return [1.0 / n_steps] * n_steps",
        "return [1.0 / max(1, n_steps - 1)] * n_steps",
    ),
    plant(
        "geometric-shares-not-normalised",
        "the shares of a geometric schedule are not normalised",
        SCHEDULES,
        SCHEDULE_TESTS,
        "rest = (1.0 - uniform_share) / sum(powers)",
        "rest = 1.0 - uniform_share",
    ),
    plant(
        "rounding-of-shares-ignored",
        "rounded shares may add up to slightly more than the total",
        SCHEDULES,
        SCHEDULE_TESTS,
        "ROUNDING_MARGIN = 2.0**-30",
        "ROUNDING_MARGIN = 0.0",
    ),
    plant(
        "inference-on-credit",
        "the covariance for intervals is bought on top of the total",
        PLANNING,
        SCHEDULE_TESTS,
        "(1.0 - reserved - inference_share)",
        "(1.0 - reserved)",
    ),
)

DATA_DEPENDENT_BEHAVIOUR = (
    plant(
        "early-stop",
        "gradient descent stops when the exact gradient is small",
        DESCENT,
        KILLERS,
        "            answer = answers.joint(theta, budget)\n",
        "            answer = answers.joint(theta, budget)\n"
        "            cells = [cell.cell_contents for cell in answers.loss_difference.__closure__]\n"
        "            keeper = next(cell for cell in cells if hasattr(cell, 'nonprivate_sums'))\n"
        "            exact = keeper.nonprivate_sums(theta)[0] if not budget.hessian else theta\n"
        "            if float(np.linalg.norm(exact)) < 1e-2:\n"
        "                break\n",
    ),
    plant(
        "step-size-from-the-data",
        "the step size is the inverse Lipschitz constant of the data at hand",
        DESCENT,
        REGISTRY,
        "            step_sizes.append(self.resolve_step_size(objective, theta, largest))\n",
        "            step_sizes.append(1.0 / float(np.abs(curator._records.X).max()))\n",
    ),
    plant(
        "radius-from-the-data",
        "the default bound on a row is the largest norm found",
        "dpfast/regression/fit.py",
        OUTLIER_TEST,
        "        weights,\n        ridge,\n        method,\n",
        "        weights if weights is not None else __import__('dpfast').Mallows(\n"
        "            min(1e90, float(np.nanmax(np.abs(request.records.X), initial=1.0)))),\n"
        "        ridge,\n        method,\n",
    ),
    plant(
        "scale-from-the-data",
        "a missing residual scale is estimated by the median absolute deviation",
        "dpfast/regression/fit.py",
        FIT_TESTS,
        "        request.coded_scale(scale),\n        weights,\n        ridge,\n        method,\n",
        "        scale if scale is not None or loss == 'logistic'\n"
        "        else float(np.median(np.abs(request.records.y))),\n"
        "        weights,\n        ridge,\n        method,\n",
    ),
    plant(
        "only-usable-records-counted",
        "records with missing values are not counted in n",
        DATA,
        REGISTRY,
        "        self.n = X.shape[0]\n",
        "        self.n = max(1, int(np.isfinite(X).all(axis=1).sum()))\n",
    ),
    plant(
        "gradients-in-float32",
        "gradients of records stored in float32 are computed in float32",
        "dpfast/curator/nonconvex/recordwise.py",
        ("tests/data/test_float32.py",),
        ".astype(np.float64, copy=False)",
        "",
    ),
    plant(
        "nan-raises",
        "a NaN in the data is an error",
        DATA,
        FIT_TESTS,
        "    _check_numbers(array, argument, ndim)\n    return array",
        "    if array.dtype.kind == 'f' and np.isnan(array).any():\n"
        "        raise InvalidInput('X and y must not have missing values.')\n"
        "    _check_numbers(array, argument, ndim)\n    return array",
    ),
    plant(
        "nan-warns",
        "a NaN in the data is a warning",
        DATA,
        FIT_TESTS,
        "from typing import Any\n",
        "import warnings\nfrom typing import Any\n",
        "    _check_numbers(array, argument, ndim)\n    return array",
        "    if array.dtype.kind == 'f' and np.isnan(array).any():\n"
        "        warnings.warn('missing values are left out', stacklevel=2)\n"
        "    _check_numbers(array, argument, ndim)\n    return array",
    ),
    plant(
        "conversion-warns",
        "NumPy's own warnings about values are let through",
        DATA,
        ("tests/data", *KILLERS),
        'with np.errstate(all="ignore"):',
        'with np.errstate(all="warn"):',
    ),
    plant(
        "exact-loss-in-the-result",
        "the result shows the exact mean loss",
        "dpfast/regression/fit.py",
        REGISTRY,
        "        model=recipe.model,\n",
        "        model=f'{recipe.model}, loss {curator.nonprivate_loss(trajectory.theta):.6g}',\n",
    ),
    plant(
        "result-keeps-the-records",
        "the result holds on to the records",
        REQUEST,
        FIT_TESTS,
        "            rows=self.new_rows,\n        )\n\n    def _coefficient_names",
        "            rows=self.new_rows,\n"
        "        ).keep(self.records)\n"
        "\n"
        "    def _coefficient_names",
        "class Request:\n",
        "def _keep(fit: Fit, records: Any) -> Fit:\n"
        "    fit.data = (records.X, records.y)\n"
        "    return fit\n"
        "\n"
        "\n"
        "Fit.keep = _keep\n"
        "\n"
        "\n"
        "class Request:\n",
    ),
)

TABLES = (
    plant(
        "levels-from-the-data",
        "a categorical column has indicators of the levels that occur only",
        "dpfast/data/schema.py",
        ("tests/data/test_formula.py", "tests/data/test_schema.py"),
        "        kept = [level for level in self.levels if every_level or level != self.reference]\n",
        "        kept = [\n"
        "            level\n"
        "            for code, level in enumerate(self.levels)\n"
        "            if (every_level or level != self.reference) and (codes == code).any()\n"
        "        ]\n",
    ),
    plant(
        "coding-keeps-the-table",
        "the coding that a result carries holds on to the table",
        "dpfast/data/coding.py",
        ("tests/inference/test_predictions.py",),
        "        values, names, bounds = self._encode(table, list(self.columns))\n",
        "        vars(self)['table'] = table\n"
        "        values, names, bounds = self._encode(table, list(self.columns))\n",
    ),
    plant(
        "unit-from-the-data",
        "a number is scaled by the largest that occurs",
        "dpfast/data/schema.py",
        ("tests/data/test_schema.py",),
        "return np.asarray((clipped - self.location) / self.spread)",
        "return np.asarray((clipped - self.location) / np.nanmax(abs(clipped), initial=1e-9))",
    ),
)

STEERING_AND_BASELINES = (
    plant(
        "line-search-on-credit",
        "the private line search does not charge its evaluations",
        "dpfast/curator/steps.py",
        CURATOR_TESTS,
        "    curator.ledger.charge(GDP(mu), receipt.query)\n    value = np.array([curator._loss",
        "    value = np.array([curator._loss",
    ),
    plant(
        "solver-tolerance-omitted",
        "output perturbation without the tolerance of its solver",
        "dpfast/privacy/baselines/sensitivity.py",
        KILLERS,
        "(n * ridge) + 2.0 * tolerance) * _UP",
        "(n * ridge)) * _UP",
    ),
    plant(
        "minimiser-not-certified",
        "output perturbation stops its search without a certificate",
        "dpfast/curator/baselines/minimiser.py",
        ("tests/baselines/test_methods.py",),
        "enough = ridge * search.tolerance * (1.0 - 1e-9) - search.error",
        "enough = 1e-2",
    ),
    plant(
        "statistics-hide-records",
        "X'X counts only records whose response is not clipped",
        "dpfast/curator/baselines/statistics.py",
        ("tests/baselines/test_methods.py",),
        "centred = y * 0.0",
        "centred = y * 1.0",
    ),
    plant(
        "statistics-charged-flatteringly",
        "X'X and X'y together cost no more than the dearer of them",
        "dpfast/privacy/baselines/sensitivity.py",
        ("tests/baselines/test_sensitivities.py",),
        "squared = b if b >= 4.0 * a else a + 0.5 * b + b * b / (16.0 * a)",
        "squared = max(a, b)",
    ),
    plant(
        "sampling-accounted-as-removal",
        "DP-SGD under replacement accounted for removal of a record",
        "dpfast/curator/baselines/amplification.py",
        ("tests/baselines/test_dp_sgd.py", "tests/baselines/test_sensitivities.py"),
        "return library, relations.REPLACE_ONE",
        "return library, relations.ADD_OR_REMOVE_ONE",
    ),
    plant(
        "more-sampled-gradients-than-paid",
        "a sequence of sampled gradients goes on after the last that was paid for",
        "dpfast/curator/baselines/subsample.py",
        ("tests/baselines/test_dp_sgd.py",),
        "        self._take(receipt.query)\n",
        "",
    ),
    plant(
        "paid-answer-never-marked",
        "what was paid for once is answered again and again",
        PAID,
        PAID_TESTS,
        "            self._left[answer] -= count\n",
        "",
    ),
    plant(
        "paid-answer-marked-too-late",
        "two threads get the answer that was paid for once",
        PAID,
        PAID_TESTS,
        "        with self._answering:\n            if self._left",
        "        if True:\n            if self._left",
    ),
    plant(
        "copies-answer-too",
        "what was paid for once is answered by every copy",
        PAID,
        PAID_TESTS,
        "    def __reduce_ex__(",
        "    def _unused(",
    ),
    plant(
        "forks-answer-too",
        "what was paid for once is answered by every forked process",
        PAID,
        PAID_TESTS,
        "        if self._process is not this_process():",
        "        if self._process is None:",
    ),
    plant(
        "fallback-beside-the-release",
        "a fallback is released beside what it was to replace",
        PAID,
        PAID_TESTS,
        "            self._left[forgo] = 0\n",
        "",
    ),
    plant(
        "fallback-beyond-its-reserve",
        "a fallback may cost more than was kept for it",
        "dpfast/curator/release/releases.py",
        PAID_TESTS,
        "<= left[0] and terms.budget.delta <= left[1]",
        "<= left[0]",
    ),
)

RELEASE = "dpfast/privacy/release/sensitivity.py"
CALIBRATION = "dpfast/privacy/release/calibration.py"
RELEASE_TESTS = (
    "tests/privacy/test_release_theory.py",
    "tests/privacy/test_release_calibration.py",
)
CONDITION = "dpfast/privacy/release/condition.py"
CONDITION_TESTS = ("tests/privacy/test_release_condition.py",)
TABLE_TESTS = ("tests/kernels/test_certificates.py", "tests/release/test_recursion.py")

ONE_PARAMETER = (
    plant(
        "eigenvalue-step-of-removal",
        "the smallest eigenvalue moves by half a step, as if a record were removed",
        RELEASE,
        RELEASE_TESTS,
        "return 2.0 * c * B1 * radius * radius / n * ROWS * _UP",
        "return c * B1 * radius * radius / n * ROWS * _UP",
    ),
    plant(
        "shift-without-shrinking-curvature",
        "the parameter's shift takes the curvature as constant along the way",
        RELEASE,
        RELEASE_TESTS,
        "pull = least * (-math.expm1(-rate * t)) / rate + lreg * t",
        "pull = least * t + lreg * t",
    ),
    plant(
        "hessian-ratio-linearised",
        "v = s/l0 in place of -log(1 - s/l0)",
        RELEASE,
        RELEASE_TESTS,
        "return math.inf if q >= 1.0 else -math.log1p(-q) * _UP",
        "return math.inf if q >= 1.0 else q * _UP",
    ),
    plant(
        "count-ignores-the-solver",
        "the error of the eigenvalue is left out of the count's step",
        RELEASE,
        RELEASE_TESTS,
        "return max(0, M * (a * d - c * b) * f // (b * (c * f + 2 * e * d)))",
        "return max(0, M * (a * d - c * b) * f // (b * (c * f)))",
    ),
    plant(
        "lower-bound-ignores-the-solver",
        "the released lower bound forgets that the eigenvalue was computed with an error",
        RELEASE,
        RELEASE_TESTS,
        "M * (c * f - e * d)",
        "M * (c * f)",
    ),
    plant(
        "tail-one-sided-too-short",
        "the lower bound holds with probability 1 - 2 delta1 only",
        RELEASE,
        RELEASE_TESTS,
        "* _UP > delta1 * _DOWN",
        "* _UP > 2.0 * delta1",
    ),
    plant(
        "functional-without-its-second-term",
        "omega lacks the part that bounds how Delta itself changes",
        RELEASE,
        RELEASE_TESTS,
        "b = max(shift * (1.0 + SCALE_ERROR), a * math.sinh(whole) * push / gap, LEAST_PSI * a)",
        "b = LEAST_PSI * a",
    ),
    plant(
        "functional-without-the-solver",
        "the factors of omega take the minimiser as exact",
        RELEASE,
        RELEASE_TESTS,
        "shift = (half + e + e * math.exp(0.5 * v)) * push * _UP",
        "shift = half * push * _UP",
    ),
    plant(
        "public-scale-below-the-secret-one",
        "the announced bound of omega halves the first term",
        RELEASE,
        RELEASE_TESTS,
        "inner = A * 0.5 * (longest + reach) + Bc * longest",
        "inner = A * 0.5 * reach + Bc * longest",
    ),
    plant(
        "largest-eigenvalue-forgets-the-solver",
        "the largest eigenvalue is counted as if it were exact",
        CONDITION,
        CONDITION_TESTS,
        "return LogScale(low, high, error, (v + 2.0 * error) * _UP)",
        "return LogScale(low, high, error, v * _UP)",
    ),
    plant(
        "largest-eigenvalue-too-low",
        "the noise of the second certificate is taken as if it only raised the bound",
        CONDITION,
        CONDITION_TESTS,
        "level = (int(N_hat) - int(k)) * scale.step",
        "level = (int(N_hat)) * scale.step",
    ),
    plant(
        "condition-number-without-the-domain",
        "a box is treated as a ball: its corners see further than its faces",
        CONDITION,
        (*CONDITION_TESTS, "tests/privacy/test_release_theory.py"),
        "return radius / inner_radius * math.sqrt(condition)",
        "return math.sqrt(condition)",
    ),
    plant(
        "proportional-shift-without-psi",
        "the paper's scale bounds the shift to first order only",
        CONDITION,
        CONDITION_TESTS,
        "factor = (of_delta + of_psi * spread) * (1.0 + 2.0 * error) * _UP",
        "factor = of_delta * (1.0 + 2.0 * error) * _UP",
    ),
    plant(
        "proportional-ratio-without-the-condition-number",
        "neighbouring Delta are taken to differ by cosh(v) only",
        CONDITION,
        CONDITION_TESTS,
        "(math.cosh(whole) - 1.0 + math.sinh(whole) * push * spread) * _UP",
        "(math.cosh(whole) - 1.0) * _UP",
    ),
    plant(
        "second-certificate-free",
        "two integers are calibrated as one",
        CALIBRATION,
        CONDITION_TESTS,
        "with_discrete_laplace(profile, epsilon1, M, epsilon, certificates) <= budget",
        "with_discrete_laplace(profile, epsilon1, M, epsilon, 1) <= budget",
    ),
    plant(
        "several-numbers-for-the-price-of-one",
        "the losses of several functionals are not added up",
        CALIBRATION,
        CONDITION_TESTS,
        "profile = composed_profile(one, count, epsilon)",
        "profile = composed_profile(one, 1, epsilon)",
    ),
    plant(
        "more-functionals-than-paid-for",
        "the curator releases as many functionals as it is asked for",
        "dpfast/curator/release/releases.py",
        ("tests/release/test_condition.py",),
        "if not len(directions) == len(choices) == self.terms.n_functionals:",
        "if not len(directions) >= len(choices):",
    ),
    plant(
        "certificate-failure-not-charged",
        "the probability that the lower bound fails is not part of delta",
        CALIBRATION,
        RELEASE_TESTS,
        """    budget = (delta - delta1) * (1.0 - 1e-12) - other_delta
    return _multiplier(noise, epsilon, budget, epsilon1 / certificates,""",
        """    budget = delta * (1.0 - 1e-12) - other_delta
    return _multiplier(noise, epsilon, budget, epsilon1 / certificates,""",
    ),
    plant(
        "scales-taken-as-equal",
        "neighbouring noise scales are taken as equal in the calibration",
        CALIBRATION,
        RELEASE_TESTS,
        "shift, low, high = _UP / b, 1.0 - tau, 1.0 + tau",
        "shift, low, high = _UP / b, 1.0, 1.0",
    ),
    plant(
        "objective-perturbation-without-the-jacobian",
        "the ratio of determinants is left out of objective perturbation",
        CALIBRATION,
        RELEASE_TESTS,
        "rest = epsilon - math.log1p(curvature_bound / (n * lreg) * (1.0 + 1e-11)) * _UP",
        "rest = epsilon",
    ),
    plant(
        "student-centred-in-the-wrong-place",
        "the event of Student noise forgets the shift",
        "dpfast/privacy/release/profiles_student.py",
        RELEASE_TESTS,
        "constant = shift * shift + nu * (ratio * ratio - factor)",
        "constant = nu * (ratio * ratio - factor)",
    ),
    plant(
        "recursion-table-too-low",
        "a step of the certificate's table is that at its node, below those before it",
        "csrc/certificates/certificates_core.c",
        TABLE_TESTS,
        "double low = j ? b[j - 1] : b[0] - eta;",
        "double low = b[j] * growth * growth;",
    ),
    plant(
        "recursion-forgets-the-solver",
        "the table takes eigenvalues as exact",
        "csrc/certificates/certificates_core.c",
        TABLE_TESTS,
        "D[j] = step_above(r, low, high) * (1.0 + HEIGHT_MARGIN) + 2.0 * eta",
        "D[j] = step_above(r, low, high) * (1.0 + HEIGHT_MARGIN) + 0.0 * eta",
    ),
    plant(
        "rows-clipped-to-the-wrong-norm",
        "rows of a ball keep their length",
        "dpfast/models/domains.py",
        ("tests/models/test_domains.py",),
        "return np.where(outside, relative * (radius / lengths), rows)",
        "return np.where(outside, relative * (2.0 * radius / lengths), rows)",
    ),
    plant(
        "support-without-the-intercept",
        "the largest |p'x| leaves out the fixed coordinate",
        "dpfast/models/domains.py",
        ("tests/models/test_domains.py",),
        "return max(abs(fixed + high), abs(fixed + low)) + size * (_UP - 1.0)",
        "return max(abs(high), abs(low)) + size * (_UP - 1.0)",
    ),
)

VECTORS = "dpfast/curator/blackbox/vectors.py"
TUNER = "dpfast/bayesopt/tuner.py"
BLACK_BOX_TESTS = ("tests/bayesopt/test_sensitivities.py",)
REFUSED_TESTS = ("tests/privacy/test_refused_first.py",)
RESUME_TESTS = ("tests/bayesopt/test_resume.py",)
SELECTION_TESTS = ("tests/bayesopt/test_selection.py",)

BLACK_BOX = (
    plant(
        "clipped-vectors-taken-as-one-sided",
        "the mean of clipped vectors charged B/n: opposite vectors are forgotten",
        "dpfast/privacy/blackbox/sensitivity.py",
        BLACK_BOX_TESTS,
        "return mean_score(2.0 * bound, n, depth=depth)",
        "return mean_score(bound, n, depth=depth)",
    ),
    plant(
        "vectors-are-not-clipped",
        "a record's vector keeps its length",
        VECTORS,
        BLACK_BOX_TESTS,
        "np.minimum(scale * lengths, bound) / lengths * usable",
        "scale * lengths / lengths * usable",
    ),
    plant(
        "vectors-clipped-entry-by-entry",
        "clipped by the largest entry instead of the norm",
        VECTORS,
        BLACK_BOX_TESTS,
        'lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))',
        "lengths = np.ones(vectors.shape[1])",
    ),
    plant(
        "values-that-are-not-finite-stay",
        "a vector with a NaN is not replaced by zero",
        VECTORS,
        BLACK_BOX_TESTS,
        "    vectors[:, ~usable] = 0.0\n",
        "",
    ),
    plant(
        "told-values-touched-before-the-charge",
        "the clipped mean is computed before the ledger agrees",
        VECTORS,
        BLACK_BOX_TESTS,
        "        self.ledger.charge(GDP(mu), label)\n        value = self._clipped_mean(weights, bound)\n",
        "        value = self._clipped_mean(weights, bound)\n        self.ledger.charge(GDP(mu), label)\n",
    ),
    plant(
        "depth-of-one-block",
        "the additions within a block are not counted",
        VECTORS,
        BLACK_BOX_TESTS,
        "return min(self.n, BLOCK) + -(-self.n // BLOCK) + 1",
        "return -(-self.n // BLOCK) + 1",
    ),
    plant(
        "mean-loss-not-clipped",
        "losses outside the declared range count in full",
        VECTORS,
        BLACK_BOX_TESTS,
        "deviation = np.clip(row[block] - middle, -half, half)",
        "deviation = row[block] - middle",
    ),
    plant(
        "steps-counted-in-the-state",
        "a resumed search repeats the step whose answer was lost",
        TUNER,
        RESUME_TESTS,
        "return len(self._ledger.entries)",
        "return len(self._search.gradients)",
    ),
    plant(
        "a-new-ledger-for-an-old-search",
        "a search whose ledger is gone gets a fresh budget",
        TUNER,
        RESUME_TESTS,
        "self._ledger = Ledger.open(ledger_path(self._path))\n",
        "self._ledger = Ledger.open(ledger_path(self._path), self._total)\n",
    ),
    plant(
        "training-charged-once-per-batch",
        "a batch of training runs is paid for as one",
        TUNER,
        RESUME_TESTS,
        "self._training.charge(len(self._missing) + len(found))",
        "self._training.charge(1)",
    ),
    plant(
        "any-payment-is-this-searchs",
        "a shared ledger that paid for another search is taken to have paid for this one",
        TUNER,
        RESUME_TESTS,
        'entry.label.endswith(f", search {own.identity})")',
        'entry.label.startswith("tune(")',
    ),
    plant(
        "payment-not-recorded",
        "a search is found at its path though the shared ledger was never asked",
        TUNER,
        RESUME_TESTS,
        "        if not _paid(ledger, self._ledger):\n",
        "        if found is None and not _paid(ledger, self._ledger):\n",
    ),
    plant(
        "best-of-many-charged-as-two",
        "the best of a geometric number of trials charged 2 instead of 3 times a trial",
        "dpfast/privacy/blackbox/sensitivity.py",
        SELECTION_TESTS,
        "return epsilon / 3.0 * (1.0 - 2.0**-50)",
        "return epsilon / 2.0 * (1.0 - 2.0**-50)",
    ),
    plant(
        "rounding-of-trials-is-free",
        "one record moves a rounded mean by one step more than is paid for",
        "dpfast/privacy/blackbox/sensitivity.py",
        SELECTION_TESTS,
        "RECORD_ERROR)) + 1",
        "RECORD_ERROR))",
    ),
    plant(
        "public-number-of-trials",
        "the number of trials is its mean instead of geometric",
        "dpfast/privacy/blackbox/selection.py",
        SELECTION_TESTS,
        "return 1 + int(found[0])",
        "return round(mean)",
    ),
    plant(
        "state-holds-the-values",
        "the told losses end up in the state file",
        "dpfast/bayesopt/state.py",
        RESUME_TESTS,
        "    descriptor = os.open(_scratch(path)",
        '    state["told"] = search.told.tolist() if hasattr(search, "told") else [0.0] * n_records\n    descriptor = os.open(_scratch(path)',
    ),
    plant(
        "search-published-before-it-is-paid",
        "a search is found at its path, and resumed for nothing, though the ledger refused it",
        "dpfast/bayesopt/tuner.py",
        REFUSED_TESTS,
        "        stage_state(path, self._search, n, self._fingerprint, self._genuine)\n",
        "        save_state(path, self._search, n, self._fingerprint, self._genuine)\n"
        "        stage_state(path, self._search, n, self._fingerprint, self._genuine)\n",
    ),
    plant(
        "release-charged-then-planned",
        "the shared ledger pays for a release whose budget is refused afterwards",
        "dpfast/release/session.py",
        REFUSED_TESTS,
        "        self.query = request.open(terms, kind, self.own_ledger, directions)\n",
        "        request.charge(ledger, privacy, what)\n"
        "        self.query = request.open(terms, kind, self.own_ledger, directions)\n",
        "        request.charge(ledger, privacy, what)  # everything that can be refused was\n",
        "",
    ),
    plant(
        "steering-queries-unchecked",
        "a fit is charged whose steering queries no grid can release",
        "dpfast/regression/fit.py",
        REFUSED_TESTS,
        "    optimiser.check(answers, n_steps, recipe.steering_mu)\n",
        "",
    ),
    plant(
        "progress-untried",
        "a progress function of a wrong signature is found out after the charge",
        "dpfast/front/progress.py",
        REFUSED_TESTS,
        "        progress(0, planned)\n",
        "        pass\n",
    ),
    plant(
        "progress-loses-the-result",
        "what progress raises ends a fit that was paid for",
        "dpfast/front/progress.py",
        REFUSED_TESTS,
        "            self._progress = None\n            import logging",
        "            raise\n            import logging",
    ),
)

SHARE_TESTS = ("tests/privacy/test_shares.py",)
GROUP_TESTS = ("tests/privacy/test_groups.py",)
CELL_TESTS = ("tests/data/test_values_never_speak.py",)

SHARES_AND_GROUPS = (
    plant(
        "share-at-nine-tenths",
        "the sensitivity of a share below a threshold is 0.9/n",
        SENSITIVITY,
        SHARE_TESTS,
        "return (1.0 / n + 8.0 * UNIT_ROUNDOFF) * _UP",
        "return (0.9 / n + 8.0 * UNIT_ROUNDOFF) * _UP",
    ),
    plant(
        "share-not-charged",
        "a share below a threshold costs nothing",
        "dpfast/curator/shares.py",
        SHARE_TESTS,
        "        self.ledger.charge(GDP(mu), receipt.query)\n",
        "",
    ),
    plant(
        "quantiles-at-the-price-of-one",
        "several quantiles are charged as if one were asked for",
        "dpfast/quantiles.py",
        SHARE_TESTS,
        "math.sqrt(len(self.wanted) * self._steps)",
        "math.sqrt(self._steps)",
    ),
    plant(
        "scaling-unpaid",
        "columns are scaled privately and the shared ledger is not charged",
        "dpfast/quantiles.py",
        REFUSED_TESTS,
        '    charge_shared(ledger, privacy, total, f"with_private_scaling({len(declared)} columns)")\n',
        "",
    ),
    plant(
        "rows-of-a-person-unpaid",
        "a person with m rows gets the noise of one row",
        REQUEST,
        GROUP_TESTS,
        "return total if m == 1 else GDP(total.mu / m * (1.0 - 2.0**-50))",
        "return total",
    ),
    plant(
        "rows-beyond-the-bound-kept",
        "rows beyond a person's slots spill into the next person's",
        "dpfast/data/groups.py",
        GROUP_TESTS,
        "        if person[1] < group_size:\n",
        "        if person[0] * group_size + person[1] < len(labels):\n",
    ),
    plant(
        "rows-without-a-label-are-persons",
        "each row without a usable label is a person of its own",
        "dpfast/data/groups.py",
        GROUP_TESTS,
        "    except Exception:\n        return None\n",
        "    except Exception:\n        return object()\n",
        "bool(label == label) else None\n",
        "bool(label == label) else object()\n",
    ),
    plant(
        "a-cell-raises",
        "a cell of Python objects that float() refuses is an error",
        "dpfast/data/cells.py",
        CELL_TESTS,
        "    except Exception:  # too large an integer",
        "    except TypeError:  # too large an integer",
    ),
    plant(
        "a-quote-swallows-lines",
        "a quote that is not closed takes in the records after it",
        "dpfast/data/files/tables.py",
        CELL_TESTS,
        "    for number, line in enumerate(file):\n        row = _row(line, delimiter)\n",
        "    for number, row in enumerate(csv.reader(file, delimiter=delimiter)):\n",
    ),
    plant(
        "a-carriage-return-ends-a-record",
        "lines of a file end wherever some system would end them, in the middle of a cell, too",
        "dpfast/data/files/tables.py",
        ("tests/data/test_files.py",),
        'errors="replace", newline="\\n")',
        'errors="replace", newline=None)',
    ),
    plant(
        "a-byte-that-is-no-text-raises",
        "a cell that is not UTF-8 ends the reading of the file",
        "dpfast/data/files/tables.py",
        ("tests/data/test_files.py",),
        '"utf-8-sig", errors="replace"',
        '"utf-8-sig", errors="strict"',
    ),
    plant(
        "a-missing-cell-changes-a-type",
        "a nullable column is read as Python objects, where one cell is missing",
        "dpfast/data/columns.py",
        CELL_TESTS,
        '        return np.asarray(values.cast("float64", safe=False)'
        ".to_numpy(zero_copy_only=False))\n",
        "        return _of_array(values.to_numpy(zero_copy_only=False))"
        " if values.null_count == 0 else None\n",
    ),
    plant(
        "an-argument-is-quoted",
        "a list in a wrong argument is shown with what is in it",
        "dpfast/errors.py",
        ("tests/test_messages_show_no_data.py",),
        '        return f"{found} of length {len(value)}"',
        '        return f"{found} {value!r}"',
    ),
)

NONCONVEX = "dpfast/privacy/nonconvex/sensitivity.py"
GRADIENTS = "dpfast/curator/nonconvex/gradients.py"
NONCONVEX_TESTS = ("tests/nonconvex",)

NON_CONVEX = (
    plant(
        "clipped-gradients-as-if-removed",
        "mean of clipped gradients with the sensitivity of removal, L0/n",
        NONCONVEX,
        NONCONVEX_TESTS,
        "return mean_score(2.0 * lipschitz, n, depth=depth)",
        "return mean_score(lipschitz, n, depth=depth)",
    ),
    plant(
        "change-as-if-convex",
        "a change of gradient is charged as if slopes could not be negative",
        NONCONVEX,
        NONCONVEX_TESTS,
        "((1.0 + lowest) * limit + 2.0 * error)",
        "(limit + 2.0 * error)",
    ),
    plant(
        "declared-convexity-believed",
        "a change of gradient of a user's loss is charged as if its slopes were known",
        LOSSES,
        NONCONVEX_TESTS,
        "lowest_slope: ClassVar[float | None] = None",
        "lowest_slope: ClassVar[float | None] = 0.0",
    ),
    plant(
        "records-that-raise-take-the-block-along",
        "a record on which a vectorised function raises silences the records of its block",
        "dpfast/curator/nonconvex/recordwise.py",
        ("tests/nonconvex/test_recordwise.py",),
        "            elif last - first > 1:\n",
        "            elif False:\n",
    ),
    plant(
        "raising-records-asked-alone",
        "after an exception a vectorised function is asked about fewer rows, in another shape",
        "dpfast/curator/nonconvex/recordwise.py",
        ("tests/nonconvex/test_recordwise.py",),
        "found = self._evaluate(theta, some, y if whole else np.where(inside, y, 0.0))\n            if found is not None:\n"
        "                rows[first:last] = found[first:last]\n",
        "found = self._evaluate(theta, X[first:last], y[first:last])\n"
        "            if found is not None:\n"
        "                rows[first:last] = found\n",
    ),
    plant(
        "records-together-by-default",
        "users' gradients are taken of many records at once without being vouched for",
        "dpfast/models/nonconvex.py",
        ("tests/nonconvex/test_recordwise.py",),
        "        vectorized: bool = False,\n",
        "        vectorized: bool = True,\n",
    ),
    plant(
        "vouching-not-stated",
        "a guarantee that rests on the caller does not say so",
        "dpfast/models/nonconvex.py",
        ("tests/nonconvex/test_recordwise.py",),
        "        if self._vetted:\n",
        "        if True:\n",
    ),
    plant(
        "told-values-not-vouched-for",
        "a search does not say that it rests on how the caller computed the losses",
        "dpfast/bayesopt/tuner.py",
        ("tests/inference/test_guarantees.py",),
        "                vouched=TOLD,\n",
        "",
    ),
    plant(
        "records-that-are-not-finite-shown",
        "a users' function sees the entries of a record that are not finite",
        "dpfast/curator/nonconvex/recordwise.py",
        ("tests/nonconvex/test_recordwise.py",),
        "        if not usable.all():\n",
        "        if False:\n",
    ),
    plant(
        "exits-are-seen",
        "sys.exit() or a lack of memory in a user's function of a record ends the run",
        "dpfast/curator/nonconvex/recordwise.py",
        ("tests/nonconvex/test_recordwise.py",),
        "        except BaseException:",
        "        except ValueError:",
    ),
    plant(
        "compiled-without-bounds",
        "an index computed from a record reads the memory behind an array",
        "dpfast/kernels/user_gradients.py",
        ("tests/nonconvex/test_recordwise.py",),
        '"boundscheck": True',
        '"boundscheck": False',
    ),
    plant(
        "compiled-records-share-their-parameters",
        "what a compiled function does to its parameters reaches the next record",
        "dpfast/kernels/user_gradients.py",
        ("tests/nonconvex/test_recordwise.py",),
        "                own_theta[:] = theta\n",
        "                own_theta = theta\n",
    ),
    plant(
        "change-not-clipped-to-the-step",
        "users' changes of gradients are not clipped",
        "dpfast/curator/nonconvex/recordwise.py",
        NONCONVEX_TESTS,
        "total += _clip_rows(change, limit).sum(axis=0)",
        "total += change.sum(axis=0)",
    ),
    plant(
        "norm-at-half-price",
        "the norm of a mean with half its sensitivity",
        NONCONVEX,
        NONCONVEX_TESTS,
        "return (mean_gradient(lipschitz, n, depth=depth) + rounding) * _UP",
        "return (0.5 * mean_gradient(lipschitz, n, depth=depth) + rounding) * _UP",
    ),
    plant(
        "norm-not-charged",
        "the norm of the gradient is free",
        GRADIENTS,
        NONCONVEX_TESTS,
        "        self.ledger.charge(GDP(mu), receipt.query)\n        value = np.array([np.linalg",
        "        value = np.array([np.linalg",
    ),
    plant(
        "selection-by-one-step-scores",
        "the exponential mechanism is charged as if a record moved a score by one step",
        NONCONVEX,
        NONCONVEX_TESTS,
        "half_range = steps * numerator / denominator",
        "half_range = numerator / denominator",
    ),
    plant(
        "rounded-norms-move-less",
        "rounding of norms to the grid is free",
        NONCONVEX,
        NONCONVEX_TESTS,
        "return math.floor(sensitivity / grid * _UP + 2.0**-29) + 1",
        "return max(1, math.floor(sensitivity / grid))",
    ),
)

LEVERAGE_TESTS = ("tests/release/test_leverage.py",)
SCALED_TESTS = ("tests/release/test_scaled_release.py", "tests/release/test_functional.py")
SEARCH_TESTS = ("tests/release/test_minimiser.py",)
PERTURBATION_TESTS = ("tests/release/test_perturbation.py",)
SMOOTH_TESTS = ("tests/release/test_smooth.py",)
SMOOTH_PLAN = "dpfast/privacy/release/smooth_minimiser.py"
SMOOTH_SEARCH = "dpfast/curator/release/smooth.py"

RELEASE_ALGORITHMS = (
    plant(
        "box-of-half-the-penalty",
        "the public box of the minimiser is half as wide as it has to be",
        "dpfast/privacy/release/certified_minimiser.py",
        SEARCH_TESTS,
        "box = math.asinh(score * rate / stiffness * (1.0 + 1e-9)) / rate * (1.0 + 1e-9)",
        "box = 0.5 * math.asinh(score * rate / stiffness) / rate",
    ),
    plant(
        "search-stops-early",
        "the search for the minimiser stops at ten times its tolerance",
        "dpfast/curator/release/certified.py",
        SEARCH_TESTS,
        "self.enough = plan.tolerance * (1.0 - 1e-9) - plan.error",
        "self.enough = 10.0 * plan.tolerance",
    ),
    plant(
        "grid-of-the-secret-scale",
        "a release lies on a grid that depends on its secret scale",
        "dpfast/privacy/release/scaled.py",
        SCALED_TESTS,
        "    grid = scale_grid(scale_bound)\n    secret = scale if 0.0 <= scale <= scale_bound "
        "else scale_bound\n",
        "    secret = scale if 0.0 <= scale <= scale_bound else scale_bound\n"
        "    grid = scale_grid(max(secret, 1e-200))\n",
    ),
    plant(
        "secret-noise-at-nine-tenths",
        "a functional's noise is 0.9 of its scale",
        "dpfast/privacy/release/scaled.py",
        SCALED_TESTS,
        "    size, below = secret.as_integer_ratio()\n",
        "    size, below = (0.9 * secret).as_integer_ratio()\n",
    ),
    plant(
        "certified-release-not-charged",
        "certificate and release cost nothing",
        "dpfast/curator/release/releases.py",
        REGISTRY,
        "        curator.ledger.charge(terms.budget, terms.label)\n",
        "",
    ),
    plant(
        "leverage-step-of-removal",
        "the inverse of the largest leverage moves by half a step",
        "dpfast/privacy/release/leverage.py",
        LEVERAGE_TESTS,
        "step = eigenvalue_step(plan.c, plan.slope, 1.0, plan.n)",
        "step = 0.5 * eigenvalue_step(plan.c, plan.slope, 1.0, plan.n)",
    ),
    plant(
        "leverage-blind-to-the-penalty",
        "the largest leverage leaves out the rows that stand for the public penalty",
        "dpfast/curator/release/leverage.py",
        LEVERAGE_TESTS,
        "        largest = max(largest, self.plan.unit**2 * float(inverse.diagonal().max()))\n",
        "",
    ),
    plant(
        "leverage-blind-to-the-direction",
        "the largest leverage leaves out the released direction, the announced bound does not",
        "dpfast/curator/release/leverage.py",
        LEVERAGE_TESTS,
        "        if len(self._rows):\n",
        "        if False:\n",
    ),
    plant(
        "leverage-of-half-the-groups",
        "groups of corners are joined as if they could not be extreme together",
        "dpfast/models/quadratics.py",
        LEVERAGE_TESTS,
        "return math.fsum(math.sqrt(part) for part in parts) ** 2 * (1.0 + 1e-14)",
        "return math.fsum(parts)",
    ),
    plant(
        "leverage-bound-of-all-pairs",
        "a bound that is not monotone in the Hessian takes the place of one that is",
        "dpfast/models/quadratics.py",
        LEVERAGE_TESTS,
        "    return min(ball, grouped_bound(M, choices, intercept))\n",
        "    return diagonal_bound(M, choices, intercept)\n",
    ),
    plant(
        "leverage-without-the-last-corners",
        "the enumeration of corners forgets its last chunk",
        "dpfast/models/quadratics.py",
        LEVERAGE_TESTS,
        "for start in range(0, len(rows), chunk):",
        "for start in range(0, max(len(rows) - chunk, 1), chunk):",
    ),
    plant(
        "leverage-exact-as-computed",
        "the error of the search and of the inverse is left out of the leverage's step",
        "dpfast/privacy/release/leverage.py",
        LEVERAGE_TESTS,
        "eta=1.1 * (search + matrix + inverse * spread),",
        "eta=0.0,",
    ),
    plant(
        "badly-conditioned-hessians-taken-as-exact",
        "the rounding of a Cholesky solution is left out of a functional's factors",
        "dpfast/curator/release/terms.py",
        LEVERAGE_TESTS,
        "plan.solver_error + (3.0 * error if error > EVALUATION else 0.0)",
        "plan.solver_error",
    ),
    plant(
        "leverage-noise-too-small",
        "the second part of a functional's scale is divided by the radius of the rows",
        "dpfast/curator/release/releases.py",
        LEVERAGE_TESTS,
        "psi = unit * self.measure.radius / math.sqrt(choice.l0) * length",
        "psi = unit * 0.5 * self.measure.radius / math.sqrt(choice.l0) * length",
    ),
    plant(
        "tilt-at-half-scale",
        "objective perturbation tilts with half the noise",
        "dpfast/curator/release/perturbation.py",
        PERTURBATION_TESTS,
        "tilt = normal_vector(terms.tilt_scale, p, curator._noise)",
        "tilt = 0.5 * normal_vector(terms.tilt_scale, p, curator._noise)",
    ),
    plant(
        "perturbation-without-the-search-error",
        "the output noise of objective perturbation does not cover the search",
        "dpfast/curator/release/perturbation.py",
        PERTURBATION_TESTS,
        "slack = plan.tolerance + normal_error(scale, plan.dimension)",
        "slack = 1e-3 * plan.tolerance",
    ),
)

GUARDED_FILES = (
    plant(
        "cache-from-anybody",
        "decoded records are read from a folder that others may write to",
        "dpfast/data/files/private_folder.py",
        ("tests/data/test_outofcore.py",),
        "        or status.st_mode & WRITABLE_BY_OTHERS\n",
        "",
    ),
    plant(
        "cache-through-a-link",
        "a link planted in the folder of decoded records is followed",
        "dpfast/data/files/private_folder.py",
        ("tests/data/test_outofcore.py",),
        "NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC\n",
        "NO_LINKS = os.O_CLOEXEC\n",
    ),
)

USER_LOSS_TESTS = ("tests/privacy/test_user_loss.py",)

OWN_LOSSES = (
    plant(
        "own-psi-alone-not-held",
        "psi of a user's loss may leave its bound where a gradient alone is wanted",
        WEIGHTS_H,
        USER_LOSS_TESTS,
        "            vstore(psi + i, held(vload(psi + i), -bound, bound));\n",
        "            vstore(psi + i, held(vload(psi + i), -2.0 * bound, 2.0 * bound));\n",
    ),
    plant(
        "own-psi-not-held",
        "psi of a user's loss may leave its bound where matrices are wanted",
        WEIGHTS_H,
        USER_LOSS_TESTS,
        "vd size = held(vload(psi + i), -bound, bound), bend",
        "vd size = held(vload(psi + i), -2.0 * bound, 2.0 * bound), bend",
    ),
    plant(
        "own-loss-of-unusable-records",
        "records that do not count get what a user's psi says of zero",
        WEIGHTS_H,
        USER_LOSS_TESTS,
        "vstore(most + i, (vd)((vi)k.c & ok));",
        "vstore(most + i, k.c);",
    ),
    plant(
        "own-slope-not-held",
        "psi' of a user's loss may leave its bound",
        WEIGHTS_H,
        USER_LOSS_TESTS,
        "(vi)held(bend, zero, steepest) &",
        "(vi)held(bend, zero, 2.0 * steepest) &",
    ),
    plant(
        "own-coupling-not-held",
        "full curvature with a full score, which a user's loss declared impossible",
        WEIGHTS_H,
        USER_LOSS_TESTS,
        "steepest = vmax(k.h * (one - tau * tau), zero);",
        "steepest = vmax(k.h * (one - 0.5 * tau * tau), zero);",
    ),
    plant(
        "own-gradient-of-another-function",
        "gradients alone are those of psi', within the bound of psi",
        "dpfast/kernels/user_loss.py",
        USER_LOSS_TESTS,
        "over_array(of_psi), over_array(of_loss)",
        "over_array(of_psi_prime), over_array(of_loss)",
    ),
)

SMOOTH_RELEASE = (
    plant(
        "smooth-shift-of-removal",
        "one record's gradient in place of two moves the point found",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "push = 2.0 * self.gradient_bound / self.n * _UP",
        "push = self.gradient_bound / self.n * _UP",
    ),
    plant(
        "smooth-shift-with-constant-curvature",
        "the curvature does not fall on the way from the point found",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "falling = 2.0 * lipschitz * push * _UP",
        "falling = 0.0",
    ),
    plant(
        "smooth-shift-with-half-the-fall",
        "the curvature falls half as fast as the third derivative allows",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "falling = 2.0 * lipschitz * push * _UP",
        "falling = lipschitz * push * _UP",
    ),
    plant(
        "smooth-shift-on-a-ridge-too-high",
        "once the curvature has fallen to the ridge, more of it is counted than there was",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "missing = push - (least - lreg) * (least + lreg) / (2.0 * lipschitz)",
        "missing = push - least * least / lipschitz",
    ),
    plant(
        "smooth-step-without-the-record",
        "the recursion forgets the Hessian of the record that is taken away",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "return self.curvature * self.radius * self.radius * ROWS * _UP",
        "return 1e-9 * self.curvature * self.radius * self.radius",
    ),
    plant(
        "smooth-solver-taken-as-exact",
        "what the search leaves of the gradient is not part of the bounds",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "return (self.slope * self.radius * ROWS + self.n * self.tolerance) * _UP",
        "return self.slope * self.radius",
    ),
    plant(
        "smooth-penalty-without-a-third-derivative",
        "the change of the public penalty's Hessian is left out",
        SMOOTH_PLAN,
        SMOOTH_TESTS,
        "lipschitz=(records + rate * math.hypot(stiffness, steep)) * _UP,",
        "lipschitz=records,",
    ),
    plant(
        "smooth-search-stops-early",
        "the search ends at ten times its tolerance",
        SMOOTH_SEARCH,
        SMOOTH_TESTS,
        "            if length <= self.enough:\n                break\n",
        "            if length <= 10.0 * self.plan.tolerance:\n                break\n",
    ),
    plant(
        "smooth-search-gives-up",
        "a search that starts at zero ends after sixty steps, arrived or not",
        SMOOTH_SEARCH,
        SMOOTH_TESTS,
        "search.run(np.zeros(plan.dimension), plan.most_steps)",
        "search.run(np.zeros(plan.dimension), PILOT_STEPS)",
    ),
    plant(
        "smooth-search-half-tested",
        "small ridges pass the test of descent at a hundredth of what the proof counts on",
        SMOOTH_SEARCH,
        SMOOTH_TESTS,
        "least = length * length / (2.0 * ridge)",
        "least = 0.01 * length * length / (2.0 * ridge)",
    ),
    plant(
        "smooth-search-with-unsafe-steps",
        "the ridge that needs no test is a twentieth of the one that is proved",
        SMOOTH_SEARCH,
        SMOOTH_TESTS,
        "safe = math.sqrt(2.0 * plan.search_lipschitz * length)",
        "safe = 0.05 * math.sqrt(2.0 * plan.search_lipschitz * length)",
    ),
    plant(
        "smoothed-huber-third-derivative",
        "the third derivative of the smoothed Huber loss is taken as 1/h",
        "dpfast/models/smooth_losses.py",
        SMOOTH_TESTS,
        "return 1.5 / self.h  # in the middle of the bend",
        "return 1.0 / self.h  # in the middle of the bend",
    ),
    plant(
        "smooth-losses-that-are-not-convex",
        "a redescending loss is let in",
        "dpfast/models/concordance.py",
        SMOOTH_TESTS,
        "    if not loss.has_curvature:\n",
        "    if not loss.has_curvature and loss.name == 'none':\n",
    ),
)

TOTALS = "tests/inference/test_totals.py::"
SUMS = "tests/privacy/test_sums_of_releases.py::"
PAID = "tests/privacy/test_paid_before.py::"
MISSING = "tests/privacy/test_mostly_missing.py::"
DOOR = "tests/curator/test_door.py::"
ERRORS = "tests/privacy/test_errors_are_paid.py::"

SPLITS_THAT_DO_NOT_ADD_UP = (
    plant(
        "inference-beside-a-last-bit",
        "what is left beside the standard errors is rounded up",
        "dpfast/release/sampling.py",
        (TOTALS + "test_a_divided_total_is_not_exceeded_by_a_last_bit",),
        "left.append(ratio_to_float(rest.numerator, rest.denominator, up=False))",
        "left.append(ratio_to_float(rest.numerator, rest.denominator, up=True))",
    ),
    plant(
        "blocks-recorded-as-free",
        "an expression counts what blocks spent in place of what was charged for them",
        "dpfast/inference/composition.py",
        (TOTALS + "test_blocks_side_by_side_are_a_maximum",),
        "    if isinstance(composition, Charge | Prepaid):\n        return amounts",
        "    if isinstance(composition, Prepaid):\n"
        "        return cost(composition.part, currency)\n"
        "    if isinstance(composition, Charge):\n        return amounts",
    ),
    plant(
        "rows-counted-once",
        "an expression counts the rows of one person as if their costs were independent",
        "dpfast/inference/composition.py",
        (TOTALS + "test_rows_of_one_person_count_as_often_as_there_are_some",),
        "composition.factor**2 * cost",
        "composition.factor * cost",
    ),
    plant(
        "inference-beside-all-of-delta",
        "certificate and functional keep all of delta beside the standard errors that take a part of it",
        "dpfast/release/functional.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "main, rest = divided(total, part)\n",
        "main, rest = divided(total, part)\n        main = ApproxDP(main.epsilon, total.delta)\n",
    ),
    plant(
        "inference-beside-all-of-epsilon",
        "certificate and functional keep all of epsilon beside the standard errors",
        "dpfast/release/functional.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "main, rest = divided(total, part)\n",
        "main, rest = divided(total, part)\n        main = ApproxDP(total.epsilon, main.delta)\n",
    ),
    plant(
        "inference-with-all-of-delta",
        "standard errors are bought with all of delta",
        "dpfast/release/functional.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "plan_sandwich(request, rest)",
        "plan_sandwich(request, ApproxDP(rest.epsilon, total.delta))",
    ),
    plant(
        "inference-with-all-of-epsilon",
        "standard errors are bought with all of epsilon",
        "dpfast/release/functional.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "plan_sandwich(request, rest)",
        "plan_sandwich(request, ApproxDP(total.epsilon, rest.delta))",
    ),
    plant(
        "reserve-spent-by-a-functional",
        "a functional spends the part of delta that is kept for the fallback",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "    delta = terms.delta - terms.reserve\n    grid",
        "    delta = terms.delta\n    grid",
    ),
    plant(
        "reserve-spent-by-a-parameter",
        "the whole parameter spends the part of delta that is kept for the fallback",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_certificate_parameter_and_reserve_add_up",),
        "terms.epsilon, terms.delta - terms.reserve, terms.epsilon1, terms.delta1",
        "terms.epsilon, terms.delta, terms.epsilon1, terms.delta1",
    ),
    plant(
        "fallback-with-all-of-epsilon",
        "a fallback gets all of epsilon, of which the certificate took a part",
        "dpfast/release/session.py",
        (SUMS + "test_certificate_and_fallback_add_up",),
        "ApproxDP(terms.epsilon - terms.epsilon1, terms.reserve)",
        "ApproxDP(terms.epsilon, terms.reserve)",
    ),
    plant(
        "fallback-with-all-of-delta",
        "a fallback gets all of delta instead of its reserve",
        "dpfast/release/session.py",
        (SUMS + "test_certificate_and_fallback_add_up",),
        "ApproxDP(terms.epsilon - terms.epsilon1, terms.reserve)",
        "ApproxDP(terms.epsilon - terms.epsilon1, terms.delta)",
    ),
    plant(
        "tilt-with-all-of-epsilon",
        "a tilt takes all of epsilon, and the noise on the output its part once more",
        "dpfast/curator/release/perturbation.py",
        (SUMS + "test_tilt_and_output_noise_add_up",),
        "epsilon = budget.epsilon * (1.0 - OUTPUT_SHARE)",
        "epsilon = budget.epsilon",
    ),
    plant(
        "tilt-with-all-of-delta",
        "a tilt takes all of delta, and the noise on the output its part once more",
        "dpfast/curator/release/perturbation.py",
        (SUMS + "test_tilt_and_output_noise_add_up",),
        "delta = budget.delta * (1.0 - OUTPUT_SHARE)",
        "delta = budget.delta",
    ),
    plant(
        "output-noise-with-all-of-delta",
        "the noise on a tilted minimiser takes all of delta",
        "dpfast/curator/release/perturbation.py",
        (SUMS + "test_tilt_and_output_noise_add_up",),
        "ApproxDP(budget.epsilon * OUTPUT_SHARE, budget.delta * OUTPUT_SHARE)",
        "ApproxDP(budget.epsilon * OUTPUT_SHARE, budget.delta)",
    ),
    plant(
        "each-certificate-with-all-of-epsilon1",
        "each of two certificates takes what they share",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "return self.epsilon1 / self.certificates",
        "return self.epsilon1",
    ),
    plant(
        "each-tail-with-all-of-delta1",
        "each of two bounds fails as often as both together may",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "return tail_count(self.count_epsilon, self.delta1 / self.certificates)",
        "return tail_count(self.count_epsilon, self.delta1)",
    ),
    plant(
        "certificate-half-forgotten",
        "the noise is calibrated beside half of what the certificate costs",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "        delta,\n        terms.epsilon1,\n",
        "        delta,\n        0.5 * terms.epsilon1,\n",
    ),
    plant(
        "bits-of-scaled-noise-free",
        "that scaled noise is drawn to finitely many bits is not part of delta",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "        other_delta=grid,\n",
        "        other_delta=0.0,\n",
    ),
    plant(
        "bits-of-one-number-for-all",
        "several numbers with scaled noise set delta aside for one",
        "dpfast/privacy/release/scaled.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "value = count * (1.0 + math.exp(min(epsilon, 700.0)))",
        "value = 1.0 * (1.0 + math.exp(min(epsilon, 700.0)))",
    ),
    plant(
        "second-eigenvalue-beyond-delta",
        "the bound that the second eigenvalue rests on may fail more often than delta",
        "dpfast/release/certificate.py",
        (SUMS + "test_two_certified_eigenvalues_add_up",),
        "        share = min(share, 2.0 * delta)\n",
        "        pass\n",
    ),
    plant(
        "failure-before-a-parameter-not-charged",
        "the probability that the lower bound fails is not part of a parameter's delta",
        "dpfast/privacy/release/calibration.py",
        (SUMS + "test_certificate_parameter_and_reserve_add_up",),
        'budget = (delta - delta1) * (1.0 - 1e-12) - other_delta\n    return _multiplier("gaussian"',
        'budget = delta * (1.0 - 1e-12) - other_delta\n    return _multiplier("gaussian"',
    ),
    plant(
        "certificate-before-a-parameter-forgotten",
        "a parameter's noise is calibrated beside a tenth of its certificate",
        "dpfast/privacy/release/calibration.py",
        (SUMS + "test_certificate_parameter_and_reserve_add_up",),
        '_multiplier("gaussian", epsilon, budget, epsilon1, 0.0, M)',
        '_multiplier("gaussian", epsilon, budget, 0.1 * epsilon1, 0.0, M)',
    ),
    plant(
        "reserve-not-charged",
        "opening a certified release does not charge what is kept for the fallback",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_a_release_charges_all_of_its_terms",),
        "return ApproxDP(self.epsilon, self.delta)",
        "return ApproxDP(self.epsilon, self.delta - self.reserve)",
    ),
    plant(
        "certificate-charged-half",
        "a certificate on its own charges half of its epsilon",
        "dpfast/curator/release/terms.py",
        (SUMS + "test_a_release_charges_all_of_its_terms",),
        "            return PureDP(self.epsilon1)\n",
        "            return PureDP(0.5 * self.epsilon1)\n",
    ),
    plant(
        "result-without-inference",
        "a result reports what is left beside the standard errors as its total",
        "dpfast/release/session.py",
        (SUMS + "test_certificates_functionals_reserve_and_inference_add_up",),
        "        total = self.privacy\n",
        "        total = self.terms\n",
    ),
    plant(
        "shared-ledger-without-inference",
        "a shared ledger is not charged for the standard errors of a release",
        "dpfast/release/session.py",
        (PAID + "test_a_shared_ledger_is_charged_the_total_before_anything_is_drawn",),
        "request.charge(ledger, privacy, what)",
        "request.charge(ledger, terms.budget, what)",
    ),
    plant(
        "certificate-not-shared",
        "a certificate does not charge the ledger it was given",
        "dpfast/release/certificate.py",
        (SUMS + "test_a_certificate_alone_costs_what_it_says",),
        'kind, "certify", privacy, ledger)',
        'kind, "certify", privacy, None)',
    ),
    plant(
        "columns-at-the-price-of-one",
        "several columns are scaled for the price of one",
        "dpfast/quantiles.py",
        (PAID + "test_answers_cost_at_most_the_total_and_nearly_all_of_it",),
        "total.mu / math.sqrt(len(declared)) * (1.0 - ROUNDING_MARGIN)",
        "total.mu * (1.0 - ROUNDING_MARGIN)",
    ),
    plant(
        "search-not-shared",
        "a search does not charge the ledger it was given",
        "dpfast/front/request.py",
        (PAID + "test_a_shared_ledger_is_charged_the_total_before_anything_is_drawn",),
        "    told = first()\n    charge_shared(ledger, privacy, total, label)\n",
        "    told = first()\n",
    ),
    plant(
        "sampled-steps-less-one",
        "the noise of sampled gradients is that of one step fewer",
        "dpfast/curator/baselines/subsample.py",
        (ERRORS + "test_sampled_steps_are_all_accounted_for",),
        "multiplier = noise_multiplier(budget, sampling_rate, n_steps)",
        "multiplier = noise_multiplier(budget, sampling_rate, max(1, n_steps - 1))",
    ),
)

USABLE_RECORDS_IN_PLACE_OF_N = (
    plant(
        "sums-over-usable-records",
        "sums are divided by the number of finite responses",
        "dpfast/curator/curator.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "theta, want, float(self.n), self._threads)",
        "theta, want, max(1.0, float(sum(np.isfinite(y).sum() for _, y in self._records.blocks()))), self._threads)",
    ),
    plant(
        "losses-over-usable-records",
        "differences of losses are divided by the number of finite responses",
        "dpfast/curator/curator.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "*parameters, float(self.n), self._threads)",
        "*parameters, max(1.0, float(sum(np.isfinite(y).sum() for _, y in self._records.blocks()))), self._threads)",
    ),
    plant(
        "gradients-over-usable-records",
        "non-convex gradients are divided by the number of finite responses",
        "dpfast/curator/nonconvex/gradients.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "sums, n = self._kernel.sums, float(self.n)",
        "sums, n = self._kernel.sums, max(1.0, float(sum(np.isfinite(y).sum() for _, y in self._records.blocks())))",
    ),
    plant(
        "changes-over-usable-records",
        "changes of gradients are divided by the number of finite responses",
        "dpfast/curator/nonconvex/gradients.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "self._kernel.gradient_change, new, old, limit, float(self.n), self._threads",
        "self._kernel.gradient_change, new, old, limit, max(1.0, float(sum(np.isfinite(y).sum() for _, y in self._records.blocks()))), self._threads",
    ),
    plant(
        "gram-over-usable-records",
        "X'X is divided by the number of finite responses",
        "dpfast/curator/baselines/statistics.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "theta, n = np.zeros(curator.objective.dimension), float(curator.n)",
        "theta, n = np.zeros(curator.objective.dimension), max(1.0, float(sum(np.isfinite(y).sum() for _, y in curator._records.blocks())))",
    ),
    plant(
        "largest-curvature-over-usable-records",
        "the largest curvature is divided by the number of finite responses",
        "dpfast/curator/steps.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "float(curator.n)\n    kernel, threads",
        "float(\n        max(1, sum(np.isfinite(y).sum() for _, y in curator._records.blocks()))\n    )\n    kernel, threads",
    ),
    plant(
        "told-vectors-over-usable-records",
        "the mean of told vectors is divided by the number of finite ones",
        "dpfast/curator/blackbox/vectors.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "                total += vectors @ factor\n        return total / self.n",
        "                total += vectors @ factor\n        return total / max(1, sum(np.isfinite(chunk).all(axis=0).sum() for chunk in self._chunks[:1]))",
    ),
    plant(
        "told-losses-over-usable-records",
        "the mean of told losses is divided by the number of finite ones",
        "dpfast/curator/blackbox/vectors.py",
        (MISSING + "test_n_divides_however_few_records_are_usable",),
        "                total += float(np.sum(np.where(np.isfinite(row[block]), deviation, 0.0)))\n        return total / self.n",
        "                total += float(np.sum(np.where(np.isfinite(row[block]), deviation, 0.0)))\n        return total / max(1, int(np.isfinite(row).sum()))",
    ),
    plant(
        "share-of-usable-values",
        "a share is relative to the values that are not missing",
        "dpfast/curator/shares.py",
        (MISSING + "test_shares_are_of_all_values",),
        "(below - probability * counted) / self.n]",
        "(below - probability * counted) / max(counted, 1)]",
    ),
    plant(
        "sampled-sum-over-the-sample",
        "the sum over a sample is divided by its size instead of its expected size",
        "dpfast/curator/baselines/subsample.py",
        (MISSING + "test_every_step_has_a_sample_of_its_own",),
        "_sampled_gradient, curator._kernel, theta, rate * n, curator._threads,",
        "_sampled_gradient, curator._kernel, theta, max(1.0, float(inside.sum())), curator._threads,",
    ),
)

CHARGED_AFTER = (
    plant(
        "selection-charged-after-the-trials",
        "the best of random trials is charged when it is known",
        "dpfast/curator/blackbox/selection.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "    ledger.charge(plan.cost, plan.receipt.query)\n",
        "",
        "    return Selected(",
        "    ledger.charge(plan.cost, plan.receipt.query)\n    return Selected(",
    ),
    plant(
        "choice-charged-after-the-draw",
        "the exponential mechanism is charged when it has chosen",
        "dpfast/curator/nonconvex/gradients.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "        self.ledger.charge(ZCDP(cost), receipt.query)\n",
        "",
        "        return hand_out_choice(self._noise, question, receipt, scores, rate)",
        "        chosen = hand_out_choice(self._noise, question, receipt, scores, rate)\n        self.ledger.charge(ZCDP(cost), receipt.query)\n        return chosen",
    ),
    plant(
        "choice-around-the-door",
        "the exponential mechanism is called where no observer sees it",
        "dpfast/curator/nonconvex/gradients.py",
        (DOOR + "test_a_choice_is_seen_with_its_scores_and_can_be_replaced",),
        "        return hand_out_choice(self._noise, question, receipt, scores, rate)",
        "        from dpfast.privacy.nonconvex.choice import choose_smallest\n        return choose_smallest(scores, rate, self._noise)",
    ),
    plant(
        "scores-of-trials-without-noise",
        "the winner of random trials is handed out with its exact score",
        "dpfast/curator/door.py",
        SELECTION_TESTS,
        "found = release_integer(exact, rate, noise), tuple(point.tolist())",
        "found = exact, tuple(point.tolist())",
    ),
    plant(
        "loss-difference-charged-after-the-records",
        "a difference of losses is computed before the ledger agrees",
        "dpfast/curator/steps.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "    curator.ledger.charge(GDP(mu), receipt.query)\n    value = np.array([curator._loss_difference(new, old)])\n",
        "    value = np.array([curator._loss_difference(new, old)])\n    curator.ledger.charge(GDP(mu), receipt.query)\n",
    ),
    plant(
        "eigenvalue-charged-after-the-records",
        "an extreme eigenvalue is computed before the ledger agrees",
        "dpfast/curator/steps.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "    curator.ledger.charge(GDP(mu), name)\n    _, hessian, _ = curator._sums(theta, HESSIAN)\n",
        "    _, hessian, _ = curator._sums(theta, HESSIAN)\n    curator.ledger.charge(GDP(mu), name)\n",
    ),
    plant(
        "direction-charged-after-the-records",
        "a damped direction is computed before the ledger agrees",
        "dpfast/curator/steps.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "    curator.ledger.charge(GDP(mu), receipt.query)\n    _, hessian, _ = curator._sums(theta, want)\n",
        "    _, hessian, _ = curator._sums(theta, want)\n    curator.ledger.charge(GDP(mu), receipt.query)\n",
    ),
    plant(
        "change-charged-after-the-records",
        "a change of gradients is computed before the ledger agrees",
        "dpfast/curator/nonconvex/gradients.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "        self.ledger.charge(GDP(mu), receipt.query)\n        value = self._change(new, old, limit)\n",
        "        value = self._change(new, old, limit)\n        self.ledger.charge(GDP(mu), receipt.query)\n",
    ),
    plant(
        "statistics-charged-after-the-records",
        "X'X is computed before the ledger agrees",
        "dpfast/curator/baselines/statistics.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        '    curator.ledger.charge(GDP(mu), "gram + moment")\n    question = ("gram + moment", mu)\n    gram = curator._release(question, receipts[0], _gram(curator))\n',
        '    question = ("gram + moment", mu)\n    exact = _gram(curator)\n    curator.ledger.charge(GDP(mu), "gram + moment")\n    gram = curator._release(question, receipts[0], exact)\n',
    ),
    plant(
        "minimiser-charged-after-the-search",
        "a minimiser is found before the ledger agrees",
        "dpfast/curator/baselines/minimiser.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "    curator.ledger.charge(GDP(mu), receipt.query)\n    value = _minimise(curator, minimiser_search(curator))\n",
        "    value = _minimise(curator, minimiser_search(curator))\n    curator.ledger.charge(GDP(mu), receipt.query)\n",
    ),
    plant(
        "tilt-charged-after-the-search",
        "objective perturbation is charged when its minimiser is found",
        "dpfast/curator/release/perturbation.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "    curator.ledger.charge(terms.budget, terms.receipt.query)\n    return paid_minimiser(curator, terms)\n",
        "    found = paid_minimiser(curator, terms)\n    curator.ledger.charge(terms.budget, terms.receipt.query)\n    return found\n",
    ),
    plant(
        "share-charged-after-the-values",
        "a share is counted before the ledger agrees",
        "dpfast/curator/shares.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "        self.ledger.charge(GDP(mu), receipt.query)\n        below = int(np.count_nonzero(self._values <= threshold))\n",
        "        below = int(np.count_nonzero(self._values <= threshold))\n        self.ledger.charge(GDP(mu), receipt.query)\n",
    ),
    plant(
        "told-losses-charged-after-the-mean",
        "a mean of told losses is computed before the ledger agrees",
        "dpfast/curator/blackbox/vectors.py",
        (PAID + "test_a_query_that_cannot_pay_reads_and_draws_nothing",),
        "        self.ledger.charge(GDP(mu), receipt.query)\n        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)\n        value = self._mean_loss(point, middle, half)\n",
        "        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)\n        value = self._mean_loss(point, middle, half)\n        self.ledger.charge(GDP(mu), receipt.query)\n",
    ),
    plant(
        "shared-ledger-charged-after-the-releases",
        "a baseline charges the shared ledger when everything is released",
        "dpfast/baselines/statistics.py",
        (PAID + "test_a_shared_ledger_is_charged_the_total_before_anything_is_drawn",),
        '    charge_shared(ledger, privacy, total, request.label("adassp"))\n    smallest = release_smallest_eigenvalue(curator, mu_eigenvalue)\n    answer = release_statistics(curator, mu_gram, mu_moment)\n',
        '    smallest = release_smallest_eigenvalue(curator, mu_eigenvalue)\n    answer = release_statistics(curator, mu_gram, mu_moment)\n    charge_shared(ledger, privacy, total, request.label("adassp"))\n',
    ),
)

TRIALS_SAMPLES_AND_BLOCKS = (
    plant(
        "trials-of-a-fixed-number",
        "a selection makes the mean number of trials instead of the secret one",
        "dpfast/curator/blackbox/selection.py",
        (MISSING + "test_a_selection_makes_the_number_of_trials_it_drew",),
        "range(number_of_trials(mean_trials, source))",
        "range(max(1, round(mean_trials)))",
    ),
    plant(
        "trials-cut-off",
        "the number of trials is cut off near its mean",
        "dpfast/curator/blackbox/selection.py",
        (MISSING + "test_a_selection_makes_the_number_of_trials_it_drew",),
        "range(number_of_trials(mean_trials, source))",
        "range(min(number_of_trials(mean_trials, source), 1 + int(mean_trials)))",
    ),
    plant(
        "trials-at-least-the-mean",
        "a selection makes at least the mean number of trials",
        "dpfast/curator/blackbox/selection.py",
        (MISSING + "test_a_selection_makes_the_number_of_trials_it_drew",),
        "range(number_of_trials(mean_trials, source))",
        "range(max(number_of_trials(mean_trials, source), round(mean_trials)))",
    ),
    plant(
        "one-sample-for-all-steps",
        "the sample of the first step serves all others, which are accounted as fresh ones",
        "dpfast/curator/baselines/subsample.py",
        (MISSING + "test_every_step_has_a_sample_of_its_own",),
        "sample = slice(0, n) if rate == 1.0 else poisson_sample(n, rate, curator._noise)",
        "sample = slice(0, n) if rate == 1.0 else getattr(self, '_kept', None)\n        if sample is None:\n            sample = self._kept = poisson_sample(n, rate, curator._noise)",
    ),
    plant(
        "blocks-follow-the-first-value",
        "a matrix whose first response is missing is read as one block",
        "dpfast/data/streams.py",
        (MISSING + "test_blocks_do_not_follow_values",),
        "    sizes = block_sizes_for(n, q)\n",
        "    sizes = block_sizes_for(n, q) if np.isfinite(_converted(y[:1])).all() else [n]\n",
    ),
    plant(
        "parts-added-by-size",
        "the parts of blocks are added in the order of their sizes",
        "dpfast/data/reduction.py",
        (MISSING + "test_parts_are_added_in_their_places",),
        "    levels: list[list[Any]] = []  # sum",
        "    parts = sorted(parts, key=lambda part: abs(float(part[0].sum() if isinstance(part, tuple) and part[0] is not None else 0.0)))\n    levels: list[list[Any]] = []  # sum",
    ),
    plant(
        "told-values-sorted",
        "told values are sorted before they are added",
        "dpfast/curator/blackbox/vectors.py",
        (MISSING + "test_told_values_are_added_in_their_places",),
        "        row = [row for chunk in self._chunks for row in chunk][point]\n",
        "        row = np.sort([row for chunk in self._chunks for row in chunk][point])\n",
    ),
)

TOLERANCES_ABOVE_ROUNDING = (
    plant(
        "statistics-charged-down",
        "the joint cost of X'X and X'y is rounded down",
        "dpfast/privacy/baselines/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "return scale * math.sqrt(squared) * _UP",
        "return scale * math.sqrt(squared) * (1.0 - 1e-9)",
    ),
    plant(
        "choice-charged-down",
        "the cost of the exponential mechanism is rounded down",
        "dpfast/privacy/nonconvex/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "return 0.5 * half_range * half_range * (1.0 + 2.0**-50)",
        "return 0.5 * half_range * half_range * (1.0 - 1e-9)",
    ),
    plant(
        "selection-charged-down",
        "the cost of the best of random trials is rounded down",
        "dpfast/privacy/blackbox/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "return 3.0 * trial * (1.0 + 2.0**-51)",
        "return 3.0 * trial * (1.0 - 1e-6)",
    ),
    plant(
        "rows-of-a-person-rounded-up",
        "what one row may cost is rounded up",
        "dpfast/front/request.py",
        (ERRORS + "test_the_rows_of_a_person_cost_at_most_the_total",),
        "GDP(total.mu / m * (1.0 - 2.0**-50))",
        "GDP(total.mu / m * (1.0 + 1e-6))",
    ),
    plant(
        "pure-budget-within-a-tolerance",
        "the epsilon that a Gaussian budget covers may exceed it by a part in a thousand",
        "dpfast/baselines/random_search.py",
        (ERRORS + "test_the_pure_cost_of_a_gaussian_budget_is_covered_to_the_last_digit",),
        "while PureDP(epsilon).as_gdp().mu > mu:",
        "while PureDP(epsilon).as_gdp().mu > mu * (1.0 + 1e-3):",
        "    epsilon = math.log(float(ndtr(0.5 * mu)) / float(ndtr(-0.5 * mu)))\n",
        "    epsilon = math.log(float(ndtr(0.5 * mu)) / float(ndtr(-0.5 * mu))) * (1.0 + 1e-9)\n",
    ),
    plant(
        "zcdp-request-halved-too-seldom",
        "the rho that a requested pair allows is the middle of a bracket",
        "dpfast/privacy/budget.py",
        (ERRORS + "test_zcdp_of_a_pair_keeps_the_pair",),
        "            while high - low > 4e-16 * high:",
        "            while high - low > 1e-6 * high:",
        "            return ZCDP(low)",
        "            return ZCDP(0.5 * (low + high))",
    ),
    plant(
        "sampled-steps-within-a-tolerance",
        "the noise of sampled gradients may cost a part in a thousand more than the budget",
        "dpfast/curator/baselines/amplification.py",
        (ERRORS + "test_a_multiplier_just_short_is_not_enough",),
        "if epsilon <= budget.epsilon:",
        "if epsilon <= budget.epsilon * (1.0 + 1e-3):",
    ),
    plant(
        "convolutions-taken-as-exact",
        "what convolutions lose is added to delta instead of taken from it",
        "dpfast/curator/baselines/amplification.py",
        (ERRORS + "test_sampled_steps_are_all_accounted_for",),
        "delta - CONVOLUTION_ERROR",
        "delta + 1000.0 * CONVOLUTION_ERROR",
    ),
    plant(
        "advantage-rounded-down",
        "an attacker's advantage is rounded down",
        "dpfast/privacy/tradeoff.py",
        (ERRORS + "test_no_attack_is_reported_weaker_than_it_is",),
        "return min(1.0, math.erf(budget.mu / math.sqrt(8.0)) * _UP)",
        "return min(1.0, math.erf(budget.mu / math.sqrt(8.0)) * (1.0 - 1e-9))",
    ),
    plant(
        "range-of-losses-rounded-down",
        "the width of the range of losses is rounded down",
        "dpfast/privacy/blackbox/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "return mean_score((upper - lower) * _UP, n, depth=depth)",
        "return mean_score((upper - lower) * (1.0 - 1e-9), n, depth=depth)",
    ),
    plant(
        "products-taken-as-exact",
        "the rounding of linear predictors is left out of the error of a gradient",
        "dpfast/privacy/baselines/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "products = 4.0 * (dimension + 16) * UNIT_ROUNDOFF",
        "products = 0.0",
    ),
    plant(
        "sampled-sums-taken-as-exact",
        "the rounding of sampled sums is left out of their sensitivity",
        "dpfast/privacy/baselines/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "slack = RECORD_ERROR + 2.0 * gamma * n * (1.0 + RECORD_ERROR)",
        "slack = RECORD_ERROR",
    ),
    plant(
        "changes-taken-as-exact",
        "the rounding of a change of gradients is left out",
        "dpfast/privacy/nonconvex/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "return (predictor + 1e-12 * score) * (1.0 + 1e-6)",
        "return 1e-12 * score",
    ),
    plant(
        "norms-taken-as-exact",
        "the rounding of a norm is left out of its sensitivity",
        "dpfast/privacy/nonconvex/sensitivity.py",
        (ERRORS + "test_constants_are_their_formulas_rounded_up",),
        "rounding = 2.0 * lipschitz * (dimension + 4.0) * UNIT_ROUNDOFF * (1.0 + 1e-9)",
        "rounding = 0.0",
    ),
    plant(
        "tilt-taken-as-exact",
        "the noise on a tilted minimiser does not cover the digits of the tilt",
        "dpfast/curator/release/perturbation.py",
        (ERRORS + "test_the_noise_on_a_tilted_minimiser_covers_search_and_tilt",),
        "slack = plan.tolerance + normal_error(scale, plan.dimension)",
        "slack = plan.tolerance",
    ),
    plant(
        "functional-with-an-exact-search",
        "the tolerance of the search is left out of a functional's factors",
        "dpfast/privacy/release/certified_minimiser.py",
        (ERRORS + "test_what_a_certified_minimiser_allows_for",),
        "solver_error=1.6 * (slack + hessian_error) / step,",
        "solver_error=1.6 * hessian_error / step,",
    ),
    plant(
        "parameter-with-an-exact-search",
        "the shift of a parameter takes the search as exact",
        "dpfast/privacy/release/certified_minimiser.py",
        (ERRORS + "test_what_a_certified_minimiser_allows_for",),
        "return (moved + 2.0 * self.distance(l0)) * (1.0 + 2.0**-48)",
        "return moved * (1.0 + 2.0**-48)",
    ),
)

STOPPING_RULES_WITHOUT_THEIR_ERROR = (
    plant(
        "minimiser-stops-without-its-error",
        "output perturbation stops where the computed gradient is small, however wrong it may be",
        "dpfast/curator/baselines/minimiser.py",
        (ERRORS + "test_the_search_for_a_ridge_minimiser_pays_for_its_error",),
        "enough = ridge * search.tolerance * (1.0 - 1e-9) - search.error",
        "enough = ridge * search.tolerance * (1.0 - 1e-9)",
    ),
    plant(
        "certified-search-stops-without-its-error",
        "a certified search stops where the computed gradient is small, however wrong it may be",
        "dpfast/curator/release/certified.py",
        (ERRORS + "test_a_certified_search_pays_for_its_error",),
        "self.enough = plan.tolerance * (1.0 - 1e-9) - plan.error",
        "self.enough = plan.tolerance * (1.0 - 1e-9)",
    ),
    plant(
        "smooth-step-accepted-without-its-error",
        "the test of descent takes computed gradients as exact",
        "dpfast/curator/release/smooth.py",
        (ERRORS + "test_a_step_is_accepted_only_beyond_what_errors_can_feign",),
        "        least += 2.0 * self.plan.error * float(np.linalg.norm(back))\n",
        "",
    ),
    plant(
        "sampled-steps-at-the-wrong-end",
        "the search for a noise multiplier returns the end of its bracket that is not enough",
        "dpfast/curator/baselines/amplification.py",
        (ERRORS + "test_a_multiplier_just_short_is_not_enough",),
        "            high, at_high = middle, at_middle\n    return math.exp(high)",
        "            high, at_high = middle, at_middle\n    return math.exp(low)",
    ),
    plant(
        "fast-steps-always-arrive",
        "a search that ran out of fast steps is taken to have arrived",
        "dpfast/curator/release/certified.py",
        (ERRORS + "test_a_search_says_when_it_has_not_arrived",),
        "            theta, (gradient, hessian, length) = candidate, following\n        return theta, hessian, length <= self.enough\n\n    def direction",
        "            theta, (gradient, hessian, length) = candidate, following\n        return theta, hessian, True\n\n    def direction",
    ),
    plant(
        "eager-steps-always-arrive",
        "a search that ran out of ridges is taken to have arrived",
        "dpfast/curator/release/certified.py",
        (ERRORS + "test_a_search_says_when_it_has_not_arrived",),
        "                length = float(np.linalg.norm(gradient))\n        return theta, hessian, length <= self.enough",
        "                length = float(np.linalg.norm(gradient))\n        return theta, hessian, True",
    ),
    plant(
        "path-ignores-the-tilt",
        "the path of ridges starts where the scores allow it, but not the tilt",
        "dpfast/curator/release/certified.py",
        (ERRORS + "test_the_path_starts_where_the_tilt_allows_it",),
        "            score += float(np.linalg.norm(self.tilt))\n",
        "            pass\n",
    ),
    plant(
        "shift-within-a-tolerance",
        "the shift of a parameter is found to a part in a million, downwards",
        "dpfast/privacy/release/sensitivity.py",
        (ERRORS + "test_the_shift_of_a_parameter_reaches_its_root",),
        "pull * _DOWN >= push",
        "pull * (1.0 + 1e-6) >= push",
    ),
)

DEALING = "dpfast/privacy/dealing.py"
CROSS_VALIDATE = "dpfast/estimators/validation.py"
DEALING_TESTS = ("tests/privacy/test_dealing.py",)
CROSS_VALIDATE_TESTS = ("tests/estimators/test_cross_validation.py",)

CROSS_VALIDATION = (
    plant(
        "cross-validation-scores-for-free",
        "the score of a record's own fold is not in the total",
        DEALING,
        DEALING_TESTS,
        '    book.charge(score, "score of the fold left out")\n',
        "",
    ),
    plant(
        "cross-validation-forgets-a-fit",
        "a record is taken to be in k - 2 training sets",
        DEALING,
        DEALING_TESTS,
        "range(n_folds - 1)",
        "range(n_folds - 2)",
    ),
    plant(
        "cross-validation-charged-as-one-fit",
        "the shared ledger pays for one of the fits",
        CROSS_VALIDATE,
        CROSS_VALIDATE_TESTS,
        "ledger.charge(total, ",
        "ledger.charge(fit_price, ",
    ),
    plant(
        "fold-models-see-their-fold",
        "the model that is scored on a fold was trained on it, too",
        CROSS_VALIDATE,
        CROSS_VALIDATE_TESTS,
        "trained._fit_records(features[~tested], response[~tested])",
        "trained._fit_records(features, response)",
    ),
    plant(
        "folds-follow-responses",
        "folds are dealt by the rank of the response",
        CROSS_VALIDATE,
        CROSS_VALIDATE_TESTS,
        "parts = dealt.parts(n)",
        "parts = response.argsort(kind='stable').argsort(kind='stable') % k",
    ),
    plant(
        "split-follows-labels",
        "the splitter for scikit-learn deals by the rank of the label",
        "dpfast/estimators/folds.py",
        CROSS_VALIDATE_TESTS,
        "parts = self.parts(n)",
        "parts = (np.zeros(n) if y is None else np.asarray(y)).argsort(kind='stable') % self.n_splits",
    ),
    plant(
        "seeded-folds-count-as-genuine",
        "a cross-validation on seeded folds claims the guarantee",
        CROSS_VALIDATE,
        CROSS_VALIDATE_TESTS,
        "sources = (model._noise(), dealt.noise)",
        "sources = (model._noise(),)",
    ),
    plant(
        "dealt-in-the-order-of-the-table",
        "parts are blocks of the table in place of random ones",
        DEALING,
        DEALING_TESTS,
        "parts[order] = ",
        "parts[:] = ",
    ),
    plant(
        "ties-dealt-in-the-order-of-the-table",
        "records with equal random words are not drawn again",
        DEALING,
        DEALING_TESTS,
        "if not (ranked[1:] == ranked[:-1]).any():",
        "if len(ranked) == n:",
    ),
    plant(
        "scores-of-estimators-uncharged",
        "a score is not charged to the ledger that the folds share",
        "dpfast/estimators/base.py",
        ("tests/estimators/test_estimators.py",),
        "charge_shared(self.ledger, self.score_privacy, total,",
        "charge_shared(None, self.score_privacy, total,",
    ),
)

BLOCKS = "dpfast/curator/blocks.py"
BLOCK_TESTS = ("tests/privacy/test_blocks.py",)

ADAPTIVE_TESTS = ("tests/optimize/test_adaptive_newton.py",)

RANDOM_BLOCKS = (
    plant(
        "arrived-by-the-exact-gradient",
        "whether the path has arrived is read off a gradient that was not released",
        "dpfast/optimize/adaptive/run.py",
        ADAPTIVE_TESTS,
        "            arrived = step.length <= ARRIVED\n",
        "            cells = [c.cell_contents for c in self.source.loss_difference.__closure__]\n"
        "            keeper = next(c for c in cells if hasattr(c, 'nonprivate_sums'))\n"
        "            exact = np.abs(keeper.nonprivate_sums(self.theta)[0]).max()\n"
        "            arrived = (step.length if exact > 1e-3 else 0.0) <= ARRIVED\n",
    ),
    plant(
        "audit-trusts-dealings",
        "an audit does not look whether a record is in two blocks",
        "dpfast/audit/playback.py",
        BLOCK_TESTS,
        "    leaks += _blocks_moved(first, other)\n",
        "",
    ),
    plant(
        "dealings-counted-as-one",
        "an audit takes blocks of two dealings for disjoint",
        "dpfast/audit/transcript.py",
        BLOCK_TESTS,
        "            number: dealing\n",
        "            number: 0\n",
    ),
    plant(
        "block-noise-of-the-table",
        "a block has the noise of all records in place of its own",
        BLOCKS,
        BLOCK_TESTS,
        "records = Block(curator._records, inside, size)",
        "records = Block(curator._records, inside, curator.n)",
    ),
    plant(
        "blocks-overlap",
        "a block begins in the last slot of the one before",
        BLOCKS,
        BLOCK_TESTS,
        "(self._slots >= end - width)",
        "(self._slots >= end - width - 1)",
    ),
    plant(
        "dealing-not-charged",
        "blocks cost nothing",
        BLOCKS,
        BLOCK_TESTS,
        """        curator.ledger.charge(GDP(mu), "random blocks")
""",
        "",
    ),
    plant(
        "block-spends-more",
        "each block may spend more than was charged",
        BLOCKS,
        BLOCK_TESTS,
        "own = Ledger(GDP(self._mu))",
        "own = Ledger(GDP(1.01 * self._mu))",
    ),
    plant(
        "blocks-in-the-order-of-the-table",
        "slots follow the rows, which one record shifts in a sorted table",
        "dpfast/privacy/dealing.py",
        BLOCK_TESTS,
        "return source.words(-(-n // 8)).view(np.uint8)[:n]",
        "return np.arange(n).astype(np.uint8)",
    ),
    plant(
        "block-rounding-of-its-share",
        "rounding of a block allows for no more records than are to be expected",
        "dpfast/curator/joint.py",
        BLOCK_TESTS,
        "return depth * self.excess",
        "return depth",
    ),
    plant(
        "block-grid-of-its-share",
        "the grid of a block has room for no more records than are to be expected",
        "dpfast/curator/joint.py",
        BLOCK_TESTS,
        "check_grid_range(bound * excess, scale, coordinates)",
        "check_grid_range(bound, scale, coordinates)",
    ),
    plant(
        "block-steering-queries",
        "queries that know nothing of secret numbers of records are answered about blocks",
        CURATOR,
        BLOCK_TESTS,
        "if self._layout.excess != 1:",
        "if self._layout.excess < 1:",
    ),
    plant(
        "slots-taken-one-at-a-time",
        "a block of many slots takes one, so that the next gets the same",
        "dpfast/privacy/paid.py",
        BLOCK_TESTS,
        "self._left[answer] -= count",
        "self._left[answer] -= 1",
    ),
    plant(
        "constant-term-on-the-house",
        "answers about the constant term charge a ledger of their own",
        BLOCKS,
        BLOCK_TESTS,
        """        Objective(loss, Mallows(1.0), 0, scale=scale),
        curator.ledger,
""",
        """        Objective(loss, Mallows(1.0), 0, scale=scale),
        Ledger(GDP(1e6)),
""",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *RANDOM_BLOCKS,
    *CROSS_VALIDATION,
    *SHARES_AND_GROUPS,
    *NON_CONVEX,
    *RELEASE_ALGORITHMS,
    *SMOOTH_RELEASE,
    *BLACK_BOX,
    *NOISE_TOO_SMALL,
    *WRONG_SENSITIVITY,
    *WRONG_JOINT_COST,
    *RECORDS_UNBOUNDED,
    *BAD_RANDOMNESS,
    *FLATTERING_CONVERSIONS,
    *MONEY,
    *DATA_DEPENDENT_BEHAVIOUR,
    *TABLES,
    *STEERING_AND_BASELINES,
    *ONE_PARAMETER,
    *GUARDED_FILES,
    *OWN_LOSSES,
    *SPLITS_THAT_DO_NOT_ADD_UP,
    *USABLE_RECORDS_IN_PLACE_OF_N,
    *CHARGED_AFTER,
    *TRIALS_SAMPLES_AND_BLOCKS,
    *TOLERANCES_ABOVE_ROUNDING,
    *STOPPING_RULES_WITHOUT_THEIR_ERROR,
)
