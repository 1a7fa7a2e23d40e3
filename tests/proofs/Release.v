(* Releases of one parameter: claims R1 to R7, R12, R20, R22, R26, R28, R29, R35, R38 and R40; scores of the
   gamma loss (C93) and of losses of one's own (C31); coefficients and scale together (C34 to C36). *)
Require Import Reals Lra Psatz Lia List.
From Coquelicot Require Import Coquelicot.
From dpfast Require Import Meaning Vectors Formulas Sums Joint Losses.
Open Scope R_scope.

Lemma log_below : forall x, 0 < x -> ln x <= x - 1.
Proof. intros x X. pose proof (exp_ineq1_le (ln x)) as H. rewrite exp_ln in H by assumption. lra. Qed.

(* ---- R1: slopes of self-concordant losses ---- *)
Section R1.
Variables h1 h2 h3 : R -> R.
Variables c B1 : R.
Hypothesis slope : forall t, is_derive h1 t (h2 t).
Hypothesis curvature : forall t, is_derive h2 t (h3 t).
Hypothesis convex : forall t, 0 <= h2 t.
Hypothesis concordant : forall t, Rabs (h3 t) <= c * h2 t.
Hypothesis C : 0 < c.
Hypothesis bounded : forall t, Rabs (h1 t) <= B1.

Lemma turned : forall e t, is_derive (fun s => h2 s * exp (e * s)) t ((h3 t + e * h2 t) * exp (e * t)).
Proof.
  intros e t. pose proof (curvature t) as D. auto_derive; [exists (h3 t); exact D|]. known D. ring.
Qed.

Theorem R1_curvature_falls : forall t s, 0 <= s -> h2 t * exp (- (c * s)) <= h2 (t + s).
Proof.
  intros t s S. assert (L : h2 t * exp (c * t) <= h2 (t + s) * exp (c * (t + s))).
  { apply (rises (fun s => h2 s * exp (c * s)) (fun s => (h3 s + c * h2 s) * exp (c * s))); [lra | intros; apply turned |].
    intros x _. apply Rmult_le_pos; [|apply Rlt_le, exp_pos]. pose proof (concordant x) as K.
    unfold Rabs in K. destruct (Rcase_abs (h3 x)); lra. }
  replace (c * (t + s)) with (c * t + c * s) in L by ring. rewrite exp_plus in L.
  apply Rmult_le_reg_r with (exp (c * t) * exp (c * s)); [apply Rmult_lt_0_compat; apply exp_pos|].
  replace (h2 t * exp (- (c * s)) * (exp (c * t) * exp (c * s))) with (h2 t * exp (c * t) * (exp (- (c * s)) * exp (c * s))) by ring.
  rewrite <- exp_plus, Rplus_opp_l, exp_0. lra.
Qed.

Theorem R1_curvature_rises : forall t s, 0 <= s -> h2 (t + s) <= h2 t * exp (c * s).
Proof.
  intros t s S.
  assert (L : - (h2 t * exp (- c * t)) <= - (h2 (t + s) * exp (- c * (t + s)))).
  { apply (rises (fun s => - (h2 s * exp (- c * s))) (fun s => - ((h3 s + - c * h2 s) * exp (- c * s)))); [lra | |].
    - intros x _. apply (is_derive_opp (fun s => h2 s * exp (- c * s))). apply turned.
    - intros x _. pose proof (concordant x) as K. pose proof (exp_pos (- c * x)).
      assert (h3 x + - c * h2 x <= 0) by (unfold Rabs in K; destruct (Rcase_abs (h3 x)); lra). nra. }
  replace (- c * (t + s)) with (- c * t + - c * s) in L by ring. rewrite exp_plus in L.
  pose proof (exp_pos (- c * t)) as P. pose proof (exp_pos (c * s)) as P'.
  assert (E : exp (- c * s) * exp (c * s) = 1) by (rewrite <- exp_plus; replace (- c * s + c * s) with 0 by ring; apply exp_0).
  apply Rmult_le_reg_r with (exp (- c * t) * exp (- c * s)).
  { apply Rmult_lt_0_compat; [exact P | apply exp_pos]. }
  replace (h2 t * exp (c * s) * (exp (- c * t) * exp (- c * s))) with (h2 t * exp (- c * t) * (exp (- c * s) * exp (c * s))) by ring.
  rewrite E. lra.
Qed.

Lemma gained : forall t T, 0 <= T -> h2 t * (1 - exp (- (c * T))) / c <= h1 (t + T) - h1 t.
Proof.
  intros t T P.
  assert (L : h1 (t + 0) - h2 t * (1 - exp (- (c * 0))) / c <= h1 (t + T) - h2 t * (1 - exp (- (c * T))) / c).
  { apply (rises (fun s => h1 (t + s) - h2 t * (1 - exp (- (c * s))) / c) (fun s => h2 (t + s) - h2 t * exp (- (c * s)))); [exact P | |].
    - intros s _. pose proof (slope (t + s)) as D. auto_derive; [eexists; exact D|]. known D. field. lra.
    - intros s [S _]. pose proof (R1_curvature_falls t s S). lra. }
  rewrite Rplus_0_r, Rmult_0_r, Ropp_0, exp_0 in L. unfold Rdiv in *. lra.
Qed.

Theorem R1_curvature_below_the_slope : forall t, h2 t <= c * (B1 - h1 t).
Proof.
  intro t. apply le_epsilon. intros e E. pose proof (convex t).
  set (T := h2 t / (c * e)). assert (T0 : 0 <= T) by (apply Rmult_le_pos; [assumption | apply Rlt_le, Rinv_0_lt_compat; nra]).
  pose proof (gained t T T0) as G. pose proof (bounded (t + T)) as B. pose proof (Rle_abs (h1 (t + T))).
  assert (X : h2 t * exp (- (c * T)) <= e).
  { rewrite exp_Ropp. pose proof (exp_ineq1_le (c * T)) as K.
    assert (CT : c * T = h2 t / e) by (unfold T; field; lra). rewrite CT in *.
    pose proof (exp_pos (h2 t / e)). apply Rmult_le_reg_r with (exp (h2 t / e)); [assumption|].
    rewrite Rmult_assoc, Rinv_l by lra.
    assert (e * (1 + h2 t / e) <= e * exp (h2 t / e)) by (apply Rmult_le_compat_l; lra).
    replace (e * (1 + h2 t / e)) with (e + h2 t) in * by (field; lra). lra. }
  assert (h2 t * (1 - exp (- (c * T))) / c * c <= (B1 - h1 t) * c) by (apply Rmult_le_compat_r; lra).
  replace (h2 t * (1 - exp (- (c * T))) / c * c) with (h2 t - h2 t * exp (- (c * T))) in * by (field; lra). lra.
Qed.
End R1.

(* ---- R2, the parts that are about numbers: q = 2 c B1 L/n, u = - log(1 - q) ---- *)
Theorem R2_existence : forall q t, q < 1 -> - ln (1 - q) < t -> q < 1 - exp (- t).
Proof.
  intros q t Q T. assert (exp (- t) < 1 - q); [|lra].
  rewrite <- (exp_ln (1 - q)) by lra. apply exp_increasing. lra.
Qed.

(* The Hessian shrinks to at least m, and grows to at most e^t + y, where y is one record's part. *)
Theorem R2_upper_hessian : forall t y q, 0 <= t -> 0 <= y -> q < 1 -> 1 - q <= exp (- t) - y -> exp t + y <= / (1 - q).
Proof.
  intros t y q T Y Q M. set (m := exp (- t) - y) in *.
  assert (E : exp t * exp (- t) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  assert (1 <= exp t) by (pose proof (exp_ineq1_le t); lra). pose proof (exp_pos (- t)).
  assert (exp (- t) <= 1) by nra.
  assert (P : m * (exp t + y) <= 1) by (unfold m; nra).
  apply Rle_trans with (/ m).
  - apply Rmult_le_reg_l with m; [lra|]. rewrite Rinv_r by lra. exact P.
  - apply Rinv_le_contravar; lra.
Qed.

(* ---- R3: from (ii) of R2 for both of two neighbours ---- *)
Theorem R3_eigenvalue_step : forall c B1 r n lam lam', 0 < c -> 0 < B1 -> 0 < r -> 1 <= n -> 0 <= lam -> 0 <= lam' ->
  (0 < lam -> 2 * c * B1 * (r ^ 2 / lam) / n < 1 -> (1 - 2 * c * B1 * (r ^ 2 / lam) / n) * lam <= lam') ->
  (0 < lam' -> 2 * c * B1 * (r ^ 2 / lam') / n < 1 -> (1 - 2 * c * B1 * (r ^ 2 / lam') / n) * lam' <= lam) ->
  Rabs (lam - lam') <= eigenvalue_step c B1 r n.
Proof.
  assert (half : forall c B1 r n lam lam', 0 < c -> 0 < B1 -> 0 < r -> 1 <= n -> 0 <= lam -> 0 <= lam' ->
    (0 < lam -> 2 * c * B1 * (r ^ 2 / lam) / n < 1 -> (1 - 2 * c * B1 * (r ^ 2 / lam) / n) * lam <= lam') ->
    lam - lam' <= 2 * c * B1 * r ^ 2 / n).
  { intros c B1 r n lam lam' C B P N L L' H.
    assert (S : 0 < 2 * c * B1 * r ^ 2 / n) by (apply Rdiv_lt_0_compat; [repeat apply Rmult_lt_0_compat; try lra; nra | lra]).
    destruct (Rle_or_lt lam (2 * c * B1 * r ^ 2 / n)) as [Small | Large]; [lra|].
    assert (E : 2 * c * B1 * (r ^ 2 / lam) / n = 2 * c * B1 * r ^ 2 / n / lam) by (field; lra). rewrite E in H.
    assert (Q : 2 * c * B1 * r ^ 2 / n / lam < 1).
    { apply Rmult_lt_reg_r with lam; [lra|]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    specialize (H ltac:(lra) Q).
    replace ((1 - 2 * c * B1 * r ^ 2 / n / lam) * lam) with (lam - 2 * c * B1 * r ^ 2 / n) in H by (field; lra). lra. }
  intros c B1 r n lam lam' C B P N L L' H H'.
  pose proof (half c B1 r n lam lam' C B P N L L' H). pose proof (half c B1 r n lam' lam C B P N L' L H').
  assert (S : 0 <= 2 * c * B1 * r ^ 2 / n) by (apply Rlt_le, Rdiv_lt_0_compat; [repeat apply Rmult_lt_0_compat; try lra; nra | lra]).
  unfold eigenvalue_step. pose proof up. assert (1 <= ROWS) by (unfold ROWS; lra).
  replace (2 * c * B1 * r * r / n * ROWS * UP) with (2 * c * B1 * r ^ 2 / n * (ROWS * UP)) by (field; lra).
  assert (1 <= ROWS * UP) by nra. apply Rabs_le. split; nra.
Qed.

(* ---- R4: the shift is at most the root ---- *)
Definition pull (m c r lreg t : R) := m * (1 - exp (- (c * r * t))) / (c * r) + lreg * t.

Theorem R4_shift : forall m c r lreg push a t, 0 <= m -> 0 < c -> 0 < r -> 0 <= lreg -> 0 < m + lreg ->
  pull m c r lreg a <= push -> push <= pull m c r lreg t -> a <= t.
Proof.
  intros m c r lreg push a t M C P L S A T. destruct (Rle_or_lt a t) as [H | H]; [exact H | exfalso].
  assert (CR : 0 < c * r) by (apply Rmult_lt_0_compat; assumption).
  assert (E : exp (- (c * r * a)) < exp (- (c * r * t))) by (apply exp_increasing; nra).
  unfold pull in *.
  assert (I : 0 < / (c * r)) by (apply Rinv_0_lt_compat, CR).
  assert (D : 0 < m * (exp (- (c * r * t)) - exp (- (c * r * a))) * / (c * r) + lreg * (a - t)).
  { destruct (Req_dec m 0) as [-> | N].
    - assert (0 < lreg * (a - t)) by (apply Rmult_lt_0_compat; lra). lra.
    - assert (0 < m * (exp (- (c * r * t)) - exp (- (c * r * a))) * / (c * r))
        by (apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; lra | exact I]).
      assert (0 <= lreg * (a - t)) by (apply Rmult_le_pos; lra). lra. }
  unfold Rdiv in *. lra.
Qed.

(* ---- R5 and R28: counts of neighbours, and the bounds made of a noisy count ---- *)
Theorem R5_counts : forall x y (M i j : Z), (0 <= M)%Z -> Rabs (x - y) <= IZR M ->
  IZR i = floor x -> IZR j = floor y -> (Z.abs (i - j) <= M)%Z.
Proof.
  intros x y M i j P D I J.
  pose proof (floor_below x). pose proof (floor_near x). pose proof (floor_below y). pose proof (floor_near y).
  assert (B : Rabs (x - y) <= IZR M) by exact D. unfold Rabs in B.
  assert (IZR (i - j) < IZR (M + 1)) by (rewrite minus_IZR, plus_IZR, I, J; destruct (Rcase_abs (x - y)); lra).
  assert (IZR (j - i) < IZR (M + 1)) by (rewrite minus_IZR, plus_IZR, I, J; destruct (Rcase_abs (x - y)); lra).
  apply lt_IZR in H3. apply lt_IZR in H4. lia.
Qed.

Theorem R5_scaled : forall l l' s eta M, 0 < s -> 0 <= eta -> 0 < M -> Rabs (l - l') <= s + 2 * eta ->
  Rabs (M * Rmax (l - s) 0 / (s + 2 * eta) - M * Rmax (l' - s) 0 / (s + 2 * eta)) <= M.
Proof.
  intros l l' s eta M S E P D.
  replace (M * Rmax (l - s) 0 / (s + 2 * eta) - M * Rmax (l' - s) 0 / (s + 2 * eta))
    with (M / (s + 2 * eta) * (Rmax (l - s) 0 - Rmax (l' - s) 0)) by (field; lra).
  rewrite Rabs_mult, Rabs_pos_eq by (apply Rlt_le, Rdiv_lt_0_compat; lra).
  assert (Rabs (Rmax (l - s) 0 - Rmax (l' - s) 0) <= s + 2 * eta).
  { unfold Rmax, Rabs in *. destruct (Rle_dec (l - s) 0), (Rle_dec (l' - s) 0);
      repeat match goal with |- context [Rcase_abs ?x] => destruct (Rcase_abs x) end; destruct (Rcase_abs (l - l')); lra. }
  apply Rle_trans with (M / (s + 2 * eta) * (s + 2 * eta)); [|right; field; lra].
  apply Rmult_le_compat_l; [apply Rlt_le, Rdiv_lt_0_compat|]; lra.
Qed.

Theorem R5_lower_bound : forall lam l s eta M N noise k, 0 < s -> 0 <= eta -> 0 < M -> Rabs (l - lam) <= eta ->
  N <= M * Rmax (l - s) 0 / (s + 2 * eta) -> noise <= k -> 0 < N + noise - k ->
  (N + noise - k) * (s + 2 * eta) / M + s - eta <= lam.
Proof.
  intros lam l s eta M N noise k S E P D C K Pos.
  assert (Q : (N + noise - k) * (s + 2 * eta) / M <= Rmax (l - s) 0).
  { apply Rle_trans with (M * Rmax (l - s) 0 / (s + 2 * eta) * (s + 2 * eta) / M); [|right; field; lra].
    unfold Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, P|]. apply Rmult_le_compat_r; [lra|].
    unfold Rdiv in C. lra. }
  assert (0 < (N + noise - k) * (s + 2 * eta) / M) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra | exact P]).
  unfold Rmax in Q. unfold Rabs in D. destruct (Rle_dec (l - s) 0), (Rcase_abs (l - lam)); lra.
Qed.

(* Discrete Laplace noise: its mass beyond k, whose sum over everything is (1 + x)/(1 - x). *)
Theorem R5_tail : forall a k N, 0 < a ->
  sum N (fun j => exp (- a * (k + 1 + INR j))) * ((1 - exp (- a)) / (1 + exp (- a))) <= exp (- a * (k + 1)) / (1 + exp (- a)).
Proof.
  intros a k N A. pose proof (exp_pos (- a)) as X. set (x := exp (- a)) in *.
  assert (S : sum N (fun j => exp (- a * (k + 1 + INR j))) * (1 - x) = exp (- a * (k + 1)) - exp (- a * (k + 1 + INR N))).
  { induction N; [simpl; rewrite Rplus_0_r; ring|]. cbn [sum]. rewrite Rmult_plus_distr_r, IHN, S_INR.
    replace (- a * (k + 1 + (INR N + 1))) with (- a * (k + 1 + INR N) + - a) by ring. rewrite exp_plus. fold x. ring. }
  unfold Rdiv. rewrite <- Rmult_assoc, S. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra|].
  pose proof (exp_pos (- a * (k + 1 + INR N))). lra.
Qed.

Theorem R28_largest : forall lam high lc step error M N noise k, 0 < lam -> 0 < high -> 0 < step -> 0 < M ->
  Rabs (lc - ln lam) <= error -> N <= M * (ln high - lc) / step -> noise <= k ->
  lam <= high * exp (- ((N + noise - k) * step / M - error)).
Proof.
  intros lam high lc step error M N noise k L H S P D C K.
  assert (Q : (N + noise - k) * step / M <= ln high - lc).
  { apply Rle_trans with (M * (ln high - lc) / step * step / M); [|right; field; lra].
    unfold Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, P|]. apply Rmult_le_compat_r; [lra|].
    unfold Rdiv in C. lra. }
  rewrite <- (exp_ln high) at 1 by assumption. rewrite <- exp_plus. rewrite <- (exp_ln lam) at 1 by assumption.
  assert (X : ln lam <= ln high + - ((N + noise - k) * step / M - error)).
  { unfold Rabs in D. destruct (Rcase_abs (lc - ln lam)); lra. }
  destruct X as [X | ->]; [left; apply exp_increasing; exact X | right; reflexivity].
Qed.

(* ---- R7: a form between zero and the inner product ---- *)
Section R7.
Context {S : space}.
Notation V := (vector S).
Variable form : V -> V -> R.
Hypothesis form_sym : forall x y, form x y = form y x.
Hypothesis form_add : forall x y z, form (add x y) z = form x z + form y z.
Hypothesis form_scale : forall c x z, form (scale c x) z = c * form x z.
Hypothesis form_range : forall x, 0 <= form x x <= inner x x.

Theorem R7_forms_of_unit_vectors : forall a b : V, norm2 a = 1 -> norm2 b = 1 ->
  - (1 - inner a b) / 2 <= form a b <= (1 + inner a b) / 2.
Proof.
  intros a b A B.
  assert (P : forall c, form (add a (scale c b)) (add a (scale c b)) = form a a + 2 * c * form a b + c * c * form b b).
  { intro c. rewrite form_add, form_scale, (form_sym a (add _ _)), (form_sym b (add _ _)), !form_add, !form_scale, (form_sym b a). ring. }
  assert (Q : forall c, inner (add a (scale c b)) (add a (scale c b)) = 1 + 2 * c * inner a b + c * c).
  { intro c. pose proof (norm2_add a (scale c b)) as N. unfold norm2 in N at 1. rewrite N, norm2_scale, A, B.
    rewrite (inner_sym S a), inner_scale, (inner_sym S b a). ring. }
  pose proof (form_range (add a (scale 1 b))) as R1. pose proof (form_range (add a (scale (-1) b))) as R2.
  rewrite P, Q in R1, R2. lra.
Qed.
End R7.

(* ---- R12: any nondecreasing minorant counts with sensitivity one ---- *)
Fixpoint times (S : R -> R) (m : nat) (l : R) : R := match m with O => l | Datatypes.S k => times S k (S l) end.

Theorem R12_counts : forall S, (forall x y, x <= y -> S x <= S y) ->
  forall l l' m, S l <= l' -> times S m l' <= 0 -> times S (Datatypes.S m) l <= 0.
Proof.
  intros S Mono l l' m N Z.
  assert (K : forall m x y, x <= y -> times S m x <= times S m y).
  { induction m0; intros x y L; simpl; [exact L | apply IHm0, Mono, L]. }
  simpl. eapply Rle_trans; [apply (K m _ _ N) | exact Z].
Qed.

(* ---- R20: the public penalty keeps parameters in a box, and curvature above a floor ---- *)
Theorem R20_box : forall rho kappa lreg theta score bound, 0 < rho -> 0 < kappa -> 0 <= lreg -> Rabs score <= bound ->
  rho / kappa * sinh (kappa * theta) + lreg * theta = - score -> rho / kappa * Rabs (sinh (kappa * theta)) <= bound.
Proof.
  intros rho kappa lreg theta score bound R0 K L B E.
  assert (P : 0 < rho / kappa) by (apply Rdiv_lt_0_compat; assumption).
  assert (sinh_pos : forall x, 0 <= x -> 0 <= sinh x).
  { intros x X. unfold sinh. assert (exp (- x) <= exp x); [|lra].
    destruct (Req_dec x 0) as [-> | N]; [rewrite Ropp_0; lra | left; apply exp_increasing; lra]. }
  assert (odd : forall x, sinh (- x) = - sinh x) by (intro x; unfold sinh; rewrite Ropp_involutive; field).
  destruct (Rle_or_lt 0 theta) as [T | T].
  - pose proof (sinh_pos (kappa * theta) ltac:(nra)). rewrite Rabs_pos_eq by assumption.
    assert (0 <= lreg * theta) by (apply Rmult_le_pos; assumption).
    unfold Rabs in B. destruct (Rcase_abs score); lra.
  - pose proof (sinh_pos (- (kappa * theta)) ltac:(nra)) as Q. rewrite odd in Q.
    rewrite Rabs_left1 by lra.
    assert (0 <= lreg * - theta) by (apply Rmult_le_pos; lra).
    unfold Rabs in B. destruct (Rcase_abs score); lra.
Qed.

Theorem R20_floor : forall rho x, 0 <= rho -> rho <= rho * cosh x.
Proof.
  intros rho x P. assert (1 <= cosh x); [|nra]. unfold cosh.
  assert (E : exp x * exp (- x) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  pose proof (pow2_ge_0 (exp x - exp (- x))). pose proof (exp_pos x). pose proof (exp_pos (- x)). nra.
Qed.

(* ---- R22: laws that are near others ---- *)
Theorem R22_near_laws : forall p q p1 q1 e d t, Rabs (p1 - p) <= t -> Rabs (q1 - q) <= t -> p <= exp e * q + d ->
  p1 <= exp e * q1 + (d + (1 + exp e) * t).
Proof.
  intros p q p1 q1 e d t P Q D. pose proof (exp_pos e).
  assert (exp e * q <= exp e * (q1 + t)).
  { apply Rmult_le_compat_l; [lra|]. unfold Rabs in Q. destruct (Rcase_abs (q1 - q)); lra. }
  unfold Rabs in P. destruct (Rcase_abs (p1 - p)); lra.
Qed.

(* ---- R26: algorithm 7 ---- *)
Theorem R26_shift : forall lam G2 push t, 0 < G2 -> 0 <= lam -> 0 <= t -> 2 * G2 * push <= lam ^ 2 ->
  t <= lam / G2 -> lam * t - G2 * t ^ 2 / 2 <= push -> t <= (lam - sqrt (lam ^ 2 - 2 * G2 * push)) / G2.
Proof.
  intros lam G2 push t G L T A B H. set (r := sqrt (lam ^ 2 - 2 * G2 * push)).
  assert (R2 : r * r = lam ^ 2 - 2 * G2 * push) by (apply sqrt_sqrt; lra). assert (R0 : 0 <= r) by apply sqrt_pos.
  assert (B' : G2 * t <= lam).
  { replace lam with (G2 * (lam / G2)) by (field; lra). apply Rmult_le_compat_l; lra. }
  assert (r * r <= (lam - G2 * t) * (lam - G2 * t)) by nra.
  assert (r <= lam - G2 * t).
  { destruct (Rle_or_lt r (lam - G2 * t)) as [X | X]; [exact X | exfalso]. nra. }
  apply Rmult_le_reg_r with G2; [exact G|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Theorem R26_eigenvalue : forall lam lam' a b, 0 <= a -> 0 <= b -> 0 <= lam -> 0 <= lam' ->
  (a < lam ^ 2 -> sqrt (lam ^ 2 - a) - b <= lam') -> (a < lam' ^ 2 -> sqrt (lam' ^ 2 - a) - b <= lam) ->
  Rabs (lam' - lam) <= sqrt a + b.
Proof.
  assert (half : forall x y a b, 0 <= a -> 0 <= b -> 0 <= x -> 0 <= y ->
    (a < x ^ 2 -> sqrt (x ^ 2 - a) - b <= y) -> x - y <= sqrt a + b).
  { intros x y a b A B X Y H. pose proof (sqrt_pos a) as S. assert (S2 : sqrt a * sqrt a = a) by (apply sqrt_sqrt, A).
    destruct (Rle_or_lt x (sqrt a)) as [L | G]; [lra|].
    specialize (H ltac:(nra)). set (w := sqrt (x ^ 2 - a)) in *.
    assert (W : w * w = x ^ 2 - a) by (apply sqrt_sqrt; nra). assert (0 <= w) by apply sqrt_pos.
    assert (x - w <= sqrt a); [|lra].
    destruct (Rle_or_lt (x - w) (sqrt a)) as [Z | Z]; [exact Z | exfalso]. nra. }
  intros lam lam' a b A B L L' H H'. pose proof (half lam lam' a b A B L L' H). pose proof (half lam' lam a b A B L' L H').
  apply Rabs_le. lra.
Qed.

(* ---- R29: from R6 and Psi <= R D ---- *)
Theorem R29_proportional : forall m k push V D D' Psi ratio shift, 0 < D -> 0 <= k -> 0 <= push -> 0 <= V ->
  Psi <= ratio * D -> Rabs shift <= m * D + k * Psi -> Rabs (D' - cosh V * D) <= sinh V * push * Psi ->
  Rabs shift <= (m + k * ratio) * D /\ Rabs (D' / D - 1) <= cosh V - 1 + sinh V * push * ratio.
Proof.
  intros m k push V D D' Psi ratio shift P K U V0 A B C.
  assert (S : 0 <= sinh V).
  { unfold sinh. assert (exp (- V) <= exp V); [|lra].
    destruct (Req_dec V 0) as [-> | N]; [rewrite Ropp_0; lra | left; apply exp_increasing; lra]. }
  assert (SP : 0 <= sinh V * push) by (apply Rmult_le_pos; assumption).
  assert (C1 : 1 <= cosh V) by (pose proof (R20_floor 1 V ltac:(lra)); lra).
  split.
  - assert (k * Psi <= k * (ratio * D)) by (apply Rmult_le_compat_l; assumption). lra.
  - replace (D' / D - 1) with ((D' - cosh V * D + (cosh V - 1) * D) * / D) by (field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (/ D)) by (apply Rlt_le, Rinv_0_lt_compat, P).
    apply Rmult_le_reg_r with D; [exact P|]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq ((cosh V - 1) * D)) by (apply Rmult_le_pos; lra).
    assert (sinh V * push * Psi <= sinh V * push * (ratio * D)) by (apply Rmult_le_compat_l; assumption). lra.
Qed.

(* ---- R35: certificates whose bounds may fail, and what they allow ---- *)
Inductive certified :=
  | Finished (reported : bool)
  | Query (e d : R) (answers : nat) (p q : nat -> R) (good : nat -> bool) (next : nat -> certified).

(* Under the first table: that the event occurs or some bound fails.  Under the second: that it occurs. *)
Fixpoint chance (first : bool) (r : certified) : R :=
  match r with
  | Finished reported => if reported then 1 else 0
  | Query _ _ k p q good next =>
      sum k (fun i => (if first then p i else q i) * (if good i then chance first (next i) else if first then 1 else 0))
  end.

(* After a good history each answer is private as charged, its failures included; after a bad one nothing is asked. *)
Fixpoint allowed (E D : R) (r : certified) : Prop :=
  match r with
  | Finished _ => 0 <= E /\ 0 <= D
  | Query e d k p q good next =>
      0 <= d /\ d <= D /\ (forall i, 0 <= p i) /\ (forall i, 0 <= q i) /\ sum k p = 1 /\ sum k q = 1 /\
      sum k (fun i => if good i then Rmax 0 (p i - exp e * q i) else p i) <= d /\
      forall i, good i = true -> allowed (E - e) (D - d) (next i)
  end.

Lemma chances : forall first r E D, allowed E D r -> 0 <= chance first r <= 1.
Proof.
  intros first r. induction r as [reported | e d k p q good next IH]; intros E D H; simpl in *.
  - destruct reported; lra.
  - destruct H as [_ [_ [P [Q [SP [SQ [_ N]]]]]]].
    assert (W : forall i, 0 <= (if first then p i else q i)) by (intro; destruct first; auto).
    assert (S1 : sum k (fun i => if first then p i else q i) = 1) by (destruct first; assumption).
    assert (C : forall i, 0 <= (if good i then chance first (next i) else if first then 1 else 0) <= 1).
    { intro i. destruct (good i) eqn:Good; [apply (IH i _ _ (N i Good)) | destruct first; lra]. }
    split.
    + apply sum_pos. intros i _. apply Rmult_le_pos; [apply W | apply C].
    + apply Rle_trans with (sum k (fun i => if first then p i else q i)); [|rewrite S1; lra].
      apply sum_le. intros i _.
      assert (part : forall w c, 0 <= w -> 0 <= c <= 1 -> w * c <= w) by (intros; nra). apply part; [apply W | apply C].
Qed.

Theorem R35_certificates : forall r E D, allowed E D r -> chance true r <= exp E * chance false r + D.
Proof.
  induction r as [reported | e d k p q good next IH]; intros E D H.
  - simpl in *. destruct reported; [|lra]. pose proof (exp_ineq1_le E). lra.
  - pose proof H as Whole. simpl in H. destruct H as [Dp [Dd [P [Q [SP [SQ [Pr N]]]]]]].
    simpl chance.
    apply Rle_trans with (sum k (fun i => exp E * (q i * (if good i then chance false (next i) else 0))
      + ((D - d) * p i + (if good i then Rmax 0 (p i - exp e * q i) else p i)))).
    + apply sum_le. intros i _. specialize (P i). specialize (Q i).
      destruct (good i) eqn:Good; [|nra].
      specialize (IH i _ _ (N i Good)).
      pose proof (chances true (next i) _ _ (N i Good)) as One.
      pose proof (chances false (next i) _ _ (N i Good)) as One'.
      set (x := chance true (next i)) in *. set (y := chance false (next i)) in *.
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

(* ---- R38: a map that shortens vectors by their length alone is a contraction ---- *)
Section R38.
Context {S : space}.
Notation V := (vector S).
Variable knee : R.
Hypothesis K : 0 < knee.
Definition short (t : R) := if leb t knee then t else knee * (1 + ln (t / knee)).

Lemma short_is : forall s t, 0 <= t -> t <= s -> short s - short t <= s - t.
Proof.
  intros s t T L. unfold short. apply leb_cases; intro A; apply leb_cases; intro B; try lra.
  - pose proof (log_below (s / knee) ltac:(apply Rdiv_lt_0_compat; lra)) as Q.
    assert (knee * ln (s / knee) <= knee * (s / knee - 1)) by (apply Rmult_le_compat_l; lra).
    replace (knee * (s / knee - 1)) with (s - knee) in * by (field; lra). lra.
  - pose proof (log_below (s / t) ltac:(apply Rdiv_lt_0_compat; lra)) as Q.
    assert (E : ln (s / knee) = ln (s / t) + ln (t / knee)).
    { rewrite <- ln_mult by (apply Rdiv_lt_0_compat; lra). f_equal. field. lra. }
    rewrite E. assert (N : ln (s / t) <= (s - t) / t) by (replace ((s - t) / t) with (s / t - 1) by (field; lra); exact Q).
    assert (0 <= (s - t) / t) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
    assert (knee * ln (s / t) <= knee * ((s - t) / t)) by (apply Rmult_le_compat_l; lra).
    assert (knee * ((s - t) / t) <= t * ((s - t) / t)) by (apply Rmult_le_compat_r; lra).
    replace (t * ((s - t) / t)) with (s - t) in * by (field; lra). lra.
Qed.

Lemma short_pos : forall t, 0 <= t -> 0 <= short t <= t.
Proof.
  intros t T. split.
  - unfold short. apply leb_cases; intro A; [exact T|]. assert (0 <= ln (t / knee)).
    { rewrite <- ln_1. destruct (Req_dec (t / knee) 1) as [-> | N]; [lra | left; apply ln_increasing; [lra|]].
      assert (1 < t / knee); [|assumption]. apply Rmult_lt_reg_r with knee; [exact K|]. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l by lra. lra. }
    apply Rmult_le_pos; lra.
  - pose proof (short_is t 0 ltac:(lra) T) as L.
    assert (short 0 = 0) by (unfold short; apply leb_cases; intro; lra). lra.
Qed.

Lemma short_grows : forall s t, 0 <= t -> t <= s -> short t <= short s.
Proof.
  intros s t T L. unfold short. apply leb_cases; intro A; apply leb_cases; intro B; try lra.
  - assert (0 <= ln (s / knee)); [|nra]. rewrite <- ln_1. left. apply ln_increasing; [lra|].
    apply Rmult_lt_reg_r with knee; [exact K|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - apply Rmult_le_compat_l; [lra|]. apply Rplus_le_compat_l. destruct L as [L | ->]; [|lra].
    left. apply ln_increasing; [apply Rdiv_lt_0_compat; lra|]. apply Rmult_lt_compat_r; [apply Rinv_0_lt_compat, K | exact L].
Qed.

Definition compressed (x : V) : V := scale (short (norm x) / norm x) x.

Theorem R38_compression_is_a_contraction : forall a b : V, 0 < norm a -> 0 < norm b ->
  norm (sub (compressed a) (compressed b)) <= norm (sub a b).
Proof.
  assert (half : forall a b : V, 0 < norm a -> 0 < norm b -> norm b <= norm a ->
    norm (sub (compressed a) (compressed b)) <= norm (sub a b)).
  { intros a b A B L. apply norm_le; [apply norm_pos|]. rewrite norm_square. unfold compressed.
    rewrite !norm2_sub, !norm2_scale, inner_scale, (inner_sym S a), inner_scale, (inner_sym S b a).
    rewrite <- !norm_square. set (s := norm a) in *. set (t := norm b) in *.
    pose proof (cauchy_schwarz a b) as CS. fold s t in CS. pose proof (Rle_abs (inner a b)).
    set (i := inner a b) in *.
    pose proof (short_is s t ltac:(lra) L). pose proof (short_grows s t ltac:(lra) L).
    pose proof (short_pos s ltac:(lra)). pose proof (short_pos t ltac:(lra)).
    set (x := short s) in *. set (y := short t) in *.
    replace (x / s * (x / s) * (s * s)) with (x * x) by (field; lra).
    replace (y / t * (y / t) * (t * t)) with (y * y) by (field; lra).
    assert (M : 0 <= x / s * (y / t) <= 1).
    { assert (0 <= x / s <= 1).
      { split; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
        apply Rmult_le_reg_r with s; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
      assert (0 <= y / t <= 1).
      { split; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
        apply Rmult_le_reg_r with t; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
      nra. }
    assert (E : x / s * (y / t) * (s * t) = x * y) by (field; lra).
    assert (F : x / s * (y / t) * (s * t - i) <= s * t - i).
    { assert (0 <= s * t - i) by lra. nra. }
    assert ((x - y) * (x - y) <= (s - t) * (s - t)) by (apply Rmult_le_compat; lra).
    replace (x / s * (y / t * i)) with (x / s * (y / t) * i) by ring. lra. }
  intros a b A B. destruct (Rle_or_lt (norm b) (norm a)) as [L | L]; [apply half; assumption|].
  rewrite norm_sub_sym, (norm_sub_sym a b). apply half; lra.
Qed.
End R38.

(* ---- R40: sums of clipped whole numbers ---- *)
Theorem R40_cells : forall x y (i j : Z), -1 <= x <= 1 -> -1 <= y <= 1 ->
  Rabs (IZR i - HELD_CELLS * x) <= 1 / 2 -> Rabs (IZR j - HELD_CELLS * y) <= 1 / 2 -> IZR (Z.abs (i - j)) <= 2 * HELD_CELLS.
Proof.
  assert (one : forall x (i : Z), -1 <= x <= 1 -> Rabs (IZR i - HELD_CELLS * x) <= 1 / 2 -> (Z.abs i <= 16777216)%Z).
  { intros x i X I. assert (H : HELD_CELLS = 16777216) by (unfold HELD_CELLS; lra). rewrite H in I.
    assert (IZR i < IZR 16777217) by (unfold Rabs in I; destruct (Rcase_abs (IZR i - 16777216 * x)); lra).
    assert (IZR (-16777217) < IZR i) by (unfold Rabs in I; destruct (Rcase_abs (IZR i - 16777216 * x)); lra).
    apply lt_IZR in H0. apply lt_IZR in H1. lia. }
  intros x y i j X Y I J. pose proof (one x i X I). pose proof (one y j Y J).
  replace (2 * HELD_CELLS) with (IZR 33554432) by (unfold HELD_CELLS; lra). apply IZR_le. lia.
Qed.

(* ---- C93: the score of the gamma loss, v = y exp(-t) held at 1 + c ---- *)
Theorem C93_gamma : forall y t t' c, 0 <= y -> 0 < c -> t <= t' ->
  let score t := Rmin (y * exp (- t)) (1 + c) - 1 in
  -1 <= score t <= c /\ 0 <= score t - score t' <= (1 + c) * (t' - t).
Proof.
  intros y t t' c Y C T score. unfold score.
  assert (P : forall x, 0 <= y * exp (- x)) by (intro x; apply Rmult_le_pos; [assumption | apply Rlt_le, exp_pos]).
  pose proof (P t). pose proof (P t').
  assert (E : exp (- t') = exp (- t) * exp (- (t' - t))) by (rewrite <- exp_plus; f_equal; ring).
  pose proof (exp_ineq1_le (- (t' - t))) as L. pose proof (exp_pos (- t)). pose proof (exp_pos (- (t' - t))).
  assert (exp (- (t' - t)) <= 1).
  { destruct (Req_dec t t') as [-> | N]; [replace (- (t' - t')) with 0 by ring; rewrite exp_0; lra|].
    rewrite <- exp_0. left. apply exp_increasing. lra. }
  set (v := y * exp (- t)) in *. set (w := exp (- (t' - t))) in *.
  replace (y * exp (- t')) with (v * w) in * by (unfold v; rewrite E; ring).
  assert (v * w <= v) by nra. assert (v * (1 - (t' - t)) <= v * w) by (apply Rmult_le_compat_l; lra).
  unfold Rmin. destruct (Rle_dec v (1 + c)), (Rle_dec (v * w) (1 + c)); repeat split; try lra; nra.
Qed.

(* ---- C31: what the kernels hold of a loss of one's own ---- *)
Definition within (low high x : R) := Rmax low (Rmin high x).
Theorem C31_held : forall b1 b2 psi slope, 0 < b1 -> 0 < b2 ->
  Rabs (within (- b1) b1 psi) <= b1 /\ 0 <= within 0 b2 slope <= b2
  /\ let tau := Rabs (within (- b1) b1 psi) / b1 in
     0 <= within 0 (b2 * (1 - tau ^ 2)) slope / b2 <= 1 - tau ^ 2.
Proof.
  intros b1 b2 psi slope B1 B2.
  assert (S : Rabs (within (- b1) b1 psi) <= b1).
  { apply Rabs_le. unfold within, Rmax, Rmin. destruct (Rle_dec b1 psi); destruct (Rle_dec (- b1) _); lra. }
  split; [exact S | split].
  - unfold within, Rmax, Rmin. destruct (Rle_dec b2 slope); destruct (Rle_dec 0 _); lra.
  - intro tau. assert (0 <= tau <= 1).
    { unfold tau. pose proof (Rabs_pos (within (- b1) b1 psi)). split.
      - apply Rmult_le_pos; [assumption | apply Rlt_le, Rinv_0_lt_compat, B1].
      - apply Rmult_le_reg_r with b1; [exact B1|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    assert (M : 0 <= 1 - tau ^ 2) by nra.
    assert (0 <= b2 * (1 - tau ^ 2)) by (apply Rmult_le_pos; lra).
    assert (W : 0 <= within 0 (b2 * (1 - tau ^ 2)) slope <= b2 * (1 - tau ^ 2)).
    { unfold within, Rmax, Rmin. destruct (Rle_dec (b2 * (1 - tau ^ 2)) slope); destruct (Rle_dec 0 _); lra. }
    split; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat, B2]|].
    apply Rmult_le_reg_r with b2; [exact B2|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

(* ---- C34 to C36: coefficients and scale together ---- *)
(* Huber: scale parts differ by k (1 - m^2)/2 at most, coefficients' parts by 1 + m, m the smaller length. *)
Theorem C34_huber : forall k m, 0 <= k <= HUBER_score_limit -> 0 <= m <= 1 ->
  (1 + m) ^ 2 + k ^ 2 * (1 - m ^ 2) ^ 2 / 4 <= 4.
Proof.
  intros k m K M.
  assert (K2 : k ^ 2 <= 110901699437400 / 10 ^ 13).
  { unfold HUBER_score_limit in K. nra. }
  set (z := (m - 23606797750 / 10 ^ 11) ^ 2). assert (Z : 0 <= z) by apply pow2_ge_0.
  assert (0 <= m * z) by (apply Rmult_le_pos; lra).
  assert (P : 110901699437400 / 10 ^ 13 * ((1 + m) ^ 2 * (1 - m)) / 4 <= 3 + m) by (unfold z in *; nra).
  assert (Q : k ^ 2 * ((1 + m) ^ 2 * (1 - m)) / 4 <= 3 + m).
  { assert (0 <= (1 + m) ^ 2 * (1 - m)) by (apply Rmult_le_pos; [apply pow2_ge_0 | lra]). nra. }
  replace ((1 + m) ^ 2 + k ^ 2 * (1 - m ^ 2) ^ 2 / 4)
    with (4 - (1 - m) * (3 + m - k ^ 2 * ((1 + m) ^ 2 * (1 - m)) / 4)) by field.
  assert (0 <= (1 - m) * (3 + m - k ^ 2 * ((1 + m) ^ 2 * (1 - m)) / 4)) by (apply Rmult_le_pos; lra). lra.
Qed.

(* Curvature times 1 + k^2 v^2 stays below 1: pseudo-Huber up to the limit of the code. *)
Theorem C35_pseudo_huber : forall k v, 0 <= k <= PSEUDO_HUBER_curvature_limit ->
  1 / root v ^ 3 * (1 + k ^ 2 * v ^ 2) <= 1.
Proof.
  intros k v K. pose proof (root_square v) as S2. pose proof (root_least v) as S1. set (s := root v) in *.
  assert (K2 : k ^ 2 <= 3 / 2) by (unfold PSEUDO_HUBER_curvature_limit in K; nra).
  pose proof (pow2_ge_0 v). set (x := v ^ 2) in *.
  assert (P : 1 + k ^ 2 * x <= s ^ 3).
  { apply Rle_trans with (1 + 3 / 2 * x); [nra|].
    assert (0 <= s ^ 3) by (apply pow_le; lra).
    assert (Sq : s ^ 3 * s ^ 3 = (1 + x) ^ 3) by (rewrite <- S2; ring).
    assert ((1 + 3 / 2 * x) * (1 + 3 / 2 * x) <= s ^ 3 * s ^ 3) by (rewrite Sq; assert (0 <= x ^ 3) by (apply pow_le; lra); nra).
    destruct (Rle_or_lt (1 + 3 / 2 * x) (s ^ 3)) as [Z | Z]; [exact Z | exfalso]. nra. }
  assert (0 < s ^ 3) by (apply pow_lt; lra).
  apply Rmult_le_reg_l with (s ^ 3); [assumption|].
  replace (s ^ 3 * (1 / s ^ 3 * (1 + k ^ 2 * x))) with (1 + k ^ 2 * x) by (field; lra). lra.
Qed.

(* Squared scores of coefficients and scale: at most 1 + (k max(K, L - K))^2 in units of (c R)^2. *)
Theorem C36_meat : forall A k K X L, 0 <= A <= 1 -> 0 <= k -> 0 <= X <= L -> 0 <= K <= L ->
  A ^ 2 + (k * (K - X)) ^ 2 <= 1 + (k * Rmax K (L - K)) ^ 2.
Proof.
  intros A k K X L PA Pk PX PK. assert (A ^ 2 <= 1) by nra.
  pose proof (Rmax_l K (L - K)). pose proof (Rmax_r K (L - K)). set (m := Rmax K (L - K)) in *.
  assert ((K - X) ^ 2 <= m ^ 2) by nra.
  replace ((k * (K - X)) ^ 2) with (k ^ 2 * (K - X) ^ 2) by ring. replace ((k * m) ^ 2) with (k ^ 2 * m ^ 2) by ring.
  assert (k ^ 2 * (K - X) ^ 2 <= k ^ 2 * m ^ 2) by (apply Rmult_le_compat_l; [apply pow2_ge_0 | assumption]). lra.
Qed.

(* ---- C6: the moments of randomised response ---- *)
Theorem C6_moments : forall a e, 1 <= a -> 0 <= e ->
  (exp (a * e) + exp ((1 - a) * e)) / (1 + exp e) <= exp (a * (a - 1) * e ^ 2 / 2).
Proof.
  intros a e A E.
  set (s := (a - / 2) * e). set (s0 := e / 2). assert (S0 : 0 <= s0) by (unfold s0; lra). assert (S : s0 <= s) by (unfold s0, s; nra).
  assert (D : log_cosh s - s ^ 2 / 2 <= log_cosh s0 - s0 ^ 2 / 2).
  { assert (- (log_cosh s0 - s0 ^ 2 / 2) <= - (log_cosh s - s ^ 2 / 2)); [|lra].
    apply (rises (fun x => - (log_cosh x - x ^ 2 / 2)) (fun x => - (th x - x))); [exact S | |].
    - intros x _. apply (is_derive_opp (fun x => log_cosh x - x ^ 2 / 2)). pose proof (log_cosh_derive x) as K.
      auto_derive; [exists (th x); exact K|]. known K. field.
    - intros x X. pose proof (th_small x ltac:(lra)). lra. }
  assert (P : forall x, 0 < (exp x + exp (- x)) / 2) by (intro x; pose proof (exp_pos x); pose proof (exp_pos (- x)); lra).
  assert (X : (exp (a * e) + exp ((1 - a) * e)) / (1 + exp e) = (exp s + exp (- s)) / 2 / ((exp s0 + exp (- s0)) / 2)).
  { assert (E1 : exp (a * e) = exp s * exp s0) by (rewrite <- exp_plus; f_equal; unfold s, s0; field).
    assert (E2 : exp ((1 - a) * e) = exp (- s) * exp s0) by (rewrite <- exp_plus; f_equal; unfold s, s0; field).
    assert (E3 : exp e = exp s0 * exp s0) by (rewrite <- exp_plus; f_equal; unfold s0; field).
    assert (E4 : exp (- s0) * exp s0 = 1) by (rewrite <- exp_plus, Rplus_opp_l; apply exp_0).
    assert (E5 : exp (- s0) = / exp s0) by (apply exp_Ropp).
    pose proof (exp_pos s0). rewrite E1, E2, E3, E5. pose proof (exp_pos (- s)). field; nra. }
  rewrite X. rewrite <- (exp_ln ((exp s + exp (- s)) / 2)) by apply P. rewrite <- (exp_ln ((exp s0 + exp (- s0)) / 2)) by apply P.
  fold (log_cosh s) (log_cosh s0). unfold Rdiv at 1. rewrite <- exp_Ropp, <- exp_plus.
  assert (Q : log_cosh s + - log_cosh s0 <= a * (a - 1) * e ^ 2 / 2).
  { replace (a * (a - 1) * e ^ 2 / 2) with (s ^ 2 / 2 - s0 ^ 2 / 2) by (unfold s, s0; field). lra. }
  destruct Q as [Q | ->]; [left; apply exp_increasing; exact Q | right; reflexivity].
Qed.
