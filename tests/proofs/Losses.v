(* Built-in losses: bounds of scores, curvatures and third derivatives (R1, R27), couplings (C18, C29, C56),
   majorising curvatures, and maxima between points of a grid (C18). *)
Require Import Reals Lra Psatz Lia.
From Coquelicot Require Import Coquelicot.
From dpfast Require Import Meaning Vectors Formulas Sums Joint.
Open Scope R_scope.

(* ---- derivatives ---- *)
Lemma mvt : forall f df a b, a <= b -> (forall x, a <= x <= b -> is_derive f x (df x)) ->
  exists c, a <= c <= b /\ f b - f a = df c * (b - a).
Proof.
  intros f df a b L D. destruct (MVT_gen f a b df) as [c [C E]].
  - intros x X. rewrite Rmin_left, Rmax_right in X by assumption. apply D. lra.
  - intros x X. rewrite Rmin_left, Rmax_right in X by assumption.
    apply derivable_continuous_pt. exists (df x). apply is_derive_Reals. apply D. assumption.
  - rewrite Rmin_left, Rmax_right in C by assumption. exists c. split; assumption.
Qed.

Lemma rises : forall f df a b, a <= b -> (forall x, a <= x <= b -> is_derive f x (df x)) ->
  (forall x, a <= x <= b -> 0 <= df x) -> f a <= f b.
Proof. intros f df a b L D P. destruct (mvt f df a b L D) as [c [C E]]. pose proof (P c C). nra. Qed.

(* Between points of a grid a function exceeds the larger of its values there by w^2/8 times a bound of its
   negative second derivative at most. *)
Lemma between_grid_points : forall f f1 f2 a b M, a <= b -> 0 <= M ->
  (forall x, a <= x <= b -> is_derive f x (f1 x)) -> (forall x, a <= x <= b -> is_derive f1 x (f2 x)) ->
  (forall x, a <= x <= b -> - M <= f2 x) ->
  forall x, a <= x <= b -> f x <= Rmax (f a) (f b) + (b - a) * (b - a) / 8 * M.
