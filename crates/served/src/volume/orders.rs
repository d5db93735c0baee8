//! Commands to an open volume: changes of its options and members, and a scrub while clients use the volume.
//!
//! A command ends quickly. The long work that it starts (moves of data, a scrub) belongs to the background work of the
//! volume, which yields to the requests of clients.

use super::removal::note_on_removed;
use super::scrubs::read_rate;
use super::settings::{member_number, read_setting, ways_to_room};
use super::{OpenPool, Pool, PoolMember, find_data, random};
use crate::{Caller, NewFiles, Served, StateWriter};
use flashlab_block::{BlockDevice, Context};
use flashlab_sim::Instant;
use flashlab_volume::keys::{Kdf, Passphrase};
use flashlab_volume::{Change, Growth, MemberState, NewMember, VolumeError};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Time between two polls of a command.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// First words of the commands. A volume that is served read-only rejects all of them.
const CHANGES: [&str; 8] = ["set", "add", "online", "remove", "evacuate", "state", "rekey", "scrub"];

/// Message that rejects a command that needs background work, after that work has ended.
pub(super) const WORK_IS_OVER: &str =
    "the volume has failed, or the server is shutting down; open the volume again";

/// Executes a command. Returns `None` if the volume has no such command.
pub(super) fn execute(
    pool: &OpenPool,
    words: &[&str],
    caller: &Caller<'_>,
) -> Option<Result<String, String>> {
    let (verb, rest) = words.split_first()?;
    let advance = caller.advance;
    if !CHANGES.contains(verb) {
        return None;
    }
    if pool.volume.features().read_only {
        return Some(Err("the volume is served read-only".to_owned()));
    }
    Some(match (*verb, rest) {
        ("scrub", ["status"]) => Ok(pool.scrubs.describe()),
        ("scrub", words) => scrub(pool, words),
        ("set", settings) => set(pool, settings, advance),
        ("add", words) => NewPoolMember::parse(words).and_then(|new| add(pool, &new, caller)),
        ("online", [device]) => online(pool, device, advance),
        ("online", _) => Err("use `online DEVICE`; for example: online b.img".to_owned()),
        ("remove", ["status"]) => Ok(pool.removals.describe(&pool.volume)),
        ("remove", [member]) => remove(pool, member, advance),
        ("evacuate", [member]) => member_number(&pool.volume, member)
            .and_then(|number| set_state(pool, number, MemberState::Evacuating, advance)),
        ("state", [change]) => state(pool, change, advance),
        ("rekey", [file]) => rekey(pool, file, advance),
        ("rekey", _) => {
            Err("the file with the new passphrase is missing; for example: rekey new-secret".to_owned())
        }
        ("state", _) => Err("use `state MEMBER=STATE`; for example: state ssd.a=ro".to_owned()),
        (verb, _) => Err(format!("use `{verb} MEMBER`; for example: {verb} ssd.a")),
    })
}

/// Returns the message of a change that failed, with the way out in the words of these commands.
pub(super) fn change_failed(error: &VolumeError) -> String {
    format!("{error}{}", ways_to_room(error, &|key, value| format!("`set {key}={value}`")))
}

/// Changes options: `KEY=VALUE` with the names and values of `flashlab volume set`.
fn set(pool: &OpenPool, settings: &[&str], advance: &dyn Fn()) -> Result<String, String> {
    let (volume, mut change) = (&pool.volume, Change::default());
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            format!("{setting:?}: KEY=VALUE is needed; for example: set replicas=2 compression=lz4")
        })?;
        read_setting(volume, &mut change, key, value)?;
    }
    if change == Change::default() {
        return Err("nothing to change; for example: set replicas=2 compression=lz4".to_owned());
    }
    let before = volume.geometry().capacity;
    wait_beside(volume.set(&Context::new(Instant::ZERO), &change), advance)
        .map_err(|error| change_failed(&error))?;
    let rest = match volume.backlog().current_bytes() {
        0 => String::new(),
        bytes => format!("; {bytes} bytes of background work begin; `stats` shows how much remains"),
    };
    Ok(format!("changed{rest}{}\n", new_size(pool, before)))
}

