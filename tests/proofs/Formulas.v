(* Written by `python -m tests.proofs.generate` from dpfast/privacy; do not edit. *)
Require Import Reals Bool List.
From dpfast Require Import Meaning.
Open Scope R_scope.

Definition UNIT_ROUNDOFF : R := (1 / 2 ^ 53). (* 1.1102230246251565e-16 *)
Definition ROUNDING_PRODUCT : R := (1 / 2 ^ 50). (* 8.881784197001252e-16 *)
Definition ROUNDING_FORMULA : R := (1 / 2 ^ 48). (* 3.552713678800501e-15 *)
Definition ROUNDING_ELEMENTARY : R := (1 / 2 ^ 44). (* 5.684341886080802e-14 *)
Definition ROUNDING_SUM : R := (1 / 2 ^ 40). (* 9.094947017729282e-13 *)
Definition ROUNDING_SHARES : R := (1 / 2 ^ 30). (* 9.313225746154785e-10 *)
Definition RECORD_ERROR : R := (4951760157141521 / 2 ^ 92). (* 1e-12 *)
Definition JOINT_MARGIN : R := 3. (* 3.0 *)
Definition UP : R := (281474976710657 / 2 ^ 48). (* 1.0000000000000036 *)
Definition SQUARE_MU : R := (1874623344892969 / 2 ^ 51). (* 0.8325 *)
Definition MAJORIZER_STEP : R := (1 / 256). (* 0.00390625 *)
Definition MAJORIZER_REACH : R := 32. (* 32.0 *)
Definition DOWN : R := (281474976710655 / 2 ^ 48). (* 0.9999999999999964 *)
Definition SQUARE_AT : R := (3 / 4). (* 0.75 *)
Definition WITH_SQUARES : R := (7 / 8). (* 0.875 *)
Definition WITHOUT : R := 1. (* 1.0 *)
Definition GRAM_ROUNDING : R := (536870913 / 2 ^ 49). (* 9.536743181826068e-07 *)
Definition COUNT_SQUARE : R := (1 / 8). (* 0.125 *)
Definition PRODUCT : R := (1 / 8). (* 0.125 *)
Definition WEIGHT_SQUARE : R := (1 / 4). (* 0.25 *)
Definition WEIGHTED_COUNT : R := (5 / 8). (* 0.625 *)
Definition HISTOGRAM_SQUARE : R := (1 / 8). (* 0.125 *)
Definition WEIGHT_STEP : R := 32. (* 32.0 *)
Definition GRID_COST : R := (243764480361283 / 2 ^ 67). (* 1.6518123698906444e-06 *)
Definition ROWS : R := (1125899906853883 / 2 ^ 50). (* 1.00000000001 *)
Definition STEP_COUNT : R := 65536. (* 65536 *)
Definition HELD_CELLS : R := 16777216. (* 16777216 *)
Definition TABLES_SQUARE_WEIGHT : R := (6368990593027355 / 2 ^ 52). (* 1.4142 *)
Definition SCALING_SQUARE_WEIGHT : R := (7475975381435023 / 2 ^ 52). (* 1.66 *)
Definition PORTFOLIO_RANGE : R := (1 / 4). (* 0.25 *)
Definition PORTFOLIO_CHOICE : R := (1 / 4). (* 0.25 *)
Definition PORTFOLIO_VALUES_ALONE : R := (8425463406411593 / 2 ^ 53). (* 0.9354143466934853 *)
Definition PORTFOLIO_VALUES : R := (3602879701896397 / 2 ^ 53). (* 0.4 *)
Definition PORTFOLIO_GRADIENTS : R := (7616278058634925 / 2 ^ 53). (* 0.8455767262643882 *)
Definition KEPT_LENGTH : R := (1 / 2 ^ 23). (* 1.1920928955078125e-07 *)
Definition LOGISTIC_slope : R := 1. (* 1.0 *)
Definition LOGISTIC_curvature : R := (1125899906842625 / 2 ^ 52). (* 0.2500000000000002 *)
Definition LOGISTIC_concordance : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition LOGISTIC_third : R := (1733436304789771 / 2 ^ 54). (* 0.09622504486493771 *)
Definition LOG_COSH_slope : R := 1. (* 1.0 *)
Definition LOG_COSH_curvature : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition LOG_COSH_concordance : R := (1125899906842625 / 2 ^ 49). (* 2.0000000000000018 *)
Definition LOG_COSH_third : R := (1733436304789771 / 2 ^ 51). (* 0.7698003589195017 *)
Definition PSEUDO_HUBER_slope : R := 1. (* 1.0 *)
Definition PSEUDO_HUBER_curvature : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition PSEUDO_HUBER_concordance : R := (3377699720527875 / 2 ^ 51). (* 1.5000000000000013 *)
Definition PSEUDO_HUBER_third : R := (7734032571066747 / 2 ^ 53). (* 0.85865010335992 *)
Definition OSTROVSKII_BACH_slope : R := 1. (* 1.0 *)
Definition OSTROVSKII_BACH_curvature : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition OSTROVSKII_BACH_concordance : R := (3582054447882409 / 2 ^ 51). (* 1.5907517294000013 *)
Definition OSTROVSKII_BACH_third : R := (607465773804957 / 2 ^ 49). (* 1.0790759820000009 *)
Definition SMOOTH_ABSOLUTE_slope : R := 1. (* 1.0 *)
Definition SMOOTH_ABSOLUTE_curvature : R := (1125899906842625 / 2 ^ 51). (* 0.5000000000000004 *)
Definition SMOOTH_ABSOLUTE_concordance : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition SMOOTH_ABSOLUTE_third : R := (1733436304789771 / 2 ^ 53). (* 0.19245008972987543 *)
Definition QUANTILE_slope : R := (3 / 4). (* 0.75 *)
Definition QUANTILE_curvature : R := (1125899906842625 / 2 ^ 52). (* 0.2500000000000002 *)
Definition QUANTILE_concordance : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition QUANTILE_third : R := (1733436304789771 / 2 ^ 54). (* 0.09622504486493771 *)
Definition SMOOTHED_HUBER_slope : R := (3 / 2). (* 1.5 *)
Definition SMOOTHED_HUBER_curvature : R := (1125899906842625 / 2 ^ 50). (* 1.0000000000000009 *)
Definition SMOOTHED_HUBER_third : R := (3377699720527875 / 2 ^ 51). (* 1.5000000000000013 *)
Definition SMOOTHED_HUBER_stretch : R := (3377699720527875 / 2 ^ 50). (* 3.0000000000000027 *)
Definition HUBER_score_limit : R := (3749461372757289 / 2 ^ 50). (* 3.330190676782231 *)
Definition HUBER_curvature_limit : R := 2. (* 2.0 *)
Definition PSEUDO_HUBER_score_limit : R := 1. (* 1.0 *)
Definition PSEUDO_HUBER_curvature_limit : R := (5494391545392005 / 2 ^ 52). (* 1.22 *)

