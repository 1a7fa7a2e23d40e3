"""Requests that protect persons: read labels, combine rows, subtract own means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpfast.arguments import one_of
from dpfast.curator.persons import one_row_per_person
from dpfast.data.columns import refuse_other_rows
from dpfast.data.groups import checked_group_size, grouped
from dpfast.data.persons.means import of_slots, person_means, refuse_cluster
from dpfast.data.persons.numbering import split_group
from dpfast.data.source import Source
from dpfast.errors import InvalidInput, described

if TYPE_CHECKING:
    from dpfast.fit_requests.request import FitRequest


def read_persons(request: FitRequest, source: Source) -> tuple[Any, Any, tuple[str, ...]]:
    """Read the labels of rows protected together; return covariates, labels and their name."""
    X, group = source.covariates, source.group
    request.group_size = checked_group_size(group, source.group_size, source.each)
    request.means = source.each == "person"
    if request.means:
        refuse_cluster(X)
    names = (group,) if isinstance(group, str) else ()
    is_sequence = hasattr(group, "__len__") or hasattr(group, "__array__")
    if group is not None and (isinstance(group, type) or not is_sequence):
        raise InvalidInput(
            f"group must be a column of labels, one for each row; received {described(group)}."
        )
    X, group = split_group(X, group)  # for a file: a function that reads labels in parts
    if request.means:
        _refuse_lengths(X, source.response, group)
    return X, group, names


def take_own_means(request: FitRequest, effects: Any, group: Any) -> None:
    """Subtract the persons' own means from their rows (within transformation)."""
    from dpfast.data.persons.means import within_persons

    one_of(effects, ("person",), "effects")
    if not request.means or request.record_weights is not None:
        raise InvalidInput(
            'effects="person" is for each="person" without weights and offsets: the means of '
            "a person are a function of all their rows, which are protected together there."
        )
    request.records = within_persons(request.records, group)
    request.within = True
    if request.coding is not None:
        request.coding = request.coding.uncentred()
        request.new_rows = request.new_rows._replace(coding=request.coding)


def put_rows_together(request: FitRequest, X: Any, group: Any, per_person: bool) -> None:
    """Combine the records of each person."""
    refuse_other_rows(X, group, "group")
    m = request.group_size
    if not request.means:
        request.records = request.single = grouped(request.records, group, m)
        if not per_person or m == 1:
            return
    if request.means:
        request.records = person_means(request.records, group)
    else:  # a person's rows are one contribution, and cost what one does (claim C81)
        request.max_rows, request.group_size = m, 1
        request.means = True
        request._separate_rows = request.records
        request.records = of_slots(request.records, m)
    request.single = one_row_per_person(request.records, request.noise)


def _refuse_lengths(*columns: Any) -> None:
    """Refuse columns of different lengths, without showing these: they are private."""
    # a class has the attributes of its instances, but no length
    columns = tuple([column for column in columns if not isinstance(column, type)])
    shapes = [getattr(column, "shape", None) for column in columns]
    lengths = {
        shape[0] if shape else len(column)
        for shape, column in zip(shapes, columns, strict=True)
        if shape or (shape is None and hasattr(column, "__len__"))  # others are refused as read
    }
    if len(lengths) > 1:
        raise InvalidInput(
            'X, y and group must have one entry for each row; with each="person" their number is '
            "private and not shown."
        )
