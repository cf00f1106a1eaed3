"""What is wrong with a model that its reference disagrees with: causes, in order, each with its evidence.

cause         what goes in and what comes out
engine        evidence in, ranked causes out
forward       the forward pass: from the first wrong value, every mistake that could have made it
training      the training steps
cells         a GPT in NumPy, each part of which can be computed wrongly
"""

from mindport.debug.diagnosis.cause import Cause, Evidence
from mindport.debug.diagnosis.engine import Diagnosis, diagnose

__all__ = ["Cause", "Diagnosis", "Evidence", "diagnose"]
