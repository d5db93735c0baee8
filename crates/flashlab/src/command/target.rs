//! Targets of `measure` and `probe`: real devices by their paths, and virtual devices by their names.

/// Kind of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TargetKind {
    Block,
    File,
    Directory,
    Nbd,
    Virtual,
}

impl TargetKind {
    /// Returns the kind of a target. A path that exists is a real target, except for a profile.
    pub(super) fn of(target: &str) -> TargetKind {
        let is_uri = ["nbd:", "nbds:", "nbd+", "nbds+"].iter().any(|scheme| target.starts_with(scheme));
        match std::fs::metadata(target) {
            _ if is_uri => TargetKind::Nbd,
            _ if target.ends_with(".toml") => TargetKind::Virtual,
            Ok(existing) if existing.is_dir() => TargetKind::Directory,
            Ok(existing) if existing.is_file() => TargetKind::File,
            Ok(_) => TargetKind::Block,
            // A device node that is not there is not the name of a virtual device either.
            Err(_) if target.starts_with("/dev/") => TargetKind::Block,
            Err(_) => TargetKind::Virtual,
        }
    }
}
