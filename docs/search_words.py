"""What people type into the search box, and the place that each word should lead to first.

Sphinx finds a page by the words of its titles and of its text, and has no synonyms: "sample size" would find every page with a sample on
it. These words become entries of the index for that place, which the search puts first. `docs/check_site.py` asks for each of them in the
site that was built.
"""

from __future__ import annotations

WORDS: dict[str, tuple[str, ...]] = {
    "start-here#what-epsilon-means": ("what is epsilon", "what is differential privacy", "epsilon meaning"),
    "start-here#sensitivity-how-far-one-person-moves-the-answer": ("sensitivity",),
    "tutorial": ("install", "numpy", "getting started", "first steps"),
    "tutorial#tests-of-your-own": ("seed", "random seed", "reproducible noise"),
    "tutorial-local": ("local differential privacy", "survey", "randomised response"),
    "choose-epsilon": ("choose epsilon", "choose ε", "epsilon", "ε", "which epsilon", "how much epsilon", "privacy budget", "delta"),
    "choose-epsilon#published-deployments-and-their-epsilon": ("census", "apple", "google", "deployments"),
    "check-accuracy": ("accuracy", "table of counts", "counts", "too noisy"),
    "planning": ("sample size", "how many people", "power"),
    "publication": ("publication", "what to write", "methods section", "report text"),
    "managers": ("managers", "boss", "one page"),
    "faq": ("faq", "questions", "negative counts"),
    "from-suppression": ("suppression", "rounding", "k-anonymity", "small cells"),
    "glossary": ("glossary", "terms", "definitions"),
    "gallery": ("gallery", "plots", "screenshots", "examples of pages"),
    "tables": ("pandas", "polars", "data frame", "privatetable"),
    "cluster": ("spark", "cluster"),
    "stores": ("s3", "object store"),
    "accounting#a-ledger": ("ledger", "budget"),
    "job-groups": ("groups", "group by"),
    "job-groups#private-groups": ("private groups", "unknown groups"),
    "job-kinds#missing-values": ("missing values", "missing", "null", "nan"),
    "job-kinds#bounds-found-privately": ("bounds", "clamping"),
    "job-release": ("release", "histogram", "median", "mean"),
    "job-rows#conditions-derived-columns-and-public-tables": ("sql", "filter", "where"),
    "job-synthetic": ("synthetic data", "synthetic table", "synthetic"),
    "job-units": ("units", "unit", "person", "max_rows_per_unit"),
    "job-input": ("csv", "parquet", "data types"),
    "job-input#dates-and-times": ("dates", "times", "timestamps"),
    "migrate/index": ("migration", "coming from another tool"),
    "proofs": ("proofs", "proof"),
    "threat-model": ("threat model", "guarantee", "what is protected"),
    "constant-work": ("timing", "side channels"),
    "reference/cli": ("command line", "cli", "exit codes"),
}
"""For each place, `page` or `page#anchor`, the words that find it."""
