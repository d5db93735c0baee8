"""A flash-storage laboratory: virtual SD cards, USB sticks and SSDs with the timing and the wear of real ones.

>>> import flashlab
>>> device = flashlab.Device("sd/kingston", **{"flash.t_prog": "250us"})
>>> result = device.run(rw="randwrite", bs="4k", runtime=2, time_based=True)
>>> result.requests > 0
True

Results are those of the command line: the same seed gives the same digest.
"""

import os
from typing import Union

from ._flashlab import (
    BlockDevice,
    Cell,
    Completions,
    Device,
    Error,
    Experiment,
    ExperimentResult,
    Fit,
    IoError,
    JobFigures,
    Latency,
    Result,
    SweepResult,
    __version__,
    devices,
    experiments,
    fit,
    serve,
)
from ._sweep import sweep

__all__ = [
    "BlockDevice",
    "Cell",
    "Completions",
    "Device",
    "Error",
    "Experiment",
    "ExperimentResult",
    "Fit",
    "IoError",
    "JobFigures",
    "Latency",
    "Result",
    "SweepResult",
    "__version__",
    "devices",
    "experiment",
    "experiments",
    "fit",
    "serve",
    "sweep",
]


def experiment(name: str, *, library: "Union[str, os.PathLike[str], None]" = None) -> Experiment:
    """Return an experiment: a name of ``experiments()``, or a folder with ``experiment.toml``.

    >>> experiment("sd-cards")
    Experiment("sd-cards")
    """
    return Experiment(name, library=library)
