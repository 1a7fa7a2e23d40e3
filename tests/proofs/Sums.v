(* Means of records: clipped vectors, positive matrices, histograms, numbers; rounding included. *)
Require Import Reals Lra Psatz Lia List.
From dpfast Require Import Meaning Vectors Formulas.
Open Scope R_scope.

Lemma up : 1 <= UP.
Proof. unfold UP. lra. Qed.

Lemma times_up : forall x y, 0 <= y -> x <= y -> x <= y * UP.
Proof. intros. pose proof up. nra. Qed.

Definition gamma (depth : R) := depth * UNIT_ROUNDOFF / (1 - depth * UNIT_ROUNDOFF).

Lemma gamma_pos : forall depth, 0 <= depth < 2 ^ 50 -> 0 <= gamma depth.
Proof.
  intros depth [A B]. unfold gamma, UNIT_ROUNDOFF.
  apply Rmult_le_pos; [lra|]. apply Rlt_le, Rinv_0_lt_compat. lra.
Qed.

Lemma error_pos : 0 < RECORD_ERROR < / 2 ^ 30.
Proof. unfold RECORD_ERROR. lra. Qed.

(* The slack is three times the relative error of a mean and one half (C11, C12, C19). *)
Lemma slack : forall n depth, 1 <= n -> 0 <= depth < 2 ^ 50 ->
  3 * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)) <= relative_slack n depth.
Proof.
  intros n depth N D. unfold relative_slack. fold (gamma depth).
  pose proof (gamma_pos depth D). pose proof error_pos.
  unfold JOINT_MARGIN. apply times_up; [|right; reflexivity].
  assert (0 <= gamma depth * n) by nra. nra.
Qed.

Lemma slack_pos : forall n depth, 1 <= n -> 0 <= depth < 2 ^ 50 -> 0 <= relative_slack n depth.
Proof.
  intros n depth N D. pose proof (slack n depth N D). pose proof (gamma_pos depth D).
  pose proof error_pos. assert (0 <= gamma depth * n) by nra. nra.
Qed.

(* ---- C11: the rounding of a mean ---- *)
Section C11.
Variable d : nat.
Notation V := (vector (Rd d)).
Definition absolute (x : V) : V := fun j => Rabs (x j).

Lemma norm_absolute : forall x : V, norm (absolute x) = norm x.
Proof.
  intro. unfold norm, norm2. f_equal. simpl. unfold dot, absolute. apply sum_ext. intros.
  rewrite <- Rabs_mult. apply Rabs_pos_eq. nra.
Qed.

Lemma norm_monotone : forall x y : V, (forall j, (j < d)%nat -> Rabs (x j) <= y j) -> norm x <= norm y.
Proof.
  intros x y H. unfold norm. apply sqrt_le_1_alt. unfold norm2. simpl. unfold dot.
  apply sum_le. intros j L. specialize (H j L). unfold Rabs in H. destruct (Rcase_abs (x j)); nra.
Qed.

Lemma norm_total : forall n (f : nat -> V) b, (forall i, (i < n)%nat -> norm (f i) <= b) ->
  norm (total n f) <= INR n * b.
Proof.
  induction n; intros f b H.
  - change (total 0 f) with (zero : V). rewrite norm_zero. simpl. lra.
  - rewrite S_INR. change (total (Datatypes.S n) f) with (add (total n f) (f n)).
    pose proof (triangle (total n f) (f n)).
    assert (norm (total n f) <= INR n * b) by (apply IHn; intros; apply H; lia).
    assert (norm (f n) <= b) by (apply H; lia). lra.
Qed.

Theorem C11_rounding_of_a_mean : forall n (c : nat -> V) (computed : V) g b, (1 <= n)%nat -> 0 <= g ->
  (forall i, (i < n)%nat -> norm (c i) <= b) ->
  (forall j, (j < d)%nat ->
    Rabs (sub computed (mean n c) j) <= g / INR n * (total n (fun i => absolute (c i))) j) ->
  norm (sub computed (mean n c)) <= g * b.
