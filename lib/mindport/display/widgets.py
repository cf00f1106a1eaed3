"""A view over a few controls: always as static output, and with widgets where somebody can move them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mindport.errors import MindPortError, UsageError
from mindport.tables import LIMIT, Table

Control = bool | Sequence[Any]


def explore(view: Callable[..., Any], *, interactive: bool, **controls: Control) -> None:
    """Show `view(**defaults)`, then a table over small ranges, then widgets when there is a front end.

    Args:
        view: a pure function of the controls that returns something to show; it prints nothing.
        interactive: whether anybody is there to move widgets (a parameter of the notebook).
        controls: name to choices, a `range` for a slider, or a bool for a check box; the first one is the default.

    Raises:
        UsageError: a control has no choices.
    """
    from IPython.display import display

    choices = {name: _choices(name, control) for name, control in controls.items()}
    shown = view(**{name: values[0] for name, values in choices.items()})
    display(shown)
    if hasattr(shown, "headline") and (table := _over_the_range(view, choices)):
        display(table)
    if interactive:
        _widgets(view, controls)


def _choices(name: str, control: Control) -> Sequence[Any]:
    values = (control, not control) if isinstance(control, bool) else control
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not len(values):
        raise UsageError("a control needs choices", where=name, got=control, expected="a bool, a range, or a list")
    return values


def _over_the_range(view: Callable[..., Any], choices: Mapping[str, Sequence[Any]]) -> Table | None:
    """The headline for each combination, when they fit on a screen."""
    combinations = list(itertools.islice(itertools.product(*choices.values()), LIMIT + 1))
    if not 1 < len(combinations) <= LIMIT:
        return None
    rows = [(*values, _headline(view, dict(zip(choices, values, strict=True)))) for values in combinations]
    return Table("over the range", (*choices, "answer"), rows)


def _headline(view: Callable[..., Any], values: dict[str, Any]) -> str:
    try:
        return view(**values).headline()
    except MindPortError as error:  # that a value is refused is an answer too
        return f"{type(error).__name__}: {error.what}"


def _widgets(view: Callable[..., Any], controls: Mapping[str, Control]) -> None:
    from IPython import get_ipython
    from IPython.display import display

    if not hasattr(get_ipython(), "kernel"):
        return  # a terminal: the static output above is all there can be
    try:
        import ipywidgets
    except ImportError:
        print("ipywidgets is not installed, so the output above does not move: pip install ipywidgets")
        return
    handles = {name: _widget(ipywidgets, name, control) for name, control in controls.items()}
    output = ipywidgets.interactive_output(lambda **values: display(view(**values)), handles)
    display(ipywidgets.VBox([*handles.values(), output]))


def _widget(ipywidgets: Any, name: str, control: Control) -> Any:
    label = name.replace("_", " ")
    if isinstance(control, bool):
        return ipywidgets.Checkbox(value=control, description=label)
    if isinstance(control, range):
        low, high = sorted((control[0], control[-1]))
        return ipywidgets.IntSlider(
            value=control[0], min=low, max=high, step=abs(control.step), description=label, continuous_update=False
        )
    return ipywidgets.Dropdown(options=list(control), description=label)
