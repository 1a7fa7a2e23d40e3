"""Pages, comparisons and frames: what they show is released, and what they claim is recomputed."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from copy import copy
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.curator import Curator, StepBudget
from dpfast.data import as_records
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.estimators import DPHuberRegressor
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.composition import composed
from dpfast.inference.guarantees import group_relation
from dpfast.inference.refused import PAID, QUERY, RECORDS, REFUSED
from dpfast.inference.rendering.page import QUESTIONS, page
from dpfast.inference.rendering.transcript import (
    BEGIN,
    END,
    _in_mu,
    digest,
    transcript,
)
from dpfast.inference.rendering.wording import FORMAT
from dpfast.models import LogCosh, Mallows, Objective
from tests.dealing import Dealing
from tests.inference.test_summary import HOSTILE, READERS, fit_of
from tests.loops import each

GENUINE = {"noise": None}


class Elements(HTMLParser):
    """Tags, attributes and texts of a page; refuses what is left open."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack, self.tags, self.attributes, self.texts = [], [], [], {}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "line", "circle"):
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        place = self.stack[-1] if self.stack else ""
        self.texts[place] = self.texts.get(place, "") + data


def parsed(text):
    found = Elements()
    found.feed(text)
    found.close()
    assert found.stack == []
    return found


def rewritten(text, change):
    """A page whose transcript was changed by somebody who makes pages."""
    told = json.loads(text[text.index(BEGIN) + len(BEGIN) :].partition(END)[0])
    change(told)
    return page(told)


@pytest.fixture(scope="module")
def fit():
    return fit_of(["age", "dose"], 10.0, **GENUINE)


# ---- the page ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{}, GENUINE, {"inference": False}, {"privacy": 0.02}, {"privacy": dpfast.ZCDP(0.5)},
     {"privacy": dpfast.ApproxDP(2.0, 1e-6)}, {"loss": "log-cosh"},
     {"loss": dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 10.0))}],
)  # fmt: skip
def test_a_page_is_what_its_transcript_says(settings, tmp_path):
    found = fit_of(HOSTILE[:4], **settings)
    for level in (0.95, 0.5):
        shown = found.report(tmp_path / "fit.html", level)
        check = dpfast.inference.verify_report(tmp_path / "fit.html")
        assert check.passed, str(check)
        assert check.digest == shown and shown in (tmp_path / "fit.html").read_text("utf-8")


def test_the_table_of_a_page_is_the_summary(fit, tmp_path):
    fit.report(tmp_path / "fit.html", 0.9)
    text = (tmp_path / "fit.html").read_text("utf-8")
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", text)
    cells = [tuple(map(unescape, re.findall(r"<td[^>]*>(.*?)</td>", row))) for _, row in rows]
    assert cells == list(fit.summary(0.9).table.cells)
    for name, value in zip(fit.names, fit.params, strict=True):
        assert f"{name}: {value:.4f}" in text  # in the words of the picture


@pytest.mark.parametrize("settings", [{}, {"inference": False}])
def test_names_cannot_leave_their_place(settings, tmp_path):
    bad = [*HOSTILE, "</script><script>alert(1)</script>", "</svg>", "<!--", "]]>", "&lt;", "'\">"]
    fit_of(bad, **settings).report(tmp_path / "fit.html")
    text = (tmp_path / "fit.html").read_text("utf-8")
    found = parsed(text)
    assert found.tags.count("script") == 1 and "img" not in found.tags
    assert not [
        key for key, _ in found.attributes if key.startswith("on") or key in ("src", "href")
    ]
    assert text.isprintable() or all(c.isprintable() or c == "\n" for c in text)
    assert json.loads(found.texts["script"])["names"][1:] == bad
    assert dpfast.inference.verify_report(tmp_path / "fit.html").passed


def test_a_page_tells_no_seed_no_time_and_no_place(tmp_path):
    """Two pages of two times and two places, from runs with one seed, are the same bytes."""
    one, two = tmp_path / "one.html", tmp_path / "elsewhere" / "two.html"
    two.parent.mkdir()
    seed = 918273645
    for path in (one, two):
        fit_of(["a"], noise=dpfast.SeededNoise(seed)).report(path)
    assert one.read_bytes() == two.read_bytes()
    assert str(seed) not in one.read_text("utf-8") and str(tmp_path) not in one.read_text("utf-8")
    assert "nothing is guaranteed" in one.read_text("utf-8")


