"""Questions of notebook 00, the environment check."""

from __future__ import annotations

from mindport.environment.version_numbers import satisfies
from mindport.exercises.exercise import Exercise, words

EXERCISES = {
    "00.numpy": Exercise(
        question="MindSpore 2.10.0 tells pip that any NumPy from 1.25 on will do. Write a version specifier for numpy "
        "that keeps 1.26.4 and refuses every release that breaks the first tensor operation.",
        check=lambda answer: _keeps_and_refuses(answer.strip().removeprefix("numpy").strip()),
        hints=(
            "The probe that fails names the major version.",
            "An upper bound is enough, and it excludes its number.",
        ),
        solution='"<2", or with a floor ">=1.26,<2". What a package says it accepts is not what it was tested with.',
        expects='a version specifier as text, such as "<3"',
    ),
    "00.pair": Exercise(
        question="Your cluster has CANN 8.5.0 and nobody may upgrade it. Which MindSpore belongs to it?",
        check=lambda answer: satisfies(str(answer), "==2.7.2"),
        hints=("Read the table of published combinations from the CANN column.", "It came between 2.7.1 and 2.9.0."),
        solution="2.7.2, with driver 25.5.0 and MindSpore Transformers 1.8.0: one row, taken whole.",
        expects="a version, as text",
    ),
    "00.devices": Exercise(
        question="A process may use the cards 3 and 1 and no other. Write the value of ASCEND_RT_VISIBLE_DEVICES.",
        check=lambda answer: answer.replace(" ", "") == "1,3",
        hints=("The order is not yours to choose.", "The numbers ascend, with a comma between them."),
        solution='"1,3": the numbers ascend (and the real variable takes no spaces). Which rank gets which card is '
        "decided by the launcher.",
        expects="text, as it would stand after the = sign",
    ),
    "00.sync": Exercise(
        question="An operator has no kernel on this device. In PyNative mode, is the error raised by the "
        '"call" of the operator, or by the next "sync" (.asnumpy(), print)?',
        check=lambda answer: "sync" in words(answer) and "call" not in words(answer),
        hints=("Look at the last row of the probes.", "The call only puts the operator into a queue."),
        solution='"sync": the traceback then blames an innocent line. When in doubt, put .asnumpy() behind each step.',
        expects='"call" or "sync"',
    ),
}


def _keeps_and_refuses(specifier: str) -> bool:
    refused = ("2.0.0", "2.4.6", "3.0")
    return satisfies("1.26.4", specifier) and not any(satisfies(version, specifier) for version in refused)
