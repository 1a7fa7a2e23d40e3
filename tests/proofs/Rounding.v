(* Arithmetic of IEEE 754, by Flocq: sums in any fixed order (C11, C12, C66), kept lengths (C94), the
   grid of a release (C16) and the scale of its noise (C86). *)
Require Import Reals Lra Psatz Lia ZArith.
From Flocq Require Import Core Relative Plus_error.
From dpfast Require Import Meaning Vectors Formulas Sums.
Open Scope R_scope.

(* binary64: 53 bits, subnormal numbers down to 2^-1074, ties to even. *)
Notation exponents := (FLT_exp (-1074) 53).
Notation float := (generic_format radix2 exponents).
Notation fl := (round radix2 exponents (Znearest (fun n => negb (Z.even n)))).
Notation u := UNIT_ROUNDOFF.

Local Instance prec : Prec_gt_0 53.
Proof. unfold Prec_gt_0. lia. Qed.

Lemma unit : / 2 * bpow radix2 (- (53) + 1) = u.
Proof. unfold u. simpl. lra. Qed.

Lemma fl_float : forall x, float (fl x).
Proof. intro. apply generic_format_round; typeclasses eauto. Qed.

Lemma smaller_unit : u_ro radix2 53 / (1 + u_ro radix2 53) <= u.
Proof.
  unfold u_ro. rewrite unit. unfold u. apply Rmult_le_reg_r with (1 + 1 / 2 ^ 53); [lra|].
  unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l by lra. nra.
Qed.

(* A sum of two floats has a relative error of at most u, whatever they are: C11 loses nothing to underflow. *)
Lemma sum_error : forall x y, float x -> float y -> exists e, Rabs e <= u /\ fl (x + y) = (x + y) * (1 + e).
Proof.
  intros x y X Y.
  destruct (FLT_plus_error_N_ex radix2 (-1074) 53 (fun n => negb (Z.even n)) x y X Y) as [e [B E]].
  exists e. split; [|exact E]. eapply Rle_trans; [exact B | apply smaller_unit].
Qed.

(* Of any other operation, where the result is a normal number. *)
Lemma normal_error : forall x, bpow radix2 (-1022) <= Rabs x -> exists e, Rabs e <= u /\ fl x = x * (1 + e).
Proof.
  intros x X.
  destruct (relative_error_N_FLT_ex radix2 (-1074) 53 ltac:(lia) (fun n => negb (Z.even n)) x) as [e [B E]].
  { exact X. }
  exists e. split; [rewrite <- unit; exact B | exact E].
Qed.

(* ---- C11, C12, C66: additions in any fixed order ---- *)
Inductive additions := One (x : R) | Plus (left right : additions).

Fixpoint exact (t : additions) : R := match t with One x => x | Plus l r => exact l + exact r end.
Fixpoint computed (t : additions) : R := match t with One x => x | Plus l r => fl (computed l + computed r) end.
Fixpoint sizes (t : additions) : R := match t with One x => Rabs x | Plus l r => sizes l + sizes r end.
Fixpoint depth (t : additions) : nat := match t with One _ => 0 | Plus l r => S (max (depth l) (depth r)) end.
Fixpoint floats (t : additions) : Prop := match t with One x => float x | Plus l r => floats l /\ floats r end.

Lemma computed_float : forall t, floats t -> float (computed t).
Proof. destruct t; simpl; intro F; [exact F | apply fl_float]. Qed.

Lemma sizes_pos : forall t, 0 <= sizes t.
Proof. induction t; simpl; [apply Rabs_pos | lra]. Qed.

Lemma exact_sizes : forall t, Rabs (exact t) <= sizes t.
Proof.
  induction t; simpl; [lra|]. eapply Rle_trans; [apply Rabs_triang | lra].
Qed.

Lemma grows : forall a b, (a <= b)%nat -> (1 + u) ^ a <= (1 + u) ^ b.
Proof. intros. apply Rle_pow; [unfold u; lra | assumption]. Qed.

