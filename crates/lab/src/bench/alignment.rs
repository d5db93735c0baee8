//! Checks that direct requests consist of whole blocks of the device.

use super::BenchError;
use flashlab_fio::job::{BlockSize, Direction, Extent, Job};

/// Rejects a job with a request size or offset that is not a multiple of the device's `block`. The device would reject
/// such a request, as direct I/O does. The requests of an iolog are checked by the device itself.
pub(super) fn check(job: &Job, block: u64) -> Result<(), BenchError> {
    if job.read_iolog.is_some() {
        return Ok(());
    }
    let ill = of_job(job).into_iter().find(|(_, bytes)| bytes % block != 0);
    ill.map_or(Ok(()), |(option, bytes)| {
        Err(BenchError::NotWholeBlocks { job: job.name.clone(), option, bytes, block })
    })
}

/// Returns the options of a job that determine sizes and offsets, with their values in bytes.
fn of_job(job: &Job) -> Vec<(&'static str, u64)> {
    let used: &[Direction] = job.pattern.mix.directions();
    let mut all = Vec::new();
    for direction in used {
        match &job.block_size[*direction as usize] {
            BlockSize::Fixed(bytes) | BlockSize::Range { min: bytes, .. } => all.push(("bs", *bytes)),
            BlockSize::Split(shares) => all.extend(shares.iter().map(|share| ("bs", share.bytes))),
        }
    }
    let extent = |extent| match extent {
        Extent::Bytes(bytes) => bytes,
        Extent::Percent(_) => 0,
    };
    all.extend([("offset", extent(job.offset)), ("offset_increment", extent(job.offset_increment))]);
    if job.pattern.random {
        all.extend(used.iter().map(|direction| ("blockalign", job.block_align[*direction as usize])));
    } else {
        all.push(("the skip in rw", job.pattern.sequence_skip.unsigned_abs()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_fio::cmdline::Invocation;
    use flashlab_fio::loader::NoFiles;

    /// Returns the option that is not a multiple of 512 bytes.
    fn ill(options: &str) -> Option<&'static str> {
        let words: Vec<&str> = options.split_whitespace().collect();
        let job = &Invocation::parse(&words, &NoFiles).expect("a valid job").jobs[0];
        match check(job, 512) {
            Err(BenchError::NotWholeBlocks { option, .. }) => Some(option),
            _ => None,
        }
    }

    #[test]
    fn requests_consist_of_whole_blocks() {
        let job = "--name=a --direct=1 --size=1m";
        for (options, option) in [
            ("--rw=randwrite", None),
            ("--rw=randwrite --ba=100", Some("blockalign")),
            ("--rw=write --ba=100", None),
            ("--rw=read:100", Some("the skip in rw")),
            ("--rw=read:-4k", None),
            ("--rw=read --bs=1000", Some("bs")),
            ("--rw=read --offset=100", Some("offset")),
        ] {
            assert_eq!(ill(&format!("{job} {options}")), option, "{options}");
        }
    }
}
