//! Options for the access pattern, the block sizes, and the amount and region of I/O.

use super::{Entry, Kind, form, irrelevant, modelled, refused};
use crate::number::{KbBase, LARGEST, each_direction, merge, range};

const U32: u64 = u32::MAX as u64;

pub(super) const PATTERN: &[Entry] = &[
    modelled(
        "rw",
        &["readwrite"],
        "read",
        Kind::Form {
            form: "read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, trimwrite or \
                   randtrimwrite; a number may follow: randread:8, write:4k",
            read: |s, text| {
                s.job.pattern = form::pattern(text, s.kb_base)?;
                Ok(())
            },
        },
        "Operations of the job, sequential or at random offsets. rw and randrw mix reads and writes by rwmixread; \
         trimwrite trims each range and then writes it. With a number, a random pattern draws a new offset only after \
         that many consecutive requests, and a sequential pattern skips that many bytes after each request (backwards \
         if it is negative).",
    ),
    refused(
        "rw_sequencer",
        &["sequential"],
        "the identical sequencer, which repeats an offset, is not available",
    ),
    modelled(
        "rwmixread",
        &[],
        "50",
        Kind::Count { least: 0, most: 100, set: |s, n| s.job.rw_mix_read = n as u32 },
        "Percentage of reads in a mix of reads and writes. The last of rwmixread and rwmixwrite applies.",
    ),
    modelled(
        "rwmixwrite",
        &[],
        "50",
        Kind::Count { least: 0, most: 100, set: |s, n| s.job.rw_mix_read = 100 - n as u32 },
        "Percentage of writes in a mix of reads and writes: 100 minus rwmixread.",
    ),
    irrelevant("rwmixcycle", "fio itself no longer uses it (deprecated there)"),
    modelled(
        "random_distribution",
        &[],
        "random",
        Kind::Form {
            form: "random, zipf:theta, pareto:power, normal:deviation, zoned:access/range:..., zoned_abs:access/size:...",
            read: |s, text| {
                s.job.distribution = form::distribution(text, s.kb_base)?;
                Ok(())
            },
        },
        "Distribution of random offsets. With random, all blocks are equally likely, and each occurs once per pass. \
         The others draw blocks repeatedly, and some more often: by Zipf's law, by Pareto's law, around the middle of \
         the range with a deviation in percent of the range, or by a list of zones, each with a percentage of the \
         accesses and a percentage or size of the range. fio's optional centre, and a separate distribution for each \
         direction, are refused.",
    ),
    modelled(
        "percentage_random",
        &[],
        "100",
        Kind::Form {
            form: "one to three percentages: for reads, writes and trims",
            read: |s, text| {
                let base = s.kb_base;
                let shares = each_direction(text, &[','], |part| crate::number::bounded(part, base, 0, 100))?;
                merge(&mut s.job.percentage_random, shares.map(|share| share.map(|share| share as u32)));
                Ok(())
            },
        },
        "Percentage of a random pattern's requests that go to a random offset; the others follow the previous request.",
    ),
    modelled(
        "norandommap",
        &[],
        "0",
        Kind::Switch(|s, on| s.job.no_random_map = on),
        "Draws random offsets without a map of the blocks already accessed, so that a pass accesses some blocks \
         several times and others not at all. fio also does so if random_distribution is not random, or if the \
         blockalign of any direction, used or not, differs from its smallest block size.",
    ),
    irrelevant(
        "softrandommap",
        "it applies if there is no memory for the random map, which does not happen here",
    ),
    modelled(
        "random_generator",
        &[],
        "tausworthe",
        Kind::Word { words: &["tausworthe", "lfsr", "tausworthe64"], set: |_, _| {} },
        "fio's generator of random offsets. All three have the properties that determine results (each block once per \
         pass, repeatable), and one generator here replaces all of them.",
    ),
    modelled(
        "randrepeat",
        &[],
        "1",
        Kind::Boolean(|s, on| s.job.rand_repeat = on),
        "Uses the same random offsets in every run, and for randread and randwrite. With 0 the offsets depend on the \
         seed of the simulation.",
    ),
    modelled(
        "allrandrepeat",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.all_rand_repeat = on),
        "Like randrepeat, for everything random in a job: block sizes, the mix of reads and writes, and offsets.",
    ),
    modelled(
        "randseed",
        &[],
        "",
        Kind::Count { least: 0, most: LARGEST, set: |s, n| s.job.rand_seed = Some(n) },
        "Seeds the random numbers of the job: the same seed gives the same offsets, another seed gives other offsets.",
    ),
    refused(
        "bs_is_seq_rand",
        &["0"],
        "block sizes differ by direction here, not between sequential and random requests",
    ),
];

