"""`mindport verify` tells why it is red."""

from __future__ import annotations

import json

from mindport import cli
from mindport.debug import plant, verify


def test_a_wrong_model_is_explained(ground, tmp_path, capfd):
    here = ground("gpt2-by-layer")
    planted = plant(here.converted, "inverse_layer", tmp_path / "planted")
    words = ["verify", str(here.source), "--converted", str(planted), "--trace", str(here.trace), "--json"]
    assert cli.main(words) == 1
    said = json.loads(capfd.readouterr().out)
    assert said["first_divergence"]["path"] == said["causes"][0]["where"] == "blocks.1.attn.context"
    assert said["causes"][0]["name"] == "inverse_layer" and said["causes"][0]["score"] == 1
    assert "most likely: the scores are not divided by layer + 1" in said["headline"]


def test_a_right_model_has_nothing_to_explain_and_a_wrong_one_says_it_first(ground, tmp_path):
    here = ground("gpt2-by-layer")
    found = verify(here.source, converted=here.converted, trace=here.trace, progress=False)
    assert found.ok and found.causes == ()
    assert "causes" not in found.tables()[0].title
    planted = plant(here.converted, "transpose", tmp_path / "planted")
    wrong = verify(here.source, converted=planted, trace=here.trace, progress=False)
    assert wrong.tables()[0].title == "most likely causes"
    assert "Conv1D" in wrong.tables()[0].rows[0][-1] and "transposed" in wrong._repr_html_()
