(* Searches, non-convex algorithms, releases, counts, longer sides: G1, G4, G5, K1 to K3, K5, R39, C30,
   C75 to C77, C103. *)
Require Import Reals Lra Psatz Lia List.
From dpfast Require Import Meaning Vectors Formulas Sums Cells Joint.
Open Scope R_scope.

(* ---- sensitivities that are those of other claims ---- *)
Theorem K1_mean_gradient : forall b n depth, mean_gradient b n depth = mean_score (2 * b) n depth.
Proof. reflexivity. Qed.

Theorem G1_clipped_mean : forall b n dimension depth, clipped_mean b n dimension depth = mean_score (2 * b) n depth.
Proof. reflexivity. Qed.

Lemma mean_score_grows : forall D D' n depth, 1 <= n -> 0 <= depth < 2 ^ 50 -> D <= D' ->
  mean_score D n depth <= mean_score D' n depth.
Proof.
  intros D D' n depth N P L. unfold mean_score. pose proof up. pose proof (slack_pos n depth N P).
  apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_r; [lra|].
  unfold Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra | exact L].
Qed.

(* Two numbers of [lower, upper] differ by its length. *)
Theorem G4_mean_loss : forall lower upper n depth, lower <= upper -> 1 <= n -> 0 <= depth < 2 ^ 50 ->
  (forall x y, lower <= x <= upper -> lower <= y <= upper -> Rabs (x - y) <= upper - lower) /\
  mean_score (upper - lower) n depth <= mean_loss lower upper n depth.
Proof.
  intros lower upper n depth L N P. split.
  - intros x y X Y. apply Rabs_le. lra.
  - apply mean_score_grows; try assumption. pose proof up. nra.
Qed.

(* K2 (a): changes that are clipped to a limit, whatever is said of the loss. *)
Theorem K2_gradient_change : forall limit n depth error, 0 <= limit -> 0 <= error -> 1 <= n -> 0 <= depth < 2 ^ 50 ->
  mean_score (2 * limit) n depth <= gradient_change limit n depth 1 error.
Proof.
  intros. unfold gradient_change. apply mean_score_grows; try assumption.
  apply Rmin_glb; [lra|]. pose proof up. nra.
Qed.

(* K3: a norm moves by at most what its vector moves. *)
Theorem K3_norm_is_lipschitz : forall (S : space) (x y : vector S), Rabs (norm x - norm y) <= norm (sub x y).
Proof.
  intros S x y. assert (H : forall x y : vector S, norm x <= norm (sub x y) + norm y).
  { intros a b. rewrite (same_norm a (add (sub a b) b)) at 1; [apply triangle|].
    intro z. rewrite inner_add, inner_sub. ring. }
  pose proof (H x y). pose proof (H y x). rewrite (norm_sub_sym y x) in *. apply Rabs_le. lra.
Qed.

Theorem K3_gradient_norm : forall lipschitz n dimension depth moved, 0 <= moved ->
  moved * UP <= mean_gradient lipschitz n depth -> 0 <= lipschitz -> 1 <= dimension ->
  (moved + 2 * (lipschitz * (dimension + 4) * UNIT_ROUNDOFF)) * UP <= gradient_norm lipschitz n dimension depth.
Proof.
  intros l n p depth moved M H L P. unfold gradient_norm. pose proof up.
  apply Rmult_le_compat_r; [lra|]. assert (moved <= moved * UP) by (apply times_up; lra).
  assert (0 <= l * (p + 4)) by (apply Rmult_le_pos; lra).
  assert (0 <= l * (p + 4) * UNIT_ROUNDOFF) by (unfold UNIT_ROUNDOFF; apply Rmult_le_pos; lra).
  replace (2 * l * (p + 4)) with (2 * (l * (p + 4))) by ring. lra.
Qed.

(* ---- whole numbers of grid steps ---- *)
Lemma whole_steps : forall (k : Z) w, IZR k <= w + 1 -> IZR k <= floor w + 1.
Proof.
  intros k w H. unfold floor. destruct (base_Int_part w) as [_ B].
  assert (IZR k < IZR (Int_part w) + 2) by lra.
  rewrite <- plus_IZR in H0. apply lt_IZR in H0. rewrite <- plus_IZR. apply IZR_le. lia.
