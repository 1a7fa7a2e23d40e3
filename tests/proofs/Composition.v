(* Adaptive composition and its filter, and conversions: claims C7 to C9, C45, C65, C86, C87. *)
Require Import Reals Lra Psatz Lia.
From dpfast Require Import Meaning Vectors Formulas Sums Joint.
Open Scope R_scope.

(* ---- C9, (epsilon, delta) and pure: finitely many answers, each query chosen after them ---- *)
Inductive run :=
  | Stop (reported : bool)
  | Ask (e d : R) (answers : nat) (p q : nat -> R) (next : nat -> run).

(* The probability of an event, which is a set of paths, for either of two neighbouring tables. *)
Fixpoint probability (first : bool) (r : run) : R :=
  match r with
  | Stop reported => if reported then 1 else 0
  | Ask _ _ k p q next => sum k (fun i => (if first then p i else q i) * probability first (next i))
  end.

(* Each answer is as private as it is charged, and charges stay within (E, D) along every path. *)
Fixpoint private_within (E D : R) (r : run) : Prop :=
  match r with
  | Stop _ => 0 <= E /\ 0 <= D
  | Ask e d k p q next =>
      0 <= d /\ (forall i, 0 <= p i) /\ (forall i, 0 <= q i) /\ sum k p = 1 /\ sum k q = 1 /\
      sum k (fun i => Rmax 0 (p i - exp e * q i)) <= d /\
      forall i, private_within (E - e) (D - d) (next i)
  end.

Lemma probability_is_one : forall first r E D, private_within E D r -> 0 <= probability first r <= 1.
Proof.
  intros first r. induction r as [reported | e d k p q next IH]; intros E D H; simpl in *.
  - destruct reported; lra.
  - destruct H as [_ [P [Q [SP [SQ [_ N]]]]]].
    assert (W : forall i, 0 <= (if first then p i else q i)) by (intro; destruct first; auto).
    assert (S1 : sum k (fun i => if first then p i else q i) = 1) by (destruct first; assumption).
    split.
    + apply sum_pos. intros i _. apply Rmult_le_pos; [apply W | apply (IH i _ _ (N i))].
    + rewrite <- S1. apply sum_le. intros i _. pose proof (IH i _ _ (N i)). specialize (W i). nra.
Qed.

Lemma left_over : forall r E D, private_within E D r -> 0 <= D.
Proof.
  induction r as [reported | e d k p q next IH]; intros E D H; simpl in H; [lra|].
  destruct H as [Dp [_ [_ [_ [_ [_ N]]]]]]. specialize (IH O _ _ (N O)). lra.
Qed.

Theorem C9_filter_of_pairs : forall r E D, private_within E D r ->
  probability true r <= exp E * probability false r + D.
Proof.
  induction r as [reported | e d k p q next IH]; intros E D H.
  - simpl in *. destruct reported; [|lra].
    pose proof (exp_ineq1_le E). lra.
  - pose proof H as Whole. simpl in H. destruct H as [Dp [P [Q [SP [SQ [Pr N]]]]]].
    assert (Dd : 0 <= D - d) by apply (left_over _ _ _ (N O)).
    simpl probability.
    apply Rle_trans with (sum k (fun i => exp E * (q i * probability false (next i)) + ((D - d) * p i
      + Rmax 0 (p i - exp e * q i)))).
    + apply sum_le. intros i _. specialize (IH i _ _ (N i)).
      pose proof (probability_is_one true (next i) _ _ (N i)) as One.
      pose proof (probability_is_one false (next i) _ _ (N i)) as One'.
      specialize (P i). specialize (Q i). set (x := probability true (next i)) in *.
      set (y := probability false (next i)) in *.
      assert (EE : exp E = exp e * exp (E - e)) by (rewrite <- exp_plus; f_equal; ring).
      pose proof (exp_pos e). pose proof (exp_pos (E - e)).
      assert (Y0 : 0 <= exp (E - e) * y) by (apply Rmult_le_pos; lra).
      destruct (Rle_or_lt (p i) (exp e * q i)) as [L | G].
      * assert (p i * x <= p i * (exp (E - e) * y + (D - d))) by (apply Rmult_le_compat_l; assumption).
        assert (p i * (exp (E - e) * y) <= exp e * q i * (exp (E - e) * y)) by (apply Rmult_le_compat_r; assumption).
        pose proof (Rmax_l 0 (p i - exp e * q i)). rewrite EE.
        replace (exp e * exp (E - e) * (q i * y)) with (exp e * q i * (exp (E - e) * y)) by ring. lra.
      * rewrite Rmax_right by lra.
        assert (exp e * q i * x <= exp e * q i * (exp (E - e) * y + (D - d))).
        { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | assumption]. }
        assert ((p i - exp e * q i) * x <= (p i - exp e * q i) * 1) by (apply Rmult_le_compat_l; lra).
        assert (exp e * q i * (D - d) <= p i * (D - d)) by (apply Rmult_le_compat_r; lra).
        rewrite EE. replace (exp e * exp (E - e) * (q i * y)) with (exp e * q i * (exp (E - e) * y)) by ring. lra.
    + rewrite sum_add, sum_scale, sum_add, sum_scale, SP. lra.