Definition relative_slack (n : R) (depth : R) : R :=
  let roundings := (depth * UNIT_ROUNDOFF) in
  let gamma := (roundings / (1 - roundings)) in
  ((JOINT_MARGIN * (RECORD_ERROR + ((gamma * n) * (1 + RECORD_ERROR)))) * UP).
Definition mean_score (diameter : R) (n : R) (depth : R) : R :=
  (((diameter / n) * (1 + (relative_slack n depth))) * UP).
Definition mean_rank_one (bound : R) (n : R) (dimension : R) (depth : R) : R :=
  let factor := (sqrt 2) in
  ((((factor * bound) / n) * (1 + (relative_slack n depth))) * UP).
Definition mean_rank_one_alone (bound : R) (n : R) (dimension : R) (depth : R) : R :=
  let factor := (if ((eqb dimension 1)) then 1 else (sqrt 2)) in
  ((((factor * bound) / n) * (1 + (relative_slack n depth))) * UP).
Definition mean_square (clip : R) (n : R) (depth : R) : R :=
  ((((clip * clip) / n) * (1 + (relative_slack n depth))) * UP).
Definition extreme_eigenvalue (bound : R) (n : R) (dimension : R) (depth : R) : R :=
  let solver := (((128 * dimension) * UNIT_ROUNDOFF) * n) in
  (((bound / n) * ((1 + (relative_slack n depth)) + solver)) * UP).