Proof.
  intros f f1 f2 a b M L P D1 D2 B x X.
  set (F := fun y => f y + M / 2 * ((y - a) * (y - b))).
  set (F1 := fun y => f1 y + M / 2 * (2 * y - a - b)).
  assert (DF : forall y, a <= y <= b -> is_derive F y (F1 y)).
  { intros y Y. unfold F, F1. apply (is_derive_plus f (fun y => M / 2 * ((y - a) * (y - b)))); [apply D1, Y|].
    auto_derive; [trivial | ring]. }
  assert (DF1 : forall y, a <= y <= b -> is_derive F1 y (f2 y + M)).
  { intros y Y. unfold F1. apply (is_derive_plus f1 (fun y => M / 2 * (2 * y - a - b))); [apply D2, Y|].
    auto_derive; [trivial | field]. }
  destruct (mvt F F1 a x) as [c [C E]]; [lra | intros; apply DF; lra |].
  destruct (mvt F F1 x b) as [c' [C' E']]; [lra | intros; apply DF; lra |].
  assert (G : F1 c <= F1 c').
  { apply (rises F1 (fun y => f2 y + M)); [lra | intros; apply DF1; lra |].
    intros y Y. pose proof (B y ltac:(lra)). lra. }
  assert (FX : F x <= Rmax (f a) (f b)).
  { assert (FA : F a = f a) by (unfold F; ring). assert (FB : F b = f b) by (unfold F; ring).
    destruct (Rle_or_lt (F1 c) 0).
    - apply Rle_trans with (f a); [nra | apply Rmax_l].
    - apply Rle_trans with (f b); [nra | apply Rmax_r]. }
  unfold F in FX. pose proof (pow2_ge_0 (2 * x - a - b)). nra.
Qed.

(* ---- sigmoid and hyperbolic tangent ---- *)
Definition sig (t : R) := / (1 + exp (- t)).
Definition th (x : R) := 1 - 2 / (exp (2 * x) + 1).

Lemma sig_range : forall t, 0 < sig t < 1.
Proof.
  intro t. unfold sig. pose proof (exp_pos (- t)). split; [apply Rinv_0_lt_compat; lra|].
  rewrite <- Rinv_1 at 2. apply Rinv_lt_contravar; lra.
Qed.

Lemma sig_derive : forall t, is_derive sig t (sig t * (1 - sig t)).
Proof. intro t. unfold sig. pose proof (exp_pos (- t)). auto_derive; [lra | field; lra]. Qed.

Lemma th_range : forall x, -1 < th x < 1.
Proof.
  intro x. unfold th. pose proof (exp_pos (2 * x)).
  assert (0 < 2 / (exp (2 * x) + 1) < 2); [|lra]. split; [apply Rdiv_lt_0_compat; lra|].
  apply Rmult_lt_reg_r with (exp (2 * x) + 1); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma th_derive : forall x, is_derive th x (1 - th x ^ 2).
Proof. intro x. unfold th. pose proof (exp_pos (2 * x)). auto_derive; [lra | field; lra]. Qed.

Lemma th_zero : th 0 = 0.
Proof. unfold th. rewrite Rmult_0_r, exp_0. lra. Qed.

Lemma th_pos : forall x, 0 <= x -> 0 <= th x.
Proof.
  intros x X. rewrite <- th_zero. apply (rises th (fun y => 1 - th y ^ 2)); [exact X | intros; apply th_derive |].
  intros y _. pose proof (th_range y). nra.
Qed.

Lemma th_odd : forall x, th (- x) = - th x.
Proof.
  intro x. unfold th. replace (2 * - x) with (- (2 * x)) by ring. rewrite exp_Ropp. pose proof (exp_pos (2 * x)).
  field. lra.
Qed.

(* Derivatives of expressions of th and root, without their formulas. *)
Ltac known D := match type of D with is_derive ?f ?x ?d =>
  replace (Derive (fun y : R => f y) x) with d by (symmetry; apply is_derive_unique; exact D) end.

Lemma th2_derive : forall x, is_derive (fun y => th y ^ 2) x (2 * th x * (1 - th x ^ 2)).
Proof. intro x. pose proof (th_derive x) as D. auto_derive; [exists (1 - th x ^ 2); exact D|]. known D. ring. Qed.

Lemma th2_second : forall x, is_derive (fun y => 2 * th y * (1 - th y ^ 2)) x (2 * (1 - th x ^ 2) * (1 - 3 * th x ^ 2)).
Proof. intro x. pose proof (th_derive x) as D. auto_derive; [repeat split; exists (1 - th x ^ 2); exact D|]. known D. ring. Qed.

Lemma th4_derive : forall x, is_derive (fun y => th y ^ 4) x (4 * th x ^ 3 * (1 - th x ^ 2)).
Proof. intro x. pose proof (th_derive x) as D. auto_derive; [exists (1 - th x ^ 2); exact D|]. known D. ring. Qed.

Lemma th4_second : forall x, is_derive (fun y => 4 * th y ^ 3 * (1 - th y ^ 2)) x (4 * th x ^ 2 * (1 - th x ^ 2) * (3 - 5 * th x ^ 2)).
Proof. intro x. pose proof (th_derive x) as D. auto_derive; [repeat split; exists (1 - th x ^ 2); exact D|]. known D. ring. Qed.

(* `split` would also open is_derive, which is a conjunction. *)
Ltac parts := repeat match goal with |- _ /\ _ => split end.

(* ---- R1 and R27: constants of the losses, with a corner, width or scale of 1 ---- *)
Theorem R1_logistic : forall t, let p := sig t in
  is_derive sig t (p * (1 - p)) /\ is_derive (fun t => sig t * (1 - sig t)) t (p * (1 - p) * (1 - 2 * p))
  /\ Rabs p <= LOGISTIC_slope /\ Rabs (1 - p) <= LOGISTIC_slope /\ 0 <= p * (1 - p) <= LOGISTIC_curvature
  /\ Rabs (p * (1 - p) * (1 - 2 * p)) <= LOGISTIC_concordance * (p * (1 - p))
  /\ Rabs (p * (1 - p) * (1 - 2 * p)) <= LOGISTIC_third.
Proof.
  intros t p. pose proof (sig_range t) as Rg. fold p in Rg. pose proof (sig_derive t) as D.
  assert (0 <= p * (1 - p) <= 1 / 4) by (pose proof (pow2_ge_0 (2 * p - 1)); nra).
  unfold LOGISTIC_slope, LOGISTIC_curvature, LOGISTIC_concordance, LOGISTIC_third.
  parts; try exact D; try lra.
  - auto_derive; [split; [|split; [|trivial]]; exists (sig t * (1 - sig t)); exact D|]. known D. fold p. ring.
  - rewrite Rabs_pos_eq; lra.
  - rewrite Rabs_pos_eq; lra.
  - rewrite Rabs_mult, (Rabs_pos_eq (p * (1 - p))) by lra.
    assert (Rabs (1 - 2 * p) <= 1) by (apply Rabs_le; lra). nra.
  - apply abs_le_of_square; [lra|]. set (x := (1 - 2 * p) ^ 2).
    assert (X : 0 <= x <= 1) by (unfold x; nra).
    replace (p * (1 - p) * (1 - 2 * p) * (p * (1 - p) * (1 - 2 * p))) with ((1 - x) ^ 2 * x / 16) by (unfold x; field).
    assert ((1 - x) ^ 2 * x <= 4 / 27); [|lra].
    assert (0 <= (4 / 3 - x) * (x - 1 / 3) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). nra.
Qed.

Lemma tanh_third : forall x, -1 <= x <= 1 -> Rabs (x * (1 - x ^ 2)) <= 384900179459750510 / 10 ^ 18.
Proof.
  intros x X. apply abs_le_of_square; [lra|]. set (y := x ^ 2). assert (0 <= y <= 1) by (unfold y; nra).
  replace (x * (1 - y) * (x * (1 - y))) with ((1 - y) ^ 2 * y) by (unfold y; ring).
  assert (0 <= (4 / 3 - y) * (y - 1 / 3) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). nra.
Qed.

Theorem R1_log_cosh : forall r, let t := th r in
  is_derive th r (1 - t ^ 2) /\ is_derive (fun r => 1 - th r ^ 2) r (- 2 * t * (1 - t ^ 2))
  /\ Rabs t <= LOG_COSH_slope /\ 0 <= 1 - t ^ 2 <= LOG_COSH_curvature
  /\ Rabs (- 2 * t * (1 - t ^ 2)) <= LOG_COSH_concordance * (1 - t ^ 2)
  /\ Rabs (- 2 * t * (1 - t ^ 2)) <= LOG_COSH_third.
Proof.
  intros r t. pose proof (th_range r) as Rg. fold t in Rg. pose proof (th_derive r) as D.
  assert (0 <= 1 - t ^ 2 <= 1) by nra.
  unfold LOG_COSH_slope, LOG_COSH_curvature, LOG_COSH_concordance, LOG_COSH_third.
  parts; try exact D; try lra.
  - auto_derive; [exists (1 - t ^ 2); exact D|]. known D. fold t. ring.
  - apply Rabs_le; lra.
  - rewrite Rabs_mult, (Rabs_pos_eq (1 - t ^ 2)) by lra.
    assert (Rabs (- 2 * t) <= 2) by (apply Rabs_le; lra). nra.
  - replace (- 2 * t * (1 - t ^ 2)) with (- 2 * (t * (1 - t ^ 2))) by ring. rewrite Rabs_mult.
    replace (Rabs (- 2)) with 2 by (rewrite Rabs_left; lra). pose proof (tanh_third t ltac:(lra)). lra.
Qed.

Theorem R1_smooth_absolute : forall r, let t := th (r / 2) in
  is_derive (fun r => th (r / 2)) r ((1 - t ^ 2) / 2)
  /\ is_derive (fun r => (1 - th (r / 2) ^ 2) / 2) r (- t * (1 - t ^ 2) / 2)
  /\ Rabs t <= SMOOTH_ABSOLUTE_slope /\ 0 <= (1 - t ^ 2) / 2 <= SMOOTH_ABSOLUTE_curvature
  /\ Rabs (- t * (1 - t ^ 2) / 2) <= SMOOTH_ABSOLUTE_concordance * ((1 - t ^ 2) / 2)
  /\ Rabs (- t * (1 - t ^ 2) / 2) <= SMOOTH_ABSOLUTE_third.
Proof.
  intros r t. pose proof (th_range (r / 2)) as Rg. fold t in Rg. pose proof (th_derive (r / 2)) as D. fold t in D.
  assert (0 <= 1 - t ^ 2 <= 1) by nra.
  unfold SMOOTH_ABSOLUTE_slope, SMOOTH_ABSOLUTE_curvature, SMOOTH_ABSOLUTE_concordance, SMOOTH_ABSOLUTE_third.
  assert (D2 : is_derive (fun r => th (r / 2)) r ((1 - t ^ 2) / 2)).
  { auto_derive; [exists (1 - t ^ 2); exact D|].
    change (r * / 2) with (r / 2). known D. field. }
  parts; try exact D2; try lra.
  - auto_derive; [exists (1 - t ^ 2); exact D|].
    change (r * / 2) with (r / 2). known D. fold t. field.
  - apply Rabs_le; lra.
  - replace (- t * (1 - t ^ 2) / 2) with (- t * ((1 - t ^ 2) / 2)) by field.
    rewrite Rabs_mult, (Rabs_pos_eq ((1 - t ^ 2) / 2)) by lra.
    assert (Rabs (- t) <= 1) by (apply Rabs_le; lra). nra.
  - replace (- t * (1 - t ^ 2) / 2) with (- / 2 * (t * (1 - t ^ 2))) by field. rewrite Rabs_mult.
    replace (Rabs (- / 2)) with (/ 2) by (rewrite Rabs_left; lra). pose proof (tanh_third t ltac:(lra)). lra.
Qed.

Definition root (r : R) := sqrt (1 + r ^ 2).
Lemma root_square : forall r, root r * root r = 1 + r ^ 2.
Proof. intro r. apply sqrt_sqrt. pose proof (pow2_ge_0 r). lra. Qed.
Lemma root_least : forall r, 1 <= root r.
Proof. intro r. unfold root. rewrite <- sqrt_1 at 1. apply sqrt_le_1_alt. pose proof (pow2_ge_0 r). lra. Qed.
Lemma root_derive : forall r, is_derive root r (r / root r).
Proof.
  intro r. unfold root. pose proof (pow2_ge_0 r). pose proof (root_least r) as L. unfold root in L.
  auto_derive; [simpl in *; lra|]. simpl in *. field. lra.
Qed.
Lemma below_root : forall r, Rabs r <= root r.
Proof. intro r. pose proof (root_square r). pose proof (root_least r). apply abs_le_of_square; nra. Qed.

Theorem R1_pseudo_huber : forall r, let s := root r in
  is_derive (fun r => r / root r) r (1 / s ^ 3) /\ is_derive (fun r => 1 / root r ^ 3) r (- 3 * r / s ^ 5)
  /\ Rabs (r / s) <= PSEUDO_HUBER_slope /\ 0 <= 1 / s ^ 3 <= PSEUDO_HUBER_curvature
  /\ Rabs (- 3 * r / s ^ 5) <= PSEUDO_HUBER_concordance * (1 / s ^ 3)
  /\ Rabs (- 3 * r / s ^ 5) <= PSEUDO_HUBER_third.
Proof.
  intros r s. pose proof (root_square r) as S2. pose proof (root_least r) as S1. fold s in S1, S2.
  pose proof (root_derive r) as D. fold s in D. pose proof (below_root r) as B. fold s in B.
  assert (S3 : 1 <= s ^ 3) by (apply pow_R1_Rle; lra). assert (S5 : 1 <= s ^ 5) by (apply pow_R1_Rle; lra).
  unfold PSEUDO_HUBER_slope, PSEUDO_HUBER_curvature, PSEUDO_HUBER_concordance, PSEUDO_HUBER_third.
  assert (R : r ^ 2 = s * s - 1) by lra.
  parts.
  - auto_derive; [split; [exists (r / s); exact D | split; [fold s; lra | trivial]]|].
    known D. fold s.
    transitivity ((s * s - r ^ 2) / s ^ 3); [field; lra | rewrite R; field; lra].
  - auto_derive.
    { split; [exists (r / s); exact D|]. split; [|trivial]. fold s. assert (0 < s * (s * s)) by nra. simpl. lra. }
    known D. fold s. field. lra.
  - unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ s)) by (apply Rlt_le, Rinv_0_lt_compat; lra).
    apply Rmult_le_reg_r with s; [lra|]. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra].
  - apply Rmult_le_reg_r with (s ^ 3); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - replace (- 3 * r / s ^ 5) with (- 3 * r / (s * s) * (1 / s ^ 3)) by (field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (1 / s ^ 3)) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
    apply Rmult_le_compat_r; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
    apply Rle_trans with (3 / 2); [|lra]. unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ (s * s))) by (apply Rlt_le, Rinv_0_lt_compat; nra).
    apply Rmult_le_reg_r with (s * s); [nra|]. rewrite Rmult_assoc, Rinv_l by nra.
    rewrite Rabs_mult. replace (Rabs (- 3)) with 3 by (rewrite Rabs_left; lra).
    assert (2 * Rabs r <= s * s); [|lra]. rewrite S2. pose proof (pow2_ge_0 (Rabs r - 1)). rewrite <- (pow2_abs r). nra.
  - apply abs_le_of_square; [lra|].
    replace (- 3 * r / s ^ 5 * (- 3 * r / s ^ 5)) with (9 * r ^ 2 / (s * s) ^ 5) by (field; lra).
    rewrite S2. set (x := r ^ 2). assert (X : 0 <= x) by (unfold x; apply pow2_ge_0).
    assert (P : 0 < (1 + x) ^ 5) by (apply pow_lt; lra).
    apply Rmult_le_reg_r with ((1 + x) ^ 5); [exact P|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (K : 3125 * x <= 256 * (1 + x) ^ 5).
    { assert (0 <= (4 * x - 1) ^ 2 * (16 * x ^ 3 + 88 * x ^ 2 + 203 * x + 256)).
      { apply Rmult_le_pos; [apply pow2_ge_0|]. assert (0 <= x ^ 2) by nra. assert (0 <= x ^ 3) by (apply pow_le, X). lra. }
      replace (256 * (1 + x) ^ 5) with (3125 * x + (4 * x - 1) ^ 2 * (16 * x ^ 3 + 88 * x ^ 2 + 203 * x + 256)) by ring. lra. }
    apply Rle_trans with (9 * (256 / 3125 * (1 + x) ^ 5)); [lra|].
    replace (9 * (256 / 3125 * (1 + x) ^ 5)) with (9 * 256 / 3125 * (1 + x) ^ 5) by field.
    apply Rmult_le_compat_r; [lra|]. lra.
Qed.

(* Ostrovskii-Bach: s = sqrt(1 + 4 u^2), psi = 2 u / (1 + s). *)
Definition ob (r : R) := root (2 * r).
Lemma ob_derive : forall r, is_derive ob r (4 * r / ob r).
Proof.
  intro r. unfold ob. pose proof (root_derive (2 * r)) as D. pose proof (root_least (2 * r)).
  auto_derive; [exists (2 * r / root (2 * r)); exact D|]. known D. field. lra.
Qed.
Lemma ob_square : forall r, ob r * ob r = 1 + 4 * r ^ 2.
Proof. intro r. unfold ob. rewrite root_square. ring. Qed.

Lemma ob_concordance : forall s, 1 <= s ->
  4 * (s - 1) * (1 + 2 * s) ^ 2 <= OSTROVSKII_BACH_concordance ^ 2 * (s ^ 4 * (1 + s)).
Proof.
  intros s S. set (x := s - 1). assert (X : 0 <= x) by (unfold x; lra). replace s with (1 + x) by (unfold x; ring).
  assert (K : (15907517294 / 10 ^ 10) ^ 2 <= OSTROVSKII_BACH_concordance ^ 2) by (unfold OSTROVSKII_BACH_concordance; lra).
  assert (0 <= (1 + x) ^ 4 * (1 + (1 + x))) by (apply Rmult_le_pos; [apply pow_le|]; lra).
  apply Rle_trans with ((15907517294 / 10 ^ 10) ^ 2 * ((1 + x) ^ 4 * (1 + (1 + x)))); [|apply Rmult_le_compat_r; assumption].
  set (y := (x - 475686517788 / 10 ^ 12) ^ 2). assert (Y : 0 <= y) by apply pow2_ge_0.
  assert (Y1 : 0 <= x * y) by (apply Rmult_le_pos; assumption).
  assert (Y2 : 0 <= x * (x * y)) by (apply Rmult_le_pos; assumption).
  assert (Y3 : 0 <= x * (x * (x * y))) by (apply Rmult_le_pos; assumption).
  unfold y in *. lra.
Qed.

Lemma ob_third : forall s, 1 <= s ->
  16 * (s - 1) * (1 + 2 * s) ^ 2 <= OSTROVSKII_BACH_third ^ 2 * (s ^ 6 * (1 + s) ^ 3).
Proof.
  intros s S. set (x := s - 1). assert (X : 0 <= x) by (unfold x; lra). replace s with (1 + x) by (unfold x; ring).
  assert (K : (1079075982 / 10 ^ 9) ^ 2 <= OSTROVSKII_BACH_third ^ 2) by (unfold OSTROVSKII_BACH_third; lra).
  assert (0 <= (1 + x) ^ 6 * (1 + (1 + x)) ^ 3) by (apply Rmult_le_pos; apply pow_le; lra).
  apply Rle_trans with ((1079075982 / 10 ^ 9) ^ 2 * ((1 + x) ^ 6 * (1 + (1 + x)) ^ 3)); [|apply Rmult_le_compat_r; assumption].
  set (y := (x - 191487883897 / 10 ^ 12) ^ 2). assert (Y : 0 <= y) by apply pow2_ge_0.
  assert (Y1 : 0 <= x * y) by (apply Rmult_le_pos; assumption).
  assert (Y2 : 0 <= x * (x * y)) by (apply Rmult_le_pos; assumption).
  assert (Y3 : 0 <= x * (x * (x * y))) by (apply Rmult_le_pos; assumption).
  assert (Y4 : 0 <= x * (x * (x * (x * y)))) by (apply Rmult_le_pos; assumption).
  assert (Y5 : 0 <= x * (x * (x * (x * (x * y))))) by (apply Rmult_le_pos; assumption).
  assert (Y6 : 0 <= x * (x * (x * (x * (x * (x * y)))))) by (apply Rmult_le_pos; assumption).
  assert (Y7 : 0 <= x * (x * (x * (x * (x * (x * (x * y))))))) by (apply Rmult_le_pos; assumption).
  unfold y in *. lra.
Qed.

Theorem R1_ostrovskii_bach : forall r, let s := ob r in
  is_derive (fun r => 2 * r / (1 + ob r)) r (2 / (s * (1 + s)))
  /\ is_derive (fun r => 2 / (ob r * (1 + ob r))) r (- 8 * r * (1 + 2 * s) / (s ^ 3 * (1 + s) ^ 2))
  /\ Rabs (2 * r / (1 + s)) <= OSTROVSKII_BACH_slope /\ 0 <= 2 / (s * (1 + s)) <= OSTROVSKII_BACH_curvature
  /\ Rabs (- 8 * r * (1 + 2 * s) / (s ^ 3 * (1 + s) ^ 2)) <= OSTROVSKII_BACH_concordance * (2 / (s * (1 + s)))
  /\ Rabs (- 8 * r * (1 + 2 * s) / (s ^ 3 * (1 + s) ^ 2)) <= OSTROVSKII_BACH_third.
Proof.
  intros r s. pose proof (ob_square r) as S2. assert (S1 : 1 <= ob r) by apply root_least. fold s in S1, S2.
  pose proof (ob_derive r) as D. fold s in D.
  assert (E : 4 * r ^ 2 = (s - 1) * (s + 1)) by lra.
  assert (P3 : 0 < s ^ 3) by (apply pow_lt; lra). assert (Q2 : 0 < (1 + s) ^ 2) by (apply pow_lt; lra).
  assert (U : 0 < s * (1 + s)) by nra.
  assert (C0 : 0 <= OSTROVSKII_BACH_concordance) by (unfold OSTROVSKII_BACH_concordance; lra).
  assert (T0 : 0 <= OSTROVSKII_BACH_third) by (unfold OSTROVSKII_BACH_third; lra).
  parts.
  - auto_derive; [split; [exists (4 * r / s); exact D | split; [fold s; lra | trivial]]|]. known D. fold s.
    transitivity ((2 * s * (1 + s) - 8 * r ^ 2) / (s * (1 + s) ^ 2)); [field; lra|].
    replace (8 * r ^ 2) with (2 * (4 * r ^ 2)) by ring. rewrite E. field. lra.
  - auto_derive; [repeat split; try (exists (4 * r / s); exact D); fold s; lra|]. known D. fold s. field. lra.
  - apply Rle_trans with 1; [|unfold OSTROVSKII_BACH_slope; lra]. apply abs_le_of_square; [lra|].
    replace (2 * r / (1 + s) * (2 * r / (1 + s))) with ((4 * r ^ 2) / (1 + s) ^ 2) by (field; lra). rewrite E.
    apply Rmult_le_reg_r with ((1 + s) ^ 2); [exact Q2|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
  - apply Rlt_le, Rdiv_lt_0_compat; lra.
  - apply Rle_trans with 1; [|unfold OSTROVSKII_BACH_curvature; lra].
    apply Rmult_le_reg_r with (s * (1 + s)); [exact U|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
  - replace (- 8 * r * (1 + 2 * s) / (s ^ 3 * (1 + s) ^ 2))
      with (- 4 * r * (1 + 2 * s) / (s ^ 2 * (1 + s)) * (2 / (s * (1 + s)))) by (field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (2 / _)) by (apply Rlt_le, Rdiv_lt_0_compat; lra).
    apply Rmult_le_compat_r; [apply Rlt_le, Rdiv_lt_0_compat; lra|]. apply abs_le_of_square; [exact C0|].
    replace (- 4 * r * (1 + 2 * s) / (s ^ 2 * (1 + s)) * (- 4 * r * (1 + 2 * s) / (s ^ 2 * (1 + s))))
      with (4 * (4 * r ^ 2) * (1 + 2 * s) ^ 2 / (s ^ 4 * (1 + s) ^ 2)) by (field; lra). rewrite E.
    replace (4 * ((s - 1) * (s + 1)) * (1 + 2 * s) ^ 2 / (s ^ 4 * (1 + s) ^ 2))
      with (4 * (s - 1) * (1 + 2 * s) ^ 2 / (s ^ 4 * (1 + s))) by (field; lra).
    assert (W : 0 < s ^ 4 * (1 + s)) by (apply Rmult_lt_0_compat; [apply pow_lt|]; lra).
    apply Rmult_le_reg_r with (s ^ 4 * (1 + s)); [exact W|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    pose proof (ob_concordance s S1). lra.
  - apply abs_le_of_square; [exact T0|].
    replace (- 8 * r * (1 + 2 * s) / (s ^ 3 * (1 + s) ^ 2) * (- 8 * r * (1 + 2 * s) / (s ^ 3 * (1 + s) ^ 2)))
      with (16 * (4 * r ^ 2) * (1 + 2 * s) ^ 2 / (s ^ 6 * (1 + s) ^ 4)) by (field; lra). rewrite E.
    replace (16 * ((s - 1) * (s + 1)) * (1 + 2 * s) ^ 2 / (s ^ 6 * (1 + s) ^ 4))
      with (16 * (s - 1) * (1 + 2 * s) ^ 2 / (s ^ 6 * (1 + s) ^ 3)) by (field; lra).
    assert (W : 0 < s ^ 6 * (1 + s) ^ 3) by (apply Rmult_lt_0_compat; apply pow_lt; lra).
    apply Rmult_le_reg_r with (s ^ 6 * (1 + s) ^ 3); [exact W|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    pose proof (ob_third s S1). lra.
Qed.

(* Smoothed Huber in its bend, with c = h = 1: s is the part of the bend that is behind. *)
Theorem R27_smoothed_huber : forall s, 0 <= s <= 1 ->
  is_derive (fun s => 1 + (s - s ^ 3 + s ^ 4 / 2)) s ((1 - s) ^ 2 * (1 + 2 * s))
  /\ is_derive (fun s => (1 - s) ^ 2 * (1 + 2 * s)) s (- 6 * s * (1 - s))
  /\ 1 + (s - s ^ 3 + s ^ 4 / 2) <= SMOOTHED_HUBER_slope /\ 0 <= (1 - s) ^ 2 * (1 + 2 * s) <= SMOOTHED_HUBER_curvature
  /\ Rabs (- 6 * s * (1 - s)) <= SMOOTHED_HUBER_third /\ (1 + s) * Rabs (- 6 * s * (1 - s)) <= SMOOTHED_HUBER_stretch.
Proof.
  intros s S. unfold SMOOTHED_HUBER_slope, SMOOTHED_HUBER_curvature, SMOOTHED_HUBER_third, SMOOTHED_HUBER_stretch.
  assert (T : Rabs (- 6 * s * (1 - s)) <= 3 / 2).
  { replace (- 6 * s * (1 - s)) with (- (6 * (s * (1 - s)))) by ring. rewrite Rabs_Ropp, Rabs_pos_eq by nra.
    pose proof (pow2_ge_0 (2 * s - 1)). nra. }
  parts.
  - auto_derive; [trivial | field].
  - auto_derive; [trivial | ring].
  - assert (0 <= (1 - s) ^ 3 * (1 + s)) by (apply Rmult_le_pos; [apply pow_le|]; lra).
    replace (1 + (s - s ^ 3 + s ^ 4 / 2)) with (3 / 2 - (1 - s) ^ 3 * (1 + s) / 2) by field. lra.
  - apply Rmult_le_pos; [apply pow2_ge_0 | lra].
  - replace ((1 - s) ^ 2 * (1 + 2 * s)) with (1 - s ^ 2 * (3 - 2 * s)) by ring.
    assert (0 <= s ^ 2 * (3 - 2 * s)) by (apply Rmult_le_pos; [apply pow2_ge_0 | lra]). lra.
  - lra.
  - pose proof (Rabs_pos (- 6 * s * (1 - s))). nra.
Qed.

(* ---- C56: quantiles, with a bandwidth of 1 ---- *)
Theorem C56_constants : forall t, let p := sig t in let tau := / 4 in
  Rabs (p - (1 - tau)) <= QUANTILE_slope /\ p * (1 - p) <= QUANTILE_curvature
  /\ Rabs (p * (1 - p) * (1 - 2 * p)) <= QUANTILE_concordance * (p * (1 - p))
  /\ Rabs (p * (1 - p) * (1 - 2 * p)) <= QUANTILE_third.
Proof.
  intros t p tau. pose proof (sig_range t) as Rg. fold p in Rg.
  destruct (R1_logistic t) as [_ [_ [_ [_ [A [B C]]]]]]. fold p in A, B, C.
  unfold LOGISTIC_curvature, LOGISTIC_concordance, LOGISTIC_third in *.
  unfold QUANTILE_slope, QUANTILE_curvature, QUANTILE_concordance, QUANTILE_third, tau.
  parts; try lra. apply Rabs_le; lra.
Qed.

(* Score in units of its bound, and curvature in units of its own, satisfy the coupling "logistic". *)
Theorem C56_coupling : forall p tau, 0 < p < 1 -> 0 < tau < 1 -> let t := Rmax p (1 - p) in
  Rabs (p - (1 - tau)) <= Rmax tau (1 - tau) * t /\ 4 * (p * (1 - p)) = 4 * t * (1 - t) /\ 0 <= t <= 1.
Proof.
  intros p tau P T t. pose proof (Rmax_l p (1 - p)) as L. pose proof (Rmax_r p (1 - p)) as L'. fold t in L, L'.
  pose proof (Rmax_l tau (1 - tau)) as M. pose proof (Rmax_r tau (1 - tau)) as M'. set (m := Rmax tau (1 - tau)) in *.
  parts.
  - apply Rabs_le. split.
    + assert ((1 - tau) * (1 - p) <= m * t) by (apply Rmult_le_compat; lra). nra.
    + assert (tau * p <= m * t) by (apply Rmult_le_compat; lra). nra.
  - unfold t, Rmax. destruct (Rle_dec p (1 - p)); ring.
  - lra.
  - unfold t. apply Rmax_lub; lra.
Qed.

(* ---- C18, C29: couplings, A = |psi| in units of its bound ---- *)
Theorem C18_couplings : forall r, let s := root r in
  1 / s ^ 3 <= 1 - (r / s) ^ 2 /\ (1 / s) ^ 2 = 1 - (r / s) ^ 2.
Proof.
  intros r s. pose proof (root_square r) as S2. pose proof (root_least r) as S1. fold s in S1, S2.
  assert (E : 1 - (r / s) ^ 2 = 1 / (s * s)).
  { replace (1 - (r / s) ^ 2) with ((s * s - r ^ 2) / (s * s)) by (field; lra). rewrite S2. f_equal. ring. }
  rewrite E. split; [|field; lra]. replace (1 / s ^ 3) with (1 / (s * s) * / s) by (field; lra).
  assert (0 < 1 / (s * s)) by (apply Rdiv_lt_0_compat; nra).
  assert (/ s <= 1) by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra). nra.
Qed.

Theorem C29_ostrovskii_bach : forall r, let s := ob r in
  1 - (2 * r / (1 + s)) ^ 2 = 2 / (1 + s) /\ 2 / (s * (1 + s)) <= 1 - (2 * r / (1 + s)) ^ 2.
Proof.
  intros r s. pose proof (ob_square r) as S2. assert (S1 : 1 <= ob r) by apply root_least. fold s in S1, S2.
  assert (E : 1 - (2 * r / (1 + s)) ^ 2 = 2 / (1 + s)).
  { replace (1 - (2 * r / (1 + s)) ^ 2) with (((1 + s) ^ 2 - 4 * r ^ 2) / (1 + s) ^ 2) by (field; lra).
    replace (4 * r ^ 2) with (s * s - 1) by lra. field. lra. }
  split; [exact E|]. rewrite E. replace (2 / (s * (1 + s))) with (2 / (1 + s) * / s) by (field; lra).
  assert (0 < 2 / (1 + s)) by (apply Rdiv_lt_0_compat; lra).
  assert (/ s <= 1) by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra). nra.
Qed.

(* ---- majorising curvatures psi(u)/u: the parabola with this curvature through value and slope lies above ---- *)
Theorem majorizer_of_pseudo_huber : forall x r, root x <= root r + / root r / 2 * (x ^ 2 - r ^ 2).
Proof.
  intros x r. pose proof (root_square x). pose proof (root_square r). pose proof (root_least x). pose proof (root_least r).
  set (a := root x) in *. set (b := root r) in *. replace (x ^ 2 - r ^ 2) with (a * a - b * b) by lra.
  apply Rmult_le_reg_r with (2 * b); [lra|].
  replace ((b + / b / 2 * (a * a - b * b)) * (2 * b)) with (b * b + a * a) by (field; lra).
  pose proof (pow2_ge_0 (a - b)). nra.
Qed.

Theorem majorizer_of_ostrovskii_bach : forall x r,
  (ob x - 1 - ln ((1 + ob x) / 2)) / 2 <= (ob r - 1 - ln ((1 + ob r) / 2)) / 2 + 2 / (1 + ob r) / 2 * (x ^ 2 - r ^ 2).
Proof.
  intros x r. pose proof (ob_square x). pose proof (ob_square r).
  assert (1 <= ob x) by apply root_least. assert (1 <= ob r) by apply root_least.
  set (s := ob x) in *. set (t := ob r) in *.
  replace (x ^ 2 - r ^ 2) with ((s * s - t * t) / 4) by lra.
  assert (N : ln ((1 + t) / 2) - ln ((1 + s) / 2) <= (t - s) / (1 + s)).
  { assert (L : forall y, 0 < y -> ln y <= y - 1).
    { intros y Y. pose proof (exp_ineq1_le (ln y)) as K. rewrite exp_ln in K by assumption. lra. }
    specialize (L ((1 + t) / (1 + s)) ltac:(apply Rdiv_lt_0_compat; lra)).
    replace ((1 + t) / (1 + s)) with ((1 + t) / 2 * / ((1 + s) / 2)) in L at 1 by (field; lra).
    rewrite ln_mult, ln_Rinv in L by (try apply Rinv_0_lt_compat; lra).
    replace ((1 + t) / (1 + s) - 1) with ((t - s) / (1 + s)) in L by (field; lra). lra. }
  assert (K : 0 <= (s - t) ^ 2 * (s - 1) / ((1 + s) * (1 + t))).
  { apply Rmult_le_pos; [apply Rmult_le_pos; [apply pow2_ge_0 | lra] | apply Rlt_le, Rinv_0_lt_compat; nra]. }
  assert (E : 2 * (2 / (1 + t) / 2 * ((s * s - t * t) / 4)) - (s - t) - (t - s) / (1 + s)
    = (s - t) ^ 2 * (s - 1) / ((1 + s) * (1 + t)) / 2) by (field; lra).
  lra.
Qed.

Definition log_cosh (x : R) := ln ((exp x + exp (- x)) / 2).
Lemma log_cosh_derive : forall x, is_derive log_cosh x (th x).
Proof.
  intro x. unfold log_cosh, th. pose proof (exp_pos x). pose proof (exp_pos (- x)).
  auto_derive; [lra|]. replace (2 * x) with (x + x) by ring. rewrite exp_plus, exp_Ropp. field; nra.
Qed.

Definition chord (s : R) := th s / s.

Lemma tangent_below : forall x, 0 <= x -> x * (1 - th x ^ 2) <= th x.
Proof.
  intros x X. assert (H : 0 <= th x - x * (1 - th x ^ 2)); [|lra].
  replace 0 with (th 0 - 0 * (1 - th 0 ^ 2)) by (rewrite th_zero; ring).
  apply (rises (fun y => th y - y * (1 - th y ^ 2)) (fun y => 2 * y * (th y * (1 - th y ^ 2)))); [exact X | |].
  - intros y _. pose proof (th_derive y) as D.
    auto_derive; [repeat split; exists (1 - th y ^ 2); exact D|]. known D. ring.
  - intros y Y. pose proof (th_range y). pose proof (th_pos y ltac:(lra)).
    assert (0 <= th y * (1 - th y ^ 2)) by (apply Rmult_le_pos; nra). nra.
Qed.

Lemma chord_derive : forall s, 0 < s -> is_derive chord s (((1 - th s ^ 2) * s - th s) / s ^ 2).
Proof.
  intros s S. unfold chord. pose proof (th_derive s) as D.
  auto_derive; [split; [exists (1 - th s ^ 2); exact D | split; [lra | trivial]]|]. known D. field. lra.
Qed.

Lemma chord_falls : forall a b, 0 < a -> a <= b -> chord b <= chord a.
Proof.
  intros a b A B. assert (- chord a <= - chord b); [|lra].
  apply (rises (fun s => - chord s) (fun s => - (((1 - th s ^ 2) * s - th s) / s ^ 2))); [exact B | |].
  - intros s S. apply (is_derive_opp chord). apply chord_derive. lra.
  - intros s S. pose proof (tangent_below s ltac:(lra)).
    replace (- (((1 - th s ^ 2) * s - th s) / s ^ 2)) with ((th s - s * (1 - th s ^ 2)) * / s ^ 2) by (field; lra).
    apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; nra].
Qed.

Theorem majorizer_of_log_cosh : forall x r, 0 <= x -> 0 < r ->
  log_cosh x <= log_cosh r + chord r / 2 * (x ^ 2 - r ^ 2).
Proof.
  intros x r X R0. set (D := fun y => log_cosh r + chord r / 2 * (y ^ 2 - r ^ 2) - log_cosh y).
  assert (DD : forall y, is_derive D y (chord r * y - th y)).
  { intro y. unfold D. pose proof (log_cosh_derive y) as L.
    auto_derive; [exists (th y); exact L|]. known L. field. }
  assert (Z : D r = 0) by (unfold D; ring).
  assert (0 <= D x); [|unfold D in *; lra]. rewrite <- Z.
  destruct (Rle_or_lt x r) as [L | G].
  - assert (- D x <= - D r); [|lra].
    apply (rises (fun y => - D y) (fun y => - (chord r * y - th y))); [exact L | |].
    + intros y _. apply (is_derive_opp D). apply DD.
    + intros y Y. destruct (Req_dec y 0) as [-> | N]; [rewrite th_zero; lra|].
      pose proof (chord_falls y r ltac:(lra) ltac:(lra)) as C.
      assert (E : th y = chord y * y) by (unfold chord; field; lra). rewrite E.
      assert (chord r * y <= chord y * y) by (apply Rmult_le_compat_r; lra). lra.
  - apply (rises D (fun y => chord r * y - th y)); [lra | intros; apply DD |].
    intros y Y. pose proof (chord_falls r y R0 ltac:(lra)) as C.
    assert (E : th y = chord y * y) by (unfold chord; field; lra). rewrite E.
    assert (chord y * y <= chord r * y) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Lemma chord_range : forall s, 0 < s -> 0 <= chord s <= 1.
Proof.
  intros s S. unfold chord. pose proof (th_pos s ltac:(lra)). split.
  - apply Rmult_le_pos; [assumption | apply Rlt_le, Rinv_0_lt_compat, S].
  - apply Rmult_le_reg_r with s; [exact S|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (0 - th 0 <= s - th s); [|rewrite th_zero in *; lra].
    apply (rises (fun y => y - th y) (fun y => th y ^ 2)); [lra | |].
    + intros y _. pose proof (th_derive y) as D. auto_derive; [exists (1 - th y ^ 2); exact D|]. known D. ring.
    + intros. apply pow2_ge_0.
Qed.

(* ---- C18: suprema over the majorising curvatures are taken on a grid ---- *)
Definition chord1 (s : R) := ((1 - th s ^ 2) * s - th s) / s ^ 2.
Definition chord2 (s : R) := (2 * th s - 2 * s * (1 - th s ^ 2) - 2 * s ^ 2 * th s * (1 - th s ^ 2)) / s ^ 3.

Lemma chord1_derive : forall s, 0 < s -> is_derive chord1 s (chord2 s).
Proof.
  intros s S. unfold chord1, chord2. pose proof (th_derive s) as D.
  auto_derive; [split; [exists (1 - th s ^ 2); exact D | split; [exists (1 - th s ^ 2); exact D | split; [nra | trivial]]]|].
  known D. field. lra.
Qed.

Lemma chord2_low : forall s, 0 < s -> - (2 / 3) <= chord2 s.
Proof.
  intros s S. unfold chord2.
  assert (G : 0 <= 2 * th s - 2 * s * (1 - th s ^ 2) - 2 * s ^ 2 * th s * (1 - th s ^ 2) + 2 / 3 * s ^ 3).
  { replace 0 with (2 * th 0 - 2 * 0 * (1 - th 0 ^ 2) - 2 * 0 ^ 2 * th 0 * (1 - th 0 ^ 2) + 2 / 3 * 0 ^ 3)
      by (rewrite th_zero; ring).
    apply (rises (fun y => 2 * th y - 2 * y * (1 - th y ^ 2) - 2 * y ^ 2 * th y * (1 - th y ^ 2) + 2 / 3 * y ^ 3)
      (fun y => 2 * y ^ 2 * (th y ^ 2 * (4 - 3 * th y ^ 2)))); [lra | |].
    - intros y _. pose proof (th_derive y) as D.
      auto_derive; [repeat split; exists (1 - th y ^ 2); exact D|]. known D. field.
    - intros y _. pose proof (th_range y). assert (0 <= th y ^ 2 <= 1) by nra. pose proof (pow2_ge_0 y).
      apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]. }
  assert (0 < s ^ 3) by (apply pow_lt, S).
  apply Rmult_le_reg_r with (s ^ 3); [assumption|]. unfold Rdiv. rewrite (Rmult_assoc _ (/ s ^ 3)), Rinv_l by lra. lra.
Qed.

Section Bracket.
(* tau is tanh s (log-cosh), or (1 + tanh s) / 2 (logistic); both have these derivatives. *)
Variable k c : R.
Hypothesis either : (k = 0 /\ c = 1) \/ (k = / 2 /\ c = / 2).
Variable g h q : R.
Hypothesis G : 0 <= g.
Hypothesis Hh : 0 <= h.
Hypothesis Q : 0 <= q.
Definition tau (s : R) := k + c * th s.
Definition value (s : R) := g * tau s ^ 2 + h * chord s ^ 2 + q * tau s ^ 4.
Definition value1 (s : R) := g * (2 * c * tau s * (1 - th s ^ 2)) + h * (2 * chord s * chord1 s)
  + q * (4 * c * tau s ^ 3 * (1 - th s ^ 2)).
Definition value2 (s : R) := g * (2 * c * (1 - th s ^ 2) * (c * (1 - th s ^ 2) - 2 * th s * tau s))
  + h * (2 * chord1 s ^ 2 + 2 * chord s * chord2 s)
  + q * (4 * c * tau s ^ 2 * (1 - th s ^ 2) * (3 * c * (1 - th s ^ 2) - 2 * th s * tau s)).

Lemma tau_derive : forall s, is_derive tau s (c * (1 - th s ^ 2)).
Proof.
  intro s. unfold tau. pose proof (th_derive s) as D. auto_derive; [exists (1 - th s ^ 2); exact D|]. known D. ring.
Qed.

Lemma value_derive : forall s, 0 < s -> is_derive value s (value1 s).
Proof.
  intros s S. unfold value, value1. pose proof (tau_derive s) as D. pose proof (chord_derive s S) as C.
  auto_derive.
  { repeat split; try (exists (c * (1 - th s ^ 2)); exact D). eexists; exact C. }
  known D. known C. unfold chord1. field. lra.
Qed.

Lemma value1_derive : forall s, 0 < s -> is_derive value1 s (value2 s).
Proof.
  intros s S. unfold value1, value2. pose proof (tau_derive s) as D. pose proof (chord_derive s S) as C.
  pose proof (chord1_derive s S) as C1. pose proof (th_derive s) as T.
  auto_derive.
  { repeat split; try (eexists; exact D); try (eexists; exact T); try (eexists; exact C); eexists; exact C1. }
  known D. known C. known C1. known T. change (((1 - th s ^ 2) * s - th s) / s ^ 2) with (chord1 s). ring.
Qed.

Lemma value2_low : forall s, 0 < s -> - (g + 4 / 3 * h + 2 * q) <= value2 s.
Proof.
  intros s S. unfold value2. pose proof (th_range s) as T. pose proof (th_pos s ltac:(lra)) as T0.
  pose proof (chord_range s S) as C. pose proof (chord2_low s S) as C2. pose proof (pow2_ge_0 (chord1 s)) as C1.
  assert (H1 : - (4 / 3) <= 2 * chord1 s ^ 2 + 2 * chord s * chord2 s) by nra.
  set (x := th s) in *. set (t := tau s) in *.
  assert (E : (t = x /\ c = 1) \/ (t = (1 + x) / 2 /\ c = / 2)).
  { unfold t, tau. fold x. destruct either as [[-> ->] | [-> ->]]; [left | right]; split; lra. }
  assert (A : - 1 <= 2 * c * (1 - x ^ 2) * (c * (1 - x ^ 2) - 2 * x * t)
    /\ - 2 <= 4 * c * t ^ 2 * (1 - x ^ 2) * (3 * c * (1 - x ^ 2) - 2 * x * t)).
  { destruct E as [[-> ->] | [-> ->]].
    - set (y := x ^ 2). assert (Y : 0 <= y <= 1) by (unfold y; nra). split.
      + replace (2 * 1 * (1 - y) * (1 * (1 - y) - 2 * x * x)) with (2 * (1 - y) * (1 - 3 * y)) by (unfold y; ring).
        pose proof (pow2_ge_0 (3 * y - 2)). lra.
      + replace (4 * 1 * y * (1 - y) * (3 * 1 * (1 - y) - 2 * x * x)) with (4 * y * (1 - y) * (3 - 5 * y)) by (unfold y; ring).
        assert (0 <= y * (1 - y) <= / 4) by (split; [nra | pose proof (pow2_ge_0 (2 * y - 1)); nra]).
        assert (0 <= y * (1 - y) * (5 - 5 * y)) by (apply Rmult_le_pos; lra). lra.
    - assert (P : 0 <= 1 + x <= 2) by lra. split.
      + replace (2 * / 2 * (1 - x ^ 2) * (/ 2 * (1 - x ^ 2) - 2 * x * ((1 + x) / 2)))
          with ((1 - x) * (1 + x) ^ 2 * (1 - 3 * x) / 2) by field.
        assert (0 <= (1 + x) ^ 2 <= 4) by nra.
        assert (0 <= (1 - x) * (1 - 3 * x) + 1 / 3) by (pose proof (pow2_ge_0 (3 * x - 2)); nra).
        assert (0 <= ((1 - x) * (1 - 3 * x) + 1 / 3) * (1 + x) ^ 2) by (apply Rmult_le_pos; lra). nra.
      + replace (4 * / 2 * ((1 + x) / 2) ^ 2 * (1 - x ^ 2) * (3 * / 2 * (1 - x ^ 2) - 2 * x * ((1 + x) / 2)))
          with ((1 + x) ^ 4 * ((1 - x) * (3 - 5 * x)) / 4) by field.
        assert (0 <= (1 + x) ^ 4 <= 16).
        { assert (0 <= (1 + x) ^ 2 <= 4) by nra. replace ((1 + x) ^ 4) with ((1 + x) ^ 2 * (1 + x) ^ 2) by ring. nra. }
        assert (0 <= (1 - x) * (3 - 5 * x) + 1 / 5) by (pose proof (pow2_ge_0 (5 * x - 4)); nra).
        assert (0 <= ((1 - x) * (3 - 5 * x) + 1 / 5) * (1 + x) ^ 4) by (apply Rmult_le_pos; lra). nra. }
  destruct A as [A1 A2].
  assert (- g <= g * (2 * c * (1 - x ^ 2) * (c * (1 - x ^ 2) - 2 * x * t))) by nra.
  assert (- (4 / 3 * h) <= h * (2 * chord1 s ^ 2 + 2 * chord s * chord2 s)) by nra.
  assert (- (2 * q) <= q * (4 * c * t ^ 2 * (1 - x ^ 2) * (3 * c * (1 - x ^ 2) - 2 * x * t))) by nra.
  lra.
Qed.

(* What is computed for a cell, whose 4/3 is a double and so smaller: the margin UP of the joint cost covers that. *)
Lemma cell_is : MAJORIZER_STEP * MAJORIZER_STEP / 8 * (g + 4 / 3 * h + 2 * q) <= within_cell g h q * UP.
Proof. unfold within_cell, MAJORIZER_STEP, UP. lra. Qed.

Theorem C18_within_a_cell : forall a s, 0 < a -> a <= s <= a + MAJORIZER_STEP ->
  value s <= Rmax (value a) (value (a + MAJORIZER_STEP)) + within_cell g h q * UP.
Proof.
  intros a s A S.
  assert (W : 0 < MAJORIZER_STEP) by (unfold MAJORIZER_STEP; lra).
  pose proof (between_grid_points value value1 value2 a (a + MAJORIZER_STEP) (g + 4 / 3 * h + 2 * q) ltac:(lra)
    ltac:(lra) ltac:(intros; apply value_derive; lra) ltac:(intros; apply value1_derive; lra)
    ltac:(intros; apply value2_low; lra) s S) as B.
  replace (a + MAJORIZER_STEP - a) with MAJORIZER_STEP in B by ring. pose proof cell_is. lra.
Qed.

(* The first cell begins at zero, where tanh(s)/s is continued by 1. *)
Definition value_at_zero := g * k ^ 2 + h + q * k ^ 4.

Lemma th_small : forall s, 0 <= s -> th s <= s.
Proof.
  intros s S. destruct (Req_dec s 0) as [-> | N]; [rewrite th_zero; lra|].
  pose proof (chord_range s ltac:(lra)) as C. unfold chord in C.
  apply Rmult_le_reg_r with (/ s); [apply Rinv_0_lt_compat; lra|]. rewrite Rinv_r by lra. unfold Rdiv in C. lra.
Qed.

Lemma value_near_zero : forall a, 0 < a <= 1 -> value a <= value_at_zero + 15 * a * (g + q).
Proof.
  intros a A. unfold value, value_at_zero.
  pose proof (th_small a ltac:(lra)). pose proof (th_pos a ltac:(lra)). pose proof (chord_range a ltac:(lra)).
  assert (chord a ^ 2 <= 1) by nra.
  assert (T : 0 <= tau a <= k + a) by (unfold tau; destruct either as [[-> ->] | [-> ->]]; lra).
  assert (K : 0 <= k <= 1) by (destruct either as [[-> ->] | [-> ->]]; lra).
  assert (tau a ^ 2 <= k ^ 2 + 3 * a) by nra.
  assert (T4 : tau a ^ 4 <= k ^ 4 + 15 * a).
  { replace (tau a ^ 4) with (tau a ^ 2 * tau a ^ 2) by ring. replace (k ^ 4) with (k ^ 2 * k ^ 2) by ring.
    assert (0 <= tau a ^ 2) by apply pow2_ge_0. assert (0 <= k ^ 2 <= 1) by nra.
    assert (tau a ^ 2 * tau a ^ 2 <= (k ^ 2 + 3 * a) * (k ^ 2 + 3 * a)) by (apply Rmult_le_compat; lra). nra. }
  assert (g * tau a ^ 2 <= g * (k ^ 2 + 3 * a)) by (apply Rmult_le_compat_l; lra).
  assert (q * tau a ^ 4 <= q * (k ^ 4 + 15 * a)) by (apply Rmult_le_compat_l; lra).
  assert (h * chord a ^ 2 <= h * 1) by (apply Rmult_le_compat_l; lra).
  assert (0 <= a * g) by nra. nra.
Qed.

Theorem C18_within_the_first_cell : forall s, 0 < s <= MAJORIZER_STEP ->
  value s <= Rmax value_at_zero (value MAJORIZER_STEP) + within_cell g h q * UP.
Proof.
  intros s S. assert (W : 0 < MAJORIZER_STEP < 1) by (unfold MAJORIZER_STEP; lra).
  apply le_epsilon. intros e E.
  set (a := Rmin s (e / (15 * (g + q) + 1))).
  assert (D : 0 < 15 * (g + q) + 1) by lra.
  assert (A : 0 < a) by (unfold a; apply Rmin_glb_lt; [lra | apply Rdiv_lt_0_compat; lra]).
  assert (As : a <= s) by apply Rmin_l.
  assert (Ae : 15 * a * (g + q) <= e).
  { assert (L : a <= e / (15 * (g + q) + 1)) by apply Rmin_r.
    assert (a * (15 * (g + q) + 1) <= e / (15 * (g + q) + 1) * (15 * (g + q) + 1)) by (apply Rmult_le_compat_r; lra).
    replace (e / (15 * (g + q) + 1) * (15 * (g + q) + 1)) with e in * by (field; lra). lra. }
  pose proof (between_grid_points value value1 value2 a MAJORIZER_STEP (g + 4 / 3 * h + 2 * q) ltac:(lra)
    ltac:(lra) ltac:(intros; apply value_derive; lra) ltac:(intros; apply value1_derive; lra)
    ltac:(intros; apply value2_low; lra) s ltac:(lra)) as B.
  pose proof (value_near_zero a ltac:(lra)).
  assert (C : (MAJORIZER_STEP - a) * (MAJORIZER_STEP - a) / 8 * (g + 4 / 3 * h + 2 * q) <= within_cell g h q * UP).
  { pose proof cell_is.
    assert ((MAJORIZER_STEP - a) * (MAJORIZER_STEP - a) <= MAJORIZER_STEP * MAJORIZER_STEP) by (apply Rmult_le_compat; lra).
    assert ((MAJORIZER_STEP - a) * (MAJORIZER_STEP - a) * ((g + 4 / 3 * h + 2 * q) / 8)
      <= MAJORIZER_STEP * MAJORIZER_STEP * ((g + 4 / 3 * h + 2 * q) / 8)) by (apply Rmult_le_compat_r; lra). lra. }
  assert (Rmax (value a) (value MAJORIZER_STEP) <= Rmax value_at_zero (value MAJORIZER_STEP) + e).
  { apply Rmax_lub; [pose proof (Rmax_l value_at_zero (value MAJORIZER_STEP)) | pose proof (Rmax_r value_at_zero (value MAJORIZER_STEP))]; lra. }
  lra.
Qed.

Theorem C18_beyond_the_grid : forall s, MAJORIZER_REACH <= s -> value s <= beyond_grid g h q.
Proof.
  intros s S. assert (W : 0 < MAJORIZER_REACH) by (unfold MAJORIZER_REACH; lra).
  unfold value, beyond_grid. pose proof (th_range s). pose proof (th_pos s ltac:(lra)).
  assert (T : 0 <= tau s <= 1) by (unfold tau; destruct either as [[-> ->] | [-> ->]]; lra).
  assert (tau s ^ 2 <= 1) by nra. assert (tau s ^ 4 <= 1) by (replace (tau s ^ 4) with (tau s ^ 2 * tau s ^ 2) by ring; nra).
  assert (C : chord s ^ 2 <= / (MAJORIZER_REACH * MAJORIZER_REACH)).
  { unfold chord. replace ((th s / s) ^ 2) with (th s ^ 2 * / (s * s)) by (field; lra).
    assert (/ (s * s) <= / (MAJORIZER_REACH * MAJORIZER_REACH)) by (apply Rinv_le_contravar; nra).
    assert (0 < / (s * s)) by (apply Rinv_0_lt_compat; nra). assert (th s ^ 2 <= 1) by nra. nra. }
  assert (h * chord s ^ 2 <= h * / (MAJORIZER_REACH * MAJORIZER_REACH)) by (apply Rmult_le_compat_l; assumption).
  unfold Rdiv. nra.
Qed.
End Bracket.

(* ---- C30, C70: a weight of a record or of its row keeps the coupling ---- *)
Theorem C30_weights_keep_the_coupling : forall rho tau h, 0 <= rho <= 1 -> 0 <= tau <= 1 -> 0 <= h <= 1 - tau ^ 2 ->
  0 <= rho ^ 2 * h <= 1 - (rho * tau) ^ 2 /\ 0 <= rho * h <= 1 - (rho * tau) ^ 2.
Proof.
  intros rho tau h W T H. set (x := rho ^ 2). set (y := tau ^ 2) in *.
  assert (X : 0 <= x <= 1) by (unfold x; nra). assert (Y : 0 <= y <= 1) by (unfold y; nra).
  replace ((rho * tau) ^ 2) with (x * y) by (unfold x, y; ring).
  assert (x * h <= 1 * h) by (apply Rmult_le_compat_r; lra).
  assert (rho * h <= 1 * h) by (apply Rmult_le_compat_r; lra).
  assert (x * y <= 1 * y) by (apply Rmult_le_compat_r; lra).
  assert (0 <= x * h) by (apply Rmult_le_pos; lra). assert (0 <= rho * h) by (apply Rmult_le_pos; lra).
  repeat split; lra.
Qed.
