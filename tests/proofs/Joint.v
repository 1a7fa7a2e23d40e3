(* Several quantities at one parameter: claims C17 to C19, C60 (c), T6. *)
Require Import Reals Lra Psatz Lia Bool.
From Coquelicot Require Import Coquelicot.
From dpfast Require Import Meaning Vectors Formulas Sums.
Open Scope R_scope.

(* The squared distance of two records' contributions in units of the noise, where a record is a unit
   direction u, a signed score in units of its bound, a curvature in units of its own, and its meat. *)
Definition F (g h q A A' H H' t : R) :=
  g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) + h / 2 * (H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2)
  + q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2).

Section Records.
Variable d : nat.
Notation V := (vector (Rd d)).
Definition distance2 (g h q tau tau' H H' : R) (u v : V) :=
  g / 4 * norm2 (sub (scale tau u) (scale tau' v)) + h / 2 * norm2 (sub (rank_one H u) (rank_one H' v))
  + q / 2 * norm2 (sub (rank_one (tau ^ 2) u) (rank_one (tau' ^ 2) v)).

Lemma distance_is : forall g h q tau tau' H H' u v, 0 <= g -> 0 <= h -> 0 <= q -> norm2 u = 1 -> norm2 v = 1 ->
  distance2 g h q tau tau' H H' u v <= F g h q (Rabs tau) (Rabs tau') H H' (Rabs (inner u v)).
Proof.
  intros g h q tau tau' H H' u v G Hh Q U V0. unfold distance2, F, rank_one.
  rewrite !norm2_sub, !norm2_scale, !norm2_outer, !inner_scale.
  rewrite !(inner_sym _ _ (scale _ _)), !inner_scale, !inner_outer, U, V0.
  rewrite (inner_sym _ v u). set (t := inner u v).
  rewrite !pow2_abs. replace (Rabs tau ^ 4) with ((Rabs tau ^ 2) ^ 2) by ring.
  replace (Rabs tau' ^ 4) with ((Rabs tau' ^ 2) ^ 2) by ring. rewrite !pow2_abs.
  assert (- (tau * tau' * t) <= Rabs tau * Rabs tau' * Rabs t).
  { rewrite <- !Rabs_mult. unfold Rabs. destruct (Rcase_abs (tau * tau' * t)); lra. }
  apply Rplus_le_compat; [apply Rplus_le_compat|]; try (right; field); try (right; ring).
  apply Rmult_le_compat_l; lra.
Qed.
End Records.

Definition fit01 (x : R) := 0 <= x <= 1.

(* ---- C17: any loss ---- *)
Lemma peak_is : forall s b t, 0 <= s -> 0 <= t <= 1 -> s * (1 + t) + b * (1 - t ^ 2) <= peak s b.
Proof.
  intros s b t S T. unfold peak. apply leb_cases; intro L.
  - assert (b * (1 - t ^ 2) <= s / 2 * (1 - t ^ 2)) by (apply Rmult_le_compat_r; nra).
    assert (0 <= s * (1 - t) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra.
  - assert (0 < b) by lra.
    replace (s * s / (4 * b)) with (b * (s / (2 * b)) ^ 2) by (field; lra).
    assert (B : 0 < b) by assumption.
    assert (E : 0 <= b * (t - s / (2 * b)) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]).
    assert (Q : b * (t - s / (2 * b)) ^ 2 = b * t ^ 2 - s * t + b * (s / (2 * b)) ^ 2) by (field; lra).
    lra.
Qed.

Lemma between_ends : forall a b c x, 0 <= a -> 0 <= x <= 1 -> a * x ^ 2 + b * x + c <= Rmax c (a + b + c).
Proof.
  intros a b c x A X. assert (a * x ^ 2 <= a * x) by (apply Rmult_le_compat_l; nra).
  destruct (Rle_or_lt 0 (a + b)).
  - apply Rle_trans with (a + b + c); [nra | apply Rmax_r].
  - apply Rle_trans with c; [nra | apply Rmax_l].
Qed.

Lemma matrices : forall h H H' t, 0 <= h -> fit01 H -> fit01 H' -> fit01 t ->
  h / 2 * (H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2) <= Rmax (h / 2) (h * (1 - t ^ 2)).
Proof.
  intros h H H' t P A B T. unfold fit01 in *.
  assert (C : H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2 <= Rmax 1 (2 * (1 - t ^ 2))).
  { pose proof (between_ends 1 (- 2 * H' * t ^ 2) (H' ^ 2) H ltac:(lra) A) as E.
    replace (H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2) with (1 * H ^ 2 + - 2 * H' * t ^ 2 * H + H' ^ 2) by ring.
    eapply Rle_trans; [exact E|]. apply Rmax_lub.
    - apply Rle_trans with 1; [nra | apply Rmax_l].
    - pose proof (between_ends 1 (- 2 * t ^ 2) 1 H' ltac:(lra) B) as E'.
      replace (1 + - 2 * H' * t ^ 2 + H' ^ 2) with (1 * H' ^ 2 + - 2 * t ^ 2 * H' + 1) by ring.
      eapply Rle_trans; [exact E'|]. apply Rmax_lub; [apply Rmax_l|].
      apply Rle_trans with (2 * (1 - t ^ 2)); [lra | apply Rmax_r]. }
  destruct (Rle_or_lt 1 (2 * (1 - t ^ 2))) as [L | L].
  - rewrite Rmax_right in C by lra. apply Rle_trans with (h * (1 - t ^ 2)); [nra | apply Rmax_r].
  - rewrite Rmax_left in C by lra. apply Rle_trans with (h / 2); [nra | apply Rmax_l].
Qed.

Lemma vectors_and_meat : forall g q A A' t, 0 <= g -> 0 <= q -> fit01 A -> fit01 A' -> fit01 t ->
  let X := g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) + q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2) in
  X <= Rmax (g / 4 * (1 + t) + q / 2) (g / 2 * (1 + t) + q * (1 - t ^ 2)).
Proof.
  intros g q A A' t G Q PA PA' T X. unfold fit01 in *.
  assert (0 <= A ^ 2 <= 1) by nra. assert (0 <= A' ^ 2 <= 1) by nra.
  assert (C : X <= g / 4 * (1 + t) * (A ^ 2 + A' ^ 2)
    + q / 2 * ((A ^ 2) ^ 2 + (A' ^ 2) ^ 2 - 2 * A ^ 2 * A' ^ 2 * t ^ 2)).
  { unfold X. apply Rplus_le_compat; [|right; ring].
    replace (g / 4 * (1 + t) * (A ^ 2 + A' ^ 2)) with (g / 4 * ((1 + t) * (A ^ 2 + A' ^ 2))) by ring.
    apply Rmult_le_compat_l; [lra|]. assert (0 <= t * (A - A') ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra. }
  set (x := A ^ 2) in *. set (x' := A' ^ 2) in *. eapply Rle_trans; [exact C|].
  pose proof (between_ends (q / 2) (g / 4 * (1 + t) - q * x' * t ^ 2)
    (g / 4 * (1 + t) * x' + q / 2 * x' ^ 2) x ltac:(lra) H) as E.
  replace (g / 4 * (1 + t) * (x + x') + q / 2 * (x ^ 2 + x' ^ 2 - 2 * x * x' * t ^ 2)) with
    (q / 2 * x ^ 2 + (g / 4 * (1 + t) - q * x' * t ^ 2) * x + (g / 4 * (1 + t) * x' + q / 2 * x' ^ 2)) by field.
  eapply Rle_trans; [exact E|]. apply Rmax_lub.
  - apply Rle_trans with (g / 4 * (1 + t) + q / 2); [|apply Rmax_l].
    assert (0 <= g / 4 * (1 + t)) by nra. assert (x' ^ 2 <= 1) by nra. nra.
  - pose proof (between_ends (q / 2) (g / 4 * (1 + t) - q * t ^ 2) (q / 2 + g / 4 * (1 + t)) x' ltac:(lra) H0) as E'.
    replace (q / 2 + (g / 4 * (1 + t) - q * x' * t ^ 2) + (g / 4 * (1 + t) * x' + q / 2 * x' ^ 2)) with
      (q / 2 * x' ^ 2 + (g / 4 * (1 + t) - q * t ^ 2) * x' + (q / 2 + g / 4 * (1 + t))) by field.
    eapply Rle_trans; [exact E'|]. apply Rmax_lub.
    + apply Rle_trans with (g / 4 * (1 + t) + q / 2); [lra | apply Rmax_l].
    + apply Rle_trans with (g / 2 * (1 + t) + q * (1 - t ^ 2)); [right; field | apply Rmax_r].
Qed.

Lemma plus_max : forall a b c e M, a + c <= M -> a + e <= M -> b + c <= M -> b + e <= M ->
  Rmax a b + Rmax c e <= M.
Proof. intros. unfold Rmax. destruct (Rle_dec a b), (Rle_dec c e); lra. Qed.

Theorem C17_any_loss : forall g h q A A' H H' t, 0 <= g -> 0 <= h -> 0 <= q ->
  fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> fit01 t -> F g h q A A' H H' t <= collinear g h q.
Proof.
  intros g h q A A' H H' t G P Q a a' hh hh' T. unfold F.
  pose proof (matrices h H H' t P hh hh' T) as M. pose proof (vectors_and_meat g q A A' t G Q a a' T) as N.
  cbv zeta in N. unfold collinear.
  set (p1 := peak (1 / 2 * g) (h + q)). set (p2 := peak (1 / 2 * g) q + 1 / 2 * h).
  set (p3 := peak (1 / 4 * g) h + 1 / 2 * q). set (p4 := 1 / 2 * (g + h + q)).
  set (m := Rmax (Rmax (Rmax p1 p2) p3) p4).
  assert (M1 : p1 <= m /\ p2 <= m /\ p3 <= m /\ p4 <= m).
  { unfold m. repeat split; eauto 6 using Rle_trans, Rmax_l, Rmax_r. }
  pose proof (peak_is (1 / 2 * g) (h + q) t ltac:(lra) T) as K1. fold p1 in K1.
  pose proof (peak_is (1 / 2 * g) q t ltac:(lra) T) as K2.
  pose proof (peak_is (1 / 4 * g) h t ltac:(lra) T) as K3.
  unfold fit01 in T.
  assert (Rmax (g / 4 * (1 + t) + q / 2) (g / 2 * (1 + t) + q * (1 - t ^ 2)) + Rmax (h / 2) (h * (1 - t ^ 2)) <= m).
  { apply plus_max; unfold p2, p3, p4 in *; try lra.
    assert (g * t <= g) by nra. lra. }
  lra.
Qed.

Lemma composition : forall g h q A A' H H' t, 0 <= g -> 0 <= h -> 0 <= q ->
  fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> fit01 t -> F g h q A A' H H' t <= g + h + q.
Proof.
  intros g h q A A' H H' t G P Q a a' hh hh' T. unfold F, fit01 in *.
  assert (A * A' <= 1) by nra. assert (0 <= A * A') by nra.
  assert (A * A' * t <= A * A' * 1) by (apply Rmult_le_compat_l; lra).
  assert (A ^ 2 <= 1) by nra. assert (A' ^ 2 <= 1) by nra.
  assert (0 <= A ^ 2) by nra. assert (0 <= A' ^ 2) by nra.
  assert (A ^ 4 <= 1) by (replace (A ^ 4) with (A ^ 2 * A ^ 2) by ring; nra).
  assert (A' ^ 4 <= 1) by (replace (A' ^ 4) with (A' ^ 2 * A' ^ 2) by ring; nra).
  assert (0 <= A ^ 2 * A' ^ 2 * t ^ 2) by (apply Rmult_le_pos; [nra | apply pow2_ge_0]).
  assert (0 <= H * H' * t ^ 2) by (apply Rmult_le_pos; [nra | apply pow2_ge_0]).
  assert (H ^ 2 <= 1) by nra. assert (H' ^ 2 <= 1) by nra.
  apply Rplus_le_compat; [apply Rplus_le_compat|].
  - apply Rle_trans with (g / 4 * 4); [apply Rmult_le_compat_l | ]; lra.
  - apply Rle_trans with (h / 2 * 2); [apply Rmult_le_compat_l | ]; lra.
  - apply Rle_trans with (q / 2 * 2); [apply Rmult_le_compat_l | ]; lra.
Qed.

(* ---- C18: losses whose curvature is tied to their score ---- *)
Definition bracket (g h q A H : R) := g * A ^ 2 + h * H ^ 2 + q * A ^ 4.

Lemma half_brackets : forall g h q A A' H H' t, 0 <= g -> 0 <= h -> 0 <= q ->
  fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> fit01 t ->
  F g h q A A' H H' t <= (bracket g h q A H + bracket g h q A' H') / 2.
Proof.
  intros g h q A A' H H' t G P Q a a' hh hh' T. unfold F, bracket, fit01 in *.
  assert (0 <= H * H' * t ^ 2) by (apply Rmult_le_pos; [nra | apply pow2_ge_0]).
  assert (0 <= A ^ 2 * A' ^ 2 * t ^ 2) by (apply Rmult_le_pos; [nra | apply pow2_ge_0]).
  assert (2 * A * A' * t <= A ^ 2 + A' ^ 2).
  { assert (0 <= A * A') by nra. assert (A * A' * t <= A * A' * 1) by (apply Rmult_le_compat_l; lra). pose proof (pow2_ge_0 (A - A')). lra. }
  assert (g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) <= g / 4 * (2 * (A ^ 2 + A' ^ 2)))
    by (apply Rmult_le_compat_l; lra).
  assert (h / 2 * (H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2) <= h / 2 * (H ^ 2 + H' ^ 2))
    by (apply Rmult_le_compat_l; lra).
  assert (q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2) <= q / 2 * (A ^ 4 + A' ^ 4))
    by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

Lemma by_brackets : forall g h q A A' H H' t M, 0 <= g -> 0 <= h -> 0 <= q ->
  fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> fit01 t ->
  bracket g h q A H <= M -> bracket g h q A' H' <= M -> F g h q A A' H H' t <= M.
Proof.
  intros g h q A A' H H' t M G P Q a a' hh hh' T B B'.
  pose proof (half_brackets g h q A A' H H' t G P Q a a' hh hh' T). lra.
Qed.

(* A loss with h(tau)^2 <= 1 - tau^2 ("circle"), or h(tau) <= 1 - tau^2; weights included. *)
Lemma circle_bracket : forall g h q A H, 0 <= g -> 0 <= h -> 0 <= q -> fit01 A -> fit01 H -> H ^ 2 <= 1 - A ^ 2 ->
  bracket g h q A H <= Rmax h (g + q).
Proof.
  intros g h q A H G P Q a hh C. unfold bracket, fit01 in *. assert (X : 0 <= A ^ 2 <= 1) by nra.
  apply Rle_trans with (q * (A ^ 2) ^ 2 + (g - h) * A ^ 2 + h).
  - assert (h * H ^ 2 <= h * (1 - A ^ 2)) by (apply Rmult_le_compat_l; assumption).
    replace (A ^ 4) with ((A ^ 2) ^ 2) by ring. lra.
  - pose proof (between_ends q (g - h) h (A ^ 2) Q X). replace (q + (g - h) + h) with (g + q) in H0 by ring. lra.
Qed.

(* The meat is free as well where 4 q <= g, and gradient and curvature cost the dearer of the two. *)
Lemma sides : forall g h q v, 0 <= g -> 0 <= h -> 0 <= q -> 4 * q <= g -> fit01 v ->
  (1 + v) ^ 2 * (g / 4 + (h + q) / 2 * (1 - v) ^ 2) <= Rmax g h.
Proof.
  intros g h q v G P Q M V. unfold fit01 in V. set (m := Rmax g h).
  assert (g <= m) by apply Rmax_l. assert (h <= m) by apply Rmax_r. assert (0 <= m) by lra.
  assert (0 <= (1 + v) ^ 2) by apply pow2_ge_0. assert (0 <= (1 - v) ^ 2) by apply pow2_ge_0.
  assert ((h + q) / 2 * (1 - v) ^ 2 <= 5 / 8 * m * (1 - v) ^ 2) by (apply Rmult_le_compat_r; lra).
  apply Rle_trans with ((1 + v) ^ 2 * (m / 4 + 5 / 8 * m * (1 - v) ^ 2)).
  - apply Rmult_le_compat_l; lra.
  - assert (0 <= 5 * v ^ 3 + 5 * v ^ 2 - 3 * v + 1).
    { assert (0 <= v ^ 3) by (apply pow_le; lra). nra. }
    replace ((1 + v) ^ 2 * (m / 4 + 5 / 8 * m * (1 - v) ^ 2))
      with (m - m / 8 * ((1 - v) * (5 * v ^ 3 + 5 * v ^ 2 - 3 * v + 1))) by field.
    assert (0 <= (1 - v) * (5 * v ^ 3 + 5 * v ^ 2 - 3 * v + 1)) by (apply Rmult_le_pos; lra). nra.
Qed.

Lemma to_one : forall g q A t, 0 <= g -> 0 <= q -> 4 * q <= g -> fit01 A -> fit01 t ->
  g / 4 * (1 + A ^ 2 + 2 * A * t) + q / 2 * (1 + A ^ 4 - 2 * A ^ 2 * t ^ 2)
  <= g / 4 * (1 + A) ^ 2 + q / 2 * (1 - A ^ 2) ^ 2.
Proof.
  intros g q A t G Q M a T. unfold fit01 in *.
  assert (E : g / 4 * (1 + A) ^ 2 + q / 2 * (1 - A ^ 2) ^ 2
    - (g / 4 * (1 + A ^ 2 + 2 * A * t) + q / 2 * (1 + A ^ 4 - 2 * A ^ 2 * t ^ 2))
    = A * (1 - t) * (g / 2 - q * A * (1 + t))) by field.
  assert (q * A <= q) by nra. assert (q * A * (1 + t) <= q * (1 + t)) by nra.
  assert (q * (1 + t) <= g / 2) by nra.
  assert (0 <= A * (1 - t) * (g / 2 - q * A * (1 + t))) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]).
  lra.
Qed.

Lemma no_curvature : forall g q A A' t, 0 <= g -> 0 <= q -> 4 * q <= g -> fit01 A -> fit01 A' -> fit01 t ->
  g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) + q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2) <= g.
Proof.
  intros g q A A' t G Q M a a' T. unfold fit01 in *.
  assert (0 <= A ^ 2 <= 1) by nra. assert (0 <= A' ^ 2 <= 1) by nra.
  set (p := A * A' * t). assert (P : 0 <= p <= 1) by (unfold p; split; [apply Rmult_le_pos; nra | assert (A * A' <= 1) by nra; assert (0 <= A * A') by nra; nra]).
  replace (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2) with ((A ^ 2) ^ 2 + (A' ^ 2) ^ 2 - 2 * p ^ 2) by (unfold p; ring).
  replace (2 * A * A' * t) with (2 * p) by (unfold p; ring).
  assert ((A ^ 2) ^ 2 <= 1) by nra. assert ((A' ^ 2) ^ 2 <= 1) by nra.
  assert (p ^ 2 <= 1) by nra.
  apply Rle_trans with (g / 4 * (2 + 2 * p) + q / 2 * (2 - 2 * p ^ 2)).
  - apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
  - assert (q * (1 - p ^ 2) <= g / 4 * (1 - p ^ 2)) by (apply Rmult_le_compat_r; lra).
    assert (0 <= g / 4 * (1 - p) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra.
Qed.

Lemma one_side : forall g h q A A' t, 0 <= g -> 0 <= h -> 0 <= q -> 4 * q <= g -> fit01 A -> fit01 A' -> fit01 t ->
  g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) + h / 2 * (1 - A ^ 2) ^ 2
  + q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2) <= Rmax g h.
Proof.
  intros g h q A A' t G P Q M a a' T.
  (* larger at A' = 1: the difference is a sum of positive terms *)
  assert (E : g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) + q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2)
    <= g / 4 * (1 + A ^ 2 + 2 * A * t) + q / 2 * (1 + A ^ 4 - 2 * A ^ 2 * t ^ 2)).
  { unfold fit01 in *.
    assert (D : g / 4 * (1 + A ^ 2 + 2 * A * t) + q / 2 * (1 + A ^ 4 - 2 * A ^ 2 * t ^ 2)
      - (g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t) + q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2))
      = (1 - A') * ((1 + A') * (g / 4 + q / 2 * (1 + A' ^ 2) - q * A ^ 2 * t ^ 2) + g / 2 * (A * t))) by field.
    assert (0 <= A * t) by nra. assert (A ^ 2 * t ^ 2 <= 1).
    { replace (A ^ 2 * t ^ 2) with ((A * t) ^ 2) by ring. assert (A * t <= 1) by nra. nra. }
    assert (q * A ^ 2 * t ^ 2 <= q) by (replace (q * A ^ 2 * t ^ 2) with (q * (A ^ 2 * t ^ 2)) by ring; nra).
    assert (0 <= q * A' ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]).
    assert (0 <= g / 4 + q / 2 * (1 + A' ^ 2) - q * A ^ 2 * t ^ 2) by lra.
    assert (0 <= (1 + A') * (g / 4 + q / 2 * (1 + A' ^ 2) - q * A ^ 2 * t ^ 2) + g / 2 * (A * t)) by nra.
    assert (0 <= (1 - A') * ((1 + A') * (g / 4 + q / 2 * (1 + A' ^ 2) - q * A ^ 2 * t ^ 2) + g / 2 * (A * t)))
      by (apply Rmult_le_pos; lra). lra. }
  pose proof (to_one g q A t G Q M a T). pose proof (sides g h q A G P Q M a) as S.
  replace ((1 + A) ^ 2 * (g / 4 + (h + q) / 2 * (1 - A) ^ 2))
    with (g / 4 * (1 + A) ^ 2 + q / 2 * (1 - A ^ 2) ^ 2 + h / 2 * (1 - A ^ 2) ^ 2) in S by field.
  lra.
Qed.

Lemma both_sides : forall g h q A A' t, 0 <= g -> 0 <= h -> 0 <= q -> 4 * q <= g -> fit01 A -> fit01 A' -> fit01 t ->
  F g h q A A' (1 - A ^ 2) (1 - A' ^ 2) t <= Rmax g h.
Proof.
  intros g h q A A' t G P Q M a a' T.
  set (v := A * A'). set (c := (A ^ 2 + A' ^ 2) / 2).
  assert (V : fit01 v) by (unfold fit01, v in *; split; [apply Rmult_le_pos | apply Rle_trans with (1 * 1); [apply Rmult_le_compat |]]; lra).
  assert (C : v <= c <= (1 + v ^ 2) / 2).
  { unfold c, v, fit01 in *. split; [pose proof (pow2_ge_0 (A - A')); lra|].
    assert (0 <= (1 - A ^ 2) * (1 - A' ^ 2)) by (apply Rmult_le_pos; nra).
    replace ((A * A') ^ 2) with (A ^ 2 * A' ^ 2) by ring. lra. }
  set (f := fun c => g / 2 * (c + t * v) + h * (1 - 2 * c + 2 * c ^ 2 - v ^ 2 - t ^ 2 * (1 - 2 * c + v ^ 2))
    + q * (2 * c ^ 2 - v ^ 2 * (1 + t ^ 2))).
  assert (E : F g h q A A' (1 - A ^ 2) (1 - A' ^ 2) t = f c) by (unfold F, f, c, v; field).
  rewrite E.
  (* f is convex in c *)
  assert (E1 : f v <= Rmax g h).
  { replace (f v) with (g / 2 * v * (1 + t) + h * (1 - v) ^ 2 * (1 - t ^ 2) + q * v ^ 2 * (1 - t ^ 2)) by (unfold f; field).
    unfold fit01 in *. assert (0 <= 1 - t ^ 2) by nra.
    pose proof (between_ends ((h + q) * (1 - t ^ 2)) (g / 2 * (1 + t) - 2 * h * (1 - t ^ 2)) (h * (1 - t ^ 2)) v
      ltac:(nra) V) as B.
    replace (g / 2 * v * (1 + t) + h * (1 - v) ^ 2 * (1 - t ^ 2) + q * v ^ 2 * (1 - t ^ 2)) with
      ((h + q) * (1 - t ^ 2) * v ^ 2 + (g / 2 * (1 + t) - 2 * h * (1 - t ^ 2)) * v + h * (1 - t ^ 2)) by field.
    eapply Rle_trans; [exact B|]. apply Rmax_lub.
    - apply Rle_trans with h; [nra | apply Rmax_r].
    - apply Rle_trans with g; [|apply Rmax_l].
      assert (q * (1 - t ^ 2) <= g / 4 * (1 - t ^ 2)) by (apply Rmult_le_compat_r; lra).
      assert (0 <= g / 4 * (1 - t) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra. }
  assert (E2 : f ((1 + v ^ 2) / 2) <= Rmax g h).
  { pose proof (sides g h q v G P Q M V) as S. pose proof (to_one g q v t G Q M V T).
    replace (f ((1 + v ^ 2) / 2)) with (g / 4 * (1 + v ^ 2 + 2 * v * t) + h / 2 * (1 - v ^ 2) ^ 2
      + q / 2 * (1 + v ^ 4 - 2 * v ^ 2 * t ^ 2)) by (unfold f; field).
    replace ((1 + v) ^ 2 * (g / 4 + (h + q) / 2 * (1 - v) ^ 2))
      with (g / 4 * (1 + v) ^ 2 + q / 2 * (1 - v ^ 2) ^ 2 + h / 2 * (1 - v ^ 2) ^ 2) in S by field. lra. }
  destruct (Req_dec ((1 + v ^ 2) / 2) v) as [W | W]; [replace c with v by lra; exact E1|].
  set (w := (1 + v ^ 2) / 2) in *. set (s := (c - v) / (w - v)).
  assert (D : 0 < w - v) by lra.
  assert (S01 : 0 <= s <= 1).
  { unfold s. split; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
    apply Rmult_le_reg_r with (w - v); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  assert (c = v + s * (w - v)) by (unfold s; field; lra).
  assert (f c = (1 - s) * f v + s * f w - 2 * (h + q) * s * (1 - s) * (w - v) ^ 2) by (rewrite H; unfold f; ring).
  assert (0 <= 2 * (h + q) * s * (1 - s) * (w - v) ^ 2).
  { apply Rmult_le_pos; [|apply pow2_ge_0]. apply Rmult_le_pos; [|lra]. apply Rmult_le_pos; lra. }
  assert ((1 - s) * f v <= (1 - s) * Rmax g h) by (apply Rmult_le_compat_l; lra).
  assert (s * f w <= s * Rmax g h) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Theorem C18_one_minus_square : forall g h q A A' H H' t, 0 <= g -> 0 <= h -> 0 <= q -> 4 * q <= g ->
  fit01 A -> fit01 A' -> 0 <= H <= 1 - A ^ 2 -> 0 <= H' <= 1 - A' ^ 2 -> fit01 t ->
  F g h q A A' H H' t <= Rmax g h.
Proof.
  intros g h q A A' H H' t G P Q M a a' hh hh' T.
  assert (Rest : forall m H K, 0 <= H <= m -> 0 <= K ->
    H ^ 2 + K ^ 2 - 2 * H * K * t ^ 2 <= Rmax (K ^ 2) (m ^ 2 + K ^ 2 - 2 * m * K * t ^ 2)).
  { intros m H0 K [L U] PK. destruct (Rle_or_lt (m - 2 * K * t ^ 2) 0).
    - apply Rle_trans with (K ^ 2); [nra | apply Rmax_l].
    - apply Rle_trans with (m ^ 2 + K ^ 2 - 2 * m * K * t ^ 2); [|apply Rmax_r]. nra. }
  set (X := g / 4 * (A ^ 2 + A' ^ 2 + 2 * A * A' * t)).
  set (Y := q / 2 * (A ^ 4 + A' ^ 4 - 2 * A ^ 2 * A' ^ 2 * t ^ 2)).
  assert (P0 : 0 <= 1 - A ^ 2) by lra. assert (P0' : 0 <= 1 - A' ^ 2) by lra.
  pose proof (no_curvature g q A A' t G Q M a a' T) as B0. fold X Y in B0.
  pose proof (one_side g h q A A' t G P Q M a a' T) as B1. fold X Y in B1.
  pose proof (one_side g h q A' A t G P Q M a' a T) as B2.
  replace (g / 4 * (A' ^ 2 + A ^ 2 + 2 * A' * A * t)) with X in B2 by (unfold X; field).
  replace (q / 2 * (A' ^ 4 + A ^ 4 - 2 * A' ^ 2 * A ^ 2 * t ^ 2)) with Y in B2 by (unfold Y; field).
  pose proof (both_sides g h q A A' t G P Q M a a' T) as B3. unfold F in B3. fold X Y in B3.
  unfold F. fold X Y. pose proof (Rmax_l g h).
  assert (Z : H ^ 2 + H' ^ 2 - 2 * H * H' * t ^ 2 <=
    Rmax (Rmax 0 ((1 - A' ^ 2) ^ 2)) (Rmax ((1 - A ^ 2) ^ 2)
      ((1 - A ^ 2) ^ 2 + (1 - A' ^ 2) ^ 2 - 2 * (1 - A ^ 2) * (1 - A' ^ 2) * t ^ 2))).
  { eapply Rle_trans; [apply (Rest (1 - A ^ 2) H H' hh); lra|]. apply Rmax_lub.
    - apply Rle_trans with ((1 - A' ^ 2) ^ 2); [apply pow_incr; lra|].
      eapply Rle_trans; [apply Rmax_r | apply Rmax_l].
    - pose proof (Rest (1 - A' ^ 2) H' (1 - A ^ 2) hh' P0) as R'.
      replace ((1 - A ^ 2) ^ 2 + H' ^ 2 - 2 * (1 - A ^ 2) * H' * t ^ 2) with
        (H' ^ 2 + (1 - A ^ 2) ^ 2 - 2 * H' * (1 - A ^ 2) * t ^ 2) by ring.
      eapply Rle_trans; [exact R'|]. apply Rmax_lub.
      + eapply Rle_trans; [apply Rmax_l | apply Rmax_r].
      + eapply Rle_trans; [|apply Rmax_r]. eapply Rle_trans; [|apply Rmax_r]. right. ring. }
  unfold Rmax in Z.
  repeat match type of Z with context [Rle_dec ?x ?y] => destruct (Rle_dec x y) end;
    apply (Rmult_le_compat_l (h / 2)) in Z; lra.
Qed.

(* Logistic: h(tau) = 4 tau (1 - tau), a quartic. *)
Definition quartic (g h q tau : R) := tau * tau * (g + 16 * h * (1 - tau) ^ 2 + q * tau * tau).

Definition slope (g h q x : R) := 2 * x * ((32 * h + 2 * q) * x ^ 2 - 2 * (24 * h) * x + (g + 16 * h)).

Lemma quartic_changes : forall g h q x y, x < y -> exists c, x <= c <= y /\
  quartic g h q y - quartic g h q x = slope g h q c * (y - x).
Proof.
  intros g h q x y L.
  destruct (MVT_gen (quartic g h q) x y (slope g h q)) as [c [C E]].
  - intros c _. unfold quartic, slope. auto_derive; [trivial | ring].
  - intros c _. unfold quartic. apply derivable_continuous_pt. reg.
  - exists c. rewrite Rmin_left, Rmax_right in C by lra. split; assumption.
Qed.

Lemma C18_quartic : forall g h q tau, 0 <= g -> 0 <= h -> 0 <= q -> fit01 tau -> quartic g h q tau <= logistic g h q.
Proof.
  intros g h q tau G P Q T. unfold fit01 in T. unfold logistic. fold (quartic g h q).
  change (fun tau : R => tau * tau * (g + 16 * h * (1 - tau) ^ 2 + q * tau * tau)) with (quartic g h q).
  set (a := 32 * h + 2 * q). set (b := 24 * h). set (c := g + 16 * h). cbv zeta.
  set (D := b * b - a * c).
  assert (A0 : 0 <= a) by (unfold a; lra). assert (B0 : 0 <= b) by (unfold b; lra). assert (C0 : 0 <= c) by (unfold c; lra).
  destruct (Req_dec tau 1) as [-> | NE]; [apply Rmax_l|].
  (* where the slope is not negative between tau and 1, the value at 1 is larger *)
  assert (Up : (forall x, tau <= x <= 1 -> 0 <= a * x ^ 2 - 2 * b * x + c) -> quartic g h q tau <= quartic g h q 1).
  { intro S. destruct (quartic_changes g h q tau 1 ltac:(lra)) as [x [X E]].
    assert (0 <= slope g h q x) by (unfold slope; specialize (S x X); unfold a, b, c in S; apply Rmult_le_pos; lra).
    assert (0 <= slope g h q x * (1 - tau)) by (apply Rmult_le_pos; lra). lra. }
  apply (ltb_cases R 0 D (quartic g h q (Rmin 1 (c / (b + sqrt D)))) 0 (fun v => quartic g h q tau <= Rmax (quartic g h q 1) v)).
  2: { intro N. apply Rle_trans with (quartic g h q 1); [|apply Rmax_l]. apply Up. intros x X.
       destruct (Req_dec a 0) as [Z | NZ].
       - assert (h = 0) by (unfold a in Z; lra). unfold b. rewrite Z, H. lra.
       - assert (0 < a) by lra. apply Rmult_le_reg_l with a; [assumption|].
         replace (a * (a * x ^ 2 - 2 * b * x + c)) with ((a * x - b) ^ 2 - D) by (unfold D; ring).
         pose proof (pow2_ge_0 (a * x - b)). lra. }
  intro DP. set (s := sqrt D). assert (S2 : s * s = D) by (apply sqrt_sqrt; lra).
  assert (SP : 0 < s) by (apply sqrt_lt_R0; assumption).
  assert (AP : 0 < a).
  { destruct (Req_dec a 0) as [Z | NZ]; [|lra]. exfalso. unfold D in DP.
    assert (h = 0) by (unfold a in Z; lra). unfold b in DP. rewrite Z, H in DP. lra. }
  assert (BS : s <= b). { apply Rsqr_incr_0_var; [|assumption]. unfold Rsqr. rewrite S2. unfold D. nra. }
  assert (BP : 0 < b + s) by lra.
  set (r := c / (b + s)).
  assert (R1 : r = (b - s) / a).
  { unfold r. apply Rmult_eq_reg_r with (a * (b + s)); [|nra].
    replace (c / (b + s) * (a * (b + s))) with (a * c) by (field; lra).
    replace ((b - s) / a * (a * (b + s))) with ((b - s) * (b + s)) by (field; lra).
    replace ((b - s) * (b + s)) with (b * b - s * s) by ring. rewrite S2. unfold D. ring. }
  set (r2 := (b + s) / a).
  assert (Fac : forall x, a * x ^ 2 - 2 * b * x + c = a * ((x - r) * (x - r2))).
  { intro x. rewrite R1. unfold r2. apply Rmult_eq_reg_l with a; [|lra].
    replace (a * (a * ((x - (b - s) / a) * (x - (b + s) / a)))) with (a * a * x ^ 2 - 2 * a * b * x + (b * b - s * s)) by (field; lra).
    rewrite S2. unfold D. ring. }
  assert (RR : r <= r2).
  { rewrite R1. unfold r2, Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra | lra]. }
  assert (Low : forall x, x <= r -> 0 <= a * x ^ 2 - 2 * b * x + c).
  { intros x X. rewrite Fac. apply Rmult_le_pos; [lra|]. assert (0 <= (r - x) * (r2 - x)) by (apply Rmult_le_pos; lra). lra. }
  destruct (Rle_or_lt 1 r) as [Far | Near].
  { apply Rle_trans with (quartic g h q 1); [|apply Rmax_l]. apply Up. intros x X. apply Low. lra. }
  rewrite Rmin_right by lra.
  destruct (Rle_or_lt tau r) as [Left | Right].
  - apply Rle_trans with (quartic g h q r); [|apply Rmax_r].
    destruct (Req_dec tau r) as [-> | N]; [lra|].
    destruct (quartic_changes g h q tau r ltac:(lra)) as [x [X E]].
    assert (0 <= slope g h q x) by (unfold slope; pose proof (Low x ltac:(lra)) as L; unfold a, b, c in L; apply Rmult_le_pos; lra).
    assert (0 <= slope g h q x * (r - tau)) by (apply Rmult_le_pos; lra). lra.
  - destruct (Rle_or_lt tau r2) as [Middle | Beyond].
    + apply Rle_trans with (quartic g h q r); [|apply Rmax_r].
      destruct (quartic_changes g h q r tau Right) as [x [X E]].
      assert (slope g h q x <= 0).
      { unfold slope. fold a b c. pose proof (Fac x) as FX. fold b in FX.
        replace ((32 * h + 2 * q) * x ^ 2 - 2 * (24 * h) * x + (g + 16 * h)) with (a * x ^ 2 - 2 * b * x + c) by reflexivity.
        rewrite FX. assert (0 <= (x - r) * (r2 - x)) by (apply Rmult_le_pos; lra).
        assert (0 <= r) by (unfold r; apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
        assert (0 <= a * ((x - r) * (r2 - x))) by (apply Rmult_le_pos; lra).
        assert (0 <= 2 * x * (a * ((x - r) * (r2 - x)))) by (apply Rmult_le_pos; lra). lra. }
      assert (slope g h q x * (tau - r) <= 0) by nra. lra.
    + apply Rle_trans with (quartic g h q 1); [|apply Rmax_l]. apply Up. intros x X.
      rewrite Fac. apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; lra.
Qed.

Lemma logistic_bracket : forall g h q A H tau, 0 <= g -> 0 <= h -> 0 <= q -> fit01 tau ->
  0 <= A <= tau -> 0 <= H <= 4 * tau * (1 - tau) -> bracket g h q A H <= logistic g h q.
Proof.
  intros g h q A H tau G P Q T a hh. pose proof (C18_quartic g h q tau G P Q T) as C. unfold fit01 in T.
  eapply Rle_trans; [|exact C]. unfold bracket, quartic.
  assert (A ^ 2 <= tau ^ 2) by (apply pow_incr; lra). assert (A ^ 4 <= tau ^ 4) by (apply pow_incr; lra).
  assert (H ^ 2 <= (4 * tau * (1 - tau)) ^ 2) by (apply pow_incr; lra).
  assert (g * A ^ 2 <= g * tau ^ 2) by (apply Rmult_le_compat_l; lra).
  assert (h * H ^ 2 <= h * (4 * tau * (1 - tau)) ^ 2) by (apply Rmult_le_compat_l; lra).
  assert (q * A ^ 4 <= q * tau ^ 4) by (apply Rmult_le_compat_l; lra). nra.
Qed.

(* ---- joint_mu ---- *)
Section JointMu.
Variables (mu_g mu_h mu_q : R) (d : nat).
Hypothesis mus : 0 <= mu_g /\ 0 <= mu_h /\ 0 <= mu_q.
Hypothesis some : 0 < Rmax (Rmax mu_g mu_h) mu_q.
Let s := Rmax (Rmax mu_g mu_h) mu_q.
Let g := (mu_g / s) ^ 2.
Let h := (mu_h / s) ^ 2.
Let q := (mu_q / s) ^ 2.

Lemma relatives : 0 <= g /\ 0 <= h /\ 0 <= q.
Proof. unfold g, h, q. repeat split; apply pow2_ge_0. Qed.

(* The distance of two records in units of the noise is at most what is charged, rounding of the formula
   included: UP is left for it (C65). *)
Lemma charged : forall squared A A' H H' t, F g h q A A' H H' t <= squared ->
  sqrt (F (mu_g ^ 2) (mu_h ^ 2) (mu_q ^ 2) A A' H H' t) * UP <= s * sqrt squared * UP.
Proof.
  intros squared A A' H H' t L. pose proof up. apply Rmult_le_compat_r; [lra|].
  assert (SP : 0 < s) by exact some.
  replace (F (mu_g ^ 2) (mu_h ^ 2) (mu_q ^ 2) A A' H H' t) with ((s * s) * F g h q A A' H H' t)
    by (unfold F, g, h, q; field; lra).
  rewrite sqrt_mult_alt, sqrt_square by nra.
  apply Rmult_le_compat_l; [lra|]. apply sqrt_le_1_alt. assumption.
Qed.

Notation F' := (F (mu_g ^ 2) (mu_h ^ 2) (mu_q ^ 2)).

Theorem C17_joint_mu_none : forall A A' H H' t, fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> fit01 t ->
  sqrt (F' A A' H H' t) * UP <= joint_mu_none mu_g mu_h mu_q.
Proof.
  intros A A' H H' t a a' hh hh' T. destruct relatives as [G [P Q]].
  apply charged. apply composition; assumption.
Qed.

Theorem C17_joint_mu_independent : forall A A' H H' t, fit01 A -> fit01 A' -> fit01 H -> fit01 H' -> fit01 t ->
  sqrt (F' A A' H H' t) * UP <= joint_mu_independent mu_g mu_h mu_q.
Proof.
  intros A A' H H' t a a' hh hh' T. destruct relatives as [G [P Q]].
  apply charged. apply Rmin_glb; [apply composition | apply C17_any_loss]; assumption.
Qed.

Lemma one_minus_square_fits : forall A H, fit01 A -> 0 <= H <= 1 - A ^ 2 -> fit01 H /\ H ^ 2 <= 1 - A ^ 2.
Proof. intros A H a hh. unfold fit01 in *. assert (0 <= A ^ 2) by nra. split; [lra | nra]. Qed.

Theorem C18_joint_mu_one_minus_square : forall A A' H H' t, fit01 A -> fit01 A' ->
  0 <= H <= 1 - A ^ 2 -> 0 <= H' <= 1 - A' ^ 2 -> fit01 t ->
  sqrt (F' A A' H H' t) * UP <= joint_mu_one_minus_square mu_g mu_h mu_q.
Proof.
  intros A A' H H' t a a' hh hh' T. destruct relatives as [G [P Q]].
  destruct (one_minus_square_fits A H a hh) as [f c]. destruct (one_minus_square_fits A' H' a' hh') as [f' c'].
  assert (C : F g h q A A' H H' t <= Rmin (g + h + q) (collinear g h q))
    by (apply Rmin_glb; [apply composition | apply C17_any_loss]; assumption).
  apply charged. apply leb_cases; intro L; apply Rmin_glb; try exact C.
  - apply C18_one_minus_square; assumption.
  - apply by_brackets; try assumption; apply circle_bracket; assumption.
Qed.

Theorem C18_joint_mu_circle : forall A A' H H' t, fit01 A -> fit01 A' -> fit01 H -> fit01 H' ->
  H ^ 2 <= 1 - A ^ 2 -> H' ^ 2 <= 1 - A' ^ 2 -> fit01 t ->
  sqrt (F' A A' H H' t) * UP <= joint_mu_circle mu_g mu_h mu_q.
Proof.
  intros A A' H H' t a a' f f' c c' T. destruct relatives as [G [P Q]].
  apply charged. apply Rmin_glb; [apply Rmin_glb; [apply composition | apply C17_any_loss]; assumption|].
  apply by_brackets; try assumption; apply circle_bracket; assumption.
Qed.

Theorem C18_joint_mu_logistic : forall A A' H H' tau tau' t, fit01 tau -> fit01 tau' ->
  0 <= A <= tau -> 0 <= A' <= tau' -> 0 <= H <= 4 * tau * (1 - tau) -> 0 <= H' <= 4 * tau' * (1 - tau') -> fit01 t ->
  sqrt (F' A A' H H' t) * UP <= joint_mu_logistic mu_g mu_h mu_q.
Proof.
  intros A A' H H' tau tau' t u u' a a' hh hh' T. destruct relatives as [G [P Q]].
  assert (fit01 A /\ fit01 A' /\ fit01 H /\ fit01 H') as [fa [fa' [fh fh']]].
  { assert (E : forall x, 0 <= x <= 1 -> 4 * x * (1 - x) <= 1) by (intros; pose proof (pow2_ge_0 (2 * x - 1)); lra).
    unfold fit01 in *. pose proof (E tau u). pose proof (E tau' u').
    split; [lra|]. split; [lra|]. split; lra. }
  apply charged. apply Rmin_glb; [apply Rmin_glb; [apply composition | apply C17_any_loss]; assumption|].
  apply by_brackets; try assumption; [apply (logistic_bracket g h q A H tau) | apply (logistic_bracket g h q A' H' tau')]; assumption.
Qed.

(* The same of two records as vectors and matrices, whose noise is for 2 B, sqrt(2) Bbar, sqrt(2) B^2. *)
Theorem C17_two_records : forall tau tau' H H' (u v : vector (Rd d)), norm2 u = 1 -> norm2 v = 1 ->
  Rabs tau <= 1 -> Rabs tau' <= 1 -> fit01 H -> fit01 H' ->
  sqrt (distance2 d (mu_g ^ 2) (mu_h ^ 2) (mu_q ^ 2) tau tau' H H' u v) * UP <= joint_mu_independent mu_g mu_h mu_q.
Proof.
  intros tau tau' H H' u v U V T T' hh hh'.
  assert (fit01 (Rabs (inner u v))).
  { split; [apply Rabs_pos|]. pose proof (cauchy_schwarz u v) as C. unfold norm in C. rewrite U, V, sqrt_1 in C. lra. }
  eapply Rle_trans; [|apply C17_joint_mu_independent with (A := Rabs tau) (A' := Rabs tau') (H := H) (H' := H')
    (t := Rabs (inner u v)); try assumption; split; try apply Rabs_pos; assumption].
  pose proof up. apply Rmult_le_compat_r; [lra|]. apply sqrt_le_1_alt.
  apply distance_is; try assumption; apply pow2_ge_0.
Qed.
End JointMu.

(* C60 (c): the meat of clipped scores is free up to half of their mu. *)
Theorem C60_meat_is_free : forall mu mu_q A A' t, 0 < mu -> 0 <= mu_q <= mu / 2 -> fit01 A -> fit01 A' -> fit01 t ->
  F (mu ^ 2) 0 (mu_q ^ 2) A A' 0 0 t <= mu ^ 2.
Proof.
  intros mu mu_q A A' t M Q a a' T. unfold F.
  pose proof (no_curvature (mu ^ 2) (mu_q ^ 2) A A' t (pow2_ge_0 mu) (pow2_ge_0 mu_q) ltac:(nra) a a' T). lra.
Qed.

(* T6: next to zero a query moves by 1/sqrt(2) of its noise at most, so two levels cost one. *)
Theorem T6_next_to_zero : forall mu mu_q A, 0 <= mu -> 0 <= mu_q <= mu / 2 -> fit01 A ->
  F (mu ^ 2) 0 (mu_q ^ 2) A 0 0 0 0 <= mu ^ 2 / 2 /\ F 0 (mu ^ 2) 0 0 0 A 0 0 <= mu ^ 2 / 2.
Proof.
  intros mu mu_q A M Q a. unfold F, fit01 in *. assert (A ^ 2 <= 1) by nra. assert (0 <= A ^ 2) by nra.
  assert (A ^ 4 <= 1) by (replace (A ^ 4) with (A ^ 2 * A ^ 2) by ring; nra).
  assert (0 <= mu ^ 2) by apply pow2_ge_0. assert (0 <= mu_q ^ 2 <= mu ^ 2 / 4) by nra.
  assert (mu ^ 2 * A ^ 2 <= mu ^ 2) by nra. assert (mu_q ^ 2 * A ^ 4 <= mu ^ 2 / 4) by nra. split; lra.
Qed.

(* ---- C16 and C19: the grid ---- *)
Lemma grid_cost : sqrt 3 * (1 / 2 ^ 20) * (1 + 1 / 2 ^ 52) <= GRID_COST.
Proof.
  assert (S : sqrt 3 <= 17320508075689 / 10 ^ 13).
  { rewrite <- (sqrt_square (17320508075689 / 10 ^ 13)) by lra. apply sqrt_le_1_alt. lra. }
  apply Rle_trans with (17320508075689 / 10 ^ 13 * (1 / 2 ^ 20) * (1 + 1 / 2 ^ 52)).
  - apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_r; lra.
  - unfold GRID_COST. lra.
Qed.

(* What is released with gaussian_scale costs mu, its rounding to the grid included; UP is left. *)
Theorem C19_gaussian_scale : forall D mu dimension grid, 0 < D -> GRID_COST < mu ->
  grid <= sqrt 3 * (1 / 2 ^ 20) * (1 + 1 / 2 ^ 52) ->
  D * (1 + ROUNDING_FORMULA) / gaussian_scale D mu dimension + grid <= mu.
Proof.
  intros D mu dimension grid P M G. pose proof grid_cost. unfold gaussian_scale.
  assert (0 < 1 + ROUNDING_FORMULA) by (unfold ROUNDING_FORMULA; lra).
  replace (D * (1 + ROUNDING_FORMULA) / (D / (mu - GRID_COST) * (1 + ROUNDING_FORMULA))) with (mu - GRID_COST)
    by (field; repeat split; lra).
  lra.
Qed.

(* Ideal distance, errors of contributions and sums, and the grid together (C19). *)
Theorem C19_together : forall j M e ideal errors grid, 0 < M <= j -> GRID_COST < M -> 0 <= e ->
  ideal <= (1 - GRID_COST / M) * j / (1 + 3 * e) ->
  errors <= sqrt 2 * sqrt 3 * e * M * (1 - GRID_COST / M) / (1 + 3 * e) ->
  grid <= sqrt 3 * (1 / 2 ^ 20) * (1 + 1 / 2 ^ 52) ->
  ideal + errors + grid <= j.
Proof.
  intros j M e ideal errors grid [MP MJ] C E I R Gr. pose proof grid_cost as GC.
  assert (CP : 0 < GRID_COST) by (unfold GRID_COST; lra).
  assert (S : sqrt 2 * sqrt 3 <= 3).
  { rewrite <- sqrt_mult_alt by lra. rewrite <- (sqrt_square 3) at 2 by lra. apply sqrt_le_1_alt. lra. }
  set (w := 1 - GRID_COST / M) in *.
  assert (W : 0 <= w).
  { unfold w. assert (GRID_COST / M <= 1); [|lra]. apply Rmult_le_reg_r with M; [lra|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  assert (I3 : 0 < / (1 + 3 * e)) by (apply Rinv_0_lt_compat; lra).
  assert (errors <= 3 * e * j * w / (1 + 3 * e)).
  { eapply Rle_trans; [exact R|]. unfold Rdiv. apply Rmult_le_compat_r; [lra|].
    assert (e * M <= e * j) by (apply Rmult_le_compat_l; assumption).
    assert (0 <= e * M) by (apply Rmult_le_pos; lra).
    apply Rmult_le_compat_r; [exact W|].
    replace (sqrt 2 * sqrt 3 * e * M) with (sqrt 2 * sqrt 3 * (e * M)) by ring.
    replace (3 * e * j) with (3 * (e * j)) by ring. pose proof (sqrt_pos 2). pose proof (sqrt_pos 3).
    apply Rmult_le_compat; try assumption. apply Rmult_le_pos; assumption. }
  assert (w * j / (1 + 3 * e) + 3 * e * j * w / (1 + 3 * e) = w * j) by (field; lra).
  assert (w * j <= j - GRID_COST).
  { unfold w. assert (GRID_COST <= GRID_COST / M * j); [|lra].
    replace (GRID_COST / M * j) with (GRID_COST * (j / M)) by (field; lra).
    assert (1 <= j / M); [|nra]. apply Rmult_le_reg_r with M; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  lra.
Qed.