/// Returns a message if the volume has another size than before, and an empty string otherwise.
fn new_size(pool: &OpenPool, before: u64) -> String {
    let size = pool.volume.geometry().capacity;
    let beyond = if size < before { "; until then, their requests beyond this size fail" } else { "" };
    match size == before {
        true => String::new(),
        false => format!("; the volume has {size} bytes, which clients see when they connect again{beyond}"),
    }
}

/// The words of `add`, with the meaning of the options of `flashlab volume add`.
struct NewPoolMember {
    named: PoolMember,
    force: bool,
    growth: Growth,
}

impl NewPoolMember {
    /// Parses `[--force] [--keep-size] [--durability N] MEMBER`, in any order.
    fn parse(words: &[&str]) -> Result<NewPoolMember, String> {
        let (mut force, mut growth, mut durability, mut member) = (false, Growth::All, 1, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--force" => force = true,
                "--keep-size" => growth = Growth::None,
                "--durability" => {
                    let n = words.next().and_then(|n| n.parse().ok()).filter(|n| *n <= 4);
                    durability = n.ok_or("--durability must be 0 to 4")?;
                }
                word if member.is_none() && !word.starts_with("--") => member = Some(word),
                other => {
                    return Err(format!(
                        "{other:?} is not expected here; use: add [--force] [--keep-size] [--durability N] MEMBER"
                    ));
                }
            }
        }
        let member = member.ok_or("the member is missing; for example: add ssd.c=file:c.img,size=1GiB")?;
        Ok(NewPoolMember { named: PoolMember { durability, ..PoolMember::parse(member)? }, force, growth })
    }
}

/// Adds a device as a new member.
fn add(pool: &OpenPool, new: &NewPoolMember, caller: &Caller<'_>) -> Result<String, String> {
    let NewPoolMember { named, force, growth } = new;
    if named.device.starts_with("volume:") {
        return Err(format!("{}: a volume cannot be a member of a volume", named.device));
    }
    // Even --force does not overwrite a device in use.
    if let Some(found) = (caller.find_use)(&named.device) {
        return Err(found);
    }
    let new_files = NewFiles::default();
    let served = Served::open_for(&named.device, pool.seed, false, (pool.sources(), true, &new_files));
    let served = served.map_err(|error| error.to_string())?;
    let found = find_data(&*served.device).map_err(|error| format!("{}: {error}", named.device))?;
    if let Some(found) = found.filter(|_| !*force) {
        return Err(format!(
            "{}: it holds {found}; --force adds it, and its contents are lost",
            named.device
        ));
    }
    let device = pool.claimed(&served)?;
    let new = NewMember {
        label: named.label.clone(),
        durability: named.durability,
        ..NewMember::new(device.clone())
    };
    let id = random().map_err(|error| error.to_string())?;
    let (cx, before) = (Context::new(Instant::ZERO), pool.volume.geometry().capacity);
    let advance = || {
        (caller.advance)();
        if let Some(due) = device.next_due() {
            device.advance(due);
        }
    };
    // The state of the device has to be stored even if the change fails after the member was added.
    let writers = || pool.state_writers.lock().unwrap_or_else(PoisonError::into_inner);
    writers().extend(served.state_writer.clone());
    new_files.survive_signals();
    let added = wait_beside(pool.volume.add(&cx, &new, id, *growth), &advance);
    if added.as_ref().err().is_none_or(VolumeError::may_be_in_effect) {
        new_files.keep();
    } else if !new_files.is_empty() {
        let is_new = |writer: &Arc<StateWriter>| {
            served.state_writer.as_ref().is_some_and(|new| Arc::ptr_eq(new, writer))
        };
        writers().retain(|writer| !is_new(writer));
    }
    let number = added.map_err(|error| match error {
        VolumeError::Option(_) | VolumeError::NoMember(_) | VolumeError::NoRoom { .. } => {
            change_failed(&error)
        }
        error => Pool::new(vec![named.clone()]).error(error).to_string(),
    })?;
    Ok(format!(
        "{} is now member {number}; add it to the list of devices when the volume is opened again{}\n",
        named.device,
        new_size(pool, before)
    ))
}

