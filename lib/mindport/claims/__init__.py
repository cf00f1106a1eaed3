"""What articles claim about moving to MindSpore, and what is so: a ledger whose checks can be run again."""

from mindport.claims.ledger import Claim, Ledger, read_ledger
from mindport.claims.report import ClaimsReport
from mindport.claims.run import run

__all__ = ["Claim", "ClaimsReport", "Ledger", "read_ledger", "run"]
