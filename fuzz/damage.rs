//! Damage of the members of a volume, as the bytes of an input describe it.

use crate::ram::SECTOR;
use crate::used_volume::{Kind, Used};
use flashlab_volume::format::Superblock;
use flashlab_volume::keys::WrappedKey;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of an input. Missing bytes are zero, so that every input describes some damage.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Input<'_> {
    pub(crate) fn byte(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    fn number(&mut self) -> usize {
        self.byte() | self.byte() << 8
    }
}

/// The rules for the damage of an execution.
pub(crate) struct Rules {
    pub(crate) kind: Kind,
    /// The only member to damage; `None` for any of them.
    pub(crate) only: Option<usize>,
    /// Makes the checksums of damaged structures correct, as somebody does who changes them on purpose.
    pub(crate) forges: bool,
}

/// Damage that was done.
pub(crate) struct Damage {
    pub(crate) members: BTreeSet<usize>,
    pub(crate) has_unreadable_sectors: bool,
    /// True if no bytes were changed.
    pub(crate) is_unreadable_only: bool,
    /// True if all bytes of a member returned to an earlier state.
    pub(crate) is_rolled_back: bool,
}

/// Largest number of damaged places.
const PLACES_MAX: usize = 8;

/// Damages one or more places.
pub(crate) fn damage(used: &Used, rules: &Rules, input: &mut Input<'_>) -> Damage {
    let mut damage = Damage {
        members: BTreeSet::new(),
        has_unreadable_sectors: false,
        is_unreadable_only: true,
        is_rolled_back: false,
    };
    for _ in 0..PLACES_MAX {
        damage_place(used, rules, input, &mut damage);
        if input.0.is_empty() {
            break;
        }
    }
    damage
}

fn damage_place(used: &Used, rules: &Rules, input: &mut Input<'_>, damage: &mut Damage) {
    let what = input.byte();
    let member = rules.only.unwrap_or(what >> 7) % used.members.len();
    let places = used.places(member, rules.kind);
    let place = places[input.number() % places.len()].clone();
    let (at, value) = (place.start + input.number() % place.len(), input.byte());
    // Some damage concerns each copy of the superblock.
    let is_everywhere = rules.kind == Kind::Superblock && value & 1 != 0;
    let places = if is_everywhere { places.to_vec() } else { vec![place.clone()] };
    for other in places {
        let at = at - place.start + other.start;
        let ram = &used.members[member];
        let touched = match what & 7 {
            0 | 1 => at..at + 1,
            2 => at..(at + 16).min(other.end),
            3 => at / SECTOR * SECTOR..(at / SECTOR + 1) * SECTOR,
            _ => other.clone(),
        };
        let before = ram.look(touched.clone(), |bytes, _| bytes.to_vec());
        match what & 7 {
            0 => {}
            1..=3 => ram.change(touched.clone(), |bytes| bytes.fill(value as u8)),
            4 => replay(used, member, &other, value, damage),
            5 => copy(used, rules.kind, member, &other, value, false),
            6 => copy(used, rules.kind, member, &other, value, true),
            _ => {
                ram.spoil(at);
                damage.has_unreadable_sectors = true;
                damage.members.insert(member);
                continue;
            }
        }
        // Every execution damages something.
        if ram.look(touched.clone(), |bytes, _| bytes == before) {
            let at = at.min(touched.end - 1);
            ram.change(at..at + 1, |bytes| bytes[0] ^= (value as u8).max(1));
        }
        if rules.forges
            && let Some(structure) = used.structure(member, &other)
        {
            ram.change(structure, |bytes| forge(used, member, bytes));
        }
        damage.members.insert(member);
        damage.is_unreadable_only = false;
    }
}

/// Returns a place, its sector or its whole member to an earlier state.
fn replay(used: &Used, member: usize, place: &Range<usize>, value: usize, damage: &mut Damage) {
    let older = &used.older[value >> 1 & 1][member];
    let range = match value >> 2 & 3 {
        0 => place.start / SECTOR * SECTOR..(place.start / SECTOR + 1) * SECTOR,
        1 => {
            damage.is_rolled_back = true;
            0..older.len()
        }
        _ => place.clone(),
    };
    used.members[member].change(range.clone(), |bytes| bytes.copy_from_slice(&older[range]));
}

/// Copies another place of the kind to this one, or exchanges them. The other place may be on another member, if this
/// does not damage it.
fn copy(used: &Used, kind: Kind, member: usize, place: &Range<usize>, value: usize, exchanges: bool) {
    let from = if exchanges { member } else { (member + (value & 1)) % used.members.len() };
    let others = used.places(from, kind);
    let other = &others[(value >> 1) % others.len()];
    let length = place.len().min(other.len());
    let (place, other) = (place.start..place.start + length, other.start..other.start + length);
    let here = used.members[member].look(place.clone(), |bytes, _| bytes.to_vec());
    let there = used.members[from].look(other.clone(), |bytes, _| bytes.to_vec());
    used.members[member].change(place, |bytes| bytes.copy_from_slice(&there));
    if exchanges {
        used.members[member].change(other, |bytes| bytes.copy_from_slice(&here));
    }
}

/// Computes the checksum of a structure anew.
fn forge(used: &Used, member: usize, bytes: &mut [u8]) {
    let sum = crc32c::crc32c(&bytes[12..]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    // A key derivation with other costs may take many seconds.
    let original = &used.superblocks[member];
    let kdf = |superblock: &Superblock| superblock.key.as_ref().map(WrappedKey::kdf);
    if let Ok(forged) = Superblock::decode(bytes)
        && kdf(&forged) != kdf(original)
    {
        let (key, key_changes) = (original.key.clone(), forged.key_changes ^ 1);
        bytes.copy_from_slice(&Superblock { key, key_changes, ..forged }.encode());
    }
}
