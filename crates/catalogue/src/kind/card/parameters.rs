//! The parameters of SD cards.

use super::Registers;
use crate::profile::Text;
use crate::profile::parameter::*;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::Overwrite;
use flashlab_sd::CardParameters;

pub(super) const TABLE: &[Parameter] = &[
    mandatory!("card.capacity", Size CardParameters.capacity, (MIB, 128 << 40), "Bytes that can be addressed."),
    mandatory!("card.modes", Modes CardParameters.modes, ANY, "Bus modes that the card supports; the host selects one of them."),
    optional!("card.manufacturer", CountOrNone Registers.manufacturer, (0, 255), "CID: manufacturer ID (MID).", "0"),
    text!("card.oem", Registers.oem, Text::Letters(2), "CID: OEM or application ID (OID).", "FL"),
    text!("card.product", Registers.product, Text::Letters(5), "CID: product name (PNM).", "FLASH"),
    text!(
        "card.revision",
        Registers.revision,
        Text::Hex(1),
        "CID: product revision (PRV), two digits.",
        "10"
    ),
    text!("card.serial", Registers.serial, Text::Hex(4), "CID: serial number (PSN).", "00000001"),
    text!("card.date", Registers.date, Text::Date, "CID: manufacturing date (MDT).", "2020-01"),
    text!(
        "card.relative_address",
        Registers.relative_address,
        Text::Hex(2),
        "Relative address that the card publishes (RCA).",
        "0001"
    ),
    text!(
        "card.ocr",
        Registers.ocr,
        Text::Hex(4),
        "OCR: voltage window; bit 30 is set if addresses count blocks, bit 24 if the card supports 1.8 V signals.",
        "2.7 to 3.6 V; the rest follows from capacity and modes"
    ),
    text!(
        "card.csd",
        Registers.csd,
        Text::Hex(16),
        "CSD: the whole register; the checksum is recomputed.",
        "the register follows from the capacity"
    ),
    text!(
        "card.scr",
        Registers.scr,
        Text::Hex(8),
        "SCR: the whole register.",
        "the register follows from capacity and modes"
    ),
    text!(
        "card.ssr",
        Registers.ssr,
        Text::HexUpTo(64),
        "SD Status: the whole register. Zeroes at its end may be omitted. Its bus width follows the setting \
         of the host.",
        "the register follows from capacity and modes"
    ),
    optional!("card.t_init", TimeOrNone Registers.t_init, TEN_SECONDS,
        "Time from the first ACMD41 with a voltage until the card is initialised.", "100 ms"),
    optional!("card.t_output", DelayOrNone Registers.t_output_ps, (0, 14_000),
        "Delay from the clock edge to data on the wires, at 3.3 V.", "10 ns"),
    optional!("card.write_buffer", SizeOrNone CardParameters.refinements.write_buffer, UP_TO_A_GIB,
        "Bytes that the card collects and then programs together, while the next bytes arrive; a write that \
         ends earlier is programmed at its end. A whole number of pages.",
        "each page is programmed on arrival"),
    optional!("card.read_ahead", SizeOrNone CardParameters.refinements.read_ahead, UP_TO_A_GIB,
        "Bytes after the end of a read that the card reads ahead into its buffer until the next command; a read that \
         continues there does not wait for them.", "the card does not read ahead"),
    optional!("card.t_command", TimeOrNone CardParameters.refinements.t_command, TEN_SECONDS,
        "Time of the card's processor for each read command, before the array begins; reading ahead does not hide it. \
         The time of a write command is in ftl.t_write.", "none"),
    optional!("card.t_command_write", TimeOrNone CardParameters.refinements.t_command_write, TEN_SECONDS,
        "Time of the card's processor for each write command into the volatile cache, after its data; the cache drains \
         meanwhile.", "none"),
    optional!("card.cache", SizeOrNone CardParameters.refinements.cache, UP_TO_A_GIB,
        "Bytes of the volatile write cache. A write completes in the cache while the cache has room. A power \
         cut loses data that has not drained. The host sends flushes.", "a completed write is durable"),
    optional!("card.drain", SizeOrNone CardParameters.refinements.drain, UP_TO_A_GIB,
        "Bytes that a drain of the volatile cache takes together from writes that are not adjacent; the card \
         packs them into as few pages as possible, and commits them once. A longer run drains alone.",
        "a drain takes one run of adjacent data"),
    optional!("card.queue", CountOrNone CardParameters.refinements.queue, (1, 32),
        "Number of tasks in the command queue; only a host with host.queue uses the queue.", "the card has no queue"),
    optional!("card.queue_buffers", CountOrNone CardParameters.refinements.queue_buffers, (1, 32),
        "Tasks whose data the card holds at a time, from the access of a read to the end of its transfer. With 1, no die \
         reads while the data of another task is on the bus.", "the card's memory is no limit"),
    optional!(
        "card.t_access_high_speed",
        TimeOrNone(CardParameters.refinements.access[1]),
        TEN_SECONDS,
        "Time that an access to the array takes in high speed, beyond flash.t_read. A read-ahead hides it.",
        "none"
    ),
    optional!(
        "card.t_access_sdr50",
        TimeOrNone(CardParameters.refinements.access[2]),
        TEN_SECONDS,
        "Time that an access to the array takes in SDR50, beyond flash.t_read. A read-ahead hides it.",
        "none"
    ),
    optional!(
        "card.t_access_ddr50",
        TimeOrNone(CardParameters.refinements.access[3]),
        TEN_SECONDS,
        "Time that an access to the array takes in DDR50, beyond flash.t_read. A read-ahead hides it.",
        "none"
    ),
    optional!(
        "card.t_access_sdr104",
        TimeOrNone(CardParameters.refinements.access[4]),
        TEN_SECONDS,
        "Time that an access to the array takes in SDR104, beyond flash.t_read. A read-ahead hides it.",
        "none"
    ),
];

