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
        "Bus modes that the host drives, best first; the first that the card offers too is used."),
        may!("host.bus_clock", ClockOrNone machine.bus_clock_hz, (100_000, 1_000_000_000),
        "Highest clock of the bus; the mode's limit holds beside it.", "the mode's limit"),
        may!("host.overclock", FlagOrNone machine.overclock, ANY,
        "True if the fastest mode is driven at host.bus_clock, beyond the mode's limit.", "false"),
        may!("host.bus_width", CountOrNone machine.bus_width, ANY, "Data lines of the bus.", "the mode's, 4"),
        must!("host.command_max", Size machine.command_max, UP_TO_A_GIB,
        "Bytes of the largest data transfer that one command carries; larger requests are split."),
        must!("host.t_request", Time machine.t_request, TEN_SECONDS,
        "The software's time for each request that reaches the block layer."),
        must!("host.t_command", Time machine.t_command, TEN_SECONDS,
        "The software's time for each command: building it, its interrupts."),
        must!("host.t_block", Time machine.t_block, TEN_SECONDS,
        "The software's time for each 512-byte block, while the data moves: the copy."),
        choice!("host.stack", optional machine.stack, ["blocks" = Stack::Blocks, "commands" = Stack::Commands],
        "How the slot is simulated: requests as blocks, or as the commands that the host stack sends to the card.", "blocks"),
    ];
}

/// Hosts with NVMe drives.
mod pc {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Pc];

    pub(in super::super) const TABLE: &[Parameter] = &[must!("pc.hmb", Size ssd.lend_max, (0, 64 * GIB),
            "Bytes of its memory that the driver lends a drive at most; Linux: nvme.max_host_mem_size_mb.")];
}

/// The vfat filesystem.
mod vfat {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Filesystem];

    pub(in super::super) const TABLE: &[Parameter] = &[
        must!("vfat.cluster", Size vfat.cluster, UP_TO_A_GIB, "Bytes of a cluster, the unit of allocation."),
        must!("vfat.partition_start", Size vfat.partition_start, (0, 128 << 40), "Byte of the device at which the partition begins."),
        must!("vfat.align", Size vfat.align, UP_TO_A_GIB,
        "The cluster heap begins at a multiple of this many bytes, counted on the device."),
        must!("vfat.write_back", Time vfat.write_back, AN_HOUR, "Age at which dirty metadata is written back."),
        must!("vfat.t_unexplained", Time vfat.t_unexplained, TEN_SECONDS,
        "An unexplained constant: time for each cluster that a write request touches, beyond the raw device's."),
    ];
}
