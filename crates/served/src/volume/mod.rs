//! Volumes over several devices: `volume:a.img:b.img`, `volume:pool.toml`.
//!
//! Members separated by colons are files and block devices. A TOML file lists members of any kind:
//!
//! ```toml
//! [[member]]
//! device = "file:a.img,size=1GiB"  # any device of `flashlab serve` except a volume
//! label = "ssd.a"                  # for a new volume
//! durability = 1                   # for a new volume; 0 makes a pure cache
//! ```

mod claim;
mod codecs;
mod failures;
mod foreign;
mod gauges;
mod opened;
mod orders;
mod pace;
mod removal;
mod scrubs;
mod search;
mod settings;
mod wear;

use claim::{Claims, Shared};
pub use codecs::CodecHost;
pub use foreign::find_data;
pub use opened::OpenPool;
pub use orders::failed_rekey;
pub use removal::note_on_removed;
use search::Absent;
pub use settings::{member_number, read_setting, ways_to_room};
use wear::Wear;

use crate::argument::Argument;
use crate::wait::wait;
use crate::{NewFiles, Served, ServedError, Sources, StateWriter};
use flashlab_block::{BlockDevice, Context, read_whole_text};
use flashlab_catalogue::device::HostCodecs;
use flashlab_sim::Instant;
use flashlab_volume::{Degraded, NewMember, OpenOptions, Volume, VolumeError};
use serde::Deserialize;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Maximum size in bytes of the file of a pool.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The members of a volume, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    members: Vec<PoolMember>,
}

/// A member by name.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolMember {
    /// The device, named as for `flashlab serve`.
    pub device: String,
    /// Label of the member in a new volume.
    #[serde(default)]
    pub label: String,
    /// Number of copies that a copy on the member counts for in a new volume: 1 by default, 0 for a pure cache.
    #[serde(default = "one")]
    pub durability: u8,
}

fn one() -> u8 {
    1
}

impl PoolMember {
    /// Creates a member without a label, of durability 1.
    pub fn new(device: String) -> PoolMember {
        PoolMember { device, label: String::new(), durability: 1 }
    }

    /// Parses a new member: `PATH` or `DEVICE`, with an optional prefix `LABEL=`.
    ///
    /// # Errors
    /// Returns a sentence for the user if the text with its label is also a path.
    pub fn parse(text: &str) -> Result<PoolMember, String> {
        // A label ends at an equals sign before the first colon, slash and comma: `a.img,size=1GiB` has no label.
        let (label, device) = match text.split_once('=') {
            Some((label, device)) if !label.contains([':', '/', ',']) => (label, device),
            _ => ("", text),
        };
        if !label.is_empty() && names_a_file(text) {
            return Err(format!(
                "{text}: a label and the file {device}, or a file with this name? Write --label {label} {device} or ./{text}"
            ));
        }
        let device = if device.contains(':') { device.to_owned() } else { file_of(device) };
        Ok(PoolMember { label: label.to_owned(), ..PoolMember::new(device) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    member: Vec<PoolMember>,
}

/// The reason why a volume cannot be created or opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolError {
    /// Names of the members, in the order of the numbers in `error`.
    pub members: Vec<String>,
    /// Reasons why devices could not be opened.
    pub unopened: Vec<String>,
    /// The error of the engine.
    pub error: VolumeError,
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = |device: &String| path_of(device).to_owned();
        let name = |n: usize| self.members.get(n).map_or_else(|| format!("member {n}"), path);
        let names_member = match &self.error {
            VolumeError::Member { member, .. }
            | VolumeError::TooSmall { member, .. }
            | VolumeError::NoSuperblock { member, .. }
            | VolumeError::Foreign { member, .. }
            | VolumeError::Removed { member, .. }
            | VolumeError::Stale { member }
            | VolumeError::NotAuthentic { member }
            | VolumeError::Duplicate { member } => *member < self.members.len(),
            _ => false,
        };
        if !names_member {
            let names: Vec<String> = self.members.iter().map(path).collect();
            write!(f, "{}: ", names.join(":"))?;
        }
        f.write_str(&self.error.describe(&name))?;
        if !self.unopened.is_empty() {
            write!(f, "; not opened: {}", self.unopened.join("; "))?;
        }
        Ok(())
    }
}

/// Returns the path of a `file:` device. Returns any other device unchanged.
pub fn path_of(device: &str) -> &str {
    let path = device.strip_prefix("file:").and_then(|rest| rest.split(',').next());
    path.unwrap_or(device)
}

impl std::error::Error for PoolError {}

impl Pool {
    /// Creates a pool from members that were given one by one.
    pub fn new(members: Vec<PoolMember>) -> Pool {
        Pool { members }
    }