Definition loss_difference (score_bound : R) (distance : R) (n : R) (depth : R) : R :=
  (((((2 * score_bound) * distance) / n) * (1 + (relative_slack n depth))) * UP).
Definition centred_share (n : R) : R :=
  (((1 / n) + (8 * UNIT_ROUNDOFF)) * UP).
Definition histogram (n : R) (excess : R) : R :=
  ((((sqrt 2) / n) + ((4 * excess) * UNIT_ROUNDOFF)) * UP).
Definition relative (mu_g : R) (mu_h : R) (mu_q : R) : R * R * R * R :=
  let scale := (Rmax (Rmax mu_g mu_h) mu_q) in
  (scale, ((mu_g / scale) ^ 2), ((mu_h / scale) ^ 2), ((mu_q / scale) ^ 2)).
Definition peak (slope : R) (quadratic : R) : R :=
  (if (leb (2 * quadratic) slope) then (2 * slope) else ((slope + quadratic) + ((slope * slope) / (4 * quadratic)))).
Definition collinear (g : R) (h : R) (q : R) : R :=
  (Rmax (Rmax (Rmax (peak ((1 / 2) * g) (h + q)) ((peak ((1 / 2) * g) q) + ((1 / 2) * h))) ((peak ((1 / 4) * g) h) + ((1 / 2) * q))) ((1 / 2) * ((g + h) + q))).
Definition logistic (g : R) (h : R) (q : R) : R :=
  let value := fun tau : R => ((tau * tau) * ((g + ((16 * h) * ((1 - tau) ^ 2))) + ((q * tau) * tau))) in
  let '(a, b, c) := (((32 * h) + (2 * q)), (24 * h), (g + (16 * h))) in
  let discriminant := ((b * b) - (a * c)) in
  let inner := (if (ltb 0 discriminant) then (value (Rmin 1 (c / (b + (sqrt discriminant))))) else 0) in
  (Rmax (value 1) inner).
Definition within_cell (g : R) (h : R) (q : R) : R :=
  (((MAJORIZER_STEP * MAJORIZER_STEP) / 8) * ((g + ((6004799503160661 / 2 ^ 52) * h)) + (2 * q))).
Definition beyond_grid (g : R) (h : R) (q : R) : R :=
  ((g + q) + (h / (MAJORIZER_REACH * MAJORIZER_REACH))).