pub(super) const BLOCKS: &[Entry] = &[
    modelled(
        "bs",
        &["blocksize"],
        "4096",
        Kind::Form {
            form: "one to three sizes: for reads, writes and trims",
            read: |s, text| {
                let sizes = form::block_sizes(text, s.kb_base)?;
                merge(&mut s.block, sizes);
                Ok(())
            },
        },
        "The size of each request. One size applies to all directions; of two, the first is for reads, the second for \
         writes and trims; an empty one leaves the earlier value, as in bs=,8k.",
    ),
    modelled(
        "bsrange",
        &["blocksize_range"],
        "",
        Kind::Form {
            form: "one to three ranges: 4k-16k, or 1k-4k,4k-16k",
            read: |s, text| {
                let base = s.kb_base;
                let ranges = each_direction(text, &[',', '/'], |part| at_least_one(part, base))?;
                merge(&mut s.block_range, ranges.map(|range| range.map(Some)));
                Ok(())
            },
        },
        "Draws the sizes of requests from a range, in multiples of its minimum.",
    ),
    modelled(
        "bssplit",
        &[],
        "",
        Kind::Form {
            form: "sizes with percentages, such as 4k/60:64k/40; up to three such lists",
            read: |s, text| {
                let base = s.kb_base;
                let splits = each_direction(text, &[','], |part| form::split(part, base))?;
                merge(&mut s.block_split, splits.map(|split| split.map(Some)));
                Ok(())
            },
        },
        "Draws the sizes of requests from a list, each with its percentage of the requests. Blank percentages divide \
         the rest; without blanks the percentages sum to 100.",
    ),
    modelled(
        "ba",
        &["blockalign"],
        "",
        Kind::Form {
            form: "one to three sizes: for reads, writes and trims",
            read: |s, text| {
                let sizes = form::block_sizes(text, s.kb_base)?;
                merge(&mut s.block_align, sizes.map(|size| size.map(Some)));
                Ok(())
            },
        },
        "Alignment of random offsets. The default is the smallest block size.",
    ),
    refused("bs_unaligned", &["0"], "requests are whole blocks here")
        .with_aliases(&["blocksize_unaligned"])
        .switch(),
];

pub(super) const AMOUNT: &[Entry] = &[
    modelled(
        "size",
        &[],
        "",
        Kind::Extent { least: 1, set: |s, extent| s.job.size = Some(extent) },
        "Number of bytes that one pass covers, from the offset on, in all files of the job together; or a percentage \
         of the device. Without size and filesize, a pass covers the whole device.",
    ),
    modelled(
        "io_size",
        &["io_limit"],
        "",
        Kind::Extent { least: 1, set: |s, extent| s.job.io_size = Some(extent) },
        "Number of bytes after which the job ends, if it differs from size: less than a pass, or several passes.",
    ),
    refused("fill_device", &["0"], "no write fails here because the device is full")
        .with_aliases(&["fill_fs"]),
    modelled(
        "filesize",
        &[],
        "",
        Kind::Count { least: 1, most: LARGEST, set: |s, n| s.job.file_size = Some(n) },
        "The size of each file. A range of sizes is refused.",
    ),
    refused("file_append", &["0"], "files are read and written from their offset, not from their end"),
    modelled(
        "offset",
        &["fileoffset"],
        "0",
        Kind::Extent { least: 0, set: |s, extent| s.job.offset = extent },
        "Start of the job's region, in bytes or as a percentage. Data before it is not touched.",
    ),
    modelled(
        "offset_increment",
        &[],
        "0",
        Kind::Extent { least: 0, set: |s, extent| s.job.offset_increment = extent },
        "Added to the offset once for each clone of numjobs before this one, so that clones work on regions of their own.",
    ),
    refused("offset_align", &["0"], "an offset given as a percentage is aligned to the block size"),
    modelled(
        "number_ios",
        &[],
        "0",
        Kind::Count { least: 0, most: LARGEST, set: |s, n| s.job.number_ios = (n > 0).then_some(n) },
        "Ends the job after this many requests, if nothing else ended it before. With trimwrite and randtrimwrite, a \
         trim and its write count as one.",
    ),
    modelled(
        "loops",
        &[],
        "1",
        Kind::Count { least: 1, most: U32, set: |s, n| s.job.loops = n },
        "How many times the whole job runs.",
    ),
];

fn at_least_one(text: &str, base: KbBase) -> Result<(u64, u64), crate::number::ValueError> {
    match range(text, base)? {
        (0, _) => Err(crate::number::Fault::OutOfRange { least: 1, most: LARGEST }.at(0)),
        sizes => Ok(sizes),
    }
}
