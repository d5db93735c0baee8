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
    Cell,
    Completions,
    Device,
    Error,
    Experiment,
    ExperimentResult,
    JobFigures,
    Latency,
    Result,
    __version__,
    devices,
    experiments,
)

__all__ = [
    "Cell",
    "Completions",
    "Device",
    "Error",
    "Experiment",
    "ExperimentResult",
    "JobFigures",
    "Latency",
    "Result",
    "__version__",
    "devices",
    "experiment",
    "experiments",
]


def experiment(name: str, *, library: "Union[str, os.PathLike[str], None]" = None) -> Experiment:
    """Return an experiment: a name of ``experiments()``, or a folder with ``experiment.toml``.

    >>> experiment("sd-cards").title
    'Six microSD cards in an mmc0 reader, raw and vfat'
    """
    return Experiment(name, library=library)
