"""The command: `python -m mindport.training.kill_test`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mindport.errors import MindPortError
from mindport.results import Result, plain
from mindport.training.kill_test import kill_test, resume_under

SAYS = "Kill a training again and again, resume it each time, and hold the result to one that was never interrupted."


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the package's head."""
    parser = argparse.ArgumentParser(prog="python -m mindport.training.kill_test", description=SAYS)
    parser.add_argument("config", type=Path)
    parser.add_argument("--times", type=int, default=20, help="kills")
    parser.add_argument("--resume-under", nargs="+", metavar="A:B",
                        help="no kills: what layout A wrote goes on under B: tp2:dp2 dp1:tp2")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="keep both runs here")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of mindport train")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="mindport-kills-") as aside:
            report = _report(options, options.out or Path(aside))
    except MindPortError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(plain(report.as_dict())) if options.json else report.text())
    return report.exit_code


def _report(options: argparse.Namespace, out: Path) -> Result:
    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if options.resume_under:
        return resume_under(options.config, out, options.resume_under, options.set, say)
    return kill_test(options.config, out, times=options.times, seed=options.seed, settings=options.set, say=say)


if __name__ == "__main__":
    sys.exit(main())
