(* Laws and tests: the best test (C1), pure DP (C5), the laws that samplers draw (C15, C22), dealing (C53), keys of
   doubles (D1), a choice (G7), and two public searches (R13, R42). *)
Require Import Reals Lra Psatz Lia List Permutation ZArith.
From Coquelicot Require Import Coquelicot.
From dpfast Require Import Meaning Vectors Losses.
Open Scope R_scope.

(* ---- C1: what is seen of a normal vector is its part along the difference; the best test ---- *)
Theorem C1_only_the_projection : forall (S : space) (x v v' : vector S),
  norm2 (sub x v) - norm2 (sub x v') = 2 * inner (sub x v) (sub v' v) - norm2 (sub v' v).
Proof.
  intros S x v v'. rewrite !norm2_sub, inner_sub, !inner_sub_r. fold (norm2 v).
  rewrite (inner_sym S v v'). ring.
Qed.

(* Of two laws p and q of finitely many outcomes no test of this level has more power than one that rejects
   where p > c q, and does not where p < c q. *)
Theorem C1_neyman_pearson : forall n (p q best other : nat -> R) c, 0 <= c ->
  (forall i, 0 <= other i <= 1) -> (forall i, c * q i < p i -> best i = 1) -> (forall i, p i < c * q i -> best i = 0) ->
  sum n (fun i => other i * q i) <= sum n (fun i => best i * q i) ->
  sum n (fun i => other i * p i) <= sum n (fun i => best i * p i).
Proof.
  intros n p q best other c C O B1 B0 Level.
  assert (L : sum n (fun i => other i * p i) + c * sum n (fun i => best i * q i)
    <= sum n (fun i => best i * p i) + c * sum n (fun i => other i * q i)).
  { rewrite <- !sum_scale, <- !sum_add. apply sum_le. intros i _. specialize (O i).
    destruct (Rtotal_order (p i) (c * q i)) as [G | [G | G]].
    - rewrite (B0 i G). nra.
    - rewrite G. nra.
    - rewrite (B1 i G). nra. }
  assert (c * sum n (fun i => other i * q i) <= c * sum n (fun i => best i * q i)) by (apply Rmult_le_compat_l; assumption).
  lra.
Qed.

(* ---- C5: a convex function through (0, 1), (k, k) and (1, 0) is below its chords ---- *)
Theorem C5_below_its_chords : forall G e, 0 < e ->
  (forall x y t, 0 <= x <= 1 -> 0 <= y <= 1 -> 0 <= t <= 1 -> G (t * x + (1 - t) * y) <= t * G x + (1 - t) * G y) ->
  let k := / (1 + exp e) in G 0 = 1 -> G 1 = 0 -> G k = k ->
  forall a, 0 <= a <= 1 -> G a <= Rmax (1 - exp e * a) (exp (- e) * (1 - a)).
Proof.
  intros G e P Convex k G0 G1 Gk a A.
  assert (E1 : 1 < exp e) by (pose proof (exp_ineq1_le e); lra).
  assert (K : 0 < k < 1 / 2).
  { unfold k. split; [apply Rinv_0_lt_compat; lra|]. unfold Rdiv. rewrite Rmult_1_l. apply Rinv_lt_contravar; lra. }
  assert (Kk : k * (1 + exp e) = 1) by (unfold k; field; lra).
  destruct (Rle_or_lt a k) as [L | L].
  - eapply Rle_trans; [|apply Rmax_l].
    pose proof (Convex k 0 (a / k) ltac:(lra) ltac:(lra)) as C.
    assert (T : 0 <= a / k <= 1).
    { split; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
      apply Rmult_le_reg_r with k; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    specialize (C T). replace (a / k * k + (1 - a / k) * 0) with a in C by (field; lra). rewrite G0, Gk in C.
    replace (a / k * k + (1 - a / k) * 1) with (1 + a - a / k) in C by (field; lra).
    replace (a / k) with (a * (1 + exp e)) in C by (unfold k; field; lra). lra.
  - eapply Rle_trans; [|apply Rmax_r].
    set (t := (1 - a) / (1 - k)).
    assert (T : 0 <= t <= 1).
    { unfold t. split; [apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]|].
      apply Rmult_le_reg_r with (1 - k); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    pose proof (Convex k 1 t ltac:(lra) ltac:(lra) T) as C.
    replace (t * k + (1 - t) * 1) with a in C by (unfold t; field; lra). rewrite Gk, G1 in C.
    rewrite exp_Ropp. eapply Rle_trans; [exact C|]. right.
    assert (Q : 1 - k = k * exp e) by lra. unfold t. rewrite Q. field. split; lra.
Qed.

(* ---- C15: the laws of steps 2 to 4 of the normal sampler ---- *)
(* n is even with probability exp(-x), if P(n >= m) = x^m / m!: the sum of these with signs that alternate. *)
Theorem C15_even : forall x, infinite_sum (fun m => / INR (fact m) * (- x) ^ m) (exp (- x)).
Proof. intro x. unfold exp. destruct (exist_exp (- x)) as [l H]. exact H. Qed.

(* Successes before the first failure, kept if k (k - 1) trials succeed, and the density of k + x. *)
Theorem C15_half_normal : forall k x,
  exp (- k / 2) * exp (- (k * (k - 1)) / 2) * (exp (- x ^ 2 / 2) * exp (- (k * x))) = exp (- (k + x) ^ 2 / 2).
Proof. intros k x. rewrite <- !exp_plus. f_equal. field. Qed.

(* The grid point below a negative number that is none itself. *)
Theorem C15_floor_of_a_negative : forall y, floor y <> y -> floor (- y) = - (floor y + 1).
Proof.
  intros y N. unfold floor in *. destruct (base_Int_part y) as [A B].
  assert (IZR (Int_part y) < y) by lra.
  assert (U : (- Int_part y)%Z = up (- y)) by (apply tech_up; rewrite opp_IZR; lra).
  unfold Int_part at 1. rewrite <- U, minus_IZR, opp_IZR. lra.
Qed.

(* ---- C22: the discrete Laplace law ---- *)
(* A uniform kept with exp(-u/t), plus t times a geometric number: geometric with ratio exp(-1/t). *)
Theorem C22_geometric : forall t u m, 0 < t -> exp (- u / t) * exp (- m) = exp (- (u + t * m) / t).
Proof. intros t u m P. rewrite <- exp_plus. f_equal. field. lra. Qed.

(* Its quotient by s is geometric with ratio exp(-s/t). *)
Theorem C22_quotient : forall s x j, sum s (fun r => x ^ (j * s + r)) = (x ^ s) ^ j * sum s (fun r => x ^ r).
Proof.
  intros s x j. rewrite <- sum_scale. apply sum_ext. intros r _. rewrite pow_add, <- pow_mult, (Nat.mul_comm s j). reflexivity.
Qed.

Theorem C22_ratio : forall i v v' rate e D, 0 <= rate -> Rabs (v - v') <= D -> rate * D <= e ->
  exp (- (Rabs (i - v) * rate)) <= exp e * exp (- (Rabs (i - v') * rate)).
Proof.
  intros i v v' rate e D P S R0. rewrite <- exp_plus.
  assert (Rabs (i - v') <= Rabs (i - v) + Rabs (v - v')).
  { replace (i - v') with ((i - v) + (v - v')) by ring. apply Rabs_triang. }
  assert (Rabs (v - v') * rate <= D * rate) by (apply Rmult_le_compat_r; assumption).
  assert (- (Rabs (i - v) * rate) <= e + - (Rabs (i - v') * rate)) by nra.
  destruct (Req_dec (- (Rabs (i - v) * rate)) (e + - (Rabs (i - v') * rate))) as [-> | N]; [lra|].
  apply Rlt_le, exp_increasing. lra.
Qed.

(* ---- C53: a dealing that goes with permutations is as likely as any other of the same sizes ---- *)
Section Dealing.
Variables words dealing : Type.
Variable dealing_eq : forall a b : dealing, {a = b} + {a <> b}.
Variable deal : words -> dealing.
(* A permutation of the records, of words and of dealings. *)
Variable act : words -> words.
Variable moved : dealing -> dealing.
Hypothesis goes_with : forall w, deal (act w) = moved (deal w).
Hypothesis one_to_one : forall a b, moved a = moved b -> a = b.

(* All words are equally likely, and so are all words permuted: the same list in another order. *)
Theorem C53_equally_likely : forall all d, Permutation (map act all) all ->
  count_occ dealing_eq (map deal all) d = count_occ dealing_eq (map deal all) (moved d).
Proof.
  intros all d P. pose proof (proj1 (Permutation_count_occ dealing_eq _ _) (Permutation_map deal P) (moved d)) as E.
  rewrite <- E. clear P E. induction all as [|w all IH]; [reflexivity|]. simpl. rewrite goes_with.
  destruct (dealing_eq (deal w) d) as [E | N], (dealing_eq (moved (deal w)) (moved d)) as [M | M].
  - f_equal. exact IH.
  - contradiction (M (f_equal moved E)).
  - contradiction (N (one_to_one _ _ M)).
  - exact IH.
Qed.
End Dealing.

(* ---- D1: keys ---- *)
Section Keys.
Open Scope Z_scope.

(* The absolute value of a finite double in units of 2^-1074, of the bits a of its exponent and mantissa. *)
Definition units (a : Z) : Z :=
  if a <? 2 ^ 52 then a else (2 ^ 52 + a mod 2 ^ 52) * 2 ^ (a / 2 ^ 52 - 1).
Definition value (negative : bool) (a : Z) : Z := if negative then - units a else units a.
(* Its bits as a signed integer, and its key. *)
Definition bits (negative : bool) (a : Z) : Z := if negative then - 2 ^ 63 + a else a.
Definition key (b : Z) : Z := if 0 <=? b then b else - 2 ^ 63 - b.

Lemma units_grow_by_one : forall a, 0 <= a -> units a < units (a + 1).
Proof.
  intros a P. unfold units.
  pose proof (Z.div_mod a (2 ^ 52) ltac:(lia)) as E. pose proof (Z.mod_pos_bound a (2 ^ 52) ltac:(lia)) as M.
  pose proof (Z.div_pos a (2 ^ 52) P ltac:(lia)) as Q.
  set (q := a / 2 ^ 52) in *. set (m := a mod 2 ^ 52) in *.
  destruct (Z.ltb_spec a (2 ^ 52)) as [L | L].
  - destruct (Z.ltb_spec (a + 1) (2 ^ 52)); [lia|].
    assert (a + 1 = 2 ^ 52) as -> by lia. rewrite Z.mod_same, Z.div_same by lia. simpl. lia.
  - destruct (Z.ltb_spec (a + 1) (2 ^ 52)); [lia|].
    assert (1 <= q) by nia. pose proof (Z.pow_pos_nonneg 2 (q - 1) ltac:(lia) ltac:(lia)) as G.
    destruct (Z.eq_dec (m + 1) (2 ^ 52)) as [F | F].
    + assert (a + 1 = (q + 1) * 2 ^ 52) as -> by lia. rewrite Z.mod_mul, Z.div_mul by lia.
      replace (q + 1 - 1) with (1 + (q - 1)) by lia. rewrite Z.pow_add_r by lia. nia.
    + assert (a + 1 = q * 2 ^ 52 + (m + 1)) as -> by lia.
      assert ((q * 2 ^ 52 + (m + 1)) / 2 ^ 52 = q) as -> by (symmetry; apply (Z.div_unique _ _ q (m + 1)); lia).
      assert ((q * 2 ^ 52 + (m + 1)) mod 2 ^ 52 = m + 1) as -> by (symmetry; apply (Z.mod_unique _ _ q (m + 1)); lia).
      nia.
Qed.

Lemma units_grow : forall a b, 0 <= a -> a < b -> units a < units b.
Proof.
  intros a b P L. replace b with (a + Z.of_nat (Z.to_nat (b - a))) by lia.
  assert (K : (1 <= Z.to_nat (b - a))%nat) by lia. revert K. generalize (Z.to_nat (b - a)). intro n.
  induction n as [|n IH]; intro K; [lia|].
  pose proof (units_grow_by_one (a + Z.of_nat n) ltac:(lia)). rewrite Nat2Z.inj_succ.
  replace (a + Z.succ (Z.of_nat n)) with (a + Z.of_nat n + 1) by lia.
  destruct n as [|n]; [replace (a + Z.of_nat 0) with a in * by lia; assumption|]. specialize (IH ltac:(lia)). lia.
Qed.

Theorem D1_keys_order_as_numbers : forall s a s' a', 0 <= a < 2 ^ 63 -> 0 <= a' < 2 ^ 63 ->
  (value s a <= value s' a' <-> key (bits s a) <= key (bits s' a')).
Proof.
  assert (K : forall s a, 0 <= a < 2 ^ 63 -> key (bits s a) = if s then - a else a).
  { intros s a A. unfold key, bits. destruct s; [destruct (Z.leb_spec 0 (- 2 ^ 63 + a)) | destruct (Z.leb_spec 0 a)]; lia. }
  assert (U0 : units 0 = 0) by reflexivity.
  assert (P : forall a, 0 <= a -> 0 <= units a).
  { intros a A. destruct (Z.eq_dec a 0) as [-> | N]; [rewrite U0; lia|]. pose proof (units_grow 0 a ltac:(lia) ltac:(lia)). lia. }
  assert (Z0 : forall a, 0 <= a -> units a = 0 -> a = 0).
  { intros a A E. destruct (Z.eq_dec a 0) as [-> | N]; [reflexivity|]. pose proof (units_grow 0 a ltac:(lia) ltac:(lia)). lia. }
  assert (M : forall a b, 0 <= a -> 0 <= b -> (units a <= units b <-> a <= b)).
  { intros a b A B. destruct (Z.lt_total a b) as [L | [-> | L]]; [| split; lia |].
    - pose proof (units_grow a b A L). split; lia.
    - pose proof (units_grow b a B L). split; lia. }
  intros s a s' a' A A'. rewrite !K by assumption. unfold value.
  pose proof (P a ltac:(lia)). pose proof (P a' ltac:(lia)).
  pose proof (M a a' ltac:(lia) ltac:(lia)). pose proof (M a' a ltac:(lia) ltac:(lia)).
  pose proof (Z0 a ltac:(lia)). pose proof (Z0 a' ltac:(lia)).
  assert (a = 0 -> units a = 0) by (intros ->; exact U0). assert (a' = 0 -> units a' = 0) by (intros ->; exact U0).
  destruct s, s'; split; lia.
Qed.

(* The difference that a window takes does not overflow. *)
Theorem D1_no_overflow : forall b, - 2 ^ 63 <= b < 2 ^ 63 -> - 2 ^ 63 <= key b < 2 ^ 63 /\ 0 <= key b - - 2 ^ 63 < 2 ^ 64.
Proof. intros b B. unfold key. destruct (Z.leb_spec 0 b); lia. Qed.
End Keys.

(* ---- G7: a choice moves each probability by exp(+-w), and is a coin between two straight lines ---- *)
Theorem G7_range : forall (q q' : R) a D, 0 <= a -> Rabs (q - q') <= D ->
  exp (- (a * D)) * exp (- (a * q')) <= exp (- (a * q)) <= exp (a * D) * exp (- (a * q')).
Proof.
  intros q q' a D A B. pose proof (Rle_abs (q - q')) as X. pose proof (Rle_abs (- (q - q'))) as Y. rewrite Rabs_Ropp in Y.
  rewrite <- !exp_plus. assert (a * (q - q') <= a * D) by (apply Rmult_le_compat_l; lra).
  assert (a * - (q - q') <= a * D) by (apply Rmult_le_compat_l; lra).
  assert (up : forall x y, x <= y -> exp x <= exp y).
  { intros x y [L | ->]; [apply Rlt_le, exp_increasing, L | lra]. }
  split; apply up; lra.
Qed.

(* A convex function from (0, 1) to (1, 0) with slopes in [-h, -l] is above two straight lines. *)
Theorem G7_two_lines : forall f l h x, 0 <= x <= 1 -> f 0 = 1 -> f 1 = 0 ->
  (forall a b, 0 <= a <= b -> b <= 1 -> - h * (b - a) <= f b - f a <= - l * (b - a)) ->
  Rmax (1 - h * x) (l * (1 - x)) <= f x.
Proof.
  intros f l h x X F0 F1 S. pose proof (S 0 x ltac:(lra) ltac:(lra)) as A. pose proof (S x 1 ltac:(lra) ltac:(lra)) as B.
  rewrite F0 in A. rewrite F1 in B. apply Rmax_lub; lra.
Qed.

(* ---- R13: the integral of 1/D over one step is at most one ---- *)
Theorem R13_one_step : forall g l d, 0 < d -> ex_RInt g (l - d) l -> (forall u, l - d < u < l -> g u <= / d) ->
  RInt g (l - d) l <= 1.
Proof.
  intros g l d P I B. replace 1 with (RInt (fun _ => / d) (l - d) l).
  - apply RInt_le; [lra | exact I | apply ex_RInt_const | exact B].
  - rewrite RInt_const. unfold scal; simpl; unfold mult; simpl. field. lra.
Qed.

(* ---- R42: a step of the path ---- *)
Lemma exp_up : forall b, 0 <= b <= 1 / 8 -> exp b <= 8 / 7.
Proof.
  intros b B. pose proof (exp_ineq1_le (- b)) as H. rewrite exp_Ropp in H. pose proof (exp_pos b).
  assert (exp b * (1 - b) <= 1); [|nra].
  apply Rle_trans with (exp b * / exp b); [apply Rmult_le_compat_l; lra | right; field; lra].
Qed.

Lemma exp_cubic : forall b, 0 <= b <= 1 / 8 -> exp b <= 1 + b + b ^ 2 / 2 + 4 / 21 * b ^ 3.
Proof.
  assert (one : forall b, 0 <= b <= 1 / 8 -> exp b <= 1 + 8 / 7 * b).
  { intros b B. assert (1 + 8 / 7 * 0 - exp 0 <= 1 + 8 / 7 * b - exp b); [|rewrite exp_0 in *; lra].
    apply (rises (fun x => 1 + 8 / 7 * x - exp x) (fun x => 8 / 7 - exp x)); [lra | |].
    - intros x _. auto_derive; [trivial | ring].
    - intros x X. pose proof (exp_up x ltac:(lra)). lra. }
  assert (two : forall b, 0 <= b <= 1 / 8 -> exp b <= 1 + b + 4 / 7 * b ^ 2).
  { intros b B. assert (1 + 0 + 4 / 7 * 0 ^ 2 - exp 0 <= 1 + b + 4 / 7 * b ^ 2 - exp b); [|rewrite exp_0 in *; simpl in *; lra].
    apply (rises (fun x => 1 + x + 4 / 7 * x ^ 2 - exp x) (fun x => 1 + 8 / 7 * x - exp x)); [lra | |].
    - intros x _. auto_derive; [trivial | field].
    - intros x X. pose proof (one x ltac:(lra)). lra. }
  intros b B.
  assert (1 + 0 + 0 ^ 2 / 2 + 4 / 21 * 0 ^ 3 - exp 0 <= 1 + b + b ^ 2 / 2 + 4 / 21 * b ^ 3 - exp b);
    [|rewrite exp_0 in *; simpl in *; lra].
  apply (rises (fun x => 1 + x + x ^ 2 / 2 + 4 / 21 * x ^ 3 - exp x) (fun x => 1 + x + 4 / 7 * x ^ 2 - exp x)); [lra | |].
  - intros x _. auto_derive; [trivial | field].
  - intros x X. pose proof (two x ltac:(lra)). lra.
Qed.

Theorem R42_newton_step : forall b, 0 <= b <= 1 / 8 -> (exp b - 1 - b) * exp (b / 2) <= 56 / 100 * b ^ 2.
Proof.
  intros b B. pose proof (exp_cubic b B) as C. pose proof (exp_ineq1_le b).
  assert (Half : exp (b / 2) <= 16 / 15).
  { pose proof (exp_ineq1_le (- (b / 2))) as X. rewrite exp_Ropp in X. pose proof (exp_pos (b / 2)).
    assert (exp (b / 2) * (1 - b / 2) <= 1); [|nra].
    apply Rle_trans with (exp (b / 2) * / exp (b / 2)); [apply Rmult_le_compat_l; lra | right; field; lra]. }
  apply Rle_trans with ((b ^ 2 / 2 + 4 / 21 * b ^ 3) * (16 / 15)).
  - apply Rmult_le_compat; [lra | apply Rlt_le, exp_pos | lra | exact Half].
  - pose proof (pow2_ge_0 b). assert (b ^ 3 <= 1 / 8 * b ^ 2) by (simpl; nra). lra.
Qed.

(* With its errors, and after the ridge is lowered, the next step begins where this one did. *)
Theorem R42_path : forall b after, 0 <= b <= 1 / 8 -> after <= 56 / 100 * b ^ 2 + 7 / 100 * b + 2 / 100 ->
  after <= 5 / 100 /\ (1 + / 32) * after + / 32 <= 1 / 8.
Proof. intros b after B A. assert (b ^ 2 <= 1 / 64) by nra. split; lra. Qed.

(* What is accepted: 2.2 errors as computed, 3.2 in all, within the tolerance of four. *)
Theorem R42_arrives : forall error exact computed tolerance, 0 <= error -> exact <= error + 2 / 10 * error ->
  computed <= exact + error -> 4 * error <= tolerance -> computed <= 22 / 10 * error /\ computed + error <= tolerance.
Proof. intros. split; lra. Qed.