/// Takes back a member whose missing or failed device has returned.
fn online(pool: &OpenPool, device: &str, advance: &dyn Fn()) -> Result<String, String> {
    let (named, new_files) = (PoolMember::parse(device)?, NewFiles::default());
    if named.device.starts_with("volume:") {
        return Err(format!("{}: a volume cannot be a member of a volume", named.device));
    }
    let served = Served::open_for(&named.device, pool.seed, false, (pool.sources(), true, &new_files));
    let served = served.map_err(|error| error.to_string())?;
    let (device, state_writer) = (pool.claimed(&served)?, served.state_writer);
    let advance = || {
        advance();
        if let Some(due) = device.next_due() {
            device.advance(due);
        }
    };
    new_files.survive_signals();
    let back = wait_beside(pool.volume.rejoin(&Context::new(Instant::ZERO), device.clone()), &advance);
    if back.as_ref().err().is_none_or(VolumeError::may_be_in_effect) {
        new_files.keep();
        pool.state_writers.lock().unwrap_or_else(PoisonError::into_inner).extend(state_writer);
    }
    let number = back.map_err(|error| match error {
        VolumeError::NoMember(why) => format!("{}: {why}", named.device),
        error => Pool::new(vec![named.clone()]).error(error).to_string(),
    })?;
    let rest = match pool.volume.usage().members[usize::from(number)].state {
        MemberState::Ro => format!("; it is read-only, and `state {number}=rw` lets it take new data"),
        _ => String::new(),
    };
    pool.absent.forget(&named.device);
    Ok(format!("member {number} is online; background work brings it up to date{rest}\n"))
}

/// Makes the background work move the data of a member to others, and then remove the member.
fn remove(pool: &OpenPool, member: &str, advance: &dyn Fn()) -> Result<String, String> {
    let volume = &pool.volume;
    let number = member_number(volume, member)?;
    let before = volume.usage().members[usize::from(number)].clone();
    volume.check_removal(number).map_err(|error| change_failed(&error))?;
    pool.removals.reserve()?;
    if before.present {
        let cx = Context::new(Instant::ZERO);
        let change = volume.set_member_state(&cx, number, MemberState::Evacuating);
        if let Err(error) = wait_beside(change, advance) {
            pool.removals.release();
            return Err(error.to_string());
        }
    }
    pool.removals.want(number, before.present.then_some(before.state));
    Ok(format!(
        "the data of member {number} moves to other members, and then the member is removed; `remove status` shows \
         the progress\n"
    ))
}

/// Requests a scrub: `scrub` or `scrub rate=SIZE`.
fn scrub(pool: &OpenPool, words: &[&str]) -> Result<String, String> {
    let rate = match words {
        [] => None,
        words => Some(read_rate(&words.join(" "))?),
    };
    pool.scrubs.want(rate)?;
    Ok("the scrub begins once no other background work is left; `scrub status` shows its progress and its result\n"
        .to_owned())
}

fn state(pool: &OpenPool, change: &str, advance: &dyn Fn()) -> Result<String, String> {
    let mut read = Change::default();
    read_setting(&pool.volume, &mut read, "state", change)?;
    let (number, state) = read.states[0];
    set_state(pool, number, state, advance)
}

fn set_state(pool: &OpenPool, number: u8, state: MemberState, advance: &dyn Fn()) -> Result<String, String> {
    let cx = Context::new(Instant::ZERO);
    let done = wait_beside(pool.volume.set_member_state(&cx, number, state), advance);
    done.map_err(|error| error.to_string())?;
    let rest = match state {
        MemberState::Evacuating => {
            "; its data moves to other members in the background; `stats` shows how much remains"
        }
        _ => "",
    };
    Ok(format!("member {number} is {}{rest}\n", state.name()))
}