Qed.

(* ---- C9, zCDP: the moment of order a of a transcript, whose answers have weights p^a q^(1 - a) ---- *)
Inductive plan := Done | Query (rho : R) (answers : nat) (weight : nat -> R) (next : nat -> plan).

Fixpoint moment (r : plan) : R :=
  match r with Done => 1 | Query _ k w next => sum k (fun i => w i * moment (next i)) end.

Fixpoint moments_within (c M : R) (r : plan) : Prop :=
  match r with
  | Done => 0 <= M
  | Query rho k w next => (forall i, 0 <= w i) /\ sum k w <= exp (c * rho) /\
      forall i, moments_within c (M - rho) (next i)
  end.

(* With c = a (a - 1): the Renyi divergence of order a is a M at most, whatever was asked. *)
Theorem C9_filter_of_zcdp : forall c r M, 0 <= c -> moments_within c M r -> moment r <= exp (c * M).
Proof.
  intros c r. induction r as [|rho k w next IH]; intros M C H; simpl in *.
  - pose proof (exp_ineq1_le (c * M)). assert (0 <= c * M) by (apply Rmult_le_pos; assumption). lra.
  - destruct H as [W [S N]].
    apply Rle_trans with (sum k (fun i => exp (c * (M - rho)) * w i)).
    + apply sum_le. intros i _. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply W | apply IH; [exact C | apply N]].
    + rewrite sum_scale. replace (exp (c * M)) with (exp (c * (M - rho)) * exp (c * rho))
        by (rewrite <- exp_plus; f_equal; ring).
      apply Rmult_le_compat_l; [apply Rlt_le, exp_pos | exact S].
Qed.

(* ---- C9, Gaussian DP ---- *)
(* By Blackwell's theorem a release that is mu-GDP is a function of one normal with mean 0 or mu, so an
   analyst's transcript is a function of what this tree shows: normals, each with a mu chosen after the
   ones before it. *)
Inductive analyst := Finished | Normal (mu : R) (next : R -> analyst).

Fixpoint within (M : R) (t : analyst) : Prop :=
  match t with Finished => 0 <= M | Normal mu next => forall z, within (M - mu ^ 2) (next z) end.

(* At the end one normal more, for what is left of the total: more is seen. *)
Fixpoint pad (M : R) (t : analyst) : analyst :=
  match t with
  | Finished => Normal (sqrt M) (fun _ => Finished)
  | Normal mu next => Normal mu (fun z => pad (M - mu ^ 2) (next z))
  end.

