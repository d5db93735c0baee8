//! Options for files, devices and request traces.

use super::{Entry, Kind, form, irrelevant, modelled, refused};
use crate::job::{FadviseHint, Fallocate};

pub(super) const FILES: &[Entry] = &[
    modelled(
        "filename",
        &[],
        "",
        Kind::Form {
            form: "names separated by :, where \\: stands for a colon",
            read: |s, text| {
                s.filenames = form::names(text)?;
                Ok(())
            },
        },
        "The files of the job, shared by its clones. Without directory, every name stands for the simulated device, \
         and the output lists filename as without effect.",
    ),
    modelled(
        "directory",
        &[],
        "",
        Kind::Form {
            form: "a path; several, separated by :, are distributed over the clones",
            read: |s, text| {
                s.directories = form::names(text)?;
                Ok(())
            },
        },
        "The job works on files of its own. With flashlab bench --fs vfat they lie on that filesystem; without --fs they \
         are laid out one after the other on the bare device, and the output says so. The name itself has no meaning.",
    ),
    modelled(
        "filename_format",
        &[],
        "$jobname.$jobnum.$filenum",
        Kind::Text(|s, text| s.filename_format = text.to_string()),
        "Format of the file names if filename is not set: $jobname, $jobnum and $filenum are replaced. Clones with the \
         same file name share the file.",
    ),
    irrelevant("unique_filename", "it adds the address of a client to names, and no client is served"),
    refused("opendir", &[], "there is no directory to search for files"),
    refused("lockfile", &["none"], "jobs do not wait for each other's files"),
    modelled(
        "nrfiles",
        &["nr_files"],
        "1",
        Kind::Count { least: 1, most: 65_536, set: |s, n| s.job.nr_files = n as u32 },
        "How many files the job has. Its size is divided among them, and requests go to them in turn. If filename is \
         set, it determines the number.",
    ),
    refused("file_service_type", &["roundrobin"], "files are served in turn, one request each"),
    refused("openfiles", &[], "all files of a job are open at once"),
    modelled(
        "fallocate",
        &[],
        "native",
        Kind::Word {
            words: &["none", "native", "posix", "keep", "truncate", "0", "1"],
            set: |s, word| {
                s.job.fallocate = [
                    Fallocate::None,
                    Fallocate::Native,
                    Fallocate::Native,
                    Fallocate::Keep,
                    Fallocate::Truncate,
                    Fallocate::None,
                    Fallocate::Native,
                ][word];
            },
        },
        "How space is allocated for new files before the timed part of the run. It matters on vfat, which fills \
         allocated space with zeros: with none, this happens while the job writes.",
    ),
    modelled(
        "fadvise_hint",
        &["fadvise"],
        "1",
        Kind::Word {
            words: &["0", "1", "none", "random", "sequential"],
            set: |s, word| {
                s.job.fadvise_hint = [
                    FadviseHint::None,
                    FadviseHint::Pattern,
                    FadviseHint::None,
                    FadviseHint::Random,
                    FadviseHint::Sequential,
                ][word];
            },
        },
        "Advice to the page cache: with 1, by the pattern of the job. Sequential access doubles the largest read-ahead window, \
         random access turns read-ahead off. Without effect on direct I/O.",
    ),
    modelled(
        "overwrite",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.overwrite = on),
        "Files are written once before the timed part, so that the job overwrites existing data.",
    ),
    modelled(
        "invalidate",
        &[],
        "1",
        Kind::Boolean(|s, on| s.job.invalidate = on),
        "Drops cached pages of the files before the run, and each time a time-based job starts over. Without effect \
         on direct I/O. With 0, the last close of a raw device still drops its pages; 0 is refused for buffered jobs \
         on files.",
    ),
    irrelevant("create_serialize", "files are laid out before the timed part, one after the other"),
    irrelevant("create_fsync", "the layout of files is durable before the timed part"),
    refused("create_on_open", &["0"], "files are laid out before the timed part, not when they are opened"),
    refused("create_only", &["0"], "a job that only creates files has nothing to report"),
    refused("allow_file_create", &["1"], "files that do not exist are created"),
    irrelevant("allow_mounted_write", "nothing is mounted on a simulated device"),
    refused("pre_read", &["0"], "files are not read into the page cache before a job"),
    modelled(
        "unlink",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.unlink = on),
        "Removes the files of the job when its wave has ended. Only files on a filesystem (--fs) can be removed: elsewhere \
         it changes nothing.",
    ),
    refused("unlink_each_loop", &["0"], "files are not removed between loops"),
];

pub(super) const TRACES: &[Entry] = &[
    modelled(
        "read_iolog",
        &[],
        "",
        Kind::Form {
            form: "file names separated by :, distributed over the clones",
            read: |s, text| {
                s.read_iologs = form::names(text)?;
                Ok(())
            },
        },
        "Replays the requests of a recorded iolog (version 2 or 3) or of a recording of flashlab instead of \
         generating requests. Binary blktraces are refused; flashlab recording import reads them.",
    ),
    modelled(
        "replay_no_stall",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.replay_no_stall = on),
        "Replays as fast as the device allows, without the pauses that were recorded.",
    ),
    irrelevant("read_iolog_chunked", "it says how much of an iolog is in memory at a time"),
    irrelevant("replay_redirect", "every request goes to the simulated device in any case"),
    refused("replay_scale", &["0", "1"], "recorded offsets are replayed as they are"),
    refused("replay_align", &["0", "1"], "recorded offsets are replayed as they are"),
    refused("replay_time_scale", &["100"], "recorded pauses are kept, or dropped by replay_no_stall"),
    refused("replay_skip", &[], "all recorded requests are replayed"),
    refused("merge_blktrace_file", &[], "binary blktraces are not read"),
    irrelevant("merge_blktrace_scalars", "it has an effect only with merge_blktrace_file, which is refused"),
    irrelevant("merge_blktrace_iters", "it has an effect only with merge_blktrace_file, which is refused"),
    modelled(
        "write_iolog",
        &[],
        "",
        Kind::Text(|s, text| s.job.write_iolog = Some(text.to_string())),
        "Writes the job's requests to this file, in fio's iolog format. If several jobs or clones name the same FILE, \
         each job writes a file of its own (FILE.1, FILE.2 and so on, by its place among all jobs). fio \
         writes a single file.",
    ),
];
