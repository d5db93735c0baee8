//! Fuzzes the reads of a damaged volume: each block is an error, or has the contents of the one instant that the
//! undamaged structures show.
//!
//! The damage consists of changed, lost, moved and older bytes and of unreadable sectors, in superblocks, journal,
//! checkpoint, records of the map or data. The checksums stay as they are, except that those of an encrypted volume may
//! be correct, because its tags find the damage, too. The environment variable `FLASHLAB_DAMAGE` (`superblock`,
//! `journal`, `checkpoint`, `map` or `data`) restricts the damage to one kind of structure. Every input damages
//! something, so each execution counts.
//!
//! Damage at the end of the journal cannot be told from entries that were never written. The contents must therefore be
//! those after the last sound entry of any journal that counts, or those of the checkpoint. With two members, damage of
//! one member must have no effect on the contents.
#![no_main]

#[path = "../damage.rs"]
mod damage;
#[path = "../ram.rs"]
mod ram;
#[path = "../used_volume.rs"]
mod used_volume;

use damage::{Damage, Input, Rules};
use flashlab_block::{Answer, BlockDevice, Context, Io};
use flashlab_volume::format::{SUPERBLOCK_SIZE, Superblock, copy_offsets};
use flashlab_volume::{Degraded, OpenOptions, Volume};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use used_volume::{BLOCK, Kind, RING, SIZE, Used, execute, run};

static VOLUMES: LazyLock<Vec<Used>> = LazyLock::new(Used::all);

/// The kind of structure that `FLASHLAB_DAMAGE` names.
static ONLY: LazyLock<Option<Kind>> = LazyLock::new(|| {
    let name = std::env::var("FLASHLAB_DAMAGE").ok()?;
    let kind = Kind::ALL.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(&name));
    Some(kind.unwrap_or_else(|| panic!("FLASHLAB_DAMAGE={name}: no kind of structure")))
});

/// The superblock of a member as an opening of the volume sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// At least one newest copy is sound.
    Newest,
    /// The newest sound copy is an older one, or belongs to another member. It has the number of the last entry
    /// in the checkpoint.
    Older(u64),
    /// No copy is sound.
    None,
    /// The newest copy was not written by a holder of the key.
    Forged,
}

/// Returns the standing of a member.
fn standing(used: &Used, member: usize) -> Standing {
    let ram = &used.members[member];
    let copies = copy_offsets(ram.geometry().capacity).map(|at| at as usize..at as usize + SUPERBLOCK_SIZE);
    if copies.iter().all(|copy| ram.is_sound(copy.clone())) {
        return Standing::Newest;
    }
    let decode = |bytes: &[u8], can_read: bool| can_read.then(|| Superblock::decode(bytes).ok()).flatten();
    let copies = copies.into_iter().filter_map(|copy| ram.look(copy, decode));
    match copies.max_by_key(|copy| copy.sequence) {
        None => Standing::None,
        Some(best) if used.keyring.as_ref().is_some_and(|keyring| !best.is_authentic(keyring)) => {
            Standing::Forged
        }
        Some(best) if best == used.superblocks[member] => Standing::Newest,
        Some(best) => Standing::Older(best.root.sequence),
    }
}

/// The contents that a damaged volume may have.
struct Expected {
    /// Number of the last entry that is visible. There are several possibilities if no member has a newest superblock.
    entries: Vec<u64>,
    /// True if the volume must open.
    opens: bool,
    /// True if no read may fail.
    is_whole: bool,
}