Definition joint_mu_none (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_none_of_means (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_independent (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (Rmin squared (collinear g h q)) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_independent_of_means (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (if (((leb (4 * q) g))) then let squared := (Rmin squared (collinear g h q)) in
  squared else squared) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_one_minus_square (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (Rmin squared (collinear g h q)) in
  let squared := (if ((leb (4 * q) g)) then let squared := (Rmin squared (Rmax g h)) in
  squared else let squared := (Rmin squared (Rmax h (g + q))) in
  squared) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_one_minus_square_of_means (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (if (((leb (4 * q) g))) then let squared := (Rmin squared (collinear g h q)) in
  squared else squared) in
  let squared := (if ((leb (4 * q) g)) then let squared := (Rmin squared (Rmax g h)) in
  squared else let squared := (Rmin squared (Rmax h (g + q))) in
  squared) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_circle (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (Rmin squared (collinear g h q)) in
  let squared := (Rmin squared (Rmax h (g + q))) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_circle_of_means (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (if (((leb (4 * q) g))) then let squared := (Rmin squared (collinear g h q)) in
  squared else squared) in
  let squared := (Rmin squared (Rmax h (g + q))) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_logistic (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (Rmin squared (collinear g h q)) in
  let squared := (Rmin squared (logistic g h q)) in
  ((scale * (sqrt squared)) * UP).
Definition joint_mu_logistic_of_means (mu_gradient : R) (mu_hessian : R) (mu_meat : R) : R :=
  let '(scale, g, h, q) := (relative mu_gradient mu_hessian mu_meat) in
  let squared := ((g + h) + q) in
  let squared := (if (((leb (4 * q) g))) then let squared := (Rmin squared (collinear g h q)) in
  squared else squared) in
  let squared := (Rmin squared (logistic g h q)) in
  ((scale * (sqrt squared)) * UP).
Definition crest (start : R) (slope : R) (quadratic : R) (upper : R) : R :=
  let t := (if (leb ((2 * quadratic) * upper) slope) then upper else (slope / (2 * quadratic))) in
  (start + (t * (slope - (quadratic * t)))).
Definition collinear_sides (geometry_short : R) (geometry_square : R) (g : R) (h : R) (q : R) : R :=
  let '(short, largest_cosine) := (geometry_short, (Rmax 0 (1 - (2 / (Rmax geometry_square 2))))) in
  let result := 0 in
  let '(constant, curvature) := (0, h) in
  let '(meat, meat_curvature) := (0, q) in
  let start := ((((constant + curvature) + meat) + meat_curvature) + ((1 / 2) * g)) in
  let result := (Rmax result (crest start ((1 / 2) * g) (curvature + meat_curvature) largest_cosine)) in
  let '(meat, meat_curvature) := (((1 / 2) * q), 0) in
  let start := ((((constant + curvature) + meat) + meat_curvature) + ((1 / 2) * g)) in
  let result := (Rmax result (crest start ((1 / 2) * g) (curvature + meat_curvature) largest_cosine)) in
  let start := (((constant + curvature) + (((1 / 4) * g) * (1 + (short ^ 2)))) + (((1 / 2) * q) * (1 + (short ^ 4)))) in
  let result := (Rmax result (crest start (((1 / 2) * g) * short) (curvature + (q * (short ^ 2))) 1)) in
  let start := (((constant + curvature) + ((1 / 4) * g)) + ((1 / 2) * q)) in
  let result := (Rmax result (crest start (((1 / 4) * g) * short) curvature 1)) in
  let '(constant, curvature) := (((1 / 2) * h), 0) in
  let '(meat, meat_curvature) := (0, q) in
  let start := ((((constant + curvature) + meat) + meat_curvature) + ((1 / 2) * g)) in
  let result := (Rmax result (crest start ((1 / 2) * g) (curvature + meat_curvature) largest_cosine)) in
  let '(meat, meat_curvature) := (((1 / 2) * q), 0) in
  let start := ((((constant + curvature) + meat) + meat_curvature) + ((1 / 2) * g)) in
  let result := (Rmax result (crest start ((1 / 2) * g) (curvature + meat_curvature) largest_cosine)) in
  let start := (((constant + curvature) + (((1 / 4) * g) * (1 + (short ^ 2)))) + (((1 / 2) * q) * (1 + (short ^ 4)))) in
  let result := (Rmax result (crest start (((1 / 2) * g) * short) (curvature + (q * (short ^ 2))) 1)) in
  let start := (((constant + curvature) + ((1 / 4) * g)) + ((1 / 2) * q)) in
  let result := (Rmax result (crest start (((1 / 4) * g) * short) curvature 1)) in
  result.
Definition cell_counts : R := ((sqrt 2) * UP).
Definition cell_sums (bound : R) (weight : R) : R :=
  ((Rmax (2 * bound) (sqrt (2 * ((bound * bound) + (weight * weight))))) * UP).
Definition count_weight (squared : R) (plain : R) : R :=
  ((sqrt ((WITH_SQUARES * squared) + (WITHOUT * plain))) * DOWN).
Definition cell_moments (squared : R) (plain : R) (n : R) : R :=
  (((sqrt (squared + plain)) * (2 + ((16 * n) * UNIT_ROUNDOFF))) * UP).
Definition cell_distribution (column_norm : R) : R :=
  (((sqrt 2) * column_norm) * UP).
Definition weighted_factors (columns : R) : R * R * R :=
  let product := ((sqrt PRODUCT) * DOWN) in
  let weight := ((sqrt (WEIGHT_SQUARE * columns)) * DOWN) in
  (product, weight, ((sqrt (WEIGHTED_COUNT * columns)) * DOWN)).
Definition count_square_factor : R := ((sqrt COUNT_SQUARE) * DOWN).
Definition histogram_square_factor : R := ((sqrt HISTOGRAM_SQUARE) * DOWN).
Definition weighted_cell_counts (n : R) : R :=
  (((sqrt (2 * (1 + COUNT_SQUARE))) + ((32 * n) * UNIT_ROUNDOFF)) * UP).
Definition weighted_cell_moments (columns : R) (n : R) : R :=
  let exact := (2 * (sqrt (1 + PRODUCT))) in
  (((sqrt columns) * (exact + ((32 * n) * UNIT_ROUNDOFF))) * UP).
Definition weighted_cell_distribution (column_norm : R) (n : R) (n_bins : R) : R :=
  let exact := ((cell_distribution column_norm) * (sqrt (1 + HISTOGRAM_SQUARE))) in
  ((exact + (((32 * (sqrt n_bins)) * n) * UNIT_ROUNDOFF)) * UP).
Definition cell_grams (columns : R) : R :=
  let entries := (sqrt ((columns * (columns + 1)) / 2)) in
  (((sqrt 2) + (GRAM_ROUNDING * entries)) * UP).
Definition complete_weight (m : R) : R :=
  ((floor ((WEIGHT_STEP * (sqrt ((3 / 4) * m))) * DOWN)) / WEIGHT_STEP).
Definition counts (m : R) : R :=
  ((sqrt m) * UP).
Definition distances (columns : R) : R :=
  ((sqrt (2 * columns)) * UP).
Definition clipped_moments (columns : R) (n : R) : R :=
  (((sqrt columns) * ((2 / n) + (16 * UNIT_ROUNDOFF))) * UP).
Definition query_mu (total : R) (planned : R) (m : R) : R :=
  ((total * (sqrt (m / planned))) * DOWN).
Definition clipped_mean (bound : R) (n : R) (dimension : R) (depth : R) : R :=
  (mean_score (2 * bound) n depth).
Definition mean_loss (lower : R) (upper : R) (n : R) (depth : R) : R :=
  (mean_score ((upper - lower) * UP) n depth).
Definition loss_steps (lower : R) (upper : R) (n : R) (grid : R) (depth : R) : R :=
  let exact := ((mean_loss lower upper n depth) / grid) in
  ((floor (exact * ((1 + (4 * UNIT_ROUNDOFF)) + RECORD_ERROR))) + 1).
Definition mean_gradient (lipschitz : R) (n : R) (depth : R) : R :=
  (mean_score (2 * lipschitz) n depth).
Definition gradient_change (limit : R) (n : R) (depth : R) (lowest : R) (error : R) : R :=
  let diameter := (Rmin (2 * limit) ((((1 + lowest) * limit) + (2 * error)) * UP)) in
  (mean_score diameter n depth).
Definition change_error (curvature : R) (score : R) (sizes : R) (dimension : R) : R :=
  let predictor := ((((dimension + 8) * UNIT_ROUNDOFF) * sizes) * curvature) in
  ((predictor + ((4951760157141521 / 2 ^ 92) * score)) * (4503604130970123 / 2 ^ 52)).
Definition gradient_norm (lipschitz : R) (n : R) (dimension : R) (depth : R) : R :=
  let rounding := ((((2 * lipschitz) * (dimension + 4)) * UNIT_ROUNDOFF) * (281474976992131 / 2 ^ 48)) in
  (((mean_gradient lipschitz n depth) + rounding) * UP).
Definition norm_steps (sensitivity : R) (grid : R) : R :=
  ((floor (((sensitivity / grid) * UP) + (1 / 2 ^ 29))) + 1).
Definition gaussian_scale (sensitivity : R) (mu : R) (dimension : R) : R :=
  let scale := ((sensitivity / (mu - GRID_COST)) * (1 + ROUNDING_FORMULA)) in
  scale.
Definition eigenvalue_step (c : R) (B1 : R) (radius : R) (n : R) : R :=
  (((((((2 * c) * B1) * radius) * radius) / n) * ROWS) * UP).
Definition step_shift (reach : R) (length : R) (n : R) (depth : R) : R :=
  (((2 / n) * (reach + (length * (relative_slack n depth)))) * UP).
Definition step_grid (shift : R) : R :=
  ((shift / (STEP_COUNT - 1)) * UP).
