(* Vectors and matrices with an inner product, means over records, and neighbouring data sets. *)
Require Import Reals Lra Psatz Lia.
Open Scope R_scope.

(* All that is used of a space; R^d with its dot product is one, and so are matrices (below). *)
Record space := {
  vector : Type;
  zero : vector;
  add : vector -> vector -> vector;
  scale : R -> vector -> vector;
  inner : vector -> vector -> R;
  inner_sym : forall x y, inner x y = inner y x;
  inner_zero : forall x, inner zero x = 0;
  inner_add : forall x y z, inner (add x y) z = inner x z + inner y z;
  inner_scale : forall c x z, inner (scale c x) z = c * inner x z;
  inner_pos : forall x, 0 <= inner x x;
}.
Arguments zero {s}. Arguments add {s}. Arguments scale {s}. Arguments inner {s}.

Section Space.
Context {S : space}.
Notation V := (vector S).

Definition sub (x y : V) : V := add x (scale (-1) y).
Definition norm2 (x : V) : R := inner x x.
Definition norm (x : V) : R := sqrt (norm2 x).

Lemma inner_sub : forall x y z : V, inner (sub x y) z = inner x z - inner y z.
Proof. intros. unfold sub. rewrite inner_add, inner_scale. ring. Qed.

Lemma norm2_pos : forall x : V, 0 <= norm2 x.
Proof. intro. apply inner_pos. Qed.

Lemma norm_pos : forall x : V, 0 <= norm x.
Proof. intro. apply sqrt_pos. Qed.

Lemma norm_square : forall x : V, norm x * norm x = norm2 x.
Proof. intro. apply sqrt_sqrt. apply norm2_pos. Qed.

Lemma norm2_add : forall x y : V, norm2 (add x y) = norm2 x + 2 * inner x y + norm2 y.
Proof.
  intros. unfold norm2. rewrite inner_add, (inner_sym S x (add x y)), (inner_sym S y (add x y)).
  rewrite !inner_add, (inner_sym S y x). ring.
Qed.

Lemma norm2_scale : forall c (x : V), norm2 (scale c x) = c * c * norm2 x.
Proof. intros. unfold norm2. rewrite inner_scale, inner_sym, inner_scale. ring. Qed.

Lemma norm2_sub : forall x y : V, norm2 (sub x y) = norm2 x - 2 * inner x y + norm2 y.
Proof.
  intros. unfold sub. rewrite norm2_add, norm2_scale, inner_sym, inner_scale, (inner_sym S y x). ring.
Qed.

Lemma cauchy_schwarz2 : forall x y : V, inner x y * inner x y <= norm2 x * norm2 y.
Proof.
  intros. pose proof (norm2_pos (add (scale (norm2 y) x) (scale (- inner x y) y))) as P.
  rewrite norm2_add, !norm2_scale, inner_scale, (inner_sym S x), inner_scale, (inner_sym S y x) in P.
  destruct (Req_dec (norm2 y) 0) as [Z | N].
  - assert (H : inner x y = 0).
    { pose proof (norm2_pos (add (scale (inner x y) x) (scale (- (norm2 x + 1)) y))) as P'.
      rewrite norm2_add, !norm2_scale, inner_scale, (inner_sym S x (scale _ y)), inner_scale,
        (inner_sym S y x), Z in P'.
      pose proof (norm2_pos x). nra. }
    rewrite H, Z. lra.
  - pose proof (norm2_pos y). assert (0 < norm2 y) by lra.
    apply Rmult_le_reg_l with (norm2 y); [assumption|]. nra.
Qed.

Lemma abs_le_of_square : forall a b, 0 <= b -> a * a <= b * b -> Rabs a <= b.
Proof. intros. apply Rabs_le. split; nra. Qed.

Lemma cauchy_schwarz : forall x y : V, Rabs (inner x y) <= norm x * norm y.
Proof.
  intros. pose proof (cauchy_schwarz2 x y). pose proof (norm_pos x). pose proof (norm_pos y).
  apply abs_le_of_square; [apply Rmult_le_pos; assumption|].
  replace (norm x * norm y * (norm x * norm y)) with ((norm x * norm x) * (norm y * norm y)) by ring.
  rewrite !norm_square. assumption.
Qed.

Lemma norm_le : forall (x : V) b, 0 <= b -> norm2 x <= b * b -> norm x <= b.
Proof.
  intros. unfold norm. rewrite <- (sqrt_square b) by assumption. apply sqrt_le_1_alt. assumption.
Qed.

Lemma norm2_le : forall (x : V) b, norm x <= b -> norm2 x <= b * b.
Proof. intros. rewrite <- norm_square. pose proof (norm_pos x). nra. Qed.

