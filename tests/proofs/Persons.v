(* Weights and persons: tables of weighted cells (T9 to T11), resamples (C96), rows of persons (C104). *)
Require Import Reals Lra Psatz Lia List.
From dpfast Require Import Meaning Vectors Formulas Sums Cells Composition Losses Ledger.
Open Scope R_scope.

(* A factor is rounded down: its square is at most what the root was taken of. *)
Lemma square_down : forall x, 0 <= x -> (sqrt x * DOWN) ^ 2 <= x.
Proof.
  intros x P. assert (S : sqrt x * sqrt x = x) by (apply sqrt_sqrt; exact P).
  replace ((sqrt x * DOWN) ^ 2) with (sqrt x * sqrt x * DOWN ^ 2) by ring. rewrite S. unfold DOWN. nra.
Qed.

Lemma abs_between : forall x a, Rabs x <= a -> - a <= x <= a.
Proof. intros x a H. pose proof (Rle_abs x). pose proof (Rle_abs (- x)). rewrite Rabs_Ropp in *. lra. Qed.

(* ---- T9: shares of a person ---- *)
Section Shares.
(* A person's sums of shares and of shares times values in one cell, before and after. *)
Variables w w' : R.
Hypothesis shares : 0 <= w <= 1.
Hypothesis shares' : 0 <= w' <= 1.
Let W := w + w'.
Let D := w ^ 2 - w' ^ 2.

Lemma change_below : (w - w') ^ 2 <= W.
Proof. unfold W. nra. Qed.

Lemma squares_below : D ^ 2 <= W.
Proof.
  unfold D, W. assert (A : -1 <= w - w' <= 1) by lra.
  replace ((w ^ 2 - w' ^ 2) ^ 2) with ((w - w') ^ 2 * (w + w') * (w + w')) by ring.
  assert (0 <= (w - w') ^ 2 * (w + w') <= 1).
  { split; [apply Rmult_le_pos; [apply pow2_ge_0 | lra]|].
    destruct (Rle_or_lt w' w).
    - replace ((w - w') ^ 2 * (w + w')) with ((w - w') * (w ^ 2 - w' ^ 2)) by ring. nra.
    - replace ((w - w') ^ 2 * (w + w')) with ((w' - w) * (w' ^ 2 - w ^ 2)) by ring. nra. }
  nra.
Qed.

Lemma products_below : forall s s', Rabs s <= w -> Rabs s' <= w' -> (s * w - s' * w') ^ 2 <= 2 * W.
Proof.
  intros s s' S S'. apply abs_between in S. apply abs_between in S'.
  assert (B : - W <= s * w - s' * w' <= W) by (unfold W; split; nra).
  assert (0 <= W <= 2) by (unfold W; lra). nra.
Qed.

End Shares.

(* One of both is as large as its share: the other one at its own is the worst. *)
Lemma at_its_share : forall A2 w w' y, 0 <= A2 <= 2 -> 0 <= w <= 1 -> 0 <= w' <= 1 -> 0 <= y <= w' ->
  (w + y) ^ 2 + A2 * (1 / 4 * (w ^ 2 - w' ^ 2) + (w' ^ 2 - y ^ 2)) ^ 2
    <= (w + w') ^ 2 + A2 * (1 / 4 * (w ^ 2 - w' ^ 2)) ^ 2.
Proof.
  intros A2 w w' y A P Q Y.
  set (x := w' ^ 2 - y ^ 2). set (d := w ^ 2 - w' ^ 2).
  assert (X : 0 <= x) by (unfold x; nra).
  assert (F : (w' + y) * (w ^ 2 + w' ^ 2 - 2 * y ^ 2) <= 2 * w + y + w').
  { assert (W2 : w ^ 2 <= w) by nra. assert (W3 : w' ^ 2 <= w') by nra. assert (Y2 : 0 <= y ^ 2) by apply pow2_ge_0.
    assert (U : w' + y <= 2 * w') by lra.
    destruct (Rle_or_lt w' w).
    - assert ((w' + y) * w ^ 2 <= (w' + y) * 1) by (apply Rmult_le_compat_l; lra).
      assert ((w' + y) * (w' ^ 2 - 2 * y ^ 2) <= 2 * w).
      { destruct (Rle_or_lt (w' ^ 2 - 2 * y ^ 2) 0) as [N | N].
        - apply Rle_trans with 0; [|lra]. rewrite <- (Rmult_0_r (w' + y)). apply Rmult_le_compat_l; lra.
        - apply Rle_trans with (2 * w' * 1); [|lra]. apply Rmult_le_compat; lra. }
      replace (w ^ 2 + w' ^ 2 - 2 * y ^ 2) with (w ^ 2 + (w' ^ 2 - 2 * y ^ 2)) by ring.
      rewrite Rmult_plus_distr_l. lra.
    - assert ((w' + y) * (w ^ 2 + (w' ^ 2 - 1) - 2 * y ^ 2) <= 2 * w).
      { destruct (Rle_or_lt (w ^ 2 + (w' ^ 2 - 1) - 2 * y ^ 2) 0) as [N | N].
        - apply Rle_trans with 0; [|lra]. rewrite <- (Rmult_0_r (w' + y)). apply Rmult_le_compat_l; lra.
        - apply Rle_trans with (2 * 1 * w); [|lra]. apply Rmult_le_compat; lra. }
      replace (w ^ 2 + w' ^ 2 - 2 * y ^ 2) with (w ^ 2 + (w' ^ 2 - 1) - 2 * y ^ 2 + 1) by ring.
      rewrite (Rmult_plus_distr_l (w' + y) _ 1). lra. }
  assert (G : A2 * ((w' + y) * (1 / 2 * d + x)) <= 2 * w + y + w').
  { replace (w ^ 2 + w' ^ 2 - 2 * y ^ 2) with (2 * (1 / 2 * d + x)) in F by (unfold d, x; field).
    set (m := (w' + y) * (1 / 2 * d + x)) in *.
    replace ((w' + y) * (2 * (1 / 2 * d + x))) with (2 * m) in F by (unfold m; ring).
    destruct (Rle_or_lt m 0) as [N | N].
    - apply Rle_trans with 0; [|lra]. rewrite <- (Rmult_0_r A2). apply Rmult_le_compat_l; lra.
    - apply Rle_trans with (2 * m); [apply Rmult_le_compat_r; lra | exact F]. }
  assert (E : x = (w' - y) * (w' + y)) by (unfold x; ring).
  replace ((w + w') ^ 2) with ((w + y) ^ 2 + (w' - y) * (2 * w + y + w')) by ring.
  replace ((1 / 4 * d + x) ^ 2) with ((1 / 4 * d) ^ 2 + (w' - y) * ((w' + y) * (1 / 2 * d + x)))
    by (rewrite E; field).
  assert ((w' - y) * (A2 * ((w' + y) * (1 / 2 * d + x))) <= (w' - y) * (2 * w + y + w'))
    by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

(* (b), step 3: a column's sum and its square. *)
Lemma sum_and_square : forall A2 w w' s s', 0 <= A2 <= 2 -> 0 <= w <= 1 -> 0 <= w' <= 1 ->
  Rabs s <= w -> Rabs s' <= w' ->
  (s - s') ^ 2 + A2 * (s ^ 2 - s' ^ 2 - 3 / 4 * (w ^ 2 - w' ^ 2)) ^ 2
    <= (w + w') ^ 2 + A2 * (1 / 4 * (w ^ 2 - w' ^ 2)) ^ 2.
Proof.
  (* of both signs: one of y, y' reaches its share first *)
  assert (half : forall A2 w w' y y', 0 <= A2 <= 2 -> 0 <= w <= 1 -> 0 <= w' <= 1 -> 0 <= y <= w -> 0 <= y' <= w' ->
    w ^ 2 - y ^ 2 <= w' ^ 2 - y' ^ 2 ->
    (y + y') ^ 2 + A2 * (y ^ 2 - y' ^ 2 - 3 / 4 * (w ^ 2 - w' ^ 2)) ^ 2
      <= (w + w') ^ 2 + A2 * (1 / 4 * (w ^ 2 - w' ^ 2)) ^ 2).
  { intros A2 w w' y y' A P Q Y Y' First.
    set (z2 := y' ^ 2 + (w ^ 2 - y ^ 2)). set (z := sqrt z2).
    assert (Z2 : 0 <= z2) by (unfold z2; nra).
    assert (Z : z * z = z2) by (apply sqrt_sqrt; exact Z2).
    assert (ZP : 0 <= z) by apply sqrt_pos.
    assert (y' <= z) by (unfold z2 in Z; nra). assert (z <= w') by (unfold z2 in Z; nra).
    pose proof (at_its_share A2 w w' z A P Q ltac:(lra)) as K.
    replace (1 / 4 * (w ^ 2 - w' ^ 2) + (w' ^ 2 - z ^ 2)) with (y ^ 2 - y' ^ 2 - 3 / 4 * (w ^ 2 - w' ^ 2)) in K.
    - assert ((y + y') ^ 2 <= (w + z) ^ 2) by nra. lra.
    - replace (z ^ 2) with (z * z) by ring. rewrite Z. unfold z2. field. }
  assert (both : forall A2 w w' y y', 0 <= A2 <= 2 -> 0 <= w <= 1 -> 0 <= w' <= 1 -> 0 <= y <= w -> 0 <= y' <= w' ->
    (y + y') ^ 2 + A2 * (y ^ 2 - y' ^ 2 - 3 / 4 * (w ^ 2 - w' ^ 2)) ^ 2
      <= (w + w') ^ 2 + A2 * (1 / 4 * (w ^ 2 - w' ^ 2)) ^ 2).
  { intros A2 w w' y y' A P Q Y Y'. destruct (Rle_or_lt (w ^ 2 - y ^ 2) (w' ^ 2 - y' ^ 2)) as [L | G].
    - apply half; assumption.
    - pose proof (half A2 w' w y' y A Q P Y' Y ltac:(lra)) as K.
      replace ((y ^ 2 - y' ^ 2 - 3 / 4 * (w ^ 2 - w' ^ 2)) ^ 2)
        with ((y' ^ 2 - y ^ 2 - 3 / 4 * (w' ^ 2 - w ^ 2)) ^ 2) by ring.
      replace ((1 / 4 * (w ^ 2 - w' ^ 2)) ^ 2) with ((1 / 4 * (w' ^ 2 - w ^ 2)) ^ 2) by ring.
      replace (y + y') with (y' + y) by ring. replace (w + w') with (w' + w) by ring. exact K. }
  intros A2 w w' s s' A P Q S S'.
  pose proof (both A2 w w' (Rabs s) (Rabs s') A P Q
    (conj (Rabs_pos s) S) (conj (Rabs_pos s') S')) as K.
  assert (E : forall u, Rabs u ^ 2 = u ^ 2) by (intro u; rewrite <- !Rsqr_pow2; symmetry; apply Rsqr_abs).
  rewrite !E in K.
  assert ((s - s') ^ 2 <= (Rabs s + Rabs s') ^ 2); [|lra].
  rewrite <- (E (s - s')). pose proof (Rabs_triang s (- s')) as T. rewrite Rabs_Ropp in T.
  unfold Rminus. pose proof (Rabs_pos (s + - s')). nra.
Qed.

(* What the person adds to K cells. *)
Section Tables.
Variable K : nat.

Definition shares (w : nat -> R) := (forall k, 0 <= w k) /\ sum K w <= 1.

Lemma share_below_one : forall w, shares w -> forall k, (k < K)%nat -> 0 <= w k <= 1.
Proof.
  intros w [P S] k L. split; [apply P|]. apply Rle_trans with (sum K w); [|exact S].
  clear S. induction K as [|m IH]; [lia|]. simpl. assert (0 <= sum m w) by (apply sum_pos; auto).
  destruct (Nat.eq_dec k m) as [-> | N]; [lra|]. specialize (IH ltac:(lia)). pose proof (P m). lra.
Qed.

(* (a) Counts, and d times squares of weights. *)
Definition weighted_count (w : nat -> R) : vector (Parts K (Pair Line Line)) :=
  fun k => (w k, count_square_factor * w k ^ 2).

Theorem T9_weighted_counts : forall w w' n, shares w -> shares w' -> 0 <= n ->
  (norm (sub (weighted_count w) (weighted_count w')) + 32 * n * UNIT_ROUNDOFF) * UP <= weighted_cell_counts n.
Proof.
  intros w w' n S S' N. unfold weighted_cell_counts. pose proof up. apply Rmult_le_compat_r; [lra|].
  apply Rplus_le_compat_r. unfold norm. apply sqrt_le_1_alt.
  rewrite norm2_parts. apply Rle_trans with (sum K (fun k => (1 + COUNT_SQUARE) * (w k + w' k))).
  - apply sum_le. intros k L. rewrite norm2_pair. cbn [weighted_count fst snd]. rewrite !norm2_line.
    pose proof (share_below_one w S k L) as P. pose proof (share_below_one w' S' k L) as P'.
    pose proof (change_below _ _ P P'). pose proof (squares_below _ _ P P').
    pose proof (square_down COUNT_SQUARE ltac:(unfold COUNT_SQUARE; lra)) as Q. fold count_square_factor in Q.
    pose proof (pow2_ge_0 (w k ^ 2 - w' k ^ 2)). pose proof (pow2_ge_0 count_square_factor).
    replace ((count_square_factor * w k ^ 2 - count_square_factor * w' k ^ 2) * _)
      with (count_square_factor ^ 2 * (w k ^ 2 - w' k ^ 2) ^ 2) by ring.
    assert (count_square_factor ^ 2 * (w k ^ 2 - w' k ^ 2) ^ 2 <= COUNT_SQUARE * (w k + w' k)).
    { apply Rmult_le_compat; assumption. }
    lra.
  - rewrite sum_scale, sum_add. destruct S as [_ S], S' as [_ S']. unfold COUNT_SQUARE in *. nra.
Qed.

(* (b) Sums, squares and products of q columns, with counts and squares of weights. *)
Variable q : nat.
Hypothesis columns : (1 <= q)%nat.

Definition factors := weighted_factors (INR q).
Definition weighted_sums (w : nat -> R) (s : nat -> nat -> R) :
    vector (Parts K (Pair (Pair (Rd q) (Rd q)) (Pair (Rd q) (Pair Line Line)))) :=
  let '(product, square, count) := factors in
  fun k => ((s k, fun j => TABLES_SQUARE_WEIGHT * (s k j ^ 2 - SQUARE_AT * w k ^ 2)),
            (fun j => product * (s k j * w k), (count * w k, square * w k ^ 2))).

Theorem T9_weighted_moments : forall w w' s s' n, shares w -> shares w' -> 0 <= n ->
  (forall k j, Rabs (s k j) <= w k) -> (forall k j, Rabs (s' k j) <= w' k) ->
  (norm (sub (weighted_sums w s) (weighted_sums w' s')) + 32 * n * UNIT_ROUNDOFF * sqrt (INR q)) * UP
    <= weighted_cell_moments (INR q) n.
Proof.
  intros w w' s s' n S S' N B B'. unfold weighted_cell_moments. pose proof up. apply Rmult_le_compat_r; [lra|].
  assert (Q1 : 1 <= INR q) by (apply (le_INR 1); exact columns).
  rewrite Rmult_plus_distr_l, (Rmult_comm (sqrt (INR q)) (32 * n * UNIT_ROUNDOFF)). apply Rplus_le_compat_r.
  apply Rle_trans with (sqrt (4 * INR q * (1 + PRODUCT))).
  2: { replace (4 * INR q * (1 + PRODUCT)) with (INR q * ((2 * 2) * (1 + PRODUCT))) by ring.
       rewrite sqrt_mult_alt by lra. apply Rmult_le_compat_l; [apply sqrt_pos|].
       rewrite sqrt_mult_alt by lra. rewrite sqrt_square by lra. lra. }
  unfold norm. apply sqrt_le_1_alt. rewrite norm2_parts.
  apply Rle_trans with (sum K (fun k => 2 * INR q * (1 + PRODUCT) * (w k + w' k))).
  2: { rewrite sum_scale, sum_add. destruct S as [_ S], S' as [_ S']. unfold PRODUCT. nra. }
  apply sum_le. intros k L.
  pose proof (share_below_one w S k L) as P. pose proof (share_below_one w' S' k L) as P'.
  unfold weighted_sums, factors, weighted_factors. cbv zeta.
  set (product := sqrt PRODUCT * DOWN). set (square := sqrt (WEIGHT_SQUARE * INR q) * DOWN).
  set (count := sqrt (WEIGHTED_COUNT * INR q) * DOWN).
  assert (F1 : product ^ 2 <= PRODUCT) by (apply square_down; unfold PRODUCT; lra).
  assert (F2 : square ^ 2 <= WEIGHT_SQUARE * INR q) by (apply square_down; unfold WEIGHT_SQUARE; lra).
  assert (F3 : count ^ 2 <= WEIGHTED_COUNT * INR q) by (apply square_down; unfold WEIGHTED_COUNT; lra).
  rewrite !norm2_pair. cbn [fst snd]. rewrite !norm2_Rd, !norm2_line.
  set (W := w k + w' k) in *. set (D := w k ^ 2 - w' k ^ 2).
  assert (WP : 0 <= W <= 2) by (unfold W; lra).
  pose proof (squares_below _ _ P P') as D2. fold W D in D2.
  (* e W bounds both e^2 and (e W)^2 *)
  set (eW := Rabs D).
  assert (E1 : eW ^ 2 = D ^ 2) by (unfold eW; rewrite <- !Rsqr_pow2; symmetry; apply Rsqr_abs).
  assert (E2 : D ^ 2 <= eW /\ (w k - w' k) ^ 2 <= eW /\ W * W + eW <= 2 * W).
  { assert (side : forall u v, 0 <= v <= u -> u <= 1 ->
      (u ^ 2 - v ^ 2) ^ 2 <= u ^ 2 - v ^ 2 /\ (u - v) ^ 2 <= u ^ 2 - v ^ 2 /\ (u + v) * (u + v) + (u ^ 2 - v ^ 2) <= 2 * (u + v)).
    { intros u v V U. assert (0 <= u ^ 2 - v ^ 2 <= 1) by nra. repeat split; nra. }
    unfold eW, D, W, Rabs. destruct (Rcase_abs (w k ^ 2 - w' k ^ 2)) as [G | G].
    - destruct (side (w' k) (w k) ltac:(nra) ltac:(lra)) as [X [Y Z]]. repeat split; lra.
    - destruct (side (w k) (w' k) ltac:(nra) ltac:(lra)) as [X [Y Z]]. repeat split; lra. }
  destruct E2 as [E2 [E3 E4]].
  set (A2 := TABLES_SQUARE_WEIGHT ^ 2). assert (A : 0 <= A2 <= 2) by (unfold A2, TABLES_SQUARE_WEIGHT; lra).
  assert (One : forall j, (s k j - s' k j) * (s k j - s' k j)
    + (TABLES_SQUARE_WEIGHT * (s k j ^ 2 - SQUARE_AT * w k ^ 2) - TABLES_SQUARE_WEIGHT * (s' k j ^ 2 - SQUARE_AT * w' k ^ 2))
    * (TABLES_SQUARE_WEIGHT * (s k j ^ 2 - SQUARE_AT * w k ^ 2) - TABLES_SQUARE_WEIGHT * (s' k j ^ 2 - SQUARE_AT * w' k ^ 2))
    <= W ^ 2 + A2 * (1 / 4 * D) ^ 2).
  { intro j. pose proof (sum_and_square A2 (w k) (w' k) (s k j) (s' k j) A P P' (B k j) (B' k j)) as H0.
    fold W D in H0. eapply Rle_trans; [right | exact H0]. unfold A2, SQUARE_AT, D. field. }
  assert (Two : forall j, (product * (s k j * w k) - product * (s' k j * w' k)) * (product * (s k j * w k) - product * (s' k j * w' k))
    <= PRODUCT * (2 * W)).
  { intro j. pose proof (products_below _ _ P P' _ _ (B k j) (B' k j)) as H0. fold W in H0.
    replace ((product * (s k j * w k) - product * (s' k j * w' k)) * _)
      with (product ^ 2 * (s k j * w k - s' k j * w' k) ^ 2) by ring.
    apply Rmult_le_compat; [apply pow2_ge_0 | apply pow2_ge_0 | exact F1 | exact H0]. }
  pose proof (sum_le q _ (fun _ => W ^ 2 + A2 * (1 / 4 * D) ^ 2) (fun j _ => One j)) as L1.
  rewrite sum_add, sum_const in L1.
  pose proof (sum_le q _ (fun _ => PRODUCT * (2 * W)) (fun j _ => Two j)) as L2. rewrite sum_const in L2.
  replace ((count * w k - count * w' k) * (count * w k - count * w' k)) with (count ^ 2 * (w k - w' k) ^ 2) by ring.
  replace ((square * w k ^ 2 - square * w' k ^ 2) * (square * w k ^ 2 - square * w' k ^ 2)) with (square ^ 2 * D ^ 2)
    by (unfold D; ring).
  assert (count ^ 2 * (w k - w' k) ^ 2 <= WEIGHTED_COUNT * INR q * eW)
    by (apply Rmult_le_compat; try apply pow2_ge_0; assumption).
  assert (square ^ 2 * D ^ 2 <= WEIGHT_SQUARE * INR q * eW)
    by (apply Rmult_le_compat; try apply pow2_ge_0; assumption).
  assert (A2 * (1 / 4 * D) ^ 2 <= 1 / 8 * eW).
  { replace (A2 * (1 / 4 * D) ^ 2) with (A2 / 16 * D ^ 2) by field. apply Rmult_le_compat; try apply pow2_ge_0; lra. }
  assert (INR q * (W ^ 2 + A2 * (1 / 4 * D) ^ 2) <= INR q * (W ^ 2 + 1 / 8 * eW)) by (apply Rmult_le_compat_l; lra).
  assert (INR q * (W * W + eW) <= INR q * (2 * W)) by (apply Rmult_le_compat_l; lra).
  unfold WEIGHTED_COUNT, WEIGHT_SQUARE in *. nra.
Qed.
End Tables.

(* ---- T10: shares in bins, mapped by a matrix without negative entries ---- *)
Section Distributions.
Context {S : space}.
(* The columns of all cells: none points against another. *)
Variable column : nat -> vector S.
Variable m : nat.
Variable longest : R.
Hypothesis positive : 0 < longest.
Hypothesis long : forall b, norm (column b) <= longest.
Hypothesis acute : forall b b', 0 <= inner (column b) (column b').

Definition mapped (g : nat -> R) : vector S := total m (fun b => scale (g b) (column b)).

Lemma mapped_is_short : forall g, (forall b, 0 <= g b) -> sum m g <= 1 -> norm (mapped g) <= longest.
Proof.
  intros g P T. apply Rle_trans with (sum m g * longest); [|nra]. clear T. unfold mapped.
  induction m as [|k IH]; simpl; [rewrite norm_zero; lra|].
  eapply Rle_trans; [apply triangle|]. rewrite norm_scale, Rabs_pos_eq by apply P.
  pose proof (Rmult_le_compat_l (g k) _ _ (P k) (long k)). lra.
Qed.

Lemma mapped_is_acute : forall g g', (forall b, 0 <= g b) -> (forall b, 0 <= g' b) -> 0 <= inner (mapped g) (mapped g').
Proof.
  intros g g' P P'. assert (One : forall b, 0 <= inner (column b) (mapped g')).
  { intro b. rewrite inner_sym. unfold mapped. induction m as [|k IH]; simpl; [rewrite inner_zero; lra|].
    rewrite inner_add, inner_scale. pose proof (Rmult_le_pos _ _ (P' k) (acute k b)). lra. }
  unfold mapped at 1. induction m as [|k IH]; simpl; [rewrite inner_zero; lra|].
  rewrite inner_add, inner_scale. pose proof (Rmult_le_pos _ _ (P k) (One k)). lra.
Qed.

Lemma mapped_near : forall g g', (forall b, 0 <= g b) -> (forall b, 0 <= g' b) -> sum m g <= 1 -> sum m g' <= 1 ->
  norm2 (sub (mapped g) (mapped g')) <= 2 * (longest * longest).
Proof.
  intros g g' P P' T T'. rewrite norm2_sub. pose proof (mapped_is_acute g g' P P').
  pose proof (norm2_le _ _ (mapped_is_short g P T)). pose proof (norm2_le _ _ (mapped_is_short g' P' T')). lra.
Qed.

(* The histogram of shares, and of shares times the sum of shares: these are no larger. *)
Theorem T10_weighted_distributions : forall w w' g g' n bins,
  (forall b, 0 <= g b <= w b) -> (forall b, 0 <= g' b <= w' b) -> sum m w <= 1 -> sum m w' <= 1 -> 0 <= n -> 0 <= bins ->
  let both := fun w g => (mapped w, scale histogram_square_factor (mapped g)) : vector (Pair S S) in
  (norm (sub (both w g) (both w' g')) + 32 * sqrt bins * n * UNIT_ROUNDOFF) * UP
    <= weighted_cell_distribution longest n bins.
Proof.
  intros w w' g g' n bins G G' T T' N Bn both. unfold weighted_cell_distribution. cbv zeta. pose proof up.
  apply Rmult_le_compat_r; [lra|]. apply Rplus_le_compat_r.
  assert (W : forall b, 0 <= w b) by (intro b; specialize (G b); lra).
  assert (W' : forall b, 0 <= w' b) by (intro b; specialize (G' b); lra).
  assert (P : forall b, 0 <= g b) by apply G. assert (P' : forall b, 0 <= g' b) by apply G'.
  assert (sum m g <= 1) by (apply Rle_trans with (sum m w); [apply sum_le; intros; apply G | assumption]).
  assert (sum m g' <= 1) by (apply Rle_trans with (sum m w'); [apply sum_le; intros; apply G' | assumption]).
  pose proof (mapped_near w w' W W' T T') as A. pose proof (mapped_near g g' P P' H0 H1) as B.
  set (d := histogram_square_factor) in *.
  assert (D : d ^ 2 <= HISTOGRAM_SQUARE) by (apply square_down; unfold HISTOGRAM_SQUARE; lra).
  assert (E : norm2 (sub (scale d (mapped g)) (scale d (mapped g'))) = d ^ 2 * norm2 (sub (mapped g) (mapped g'))).
  { rewrite !norm2_sub, !norm2_scale, inner_scale, (inner_sym S (mapped g) (scale d _)), inner_scale,
      (inner_sym S (mapped g')). ring. }
  apply Rle_trans with (sqrt (2 * (longest * longest) * (1 + HISTOGRAM_SQUARE))).
  - unfold norm. apply sqrt_le_1_alt. rewrite norm2_pair. cbn [both fst snd]. rewrite E.
    assert (d ^ 2 * norm2 (sub (mapped g) (mapped g')) <= HISTOGRAM_SQUARE * (2 * (longest * longest)))
      by (apply Rmult_le_compat; [apply pow2_ge_0 | apply norm2_pos | exact D | exact B]).
    lra.
  - rewrite sqrt_mult_alt by nra. apply Rmult_le_compat_r; [apply sqrt_pos|]. unfold cell_distribution.
    rewrite sqrt_mult_alt by lra. rewrite sqrt_square by lra.
    assert (0 <= sqrt 2 * longest) by (apply Rmult_le_pos; [apply sqrt_pos | lra]). nra.
Qed.
End Distributions.

(* T11: a Gram of rows of norm 1 is a column of norm 1, each of whose entries is rounded. *)
Theorem T11_rounded_grams : forall (S : space) K c c' (a a' : vector S) k rounded rounded', 1 <= k ->
  norm a <= 1 -> norm a' <= 1 -> 0 <= inner a a' ->
  (* both records' roundings together, entry by entry *)
  norm (sub rounded (in_cell K c a)) + norm (sub rounded' (in_cell K c' a')) <= sqrt (k * (k + 1) / 2 * GRAM_ROUNDING ^ 2) ->
  norm (sub rounded rounded') * UP <= cell_grams k.
Proof.
  intros S K c c' a a' k r r' P A A' I E. unfold cell_grams. cbv zeta. pose proof up.
  apply Rmult_le_compat_r; [lra|].
  assert (X : norm (sub (in_cell K c a) (in_cell K c' a')) <= sqrt 2).
  { unfold norm. apply sqrt_le_1_alt. pose proof (norm2_le _ _ A). pose proof (norm2_le _ _ A').
    apply in_cells; [lra | | lra]. intros _. rewrite norm2_sub. lra. }
  rewrite sqrt_mult_alt in E by nra.
  replace (sqrt (GRAM_ROUNDING ^ 2)) with GRAM_ROUNDING in E
    by (symmetry; simpl; rewrite Rmult_1_r; apply sqrt_square; unfold GRAM_ROUNDING; lra).
  pose proof (triangle3 r (in_cell K c a) r'). pose proof (triangle3 (in_cell K c a) (in_cell K c' a') r').
  rewrite (norm_sub_sym (in_cell K c' a') r') in *. lra.
Qed.

(* ---- C96: rows by number, none more than m times ---- *)
Section Resamples.
Variable record : Type.
Variable row : nat -> nat.

(* How often a record occurs before place t. *)
Fixpoint times (k t : nat) : nat :=
  match t with O => O | Datatypes.S t => (times k t + if Nat.eqb (row t) k then 1 else 0)%nat end.

Lemma times_grows : forall k s t, (s <= t)%nat -> (times k s <= times k t)%nat.
Proof. intros k s t H. induction H; simpl; lia. Qed.

(* The first j places of the record are replaced. *)
Definition step (k : nat) (X X' : nat -> record) (j t : nat) : record :=
  if andb (Nat.eqb (row t) k) (Nat.ltb (times k t) j) then X' k else X (row t).

Lemma counted_once : forall k s t, row s = k -> (s < t)%nat -> (times k s < times k t)%nat.
Proof.
  intros k s t E L. apply Nat.lt_le_trans with (times k (Datatypes.S s)); [|apply times_grows; exact L].
  simpl. rewrite E, Nat.eqb_refl. lia.
Qed.

(* The place at which a record occurs after j others of its own, if there is one. *)
Lemma place : forall k j places, (forall t, (t < places)%nat -> row t = k -> times k t <> j)
  \/ exists t, (t < places)%nat /\ row t = k /\ times k t = j.
Proof.
  intros k j places. induction places as [|p [None | [t [T E]]]]; [left; lia | | right; exists t; split; [lia | exact E]].
  destruct (Nat.eq_dec (row p) k) as [R0 | R0].
  - destruct (Nat.eq_dec (times k p) j) as [T | T]; [right; exists p; auto|].
    left. intros t L E. destruct (Nat.eq_dec t p) as [-> | N]; [exact T | apply None; [lia | exact E]].
  - left. intros t L E. destruct (Nat.eq_dec t p) as [-> | N]; [contradiction | apply None; [lia | exact E]].
Qed.

Lemma step_is_next : forall k (X X' : nat -> record) j t, (row t = k -> times k t <> j) ->
  step k X X' j t = step k X X' (Datatypes.S j) t.
Proof.
  intros k X X' j t H. unfold step. destruct (Nat.eqb_spec (row t) k) as [E | E]; [|reflexivity].
  specialize (H E). simpl. destruct (Nat.ltb_spec (times k t) j), (Nat.ltb_spec (times k t) (Datatypes.S j)); auto; lia.
Qed.

Theorem C96_a_resample_is_m_replacements : forall places n m (X X' : nat -> record) k,
  (forall t, (t < places)%nat -> (row t < n)%nat) ->
  (forall i, (i < n)%nat -> i <> k -> X i = X' i) -> (times k places <= m)%nat ->
  (forall t, step k X X' 0 t = X (row t)) /\
  (forall t, (t < places)%nat -> step k X X' m t = X' (row t)) /\
  (forall j, (forall t, (t < places)%nat -> step k X X' j t = step k X X' (Datatypes.S j) t)
    \/ neighbours places (step k X X' j) (step k X X' (Datatypes.S j))).
Proof.
  intros places n m X X' k Rows H M. split; [|split].
  - intro t. unfold step. destruct (Nat.eqb_spec (row t) k); reflexivity.
  - intros t T. unfold step. destruct (Nat.eqb_spec (row t) k) as [E | N]; simpl.
    + pose proof (counted_once k t places E T). destruct (Nat.ltb_spec (times k t) m); [rewrite E; reflexivity | lia].
    + apply H; auto.
  - intro j. destruct (place k j places) as [None | [p [P [E T]]]].
    + left. intros t L. apply step_is_next. apply None, L.
    + right. exists p. split; [exact P|]. intros t L N. apply step_is_next. intros E' T'.
      destruct (Nat.lt_total t p) as [A | [A | A]]; [|contradiction|].
      * pose proof (counted_once k t p E' A). lia.
      * pose proof (counted_once k p t E A). lia.
Qed.

(* What moves by D for one record moves by m D, which a fit at mu / m pays for. *)
Theorem C96_cost : forall (S : space) (f : (nat -> record) -> vector S) places n m (X X' : nat -> record) k D,
  (forall t, (t < places)%nat -> (row t < n)%nat) ->
  (forall i, (i < n)%nat -> i <> k -> X i = X' i) -> (times k places <= m)%nat -> 0 <= D ->
  (forall Y Y', (forall t, (t < places)%nat -> Y t = Y' t) -> norm (sub (f Y) (f Y')) = 0) ->
  (forall Y Y', neighbours places Y Y' -> norm (sub (f Y) (f Y')) <= D) ->
  norm (sub (f (fun t => X (row t))) (f (fun t => X' (row t)))) <= INR m * D.
Proof.
  intros S f places n m X X' k D Rows H M P Same One.
  destruct (C96_a_resample_is_m_replacements places n m X X' k Rows H M) as [First [Last Steps]].
  pose proof (C47_group S m (fun j => f (step k X X' j)) D) as G. cbv beta in G.
  assert (Each : forall j, norm (sub (f (step k X X' j)) (f (step k X X' (Datatypes.S j)))) <= D).
  { intro j. destruct (Steps j) as [E | N]; [rewrite (Same _ _ E); exact P | apply One, N]. }
  specialize (G Each).
  pose proof (Same (fun t => X (row t)) (step k X X' 0) (fun t _ => eq_sym (First t))).
  pose proof (Same (step k X X' m) (fun t => X' (row t)) Last).
  pose proof (triangle3 (f (fun t => X (row t))) (f (step k X X' 0)) (f (fun t => X' (row t)))).
  pose proof (triangle3 (f (step k X X' 0)) (f (step k X X' m)) (f (fun t => X' (row t)))). lra.
Qed.
End Resamples.

(* ---- C104: rows of a person ---- *)
(* (a) m slots, each with a part of the public weight. *)
Theorem C104_slots : forall (V : space) m (parts : list (R * vector V)) b, (1 <= m)%nat -> (length parts <= m)%nat -> 0 <= b ->
  (forall p, In p parts -> 0 <= fst p <= 1 /\ norm (snd p) <= b) ->
  norm (person (map (fun p => (fst p * / INR m, snd p)) parts)) <= b.
Proof.
  intros V m parts b M L B H. assert (P : 0 < / INR m) by (apply Rinv_0_lt_compat, (lt_INR 0); lia).
  apply C72_means_of_persons; [exact B | |].
  - apply Rle_trans with (INR (length parts) * / INR m).
    2: { apply Rle_trans with (INR m * / INR m); [apply Rmult_le_compat_r; [lra | apply le_INR, L]|].
         right. apply Rinv_r. apply not_0_INR. lia. }
    clear L. induction parts as [|p parts IH]; [simpl; lra|].
    destruct (H p (or_introl eq_refl)) as [W _].
    assert (weights (map (fun p => (fst p * / INR m, snd p)) parts) <= INR (length parts) * / INR m)
      by (apply IH; intros; apply H; right; assumption).
    change (length (p :: parts)) with (Datatypes.S (length parts)). rewrite S_INR.
    unfold weights in *. simpl. nra.
  - intros r I. apply in_map_iff in I. destruct I as [p [<- I]]. destruct (H p I) as [W N]. cbn [fst snd].
    split; [apply Rmult_le_pos; lra | exact N].
Qed.

(* (b) Rows that are made of all rows of their person: a table of other persons, with one of them replaced. *)
Theorem C104_rows_of_their_person : forall row made (remade : list row -> list made) n (X X' : nat -> list row),
  neighbours n X X' -> neighbours n (fun i => remade (X i)) (fun i => remade (X' i)).
Proof. intros row made remade n X X' [k [L H]]. exists k. split; [exact L|]. intros i I N. rewrite (H i I N). reflexivity. Qed.
