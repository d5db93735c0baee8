//! Hosts of SD cards and eMMC devices.

use super::{Definition, Parts, Role, codec, page_cache};
use crate::profile::parameter::*;
use flashlab_host::{Machine, Stack};
use flashlab_sim::Duration;

/// A machine with a slot for an SD card, or with an eMMC device.
pub(super) static KIND: Definition = Definition {
    name: "host",
    noun: "a host",
    subject: "host",
    folder: "host/",
    sections: &["host", "cache", "codec"],
    tables: || &[TABLE, page_cache::TABLE, codec::TABLE],
    role: Role::Host,
    blank,
    check: |parts| page_cache::check(parts).and(parts.get::<Machine>().check()),
};

fn blank(parts: &mut Parts) {
    page_cache::blank(parts);
    codec::blank(parts);
    parts.insert(Machine {
        modes: Vec::new(),
        bus_clock_hz: None,
        overclock: None,
        bus_width: None,
        command_max: 0,
        t_request: Duration::ZERO,
        t_command: Duration::ZERO,
        t_block: Duration::ZERO,
        t_gap: None,
        prepare: None,
        merge: None,
        queue: None,
        stack: None,
    });
}

const TABLE: &[Parameter] = &[
    mandatory!("host.modes", Modes Machine.modes, ANY,
    "Bus modes that the host supports, best first; the host uses the first one that the card supports too."),
    optional!("host.bus_clock", ClockOrNone Machine.bus_clock_hz, (100_000, 1_000_000_000),
    "Maximum bus clock; the limit of the mode applies too.", "the mode's limit"),
    optional!("host.overclock", FlagOrNone Machine.overclock, ANY,
    "True if the fastest mode runs at host.bus_clock, beyond the limit of the mode.", "false"),
    optional!("host.bus_width", CountOrNone Machine.bus_width, ANY, "Data lines of the bus.", "the mode's: 4, or 8 for eMMC"),
    mandatory!("host.command_max", Size Machine.command_max, UP_TO_A_GIB,
    "Bytes of the largest data transfer that one command carries; larger requests are split."),
    mandatory!("host.t_request", Time Machine.t_request, TEN_SECONDS,
    "Software time per request that reaches the block layer."),
    mandatory!("host.t_command", Time Machine.t_command, TEN_SECONDS,
    "Software time per command: building the command and handling its interrupts."),
    mandatory!("host.t_block", Time Machine.t_block, TEN_SECONDS,
    "Software time per 512-byte block during the transfer: copying the data."),
    optional!("host.t_gap", TimeOrNone Machine.t_gap, TEN_SECONDS,
    "Time of the controller between two blocks of a transfer, beyond the gap of the bus; host.prepare does not hide it.",
    "none"),
    optional!("host.prepare", FlagOrNone Machine.prepare, ANY,
    "True if host.t_request and host.t_block are spent before each command, while the bus is busy with the previous \
     one, as in Linux's mmc stack.",
    "false; host.t_block is spent while the data moves"),
    optional!("host.merge_requests", FlagOrNone Machine.merge, ANY,
    "True if waiting requests for neighbouring blocks are merged into one command of up to host.command_max, \
     as in Linux's block layer.",
    "false"),
    optional!("host.queue", CountOrNone Machine.queue, (1, 32),
    "Tasks that the host's command queue engine (CQHCI) holds; it is used with cards that have card.queue.",
    "the host sends one command at a time"),
    choice!("host.stack", optional Machine.stack, ["blocks" = Stack::Blocks, "commands" = Stack::Commands],
    "Simulation of the slot: by blocks, or by the commands that the host stack sends to the card.", "blocks"),
];