/// Returns the possible numbers of the last visible entry.
///
/// The volume does not open if an unreadable sector hides the entry after the last one. An entry that is damaged in another
/// way looks as if it was never written, and so do all unreadable ones behind it.
fn visible_entries(used: &Used, damage: &Damage, standings: &[(usize, Standing)]) -> Vec<u64> {
    let last = |n: usize| match (used.members[n].is_sound(RING), damage.is_unreadable_only) {
        (true, _) => used.last_entries[n],
        (false, true) => used.last_entry(n).unwrap_or(0),
        (false, false) => used.last_readable_entry(n).unwrap_or(0),
    };
    let shown = |(n, standing): &(usize, Standing)| match standing {
        Standing::Newest => Some(last(*n).max(used.superblocks[*n].root.sequence)),
        Standing::Older(checkpoint) => Some(last(*n).max(*checkpoint)),
        Standing::None | Standing::Forged => None,
    };
    // A member with an older superblock may be left out.
    let newest =
        standings.iter().filter(|(_, standing)| *standing == Standing::Newest).filter_map(shown).max();
    newest.map_or_else(|| standings.iter().filter_map(shown).collect(), |entry| vec![entry])
}

fn expect(used: &Used, rules: &Rules, damage: &Damage, present: &[usize], degraded: Degraded) -> Expected {
    let standings: Vec<(usize, Standing)> = present.iter().map(|n| (*n, standing(used, *n))).collect();
    let entries = visible_entries(used, damage, &standings);
    let is = |standing: Standing| standings.iter().any(|(_, other)| *other == standing);
    let is_older = standings.iter().any(|(_, standing)| matches!(standing, Standing::Older(_)));
    let all_newest = !is(Standing::None) && !is(Standing::Forged) && !is_older;
    let is_complete = present.len() == used.members.len();
    let has_mode = is_complete && all_newest || degraded != Degraded::Refuse;
    let sound_members = present.iter().filter(|n| !damage.members.contains(n)).count();
    if sound_members > 0 {
        // The superblock of the damaged member may have become that of the sound one.
        let is_other = is(Standing::Forged) || is_older && rules.kind == Kind::Superblock;
        return Expected { entries, opens: has_mode && !is_other, is_whole: true };
    }
    let opens = match rules.kind {
        Kind::Superblock => all_newest,
        Kind::Data => !damage.is_rolled_back,
        Kind::Journal => used.is_closed && !damage.has_unreadable_sectors && !damage.is_rolled_back,
        Kind::Checkpoint | Kind::Map => false,
    };
    let has_damaged_data = rules.kind == Kind::Data || damage.is_rolled_back;
    Expected { entries, opens: opens && has_mode, is_whole: opens && !has_damaged_data }
}

/// Reads all of a volume. Returns `None` in place of each block that cannot be read.
async fn read(volume: &Volume, cx: &Context) -> Vec<Option<Vec<u8>>> {
    let whole = Io::Read { offset: 0, buffer: vec![0; SIZE] };
    if let Ok(Answer::Read(bytes)) = execute(volume, cx, whole).await {
        return bytes.chunks(BLOCK).map(|block| Some(block.to_vec())).collect();
    }
    let mut blocks = Vec::new();
    for offset in (0..SIZE as u64).step_by(BLOCK) {
        let read = execute(volume, cx, Io::Read { offset, buffer: vec![0; BLOCK] }).await;
        blocks.push(if let Ok(Answer::Read(block)) = read { Some(block) } else { None });
    }
    blocks
}

/// Returns true if each readable block agrees with `state`.
fn agrees(blocks: &[Option<Vec<u8>>], state: &[u8]) -> bool {
    let mut pairs = blocks.iter().zip(state.chunks(BLOCK));
    pairs.all(|(block, expected)| block.as_ref().is_none_or(|block| block == expected))
}

/// Opens a volume. An error has a text.
async fn open(
    cx: &Context,
    devices: &[Arc<dyn BlockDevice>],
    options: OpenOptions,
) -> Result<Volume, String> {
    Volume::open(cx, devices, options).await.map_err(|error| {
        let text = error.to_string();
        assert!(!text.is_empty());
        text
    })
}

