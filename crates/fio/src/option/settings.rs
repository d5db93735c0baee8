//! Options while a section is read: a job under construction, and values that are resolved at the end of the section.

use std::collections::BTreeMap;

use crate::error::Place;
use crate::job::{Job, SizeShare};
use crate::number::KbBase;

/// Values that a job inherits from `[global]` sections and that its own options override.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Values that need no further resolution.
    pub(crate) job: Job,
    /// `name=`
    pub(crate) name: Option<String>,
    /// `direct=`, or the negation of `buffered=`.
    pub(crate) direct: bool,
    /// `numjobs=`
    pub(crate) numjobs: u32,
    /// `stonewall`
    pub(crate) stonewall: bool,
    /// `new_group`
    pub(crate) new_group: bool,
    /// `kb_base=`, for the options that follow.
    pub(crate) kb_base: KbBase,
    /// `bs=` per direction.
    pub(crate) block: [u64; 3],
    /// `bsrange=` per direction.
    pub(crate) block_range: [Option<(u64, u64)>; 3],
    /// `bssplit=` per direction.
    pub(crate) block_split: [Option<Vec<SizeShare>>; 3],
    /// `blockalign=` per direction.
    pub(crate) block_align: [Option<u64>; 3],
    /// `iodepth_batch_complete_max=`
    pub(crate) batch_complete_max: Option<u32>,
    /// `iodepth_low=`
    pub(crate) depth_low: u32,
    /// `filename=`, split at `:`.
    pub(crate) filenames: Vec<String>,
    /// `filename_format=`
    pub(crate) filename_format: String,
    /// `directory=`, split at `:`.
    pub(crate) directories: Vec<String>,
    /// `read_iolog=`, split at `:`.
    pub(crate) read_iologs: Vec<String>,
    /// Position of each option that was set.
    pub(crate) places: BTreeMap<&'static str, Place>,
}

impl Default for Settings {
    fn default() -> Self {
        let job = Job { files: Vec::new(), ..Job::default() };
        Settings {
            job,
            name: None,
            direct: false,
            numjobs: 1,
            stonewall: false,
            new_group: false,
            kb_base: KbBase::Binary,
            block: [4096; 3],
            block_range: [None; 3],
            block_split: [None, None, None],
            block_align: [None; 3],
            batch_complete_max: None,
            depth_low: 0,
            filenames: Vec::new(),
            filename_format: "$jobname.$jobnum.$filenum".to_string(),
            directories: Vec::new(),
            read_iologs: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}