Qed.

(* K5: norms that are rounded to the nearest step, each within 1/2 + 2^-31 of the quotient. *)
Theorem K5_norm_steps : forall x y sensitivity grid (i j : Z), 0 < grid -> 0 <= sensitivity ->
  Rabs (x - y) <= sensitivity -> Rabs (IZR i - x / grid) <= / 2 + / 2 ^ 31 -> Rabs (IZR j - y / grid) <= / 2 + / 2 ^ 31 ->
  IZR (i - j) <= norm_steps sensitivity grid.
Proof.
  intros x y s g i j G S D I J. unfold norm_steps. apply whole_steps. rewrite minus_IZR.
  assert (Q : x / g - y / g <= s / g).
  { replace (x / g - y / g) with ((x - y) / g) by (field; lra). unfold Rdiv.
    apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra|]. unfold Rabs in D. destruct (Rcase_abs (x - y)); lra. }
  assert (0 <= s / g) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
  assert (s / g <= s / g * UP) by (pose proof up; nra).
  unfold Rabs in I, J. destruct (Rcase_abs (IZR i - x / g)), (Rcase_abs (IZR j - y / g)); lra.
Qed.

(* G5: the same of mean losses. *)
Theorem G5_loss_steps : forall x y lower upper n grid depth (i j : Z), 0 < grid -> lower <= upper -> 1 <= n ->
  0 <= depth < 2 ^ 50 -> Rabs (x - y) <= mean_loss lower upper n depth ->
  Rabs (IZR i - x / grid) <= / 2 -> Rabs (IZR j - y / grid) <= / 2 ->
  IZR (i - j) <= loss_steps lower upper n grid depth.
Proof.
  intros x y a b n g depth i j G L N P D I J. unfold loss_steps. apply whole_steps. rewrite minus_IZR.
  set (s := mean_loss a b n depth) in *. assert (S : 0 <= s) by (pose proof (Rabs_pos (x - y)); lra).
  assert (Q : x / g - y / g <= s / g).
  { replace (x / g - y / g) with ((x - y) / g) by (field; lra). unfold Rdiv.
    apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra|]. unfold Rabs in D. destruct (Rcase_abs (x - y)); lra. }
  assert (0 <= s / g) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
  assert (s / g <= s / g * (1 + 4 * UNIT_ROUNDOFF + RECORD_ERROR)) by (unfold UNIT_ROUNDOFF, RECORD_ERROR; lra).
  unfold Rabs in I, J. destruct (Rcase_abs (IZR i - x / g)), (Rcase_abs (IZR j - y / g)); lra.
Qed.

(* R39: two numbers that differ by a shift have floors on its grid that differ by STEP_COUNT at most. *)
Theorem R39_step_grid : forall x y shift, 0 < shift -> Rabs (x - y) <= shift ->
  floor (x / step_grid shift) - floor (y / step_grid shift) <= STEP_COUNT.
Proof.
  intros x y s P D. pose proof up. set (g := step_grid s).
  assert (G : g = s / 65535 * UP) by (unfold g, step_grid, STEP_COUNT; f_equal; f_equal; lra).
  assert (GP : 0 < g) by (rewrite G; apply Rmult_lt_0_compat; lra).
  assert (Q : x / g - y / g <= 65535).
  { replace (x / g - y / g) with ((x - y) / g) by (field; lra).
    apply Rmult_le_reg_r with g; [exact GP|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    assert (s <= 65535 * g) by (rewrite G; nra). unfold Rabs in D. destruct (Rcase_abs (x - y)); lra. }
  pose proof (floor_below (x / g)). pose proof (floor_near (y / g)).
  unfold floor in *. destruct (base_Int_part (x / g)) as [A _]. destruct (base_Int_part (y / g)) as [_ B].
  assert (E : IZR (Int_part (x / g) - Int_part (y / g)) < 65537) by (rewrite minus_IZR; lra).
  apply lt_IZR in E. unfold STEP_COUNT. rewrite <- minus_IZR. apply IZR_le. lia.
Qed.

Theorem R39_step_shift : forall reach length n depth, 1 <= n -> 0 <= depth < 2 ^ 50 -> 0 <= length ->
  (2 / n * reach + 2 / n * (length * (3 * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR))))) * UP
    <= step_shift reach length n depth.