Lemma one_power : forall k, 1 <= (1 + u) ^ k.
Proof. intro. apply pow_R1_Rle. unfold u. lra. Qed.

Lemma sum_by_powers : forall t, floats t -> Rabs (computed t - exact t) <= ((1 + u) ^ depth t - 1) * sizes t.
Proof.
  induction t as [x | l IHl r IHr]; intro F; cbn [computed exact sizes depth].
  - replace (x - x) with 0 by ring. rewrite Rabs_R0. simpl. pose proof (Rabs_pos x). lra.
  - destruct F as [Fl Fr]. specialize (IHl Fl). specialize (IHr Fr).
    destruct (sum_error _ _ (computed_float l Fl) (computed_float r Fr)) as [e [E ->]].
    set (k := max (depth l) (depth r)).
    pose proof (grows (depth l) k ltac:(unfold k; lia)) as Gl.
    pose proof (grows (depth r) k ltac:(unfold k; lia)) as Gr.
    pose proof (one_power k) as One. set (w := (1 + u) ^ k) in *.
    pose proof (sizes_pos l). pose proof (sizes_pos r).
    assert (Rabs (computed l - exact l) <= (w - 1) * sizes l).
    { eapply Rle_trans; [exact IHl|]. apply Rmult_le_compat_r; lra. }
    assert (Rabs (computed r - exact r) <= (w - 1) * sizes r).
    { eapply Rle_trans; [exact IHr|]. apply Rmult_le_compat_r; lra. }
    pose proof (exact_sizes l). pose proof (exact_sizes r).
    assert (Rabs (computed l) <= w * sizes l).
    { replace (computed l) with (computed l - exact l + exact l) by ring.
      eapply Rle_trans; [apply Rabs_triang | lra]. }
    assert (Rabs (computed r) <= w * sizes r).
    { replace (computed r) with (computed r - exact r + exact r) by ring.
      eapply Rle_trans; [apply Rabs_triang | lra]. }
    replace ((computed l + computed r) * (1 + e) - (exact l + exact r))
      with ((computed l - exact l) + ((computed r - exact r) + (computed l + computed r) * e)) by ring.
    eapply Rle_trans; [apply Rabs_triang|].
    assert (T : Rabs (computed r - exact r + (computed l + computed r) * e)
      <= Rabs (computed r - exact r) + Rabs ((computed l + computed r) * e)) by apply Rabs_triang.
    rewrite (Rabs_mult (computed l + computed r)) in T.
    assert (Rabs (computed l + computed r) <= w * sizes l + w * sizes r).
    { eapply Rle_trans; [apply Rabs_triang | lra]. }
    assert (Rabs (computed l + computed r) * Rabs e <= (w * sizes l + w * sizes r) * u).
    { apply Rmult_le_compat; try apply Rabs_pos; assumption. }
    change ((1 + u) ^ S k) with ((1 + u) * (1 + u) ^ k). fold w. nra.
Qed.

