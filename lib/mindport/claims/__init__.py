"""What articles claim about moving to MindSpore, and what is so: a ledger whose checks can be run again.

ledger           data/claims.yaml, read strictly
snippet, tools   a check: a few lines of Python that end in what they saw, and what they may use
run              `mindport claims`: workers take turns at the checks
process, worker  a worker from outside, and from inside
report, page     a run beside the ledger; docs/claims.md
"""

from mindport.claims.ledger import Claim, Ledger, read_ledger
from mindport.claims.report import ClaimsReport
from mindport.claims.run import run

__all__ = ["Claim", "ClaimsReport", "Ledger", "read_ledger", "run"]
