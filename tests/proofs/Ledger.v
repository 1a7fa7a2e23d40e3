(* The ledger with reservations (C10, C95), secret samples and random folds (C54, C55, C85), what is made of one
   record (C80, C81), groups (C47) and parts of a total (G8). *)
Require Import Reals Lra Psatz Lia List.
From dpfast Require Import Meaning Vectors Formulas Sums Composition.
Import ListNotations.
Open Scope R_scope.

(* ---- C10, C95: what a ledger grants, reserves and takes back ---- *)
(* Amounts are mu^2.  A session has what it may spend, and what its draws have spent. *)
Record session := { reserved : R; spent : R }.
Record ledger := { charged : R; drawn : R; sessions : list session }.

Definition unspent (s : session) := reserved s - spent s.
Definition open_rest (l : ledger) := fold_right (fun s r => unspent s + r) 0 (sessions l).

(* Every step of a run, whatever was released before: M is the limit of the ledger. *)
Inductive step (M : R) : ledger -> ledger -> Prop :=
  | Charge : forall l x, 0 <= x -> charged l + x <= M ->
      step M l {| charged := charged l + x; drawn := drawn l + x; sessions := sessions l |}
  | Reserve : forall l x, 0 <= x -> charged l + x <= M ->
      step M l {| charged := charged l + x; drawn := drawn l; sessions := {| reserved := x; spent := 0 |} :: sessions l |}
  | Draw : forall c d before s after x, 0 <= x -> spent s + x <= reserved s ->
      step M {| charged := c; drawn := d; sessions := before ++ s :: after |}
        {| charged := c; drawn := d + x; sessions := before ++ {| reserved := reserved s; spent := spent s + x |} :: after |}
  (* The session is closed; at most what it did not spend is given back, nothing after an exception. *)
  | Close : forall c d before s after back, 0 <= back <= unspent s ->
      step M {| charged := c; drawn := d; sessions := before ++ s :: after |}
        {| charged := c - back; drawn := d; sessions := before ++ after |}.

Inductive history (M : R) : ledger -> Prop :=
  | Empty : history M {| charged := 0; drawn := 0; sessions := [] |}
  | Next : forall l l', history M l -> step M l l' -> history M l'.

Lemma rest_app : forall a b,
  fold_right (fun s r => unspent s + r) 0 (a ++ b)
  = fold_right (fun s r => unspent s + r) 0 a + fold_right (fun s r => unspent s + r) 0 b.
Proof. intros a b. induction a as [|s a IH]; simpl; [ring | rewrite IH; ring]. Qed.

Definition sound (M : R) (l : ledger) :=
  drawn l + open_rest l <= charged l /\ charged l <= M /\ Forall (fun s => 0 <= unspent s) (sessions l).

