"""Whether a training can go on so many processes here: said before text, model or another training are made for it."""

from __future__ import annotations

from dataclasses import replace

from mindport.parallel.launch.preflight import preflight
from mindport.training.config import TrainConfig, check_model, complete
from mindport.training.start import described_model


def check_layout(config: TrainConfig, dp: int, tp: int) -> None:
    """Hold a layout to the configuration, its model and this machine.

    Raises:
        ConfigError: the rows do not divide among the replicas, or the model among the processes of one.
        UsageError, BackendError: not so many processes can be started here, or none.
    """
    asked = complete(replace(config, parallel=replace(config.parallel, dp=dp, tp=tp)))
    check_model(asked, described_model(asked)[1], f"dp{dp},tp{tp}")
    preflight(dp * tp).require()
