"""Right models are right, on every family; the verdict, its figures and its refusals."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mindport.config.schema import shapes
from mindport.errors import BackendError, FileError, UsageError
from mindport.parity import converted_for, verify
from mindport.parity.launch import run_reference
from mindport.parity.rotation import lengths
from mindport.parity.verify import VerifyReport
from mindport.weights.manifest import read_manifest
from tests.parity.models import MODELS


@pytest.fixture(scope="module")
def verified(case):
    """name → what verification says of that model, each once for all tests that look at it."""

    @functools.cache
    def get(name: str) -> VerifyReport:
        made = case(name)
        return verify(made.source, made.converted, made.trace, progress=False)

    return get


@pytest.fixture(scope="module", params=MODELS)
def found(request, verified):
    return verified(request.param)


def test_a_right_model_is_right(found):
    assert found.ok, found.text()
    assert found.first_divergence is None
    assert {row.state for row in found.rows} == {"pass"}
    assert max(row.relative for row in found.rows) <= 1e-5
    assert max(found.logits.pynative, found.logits.graph) <= 1e-4
    assert found.greedy_equal
    assert all(each.reference == each.ours for each in found.continuations)
    assert found.layers_compared == 3
    assert found.compile_seconds > 0


def test_every_family_is_held_to_its_source_field_by_field_and_far_away(found):
    model, inventory = read_manifest(Path(found.converted)).model, found.inventory
    assert inventory.ok, inventory.faults()
    assert inventory.compared == len(shapes(model)) and not inventory.untried
    assert [length for length, _ in inventory.rotations] == list(lengths(model))
    lines = {line.name: line.state for line in inventory.properties()}
    assert set(lines.values()) == {"verified"} and len(lines) == 2 + (model.rope is not None)


@pytest.mark.parametrize("name", ["llama-untied-llama3", "llama-dynamic"])
def test_far_rotary_positions_are_compared(verified, name):
    """On both sides of the original context and of the context, dynamic scaling included."""
    inventory = verified(name).inventory
    assert max(length for length, _ in inventory.rotations) >= 64
    assert inventory.rotations_ok and "rotary angles" in inventory.table().text()


def test_every_module_and_every_gradient_is_looked_at(verified):
    found = verified("llama-tied-yarn-bias")
    paths = {row.path for row in found.rows}
    parts = ("norm1", "attn.q", "attn.k", "attn.v", "attn.context", "attn.o", "attn", "norm2", "mlp.gate", "mlp.up",
             "mlp.hidden", "mlp.down", "mlp")  # fmt: skip
    assert paths == {f"blocks.{i}.{part}" for i in range(3) for part in parts} | {
        "embed", "norm", "logits", "blocks.0", "blocks.1", "blocks.2"}  # fmt: skip
    assert len(found.gradients) == 1 + 13  # the input; 2 norms, 4 maps with bias, 3 maps without
    json.dumps(found.as_dict())


def test_from_one_directory_with_a_process_of_its_own(case, capfd):
    gpt2 = case("gpt2-tied")
    found = verify(gpt2.source, layers=2)
    assert found.ok, found.text()
    assert found.layers_compared == 2
    assert "verify: reference" in capfd.readouterr().err


def test_a_converted_directory_knows_its_reference_and_the_mode_is_restored(case):
    import mindspore as ms

    gpt2, before = case("gpt2-tied"), ms.get_context("mode")
    assert verify(gpt2.converted, trace=gpt2.trace, progress=False).directory == str(gpt2.source)
    assert ms.get_context("mode") == before


def test_a_trace_of_another_model_is_refused(case):
    with pytest.raises(FileError, match="other weights"):
        verify(case("gpt2-tied").source, case("gpt2-tied").converted, case("gpt2-untied-erf").trace, progress=False)


def test_a_trace_with_another_number_of_layers_is_refused(case):
    gpt2 = case("gpt2-tied")
    with pytest.raises(UsageError, match="number of layers"):
        verify(gpt2.source, gpt2.converted, gpt2.trace, layers=1, progress=False)


def test_layers_that_are_not_there(case, tmp_path):
    with pytest.raises(BackendError) as caught:
        run_reference(case("gpt2-tied").source, tmp_path / "trace", layers=4, progress=False)
    assert "so many layers cannot be kept" in str(caught.value)  # the process's last lines are in the message
    assert not (tmp_path / "trace").exists()


def test_missing_directories_and_traces(case, tmp_path):
    with pytest.raises(FileError, match="no such directory"):
        verify(tmp_path / "nowhere")
    with pytest.raises(FileError, match="no such trace"):
        verify(case("gpt2-tied").source, case("gpt2-tied").converted, tmp_path / "nowhere", progress=False)


@pytest.mark.parametrize(
    ("path", "fragment"), [(3, "manifest is damaged(.|\n)*path"), ("x" * 5000, "reference's directory is gone")]
)
def test_a_manifest_whose_source_is_no_path_is_refused(case, tmp_path, path, fragment):
    made = shutil.copytree(case("gpt2-tied").converted, tmp_path / "made")
    manifest = json.loads((made / "mindport.json").read_text())
    manifest["source"]["path"] = path
    (made / "mindport.json").write_text(json.dumps(manifest))
    with pytest.raises(FileError, match=fragment):
        verify(made, progress=False)


def test_a_tokenizer_that_the_library_refuses_is_said_before_the_long_part(case, tmp_path, monkeypatch):
    gpt2 = case("gpt2-tied")
    made = shutil.copytree(gpt2.converted, tmp_path / "made")
    (made / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {"a": 0}}}')
    module = sys.modules["mindport.parity.verify"]  # the package's name for it is the function's
    monkeypatch.setattr(module, "_observe", lambda *given: pytest.fail("it went on"))
    with pytest.raises(FileError, match="not a tokenizer that the tokenizers library reads"):
        verify(gpt2.source, made, gpt2.trace, progress=False)


def test_without_mindspore_it_is_said_before_the_reference_is_run(case, monkeypatch):
    source = case("gpt2-tied").source
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendError, match="MindSpore is not installed"):
        verify(source, progress=False)


def test_a_conversion_of_another_model_is_made_anew(case, tmp_path, capsys):
    first = converted_for(case("gpt2-tied").source, tmp_path)
    assert converted_for(case("gpt2-tied").source, tmp_path) == first
    assert "of another model" not in capsys.readouterr().out
    converted_for(case("gpt2-untied-erf").source, tmp_path)
    assert "of another model" in capsys.readouterr().out


BLOCK = """
    import sys

    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in {names}:
                raise ModuleNotFoundError("No module named " + repr(name), name=name)

    sys.meta_path.insert(0, Absent())
    for name in {names}:
        sys.modules[name] = None