    /// Parses a list of paths separated by colons, or reads the TOML file that `list` names.
    ///
    /// # Errors
    /// Returns an error if the list names no member, or if the file cannot be read.
    pub fn parse(list: &str) -> Result<Pool, ServedError> {
        if list.ends_with(".toml") && !list.contains(':') {
            return Pool::read(Path::new(list));
        }
        if list.contains("://") {
            let why = format!(
                "{list}: colons separate the members, so an NBD server is listed in a file such as pool.toml, with the \
                 lines [[member]] and device = \"nbd+unix:///?socket=disk.sock\"; give this file in place of the members"
            );
            return Err(ServedError::Exports { path: "volume".into(), why });
        }
        if list.split(':').any(str::is_empty) {
            let why = format!("{list:?}: the name of a member is empty");
            return Err(ServedError::Exports { path: "volume".into(), why });
        }
        let member = |path: &str| PoolMember::new(file_of(path));
        Ok(Pool { members: list.split(':').map(member).collect() })
    }

    fn read(path: &Path) -> Result<Pool, ServedError> {
        let wrong = |why: String| ServedError::Exports { path: path.to_owned(), why };
        let text = read_whole_text(path, FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if let Some(nested) = file.member.iter().find(|member| member.device.starts_with("volume:")) {
            return Err(wrong(format!("{}: a volume cannot be a member of a volume", nested.device)));
        }
        Ok(Pool { members: file.member })
    }

    /// Returns the members.
    pub fn members(&self) -> &[PoolMember] {
        &self.members
    }

    /// Opens the devices of the members.
    ///
    /// # Errors
    /// Returns the error of the first device that cannot be opened.
    pub fn open_members<'a>(
        &self,
        seed: u64,
        read_only: bool,
        sources: impl Into<Sources<'a>>,
    ) -> Result<OpenMembers, ServedError> {
        let sources = sources.into();
        let (mut opened, mut shared) = (OpenMembers::default(), Vec::new());
        for PoolMember { device, label, durability } in &self.members {
            let served = Served::open_for(device, seed, read_only, (sources, true, &opened.new_files))?;
            if !outlives_the_process(device, &served) {
                opened.volatile.push(device.clone());
            }
            if !read_only && is_shared(&served) {
                shared.push(shared_device(&served));
            }
            opened.members.push(NewMember {
                label: label.clone(),
                durability: *durability,
                ..NewMember::new(served.device)
            });
            opened.state_writers.extend(served.state_writer);
        }
        claim::refuse_in_use(&shared)?;
        Ok(opened)
    }

    /// Opens the volume. With [`Degraded::Yes`] or [`Degraded::Very`], a device that cannot be opened counts as
    /// missing.
    ///
    /// # Errors
    /// Returns the error of a device, or the reason why the devices are not a volume.
    pub fn open<'a>(
        &self,
        seed: u64,
        options: OpenOptions,
        sources: impl Into<Sources<'a>>,
    ) -> Result<OpenPool, ServedError> {
        self.open_on(None, seed, options, sources)
    }