Proof.
  intros r l n depth N P L. unfold step_shift. pose proof up. pose proof (slack n depth N P).
  apply Rmult_le_compat_r; [lra|]. rewrite <- Rmult_plus_distr_l.
  apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
  apply Rplus_le_compat_l. apply Rmult_le_compat_l; assumption.
Qed.

(* ---- C30: Schweppe weights ---- *)
Theorem C30_schweppe : forall d C k psi h (a : vector (Rd d)), 0 <= C -> Rabs psi <= k -> 0 <= h ->
  let v := Rmin 1 (C / norm a) in
  norm (scale (psi * v) a) <= C * k /\ norm (rank_one (h * v ^ 2) a) <= C ^ 2 * h.
Proof.
  intros d C k psi h a P K Hh v.
  assert (E : norm (scale v a) <= C) by (apply clipped; exact P).
  rewrite norm_scale in E. pose proof (norm_pos a). pose proof (Rabs_pos psi). split.
  - rewrite norm_scale, Rabs_mult, Rmult_assoc, Rmult_comm. pose proof (Rabs_pos v).
    apply Rmult_le_compat; try assumption. apply Rmult_le_pos; assumption.
  - rewrite norm_rank_one by (apply Rmult_le_pos; [exact Hh | apply pow2_ge_0]).
    rewrite <- norm_square. replace (h * v ^ 2 * (norm a * norm a)) with (h * (v ^ 2 * norm a ^ 2)) by ring.
    rewrite (Rmult_comm (C ^ 2)). apply Rmult_le_compat_l; [exact Hh|].
    replace (v ^ 2 * norm a ^ 2) with ((Rabs v * norm a) ^ 2) by (rewrite Rpow_mult_distr, pow2_abs; ring).
    apply pow_incr. split; [apply Rmult_le_pos; [apply Rabs_pos | assumption] | exact E].
Qed.

(* ---- C76: counts with clipped residuals ---- *)
Definition held (a x : R) := Rmax (- a) (Rmin a x).

Theorem C76_range : forall M a mu y, 0 < a -> 0 <= mu <= M -> 0 <= y -> - a <= held a (mu - y) <= Rmin M a.
Proof.
  intros M a mu y A B Y. unfold held, Rmax, Rmin.
  destruct (Rle_dec a (mu - y)), (Rle_dec M a); try destruct (Rle_dec (- a) a); try destruct (Rle_dec (- a) (mu - y)); lra.
Qed.

Lemma held_is_lipschitz : forall a x y, 0 < a -> Rabs (held a x - held a y) <= Rabs (x - y).
Proof.
  intros a x y A. pose proof (Rle_abs (x - y)) as U. pose proof (Rle_abs (- (x - y))) as V. rewrite Rabs_Ropp in V.
  apply Rabs_le. unfold held, Rmin. destruct (Rle_dec a x), (Rle_dec a y); unfold Rmax;
  repeat match goal with |- context [Rle_dec ?u ?v] => destruct (Rle_dec u v) end; lra.
Qed.