"""


def without(names: tuple[str, ...], program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter where `names` cannot be imported."""
    code = textwrap.dedent(BLOCK.format(names=repr(names))) + textwrap.dedent(program)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_torch_a_saved_trace_is_enough(case):
    gpt2 = case("gpt2-tied")
    program = """
        from mindport.parity import verify
        found = verify(sys.argv[1], sys.argv[2], sys.argv[3], progress=False)
        print(found.ok, found.first_divergence)
    """
    done = without(("torch", "transformers"), program, gpt2.source, gpt2.converted, gpt2.trace)
    assert done.stdout.split() == ["True", "None"], done.stderr


def test_without_torch_and_without_a_trace_it_says_what_to_do(case):
    program = """
        from mindport.errors import BackendError
        from mindport.parity import verify
        try:
            verify(sys.argv[1], progress=False)
        except BackendError as error:
            print(error)
    """
    done = without(("torch", "transformers"), program, case("gpt2-tied").source)
    assert "torch and transformers not installed" in done.stdout, done.stderr
    assert "--trace" in done.stdout


def test_two_traces_compare_without_either_framework(case, tmp_path):
    from mindport.parity.ours import observe
    from mindport.parity.trace import read_trace, write_trace

    gpt2 = case("gpt2-tied")
    write_trace(observe(gpt2.converted, read_trace(gpt2.trace)), tmp_path / "ours")
    program = """
        from mindport.parity import compare, read_trace
        found = compare(read_trace(sys.argv[1]), read_trace(sys.argv[2]))
        print(found.ok, len(found.rows) > 40)
    """
    done = without(("torch", "transformers", "mindspore"), program, gpt2.trace, tmp_path / "ours")
    assert done.stdout.split() == ["True", "True"], done.stderr