Lemma sound_history : forall M l, 0 <= M -> history M l -> sound M l.
Proof.
  intros M l P H. induction H as [|l l' H IH St]; [unfold sound, open_rest; simpl; repeat split; [lra | exact P | constructor]|].
  destruct IH as [A [B C]]. unfold open_rest in *.
  destruct St as [l x X G | l x X G | c d before s after x X G | c d before s after back [X G]];
    unfold sound, open_rest in *; simpl in *.
  - repeat split; try lra. exact C.
  - repeat split; try lra.
    + unfold unspent at 1. simpl. lra.
    + constructor; [unfold unspent; simpl; lra | exact C].
  - rewrite rest_app in *. simpl in *. unfold unspent in *. simpl in *.
    repeat split; try lra.
    apply Forall_app in C. destruct C as [C1 C2]. inversion C2; subst. apply Forall_app. split; [exact C1|].
    constructor; [simpl; lra | assumption].
  - rewrite rest_app in *. simpl in *. apply Forall_app in C. destruct C as [C1 C2]. inversion C2; subst.
    repeat split; try lra. apply Forall_app. split; assumption.
Qed.

Lemma rest_pos : forall l, Forall (fun s => 0 <= unspent s) l -> 0 <= fold_right (fun s r => unspent s + r) 0 l.
Proof. intros l H. induction H; simpl; lra. Qed.

(* At every moment, the squares of all draws that were started are within what is charged, and that within the limit. *)
Theorem C95_draws_stay_within_the_limit : forall M l, 0 <= M -> history M l -> drawn l <= charged l <= M.
Proof.
  intros M l P H. destruct (sound_history M l P H) as [A [B C]]. pose proof (rest_pos _ C). unfold open_rest in A. lra.
Qed.

(* A person with m rows pays m^2 times the square of a session's total: the session's draws cost what it reserved. *)
Theorem C95_rows_of_a_person : forall m total s R, 0 <= m -> m ^ 2 * total <= R -> 0 <= s <= total -> m ^ 2 * s <= R.
Proof. intros m total s R M T S. assert (0 <= m ^ 2) by apply pow2_ge_0. nra. Qed.

(* ---- C10: a charge is granted only after what others appended was added ---- *)
Inductive granted (T : R) : list R -> Prop :=
  | None_yet : granted T []
  | One_more : forall file x, granted T file -> 0 <= x -> fold_right Rplus 0 file + x <= T -> granted T (x :: file).

Theorem C10_charges_stay_within_the_total : forall T file, 0 <= T -> granted T file -> 0 <= fold_right Rplus 0 file <= T.
Proof. intros T file P H. induction H; simpl; lra. Qed.

(* What a handle knows is a part of the lines: no handle counts more than the file holds, and none is granted less. *)
Theorem C10_a_prefix_counts_less : forall T more known, granted T (more ++ known) ->
  fold_right Rplus 0 known <= fold_right Rplus 0 (more ++ known).
Proof.
  intros T more known H. induction more as [|x more IH]; simpl in *; [lra|].
  inversion H; subst. specialize (IH H2). lra.
Qed.

(* ---- C54, C55, C67, C78, C85: one law of bytes, folds or choices for both tables ---- *)
(* Given the bytes the pair is private; so it is on average, for every e and so for every Gaussian guarantee (C2). *)
Theorem C55_mixture : forall k (law p q : nat -> R) e d, (forall i, 0 <= law i) -> sum k law = 1 ->
  (forall i, p i <= e * q i + d) -> sum k (fun i => law i * p i) <= e * sum k (fun i => law i * q i) + d.
Proof.
  intros k law p q e d L S H.
  apply Rle_trans with (sum k (fun i => e * (law i * q i) + d * law i)).
  - apply sum_le. intros i _. specialize (H i). specialize (L i). nra.
  - rewrite sum_add, !sum_scale, S. lra.
Qed.

(* A record is in a sample or it is not: samples of neighbours are neighbours, or the same. *)
Theorem C85_samples_of_neighbours : forall record (seen : record -> bool) (drop : record -> record) n X X',
  neighbours n X X' ->
  neighbours n (fun i => if seen (X i) then X i else drop (X i)) (fun i => if seen (X' i) then X' i else drop (X' i)).
Proof. intros record seen drop n X X' [k [L H]]. exists k. split; [exact L|]. intros i I N. rewrite (H i I N). reflexivity. Qed.

(* ---- C80, C81, C60 (a), C71, C79, D5, K6, R11, T7: what is made of one record ---- *)
Theorem C80_made_of_one_record : forall record made (row : nat -> record -> made) n X X', neighbours n X X' ->
  neighbours n (fun i => row i (X i)) (fun i => row i (X' i)).
Proof. intros record made row n X X' [k [L H]]. exists k. split; [exact L|]. intros i I N. rewrite (H i I N). reflexivity. Qed.

(* An offset is a part of the response of a residual. *)
Theorem C71_residual : forall y predictor offset, y - (predictor + offset) = (y - offset) - predictor.
Proof. intros. ring. Qed.

(* ---- C47: a person with m rows ---- *)
Theorem C47_group : forall (S : space) m (x : nat -> vector S) D, (forall k, norm (sub (x k) (x (Datatypes.S k))) <= D) ->
  norm (sub (x O) (x m)) <= INR m * D.
Proof.
  intros S m x D H. induction m.
  - rewrite (same_norm _ zero); [rewrite norm_zero; simpl; lra|]. intro z. rewrite inner_sub, inner_zero. ring.
  - rewrite S_INR. pose proof (triangle3 (x O) (x m) (x (Datatypes.S m))). specialize (H m). lra.
Qed.

(* ---- C54: k - 1 fits and one score, squares of mu ---- *)
Theorem C54_cost : forall k fit score M, (1 <= k)%nat -> (INR k - 1) * fit ^ 2 + score ^ 2 <= M ->
  sum (k - 1) (fun _ => fit ^ 2) + score ^ 2 <= M.
Proof. intros k fit score M K H. rewrite sum_const, minus_INR by exact K. simpl INR. lra. Qed.

(* ---- K8: a change of the mean loss along a line ---- *)
Theorem K8_part_of_a_record : forall (S : space) (g step : vector S) c r, norm g <= c -> norm step <= r -> 0 <= c ->
  Rabs (inner g step) <= c * r.
Proof.
  intros S g s c r G R0 C. eapply Rle_trans; [apply cauchy_schwarz|].
  apply Rmult_le_compat; try apply norm_pos; assumption.
Qed.

(* ---- G8: the parts of a search ---- *)
Theorem G8_parts : forall mu, let gradients := PORTFOLIO_GRADIENTS * (1 - ROUNDING_SUM) in
  (PORTFOLIO_RANGE * mu) ^ 2 + (PORTFOLIO_CHOICE * mu) ^ 2 + (PORTFOLIO_VALUES * mu) ^ 2 + (gradients * mu) ^ 2 <= mu ^ 2.
Proof.
  intros mu gradients.
  assert (P : PORTFOLIO_RANGE ^ 2 + PORTFOLIO_CHOICE ^ 2 + PORTFOLIO_VALUES ^ 2 + gradients ^ 2 <= 1).
  { unfold gradients, PORTFOLIO_RANGE, PORTFOLIO_CHOICE, PORTFOLIO_VALUES, PORTFOLIO_GRADIENTS, ROUNDING_SUM. lra. }
  pose proof (pow2_ge_0 mu). nra.
Qed.

Theorem G8_values_alone : forall mu, let values := PORTFOLIO_VALUES_ALONE * (1 - ROUNDING_SUM) in
  (PORTFOLIO_RANGE * mu) ^ 2 + (PORTFOLIO_CHOICE * mu) ^ 2 + (values * mu) ^ 2 <= mu ^ 2.
Proof.
  intros mu values.
  assert (P : PORTFOLIO_RANGE ^ 2 + PORTFOLIO_CHOICE ^ 2 + values ^ 2 <= 1).
  { unfold values, PORTFOLIO_RANGE, PORTFOLIO_CHOICE, PORTFOLIO_VALUES_ALONE, ROUNDING_SUM. lra. }
  pose proof (pow2_ge_0 mu). nra.
Qed.
