//! Hosts with USB ports.

use super::{Definition, Parts, Role, codec, page_cache};
use crate::profile::parameter::*;
use flashlab_host::{UsbHost, UsbSpeed};
use flashlab_sim::Duration;

/// A machine with a USB port for a stick.
pub(super) static KIND: Definition = Definition {
    name: "usb-port",
    noun: "a USB port",
    subject: "USB port",
    folder: "host/",
    sections: &["port", "cache", "codec"],
    tables: || &[TABLE, page_cache::TABLE, codec::TABLE],
    role: Role::Host,
    blank,
    check: |parts| page_cache::check(parts).and(parts.get::<UsbHost>().check()),
};

fn blank(parts: &mut Parts) {
    page_cache::blank(parts);
    codec::blank(parts);
    parts.insert(UsbHost {
        speed: UsbSpeed::High,
        high_speed_max: 0,
        super_speed_max: 0,
        t_request: Duration::ZERO,
        t_command: Duration::ZERO,
        merge: None,
    });
}

const TABLE: &[Parameter] = &[
    choice!(
        "port.speed",
        UsbHost.speed,
        ["high" = UsbSpeed::High, "super" = UsbSpeed::Super],
        "Fastest link of the port: USB 2.0 high speed (480 Mb/s) or USB 3 SuperSpeed (5 Gb/s)."
    ),
    mandatory!("port.high_speed_max", Size UsbHost.high_speed_max, UP_TO_A_GIB,
        "Bytes of the largest data transfer of a command at high speed; larger requests are split."),
    mandatory!("port.super_speed_max", Size UsbHost.super_speed_max, UP_TO_A_GIB,
        "Bytes of the largest data transfer of a command at SuperSpeed; larger requests are split."),
    mandatory!("port.t_request", Time UsbHost.t_request, TEN_SECONDS,
        "Software time per request that reaches the block layer."),
    mandatory!("port.t_command", Time UsbHost.t_command, TEN_SECONDS,
        "Software time per command: its three transfers with their interrupts and task switches."),
    optional!("port.merge_requests", FlagOrNone UsbHost.merge, ANY,
        "True if waiting requests for neighbouring blocks are merged into one command, as in Linux's block \
         layer.",
        "false"),
];
