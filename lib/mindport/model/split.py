"""Which part of each parameter a rank holds; the rule is the configuration's and needs no framework."""

from mindport.config.split import axes, axis, check_split, part, whole

__all__ = ["axes", "axis", "check_split", "part", "whole"]
