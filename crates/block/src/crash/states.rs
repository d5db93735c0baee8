//! The states in which a power loss may leave a set of disks.

use super::Image;
use crate::Payload;
use flashlab_sim::Rng;

/// Largest number of unflushed writes for which every subset is enumerated.
const EXHAUSTIVE_MAX: usize = 12;

/// The bytes of all disks at a point in a run: durable bytes, and writes that a power loss may drop.
#[derive(Clone, Debug)]
pub struct Point {
    pub(super) disks: Vec<DiskPoint>,
}

/// The bytes of one disk at a point in a run.
#[derive(Clone, Debug)]
pub(super) struct DiskPoint {
    pub(super) durable: Image,
    /// Size in bytes of the unit that the medium writes atomically.
    pub(super) sector: u64,
    /// Unflushed writes in the order of their start.
    pub(super) unflushed: Vec<Change>,
}

/// A change of the bytes of a disk.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) offset: u64,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Bytes(Payload),
    Zeroes(u64),
}

impl Change {
    pub(super) fn length(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeroes(length) => *length,
        }
    }

    /// Applies bytes `from` to `to` of the change.
    fn apply_part(&self, image: &mut Image, from: u64, to: u64) {
        match &self.content {
            Content::Bytes(bytes) => image.write(self.offset + from, &bytes[from as usize..to as usize]),
            Content::Zeroes(_) => image.zero(self.offset + from, to - from),
        }
    }

    pub(super) fn apply(&self, image: &mut Image) {
        self.apply_part(image, 0, self.length());
    }
}

/// The part of an unflushed write that reaches the medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// No sector.
    Nothing,
    /// Every sector.
    All,
    /// The sectors whose flag is set.
    Sectors(Vec<bool>),
}

/// A state after a power loss: the fate of each unflushed write. The writes of one disk follow those of the
/// previous disk, each in the order of their start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice(pub Vec<Kept>);

impl Point {
    /// Returns the number of unflushed writes.
    pub fn unflushed(&self) -> usize {
        self.disks.iter().map(|disk| disk.unflushed.len()).sum()
    }

    /// Returns up to `count` states. If there are at most twelve unflushed writes and `count` is large
    /// enough, the first states are all subsets of whole writes. Otherwise, the first state keeps no write,
    /// and the second state keeps all writes. The remaining states are drawn at random, many of them with
    /// torn writes.
    pub fn choices(&self, count: usize, rng: &mut Rng) -> Vec<Choice> {
        let n = self.unflushed();
        let mut choices = Vec::with_capacity(count);
        if n <= EXHAUSTIVE_MAX && 1 << n <= count {
            choices.extend(
                (0..1u32 << n).map(|bits| Choice((0..n).map(|i| whole(bits >> i & 1 == 1)).collect())),
            );
        } else {
            choices.extend([Choice(vec![Kept::Nothing; n]), Choice(vec![Kept::All; n])]);
        }
        if n > 0 {
            choices.extend((choices.len()..count).map(|_| self.draw(n, rng)));
        }
        choices.truncate(count);
        choices
    }

    /// Draws the fates of `n` unflushed writes.
    fn draw(&self, n: usize, rng: &mut Rng) -> Choice {
        let special = rng.below(n as u64) as usize;
        let kind = rng.below(5);
        let sectors: Vec<u64> = self
            .disks
            .iter()
            .flat_map(|disk| disk.unflushed.iter().map(|change| change.length().div_ceil(disk.sector)))
            .collect();
        let mut kept: Vec<Kept> = (0..n)
            .map(|i| match kind {
                // The writes before `special` are complete, and `special` is torn below.
                0 => whole(i < special),
                // One write is torn or missing; the others are complete.
                1 => Kept::All,
                // Only one write reaches the medium, whole or torn.
                2 => Kept::Nothing,
                3 => whole(rng.below(2) == 0),
                _ => match rng.below(3) {
                    0 => Kept::Nothing,
                    1 => Kept::All,
                    _ => torn(sectors[i], rng),
                },
            })
            .collect();
        if kind < 3 {
            kept[special] = match kind {
                1 if rng.below(2) == 0 => Kept::Nothing,
                2 if rng.below(2) == 0 => Kept::All,
                _ => torn(sectors[special], rng),
            };
        }
        Choice(kept)
    }

    /// Returns the image of each disk after a power loss.
    ///
    /// # Panics
    /// Panics if the choice belongs to another point.
    pub fn images(&self, choice: &Choice) -> Vec<Image> {
        assert_eq!(choice.0.len(), self.unflushed(), "the choice belongs to another point");
        let mut kept = choice.0.iter();
        let image = |disk: &DiskPoint| {
            let mut image = disk.durable.clone();
            for (change, kept) in disk.unflushed.iter().zip(&mut kept) {
                match kept {
                    Kept::Nothing => {}
                    Kept::All => change.apply(&mut image),
                    Kept::Sectors(flags) => {
                        for (n, _) in (0..).zip(flags).filter(|(_, flag)| **flag) {
                            let end = ((n + 1) * disk.sector).min(change.length());
                            change.apply_part(&mut image, n * disk.sector, end);
                        }
                    }
                }
            }
            image
        };
        self.disks.iter().map(image).collect()
    }

    /// Simplifies a failing choice as long as `fails` remains true: replaces torn writes by whole ones, and
    /// drops writes.
    pub fn simplify(&self, choice: &Choice, mut fails: impl FnMut(&Choice) -> bool) -> Choice {
        let mut choice = choice.clone();
        loop {
            let mut simpler = None;
            for n in (0..choice.0.len()).rev() {
                let options: &[Kept] = match choice.0[n] {
                    Kept::Nothing => &[],
                    Kept::All => &[Kept::Nothing],
                    Kept::Sectors(_) => &[Kept::Nothing, Kept::All],
                };
                let tried = options.iter().map(|option| {
                    let mut tried = choice.clone();
                    tried.0[n] = option.clone();
                    tried
                });
                simpler = tried.into_iter().find(&mut fails);
                if simpler.is_some() {
                    break;
                }
            }
            match simpler {
                Some(simpler) => choice = simpler,
                None => return choice,
            }
        }
    }
}

fn whole(kept: bool) -> Kept {
    if kept { Kept::All } else { Kept::Nothing }
}

/// Tears a write: a prefix, a suffix, or any set of its sectors.
fn torn(sectors: u64, rng: &mut Rng) -> Kept {
    let at = rng.below(sectors + 1);
    let kind = rng.below(3);
    Kept::Sectors(
        (0..sectors)
            .map(|n| match kind {
                0 => n < at,
                1 => n >= at,
                _ => rng.below(2) == 0,
            })
            .collect(),
    )
}
