"""From a raw CSV file to a published table: three analyses of one file, paid by one ledger."""

import csv
import os
from pathlib import Path

import numpy as np

import dpfast

# The private file.  (Made up here, so that the example runs anywhere.)
rng = np.random.default_rng(7)
n = 8_000
education, experience = rng.integers(8, 21, n), rng.integers(0, 41, n)
wage = np.exp(1.2 + 0.08 * education + 0.02 * experience + 0.4 * rng.normal(size=n))
with open("wages.csv", "w", newline="", encoding="utf-8") as file:
    rows = csv.writer(file)
    rows.writerow(["education", "experience", "wage"])
    rows.writerows(zip(education, experience, np.round(wage, 2), strict=True))

# Public facts about its columns: from the codebook, never from the file.
schema = dpfast.Schema(
    {
        "education": dpfast.Numeric(0, 22),
        "experience": dpfast.Numeric(0, 50),
        "wage": dpfast.Numeric(0, 100),
    }
)

with open("wages.csv", newline="", encoding="utf-8") as file:
    cells = list(csv.DictReader(file))
table = {name: [float(row[name]) for row in cells] for name in ("education", "experience", "wage")}

# One budget for everything that will ever be published of this file, kept on disk.  It is granted
# once: a second run of this script would find it spent, and be refused.
if os.path.exists("wages.ledger"):
    os.unlink("wages.ledger")  # of an example only
budget = dpfast.Ledger.open("wages.ledger", dpfast.GDP(1.0))

middle = dpfast.private_quantiles(
    schema["wage"].scaled(np.array(table["wage"])), [0.5], low=-1, high=1, privacy=0.3,
    ledger=budget,
)  # fmt: skip
design = schema.encode(table, response="wage")
mean = dpfast.fit(design, None, dpfast.Objective("log-cosh", scale=8.0), privacy=0.6, ledger=budget)
short = schema.encode({k: table[k] for k in ("education", "wage")}, response="wage")
alone = dpfast.fit(short, None, dpfast.Objective("log-cosh", scale=8.0), privacy=0.6, ledger=budget)

# In dollars an hour for a year, side by side, with what each paid and what is left.
both = dpfast.compare(mean, alone, names=["both", "education alone"], ledger=budget)
print(both)
Path("table.tex").write_text(both.as_latex(), encoding="utf-8")
Path("table.md").write_text(both.as_markdown(), encoding="utf-8")
print("median wage, coded:", middle)
print("left for later:", budget.remaining)