def test_a_fit_that_is_not_private_says_so(tmp_path):
    X = np.linspace(-1.0, 1.0, 200)[:, None]
    found = dpfast.nonprivate_fit(
        X, X[:, 0] + np.cos(9 * X[:, 0]), dpfast.Objective("huber", scale=1.0)
    )
    found.report(tmp_path / "fit.html")
    assert dpfast.inference.verify_report(tmp_path / "fit.html").passed
    assert "NOT PRIVATE" in (tmp_path / "fit.html").read_text("utf-8")


# ---- lies ----------------------------------------------------------------------------------------


def halve_the_total(told):
    told["privacy"]["total"]["mu"] /= 2.0


def halve_total_and_mu(told):
    told["privacy"]["total"]["mu"] /= 2.0
    told["privacy"]["mu"] /= 2.0


def drop_a_charge(told):
    told["privacy"]["composition"]["sum"].pop()


def drop_a_listed_charge(told):
    told["privacy"]["entries"].pop()


def shrink_epsilon(told):
    told["equivalents"][1][0] /= 2.0


def soften_the_statement(told):
    told["statement"] = told["statement"].replace("2-GDP", "1-GDP")


def soften_the_words(told):
    told["in_words"] = told["in_words"].replace("2.0", "1.0")


def another_target(told):
    told["target"] = "The mean."


def negative_charge(told):
    part = told["privacy"]["composition"]["sum"][0]
    part["mu"] = -part["mu"]


def claim_genuine_noise(told):
    told["privacy"]["guarantee"] = "pure DP"


def count_a_charge_in_text(told):
    """Read as a fraction it would have a thousand million digits."""
    told["privacy"]["entries"][0][1] = "1e-999999999"


def owe_a_charge(told):
    told["privacy"]["entries"][0][1] *= -1.0


def protect_less(told):
    told["privacy"]["relation"] = "neighbours differ in one cell"


def protect_more(told):
    told["privacy"]["relation"] = group_relation(2)


def count_more_records(told):
    told["n_records"] *= 2


def half_genuine(told):
    told["privacy"]["genuine"] = "yes"


LIES = [count_a_charge_in_text, owe_a_charge, protect_less, protect_more, count_more_records,
        half_genuine, halve_the_total, halve_total_and_mu, drop_a_charge, drop_a_listed_charge,
        shrink_epsilon, soften_the_statement, soften_the_words, another_target, negative_charge,
        claim_genuine_noise]  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_transcript_that_does_not_add_up_is_noticed(fit, lie, tmp_path):
    path = tmp_path / "fit.html"
    fit.report(path)
    text = path.read_text("utf-8")
    path.write_text(rewritten(text, lambda told: None), "utf-8")
    assert dpfast.inference.verify_report(path).passed  # the maker of pages makes the same one
    path.write_text(rewritten(text, lie), "utf-8")
    check = dpfast.inference.verify_report(path)
    assert not check.passed and check.checks[-1] == (QUESTIONS[-1][0], True)


def test_every_relation_of_a_fit_is_known(tmp_path):
    X = np.linspace(-1.0, 1.0, 300)[:, None]
    ledger = dpfast.Ledger(dpfast.GDP(9.0))
    group, loss = np.repeat(np.arange(100), 3), dpfast.Objective("log-cosh", scale=1.0)
    fits = [
        *(
            dpfast.fit(dpfast.records(X, X[:, 0], group=group, **how), None, loss, privacy=2.0)
            for how in ({"group_size": 3}, {"each": "person"})
        ),
        DPHuberRegressor(privacy=2.0, scale=1.0).fit(X, X[:, 0]).result_,
        DPHuberRegressor(privacy=2.0, scale=1.0, ledger=ledger).fit(X, X[:, 0]).result_,
    ]
    path = tmp_path / "fit.html"
    for found in fits:
        found.report(path)
        assert dpfast.inference.verify_report(path).passed

    def rows_for_persons(told):
        told["privacy"]["relation"] = fits[1].privacy.relation

    fits[0].report(path)
    path.write_text(rewritten(path.read_text("utf-8"), rows_for_persons), "utf-8")
    assert not dpfast.inference.verify_report(path).passed


def test_a_choice_that_is_no_gaussian_is_not_read_as_one():
    """Claim K4: the exponential mechanism is zCDP, and 2 rho is no square of a mu then."""
    total, mu = dpfast.ZCDP(0.5), math.nextafter(1.0, 2.0)
    gaussian = {"charge": "a mean", "type": "GDP", "mu": 0.5}
    choice = {"charge": "a choice", "type": "PureDP", "epsilon": 0.5}
    assert _in_mu(total, composed({"sum": [gaussian]}), mu)
    assert not _in_mu(total, composed({"sum": [gaussian, choice]}), mu)
    assert _in_mu(total, composed({"sum": [gaussian, choice]}), None)