    /// Opens the volume as [`Pool::open`] does. In simulated time, its codecs run on the host `named`, or on the host of
    /// the members.
    pub(crate) fn open_on<'a>(
        &self,
        named: Option<HostCodecs>,
        seed: u64,
        options: OpenOptions,
        sources: impl Into<Sources<'a>>,
    ) -> Result<OpenPool, ServedError> {
        let sources = sources.into();
        let (mut opened, mut members, mut unopened) = (Pool { members: Vec::new() }, Vec::new(), Vec::new());
        let mut absent = Vec::new();
        let new_files = NewFiles::default();
        for member in &self.members {
            match Served::open_for(&member.device, seed, options.read_only, (sources, true, &new_files)) {
                Ok(served) => {
                    opened.members.push(member.clone());
                    members.push(served);
                }
                Err(error) if options.degraded == Degraded::Refuse => return Err(error),
                Err(error) => {
                    unopened.push(error.to_string());
                    absent.push(member.device.clone());
                }
            }
        }
        let mut devices: Vec<Arc<dyn BlockDevice>> =
            members.iter().map(|member| member.device.clone()).collect();
        let claims = Claims::default();
        if !options.read_only {
            let is_shared = |n: &usize| is_shared(&members[*n]);
            let shared: Vec<usize> = (0..members.len()).filter(is_shared).collect();
            let claimed = shared.iter().map(|n| shared_device(&members[*n])).collect();
            for (n, device) in shared.iter().zip(claims.claim(claimed)?) {
                devices[*n] = device;
            }
        }
        let codecs = sources.is_simulated.then(|| CodecHost::of(named, &members));
        let options = OpenOptions { codec: codecs.as_ref().map(CodecHost::costs), ..options };
        let wear = Wear::begin(&opened.members, &members);
        let cx = Context::new(Instant::ZERO);
        let volume = wait(Volume::open(&cx, &devices, options), &devices);
        let volume = match volume {
            Ok(volume) => volume,
            Err(error) => return Err(ServedError::Volume(PoolError { unopened, ..opened.error(error) })),
        };
        for reason in unopened {
            tracing::warn!(
                reason,
                "a member of the volume counts as missing, because its device cannot be opened"
            );
        }
        new_files.keep();
        let state_writers = members.into_iter().filter_map(|member| member.state_writer).collect();
        Ok(OpenPool {
            volume,
            claims: Arc::new(claims),
            wear,
            state_writers: Arc::new(Mutex::new(state_writers)),
            scrubs: Arc::default(),
            removals: Arc::default(),
            reconciling: Arc::default(),
            absent: Arc::new(Absent::new(absent)),
            work_errors: Arc::default(),
            library: Arc::new(sources.library.clone()),
            openers: sources.openers,
            seed,
            codecs,
        })
    }

    /// Adds the names of the members to an error.
    pub fn error(&self, error: VolumeError) -> PoolError {
        let members = self.members.iter().map(|member| member.device.clone()).collect();
        PoolError { members, unopened: Vec::new(), error }
    }
}

/// Open devices that are to become members, or that a command reads.
#[derive(Default)]
pub struct OpenMembers {
    /// The devices, with their labels and durabilities.
    pub members: Vec<NewMember>,
    /// The devices whose contents end with the process: memory, and simulated devices without a state file.
    pub volatile: Vec<String>,
    state_writers: Vec<Arc<StateWriter>>,
    /// The files that the opening created.
    pub new_files: NewFiles,
}

impl OpenMembers {
    /// Stores the states of the devices that have state files, after the last request.
    ///
    /// # Errors
    /// Returns the reasons, as a sentence for the user.
    pub fn close(&self) -> Result<(), String> {
        close_states(&self.state_writers)
    }
}

/// Returns true if the contents of a device outlive the process: those of memory, of a simulated device without a state
/// file, and of an overlay that keeps its changes in memory do not.
fn outlives_the_process(device: &str, served: &Served) -> bool {
    let argument = Argument::new(device);
    let (bottom, layers) = argument.parts();
    let overlay = layers.first().filter(|layer| layer.word() == "overlay");
    let keeps = overlay.is_some_and(|layer| layer.text().contains("keep="));
    match bottom.word() {
        "memory" => false,
        "file" => overlay.is_none() || keeps,
        // A directory always has an overlay.
        "dir" => keeps,
        _ if bottom.text().contains("://") => overlay.is_none() || keeps,
        _ => served.state_writer.is_some(),
    }
}

/// Returns true if nothing locks the device: other programs can use the export of a server, too. The claim on an export
/// with an `overlay`, `delay` or `rate` layer would not reach the server, or would wait for simulated time.
fn is_shared(served: &Served) -> bool {
    Served::is_export(&served.description) && served.timed.is_none()
}

fn shared_device(served: &Served) -> Shared {
    (served.description.clone(), served.device.clone())
}

/// Closes every writer, even if another one fails.
fn close_states(writers: &[Arc<StateWriter>]) -> Result<(), String> {
    all_errors(writers.iter().map(|writer| writer.close().map_err(|error| error.to_string())))
}