Section Gauss.
(* The expectation over a standard normal, of which only Gauss's integral is used. *)
Variable E : (R -> R) -> R.
Hypothesis E_of_equal : forall f g, (forall z, f z = g z) -> E f = E g.
Hypothesis Gauss : forall c b, E (fun z => c * exp (b * z)) = c * exp (b ^ 2 / 2).

(* E exp(a L), L the logarithm of the likelihood ratio of all that is seen, under the first table. *)
Fixpoint generating (a : R) (t : analyst) : R :=
  match t with
  | Finished => 1
  | Normal mu next => E (fun z => exp (a * (mu * z - mu ^ 2 / 2)) * generating a (next z))
  end.

(* Whatever the analyst asks after which answers, L has the moments of N(0, 1) against N(sqrt M, 1). *)
Theorem C9_likelihood_ratio : forall a t M, within M t ->
  generating a (pad M t) = exp (a * (a - 1) * M / 2).
Proof.
  intros a t. induction t as [|mu next IH]; intros M W.
  - simpl in *. rewrite (E_of_equal _ (fun z => exp (- (a * (sqrt M * (sqrt M * 1) / 2))) * exp (a * sqrt M * z))).
    + rewrite Gauss, <- exp_plus. f_equal.
      assert (R2 : sqrt M * sqrt M = M) by (apply sqrt_sqrt; exact W).
      replace (a * sqrt M * (a * sqrt M * 1)) with (a * a * (sqrt M * sqrt M)) by ring.
      replace (sqrt M * (sqrt M * 1)) with (sqrt M * sqrt M) by ring. rewrite R2. field.
    + intro z. rewrite Rmult_1_r, <- exp_plus. f_equal. ring.
  - simpl in W. cbn [pad generating].
    rewrite (E_of_equal _ (fun z => exp (a * (a - 1) * (M - mu ^ 2) / 2 - a * (mu ^ 2 / 2)) * exp (a * mu * z))).
    + rewrite Gauss, <- exp_plus. f_equal. field.
    + intro z. rewrite (IH z (M - mu ^ 2) (W z)), <- !exp_plus. f_equal. field.
Qed.

(* So the transcript is sqrt(M)-GDP, given Blackwell's theorem: what has the likelihood ratio of N(0, 1)
   against N(m, 1) is m-GDP, and what is a function of something m-GDP is m-GDP. *)
Variable gdp : R -> analyst -> Prop.
Hypothesis Blackwell : forall m t, (forall a, generating a t = exp (a * (a - 1) * m ^ 2 / 2)) -> gdp m t.
Hypothesis less_is_seen : forall m M t, gdp m (pad M t) -> gdp m t.

Theorem C9_filter_of_gdp : forall t mu, 0 <= mu -> within (mu ^ 2) t -> gdp mu t.
Proof.
  intros t mu P W. apply (less_is_seen mu (mu ^ 2)). apply Blackwell. intro a.
  apply C9_likelihood_ratio. exact W.
Qed.
End Gauss.

(* ---- conversions ---- *)
Theorem C7_tail : forall b v, 0 < b -> 0 < v < 1 ->
  ln (1 - v) + b * ln v <= b * ln b - (1 + b) * ln (1 + b).
Proof.
  intros b v B V.
  assert (L : forall x, 0 < x -> ln x <= x - 1).
  { intros x X. pose proof (exp_ineq1_le (ln x)) as H. rewrite exp_ln in H by assumption. lra. }
  pose proof (L ((1 - v) * (1 + b)) ltac:(apply Rmult_lt_0_compat; lra)) as L1.
  assert (I : 0 < (1 + b) / b) by (apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat; lra]).
  pose proof (L (v * ((1 + b) / b)) ltac:(apply Rmult_lt_0_compat; lra)) as L2.
  rewrite ln_mult in L1 by lra. rewrite ln_mult in L2 by lra.
  unfold Rdiv in L2. rewrite ln_mult, ln_Rinv in L2 by (try apply Rinv_0_lt_compat; lra).
  assert (b * (ln v + (ln (1 + b) + - ln b)) <= b * (v * ((1 + b) * / b) - 1)) by (apply Rmult_le_compat_l; lra).
  replace (b * (v * ((1 + b) * / b) - 1)) with (v * (1 + b) - b) in H by (field; lra). lra.
Qed.