def test_a_total_is_compared_exactly(fit, tmp_path):
    """One unit in the last place too little is too little."""
    path = tmp_path / "fit.html"
    fit.report(path)

    def one_charge(told):
        mu = told["privacy"]["mu"]
        told["privacy"]["entries"] = [["all", math.nextafter(mu, 9.0)]]
        charge = {"charge": "all", "type": "GDP", "mu": math.nextafter(mu, 9.0)}
        told["privacy"]["composition"] = {"sum": [charge]}

    path.write_text(rewritten(path.read_text("utf-8"), one_charge), "utf-8")
    assert dpfast.inference.verify_report(path).checks[0][1] is False


def set_aside(told, inside=None):
    """Charges in a composition that a part of the total was set aside for, each with that part."""
    if "charge" in told:
        return [] if inside is None else [(told, inside)]
    if "set_aside" in told:
        return set_aside(told["of_which"], told["mu"])
    parts = [told["of"]] if "times" in told else told.get("sum", told.get("maximum"))
    return [found for part in parts for found in set_aside(part, inside)]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_charge_beyond_what_was_set_aside_for_it_is_noticed(rows, tmp_path, monkeypatch):
    """Blocks side by side, of which the total counts what was set aside, whatever they spent."""
    n = 2_000
    X = np.random.default_rng(3).normal(size=(n, 1))
    persons = {"group": np.arange(n) // 2, "group_size": 2} if rows == 2 else {}
    objective = Objective(LogCosh(), Mallows(1.5), 1, scale=1.0)
    keeper = Curator(
        as_records(X, X[:, 0]), objective, dpfast.Ledger(1.0 / rows), dpfast.SeededNoise(0)
    )
    dealing = Dealing(keeper, 0.7 / rows)
    for who in (*(dealing.block(64) for _ in range(3)), keeper):
        who.joint(np.zeros(2), StepBudget(0.6 / rows))
    plain = FitRequest.guarantee

    def of_keeper(self):
        found = copy(self)
        found.ledger = keeper.ledger
        return plain(found)

    monkeypatch.setattr(FitRequest, "guarantee", of_keeper)
    records, loss = dpfast.records(X, X[:, 0], **persons), dpfast.Objective("log-cosh", scale=1.0)
    found = dpfast.fit(records, None, loss, privacy=1.0, standardize=False)
    path = tmp_path / "fit.html"
    found.report(path)
    text = path.read_text("utf-8")
    assert dpfast.inference.verify_report(path).passed
    inside = set_aside(found.privacy.to_dict()["composition"])
    assert len(inside) > 2
    for k in range(len(inside)):

        def spend_more(told, k=k):
            charge, most = set_aside(told["privacy"]["composition"])[k]
            charge["mu"] = math.nextafter(most, 9.0)

        path.write_text(rewritten(text, spend_more), "utf-8")
        answers = [answer for _, answer in dpfast.inference.verify_report(path).checks]
        assert answers[:2] == [False, True]


def test_a_check_says_that_only_the_digest_ties_a_page_to_its_author(fit, tmp_path, capsys):
    """A page with other charges that add up, made by somebody else, passes all that is asked."""
    path = tmp_path / "fit.html"
    shown = fit.report(path)

    def other_numbers(told):
        told["params"] = [1.0 + value for value in told["params"]]

    path.write_text(rewritten(path.read_text("utf-8"), other_numbers), "utf-8")
    forged = dpfast.inference.verify_report(path)
    assert forged.passed and forged.digest != shown
    assert main(["verify", str(path)]) == 0
    for text in (str(forged), capsys.readouterr().out):
        assert f"transcript {forged.digest}" in text
        said = " ".join(text.split())
        assert "only this digest ties the page to its author" in said and "Anybody" in said


@pytest.mark.parametrize(
    ("old", "new"), [("age", "dosage"), ("2-GDP", "1-GDP"), ("<h1>", "<h1 >"), ("0072b2", "0072b3")]
)
def test_a_page_that_was_touched_is_noticed(fit, old, new, tmp_path):
    path = tmp_path / "fit.html"
    fit.report(path)
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    assert not dpfast.inference.verify_report(path).passed


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"format": 7}', "[" * 100_000])
def test_what_is_no_page_is_refused(body, tmp_path):
    path = tmp_path / "fit.html"
    for text in (body, BEGIN + body, BEGIN + body + END):
        path.write_text(text, "utf-8")
        with pytest.raises(InvalidInput, match="no page"):
            dpfast.inference.verify_report(path)
    with pytest.raises(InvalidInput, match="no page"):
        dpfast.inference.verify_report(tmp_path / "absent.html")
    with pytest.raises(InvalidInput, match="path"):
        dpfast.inference.verify_report(7)


