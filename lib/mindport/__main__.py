"""`python -m mindport` is `mindport`."""

import sys

from mindport.cli import main

sys.exit(main())