Theorem C8_smaller_epsilon : forall e e', e' <= e ->
  let better := exp e / (1 + exp e) in let worse := 1 / (1 + exp e) in
  better = exp e' * worse + (exp e - exp e') / (1 + exp e) /\ 0 <= (exp e - exp e') / (1 + exp e).
Proof.
  intros e e' L better worse. pose proof (exp_pos e). split.
  - unfold better, worse. field. lra.
  - assert (exp e' <= exp e) by (destruct L as [L | ->]; [left; apply exp_increasing; exact L | lra]).
    apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra].
Qed.

(* C45: p and q are the rates of an attack for the two tables. *)
Theorem C45_power_of_pairs : forall e d p q, 0 <= q ->
  p <= exp e * q + d -> 1 - q <= exp e * (1 - p) + d -> p <= 1 - exp (- e) * (1 - d - q).
Proof.
  intros e d p q Q A B. assert (X : exp (- e) * exp e = 1) by (rewrite <- exp_plus, Rplus_opp_l; apply exp_0).
  pose proof (exp_pos (- e)).
  assert (exp (- e) * (1 - q - d) <= exp (- e) * (exp e * (1 - p))) by (apply Rmult_le_compat_l; lra).
  replace (exp (- e) * (exp e * (1 - p))) with (1 - p) in * by (rewrite <- Rmult_assoc, X; ring). lra.
Qed.

(* C87: children's losses add up. *)
Theorem C87_children : forall s t, 
  Rmax 0 (1 - exp (- (s + t))) <= Rmax 0 (1 - exp (- s)) + Rmax 0 (1 - exp (- t)).
Proof.
  intros s t. pose proof (Rmax_l 0 (1 - exp (- s))). pose proof (Rmax_r 0 (1 - exp (- s))).
  pose proof (Rmax_l 0 (1 - exp (- t))). pose proof (Rmax_r 0 (1 - exp (- t))).
  apply Rmax_lub; [lra|].
  replace (- (s + t)) with (- s + - t) by ring. rewrite exp_plus.
  pose proof (exp_pos (- s)). pose proof (exp_pos (- t)).
  set (x := exp (- s)) in *. set (y := exp (- t)) in *.
  destruct (Rle_or_lt x 1), (Rle_or_lt y 1); nra.
Qed.

(* ---- C65: margins for rounding ---- *)
Lemma bernoulli : forall k u, 0 <= u <= 1 -> 1 - INR k * u <= (1 - u) ^ k.
Proof.
  induction k; intros u U; [simpl; lra|]. rewrite S_INR. specialize (IHk u U). simpl pow.
  pose proof (pos_INR k). assert (0 <= (1 - u) ^ k) by (apply pow_le; lra).
  assert ((1 - u) * (1 - INR k * u) <= (1 - u) * (1 - u) ^ k) by (apply Rmult_le_compat_l; lra). nra.
Qed.

(* What is computed with k roundings, and raised by the margin, itself one rounding more, is enough. *)
Theorem C65_margin : forall k e y x, 0 <= y -> 0 <= e <= / 2 ^ 27 -> INR (k + 2) * UNIT_ROUNDOFF <= e ->
  y * (1 - UNIT_ROUNDOFF) ^ k <= x -> y <= x * (1 + e) * (1 - UNIT_ROUNDOFF).
Proof.
  intros k e y x Y [E0 E1] K X. set (u := UNIT_ROUNDOFF) in *.
  assert (U : 0 <= u <= 1) by (unfold u, UNIT_ROUNDOFF; lra).
  assert (U' : e * e <= u / 2) by (unfold u, UNIT_ROUNDOFF; nra).
  pose proof (bernoulli (Datatypes.S k) u U) as B. rewrite S_INR in B. simpl pow in B.
  rewrite plus_INR in K. simpl INR in K. pose proof (pos_INR k).
  apply Rle_trans with (y * (1 - u) ^ k * (1 + e) * (1 - u)).
  - replace (y * (1 - u) ^ k * (1 + e) * (1 - u)) with (y * ((1 - u) * (1 - u) ^ k * (1 + e))) by ring.
    rewrite <- (Rmult_1_r y) at 1. apply Rmult_le_compat_l; [exact Y|].
    assert ((1 - (INR k + 1) * u) * (1 + e) <= (1 - u) * (1 - u) ^ k * (1 + e)) by (apply Rmult_le_compat_r; lra).
    assert (1 <= (1 - (INR k + 1) * u) * (1 + e)); [|lra].
    assert ((INR k + 1) * u <= e - u) by lra.
    assert ((INR k + 1) * u * (1 + e) <= (e - u) * (1 + e)) by (apply Rmult_le_compat_r; lra). nra.
  - apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_r; [lra | exact X].
Qed.

Theorem C65_margins : INR (6 + 2) * UNIT_ROUNDOFF <= ROUNDING_PRODUCT
  /\ INR (30 + 2) * UNIT_ROUNDOFF <= ROUNDING_FORMULA /\ INR (510 + 2) * UNIT_ROUNDOFF <= ROUNDING_ELEMENTARY
  /\ 8192 * UNIT_ROUNDOFF <= ROUNDING_SUM
  /\ UP = 1 + ROUNDING_FORMULA /\ DOWN = 1 - ROUNDING_FORMULA.
Proof.
  unfold UNIT_ROUNDOFF, ROUNDING_PRODUCT, ROUNDING_FORMULA, ROUNDING_ELEMENTARY, ROUNDING_SUM, UP, DOWN.
  rewrite !INR_IZR_INZ. simpl IZR. repeat split; lra.
Qed.

(* C86: four roundings of a scale that is raised by 32 u, beside a grid of cost g of which 2^-40 is spare. *)
Theorem C86_mechanism : forall mu g, 0 < g -> g * (1 + / 2 ^ 40) < mu ->
  (mu - g * (1 + / 2 ^ 40)) * (1 + 4 * UNIT_ROUNDOFF) + g * (1 + 32 * UNIT_ROUNDOFF)
    <= (1 - 6 * UNIT_ROUNDOFF) * mu * (1 + 32 * UNIT_ROUNDOFF).
Proof. intros. unfold UNIT_ROUNDOFF. nra. Qed.
