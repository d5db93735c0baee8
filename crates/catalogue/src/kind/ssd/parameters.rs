//! The parameters of NVMe SSDs.

use super::optional::{OptionalSsdParameters, SuspendTarget};
use crate::profile::parameter::*;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Streams;
use flashlab_flash::ftl::page_map::map_cache::HostMemoryPolicy;
use flashlab_flash::nand::Cell;
use flashlab_nvme::{Generation, SsdParameters};

pub(super) const TABLE: &[Parameter] = &[
    mandatory!("nvme.block", Size SsdParameters.block, UP_TO_A_GIB, "Bytes of a logical block of the namespace."),
    mandatory!("nvme.request_max", Size SsdParameters.request_max, UP_TO_A_GIB, "Bytes of the largest request (MDTS)."),
    choice!(
        "nvme.generation",
        SsdParameters.link.generation,
        [
            "gen1" = Generation::Gen1,
            "gen2" = Generation::Gen2,
            "gen3" = Generation::Gen3,
            "gen4" = Generation::Gen4,
            "gen5" = Generation::Gen5
        ],
        "Generation of PCI Express that host and drive agree on."
    ),
    mandatory!("nvme.lanes", Count SsdParameters.link.lanes, UP_TO_2_32, "Lanes of the link."),
    mandatory!("nvme.payload", Count SsdParameters.link.payload, UP_TO_2_32, "Bytes of the largest packet's payload."),
    mandatory!("nvme.t_way", Time SsdParameters.link.t_way, TEN_SECONDS,
        "Latency of a packet from one side of the link to the other."),
    mandatory!("nvme.depth", Count SsdParameters.controller.depth, UP_TO_2_32,
        "Maximum number of commands in the controller; others wait in the queues."),
    mandatory!("nvme.t_command", Time SsdParameters.controller.t_command, TEN_SECONDS,
        "Firmware time for a command: decoding it, locating the data, setting up the array."),
    mandatory!("nvme.t_command_write", Time SsdParameters.controller.t_command_write, TEN_SECONDS,
        "Firmware time for a write command."),
    mandatory!("nvme.t_command_unmapped", Time SsdParameters.controller.t_command_unmapped, TEN_SECONDS,
        "Firmware time for a read of unmapped data."),
    mandatory!("nvme.t_idle", Time SsdParameters.controller.t_idle, AN_HOUR, "Time without commands after which background work begins."),
    choice!(
        "nand.cell",
        SsdParameters.timing.cell,
        ["slc" = Cell::Slc, "mlc" = Cell::Mlc, "tlc" = Cell::Tlc, "qlc" = Cell::Qlc],
        "Bits per cell: 1, 2, 3 or 4."
    ),
    mandatory!("nand.channels", Count SsdParameters.page_map.geometry.channels, UP_TO_2_32, "Channels between controller and array."),
    mandatory!("nand.dies", Count SsdParameters.page_map.geometry.dies, UP_TO_2_32, "Dies on each channel."),
    mandatory!("nand.planes", Count SsdParameters.page_map.geometry.planes, UP_TO_2_32, "Planes of a die, which program and erase as one."),
    mandatory!("nand.blocks", Count SsdParameters.page_map.geometry.blocks, UP_TO_2_32, "Erase blocks of a plane."),
    mandatory!("nand.pages", Count SsdParameters.page_map.geometry.pages, UP_TO_2_32, "Pages of an erase block."),
    mandatory!("nand.page", Size SsdParameters.page_map.geometry.page, UP_TO_A_GIB, "Bytes of a page of one plane."),
    mandatory!("nand.t_read", Time SsdParameters.timing.t_read, TEN_SECONDS,
        "Mean time to read a page from the array into the register (t_R)."),
    mandatory!("nand.t_read_spread", Share SsdParameters.timing.t_read_spread_ppm, (0, 999_999),
        "Half the width of the range of t_R, as a share of its mean."),
    mandatory!(
        "nand.t_prog",
        Time(SsdParameters.timing.t_prog[0]),
        TEN_SECONDS,
        "Time to program the first (lower) page of a cell (t_PROG)."
    ),
    optional!(
        "nand.t_prog_2",
        TimeOrNone(OptionalSsdParameters.t_prog[0]),
        TEN_SECONDS,
        "Time to program the second page of a cell.",
        "the same as for the previous page"
    ),
    optional!(
        "nand.t_prog_3",
        TimeOrNone(OptionalSsdParameters.t_prog[1]),
        TEN_SECONDS,
        "Time to program the third page of a cell.",
        "the same as for the previous page"
    ),
    optional!(
        "nand.t_prog_4",
        TimeOrNone(OptionalSsdParameters.t_prog[2]),
        TEN_SECONDS,
        "Time to program the fourth page of a cell.",
        "the same as for the previous page"
    ),
    mandatory!("nand.t_bers", Time SsdParameters.timing.t_bers, TEN_SECONDS, "Time to erase a block (t_BERS)."),
    mandatory!("nand.channel_rate", Rate SsdParameters.timing.channel_rate, (KIB, 1024 * GIB), "Rate of a channel."),
    mandatory!("nand.t_command", Time SsdParameters.timing.t_command, TEN_SECONDS,
        "Time of the command and address cycles of each transfer."),
    optional!("nand.t_read_slc", TimeOrNone OptionalSsdParameters.t_read_slc, TEN_SECONDS, "t_R of a block in SLC mode.",
        "as t_read"),
    optional!("nand.t_prog_slc", TimeOrNone OptionalSsdParameters.t_prog_slc, TEN_SECONDS, "t_PROG of a block in SLC mode.",
        "as t_prog"),
    mandatory!("scheduling.reads_first", Flag SsdParameters.scheduling.reads_first, ANY,
        "True if urgent reads (of host data and of the map) precede programs, erases and background reads of the same \
         die."),
    mandatory!("scheduling.overtaken_max", Count SsdParameters.scheduling.overtaken_max, UP_TO_2_32,
        "Maximum number of urgent reads that may overtake an operation, which then runs to its end."),
    choice!(
        "scheduling.suspend",
        OptionalSsdParameters.suspend,
        [
            "nothing" = SuspendTarget::Nothing,
            "programs" = SuspendTarget::Programs,
            "erases" = SuspendTarget::Erases,
            "both" = SuspendTarget::Both
        ],
        "Operations that an urgent read suspends on its die."
    ),
    optional!("scheduling.t_suspend", TimeOrNone OptionalSsdParameters.t_suspend, TEN_SECONDS,
        "Time from the suspend command until the die can read.", "nothing is suspended"),
    optional!("scheduling.t_resume", TimeOrNone OptionalSsdParameters.t_resume, TEN_SECONDS,
        "Time from the resume command until the array continues.", "nothing is suspended"),
    mandatory!("ftl.capacity", Size SsdParameters.page_map.capacity, (MIB, 128 << 40), "Bytes that the host can address."),
    mandatory!("ftl.unit", Size SsdParameters.page_map.unit, UP_TO_A_GIB, "Bytes that one map entry covers."),
    Parameter {
        kinds: Vec::new(),
        path: "ftl.victim",
        meaning: VictimPolicy::MEANING,
        default_meaning: None,
        range: ANY,
        field: Field::Choice(Choice {
            names: VictimPolicy::NAMES,
            get: |parts| parts.get::<SsdParameters>().page_map.victim.name(),
            set: |parts, name| {
                let victim = VictimPolicy::from_name(name).expect("the parser accepts only these words");
                parts.get_mut::<SsdParameters>().page_map.victim = victim;
            },
        }),
    },
    choice!(
        "ftl.streams",
        SsdParameters.page_map.streams,
        ["one" = Streams::One, "two" = Streams::Two, "hot-cold" = Streams::HotCold],
        "Data that goes to separate blocks: none; host writes and moved data; or host writes, data moved \
         once and data moved more often."
    ),
    mandatory!("ftl.reserve", Count SsdParameters.page_map.reserve, UP_TO_2_32,
        "Number of free blocks of a die at which garbage collection begins while the host writes."),
    mandatory!("ftl.idle_free", Count SsdParameters.page_map.idle_free, UP_TO_2_32,
        "Number of free blocks of a die up to which garbage collection continues while the host is idle; 0 disables \
         it."),
    mandatory!("ftl.write_buffer", Size SsdParameters.page_map.write_buffer, (0, 64 * GIB), "Bytes of the write buffer."),
    optional!("ftl.slc_blocks", CountOrNone OptionalSsdParameters.slc_blocks, UP_TO_2_32,
        "Blocks of each die in SLC mode, which receive the host's data first.", "none"),
    optional!("ftl.slc_fold", ShareOrNone OptionalSsdParameters.slc_fold_ppm, (0, 1_000_000),
        "Data folded out of SLC blocks while the host writes, as a share of the data that the host writes.",
        "nothing while there is room"),
    optional!("map.sram", SizeOrNone SsdParameters.map.sram, (0, 64 * GIB),
        "Bytes of the controller's memory that hold clean map pages.", "the whole map fits"),
    mandatory!("map.page", Size SsdParameters.map.page, UP_TO_A_GIB,
        "Bytes of a map page, the unit in which the map is loaded, cached and written."),
    mandatory!("map.entry", Size SsdParameters.map.entry, UP_TO_A_GIB, "Bytes of a map entry."),
    mandatory!("map.dirty", Size SsdParameters.map.dirty, (0, 64 * GIB), "Bytes of the controller's memory that hold changed map pages."),
    mandatory!("map.t_look", Time SsdParameters.map.t_look, TEN_SECONDS, "Firmware time for a look-up in the cache in host memory."),
    mandatory!("map.t_hmb", Time SsdParameters.map.t_hmb, TEN_SECONDS, "Time to move a map page between host memory and the controller."),
    mandatory!("map.t_load", Time SsdParameters.map.t_load, TEN_SECONDS, "Total time to load a map page from flash."),
    mandatory!("map.t_write_back", Time SsdParameters.map.t_write_back, TEN_SECONDS,
        "Firmware time to queue a changed map page for programming when another one needs its place."),
    mandatory!("map.loaders", Count SsdParameters.map.loaders, UP_TO_2_32, "Maximum number of map pages that load in parallel."),
    mandatory!("map.blocking", Flag SsdParameters.map.blocking, ANY,
        "True if the firmware waits for a load; otherwise it continues with the next command."),
    choice!(
        "map.policy",
        SsdParameters.map.policy,
        [
            "clean-map" = HostMemoryPolicy::CleanMap,
            "direct-table" = HostMemoryPolicy::DirectTable,
            "write-buffer" = HostMemoryPolicy::WriteBuffer
        ],
        "Use of the host memory buffer."
    ),
    mandatory!("hmb.preferred", Size OptionalSsdParameters.hmb_preferred, (0, 64 * GIB),
        "Preferred bytes of host memory (HMPRE); 0 if the drive uses none."),
    mandatory!("hmb.minimum", Size OptionalSsdParameters.hmb_minimum, (0, 64 * GIB), "Minimum bytes of host memory (HMMIN)."),
    optional!("reliability.fresh", NumberOrNone OptionalSsdParameters.fresh, ANY,
        "Raw bit error rate of a block never erased, just after programming.", "every page is read without a retry"),
    optional!("reliability.worn", NumberOrNone OptionalSsdParameters.worn, ANY,
        "Raw bit error rate that 1,000 erases add.", "not used without reliability.fresh"),
    optional!("reliability.cycles_exponent", NumberOrNone OptionalSsdParameters.cycles_exponent, ANY, "Exponent of the number of erases.",
        "not used without reliability.fresh"),
    optional!("reliability.doubling", TimeOrNone OptionalSsdParameters.doubling, ANY,
        "Age of data at which the error rate added by erases has doubled.", "not used without reliability.fresh"),
    optional!("reliability.age_exponent", NumberOrNone OptionalSsdParameters.age_exponent, ANY, "Exponent of the age.",
        "not used without reliability.fresh"),
    optional!("reliability.codeword_bits", CountOrNone OptionalSsdParameters.codeword_bits, UP_TO_2_32, "Bits of a codeword with its parity.",
        "not used without reliability.fresh"),
    optional!("reliability.correctable", CountOrNone OptionalSsdParameters.correctable, UP_TO_2_32,
        "Number of wrong bits that the code corrects.",
        "not used without reliability.fresh"),
    optional!("reliability.codewords", CountOrNone OptionalSsdParameters.codewords, UP_TO_2_32,
        "Number of codewords that a read decodes.",
        "not used without reliability.fresh"),
    optional!("reliability.retries_max", CountOrNone OptionalSsdParameters.retries_max, UP_TO_2_32,
        "Maximum number of read retries before a page counts as unreadable.", "not used without reliability.fresh"),
    optional!("reliability.retry_gain", NumberOrNone OptionalSsdParameters.retry_gain, ANY,
        "Factor by which each further attempt changes the raw bit error rate.", "not used without reliability.fresh"),
];

/// Wear parameters that only SSDs have. The model of a card does not simulate individual program operations, which
/// could fail.
pub(super) const WEAR: &[Parameter] = &[
    optional!("wear.program_fail", NumberOrNone OptionalSsdParameters.program_fail, ANY,
        "Probability that programming a page fails in service, in steps of 1e-9: its data is programmed \
         elsewhere, and the erase block is retired.",
        "none fails"),
    optional!("wear.erase_fail", NumberOrNone OptionalSsdParameters.erase_fail, ANY,
        "Probability that an erase fails in service, in steps of 1e-9: the erase block is retired.", "none fails"),
];
