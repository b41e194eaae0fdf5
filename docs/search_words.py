"""What people type into the search box, and the place that each word should lead to first.

Sphinx finds a page by the words of its titles and of its text, and has no synonyms: "sample size" would find every page with a sample on
it. The words of `WORDS` become entries of the index for that place, which the search puts first. Those of `NEAR` do not: they must find
their pages by what the pages say and by the weights of `search_scorer.js`. `docs/check_site.py` asks for each of them in the site that was
built.
"""

from __future__ import annotations

WORDS: dict[str, tuple[str, ...]] = {
    "start-here#what-epsilon-means": ("what is epsilon", "what is differential privacy", "epsilon meaning"),
    "start-here#sensitivity-how-far-one-person-moves-the-answer": ("sensitivity",),
    "tutorial": ("install", "numpy", "getting started", "first steps"),
    "tutorial#tests-of-your-own": ("seed", "random seed", "reproducible noise"),
    "tutorial-local": ("local differential privacy", "survey", "randomised response"),
    "choose-epsilon": (
        "choose epsilon",
        "choose ε",
        "epsilon",
        "ε",
        "which epsilon",
        "how much epsilon",
        "privacy budget",
        "delta",
        "good epsilon",
        "safe epsilon",
        "dpcore plan",
    ),
    "choose-epsilon#published-deployments-and-their-epsilon": ("census", "apple", "google", "deployments"),
    "check-accuracy": (
        "accuracy",
        "table of counts",
        "counts",
        "too noisy",
        "margin of error",
        "error bars",
        "confidence interval",
        "confidence",
    ),
    "tutorial-people": ("patients", "count people", "one row per person", "per_unit", "repeat visits", "average per person"),
    "how-to#make-a-row-for-each-person-from-a-csv": ("cast", "csv per_unit"),
    "how-to#rehearse-a-job-on-public-data": ("rehearse", "rehearsal", "dry run", "bias"),
    "selection": ("selection", "top k", "top_s", "best products", "most frequent", "ranking", "argmax"),
    "selection#how-good-is-the-answer": ("how good is top k", "wrong winner"),
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
    "accounting#several-programs-one-budget": ("share a budget", "several analysts", "end of quarter"),
    "job-groups": ("groups", "group by", "mean by group", "average by group", "group by month"),
    "job-groups#private-groups": ("private groups", "unknown groups", "secret groups", "hidden groups", "partition selection"),
    "job-kinds#missing-values": ("missing values", "missing", "null", "nan"),
    "job-kinds#bounds-found-privately": ("bounds", "clamping"),
    "job-release": ("release", "histogram", "median", "mean"),
    "job-rows#conditions-derived-columns-and-public-tables": ("sql", "filter", "where"),
    "job-synthetic": ("synthetic data", "synthetic table", "synthetic"),
    "job-units": ("units", "unit", "person", "max_rows_per_unit", "unit person", "per person", "unit_name"),
    "job-input": ("csv", "parquet", "data types"),
    "job-input#dates-and-times": ("dates", "times", "timestamps"),
    "migrate/index": ("migration", "coming from another tool"),
    "migrate/numpy": ("numpy laplace", "numpy noise", "np.random", "from numpy", "random.laplace"),
    "proofs": ("proofs", "proof"),
    "threat-model": ("threat model", "guarantee", "what is protected"),
    "constant-work": ("timing", "side channels"),
    "reference/cli": ("command line", "cli", "exit codes"),
}
"""For each place, `page` or `page#anchor`, the words that find it."""

NEAR: dict[str, tuple[str, ...]] = {
    "error bar of a count": ("faq",),
    "how exact is a mean": ("how-to",),
    "five best products": ("selection",),
    "best candidate": ("selection",),
    "mean for each group": ("job-groups",),
    "groups that nobody knows": ("job-groups",),
    "count each patient once": ("tutorial-people",),
    "laplace noise numpy": ("migrate/numpy",),
    "numbers do not add up": ("how-to",),
    "text columns csv": ("how-to",),
    "budget used up": ("faq",),
    "choose a mechanism": ("start-here",),
}
"""For each query, pages that must be among the first five; a proof or the reference must not be the first."""
