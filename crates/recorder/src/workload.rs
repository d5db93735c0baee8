//! Workloads: the shipped ones, scripts of users, and job files of fio.
//!
//! A workload is a script for busybox's shell with one or two functions. The guest runs the function
//! `prepare` before the recording and the function `run` during it, both in the folder of the mounted
//! filesystem. In the shipped scripts and in those of users, `mark op-begins` and `mark op-ends` enclose an
//! operation that the user waits for. Without such marks, calls such as `fsync` are the operations.

use crate::filesystem::Filesystem;

/// A workload of the guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// Shell script that defines `run`, and may define `prepare`.
    pub(crate) script: String,
    /// Text of a job file of fio, which the script finds at `/job.fio`.
    pub(crate) job: Option<String>,
    /// Programs of the host that the script runs.
    pub(crate) programs: Vec<String>,
}

/// A workload that flashlab ships.
struct Shipped {
    name: &'static str,
    script: &'static str,
    program: Option<&'static str>,
}

const SHIPPED: [Shipped; 6] = [
    Shipped { name: "sqlite", script: include_str!("workloads/sqlite.sh"), program: Some("sqlite3") },
    Shipped { name: "sqlite-wal", script: include_str!("workloads/sqlite-wal.sh"), program: Some("sqlite3") },
    Shipped { name: "logger", script: include_str!("workloads/logger.sh"), program: None },
    Shipped { name: "unpack", script: include_str!("workloads/unpack.sh"), program: None },
    Shipped { name: "fio-random", script: include_str!("workloads/fio-random.sh"), program: Some("fio") },
    Shipped {
        name: "fio-sequential",
        script: include_str!("workloads/fio-sequential.sh"),
        program: Some("fio"),
    },
];

impl Workload {
    /// Returns the names of the shipped workloads.
    pub fn names() -> [&'static str; 6] {
        SHIPPED.map(|workload| workload.name)
    }

    /// Returns the shipped workload with this name.
    pub fn shipped(name: &str) -> Option<Workload> {
        let shipped = SHIPPED.iter().find(|workload| workload.name == name)?;
        Some(Workload {
            name: name.to_owned(),
            script: shipped.script.to_owned(),
            job: None,
            programs: shipped.program.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Returns the workload of a script that runs as a whole. `programs` are the programs that it needs in addition to
    /// those of busybox.
    pub fn script(name: &str, text: &str, programs: Vec<String>) -> Workload {
        Workload {
            name: name.to_owned(),
            // A function without a command, such as one of comments only, would be a syntax error.
            script: format!("run() {{\n:\n{}\n}}\n", text.trim_end()),
            job: None,
            programs,
        }
    }

    /// Returns the workload of a job file of fio. The job's files lie on the filesystem, whatever folder the job names;
    /// without a filesystem, the job uses the raw device.
    pub fn fio(name: &str, job: &str) -> Workload {
        Workload {
            name: name.to_owned(),
            script: "run() { fio $FIO_PLACE --output=/tmp/fio.txt /job.fio || \
                     { cat /tmp/fio.txt; return 1; }; }\n"
                .into(),
            job: Some(job.to_owned()),
            programs: vec!["fio".into()],
        }
    }

    /// Returns the text from which the workload can be repeated.
    pub(crate) fn text(&self) -> String {
        let text = self.job.as_ref().unwrap_or(&self.script);
        format!("{}\n{text}", self.name)
    }
}

/// Returns a job file for the guest. The files of the job lie in the folder of the filesystem, or are the raw
/// device. fio's command line determines this place (`FIO_PLACE`), so this function removes the job's own
/// places: each `directory=`, the folders in each `filename=`, and on the raw device the whole `filename=`.
pub(crate) fn job_in_guest(job: &str, filesystem: Filesystem) -> String {
    let mut lines = String::new();
    for line in job.lines() {
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("directory", _)) => {}
            Some(("filename", _)) if filesystem == Filesystem::Raw => {}
            Some(("filename", names)) => {
                let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
                let names: Vec<String> = names.split(':').map(last).collect();
                lines += &format!("filename={}\n", names.join(":"));
            }
            _ => {
                lines += line;
                lines.push('\n');
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_uses_the_filesystem_of_the_guest_whatever_places_it_names() {
        let job = "[a]\ndirectory = /data\nrw=write\nfilename=/srv/x:sub/y:z\nsize=1m\n";
        assert_eq!(
            job_in_guest(job, Filesystem::Ext4),
            "[a]\nrw=write\nfilename=x:y:z\nsize=1m\n",
            "fio's --directory=/mnt is the place"
        );
        let raw = job_in_guest("[a]\nfilename=/dev/mmcblk0\nrw=read", Filesystem::Raw);
        assert_eq!(raw, "[a]\nrw=read\n", "fio's --filename=/dev/nullb0 is the device");
    }

    #[test]
    fn a_script_without_commands_is_well_formed() {
        for text in ["", "# nothing yet\n"] {
            let script = Workload::script("mine", text, vec![]).script;
            let parsed = std::process::Command::new("sh").args(["-n", "-c", &script]).status();
            assert!(parsed.expect("a shell is installed").success(), "{script}");
        }
    }

    #[test]
    fn every_shipped_workload_defines_a_run() {
        for name in Workload::names() {
            let workload = Workload::shipped(name).unwrap();
            assert!(workload.script.contains("run() {"), "{name}");
        }
        assert_eq!(Workload::shipped("sqlit"), None);
    }
}
