//! The parameters of hosts and of filesystems.

use super::{AN_HOUR, ANY, Choice, Field, GIB, Kind, Lens, Parameter, TEN_SECONDS, UP_TO_A_GIB};
use flashlab_host::Stack;

pub(super) use machine::TABLE;
pub(super) use pc::TABLE as PC;
pub(super) use vfat::TABLE as VFAT;

/// Hosts with an SD slot.
mod machine {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Host];

    pub(in super::super) const TABLE: &[Parameter] = &[
        must!("host.modes", Modes machine.modes, ANY,
        "Bus modes that the host supports, best first; the host uses the first one that the card supports too."),
        may!("host.bus_clock", ClockOrNone machine.bus_clock_hz, (100_000, 1_000_000_000),
        "Maximum bus clock; the limit of the mode applies too.", "the mode's limit"),
        may!("host.overclock", FlagOrNone machine.overclock, ANY,
        "True if the fastest mode runs at host.bus_clock, beyond the limit of the mode.", "false"),
        may!("host.bus_width", CountOrNone machine.bus_width, ANY, "Data lines of the bus.", "the mode's, 4"),
        must!("host.command_max", Size machine.command_max, UP_TO_A_GIB,
        "Bytes of the largest data transfer that one command carries; larger requests are split."),
        must!("host.t_request", Time machine.t_request, TEN_SECONDS,
        "Software time per request that reaches the block layer."),
        must!("host.t_command", Time machine.t_command, TEN_SECONDS,
        "Software time per command: building the command and handling its interrupts."),
        must!("host.t_block", Time machine.t_block, TEN_SECONDS,
        "Software time per 512-byte block during the transfer: copying the data."),
        choice!("host.stack", optional machine.stack, ["blocks" = Stack::Blocks, "commands" = Stack::Commands],
        "Simulation of the slot: by blocks, or by the commands that the host stack sends to the card.", "blocks"),
    ];
}

/// Hosts with NVMe drives.
mod pc {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Pc];

    pub(in super::super) const TABLE: &[Parameter] = &[must!("pc.hmb", Size ssd.lend_max, (0, 64 * GIB),
            "Maximum host memory in bytes that the driver lends to a drive; Linux: nvme.max_host_mem_size_mb.")];
}

/// The vfat filesystem.
mod vfat {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Filesystem];

    pub(in super::super) const TABLE: &[Parameter] = &[
        must!("vfat.cluster", Size vfat.cluster, UP_TO_A_GIB, "Bytes of a cluster, the unit of allocation."),
        must!("vfat.partition_start", Size vfat.partition_start, (0, 128 << 40), "Byte of the device at which the partition begins."),
        must!("vfat.align", Size vfat.align, UP_TO_A_GIB,
        "Alignment of the cluster heap in bytes, relative to the beginning of the device."),
        must!("vfat.write_back", Time vfat.write_back, AN_HOUR, "Age at which dirty metadata is written back."),
        must!("vfat.t_unexplained", Time vfat.t_unexplained, TEN_SECONDS,
        "An unexplained constant: time per cluster that a write request touches, in addition to the time of the raw \
         device."),
    ];
}