Lemma power_gamma : forall k, INR k * u < 1 -> (1 + u) ^ k - 1 <= gamma (INR k).
Proof.
  intros k K. unfold gamma.
  assert (P : (1 + u) ^ k * (1 - INR k * u) <= 1).
  { clear K. induction k; [simpl; lra|]. rewrite S_INR. cbn [pow].
    pose proof (one_power k). pose proof (pos_INR k). assert (0 < u) by (unfold u; lra).
    assert ((1 + u) * (1 - (INR k + 1) * u) <= 1 - INR k * u) by nra.
    assert ((1 + u) ^ k * ((1 + u) * (1 - (INR k + 1) * u)) <= (1 + u) ^ k * (1 - INR k * u))
      by (apply Rmult_le_compat_l; lra). lra. }
  apply Rmult_le_reg_r with (1 - INR k * u); [lra|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

(* The entrywise bound that C11 assumes of every entry of a sum. *)
Theorem C11_additions_in_any_order : forall t d, floats t -> (depth t <= d)%nat -> INR d * u < 1 ->
  Rabs (computed t - exact t) <= gamma (INR d) * sizes t.
Proof.
  intros t d F D U. eapply Rle_trans; [apply sum_by_powers; exact F|].
  apply Rmult_le_compat_r; [apply sizes_pos|].
  eapply Rle_trans; [|apply power_gamma; exact U]. pose proof (grows _ _ D). lra.
Qed.

(* With the final division, where the mean is a normal number. *)
Theorem C11_mean_of_additions : forall t d n, floats t -> (S (depth t) <= d)%nat -> INR d * u < 1 -> 0 < n ->
  bpow radix2 (-1022) <= Rabs (computed t / n) ->
  Rabs (fl (computed t / n) - exact t / n) <= gamma (INR d) * sizes t / n.
Proof.
  intros t d n F D U N B. destruct (normal_error _ B) as [e [E ->]].
  pose proof (sum_by_powers t F) as H. pose proof (one_power (depth t)) as One.
  set (w := (1 + u) ^ depth t) in *.
  pose proof (sizes_pos t). pose proof (exact_sizes t).
  assert (C : Rabs (computed t) <= w * sizes t).
  { replace (computed t) with (computed t - exact t + exact t) by ring. eapply Rle_trans; [apply Rabs_triang | lra]. }
  replace (computed t / n * (1 + e) - exact t / n) with ((computed t - exact t + computed t * e) * / n) by (field; lra).
  rewrite Rabs_mult, (Rabs_pos_eq (/ n)) by (apply Rlt_le, Rinv_0_lt_compat, N).
  unfold Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, N|].
  apply Rle_trans with (((1 + u) ^ S (depth t) - 1) * sizes t).
  - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
    assert (Rabs (computed t) * Rabs e <= w * sizes t * u) by (apply Rmult_le_compat; try apply Rabs_pos; assumption).
    cbn [pow]. fold w. lra.
  - apply Rmult_le_compat_r; [assumption|]. eapply Rle_trans; [|apply power_gamma; exact U].
    pose proof (grows _ _ D). lra.
Qed.

(* ---- C94: rows whose lengths were kept ---- *)
Lemma gamma_times : forall c k, 1 <= c -> 0 <= k -> c * k * u < 1 -> c * gamma k <= gamma (c * k).
Proof.
  intros c k C K U. unfold gamma. assert (0 < u) by (unfold u; lra).
  assert (k * u <= c * k * u) by (apply Rmult_le_compat_r; nra).
  unfold Rdiv. rewrite <- Rmult_assoc. replace (c * (k * u)) with (c * k * u) by ring.
  apply Rmult_le_compat_l; [apply Rmult_le_pos; nra|]. apply Rinv_le_contravar; lra.
Qed.

Lemma gamma_plus : forall i j, 0 <= i -> 0 <= j -> (i + j) * u < 1 -> gamma i + gamma j <= gamma (i + j).
Proof.
  intros i j I J U. unfold gamma. assert (0 < u) by (unfold u; lra).
  assert (0 <= i * u) by nra. assert (0 <= j * u) by nra.
  replace ((i + j) * u / (1 - (i + j) * u)) with (i * u * / (1 - (i + j) * u) + j * u * / (1 - (i + j) * u)) by (field; lra).
  unfold Rdiv.
  apply Rplus_le_compat; (apply Rmult_le_compat_l; [assumption | apply Rinv_le_contravar; lra]).
Qed.

Lemma gamma_more : forall i j, 0 <= i <= j -> j * u < 1 -> gamma i <= gamma j.
Proof.
  intros i j I J. unfold gamma, Rdiv. assert (0 < u) by (unfold u; lra).
  assert (i * u <= j * u) by nra. assert (0 <= i * u) by nra.
  apply Rmult_le_compat; try lra; [apply Rlt_le, Rinv_0_lt_compat; lra | apply Rinv_le_contravar; lra].
