"""Rules, pairs and proposals."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.errors import FileError, MappingError, UsageError
from mindport.tracing.names import Rule, pair, propose, read_rules

APPLIED = {
    ("encoder.layers.{i}=blocks.{i}", "encoder.layers.12.fc.weight"): "blocks.12.fc.weight",
    ("self_attn=attn", "h.0.self_attn.q"): "h.0.attn.q",
    ("attn=x", "h.0.self_attn.attn_drop"): "h.0.self_attn.attn_drop",  # whole parts only
    ("conv{i}=net.{i}.conv", "conv3[0]"): "net.3.conv[0]",
    ("{a}.{b}=pair.{b}.{a}", "x.y"): "pair.y.x",
    ("{a}.{a}=twice.{a}", "x.x"): "twice.x",
    ("{a}.{a}=twice.{a}", "x.y"): "x.y",
    ("[mask]=[1]", ".[mask]"): ".[1]",
    ("fc=up", "fc#2[0]"): "up#2[0]",
    (".=net", "."): "net",
    (".=net", "a.b"): "a.b",
    ("a/b=c", "x.a/b"): "x.c",
    (r"re:^h\.(\d+)=blocks.\1", "h.7.fc"): "blocks.7.fc",
    ("norm+1=x", "norm+1.weight"): "x.weight",  # no character of a name is special
}


@pytest.mark.parametrize(("rule", "name"), APPLIED)
def test_a_rule_renames(rule, name):
    assert read_rules([rule])[0].apply(name) == APPLIED[rule, name]


BAD = {
    "no equals sign": "is no rule",
    "=x": "lacks a name",
    "x=": "lacks a name",
    "a{i}=b{j}": "places that its pattern lacks",
    "re:(=x": "pattern is wrong",
    r"re:a=\3": "pattern is wrong",
    "a=b@NCHW": "the same axes twice",
    "a=b@NCHW->NHW": "the same axes twice",
    "a=b@NNC->NCN": "the same axes twice",
    "a=b@0,1->1,0": "the same axes twice",
}


@pytest.mark.parametrize("rule", BAD)
def test_a_bad_rule_is_refused(rule):
    with pytest.raises(UsageError, match=BAD[rule]):
        read_rules([rule])


def test_layouts_are_for_what_ends_in_the_name():
    (rule,) = read_rules(["conv=conv@NCHW->NHWC"])
    assert rule.axes == (0, 2, 3, 1)
    names = ["out/conv", "out/conv#2[0]", "grad/conv.weight"]
    found = {made.a: made.axes for made in pair(names, names, [rule]).pairs}
    assert found == {"conv": (0, 2, 3, 1), "conv#2[0]": (0, 2, 3, 1), "conv.weight": None}


def test_names_pair_once_and_the_rest_is_listed():
    rules = read_rules(["h.{i}=blocks.{i}", "never=used"])
    found = pair(["out/h.0", "out/h.1", "out/x", "ids"], ["out/blocks.1", "out/blocks.0", "out/y", "ids"], rules)
    assert [made.names for made in found.pairs] == [
        ("out/h.0", "out/blocks.0"), ("out/h.1", "out/blocks.1"), ("ids", "ids")
    ]  # fmt: skip
    assert (found.only_a, found.only_b, found.uses) == (("out/x",), ("out/y",), (2, 0))


def test_a_name_without_a_partner_is_listed_even_where_the_other_side_has_it():
    found = pair(["out/x", "out/y"], ["out/y"], read_rules(["y=gone", "x=y"]))
    assert [made.names for made in found.pairs] == [("out/x", "out/y")]
    assert (found.only_a, found.only_b) == (("out/y",), ())


def test_two_names_that_become_one_are_refused():
    with pytest.raises(MappingError, match=r"become one name(.|\n)*out/a.0 and out/a.1"):
        pair(["out/a.0", "out/a.1"], ["out/b"], read_rules(["a.{i}=b"]))


def test_other_words_for_parameters_are_tried_last():
    a, b = ["grad/n.weight", "grad/m.gamma"], ["grad/n.gamma", "grad/m.gamma"]
    assert len(pair(a, b, [], aliases=True).pairs) == 2
    assert len(pair(a, b, [], aliases=False).pairs) == 1
    both = pair(["grad/n.weight"], ["grad/n.gamma", "grad/n.embedding_table"], [], aliases=True)
    assert both.pairs == () and len(both.only_b) == 2  # which one is meant nobody knows


def test_proposals_by_order_and_shape():
    a = [("stem", (2, 3)), ("h.0.fc", (2, 4)), ("h.1.fc", (2, 4)), ("extra", (7,)), ("head", (2, 9))]
    b = [("conv", (2, 3)), ("blocks.0.up", (2, 4)), ("blocks.1.up", (2, 4)), ("lm", (2, 9))]
    assert propose(a, b) == ("stem=conv", "h.{i}.fc=blocks.{i}.up", "head=lm")
    assert propose(a, [("z", (5, 5))]) == ()


PART = st.text("ab/-+$^(", min_size=1, max_size=4)
PATHS = st.lists(PART, min_size=1, max_size=4).map(".".join)


@given(PATHS, PATHS)
def test_a_plain_rule_and_its_reverse_go_there_and_back(source, target):
    (there,), (back,) = read_rules([f"{source}={target}"]), read_rules([f"{target}={source}"])
    assert there.apply(source) == target and back.apply(target) == source


def yaml(tmp_path, text):
    (tmp_path / "names.yaml").write_text(text, encoding="utf-8")
    return str(tmp_path / "names.yaml")


def test_rules_from_a_file(tmp_path):
    file = yaml(tmp_path, "encoder.layers.{i}: blocks.{i}\nconv{i}:\n  to: net.{i}.conv\n  layout: NCHW->NHWC\n")
    assert read_rules([file, "a=b"]) == (
        Rule("encoder.layers.{i}", "blocks.{i}"), Rule("conv{i}", "net.{i}.conv", "NCHW->NHWC"), Rule("a", "b")
    )  # fmt: skip


FILES = {
    "a list": ("- a\n- b\n", "no mapping"),
    "nothing": ("", "no mapping"),
    "no YAML": ("a: [", "cannot be read"),
    "a name twice": ("a: b\na: c\n", "twice"),
    "a truth value": ("norm: on\n", "neither a name"),
    "a number": ("1: x\n", "neither a name"),
    "an unknown key": ("a: {to: b, axes: 1}\n", "neither a name"),
    "a Python object": ("a: !!python/object/apply:os.system [ls]\n", "cannot be read"),
    "a bad layout": ("a: {layout: xy}\n", "the same axes twice"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused(case, tmp_path):
    text, message = FILES[case]
    with pytest.raises((FileError, UsageError), match=re.escape(message)):
        read_rules([yaml(tmp_path, text)])


def test_a_file_that_is_not_there():
    with pytest.raises(FileError, match="cannot be read"):
        read_rules(["no/such.yaml"])
