//! The parameters of SD cards.

use super::{ANY, Choice, Field, GIB, KIB, Kind, Lens, MIB, Parameter, TEN_SECONDS, Text, UP_TO_A_GIB};
use flashlab_flash::ftl::Overwrite;

const KINDS: &[Kind] = &[Kind::Card];

pub(super) const TABLE: &[Parameter] = &[
    must!("card.capacity", Size card.capacity, (MIB, 128 << 40), "Bytes that can be addressed."),
    must!("card.modes", Modes card.modes, ANY, "Bus modes that the card offers; the host chooses among them."),
    may!("card.manufacturer", CountOrNone registers.manufacturer, (0, 255), "CID: number of the maker (MID).", "0"),
    text!("card.oem", registers.oem, Text::Letters(2), "CID: for whom it was made (OID).", "FL"),
    text!("card.product", registers.product, Text::Letters(5), "CID: name of the product (PNM).", "FLASH"),
    text!(
        "card.revision",
        registers.revision,
        Text::Hex(1),
        "CID: revision of the product (PRV), two digits.",
        "10"
    ),
    text!("card.serial", registers.serial, Text::Hex(4), "CID: serial number (PSN).", "00000001"),
    text!("card.date", registers.date, Text::Date, "CID: when it was made (MDT).", "2020-01"),
    text!(
        "card.relative_address",
        registers.relative_address,
        Text::Hex(2),
        "The address that it publishes (RCA).",
        "0001"
    ),
    text!(
        "card.ocr",
        registers.ocr,
        Text::Hex(4),
        "OCR: voltages, and bit 30 where it is addressed by blocks, 24 where it takes 1.8 V signals.",
        "2.7 to 3.6 V and what follows from capacity and modes"
    ),
    text!(
        "card.csd",
        registers.csd,
        Text::Hex(16),
        "CSD: the whole register; its checksum is made anew.",
        "what follows from the capacity"
    ),
    text!(
        "card.scr",
        registers.scr,
        Text::Hex(8),
        "SCR: the whole register.",
        "what follows from capacity and modes"
    ),
    text!(
        "card.ssr",
        registers.ssr,
        Text::HexUpTo(64),
        "SD status: the whole register, without zeroes at its end; the width in it is the host's.",
        "what follows from capacity and modes"
    ),
    may!("card.t_init", TimeOrNone registers.t_init, TEN_SECONDS,
        "From the first ACMD41 that names a voltage until the card is initialised.", "100 ms"),
    may!("card.t_output", DelayOrNone registers.t_output_ps, (0, 14_000),
        "From the clock's edge to data on the wires, at 3.3 V.", "10 ns"),
    must!("flash.page", Size card.nand.page, UP_TO_A_GIB,
        "Bytes that one program operation writes, over all dies and planes that work as one."),
    must!("flash.t_read", Time card.nand.t_read, TEN_SECONDS,
        "Time from a command for mapped data to its first byte: the firmware's access and t_R."),
    must!("flash.read_rate", Rate card.nand.read_rate, (64 * KIB, 1024 * GIB),
        "Rate at which the pages after the first come out of the array."),
    must!("flash.t_prog", Time card.nand.t_prog, TEN_SECONDS, "Time to program one page (t_PROG)."),
    may!("flash.t_prog_slc", TimeOrNone card.nand.t_prog_slc, TEN_SECONDS,
        "Time to program one page in fast mode, with one bit a cell, where a superblock goes that is rewritten at once.",
        "the card has no fast mode"),
    may!("flash.bits", CountOrNone card.nand.bits, (1, 5),
        "Bits of a cell: an erase block in fast mode holds that part of its bytes.", "3"),
    must!("flash.erase_block", Size card.nand.erase_block, UP_TO_A_GIB, "Bytes that one erase operation frees."),
    must!("flash.t_bers", Time card.nand.t_bers, TEN_SECONDS,
        "Time to erase one erase block (t_BERS), paid once for every erase block's worth of programs."),
    must!("flash.spread", Share card.nand.spread_ppm, (0, 200_000),
        "Standard deviation of t_read and t_prog from erase block to erase block; the seed draws from it."),
    must!("ftl.program_unit", Size card.mapping.program_unit, UP_TO_A_GIB,
        "Bytes after which nothing is left open in the array, and what the card buffers; a write that ends inside one pays t_commit."),
    must!("ftl.t_commit", Time card.mapping.t_commit, TEN_SECONDS,
        "Time to make a write durable that leaves a program unit open or begins a new run: its log record and map pages."),
    must!("ftl.map_unit", Size card.mapping.map_unit, UP_TO_A_GIB,
        "Bytes that one entry of the map covers where data was written in sequence."),
    must!("ftl.superblock", Size card.mapping.superblock, UP_TO_A_GIB,
        "Bytes that are rewritten together when part of them is overwritten."),
    choice!(
        "ftl.overwrite",
        card.mapping.overwrite,
        ["convert" = Overwrite::Convert, "log" = Overwrite::Log],
        "What overwriting part of a superblock does: convert it to page-mapped form at once, or log and merge later."
    ),
    must!("ftl.open_units", Count card.mapping.open_units, (0, 65_536), "Superblocks that can be open at a time."),
    may!("ftl.map_cache", SizeOrNone card.mapping.map_cache, (0, 64 * GIB),
        "Bytes of the controller's memory that hold map pages.", "the whole map fits"),
    must!("ftl.map_page", Size card.mapping.map_page, UP_TO_A_GIB,
        "Bytes of a map page: what one load of mapping information brings."),
];