/// Returns all errors as one.
fn all_errors(results: impl IntoIterator<Item = Result<(), String>>) -> Result<(), String> {
    let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// Returns the options to open a volume, with a new random salt.
///
/// # Errors
/// Returns an error if the system has no random numbers.
pub fn open_options(read_only: bool) -> Result<OpenOptions, ServedError> {
    Ok(OpenOptions { read_only, salt: random()?, ..OpenOptions::default() })
}

/// Returns random bytes from the system.
///
/// # Errors
/// Returns an error if the system has none.
pub fn random<const N: usize>() -> Result<[u8; N], ServedError> {
    let mut bytes = [0; N];
    let system =
        |error: getrandom::Error| ServedError::System { path: "random numbers".into(), error: error.into() };
    getrandom::fill(&mut bytes).map_err(system)?;
    Ok(bytes)
}

/// Returns true if `LABEL=PATH` is also the path of a file, or of a new file in a directory whose name contains the
/// equals sign.
fn names_a_file(text: &str) -> bool {
    let path = Path::new(text.split(',').next().unwrap_or(text));
    let is_directory = |parent: &Path| !parent.as_os_str().is_empty() && parent.is_dir();
    path.exists() || path.parent().is_some_and(is_directory)
}

/// Returns the device name of a path. A block device bypasses the page cache.
pub fn file_of(path: &str) -> String {
    let is_block_device = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_block_device());
    if is_block_device { format!("file:{path},direct=yes") } else { format!("file:{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EdgeError, Opener};
    use flashlab_block::{Memory, Pages, TemporaryFolder};
    use flashlab_catalogue::library::Library;

    #[test]
    fn members_are_paths_or_devices_with_labels() {
        let parse = |text| {
            let PoolMember { device, label, .. } = PoolMember::parse(text).expect("no such file");
            (label, device)
        };
        let pair = |label: &str, device: &str| (label.to_owned(), device.to_owned());
        assert_eq!(parse("a.img"), pair("", "file:a.img"));
        assert_eq!(parse("ssd.a=/tmp/a.img"), pair("ssd.a", "file:/tmp/a.img"));
        assert_eq!(parse("/tmp/x=y.img"), pair("", "file:/tmp/x=y.img"));
        assert_eq!(parse("a.img,size=1GiB"), pair("", "file:a.img,size=1GiB"));
        assert_eq!(parse("memory:size=1GiB"), pair("", "memory:size=1GiB"));
        assert_eq!(parse("hdd=memory:size=1GiB"), pair("hdd", "memory:size=1GiB"));
    }

    /// Returns a device in memory in place of the device of a URI.
    fn open_uri(_: &str, _: bool) -> Result<Arc<dyn BlockDevice>, EdgeError> {
        let memory =
            Memory::new(1 << 20, Pages::Small).map_err(|error| EdgeError::Failed(error.to_string()))?;
        Ok(Arc::new(memory))
    }

    #[test]
    fn contents_end_with_the_process_in_memory_and_in_an_overlay_that_is_not_kept() {
        const OPENERS: &[Opener] = &[Opener { schemes: &["nbd"], open: open_uri }];
        let library = Library::built_in().expect("the profiles of the crate");
        let sources = Sources { library: &library, openers: OPENERS, is_simulated: false };
        let folder = TemporaryFolder::new("flashlab-test-").expect("a writable folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (file, changes) = (format!("file:{},size=1MiB", path("a.img")), path("changes.img"));
        let state = format!("sd/kingston:capacity=64MiB,state={}", path("card.state"));
        for (device, is_volatile) in [
            (file.clone(), false),
            (format!("{file}+delay:read=1ms"), false),
            (format!("{file}+overlay"), true),
            (format!("{file}+overlay:keep={changes}"), false),
            ("nbd://host/export".to_owned(), false),
            ("nbd://host/export+delay:read=1ms".to_owned(), false),
            ("nbd://host/export+overlay".to_owned(), true),
            ("memory:size=1MiB".to_owned(), true),
            ("memory:size=1MiB+delay:read=1ms".to_owned(), true),
            ("sd/kingston:capacity=64MiB".to_owned(), true),
            (state, false),
        ] {
            let pool = Pool::new(vec![PoolMember::new(device.clone())]);
            let opened =
                pool.open_members(1, false, sources).unwrap_or_else(|error| panic!("{device}: {error}"));
            assert_eq!(!opened.volatile.is_empty(), is_volatile, "{device}");
            opened.new_files.keep();
        }
    }

    #[test]
    fn an_uri_in_a_list_of_members_is_refused_with_the_way_out() {
        let error = Pool::parse("a.img:nbd+unix:///?socket=b.sock").expect_err("a list of paths").to_string();
        assert!(error.contains("pool.toml, with the lines [[member]] and device = \"nbd+unix:"), "{error}");
    }

    #[test]
    fn a_device_writes_to_its_file_below_layers_and_names() {
        let path = |device| crate::Served::path_of_written_file(device);
        let disk = Some("/dev/sdb".into());
        for device in [
            "file:/dev/sdb",
            "file:/dev/sdb,direct=yes",
            "file:/dev/sdb+stats",
            "x=file:/dev/sdb+error:rate=0.01",
        ] {
            assert_eq!(path(device), disk, "{device}");
        }
        for device in ["memory:size=1GiB", "file:/dev/sdb+overlay", "sd/kingston", "file:"] {
            assert_eq!(path(device), None, "{device}");
        }
    }
}