Qed.

(* The error of a mapped sum, in units of its bound: of the sum, of two products with the map, and of the
   mean of both triangles; k is the condition of the map, c at least p sqrt(p), e that of one triangle. *)
Theorem C94_depth : forall k d p c, 1 <= k -> 0 <= d -> 1 <= p -> p * sqrt p <= c ->
  k * k * (d + 2 * c + 4) * u < 1 ->
  k * k * gamma d + 2 * (k * k * sqrt p * gamma p) + gamma 4 <= gamma (k * k * (d + 2 * c + 4)).
Proof.
  intros k d p c K D P C U.
  assert (U0 : 0 < u) by (unfold u; lra).
  assert (KK : 1 <= k * k) by nra.
  assert (SP : 1 <= sqrt p) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; exact P).
  set (K2 := k * k) in *. set (s := sqrt p) in *.
  assert (PS : 0 <= p * s) by nra.
  assert (C0 : 0 <= c) by lra.
  assert (A : K2 * d <= K2 * (d + 2 * c + 4)) by (apply Rmult_le_compat_l; lra).
  assert (B : K2 * (p * s) <= K2 * c) by (apply Rmult_le_compat_l; lra).
  assert (T : 0 <= K2 * d) by nra. assert (T' : 0 <= K2 * c) by nra. assert (T4 : 4 <= K2 * 4) by lra.
  assert (Whole : (K2 * d + (K2 * (p * s) + (K2 * (p * s) + 4))) * u < 1).
  { eapply Rle_lt_trans; [|exact U]. apply Rmult_le_compat_r; [lra|]. lra. }
  assert (0 <= K2 * (p * s)) by nra.
  assert (G1 : K2 * gamma d <= gamma (K2 * d)) by (apply gamma_times; try lra; eapply Rle_lt_trans; [|exact Whole]; apply Rmult_le_compat_r; lra).
  assert (G2 : K2 * s * gamma p <= gamma (K2 * s * p)).
  { apply gamma_times; [nra | lra |]. eapply Rle_lt_trans; [|exact Whole]. apply Rmult_le_compat_r; [lra|].
    replace (K2 * s * p) with (K2 * (p * s)) by ring. lra. }
  replace (K2 * s * p) with (K2 * (p * s)) in G2 by ring.
  assert (P1 : gamma (K2 * (p * s)) + gamma 4 <= gamma (K2 * (p * s) + 4)).
  { apply gamma_plus; try lra. eapply Rle_lt_trans; [|exact Whole]. apply Rmult_le_compat_r; lra. }
  assert (P2 : gamma (K2 * (p * s)) + gamma (K2 * (p * s) + 4) <= gamma (K2 * (p * s) + (K2 * (p * s) + 4))).
  { apply gamma_plus; try lra. eapply Rle_lt_trans; [|exact Whole]. apply Rmult_le_compat_r; lra. }
  assert (P3 : gamma (K2 * d) + gamma (K2 * (p * s) + (K2 * (p * s) + 4))
    <= gamma (K2 * d + (K2 * (p * s) + (K2 * (p * s) + 4)))) by (apply gamma_plus; lra).
  assert (P4 : gamma (K2 * d + (K2 * (p * s) + (K2 * (p * s) + 4))) <= gamma (K2 * (d + 2 * c + 4))).
  { apply gamma_more; [split|]; lra. }
  lra.
Qed.

(* A kept length, as computed, is at least that of the row under the exact map: the margin KEPT_LENGTH covers
   the errors of the mapped row, of its square, of the root and of three more roundings. *)
Theorem C94_length : forall L a square kept, 0 <= L -> L * (1 - / 2 ^ 25) <= a -> a * a * (1 - / 2 ^ 35) <= square ->
  sqrt (square * (1 + KEPT_LENGTH)) * (1 - 4 * u) <= kept -> L <= kept * (1 - 8 * u).
Proof.
  intros L a q m L0 A Q M.
  assert (A0 : 0 <= L * (1 - / 2 ^ 25)) by (apply Rmult_le_pos; lra).
  assert (AA : L * (1 - / 2 ^ 25) * (L * (1 - / 2 ^ 25)) <= a * a) by (apply Rmult_le_compat; assumption).
  assert (LL : 0 <= L * L) by nra.
  assert (S1 : L * (1 + / 2 ^ 45) <= sqrt (q * (1 + KEPT_LENGTH))).
  { rewrite <- (sqrt_square (L * (1 + / 2 ^ 45))) by (apply Rmult_le_pos; lra). apply sqrt_le_1_alt.
    assert (a * a * (1 - / 2 ^ 35) * (1 + KEPT_LENGTH) <= q * (1 + KEPT_LENGTH))
      by (apply Rmult_le_compat_r; [unfold KEPT_LENGTH; lra | exact Q]).
    assert (L * L * ((1 - / 2 ^ 25) * (1 - / 2 ^ 25)) * ((1 - / 2 ^ 35) * (1 + KEPT_LENGTH)) <= a * a * ((1 - / 2 ^ 35) * (1 + KEPT_LENGTH))).
    { apply Rmult_le_compat_r; [unfold KEPT_LENGTH; lra | lra]. }
    assert ((1 + / 2 ^ 45) * (1 + / 2 ^ 45) <= (1 - / 2 ^ 25) * (1 - / 2 ^ 25) * ((1 - / 2 ^ 35) * (1 + KEPT_LENGTH)))
      by (unfold KEPT_LENGTH; lra).
    assert (L * L * ((1 + / 2 ^ 45) * (1 + / 2 ^ 45)) <= L * L * ((1 - / 2 ^ 25) * (1 - / 2 ^ 25) * ((1 - / 2 ^ 35) * (1 + KEPT_LENGTH))))
      by (apply Rmult_le_compat_l; assumption).
    lra. }
  apply Rle_trans with (L * (1 + / 2 ^ 45) * (1 - 4 * u) * (1 - 8 * u)).
  - assert (1 <= (1 + / 2 ^ 45) * (1 - 4 * u) * (1 - 8 * u)) by (unfold u; lra).
    assert (L * 1 <= L * ((1 + / 2 ^ 45) * (1 - 4 * u) * (1 - 8 * u))) by (apply Rmult_le_compat_l; assumption). lra.
  - apply Rmult_le_compat_r; [unfold u; lra|].
    assert (L * (1 + / 2 ^ 45) * (1 - 4 * u) <= sqrt (q * (1 + KEPT_LENGTH)) * (1 - 4 * u))
      by (apply Rmult_le_compat_r; [unfold u; lra | exact S1]). lra.
Qed.

(* ---- C86: the scale of Gaussian noise, as computed ---- *)
Definition computed_scale (D mu : R) := fl (fl (D / fl (mu - GRID_COST)) * (1 + ROUNDING_FORMULA)).

Lemma relative : forall e, Rabs e <= u -> 1 - u <= 1 + e <= 1 + u.
Proof. intros e E. unfold Rabs in E. destruct (Rcase_abs e); lra. Qed.

(* What the noise costs, D / scale, and the grid beside it, are at most (1 - 6 u) mu. *)
Theorem C86_computed_scale : forall D mu grid, float mu -> float GRID_COST -> GRID_COST < mu -> 0 < D ->
  bpow radix2 (-1021) <= D / (mu - GRID_COST) ->
  0 <= grid -> grid * (1 + / 2 ^ 41) <= GRID_COST ->
  D / computed_scale D mu + grid <= (1 - 6 * u) * mu.
Proof.
  intros D mu grid Fm Fg G D0 Normal G0 Grid. unfold computed_scale.
  assert (Fg' : float (- GRID_COST)) by (apply generic_format_opp; exact Fg).
  destruct (sum_error mu (- GRID_COST) Fm Fg') as [e [E E']].
  change (mu + - GRID_COST) with (mu - GRID_COST) in E'. rewrite E'.
  set (m := mu - GRID_COST) in *. assert (M : 0 < m) by (unfold m; lra).
  pose proof (relative e E) as R1. assert (U : u = / 2 ^ 53) by (unfold u; lra).
  assert (Q0 : 0 < m * (1 + e)) by (apply Rmult_lt_0_compat; lra).
  assert (I1 : / (1 + e) >= / 2).
  { apply Rle_ge, Rinv_le_contravar; lra. }
  assert (Half : bpow radix2 (-1022) * 2 = bpow radix2 (-1021)) by (rewrite (bpow_plus radix2 (-1022) 1 : bpow radix2 (-1021) = _); reflexivity).
  assert (Q1 : bpow radix2 (-1022) <= D / (m * (1 + e))).
  { replace (D / (m * (1 + e))) with (D / m * / (1 + e)) by (field; lra).
    pose proof (bpow_gt_0 radix2 (-1022)).
    assert (D / m * / 2 <= D / m * / (1 + e)) by (apply Rmult_le_compat_l; lra). lra. }
  destruct (normal_error (D / (m * (1 + e)))) as [e2 [E2 ->]].
  { rewrite Rabs_pos_eq; [exact Q1|]. pose proof (bpow_gt_0 radix2 (-1022)). lra. }
  pose proof (relative e2 E2) as R2.
  set (x := D / (m * (1 + e)) * (1 + e2) * (1 + ROUNDING_FORMULA)).
  assert (X0 : D / (m * (1 + e)) <= x).
  { unfold x. rewrite <- (Rmult_1_r (D / (m * (1 + e)))) at 1. rewrite Rmult_assoc.
    apply Rmult_le_compat_l; [pose proof (bpow_gt_0 radix2 (-1022)); lra|].
    unfold ROUNDING_FORMULA. nra. }
  destruct (normal_error x) as [e3 [E3 ->]].
  { rewrite Rabs_pos_eq; [lra|]. pose proof (bpow_gt_0 radix2 (-1022)). lra. }
  pose proof (relative e3 E3) as R3.
  assert (Cost : D / (x * (1 + e3)) <= (1 - 28 * u) * m).
  { unfold x.
    replace (D / (D / (m * (1 + e)) * (1 + e2) * (1 + ROUNDING_FORMULA) * (1 + e3)))
      with (m * ((1 + e) / ((1 + e2) * (1 + ROUNDING_FORMULA) * (1 + e3)))).
    2: { unfold ROUNDING_FORMULA. field. repeat split; lra. }
    rewrite (Rmult_comm (1 - 28 * u)). apply Rmult_le_compat_l; [lra|].
    set (y := (1 + e2) * (1 + ROUNDING_FORMULA) * (1 + e3)).
    assert (Y : (1 - u) * (1 + 32 * u) * (1 - u) <= y).
    { unfold y. replace (1 + ROUNDING_FORMULA) with (1 + 32 * u) by (unfold ROUNDING_FORMULA; lra).
      apply Rmult_le_compat; try (rewrite U; lra); try lra. }
    assert (Y0 : 0 < y) by (eapply Rlt_le_trans; [|exact Y]; rewrite U; lra).
    apply Rmult_le_reg_r with y; [exact Y0|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    apply Rle_trans with ((1 - 28 * u) * ((1 - u) * (1 + 32 * u) * (1 - u))).
    - rewrite U in *. lra.
    - apply Rmult_le_compat_l; [rewrite U; lra | exact Y]. }
  assert (GC : grid <= GRID_COST * (1 - 28 * u)).
  { apply Rmult_le_reg_r with (1 + / 2 ^ 41); [lra|].
    apply Rle_trans with GRID_COST; [exact Grid|].
    assert (0 < GRID_COST) by (unfold GRID_COST; lra).
    rewrite <- (Rmult_1_r GRID_COST) at 1. rewrite Rmult_assoc. apply Rmult_le_compat_l; [lra|]. rewrite U. lra. }
  assert (D / (x * (1 + e3)) + grid <= (1 - 28 * u) * mu) by (unfold m in Cost; lra).
  assert (0 < GRID_COST) by (unfold GRID_COST; lra).
  assert ((1 - 28 * u) * mu <= (1 - 6 * u) * mu) by (apply Rmult_le_compat_r; [lra | rewrite U; lra]). lra.
Qed.

(* The premises about GRID_COST hold: it is a float, and exceeds the grid's cost by 2^-41 of it. *)
Theorem C86_grid_cost : float GRID_COST /\ sqrt 3 * (1 / 2 ^ 20) * (1 + 1 / 2 ^ 52) * (1 + / 2 ^ 41) <= GRID_COST.
Proof.
  split.
  - apply generic_format_FLT. exists (Float radix2 243764480361283 (-67)).
    + unfold F2R, GRID_COST. simpl. lra.
    + simpl. lia.
    + simpl. lia.
  - assert (sqrt 3 <= 17320508075688773 / 10 ^ 16).
    { rewrite <- (sqrt_square (17320508075688773 / 10 ^ 16)) by lra. apply sqrt_le_1_alt. lra. }
    unfold GRID_COST. lra.
Qed.

(* ---- C16: rounding to the grid ---- *)
Lemma clamp_is_lipschitz : forall c x y, 0 <= c -> Rabs (Rmax (- c) (Rmin c x) - Rmax (- c) (Rmin c y)) <= Rabs (x - y).
Proof.
  intros c x y C. unfold Rmax, Rmin, Rabs.
  destruct (Rle_dec c x), (Rle_dec c y);
    repeat match goal with |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b) end;
    repeat match goal with |- context [Rcase_abs ?a] => destruct (Rcase_abs a) end; lra.
Qed.

(* Integers near v / g move by what the values move, and by sqrt(d) steps more. *)
Theorem C16_grid : forall d (v w m k : vector (Rd d)) g e, 0 < g -> 0 <= e ->
  (forall j, (j < d)%nat -> Rabs (m j - v j / g) <= e) -> (forall j, (j < d)%nat -> Rabs (k j - w j / g) <= e) ->
  norm (sub m k) <= norm (sub v w) / g + 2 * e * sqrt (INR d).
Proof.
  intros d v w m k g e G E M K.
  set (slack := (fun j => (m j - v j / g) - (k j - w j / g)) : vector (Rd d)).
  assert (S : norm slack <= 2 * e * sqrt (INR d)).
  { apply Rle_trans with (norm ((fun _ => 2 * e) : vector (Rd d))).
    - apply norm_monotone. intros j J. unfold slack. specialize (M j J). specialize (K j J).
      unfold Rabs in *. destruct (Rcase_abs (m j - v j / g)), (Rcase_abs (k j - w j / g)),
        (Rcase_abs (m j - v j / g - (k j - w j / g))); lra.
    - unfold norm, norm2. simpl. unfold dot. rewrite sum_const.
      replace (INR d * (2 * e * (2 * e))) with ((2 * e) * (2 * e) * INR d) by ring.
      rewrite sqrt_mult_alt by nra. rewrite sqrt_square by lra. right. ring. }
  rewrite (same_norm (sub m k) (add (scale (/ g) (sub v w)) slack)).
  - eapply Rle_trans; [apply triangle|]. rewrite norm_scale, (Rabs_pos_eq (/ g)) by (apply Rlt_le, Rinv_0_lt_compat, G).
    unfold Rdiv. lra.
  - intro z. simpl. unfold dot. apply sum_ext. intros j J. unfold slack. simpl. field. lra.
Qed.
