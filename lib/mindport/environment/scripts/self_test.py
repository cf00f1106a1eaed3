"""MindSpore's own `run_check`. Its words changed over the versions; `successfully` and the platform stayed."""

import contextlib
import io
import json

import mindspore as ms

said = io.StringIO()
with contextlib.redirect_stdout(said):
    ms.run_check()
lines = said.getvalue().strip().splitlines() or ["nothing was printed"]
print(json.dumps({"ok": "successfully" in lines[-1], "found": lines[-1]}))