/// Changes the passphrase to the passphrase in a file.
fn rekey(pool: &OpenPool, file: &str, advance: &dyn Fn()) -> Result<String, String> {
    let passphrase = Passphrase::from_file(Path::new(file)).map_err(|error| error.to_string())?;
    let salt = random().map_err(|error| error.to_string())?;
    let cx = Context::new(Instant::ZERO);
    let done = wait_beside(pool.volume.rekey(&cx, &passphrase, Kdf::ARGON2ID, salt), advance);
    done.map_err(|error| failed_rekey(&error))?;
    Ok(format!("the volume has a new passphrase{}\n", note_on_removed(&pool.volume)))
}

/// Returns the message of a change of the passphrase that failed. If a member fails, other members may have
/// the new passphrase already; other errors occur before the first change.
pub fn failed_rekey(error: &VolumeError) -> String {
    match error {
        VolumeError::Member { .. } => {
            format!("{error}; both passphrases may open the volume until rekey succeeds")
        }
        VolumeError::Missing { .. } => {
            "a member is missing, and the old passphrase would still open it; open the volume \
                                        with all members, or remove the missing one first"
                .to_owned()
        }
        error => error.to_string(),
    }
}

/// Waits for a future while other threads use the same devices.
fn wait_beside<T>(future: impl Future<Output = T>, advance: &dyn Fn()) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
            return value;
        }
        advance();
        thread::sleep(POLL_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::super::open_options;
    use super::*;
    use crate::wait::wait;
    use flashlab_catalogue::library::Library;
    use std::cell::RefCell;

    /// Returns a volume of one member in memory.
    fn pool() -> OpenPool {
        let library = Library::open::<&Path>(&[]).expect("the built-in profiles are valid");
        let pool = Pool::new(vec![PoolMember::new("memory:size=64MiB".into())]);
        let members = pool.open_members(1, false, &library).expect("memory opens").members;
        let devices = vec![members[0].device.clone()];
        let (cx, options) = (Context::new(Instant::ZERO), flashlab_volume::Options::new([7; 16]));
        wait(flashlab_volume::Volume::format(&cx, &members, &options), &devices).expect("it is formatted");
        let volume = wait(
            flashlab_volume::Volume::open(&cx, &devices, open_options(false).expect("random numbers")),
            &devices,
        );
        OpenPool {
            volume: volume.expect("it opens"),
            claims: Default::default(),
            wear: Default::default(),
            state_writers: Default::default(),
            scrubs: Default::default(),
            removals: Default::default(),
            reconciling: Default::default(),
            absent: Default::default(),
            work_errors: Default::default(),
            library: library.into(),
            openers: &[],
            seed: 1,
            codecs: None,
        }
    }

    #[test]
    fn a_new_member_in_use_is_refused_wherever_the_options_stand() {
        let pool = pool();
        for line in [
            "add memory:size=48MiB --force",
            "add --force memory:size=48MiB",
            "add ssd.b=memory:size=48MiB --force --durability 2",
            "add --durability 2 --force ssd.b=memory:size=48MiB",
            "add --keep-size memory:size=48MiB --durability 0",
        ] {
            let asked = RefCell::new(Vec::new());
            let find_use = |device: &str| {
                asked.borrow_mut().push(device.to_owned());
                Some(format!("{device}: mounted at /"))
            };
            let words: Vec<&str> = line.split(' ').collect();
            let answer = execute(&pool, &words, &Caller { advance: &|| (), find_use: &find_use });
            assert_eq!(answer, Some(Err("memory:size=48MiB: mounted at /".to_owned())), "{line}");
            assert_eq!(asked.into_inner(), ["memory:size=48MiB"], "{line}");
            assert_eq!(pool.volume.usage().members.len(), 1, "{line}");
        }
        let words = ["add", "memory:size=48MiB", "--force", "--durability", "2"];
        let added = execute(&pool, &words, &Caller { advance: &|| (), find_use: &|_| None });
        assert!(added.as_ref().is_some_and(Result::is_ok), "{added:?}");
        assert_eq!(pool.volume.usage().members[1].durability, 2);
    }
}