Theorem C76_slope : forall M t t', 0 < M -> t <= t' -> Rmin (exp t') M - Rmin (exp t) M <= M * (t' - t).
Proof.
  assert (One : forall M t t', t <= t' -> exp t' <= M -> exp t' - exp t <= M * (t' - t)).
  { intros M t t' L B. pose proof (exp_ineq1_le (t - t')) as I. pose proof (exp_pos t').
    assert (exp t = exp t' * exp (t - t')) by (rewrite <- exp_plus; f_equal; ring).
    assert (exp t' * (1 + (t - t')) <= exp t' * exp (t - t')) by (apply Rmult_le_compat_l; lra).
    assert (exp t' * (t' - t) <= M * (t' - t)) by (apply Rmult_le_compat_r; lra). lra. }
  intros M t t' P L. destruct (Rle_or_lt (exp t') M) as [B | B].
  - assert (exp t <= exp t') by (destruct L as [L | ->]; [left; apply exp_increasing; exact L | lra]).
    rewrite !Rmin_left by lra. apply One; assumption.
  - rewrite (Rmin_right (exp t')) by lra. destruct (Rle_or_lt (exp t) M) as [C | C].
    + rewrite Rmin_left by lra. set (m := ln M). assert (E : exp m = M) by (apply exp_ln; exact P).
      assert (Hm : t <= m) by (apply Rnot_lt_le; intro Q; apply exp_increasing in Q; lra).
      assert (Hm' : m <= t') by (apply Rnot_lt_le; intro Q; apply exp_increasing in Q; lra).
      pose proof (One M t m Hm ltac:(lra)). nra.
    + rewrite Rmin_right by lra. nra.
Qed.

(* ---- C103: a person's shares of cells are not negative and add up to 1 at most ---- *)
Lemma sum_of_squares : forall K (v : nat -> R), (forall i, 0 <= v i) -> sum K (fun i => v i * v i) <= sum K v * sum K v.
Proof.
  induction K; intros v P; simpl; [lra|]. specialize (IHK v P). pose proof (sum_pos K v (fun i _ => P i)).
  specialize (P K). nra.
Qed.

Theorem C103_shares_of_persons : forall K (v w : vector (Rd K)), (forall i, 0 <= v i) -> (forall i, 0 <= w i) ->
  sum K v <= 1 -> norm v <= 1 /\ 0 <= inner v w.
Proof.
  intros K v w V W L. split.
  - apply norm_le; [lra|]. unfold norm2. simpl. unfold dot. pose proof (sum_of_squares K v V).
    pose proof (sum_pos K v (fun i _ => V i)). nra.
  - simpl. unfold dot. apply sum_pos. intros. apply Rmult_le_pos; auto.
Qed.

(* ---- C75 (a): scores with a longer side ---- *)
Ltac in_max := match goal with
  | |- ?x <= Rmax ?a ?x => apply Rmax_r
  | |- ?x <= Rmax ?a ?b => apply Rle_trans with a; [in_max | apply Rmax_l]
  end.

Lemma crest_is : forall start slope b upper t, 0 <= slope -> 0 <= b -> 0 <= t <= upper ->
  start + slope * t - b * t ^ 2 <= crest start slope b upper.
Proof.
  intros start s b upper t S B T. unfold crest. cbv zeta.
  apply (leb_cases R (2 * b * upper) s upper (s / (2 * b)) (fun x => start + s * t - b * t ^ 2 <= start + x * (s - b * x))); intro L.
  - assert (0 <= (upper - t) * (s - b * (upper + t))).
    { apply Rmult_le_pos; [lra|]. assert (b * (upper + t) <= 2 * b * upper) by nra. lra. } lra.
  - assert (0 < b) by nra. assert (0 <= b * (t - s / (2 * b)) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]).
    assert (b * (t - s / (2 * b)) ^ 2 = b * t ^ 2 - s * t + s * s / (4 * b)) by (field; lra).
    replace (s / (2 * b) * (s - b * (s / (2 * b)))) with (s * s / (4 * b)) by (field; lra). lra.
Qed.

(* Rows with an intercept: the cosine between two directions is 2 / R^2 - 1 at least. *)
Theorem C75_cosine : forall (S : space) (u v e : vector S) c, norm2 u = 1 -> norm2 v = 1 -> norm2 e = 1 -> 0 <= c ->
  c <= inner u e -> c <= inner v e -> 2 * (c * c) - 1 <= inner u v.
Proof.
  intros S u v e c U V E C A B. set (p := inner u e) in *. set (r := inner v e) in *.
  set (u' := sub u (scale p e)). set (v' := sub v (scale r e)).
  assert (I : inner u' v' = inner u v - p * r).
  { unfold u', v'. rewrite inner_sub, !inner_sub_r, !inner_scale, (inner_sym S u (scale r e)),
      (inner_sym S e (scale r e)), !inner_scale, (inner_sym S e u), (inner_sym S e v).
    change (inner e e) with (norm2 e). rewrite E. fold p r. ring. }
  assert (U' : norm2 u' = 1 - p * p).
  { unfold u'. rewrite norm2_sub, norm2_scale, (inner_sym S u), inner_scale, (inner_sym S e u), U, E. fold p. ring. }
  assert (V' : norm2 v' = 1 - r * r).
  { unfold v'. rewrite norm2_sub, norm2_scale, (inner_sym S v), inner_scale, (inner_sym S e v), V, E. fold r. ring. }
  pose proof (norm2_pos u'). pose proof (norm2_pos v').
  assert (- (1 - c * c) <= inner u' v').
  { pose proof (norm2_pos (add u' v')) as Q. rewrite norm2_add in Q.
    assert (c * c <= p * p) by nra. assert (c * c <= r * r) by nra. lra. }
  assert (c * c <= p * r) by nra. lra.
Qed.

Theorem C75_one_sign : forall short square g h q A A' H H' t, 0 <= g -> 0 <= h -> 0 <= q -> 0 < square ->
  fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> 0 <= t <= Rmax 0 (1 - 2 / Rmax square 2) ->
  g / 4 * (1 + t) * (A ^ 2 + A' ^ 2) + h / 2 * (H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2)
    + q / 2 * ((A ^ 2) ^ 2 + (A' ^ 2) ^ 2 - 2 * A ^ 2 * A' ^ 2 * t ^ 2) <= collinear_sides short square g h q.
Proof.
  intros short square g h q A A' H H' t G P Q SQ a a' hh hh' T.
  set (L := Rmax 0 (1 - 2 / Rmax square 2)) in *.
  assert (L1 : L <= 1).
  { unfold L. apply Rmax_lub; [lra|]. pose proof (Rmax_r square 2).
    assert (0 <= 2 / Rmax square 2) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]). lra. }
  assert (T1 : fit01 t) by (unfold fit01; lra).
  pose proof (matrices h H H' t P hh hh' T1) as M.
  assert (fit01 (A ^ 2)) by (unfold fit01 in *; nra). assert (fit01 (A' ^ 2)) by (unfold fit01 in *; nra).
  pose proof (matrices q (A ^ 2) (A' ^ 2) t Q H0 H1 T1) as N.
  replace (2 * A ^ 2 * A' ^ 2 * t ^ 2) with (2 * (A ^ 2) * (A' ^ 2) * t ^ 2) in * by ring.
  assert (V : g / 4 * (1 + t) * (A ^ 2 + A' ^ 2) <= g / 2 * (1 + t)).
  { unfold fit01 in *. assert (0 <= g / 4 * (1 + t)) by nra. nra. }
  assert (R : forall constant curvature meat meat_curvature,
    (constant, curvature) = (0, h) \/ (constant, curvature) = (1 / 2 * h, 0) ->
    (meat, meat_curvature) = (0, q) \/ (meat, meat_curvature) = (1 / 2 * q, 0) ->
    crest (constant + curvature + meat + meat_curvature + 1 / 2 * g) (1 / 2 * g) (curvature + meat_curvature) L
      <= collinear_sides short square g h q).
  { intros c0 c1 m0 m1 [E1 | E1] [E2 | E2]; injection E1 as -> ->; injection E2 as -> ->;
      unfold collinear_sides; fold L; cbv zeta; in_max. }
  pose proof (R 0 h 0 q (or_introl eq_refl) (or_introl eq_refl)) as R1.
  pose proof (R 0 h (1 / 2 * q) 0 (or_introl eq_refl) (or_intror eq_refl)) as R2.
  pose proof (R (1 / 2 * h) 0 0 q (or_intror eq_refl) (or_introl eq_refl)) as R3.
  pose proof (R (1 / 2 * h) 0 (1 / 2 * q) 0 (or_intror eq_refl) (or_intror eq_refl)) as R4.
  pose proof (crest_is (0 + h + 0 + q + 1 / 2 * g) (1 / 2 * g) (h + q) L t ltac:(lra) ltac:(lra) T).
  pose proof (crest_is (0 + h + 1 / 2 * q + 0 + 1 / 2 * g) (1 / 2 * g) (h + 0) L t ltac:(lra) ltac:(lra) T).
  pose proof (crest_is (1 / 2 * h + 0 + 0 + q + 1 / 2 * g) (1 / 2 * g) (0 + q) L t ltac:(lra) ltac:(lra) T).
  pose proof (crest_is (1 / 2 * h + 0 + 1 / 2 * q + 0 + 1 / 2 * g) (1 / 2 * g) (0 + 0) L t ltac:(lra) ltac:(lra) T).
  set (K := collinear_sides short square g h q) in *.
  assert (Rmax (q / 2) (q * (1 - t ^ 2)) + Rmax (h / 2) (h * (1 - t ^ 2)) <= K - g / 2 * (1 + t))
    by (apply plus_max; lra).
  lra.
Qed.

Theorem C75_both_signs : forall short square g h q x x' H H' t, 0 <= g -> 0 <= h -> 0 <= q -> 0 < short <= 1 ->
  fit01 x -> fit01 x' -> fit01 H -> fit01 H' -> fit01 t ->
  g / 4 * (x + short ^ 2 * x' + short * t * (x + x')) + h / 2 * (H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2)
    + q / 2 * (x ^ 2 + short ^ 4 * x' ^ 2 - 2 * short ^ 2 * x * x' * t ^ 2) <= collinear_sides short square g h q.
Proof.
  intros s square g h q x x' H H' t G P Q S X X' hh hh' T.
  pose proof (matrices h H H' t P hh hh' T) as M. unfold fit01 in X, X', T.
  assert (S2 : 0 <= s ^ 2 <= 1) by nra. assert (S4 : 0 <= s ^ 4 <= 1) by (replace (s ^ 4) with (s ^ 2 * s ^ 2) by ring; nra).
  assert (T2 : 0 <= t ^ 2 <= 1) by nra.
  set (B11 := g / 4 * (1 + s ^ 2 + 2 * s * t) + q / 2 * (1 + s ^ 4 - 2 * s ^ 2 * t ^ 2)).
  set (B10 := g / 4 * (1 + s * t) + q / 2).
  assert (C : g / 4 * (x + s ^ 2 * x' + s * t * (x + x')) + q / 2 * (x ^ 2 + s ^ 4 * x' ^ 2 - 2 * s ^ 2 * x * x' * t ^ 2)
    <= Rmax B10 B11).
  { assert (ST : 0 <= s * t <= 1) by nra.
    pose proof (between_ends (q / 2) (g / 4 * (1 + s * t) - q * s ^ 2 * x' * t ^ 2)
      (g / 4 * (s ^ 2 + s * t) * x' + q / 2 * s ^ 4 * x' ^ 2) x ltac:(lra) X) as E.
    replace (g / 4 * (x + s ^ 2 * x' + s * t * (x + x')) + q / 2 * (x ^ 2 + s ^ 4 * x' ^ 2 - 2 * s ^ 2 * x * x' * t ^ 2))
      with (q / 2 * x ^ 2 + (g / 4 * (1 + s * t) - q * s ^ 2 * x' * t ^ 2) * x
        + (g / 4 * (s ^ 2 + s * t) * x' + q / 2 * s ^ 4 * x' ^ 2)) by field.
    eapply Rle_trans; [exact E|]. apply Rmax_lub.
    - apply Rle_trans with B10; [|apply Rmax_l]. unfold B10.
      assert (g / 4 * (s ^ 2 + s * t) * x' <= g / 4 * (1 + s * t)).
      { assert (0 <= g / 4 * (s ^ 2 + s * t)) by (apply Rmult_le_pos; lra).
        apply Rle_trans with (g / 4 * (s ^ 2 + s * t) * 1); [apply Rmult_le_compat_l; lra|].
        rewrite Rmult_1_r. apply Rmult_le_compat_l; lra. }
      assert (0 <= x' ^ 2 <= 1) by nra.
      assert (s ^ 4 * x' ^ 2 <= 1) by (replace 1 with (1 * 1) by ring; apply Rmult_le_compat; lra).
      assert (q / 2 * (s ^ 4 * x' ^ 2) <= q / 2 * 1) by (apply Rmult_le_compat_l; lra). lra.
    - pose proof (between_ends (q / 2 * s ^ 4) (g / 4 * (s ^ 2 + s * t) - q * s ^ 2 * t ^ 2)
        (q / 2 + g / 4 * (1 + s * t)) x' ltac:(apply Rmult_le_pos; lra) X') as E'.
      replace (q / 2 + (g / 4 * (1 + s * t) - q * s ^ 2 * x' * t ^ 2) + (g / 4 * (s ^ 2 + s * t) * x' + q / 2 * s ^ 4 * x' ^ 2))
        with (q / 2 * s ^ 4 * x' ^ 2 + (g / 4 * (s ^ 2 + s * t) - q * s ^ 2 * t ^ 2) * x' + (q / 2 + g / 4 * (1 + s * t)))
        by field.
      eapply Rle_trans; [exact E'|]. apply Rmax_lub.
      + apply Rle_trans with B10; [unfold B10; lra | apply Rmax_l].
      + apply Rle_trans with B11; [unfold B11; right; field | apply Rmax_r]. }
  assert (R : forall constant curvature,
    (constant, curvature) = (0, h) \/ (constant, curvature) = (1 / 2 * h, 0) ->
    crest (constant + curvature + 1 / 4 * g * (1 + s ^ 2) + 1 / 2 * q * (1 + s ^ 4)) (1 / 2 * g * s)
      (curvature + q * s ^ 2) 1 <= collinear_sides s square g h q
    /\ crest (constant + curvature + 1 / 4 * g + 1 / 2 * q) (1 / 4 * g * s) curvature 1 <= collinear_sides s square g h q).
  { intros c0 c1 [E1 | E1]; injection E1 as -> ->; unfold collinear_sides; cbv zeta; split; in_max. }
  destruct (R 0 h (or_introl eq_refl)) as [R1 R2]. destruct (R (1 / 2 * h) 0 (or_intror eq_refl)) as [R3 R4].
  assert (GS : 0 <= g * s) by (apply Rmult_le_pos; lra). assert (QS : 0 <= q * s ^ 2) by (apply Rmult_le_pos; lra).
  assert (T' : 0 <= t <= 1) by exact T.
  pose proof (crest_is (0 + h + 1 / 4 * g * (1 + s ^ 2) + 1 / 2 * q * (1 + s ^ 4)) (1 / 2 * g * s) (h + q * s ^ 2) 1 t
    ltac:(lra) ltac:(lra) T').
  pose proof (crest_is (0 + h + 1 / 4 * g + 1 / 2 * q) (1 / 4 * g * s) h 1 t ltac:(lra) ltac:(lra) T').
  pose proof (crest_is (1 / 2 * h + 0 + 1 / 4 * g * (1 + s ^ 2) + 1 / 2 * q * (1 + s ^ 4)) (1 / 2 * g * s) (0 + q * s ^ 2) 1 t
    ltac:(lra) ltac:(lra) T').
  pose proof (crest_is (1 / 2 * h + 0 + 1 / 4 * g + 1 / 2 * q) (1 / 4 * g * s) 0 1 t ltac:(lra) ltac:(lra) T').
  set (K := collinear_sides s square g h q) in *.
  assert (Rmax B10 B11 + Rmax (h / 2) (h * (1 - t ^ 2)) <= K) by (apply plus_max; unfold B10, B11; lra).
  lra.
Qed.
