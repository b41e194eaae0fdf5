"""The engine: kinds of queries, their statistics, noise and answers.

Doors and tools import these modules of it, and no others; a test compares. One face that imported them all would load for each command what
only others need.

- `request`: what is asked. `plan`: what it will cost, and `written_plans` where the answers go.
- `run` and `in_memory`: the answers, in a file and for the caller.
- `verification`: whether a release follows from its key file and its input.
- `planning`: which ε an answer needs. `rehearsal`: what its errors are on a public table.
- `kinds`: the registry. `methods`: how tables in Python ask a kind.
- `backend`: what the engine asks of this process, or of Spark, which read the rows. `local_backend`: this process, with `key_counts`.
- `document`, `prose`, `questions`, `view`, `page`: what is said of a plan and of answers.
"""

from dpcore._extras import require

require("dpcore.batch", "batch")