@pytest.mark.parametrize("depth", [100, 400, 450, 480, 490, 50_000])
def test_a_transcript_without_bottom_is_no_crash(depth, tmp_path):
    """Whatever runs out first: reading it, writing it again, or adding its charges."""
    path = tmp_path / "fit.html"
    sums = '{"sum": [' * depth + "]}" * depth
    total = '{"type": "GDP", "mu": 1.0}'
    told = f'{{"format": "{FORMAT}", "privacy": {{"total": {total}, "composition": {sums}}}}}'
    path.write_text(BEGIN + told + END, "utf-8")
    with suppress(InvalidInput):
        assert not dpfast.inference.verify_report(path).passed


@pytest.mark.parametrize("key", ["privacy", "params", "names", "statement", "model", "level"])
def test_a_page_without_a_part_is_no_crash(fit, key, tmp_path):
    told = transcript(fit, 0.95)
    path = tmp_path / "fit.html"
    for wrong in (None, [], {}, "x", 7):
        text = page(transcript(fit, 0.95))
        body = json.dumps(told | {key: wrong})
        path.write_text(text.split(BEGIN)[0] + BEGIN + body + END, "utf-8")
        assert not dpfast.inference.verify_report(path).passed


def test_the_command_checks_a_page(fit, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = fit.report("fit.html")
    assert main(["verify", "fit.html"]) == 0
    assert f"transcript {shown}" in capsys.readouterr().out
    text = (tmp_path / "fit.html").read_text("utf-8")
    (tmp_path / "fit.html").write_text(rewritten(text, halve_total_and_mu), "utf-8")
    assert main(["verify", "fit.html", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["passed"] is False
    assert main(["verify", "absent.html"]) == 1
    assert digest(transcript(fit, 0.95)) == shown


# ---- side by side --------------------------------------------------------------------------------


def test_fits_side_by_side_say_what_each_paid():
    one = fit_of(["a", "b_1"], privacy=0.6)
    two = fit_of(["b_1", "c|d"], privacy=0.8, inference=False)
    found = dpfast.compare(one, two, names=["first", "sec|ond"])
    for read in (READERS["html"], READERS["latex"], READERS["markdown"]):
        head, *rows = read(found)
        assert head == ["", "first", "sec|ond"]
        rows = {row[0]: row[1:] for row in rows}
        assert rows["a"] == [f"{one.params[1]:.4f} ({one.bse[1]:.4f})", ""]
        assert rows["c|d"][0] == "" and float(rows["c|d"][1]) == round(two.params[2], 4)
        assert rows["Records"] == ["4000", "4000"]
        assert rows["Privacy paid"] == ["mu=0.6", "mu=0.8"]
        shown = [float(cell) for cell in rows["epsilon at delta = 1e-6"]]
        assert shown == [round(fit.privacy.epsilon(1e-6), 4) for fit in (one, two)]
    assert found.together.mu == pytest.approx(1.0, abs=1e-12) and found.together.mu >= 1.0
    assert "1-GDP, if they are of the same records" in found


def test_a_ledger_says_what_is_left():
    ledger = dpfast.Ledger(1.0)
    fits = [fit_of(["a"], privacy=0.5, ledger=ledger) for _ in range(2)]
    ledger.charge(0.3, "another analysis")
    found = dpfast.compare(*fits, ledger=ledger)
    assert found.together.mu == pytest.approx(math.sqrt(0.5))
    assert f"{ledger.remaining.mu:.6g}-GDP left" in found
    with pytest.raises(InvalidInput, match=r"no charge that pays for fit \(3\)"):
        dpfast.compare(*fits, fits[0], ledger=ledger)
    with pytest.raises(InvalidInput, match="no charge"):
        dpfast.compare(fit_of(["a"], privacy=0.7), ledger=ledger)


def test_a_ledger_of_pairs_pays_for_fits_in_its_own_currency():
    ledger = dpfast.Ledger(dpfast.ApproxDP(4.0, 1e-6))
    fits = [fit_of(["a"], privacy=dpfast.ApproxDP(1.0, 1e-7), ledger=ledger) for _ in range(3)]
    assert dpfast.compare(*fits, ledger=ledger).together == ledger.spent


def test_no_sum_is_claimed_that_is_not_known():
    X = np.linspace(-1.0, 1.0, 200)[:, None]
    exact = dpfast.nonprivate_fit(
        X, X[:, 0] + np.cos(9 * X[:, 0]), dpfast.Objective("huber", scale=1.0)
    )
    found = dpfast.compare(fit_of(["a"]), exact)
    assert found.together is None and "not private" in found
    person = dpfast.fit(
        dpfast.records(X, X[:, 0], group=np.arange(200) // 2, group_size=2), None,
        dpfast.Objective("huber", scale=1.0), privacy=1.0,
    )  # fmt: skip
    found = dpfast.compare(fit_of(["a"]), person)
    assert found.together is None and "relations differ" in found


@each("bad", [[], [1.0], ["x"], [None]])
def test_what_is_no_fit_is_refused(bad):
    with pytest.raises(InvalidInput):
        dpfast.compare(*bad)
    with pytest.raises(InvalidInput, match="names"):
        dpfast.compare(fit_of(["a"]), names=["one", "two"])
    with pytest.raises(InvalidInput, match="ledger"):
        dpfast.compare(fit_of(["a"]), ledger=7)


# ---- frames --------------------------------------------------------------------------------------


def test_a_frame_has_the_numbers_by_name(fit):
    pytest.importorskip("pandas")
    frame = fit.to_frame(alpha=0.1)
    assert list(frame.term) == list(fit.names)
    fields = {
        "estimate": "params",
        "std_error": "bse",
        "statistic": "zvalues",
        "p_value": "pvalues",
    }
    for name, field in fields.items():
        np.testing.assert_array_equal(frame[name], getattr(fit, field))
    np.testing.assert_array_equal(frame[["conf_low", "conf_high"]], fit.conf_int(0.9))
    assert list(fit_of(["a"], inference=False).to_frame()) == ["term", "estimate"]


def test_names_of_statsmodels(fit):
    np.testing.assert_array_equal(fit.tvalues, fit.zvalues)
    assert fit.nobs == 4000


#: Words of each reason: what one value for each record, a query, or a query with a price is told.
WORDS = {
    RECORDS: "has a value for each record",
    QUERY: "is a query about the records",
    PAID: r"was not asked for, and costs .* dpfast\.regression\.goodness_of_fit\(fit, ",
}


@each("name", REFUSED)
def test_what_would_cost_budget_is_refused_with_the_reason(fit, name):
    with pytest.raises(InferenceUnavailable, match=rf"^{name} {WORDS[REFUSED[name]]}"):
        getattr(fit, name)
    assert not hasattr(fit, name)


# ---- guarantees, ledgers and plans ---------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"privacy": dpfast.ZCDP(0.5)}, GENUINE])
def test_a_guarantee_is_a_table_of_its_charges(settings):
    privacy = fit_of(["a"], **settings).privacy
    shown = privacy._repr_html_()
    parsed(shown)
    shares = [float(share) for share in re.findall(r">([\d.]+)%<", shown)]
    assert sum(shares) == pytest.approx(100.0, abs=0.1 * len(shares))
    assert privacy.headline in shown and ("simulation" in shown) == (not privacy.genuine)
    assert "NONE" in dpfast.inference.guarantees.NOT_PRIVATE._repr_html_()


def test_a_ledger_is_a_table_of_its_charges():
    ledger = dpfast.Ledger(1.0)
    assert "<table" not in ledger._repr_html_()
    ledger.charge(0.6, "</th><script>")
    found = parsed(ledger._repr_html_())
    assert "script" not in found.tags and found.texts["th"] == "</th><script>"
    assert found.texts["dd"] == "".join(map(repr, (ledger.total, ledger.spent, ledger.remaining)))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_plan_is_a_table_of_its_widths(fit_intercept):
    plan = dpfast.plan(
        n=200_000,
        p=3,
        privacy=1.0,
        loss=dpfast.Objective("log-cosh", scale=1.0, fit_intercept=fit_intercept),
    )
    found = parsed(plan._repr_html_())
    for width, alone in zip(plan.widths, plan.sampling_widths, strict=True):
        assert f"{width:.4g}{alone:.4g}{width / alone:.3g}" in found.texts["td"]
    assert ("intercept" in found.texts["th"]) == fit_intercept


def test_the_target_names_that_scores_are_held():
    """Of the default's fits alone: weights of the papers bound a score by themselves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = X[:, 0] + rng.normal(size=500)
    held = dpfast.fit(X, y, "least-squares", privacy=2.0)
    papers = dpfast.Objective("huber", weights=dpfast.Mallows(2.0), scale=1.0)
    for fit, named in ((held, True), (dpfast.fit(X, y, papers, privacy=2.0), False)):
        for text in (fit.explain(), fit.methods_text()):
            assert ("Extreme records have limited influence" in " ".join(text.split())) == named
