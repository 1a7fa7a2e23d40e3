(* What operations of Python's formulas mean over the real numbers. *)
Require Import Reals Lra Bool List.
Open Scope R_scope.

Definition leb (x y : R) : bool := if Rle_dec x y then true else false.
Definition ltb (x y : R) : bool := if Rlt_dec x y then true else false.
Definition eqb (x y : R) : bool := if Req_EM_T x y then true else false.
Definition floor (x : R) : R := IZR (Int_part x).
Definition total_of {T : Type} (f : T -> R) (l : list T) : R := fold_right (fun x s => f x + s) 0 l.

Lemma floor_below : forall x, floor x <= x.
Proof. intro x. unfold floor. destruct (base_Int_part x). lra. Qed.

Lemma floor_near : forall x, x - 1 < floor x.
Proof. intro x. unfold floor. destruct (base_Int_part x). lra. Qed.

Lemma leb_cases : forall (T : Type) x y (a b : T) (P : T -> Prop),
  (x <= y -> P a) -> (y < x -> P b) -> P (if leb x y then a else b).
Proof. intros T x y a b P A B. unfold leb. destruct (Rle_dec x y); [apply A | apply B]; lra. Qed.

Lemma ltb_cases : forall (T : Type) x y (a b : T) (P : T -> Prop),
  (x < y -> P a) -> (y <= x -> P b) -> P (if ltb x y then a else b).
Proof. intros T x y a b P A B. unfold ltb. destruct (Rlt_dec x y); [apply A | apply B]; lra. Qed.