/// Changes a volume that opened. The blocks that could be read keep their contents, and those that could not are
/// errors or have the contents of one of the states.
async fn change(
    (cx, volume): (&Context, Volume),
    (devices, options): (&[Arc<dyn BlockDevice>], OpenOptions),
    mut before: Vec<Option<Vec<u8>>>,
    mut states: Vec<Vec<u8>>,
    what: usize,
) {
    states.retain(|state| agrees(&before, state));
    for n in 0..4u64 {
        let (first, length) = ((what as u64 * 5 + n * 11) % 28, 1 + n);
        let data = vec![n as u8 + 1; length as usize * BLOCK];
        let write = Io::Write { offset: first * BLOCK as u64, data: data.clone().into(), durable: n == 2 };
        if execute(&volume, cx, write).await.is_err() {
            return;
        }
        let range = first as usize..(first + length) as usize;
        before[range.clone()].fill(Some(vec![n as u8 + 1; BLOCK]));
        for state in &mut states {
            state[range.start * BLOCK..range.end * BLOCK].copy_from_slice(&data);
        }
    }
    if execute(&volume, cx, Io::Flush).await.is_err() {
        return;
    }
    match what & 3 {
        0 => drop(volume.scrub(cx).await),
        1 => drop(volume.reconcile(cx, 0, |_| true).await),
        2 => drop(volume.check(cx).await),
        _ => drop(volume.close(cx).await),
    }
    let again = |blocks: Vec<Option<Vec<u8>>>| {
        assert!(states.iter().any(|state| agrees(&blocks, state)), "wrong data after a change");
        let kept = before.iter().zip(&blocks).all(|(before, now)| before.is_none() || before == now);
        assert!(kept, "a block cannot be read any more");
    };
    again(read(&volume, cx).await);
    drop(volume);
    let options = OpenOptions { salt: [10; 16], ..options };
    let volume = open(cx, devices, options).await.expect("the volume opened before");
    again(read(&volume, cx).await);
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (scenario, mode, kind) = (input.byte(), input.byte(), input.byte());
    let used = &VOLUMES[scenario % VOLUMES.len()];
    used.members.iter().for_each(ram::Ram::restore);
    let rules = Rules {
        kind: ONLY.unwrap_or(Kind::ALL[kind % Kind::ALL.len()]),
        only: (scenario & 8 != 0).then_some(scenario >> 4 & 1),
        forges: scenario & 0x20 != 0 && used.keyring.is_some(),
    };
    let damage = damage::damage(used, &rules, &mut input);
    let degraded = [Degraded::Yes, Degraded::Very, Degraded::Refuse, Degraded::Very][mode & 3];
    let mut devices = used.devices();
    let mut present: Vec<usize> = (0..devices.len()).collect();
    // Sometimes a member is missing.
    if mode & 0x1c == 4 && present.len() == 2 {
        let missing = mode >> 5 & 1;
        devices.remove(missing);
        present.remove(missing);
    }
    let expected = expect(used, &rules, &damage, &present, degraded);
    // Some executions also change the volume.
    let (is_changed, what) = (mode & 0xc0 == 0x40, bytes.len() + mode);
    let options = OpenOptions { degraded, ..used.options([9; 16], !is_changed) };
    let states = expected.entries.iter().flat_map(|entry| used.history.after(*entry));
    let states: Vec<Vec<u8>> = states.map(<[u8]>::to_vec).collect();
    run(move |cx| async move {
        let volume = match open(&cx, &devices, options.clone()).await {
            Ok(volume) => volume,
            Err(error) => {
                assert!(!expected.opens, "the volume does not open: {error}");
                return;
            }
        };
        let blocks = read(&volume, &cx).await;
        assert!(states.iter().any(|state| agrees(&blocks, state)), "wrong data");
        assert!(!expected.is_whole || blocks.iter().all(Option::is_some), "a block cannot be read");
        if is_changed {
            change((&cx, volume), (&devices, options), blocks, states, what).await;
        }
    });
});
