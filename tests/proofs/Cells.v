(* Tables by cell, histograms of distances, counts and moments: claims T1 to T5, D2 to D4, D6, C79. *)
Require Import Reals Lra Psatz Lia List.
From dpfast Require Import Meaning Vectors Formulas Sums.
Open Scope R_scope.

(* ---- pairs, and one part for each of K cells or columns ---- *)
Definition Pair (S T : space) : space.
Proof.
  refine {| vector := vector S * vector T; zero := (zero, zero);
            add := fun u v => (add (fst u) (fst v), add (snd u) (snd v));
            scale := fun c u => (scale c (fst u), scale c (snd u));
            inner := fun u v => inner (fst u) (fst v) + inner (snd u) (snd v) |}; intros; simpl.
  - rewrite (inner_sym S), (inner_sym T). reflexivity.
  - rewrite !inner_zero. ring.
  - rewrite !inner_add. ring.
  - rewrite !inner_scale. ring.
  - pose proof (inner_pos S (fst x)). pose proof (inner_pos T (snd x)). lra.
Defined.

Definition Parts (K : nat) (S : space) : space.
Proof.
  refine {| vector := nat -> vector S; zero := fun _ => zero; add := fun u v k => add (u k) (v k);
            scale := fun c u k => scale c (u k);
            inner := fun u v => sum K (fun k => inner (u k) (v k)) |}; intros.
  - apply sum_ext; intros. apply inner_sym.
  - transitivity (sum K (fun _ => 0)); [apply sum_ext; intros; apply inner_zero | rewrite sum_const; ring].
  - rewrite <- sum_add. apply sum_ext; intros. apply inner_add.
  - rewrite <- sum_scale. apply sum_ext; intros. apply inner_scale.
  - apply sum_pos. intros. apply inner_pos.
Defined.

Lemma norm2_pair : forall S T (x y : vector (Pair S T)),
  norm2 (sub x y) = norm2 (sub (fst x) (fst y)) + norm2 (sub (snd x) (snd y)).
Proof. reflexivity. Qed.

Lemma norm2_parts : forall K S (x y : vector (Parts K S)),
  norm2 (sub x y) = sum K (fun k => norm2 (sub (x k) (y k))).
Proof. reflexivity. Qed.

Lemma norm2_line : forall x y : vector Line, norm2 (sub x y) = (x - y) * (x - y).
Proof. intros. unfold norm2, sub. simpl. ring. Qed.

Lemma norm2_Rd : forall d (x y : vector (Rd d)), norm2 (sub x y) = sum d (fun i => (x i - y i) * (x i - y i)).
Proof. intros. unfold norm2, sub. simpl. unfold dot. apply sum_ext. intros. ring. Qed.

(* What a record adds: z to its cell, and nothing if it is in none. *)
Definition in_cell {S} (K : nat) (c : option nat) (z : vector S) : vector (Parts K S) :=
  fun k => match c with Some i => if Nat.eqb i k then z else zero | None => zero end.

Lemma sum_at : forall K i (r : R), sum K (fun k => if Nat.eqb i k then r else 0) = if Nat.ltb i K then r else 0.
Proof.
  intros. rewrite <- (sum_one K i (fun _ => r)). apply sum_ext. intros. destruct (Nat.eqb i i0); ring.
Qed.

Lemma inner_zero_r : forall (S : space) (x : vector S), inner x zero = 0.
Proof. intros. rewrite inner_sym. apply inner_zero. Qed.

Lemma norm2_in_cell : forall S K c (z : vector S), norm2 (in_cell K c z) <= norm2 z.
Proof.
  intros. unfold norm2, in_cell. cbn [inner Parts]. pose proof (inner_pos S z). destruct c as [i|].
  - rewrite (sum_ext K _ (fun k => if Nat.eqb i k then inner z z else 0)).
    + rewrite sum_at. destruct (Nat.ltb i K); lra.
    + intros. destruct (Nat.eqb i i0); [reflexivity | apply inner_zero].
  - rewrite (sum_ext K _ (fun _ => 0)) by (intros; apply inner_zero). rewrite sum_const. lra.
Qed.

Lemma in_cells : forall S K c c' (z z' : vector S) B, 0 <= B ->
  ((exists i, c = Some i /\ c' = Some i) -> norm2 (sub z z') <= B) -> norm2 z + norm2 z' <= B ->
  norm2 (sub (in_cell K c z) (in_cell K c' z')) <= B.