Lemma triangle : forall x y : V, norm (add x y) <= norm x + norm y.
Proof.
  intros. pose proof (norm_pos x). pose proof (norm_pos y).
  apply norm_le; [lra|]. rewrite norm2_add, <- !norm_square.
  pose proof (cauchy_schwarz x y) as C. pose proof (Rle_abs (inner x y)). nra.
Qed.

Lemma norm_scale : forall c (x : V), norm (scale c x) = Rabs c * norm x.
Proof.
  intros. unfold norm. rewrite norm2_scale, sqrt_mult_alt by nra. f_equal. apply sqrt_Rsqr_abs.
Qed.

Lemma triangle_sub : forall x y : V, norm (sub x y) <= norm x + norm y.
Proof.
  intros. unfold sub. pose proof (triangle x (scale (-1) y)) as T. rewrite norm_scale in T.
  replace (Rabs (-1)) with 1 in T by (rewrite Rabs_left; lra). lra.
Qed.

Lemma inner_sub_r : forall x y z : V, inner x (sub y z) = inner x y - inner x z.
Proof. intros. rewrite inner_sym, inner_sub, (inner_sym S y), (inner_sym S z). reflexivity. Qed.

(* Vectors that no inner product tells apart have the same norm. *)
Definition same (x y : V) := forall z : V, inner x z = inner y z.
Lemma same_norm : forall x y : V, same x y -> norm x = norm y.
Proof.
  intros x y H. unfold norm, norm2. f_equal. rewrite H, inner_sym, H. reflexivity.
Qed.

Lemma triangle3 : forall x y z : V, norm (sub x z) <= norm (sub x y) + norm (sub y z).
Proof.
  intros. rewrite (same_norm (sub x z) (add (sub x y) (sub y z))); [apply triangle|].
  intro w. rewrite inner_add, !inner_sub. ring.
Qed.

Lemma norm_sub_sym : forall x y : V, norm (sub x y) = norm (sub y x).
Proof.
  intros. unfold norm. f_equal. rewrite !norm2_sub, (inner_sym S y x). ring.
Qed.

Lemma norm_zero : norm zero = 0.
Proof. unfold norm, norm2. rewrite inner_zero. apply sqrt_0. Qed.

(* ---- sums and means over records ---- *)
Fixpoint total (n : nat) (f : nat -> V) : V :=
  match n with O => zero | Datatypes.S k => add (total k f) (f k) end.

Definition mean (n : nat) (f : nat -> V) : V := scale (/ INR n) (total n f).

Lemma inner_mean_sub : forall n (f g : nat -> V) z,
  inner (sub (mean n f) (mean n g)) z = / INR n * (inner (total n f) z - inner (total n g) z).
Proof. intros. unfold mean. rewrite inner_sub, !inner_scale. ring. Qed.

End Space.

Section Neighbours.
Context {S : space} {record : Type}.