Proof.
  intros n c computed g b N G B E.
  assert (P : 0 < INR n) by (apply lt_0_INR; lia).
  apply Rle_trans with (norm (scale (g / INR n) (total n (fun i => absolute (c i)) : V))).
  { apply norm_monotone. intros j L. apply E. exact L. }
  rewrite norm_scale, Rabs_pos_eq by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat, P]).
  apply Rle_trans with (g / INR n * (INR n * b)).
  - apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat, P]|].
    apply norm_total. intros. rewrite norm_absolute. apply B. assumption.
  - right. field. lra.
Qed.
End C11.

(* ---- two neighbouring means, as computed ---- *)
Section Computed.
Context {S : space} {record : Type}.
Notation V := (vector S).
Variables (ideal computed : record -> V) (n m depth b D : R) (k : nat) (X X' : nat -> record).
Hypothesis positive : 1 <= n.
Hypothesis many : 0 <= depth < 2 ^ 50.
Hypothesis differ : neighbours k X X'.
Hypothesis bounded : forall x, norm (ideal x) <= b.
Hypothesis near : forall x x', norm (sub (ideal x) (ideal x')) <= D.
(* C12: a record's contribution is computed to within RECORD_ERROR of its bound. *)
Hypothesis C12 : forall x, norm (sub (computed x) (ideal x)) <= RECORD_ERROR * b.
Variables (M M' : V).
Let exact (Y : nat -> record) : V := scale (/ n) (total k (fun i => computed (Y i))).
(* C11: the computed means are off by gamma times the largest computed contribution. *)
Hypothesis C11 : norm (sub M (exact X)) <= gamma depth * (b * (1 + RECORD_ERROR)).
Hypothesis C11' : norm (sub M' (exact X')) <= gamma depth * (b * (1 + RECORD_ERROR)).

Lemma computed_near : forall x x', norm (sub (computed x) (computed x')) <= D + 2 * RECORD_ERROR * b.
Proof.
  intros. pose proof (triangle3 (computed x) (ideal x) (computed x')).
  pose proof (triangle3 (ideal x) (ideal x') (computed x')).
  pose proof (C12 x). pose proof (C12 x'). pose proof (near x x').
  rewrite (norm_sub_sym (computed x')) in *. lra.
Qed.

Lemma computed_means :
  norm (sub M M') <= (D + 2 * (b * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)))) / n.
Proof.
  pose proof (triangle3 M (exact X) M'). pose proof (triangle3 (exact X) (exact X') M').
  assert (norm (sub (exact X) (exact X')) <= (D + 2 * RECORD_ERROR * b) / n).
  { apply mean_of_records; [lra | exact differ | exact computed_near]. }
  rewrite (norm_sub_sym M') in C11'.
  replace ((D + 2 * (b * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)))) / n)
    with ((D + 2 * RECORD_ERROR * b) / n + 2 * (gamma depth * (b * (1 + RECORD_ERROR))))
    by (field; lra).
  lra.
Qed.
End Computed.

Lemma within : forall x n s e c, 1 <= n -> 0 <= x -> 0 <= e -> 3 * e <= s -> 2 * c <= 3 ->
  forall b, 0 <= b -> b <= c * x -> (x + 2 * (b * e)) / n * UP <= x / n * (1 + s) * UP.
Proof.
  intros x n s e c N X E S C b B H. pose proof up. apply Rmult_le_compat_r; [lra|].
  replace (x / n * (1 + s)) with (x * (1 + s) / n) by (field; lra).
  unfold Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra|].
  assert (b * e <= c * x * e) by (apply Rmult_le_compat_r; assumption).
  assert (0 <= x * e) by (apply Rmult_le_pos; assumption).
  assert (2 * c * (x * e) <= 3 * (x * e)) by (apply Rmult_le_compat_r; lra).
  assert (x * (3 * e) <= x * s) by (apply Rmult_le_compat_l; assumption). lra.
Qed.

(* C13: contributions of a set of diameter D that contains zero; of persons (C72) and samples (C85)
   with the divisor n of their own. *)
Theorem C13_mean_score : forall (S : space) record (ideal computed : record -> vector S)
    n depth b D k (X X' : nat -> record) M M',
  1 <= n -> 0 <= depth < 2 ^ 50 -> neighbours k X X' -> 0 <= b <= D ->
  (forall x, norm (ideal x) <= b) ->
  (forall x x', norm (sub (ideal x) (ideal x')) <= D) ->
  (forall x, norm (sub (computed x) (ideal x)) <= RECORD_ERROR * b) ->
  norm (sub M (scale (/ n) (total k (fun i => computed (X i))))) <= gamma depth * (b * (1 + RECORD_ERROR)) ->
  norm (sub M' (scale (/ n) (total k (fun i => computed (X' i))))) <= gamma depth * (b * (1 + RECORD_ERROR)) ->
  norm (sub M M') * UP <= mean_score D n depth.
Proof.
  intros S record ideal computed n depth b D k X X' M M' N Dp Nb [B BD] Bd Nr C12 C11 C11'.
  pose proof (computed_means ideal computed n depth b D k X X' N Nb Nr C12 M M' C11 C11') as H.
  unfold mean_score. pose proof up. pose proof (gamma_pos depth Dp). pose proof error_pos.
  assert (0 <= gamma depth * n) by nra.
  apply Rle_trans with ((D + 2 * (b * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)))) / n * UP).
  - apply Rmult_le_compat_r; lra.
  - apply (within D n _ _ 1); try lra; try nra. apply slack; assumption.
Qed.

(* ---- norm clipping ---- *)
Section Clipping.
Context {S : space}.
Notation V := (vector S).
Definition clip (b : R) (z : V) : V := scale (Rmin 1 (b / norm z)) z.

Lemma clipped : forall b z, 0 <= b -> norm (clip b z) <= b.
Proof.
  intros b z B. unfold clip. rewrite norm_scale.
  destruct (Req_dec (norm z) 0) as [Z | N]; [rewrite Z; lra|].
  pose proof (norm_pos z). assert (0 < norm z) by lra.
  assert (0 <= b / norm z) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
  rewrite Rabs_pos_eq by (apply Rmin_glb; lra).
  apply Rle_trans with (b / norm z * norm z); [|right; field; lra].
  apply Rmult_le_compat_r; [lra | apply Rmin_r].
Qed.

Lemma ball : forall b (x y : V), norm x <= b -> norm y <= b -> norm (sub x y) <= 2 * b.
Proof. intros. pose proof (triangle_sub x y). lra. Qed.

(* A pair that never points against each other: matrices, histograms, sums of either. *)
Lemma acute : forall b (x y : V), 0 <= b -> norm x <= b -> norm y <= b -> 0 <= inner x y ->
  norm (sub x y) <= sqrt 2 * b.
Proof.
  intros b x y B X Y I. pose proof (sqrt_pos 2).
  apply norm_le; [nra|]. rewrite norm2_sub.
  replace (sqrt 2 * b * (sqrt 2 * b)) with ((sqrt 2 * sqrt 2) * (b * b)) by ring.
  rewrite sqrt_sqrt by lra. pose proof (norm2_le x b X). pose proof (norm2_le y b Y). lra.
Qed.
End Clipping.

(* C80 (b), K1, G1: a score that is clipped to b, whatever it was, has a mean of sensitivity 2 b / n. *)
Theorem C80_clipped_scores : forall (S : space) record (score : record -> vector S) n b k X X',
  1 <= n -> 0 <= b -> neighbours k X X' ->
  norm (sub (scale (/ n) (total k (fun i => clip b (score (X i)))))
            (scale (/ n) (total k (fun i => clip b (score (X' i)))))) * UP <= mean_score (2 * b) n 0.
Proof.
  intros S record score n b k X X' N B Nb.
  assert (Z : gamma 0 * (b * (1 + RECORD_ERROR)) = 0) by (unfold gamma; rewrite Rmult_0_l; lra).
  assert (E : forall v : vector S, norm (sub v v) = 0).
  { intro v. rewrite (same_norm _ (zero : vector S)); [apply norm_zero|].
    intro z. rewrite inner_sub, inner_zero. ring. }
  eapply (C13_mean_score S record (fun x => clip b (score x)) (fun x => clip b (score x)) n 0 b);
    try rewrite E; try rewrite Z; try lra; auto.
  - intro. apply clipped; assumption.
  - intros. apply ball; apply clipped; assumption.
  - intro. rewrite E. pose proof error_pos. nra.
Qed.

(* ---- C14: means of positive semidefinite matrices of rank one ---- *)
Definition rank_one {d} (h : R) (a : vector (Rd d)) : vector (Mat d) := scale h (outer a).

Lemma norm_rank_one : forall d h (a : vector (Rd d)), 0 <= h -> norm (rank_one h a) = h * norm2 a.
Proof.
  intros. unfold rank_one. rewrite norm_scale, Rabs_pos_eq by assumption.
  unfold norm at 1. rewrite norm2_outer. rewrite sqrt_square; [reflexivity | apply norm2_pos].
Qed.

Lemma rank_one_acute : forall d h h' (a a' : vector (Rd d)), 0 <= h -> 0 <= h' ->
  0 <= inner (rank_one h a) (rank_one h' a').
Proof.
  intros. unfold rank_one. rewrite inner_scale, inner_sym, inner_scale, inner_outer.
  apply Rmult_le_pos; [assumption|]. apply Rmult_le_pos; [assumption|]. nra.
Qed.

Lemma rank_one_near : forall d b h h' (a a' : vector (Rd d)), 0 <= b ->
  0 <= h -> 0 <= h' -> h * norm2 a <= b -> h' * norm2 a' <= b ->
  norm (sub (rank_one h a) (rank_one h' a')) <= sqrt 2 * b.
Proof.
  intros. apply acute; try assumption.
  - rewrite norm_rank_one; assumption.
  - rewrite norm_rank_one; assumption.
  - apply rank_one_acute; assumption.
Qed.

Theorem C14_mean_of_positive_matrices : forall (S : space) record (ideal computed : record -> vector S)
    n dimension depth b k (X X' : nat -> record) M M',
  1 <= n -> 0 <= depth < 2 ^ 50 -> neighbours k X X' -> 0 <= b ->
  (forall x, norm (ideal x) <= b) -> (forall x x', 0 <= inner (ideal x) (ideal x')) ->
  (forall x, norm (sub (computed x) (ideal x)) <= RECORD_ERROR * b) ->
  norm (sub M (scale (/ n) (total k (fun i => computed (X i))))) <= gamma depth * (b * (1 + RECORD_ERROR)) ->
  norm (sub M' (scale (/ n) (total k (fun i => computed (X' i))))) <= gamma depth * (b * (1 + RECORD_ERROR)) ->
  norm (sub M M') * UP <= mean_rank_one b n dimension depth.
Proof.
  intros S record ideal computed n dimension depth b k X X' M M' N Dp Nb B Bd Ac C12 C11 C11'.
  assert (Nr : forall x x', norm (sub (ideal x) (ideal x')) <= sqrt 2 * b) by (intros; apply acute; auto).
  pose proof (computed_means ideal computed n depth b (sqrt 2 * b) k X X' N Nb Nr C12 M M' C11 C11') as H.
  unfold mean_rank_one. pose proof up. pose proof (gamma_pos depth Dp). pose proof error_pos.
  assert (0 <= gamma depth * n) by nra.
  assert (1 <= sqrt 2) by (rewrite <- sqrt_1 at 1; apply sqrt_le_1_alt; lra).
  apply Rle_trans with
    ((sqrt 2 * b + 2 * (b * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)))) / n * UP).
  - apply Rmult_le_compat_r; lra.
  - apply (within (sqrt 2 * b) n _ _ 1); try lra; try nra. apply slack; assumption.