Proof.
  intros S K c c' z z' B P Same Two.
  pose proof (norm2_in_cell S K c z). pose proof (norm2_in_cell S K c' z').
  assert (I : inner (in_cell K c z) (in_cell K c' z') = 0 \/ exists i, c = Some i /\ c' = Some i).
  { destruct c as [i|], c' as [j|].
    - destruct (Nat.eq_dec i j) as [-> | N]; [right; exists j; auto | left].
      unfold in_cell. cbn [inner Parts].
      rewrite (sum_ext K _ (fun _ => 0)); [rewrite sum_const; ring|].
      intros k _. destruct (Nat.eqb_spec i k), (Nat.eqb_spec j k); try lia;
        try apply inner_zero; apply inner_zero_r.
    - left. unfold in_cell. cbn [inner Parts].
      rewrite (sum_ext K _ (fun _ => 0)); [rewrite sum_const; ring | intros; apply inner_zero_r].
    - left. unfold in_cell. cbn [inner Parts].
      rewrite (sum_ext K _ (fun _ => 0)); [rewrite sum_const; ring | intros; apply inner_zero].
    - left. unfold in_cell. cbn [inner Parts].
      rewrite (sum_ext K _ (fun _ => 0)); [rewrite sum_const; ring | intros; apply inner_zero]. }
  destruct I as [Z | [i [-> ->]]].
  - rewrite norm2_sub, Z. lra.
  - rewrite norm2_parts, (sum_ext K _ (fun k => if Nat.eqb i k then norm2 (sub z z') else 0)).
    + rewrite sum_at. specialize (Same (ex_intro _ i (conj eq_refl eq_refl))). destruct (Nat.ltb i K); lra.
    + intros k _. unfold in_cell. destruct (Nat.eqb i k); [reflexivity|].
      rewrite norm2_sub, !inner_zero. unfold norm2. rewrite inner_zero. ring.
Qed.

Lemma root_up : forall S (x : vector S) B F, 0 <= B -> norm2 x <= B -> sqrt B <= F -> norm x * UP <= F * UP.
Proof.
  intros. pose proof up. apply Rmult_le_compat_r; [lra|].
  apply Rle_trans with (sqrt B); [apply sqrt_le_1_alt; assumption | assumption].
Qed.

(* ---- T1 and T2 ---- *)
Theorem T1_counts : forall K c c',
  norm (sub (in_cell K c (1 : vector Line)) (in_cell K c' (1 : vector Line))) * UP <= cell_counts.
Proof.
  intros. unfold cell_counts. apply (root_up _ _ 2); [lra | | right; reflexivity].
  apply in_cells; [lra | intros _; rewrite norm2_line; lra | unfold norm2; simpl; lra].
Qed.

Theorem T2_sums : forall (S : space) K c c' (z z' : vector S) b w, 0 < b -> 0 <= w ->
  norm z <= b -> norm z' <= b ->
  norm (sub (in_cell K c ((z, w) : vector (Pair S Line))) (in_cell K c' ((z', w) : vector (Pair S Line)))) * UP
    <= cell_sums b w.
Proof.
  intros S K c c' z z' b w B W Z Z'. unfold cell_sums.
  set (m := Rmax (2 * b) (sqrt (2 * (b * b + w * w)))).
  assert (M1 : 2 * b <= m) by apply Rmax_l.
  assert (M2 : sqrt (2 * (b * b + w * w)) <= m) by apply Rmax_r.
  assert (Q : 2 * (b * b + w * w) <= m * m).
  { rewrite <- (sqrt_sqrt (2 * (b * b + w * w))) by nra.
    pose proof (sqrt_pos (2 * (b * b + w * w))). apply Rmult_le_compat; assumption. }
  apply (root_up _ _ (m * m)); [nra | | rewrite sqrt_square; lra].
  pose proof (norm2_le z b Z). pose proof (norm2_le z' b Z').
  apply in_cells; [nra | |].
  - intros _. rewrite norm2_pair, norm2_line. cbn [fst snd].
    pose proof (norm2_le _ _ (ball b z z' Z Z')). nra.
  - unfold norm2 in *. cbn [inner Pair Line fst snd]. lra.
Qed.

(* ---- a square beside its number is free: D3, T3, C79 ---- *)
Lemma free_square : forall v v' W2, -1 <= v <= 1 -> -1 <= v' <= 1 -> 0 <= W2 <= 27723 / 10000 ->
  (v - v') ^ 2 + W2 * (v ^ 2 - v' ^ 2) ^ 2 <= 4.
Proof.
  intros v v' W2 A B [C D].
  set (a := Rabs (v - v')). set (b := Rabs (v + v')).
  assert (P : 0 <= a) by apply Rabs_pos. assert (Q : 0 <= b) by apply Rabs_pos.
  assert (E : a + b <= 2).
  { unfold a, b, Rabs. destruct (Rcase_abs (v - v')), (Rcase_abs (v + v')); lra. }
  assert (SA : (v - v') ^ 2 = a ^ 2) by (unfold a; rewrite pow2_abs; reflexivity).
  assert (SB : (v + v') ^ 2 = b ^ 2) by (unfold b; rewrite pow2_abs; reflexivity).
  replace ((v ^ 2 - v' ^ 2) ^ 2) with ((v - v') ^ 2 * (v + v') ^ 2) by ring. rewrite SA, SB.
  assert (b ^ 2 <= (2 - a) ^ 2) by (apply pow_incr; lra).
  assert (0 <= a ^ 2) by apply pow2_ge_0.
  apply Rle_trans with (a ^ 2 + W2 * (a ^ 2 * (2 - a) ^ 2)).
  { apply Rplus_le_compat_l, Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; assumption. }
  assert (F : 0 <= 2 + a - W2 * (2 * a ^ 2 - a ^ 3)).
  { assert (0 <= a ^ 2 * (2 - a)) by (apply Rmult_le_pos; lra).
    assert (W2 * (2 * a ^ 2 - a ^ 3) <= 27723 / 10000 * (2 * a ^ 2 - a ^ 3))
      by (apply Rmult_le_compat_r; [replace (2 * a ^ 2 - a ^ 3) with (a ^ 2 * (2 - a)) by ring|]; lra).
    pose proof (pow2_ge_0 (a - 123606 / 100000)).
    assert (0 <= (a - 123606 / 100000) ^ 2 * (a + 47212 / 100000)) by (apply Rmult_le_pos; lra).
    replace (2 * a ^ 2 - a ^ 3) with (- ((a - 123606 / 100000) ^ 2 * (a + 47212 / 100000))
      + a * ((123606 / 100000) ^ 2 - 2 * (123606 / 100000) * (47212 / 100000)) + (123606 / 100000) ^ 2 * (47212 / 100000))
      in * by field.
    lra. }
  assert (0 <= (2 - a) * (2 + a - W2 * (2 * a ^ 2 - a ^ 3))) by (apply Rmult_le_pos; lra).
  replace (a ^ 2 + W2 * (a ^ 2 * (2 - a) ^ 2)) with (4 - (2 - a) * (2 + a - W2 * (2 * a ^ 2 - a ^ 3))) by ring.
  lra.
Qed.

Theorem C79_square_of_a_location : forall s s' mu, -1 <= s <= 1 -> -1 <= s' <= 1 ->
  mu ^ 2 * ((s - s') ^ 2 / 4) + (SQUARE_MU * mu) ^ 2 * (s ^ 2 - s' ^ 2) ^ 2 <= mu ^ 2.
Proof.
  intros s s' mu A B.
  pose proof (free_square s s' (4 * SQUARE_MU ^ 2) A B ltac:(unfold SQUARE_MU; lra)).
  pose proof (pow2_ge_0 mu). nra.
Qed.

Theorem C79_mean_square : forall n depth clip, 1 <= n -> 0 <= depth < 2 ^ 50 -> 0 <= clip ->
  clip * clip / n * (1 + 2 * (RECORD_ERROR + gamma depth * n * (1 + RECORD_ERROR))) * UP <= mean_square clip n depth.
Proof.
  intros n depth c N D C. unfold mean_square. pose proof up. apply Rmult_le_compat_r; [lra|].
  assert (0 <= c * c / n) by (apply Rmult_le_pos; [nra | apply Rlt_le, Rinv_0_lt_compat; lra]).
  apply Rmult_le_compat_l; [assumption|]. pose proof (slack n depth N D).
  pose proof (gamma_pos depth D). pose proof error_pos. assert (0 <= gamma depth * n) by nra. nra.
Qed.

(* ---- T3: a columns with squares, p without, in one cell ---- *)
Definition row (a q : nat) (v : nat -> R) (w : R) : vector (Pair (Pair (Rd q) (Rd a)) Line) :=
  (((v, fun j => TABLES_SQUARE_WEIGHT * (v j ^ 2 - SQUARE_AT)) : vector (Pair (Rd q) (Rd a))), w).

Lemma sum_split : forall a p f, sum (a + p) f = sum a f + sum p (fun j => f (a + j)%nat).
Proof.
  induction p; intros; [rewrite Nat.add_0_r; simpl; ring|].
  rewrite Nat.add_succ_r. simpl sum. rewrite IHp. ring.
Qed.

Theorem T3_squares_and_counts_are_free : forall K c c' a p v v',
  (forall j, -1 <= v j <= 1) -> (forall j, -1 <= v' j <= 1) -> (1 <= a + p)%nat ->
  let w := count_weight (INR a) (INR p) in
  norm (sub (in_cell K c (row a (a + p) v w)) (in_cell K c' (row a (a + p) v' w))) * UP
    <= cell_moments (INR a) (INR p) 0.
Proof.
  intros K c c' a p v v' V V' AP w.
  assert (PA : 0 <= INR a) by apply pos_INR. assert (PP : 0 <= INR p) by apply pos_INR.
  assert (Q : 0 <= 7 / 8 * INR a + INR p) by lra.
  assert (W : w * w <= 7 / 8 * INR a + INR p).
  { unfold w, count_weight, WITH_SQUARES, WITHOUT.
    replace (7 / 8 * INR a + 1 * INR p) with (7 / 8 * INR a + INR p) by ring.
    set (r := sqrt (7 / 8 * INR a + INR p)).
    assert (r * r = 7 / 8 * INR a + INR p) by (apply sqrt_sqrt; exact Q).
    pose proof (sqrt_pos (7 / 8 * INR a + INR p)). fold r in H0. unfold DOWN.
    replace (r * (281474976710655 / 2 ^ 48) * (r * (281474976710655 / 2 ^ 48)))
      with (r * r * (281474976710655 / 2 ^ 48) ^ 2) by ring.
    rewrite H. nra. }
  unfold cell_moments. set (s := sqrt (INR a + INR p)).
  assert (S2 : s * s = INR a + INR p) by (apply sqrt_sqrt; lra).
  assert (SP : 0 <= s) by apply sqrt_pos.
  apply (root_up _ _ (4 * (INR a + INR p))); [lra | |].
  2: { rewrite <- S2. replace (4 * (s * s)) with ((2 * s) * (2 * s)) by ring.
       rewrite sqrt_square by lra. lra. }
  apply in_cells; [lra | |].
  - intros _. unfold row. rewrite !norm2_pair, norm2_line. cbn [fst snd].
    rewrite !norm2_Rd, sum_split.
    assert (forall j, (v j - v' j) * (v j - v' j)
      + (TABLES_SQUARE_WEIGHT * (v j ^ 2 - SQUARE_AT) - TABLES_SQUARE_WEIGHT * (v' j ^ 2 - SQUARE_AT))
      * (TABLES_SQUARE_WEIGHT * (v j ^ 2 - SQUARE_AT) - TABLES_SQUARE_WEIGHT * (v' j ^ 2 - SQUARE_AT)) <= 4).
    { intro j. pose proof (free_square (v j) (v' j) (TABLES_SQUARE_WEIGHT ^ 2) (V j) (V' j)
        ltac:(unfold TABLES_SQUARE_WEIGHT; lra)).
      replace ((v j - v' j) * (v j - v' j) + _) with ((v j - v' j) ^ 2
        + TABLES_SQUARE_WEIGHT ^ 2 * (v j ^ 2 - v' j ^ 2) ^ 2) by ring. assumption. }
    pose proof (sum_le a _ (fun _ => 4) (fun j _ => H j)) as L. rewrite sum_add, sum_const in L.
    pose proof (sum_le p (fun j => (v (a + j)%nat - v' (a + j)%nat) * (v (a + j)%nat - v' (a + j)%nat))
      (fun _ => 4)) as L'. rewrite sum_const in L'.
    assert (sum p (fun j => (v (a + j)%nat - v' (a + j)%nat) * (v (a + j)%nat - v' (a + j)%nat)) <= INR p * 4).
    { apply L'. intros j _. specialize (V (a + j)%nat). specialize (V' (a + j)%nat). nra. }
    lra.
  - assert (One : forall u, (forall j, -1 <= u j <= 1) ->
      norm2 (row a (a + p) u w) <= 9 / 8 * INR a + INR p + w * w).
    { intros u U. unfold row, norm2. cbn [inner Pair Line Rd fst snd]. unfold dot. rewrite sum_split.
      assert (forall j, u j * u j + TABLES_SQUARE_WEIGHT * (u j ^ 2 - SQUARE_AT)
        * (TABLES_SQUARE_WEIGHT * (u j ^ 2 - SQUARE_AT)) <= 9 / 8).
      { intro j. specialize (U j). set (t := u j ^ 2). assert (T : 0 <= t <= 1) by (unfold t; nra).
        replace (u j * u j) with t by (unfold t; ring).
        replace (TABLES_SQUARE_WEIGHT * (t - SQUARE_AT) * (TABLES_SQUARE_WEIGHT * (t - SQUARE_AT)))
          with (TABLES_SQUARE_WEIGHT ^ 2 * (t - SQUARE_AT) ^ 2) by ring.
        assert (TABLES_SQUARE_WEIGHT ^ 2 <= 2) by (unfold TABLES_SQUARE_WEIGHT; lra).
        unfold SQUARE_AT. pose proof (pow2_ge_0 (t - 3 / 4)).
        assert (TABLES_SQUARE_WEIGHT ^ 2 * (t - 3 / 4) ^ 2 <= 2 * (t - 3 / 4) ^ 2)
          by (apply Rmult_le_compat_r; assumption). nra. }
      pose proof (sum_le a _ (fun _ => 9 / 8) (fun j _ => H j)) as L. rewrite sum_add, sum_const in L.
      assert (sum p (fun j => u (a + j)%nat * u (a + j)%nat) <= INR p * 1).
      { rewrite <- (sum_const p 1). apply sum_le. intros j _. specialize (U (a + j)%nat). nra. }
      lra. }
    pose proof (One v V). pose proof (One v' V'). lra.
Qed.

(* T4: the roundings are 16 sqrt(q) n u at most. *)
Theorem T4_as_computed : forall a p n (x : R), 0 <= a -> 0 <= p -> 0 <= n -> x * UP <= cell_moments a p 0 ->
  (x + 16 * sqrt (a + p) * n * UNIT_ROUNDOFF) * UP <= cell_moments a p n.
Proof. intros. unfold cell_moments in *. pose proof up. nra. Qed.

(* ---- T5: a record's bin adds a column of a map without negative entries to its cell ---- *)
Theorem T5_distributions : forall (S : space) K c c' (column column' : vector S) longest, 0 < longest ->
  norm column <= longest -> norm column' <= longest -> 0 <= inner column column' ->
  norm (sub (in_cell K c column) (in_cell K c' column')) * UP <= cell_distribution longest.
Proof.
  intros S K c c' z z' b B Z Z' A. unfold cell_distribution.
  pose proof (norm2_le z b Z). pose proof (norm2_le z' b Z').
  apply (root_up _ _ (2 * (b * b))); [nra | |].
  - apply in_cells; [nra | | lra]. intros _. rewrite norm2_sub. lra.
  - rewrite sqrt_mult_alt by lra. rewrite sqrt_square by lra. lra.
Qed.

(* ---- D2: centred counts, and the number of complete records beside them ---- *)
Definition complete (m : nat) (w : R) (above : option (nat -> bool)) : vector (Pair (Rd m) Line) :=
  match above with
  | None => zero
  | Some f => ((fun j => if f j then / 2 else - / 2) : vector (Rd m), w)
  end.

Lemma complete_weight_is_free : forall m, 0 <= m -> 0 <= complete_weight m /\ complete_weight m ^ 2 <= 3 / 4 * m.
Proof.
  intros m M. unfold complete_weight, WEIGHT_STEP, DOWN.
  set (r := sqrt (3 / 4 * m)). assert (R2 : r * r = 3 / 4 * m) by (apply sqrt_sqrt; lra).
  assert (RP : 0 <= r) by apply sqrt_pos.
  set (x := 32 * r * (281474976710655 / 2 ^ 48)).
  assert (X : 0 <= x <= 32 * r) by (unfold x; lra).
  pose proof (floor_below x) as F.
  assert (G : 0 <= floor x).
  { unfold floor. destruct (base_Int_part x) as [_ H]. apply IZR_le.
    assert (-1 < Int_part x)%Z by (apply lt_IZR; lra). lia. }
  split; [lra|]. rewrite <- R2. replace ((floor x / 32) ^ 2) with ((floor x / 32) * (floor x / 32)) by ring.
  apply Rmult_le_compat; lra.
Qed.

Theorem D2_counts : forall m a a', let w := complete_weight (INR m) in
  norm (sub (complete m w a) (complete m w a')) * UP <= counts (INR m).
Proof.
  intros m a a' w. unfold counts. pose proof (pos_INR m) as P.
  destruct (complete_weight_is_free (INR m) P) as [W0 W]. fold w in W0, W.
  apply (root_up _ _ (INR m)); [lra | | right; reflexivity].
  assert (Z : forall f, norm2 (complete m w (Some f)) <= INR m).
  { intro f. unfold norm2, complete. cbn [inner Pair Line Rd fst snd]. unfold dot.
    rewrite (sum_ext m _ (fun _ => / 4)); [rewrite sum_const; nra | intros; destruct (f i); lra]. }
  assert (Q : forall x : vector (Pair (Rd m) Line), norm2 (sub x zero) = norm2 x /\ norm2 (sub zero x) = norm2 x).
  { intro x. rewrite !norm2_sub, inner_zero, inner_zero_r. unfold norm2. rewrite !inner_zero. split; ring. }
  destruct a as [f|], a' as [f'|].
  - rewrite norm2_pair, norm2_line, norm2_Rd. unfold complete. cbn [fst snd].
    replace ((w - w) * (w - w)) with 0 by ring.
    apply Rle_trans with (INR m * 1); [|lra]. rewrite <- (sum_const m 1), Rplus_0_r.
    apply sum_le. intros j _. destruct (f j), (f' j); lra.
  - destruct (Q (complete m w (Some f))) as [E _]. change (complete m w None) with (zero : vector (Pair (Rd m) Line)).
    rewrite E. apply Z.
  - destruct (Q (complete m w (Some f'))) as [_ E]. change (complete m w None) with (zero : vector (Pair (Rd m) Line)).
    rewrite E. apply Z.
  - rewrite norm2_sub. unfold complete. unfold norm2. rewrite !inner_zero. lra.
Qed.

(* ---- D3: clipped means, and mean squares beside them ---- *)
Definition moments (q : nat) (v : nat -> R) : vector (Pair (Rd q) (Rd q)) :=
  (v : vector (Rd q), (fun j => SCALING_SQUARE_WEIGHT * v j ^ 2) : vector (Rd q)).

Theorem D3_moments : forall record (v : record -> nat -> R) q n k X X' m m',
  1 <= n -> neighbours k X X' -> (forall x j, -1 <= v x j <= 1) ->
  (* as computed: D3 bounds the rounding by 7 sqrt(q) u on each side *)
  norm (sub m (scale (/ n) (total k (fun i => moments q (v (X i)))))) <= 7 * sqrt (INR q) * UNIT_ROUNDOFF ->
  norm (sub m' (scale (/ n) (total k (fun i => moments q (v (X' i)))))) <= 7 * sqrt (INR q) * UNIT_ROUNDOFF ->
  norm (sub m m') * UP <= clipped_moments (INR q) n.
Proof.
  intros record v q n k X X' m m' N Nb V E E'.
  set (e := scale (/ n) (total k (fun i => moments q (v (X i))))) in *.
  set (e' := scale (/ n) (total k (fun i => moments q (v (X' i))))) in *.
  pose proof (sqrt_pos (INR q)) as SP. pose proof (pos_INR q).
  assert (H0 : norm (sub e e') <= 2 * sqrt (INR q) / n).
  { apply (mean_of_records (fun x => moments q (v x))); [lra | exact Nb|]. intros x x'.
    apply norm_le; [lra|]. replace (2 * sqrt (INR q) * (2 * sqrt (INR q))) with (4 * (sqrt (INR q) * sqrt (INR q))) by ring.
    rewrite sqrt_sqrt by assumption. rewrite norm2_pair, !norm2_Rd. unfold moments. cbn [fst snd].
    rewrite <- sum_add. apply Rle_trans with (INR q * 4); [|lra]. rewrite <- (sum_const q 4).
    apply sum_le. intros j _.
    pose proof (free_square (v x j) (v x' j) (SCALING_SQUARE_WEIGHT ^ 2) (V x j) (V x' j)
      ltac:(unfold SCALING_SQUARE_WEIGHT; lra)). nra. }
  pose proof (triangle3 m e m'). pose proof (triangle3 e e' m'). rewrite (norm_sub_sym m') in E'.
  unfold clipped_moments. pose proof up. apply Rmult_le_compat_r; [lra|].
  replace (sqrt (INR q) * (2 / n + 16 * UNIT_ROUNDOFF))
    with (2 * sqrt (INR q) / n + 16 * (sqrt (INR q) * UNIT_ROUNDOFF)) by (field; lra).
  assert (0 <= sqrt (INR q) * UNIT_ROUNDOFF) by (apply Rmult_le_pos; [lra | unfold UNIT_ROUNDOFF; lra]). lra.
Qed.

(* ---- D4: a round of counts spends at most what it was given ---- *)
Theorem D4_query_mu : forall a planned l, 0 < planned -> (forall m, In m l -> 0 <= m) ->
  total_of (fun m => m) l <= planned -> total_of (fun m => query_mu a planned m ^ 2) l <= a ^ 2.
Proof.
  intros a N l P M S.
  assert (T : total_of (fun m => query_mu a N m ^ 2) l <= a ^ 2 / N * total_of (fun m => m) l).
  { unfold total_of. clear S. induction l as [|m l]; simpl fold_right; [lra|].
    assert (fold_right (fun x s => query_mu a N x ^ 2 + s) 0 l <= a ^ 2 / N * fold_right (fun x s => x + s) 0 l)
      by (apply IHl; intros; apply M; right; assumption).
    assert (Mm : 0 <= m) by (apply M; left; reflexivity).
    assert (0 <= m / N) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
    assert (query_mu a N m ^ 2 <= a ^ 2 / N * m).
    { unfold query_mu. set (r := sqrt (m / N)). assert (R2 : r * r = m / N) by (apply sqrt_sqrt; assumption).
      replace ((a * r * DOWN) ^ 2) with (a ^ 2 * (r * r) * DOWN ^ 2) by ring. rewrite R2.
      replace (a ^ 2 / N * m) with (a ^ 2 * (m / N)) by (field; lra).
      assert (0 <= a ^ 2 * (m / N)) by (apply Rmult_le_pos; [apply pow2_ge_0 | assumption]).
      assert (DOWN ^ 2 <= 1) by (unfold DOWN; lra). nra. }
    rewrite Rmult_plus_distr_l. apply Rplus_le_compat; assumption. }
  assert (0 <= a ^ 2 / N) by (apply Rmult_le_pos; [apply pow2_ge_0 | apply Rlt_le, Rinv_0_lt_compat; lra]).
  assert (a ^ 2 / N * total_of (fun m => m) l <= a ^ 2 / N * N) by (apply Rmult_le_compat_l; assumption).
  replace (a ^ 2 / N * N) with (a ^ 2) in * by (field; lra). lra.
Qed.

(* ---- D6: distances of all columns at once, and histograms of several columns ---- *)
Theorem D6_distances : forall (S : space) q (x y : vector (Parts q S)),
  (forall j, norm (x j) <= 1) -> (forall j, norm (y j) <= 1) -> (forall j, 0 <= inner (x j) (y j)) ->
  norm (sub x y) * UP <= distances (INR q).
Proof.
  intros S q x y A B C. unfold distances. pose proof (pos_INR q).
  apply (root_up _ _ (2 * INR q)); [lra | | right; reflexivity].
  rewrite norm2_parts. apply Rle_trans with (INR q * 2); [|lra]. rewrite <- (sum_const q 2).
  apply sum_le. intros j _. rewrite norm2_sub. specialize (A j). specialize (B j). specialize (C j).
  pose proof (norm2_le _ _ A). pose proof (norm2_le _ _ B). lra.
Qed.