/// Parameters of the flash and of the translation layer, which cards, eMMC devices and USB sticks share.
pub(in crate::kind) const FLASH: &[Parameter] = &[
    mandatory!("flash.page", Size CardParameters.nand.page, UP_TO_A_GIB,
        "Bytes of one program operation: of one page, or of several in dies and planes that always work together."),
    optional!("flash.stripe", SizeOrNone CardParameters.refinements.layer.stripe, UP_TO_A_GIB,
        "Bytes that are programmed at the same time, over dies and planes, while a long write streams; a whole number \
         of pages.", "one page"),
    optional!("flash.dies", CountOrNone CardParameters.refinements.dies, (1, 256),
        "Dies that read for several queued tasks at the same time; consecutive pages are in consecutive dies.", "1"),
    mandatory!("flash.t_read", Time CardParameters.nand.t_read, TEN_SECONDS,
        "Time from a command for mapped data to its first byte: firmware access plus t_R."),
    mandatory!("flash.read_rate", Rate CardParameters.nand.read_rate, (64 * KIB, 1024 * GIB),
        "Rate at which the pages after the first one leave the array."),
    mandatory!("flash.t_prog", Time CardParameters.nand.t_prog, TEN_SECONDS, "Time to program one page (t_PROG)."),
    optional!("flash.t_prog_slc", TimeOrNone CardParameters.nand.t_prog_slc, TEN_SECONDS,
        "Time to program one page in SLC mode. A block-mapped card uses the mode for a rewrite unit that is written \
         twice in a row from its first byte, and to stage the data of copies.",
        "the card has no SLC mode"),
    optional!("flash.bits", CountOrNone CardParameters.nand.bits, (1, 5),
        "Bits per cell: an erase block in SLC mode holds 1/bits of its bytes.", "3"),
    mandatory!("flash.erase_block", Size CardParameters.nand.erase_block, UP_TO_A_GIB, "Bytes that one erase operation frees."),
    mandatory!("flash.t_bers", Time CardParameters.nand.t_bers, TEN_SECONDS,
        "Time to erase one erase block (t_BERS), spent once for every flash.erase_block bytes programmed."),
    mandatory!("flash.spread", Share CardParameters.nand.spread_ppm, (0, 200_000),
        "Standard deviation of t_read and t_prog between erase blocks; the seed draws the deviation of each block."),
    mandatory!("ftl.program_unit", Size CardParameters.mapping.program_unit, UP_TO_A_GIB,
        "Bytes that the card buffers and programs together, leaving nothing open in the array; a write that ends \
         inside a program unit costs t_commit."),
    mandatory!("ftl.t_commit", Time CardParameters.mapping.t_commit, TEN_SECONDS,
        "Time to commit a write that leaves a program unit open or begins a new run: its log record and map pages."),
    mandatory!("ftl.map_unit", Size CardParameters.mapping.map_unit, UP_TO_A_GIB,
        "Bytes that one map entry covers if the data was written in sequence."),
    mandatory!("ftl.rewrite_unit", Size CardParameters.mapping.rewrite_unit, UP_TO_A_GIB,
        "Bytes that are rewritten together when part of them is overwritten; a card with 4 KiB copies nothing."),
    choice!(
        "ftl.overwrite",
        CardParameters.mapping.overwrite,
        ["convert" = Overwrite::Convert, "log" = Overwrite::Log],
        "Effect of overwriting part of a rewrite unit: conversion to page-mapped form at once, or a log that is merged \
         later."
    ),
    mandatory!("ftl.open_units", Count CardParameters.mapping.open_units, (0, 65_536), "Rewrite units that can be open at a time."),
    optional!("ftl.map_cache", SizeOrNone CardParameters.mapping.map_cache, (0, 64 * GIB),
        "Bytes of the controller's memory that hold map pages.", "the whole map fits"),
    mandatory!("ftl.map_page", Size CardParameters.mapping.map_page, UP_TO_A_GIB,
        "Bytes of a map page, the unit in which the map is loaded."),
    optional!("ftl.t_write", TimeOrNone CardParameters.refinements.layer.t_write, TEN_SECONDS,
        "Busy time after the last program of every write command, also of one that continues a run; a write \
         to the area for small writes has none.", "none"),
    optional!("ftl.t_copy", TimeOrNone CardParameters.refinements.layer.t_copy, TEN_SECONDS,
        "Time in which the array copies a whole rewrite unit on its own; copying a part takes a proportional share.",
        "a copy is read at flash.read_rate and programmed"),
    optional!("ftl.t_switch", TimeOrNone CardParameters.refinements.layer.t_switch, TEN_SECONDS,
        "Time to switch to a rewrite unit other than that of the previous write.", "none"),
    optional!("ftl.collect_step", SizeOrNone CardParameters.refinements.layer.collect_step, UP_TO_A_GIB,
        "Bytes of valid data that garbage collection moves ahead of each write while fewer than half of the spare \
         blocks are free; log-structured cards only.", "collection moves whole erase blocks"),
    optional!("ftl.housekeeping_every", SizeOrNone CardParameters.refinements.layer.housekeeping_every, (0, 64 * GIB),
        "Bytes that the host writes from one housekeeping pass to the next.", "there is none"),
    optional!("ftl.t_housekeeping", TimeOrNone CardParameters.refinements.layer.t_housekeeping, TEN_SECONDS,
        "Time of one housekeeping pass; the write that makes it due waits for it.", "there is none"),
    optional!("ftl.small_max", SizeOrNone CardParameters.refinements.layer.small.max, UP_TO_A_GIB,
        "Length of the longest write that goes to the area for small writes, unless it continues a run.",
        "there is no such area"),
    optional!("ftl.small_page", SizeOrNone CardParameters.refinements.layer.small.page, UP_TO_A_GIB,
        "Bytes of one program operation in the area for small writes.", "flash.page"),
    optional!("flash.t_prog_small", TimeOrNone CardParameters.refinements.layer.small.t_prog, TEN_SECONDS,
        "Time to program one page of the area for small writes and to note where it is.", "flash.t_prog"),
    optional!("ftl.small_size", SizeOrNone CardParameters.refinements.layer.small.size, (0, 64 * GIB),
        "Bytes of the area for small writes; a write that does not fit waits until older data is folded.",
        "the area never fills up"),
    optional!("ftl.small_idle", TimeOrNone CardParameters.refinements.layer.small.t_idle, AN_HOUR,
        "Idle time after which the card folds data out of the area for small writes.",
        "data is folded only for lack of room"),
];

/// Wear parameters that cards, eMMC devices and USB sticks have, but SSDs do not.
pub(in crate::kind) const WEAR: &[Parameter] = &[
    optional!("wear.raw", SizeOrNone Wear.raw, (MIB, 256 << 40),
        "Bytes of the erase blocks for data, including bad and spare blocks.",
        "an eighth more than the capacity, and at least the minimum that the card needs"),
    optional!("wear.pools", CountOrNone Wear.pools, UP_TO_2_32,
        "Number of groups of erase blocks with separate wear leveling, such as dies.", "1"),
];