(* Replacement: two tables of n records that differ in one of them. *)
Definition neighbours (n : nat) (X X' : nat -> record) :=
  exists k, (k < n)%nat /\ forall i, (i < n)%nat -> i <> k -> X i = X' i.

Variable f : record -> vector S.

Lemma totals_agree : forall n (X X' : nat -> record) z,
  (forall i, (i < n)%nat -> X i = X' i) ->
  inner (total n (fun i => f (X i))) z = inner (total n (fun i => f (X' i))) z.
Proof.
  induction n; intros; simpl; [reflexivity|].
  rewrite !inner_add, (IHn X X'), (H n) by (intros; try apply H; lia). reflexivity.
Qed.

Lemma totals_differ : forall n (X X' : nat -> record) k,
  (k < n)%nat -> (forall i, (i < n)%nat -> i <> k -> X i = X' i) ->
  forall z, inner (total n (fun i => f (X i))) z - inner (total n (fun i => f (X' i))) z
            = inner (sub (f (X k)) (f (X' k))) z.
Proof.
  induction n; intros X X' k L H z; [lia|]. simpl. rewrite !inner_add.
  destruct (Nat.eq_dec k n) as [-> | N].
  - rewrite (totals_agree n X X') by (intros; apply H; lia). rewrite inner_sub. ring.
  - rewrite (H n) by lia. rewrite <- (IHn X X' k) by (try lia; intros; apply H; lia). ring.
Qed.

(* The sum of a function of each record moves by what one record's value moves. *)
Theorem sum_of_records : forall n (X X' : nat -> record) D, neighbours n X X' ->
  (forall x x', norm (sub (f x) (f x')) <= D) ->
  norm (sub (total n (fun i => f (X i))) (total n (fun i => f (X' i)))) <= D.
Proof.
  intros n X X' D [k [L H]] B.
  rewrite (same_norm _ (sub (f (X k)) (f (X' k)))); [apply B|].
  intro z. rewrite inner_sub. apply totals_differ; assumption.
Qed.

(* The mean of n by 1/n of that, whatever divisor m stands in the place of n (C13, C85). *)
Theorem mean_of_records : forall n m (X X' : nat -> record) D, 0 < m -> neighbours n X X' ->
  (forall x x', norm (sub (f x) (f x')) <= D) ->
  norm (sub (scale (/ m) (total n (fun i => f (X i)))) (scale (/ m) (total n (fun i => f (X' i)))))
    <= D / m.
Proof.
  intros n m X X' D P N B.
  rewrite (same_norm _ (scale (/ m) (sub (total n (fun i => f (X i))) (total n (fun i => f (X' i)))))).
  - rewrite norm_scale, Rabs_right by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat, P).
    unfold Rdiv. rewrite Rmult_comm. apply Rmult_le_compat_r.
    + apply Rlt_le, Rinv_0_lt_compat, P.
    + apply sum_of_records; assumption.
  - intro z. rewrite inner_scale, !inner_sub, !inner_scale. ring.
Qed.

End Neighbours.

(* ---- R^d, and matrices ---- *)
Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S k => sum k f + f k end.

Lemma sum_add : forall n f g, sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n; intros; simpl; [ring | rewrite IHn; ring]. Qed.
Lemma sum_scale : forall n c f, sum n (fun i => c * f i) = c * sum n f.
Proof. induction n; intros; simpl; [ring | rewrite IHn; ring]. Qed.
Lemma sum_ext : forall n f g, (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof. induction n; intros; simpl; [reflexivity|]. rewrite (IHn f g), (H n); auto. Qed.
Lemma sum_pos : forall n f, (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof.
  induction n; intros; simpl; [lra|].
  assert (0 <= sum n f) by (apply IHn; intros; apply H; lia).
  assert (0 <= f n) by (apply H; lia). lra.
Qed.
Lemma sum_le : forall n f g, (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof.
  induction n; intros; simpl; [lra|].
  assert (sum n f <= sum n g) by (apply IHn; intros; apply H; lia).
  assert (f n <= g n) by (apply H; lia). lra.
Qed.
Lemma sum_const : forall n c, sum n (fun _ => c) = INR n * c.
Proof. induction n; intros; [simpl; ring|]. rewrite S_INR. simpl sum. rewrite IHn. ring. Qed.
Lemma sum_product : forall n m f g,
  sum n (fun i => sum m (fun j => f i * g j)) = sum n f * sum m g.
Proof.
  intros. transitivity (sum n (fun i => sum m g * f i)).
  - apply sum_ext. intros. rewrite sum_scale. ring.
  - rewrite sum_scale. ring.
Qed.

Definition dot (d : nat) (u v : nat -> R) : R := sum d (fun i => u i * v i).

Definition Rd (d : nat) : space.
Proof.
  refine {| vector := nat -> R; zero := fun _ => 0; add := fun u v i => u i + v i;
            scale := fun c u i => c * u i; inner := dot d |}; intros; unfold dot.
  - apply sum_ext; intros; ring.
  - transitivity (sum d (fun i => 0 * x i)); [apply sum_ext; intros; ring | rewrite sum_scale; ring].
  - rewrite <- sum_add. apply sum_ext; intros; ring.
  - rewrite <- sum_scale. apply sum_ext; intros; ring.
  - apply sum_pos. intros. nra.
Defined.

Definition Mat (d : nat) : space.
Proof.
  refine {| vector := nat -> nat -> R; zero := fun _ _ => 0; add := fun u v i j => u i j + v i j;
            scale := fun c u i j => c * u i j;
            inner := fun u v => sum d (fun i => dot d (u i) (v i)) |}; intros; unfold dot.
  - apply sum_ext; intros; apply sum_ext; intros; ring.
  - transitivity (sum d (fun _ => 0)); [apply sum_ext; intros | rewrite sum_const; ring].
    transitivity (sum d (fun j => 0 * x i j)); [apply sum_ext; intros; ring | rewrite sum_scale; ring].
  - rewrite <- sum_add. apply sum_ext; intros. rewrite <- sum_add. apply sum_ext; intros; ring.
  - rewrite <- sum_scale. apply sum_ext; intros. rewrite <- sum_scale. apply sum_ext; intros; ring.
  - apply sum_pos. intros. apply sum_pos. intros. nra.
Defined.

(* The matrix a a' of a vector, and its inner product with another one. *)
Definition outer {d} (a : vector (Rd d)) : vector (Mat d) := fun i j => a i * a j.

Lemma inner_outer : forall d (a c : vector (Rd d)),
  inner (outer a) (outer c) = inner a c * inner a c.
Proof.
  intros. unfold inner; simpl. unfold outer, dot.
  rewrite <- (sum_product d d (fun i => a i * c i) (fun j => a j * c j)).
  apply sum_ext; intros. apply sum_ext; intros. ring.
Qed.

Lemma norm2_outer : forall d (a : vector (Rd d)), norm2 (outer a) = norm2 a * norm2 a.
Proof. intros. unfold norm2. apply inner_outer. Qed.