Qed.

(* Leverage weights: the Gram of rows a with curvatures c, each held to R^2 (C80 (a)); any a and c. *)
Definition leverage (c R2 : R) (n2 : R) := Rmin c (R2 / n2).

Theorem C80_leverage_weighted_gram : forall d c c' R2 (a a' : vector (Rd d)), 0 <= R2 ->
  0 <= c -> 0 <= c' ->
  norm (sub (rank_one (leverage c R2 (norm2 a)) a) (rank_one (leverage c' R2 (norm2 a')) a')) <= sqrt 2 * R2.
Proof.
  intros d c c' R2 a a' P C C'.
  assert (Q : forall c (a : vector (Rd d)), 0 <= c ->
    0 <= leverage c R2 (norm2 a) /\ leverage c R2 (norm2 a) * norm2 a <= R2).
  { intros c0 a0 C0. unfold leverage. pose proof (norm2_pos a0).
    destruct (Req_dec (norm2 a0) 0) as [Z | Z].
    - rewrite Z. unfold Rdiv. rewrite Rinv_0, Rmult_0_r. split; [apply Rmin_glb; lra | lra].
    - assert (0 <= R2 / norm2 a0) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
      split; [apply Rmin_glb; lra|].
      apply Rle_trans with (R2 / norm2 a0 * norm2 a0); [|right; field; lra].
      apply Rmult_le_compat_r; [lra | apply Rmin_r]. }
  destruct (Q c a C), (Q c' a' C'). apply rank_one_near; assumption.
Qed.

(* C80 (c): a moment, rows weighted by min(1, R^2/|a|^2) and residuals held to [-k, k]: 2 k R. *)
Theorem C80_moments : forall d R2 rows k r r' (a a' : vector (Rd d)), 0 <= rows -> rows * rows = R2 ->
  Rabs r <= k -> Rabs r' <= k ->
  norm (sub (scale (Rmin 1 (R2 / norm2 a) * r) a) (scale (Rmin 1 (R2 / norm2 a') * r') a')) <= 2 * (k * rows).
Proof.
  intros d R2 rows k r r' a a' P E K K'.
  assert (Q : forall r (a : vector (Rd d)), Rabs r <= k -> norm (scale (Rmin 1 (R2 / norm2 a) * r) a) <= k * rows).
  { intros r0 a0 K0. pose proof (norm_pos a0). pose proof (norm2_pos a0). pose proof (Rabs_pos r0).
    rewrite norm_scale, Rabs_mult.
    destruct (Req_dec (norm a0) 0) as [Z | Z]; [rewrite Z; nra|].
    assert (NN : 0 < norm2 a0) by (rewrite <- norm_square; nra).
    assert (W : 0 <= R2 / norm2 a0) by (apply Rmult_le_pos; [nra | apply Rlt_le, Rinv_0_lt_compat; lra]).
    rewrite (Rabs_pos_eq (Rmin _ _)) by (apply Rmin_glb; lra).
    assert (Rmin 1 (R2 / norm2 a0) * norm a0 <= rows).
    { destruct (Rle_or_lt (norm a0) rows) as [L | G].
      - apply Rle_trans with (1 * norm a0); [apply Rmult_le_compat_r; [lra | apply Rmin_l] | lra].
      - apply Rle_trans with (R2 / norm2 a0 * norm a0); [apply Rmult_le_compat_r; [lra | apply Rmin_r]|].
        rewrite <- norm_square, <- E. replace (rows * rows / (norm a0 * norm a0) * norm a0)
          with (rows * (rows / norm a0)) by (field; lra).
        assert (rows / norm a0 <= 1) by (apply Rmult_le_reg_r with (norm a0); [lra|];
          unfold Rdiv; rewrite Rmult_assoc, Rinv_l; lra).
        nra. }
    assert (0 <= Rmin 1 (R2 / norm2 a0)) by (apply Rmin_glb; lra).
    replace (Rmin 1 (R2 / norm2 a0) * Rabs r0 * norm a0)
      with (Rabs r0 * (Rmin 1 (R2 / norm2 a0) * norm a0)) by ring.
    apply Rmult_le_compat; try lra. apply Rmult_le_pos; lra. }
  apply ball; apply Q; assumption.
Qed.

(* ---- numbers ---- *)
Definition Line : space.
Proof.
  refine {| vector := R; zero := 0; add := Rplus; scale := Rmult; inner := Rmult |}; intros; try ring; nra.
Defined.

Lemma norm_line : forall x : vector Line, norm x = Rabs x.
Proof. intro. unfold norm, norm2. simpl. apply sqrt_Rsqr_abs. Qed.

(* C20: eigenvalues are extremes of x' M x over unit vectors x, as a lower bound or an upper one. *)
Theorem C20_extreme_eigenvalue : forall d b h h' (a a' x : vector (Rd d)),
  0 <= h -> 0 <= h' -> h * norm2 a <= b -> h' * norm2 a' <= b -> norm2 x = 1 ->
  Rabs (inner (sub (rank_one h a) (rank_one h' a')) (outer x)) <= b.
Proof.
  intros d b h h' a a' x H H' B B' U. unfold rank_one.
  rewrite inner_sub, !inner_scale, !inner_outer.
  assert (Q : forall h (a : vector (Rd d)), 0 <= h -> h * norm2 a <= b ->
    0 <= h * (inner a x * inner a x) <= b).
  { intros h0 a0 P L. pose proof (cauchy_schwarz2 a0 x) as C. rewrite U, Rmult_1_r in C.
    split; [apply Rmult_le_pos; nra|]. apply Rle_trans with (h0 * norm2 a0); [|exact L].
    apply Rmult_le_compat_l; assumption. }
  pose proof (Q h a H B). pose proof (Q h' a' H' B'). apply Rabs_le. lra.
Qed.

Theorem C20_extremes_of_near_functions : forall T (f g : T -> R) e l l',
  (forall x, Rabs (f x - g x) <= e) ->
  (forall x, l <= f x) -> (forall y, (forall x, y <= f x) -> y <= l) ->
  (forall x, l' <= g x) -> (forall y, (forall x, y <= g x) -> y <= l') -> Rabs (l - l') <= e.
Proof.
  intros T f g e l l' N A B C D.
  assert (forall x, f x - g x <= e /\ g x - f x <= e).
  { intro x. specialize (N x). unfold Rabs in N. destruct (Rcase_abs (f x - g x)); lra. }
  assert (l - e <= l') by (apply D; intro x; specialize (H x); specialize (A x); lra).
  assert (l' - e <= l) by (apply B; intro x; specialize (H x); specialize (C x); lra).
  apply Rabs_le. lra.
Qed.

Theorem C20_constant : forall b n dimension depth, 1 <= n -> 1 <= dimension -> 0 <= depth < 2 ^ 50 ->
  0 <= b ->
  (b / n * (1 + 2 * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)))
     + 2 * (64 * dimension * UNIT_ROUNDOFF) * b) * UP <= extreme_eigenvalue b n dimension depth.
Proof.
  intros b n dimension depth N P D B. unfold extreme_eigenvalue.
  pose proof (slack n depth N D) as S. pose proof up. pose proof (gamma_pos depth D). pose proof error_pos.
  assert (0 <= gamma depth * n) by nra.
  apply Rmult_le_compat_r; [lra|].
  replace (2 * (64 * dimension * UNIT_ROUNDOFF) * b)
    with (b / n * (128 * dimension * UNIT_ROUNDOFF * n)) by (field; lra).
  assert (0 <= b / n) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
  rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [assumption|].
  assert (0 <= RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR)) by nra. lra.
Qed.

(* C21: differences of losses of size b r at most. *)
Theorem C21_loss_difference : forall record (value : record -> vector Line) b r n k X X',
  1 <= n -> 0 <= b -> 0 <= r -> neighbours k X X' -> (forall x, Rabs (value x) <= b * r) ->
  norm (sub (scale (/ n) (total k (fun i => value (X i)))) (scale (/ n) (total k (fun i => value (X' i))))) * UP
    <= loss_difference b r n 0.
Proof.
  intros record value b r n k X X' N B P Nb H.
  assert (norm (sub (scale (/ n) (total k (fun i => value (X i)))) (scale (/ n) (total k (fun i => value (X' i)))))
    <= 2 * (b * r) / n).
  { apply mean_of_records; [lra | exact Nb|]. intros. apply ball; rewrite norm_line; apply H. }
  unfold loss_difference. pose proof up. pose proof (slack_pos n 0 N ltac:(lra)).
  apply Rmult_le_compat_r; [lra|].
  assert (0 <= 2 * b * r / n).
  { apply Rmult_le_pos; [nra | apply Rlt_le, Rinv_0_lt_compat; lra]. }
  replace (2 * (b * r) / n) with (2 * b * r / n) in H0 by (field; lra). nra.
Qed.

(* C46: a record adds 1 - p, -p or 0; the quotient as computed is off by less than 4 u. *)
Theorem C46_centred_share : forall record (below : record -> option bool) p n k X X' m m',
  1 <= n -> 0 < p < 1 -> neighbours k X X' ->
  let value x : vector Line := match below x with None => 0 | Some true => 1 - p | Some false => - p end in
  Rabs (m - scale (/ n) (total k (fun i => value (X i)))) <= 4 * UNIT_ROUNDOFF ->
  Rabs (m' - scale (/ n) (total k (fun i => value (X' i)))) <= 4 * UNIT_ROUNDOFF ->
  Rabs (m - m') * UP <= centred_share n.
Proof.
  intros record below p n k X X' m m' N P Nb value E E'.
  assert (H : norm (sub (scale (/ n) (total k (fun i => value (X i)))) (scale (/ n) (total k (fun i => value (X' i)))))
    <= 1 / n).
  { apply mean_of_records; [lra | exact Nb|]. intros x x'. rewrite norm_line. unfold sub, value. simpl.
    apply Rabs_le. destruct (below x) as [[]|], (below x') as [[]|]; lra. }
  rewrite norm_line in H. unfold sub in H. simpl in H, E, E'.
  unfold centred_share. pose proof up. apply Rmult_le_compat_r; [lra|].
  set (u := total k _) in *. set (v := total k (fun i => value (X' i))) in *.
  unfold Rabs in *. destruct (Rcase_abs (m - m')), (Rcase_abs (m - / n * u)), (Rcase_abs (m' - / n * v)),
    (Rcase_abs (/ n * u + -1 * (/ n * v))); lra.
Qed.

(* C60 (b), C103, C85: a record is a vector of cells that is not negative and at most 1 long. *)
Theorem C60_histogram : forall (S : space) record (cells : record -> vector S) n excess k X X' m m',
  1 <= n -> 1 <= excess -> neighbours k X X' ->
  (forall x, norm (cells x) <= 1) -> (forall x x', 0 <= inner (cells x) (cells x')) ->
  norm (sub m (scale (/ n) (total k (fun i => cells (X i))))) <= 2 * excess * UNIT_ROUNDOFF ->
  norm (sub m' (scale (/ n) (total k (fun i => cells (X' i))))) <= 2 * excess * UNIT_ROUNDOFF ->
  norm (sub m m') * UP <= histogram n excess.
Proof.
  intros S record cells n excess k X X' m m' N P Nb B A E E'.
  set (e := scale (/ n) (total k (fun i => cells (X i)))) in *.
  set (e' := scale (/ n) (total k (fun i => cells (X' i)))) in *.
  assert (norm (sub e e') <= sqrt 2 * 1 / n).
  { apply mean_of_records; [lra | exact Nb|]. intros. apply acute; auto. lra. }
  pose proof (triangle3 m e m'). pose proof (triangle3 e e' m'). rewrite (norm_sub_sym m') in E'.
  unfold histogram. pose proof up. apply Rmult_le_compat_r; [lra|]. unfold Rdiv in *. lra.
Qed.

(* One cell, or none: such vectors. *)
Definition one_cell (K : nat) (c : option nat) : vector (Rd K) :=
  fun j => match c with Some i => if Nat.eqb i j then 1 else 0 | None => 0 end.

Lemma sum_one : forall K i f, sum K (fun j => (if Nat.eqb i j then 1 else 0) * f j)
  = if Nat.ltb i K then f i else 0.
Proof.
  induction K; intros i f; simpl sum; [destruct (Nat.ltb_spec i 0); [lia | reflexivity]|].
  rewrite IHK. destruct (Nat.eqb_spec i K) as [-> | D].
  - rewrite (proj2 (Nat.ltb_ge K K)) by lia. rewrite (proj2 (Nat.ltb_lt K (Datatypes.S K))) by lia. ring.
  - destruct (Nat.ltb_spec i K), (Nat.ltb_spec i (Datatypes.S K)); try lia; ring.
Qed.

Lemma one_cell_inner : forall K c c', 0 <= inner (one_cell K c) (one_cell K c') <= 1.
Proof.
  intros K c c'. simpl. unfold dot, one_cell. destruct c as [i|].
  - rewrite (sum_one K i (fun j => match c' with Some i0 => if Nat.eqb i0 j then 1 else 0 | None => 0 end)).
    destruct (Nat.ltb i K); destruct c' as [i'|]; try destruct (Nat.eqb i' i); lra.
  - rewrite (sum_ext K _ (fun _ => 0)) by (intros; ring). rewrite sum_const. lra.
Qed.

Lemma one_cell_norm : forall K c, norm (one_cell K c) <= 1.
Proof. intros. apply norm_le; [lra|]. pose proof (one_cell_inner K c c). unfold norm2. lra. Qed.

(* ---- persons: C72, and records with weights of their own: C70 ---- *)
Section Persons.
Context {S : space}.
Notation V := (vector S).
(* A person is a list of (weight, row's contribution); weights are at least 0 and add up to at most 1. *)
Definition weights (rows : list (R * V)) := fold_right (fun r w => fst r + w) 0 rows.
Definition person (rows : list (R * V)) : V := fold_right (fun r v => add (scale (fst r) (snd r)) v) zero rows.

Lemma person_norm : forall b rows, 0 <= b ->
  (forall r, In r rows -> 0 <= fst r /\ norm (snd r) <= b) -> norm (person rows) <= weights rows * b.
Proof.
  intros b rows B. induction rows as [|r rows]; intro H; simpl; [rewrite norm_zero; lra|].
  destruct (H r (or_introl eq_refl)) as [P Q].
  pose proof (triangle (scale (fst r) (snd r)) (person rows)) as T.
  rewrite norm_scale, (Rabs_pos_eq (fst r)) in T by assumption.
  assert (norm (person rows) <= weights rows * b) by (apply IHrows; intros; apply H; right; assumption).
  assert (fst r * norm (snd r) <= fst r * b) by (apply Rmult_le_compat_l; assumption). lra.
Qed.

Theorem C72_means_of_persons : forall b rows, 0 <= b -> weights rows <= 1 ->
  (forall r, In r rows -> 0 <= fst r /\ norm (snd r) <= b) -> norm (person rows) <= b.
Proof. intros b rows B W H. pose proof (person_norm b rows B H). nra. Qed.

Lemma person_acute_one : forall (v : V) rows,
  (forall r, In r rows -> 0 <= fst r /\ 0 <= inner (snd r) v) -> 0 <= inner (person rows) v.
Proof.
  intros v rows. induction rows as [|r rows]; intro H; simpl; [rewrite inner_zero; lra|].
  destruct (H r (or_introl eq_refl)). rewrite inner_add, inner_scale.
  assert (0 <= inner (person rows) v) by (apply IHrows; intros; apply H; right; assumption). nra.
Qed.

Theorem C72_persons_of_positive_matrices : forall rows rows' : list (R * V),
  (forall r, In r rows -> 0 <= fst r) -> (forall r, In r rows' -> 0 <= fst r) ->
  (forall r r', In r rows -> In r' rows' -> 0 <= inner (snd r) (snd r')) ->
  0 <= inner (person rows) (person rows').
Proof.
  intros rows rows' A B C. apply person_acute_one. intros r I. split; [apply A, I|].
  rewrite inner_sym. apply person_acute_one. intros r' I'. split; [apply B, I'|].
  rewrite inner_sym. apply C; assumption.
Qed.

(* A set of diameter D with zero in it keeps its diameter when its points are weighted by [0, 1]. *)
Theorem C70_weights_keep_the_diameter : forall D a a' (x y : V), 0 <= a <= 1 -> 0 <= a' <= 1 ->
  norm x <= D -> norm y <= D -> norm (sub x y) <= D -> norm (sub (scale a x) (scale a' y)) <= D.
Proof.
  assert (half : forall D a a' (x y : V), 0 <= a' <= a -> a <= 1 ->
    norm x <= D -> norm (sub x y) <= D -> norm (sub (scale a x) (scale a' y)) <= D).
  { intros D a a' x y A A1 X E.
    rewrite (same_norm _ (add (scale (a - a') x) (scale a' (sub x y)))).
    - pose proof (triangle (scale (a - a') x) (scale a' (sub x y))) as T.
      rewrite !norm_scale, (Rabs_pos_eq (a - a')), (Rabs_pos_eq a') in T by lra.
      assert ((a - a') * norm x <= (a - a') * D) by (apply Rmult_le_compat_l; lra).
      assert (a' * norm (sub x y) <= a' * D) by (apply Rmult_le_compat_l; lra).
      pose proof (norm_pos x). nra.
    - intro z. rewrite inner_add, inner_sub, !inner_scale, inner_sub. ring. }
  intros D a a' x y A A' X Y E. destruct (Rle_or_lt a' a).
  - apply half; try assumption; lra.
  - rewrite norm_sub_sym. apply half; try assumption; try lra. rewrite norm_sub_sym. assumption.
Qed.
End Persons.
