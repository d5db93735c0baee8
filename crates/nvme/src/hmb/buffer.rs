//! The controller's side of the host memory buffer: validation of grants, and the record of the memory that
//! the host has granted or withdrawn.

use super::{Descriptor, PAGE, SetFeatures};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Host memory that a controller requests: HMPRE, HMMIN and HMMINDS in units of 4 KiB, and HMMAXD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Preferred size; 0 if the controller uses no host memory.
    pub preferred: u32,
    /// Minimum size.
    pub minimum: u32,
    /// Minimum size of a usable descriptor; 0 for no limit. Smaller descriptors are ignored.
    pub descriptor_minimum: u32,
    /// Maximum number of descriptors; 0 for no limit.
    pub descriptors_max: u16,
}

/// Granted memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct LentMemory {
    size: u32,
    list: u64,
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum State {
    /// No memory is granted.
    Off,
    On(LentMemory),
    /// The host has withdrawn the memory. Its contents are valid again if exactly this memory is returned.
    Withdrawn(LentMemory),
}

/// The controller's view of the buffer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Buffer {
    limits: Limits,
    state: State,
}

/// Effect of a Set Features command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The controller may use this many bytes. Their contents are undefined.
    Lent(u64),
    /// The controller may use this many bytes. They have their earlier contents.
    Returned(u64),
    /// The memory must no longer be accessed.
    Withdrawn,
    /// The buffer was already disabled.
    Unchanged,
}

impl Buffer {
    /// Returns a buffer without memory.
    pub fn new(limits: Limits) -> Self {
        Buffer { limits, state: State::Off }
    }

    /// Returns the number of usable bytes: the sum of the descriptors that reach the minimum size of a
    /// descriptor, but at most the preferred size.
    pub fn usable(&self) -> u64 {
        match &self.state {
            State::On(lent) => self.bytes(lent),
            State::Off | State::Withdrawn(_) => 0,
        }
    }

    fn bytes(&self, lent: &LentMemory) -> u64 {
        let usable = lent.descriptors.iter().filter(|d| d.size >= self.limits.descriptor_minimum);
        let pages: u64 = usable.map(|d| u64::from(d.size)).sum();
        pages.min(self.limits.preferred.into()) * PAGE
    }

    /// Executes Set Features 0Dh. `list` is the content of host memory at the list's address.
    ///
    /// # Errors
    /// Returns the reason if the controller aborts the command. An aborted command has no effect.
    pub fn set(&mut self, command: &SetFeatures, list: &[Descriptor]) -> Result<Effect, HmbError> {
        if !command.enable {
            return Ok(self.withdraw());
        }
        if let State::On(lent) = &self.state {
            return Err(HmbError::AlreadyEnabled { size: lent.size });
        }
        let entries = command.entries as usize;
        let Some(list) = list.get(..entries) else {
            return Err(HmbError::ListTooShort { entries: command.entries, present: list.len() });
        };
        let lent = LentMemory { size: command.size, list: command.list, descriptors: list.to_vec() };
        self.check_lent(&lent)?;
        let effect = match (&self.state, command.memory_return) {
            (State::Withdrawn(before), true) => {
                check_unchanged(before, &lent)?;
                Effect::Returned(self.bytes(&lent))
            }
            (_, true) => return Err(HmbError::NothingToReturn),
            (_, false) => Effect::Lent(self.bytes(&lent)),
        };
        self.state = State::On(lent);
        Ok(effect)
    }

    /// Returns true if the buffer has these limits and its grant is valid.
    pub fn is_valid(&self, limits: &Limits) -> bool {
        let lent = match &self.state {
            State::Off => return self.limits == *limits,
            State::On(lent) | State::Withdrawn(lent) => lent,
        };
        self.limits == *limits && self.check_lent(lent).is_ok()
    }

    /// Forgets the memory after a power cut.
    pub fn reset(&mut self) {
        self.state = State::Off;
    }

    fn withdraw(&mut self) -> Effect {
        match core::mem::replace(&mut self.state, State::Off) {
            State::On(lent) => {
                self.state = State::Withdrawn(lent);
                Effect::Withdrawn
            }
            other => {
                self.state = other;
                Effect::Unchanged
            }
        }
    }

    fn check_lent(&self, lent: &LentMemory) -> Result<(), HmbError> {
        let Limits { preferred, minimum, descriptors_max, .. } = self.limits;
        if preferred == 0 {
            return Err(HmbError::NotUsed);
        }
        if lent.size < minimum {
            return Err(HmbError::BelowMinimum { size: lent.size, minimum });
        }
        let count = lent.descriptors.len();
        if descriptors_max > 0 && count > usize::from(descriptors_max) {
            return Err(HmbError::TooManyEntries { entries: count, max: descriptors_max });
        }
        let mut sum = 0;
        let mut ranges: Vec<(u64, u64, usize)> = Vec::with_capacity(count);
        for (index, descriptor) in lent.descriptors.iter().enumerate() {
            if descriptor.size == 0 {
                return Err(HmbError::EmptyEntry { index });
            }
            if !descriptor.address.is_multiple_of(PAGE) {
                return Err(HmbError::Misaligned { index, address: descriptor.address });
            }
            let Some(end) = descriptor.address.checked_add(descriptor.bytes()) else {
                return Err(HmbError::BeyondMemory { index, address: descriptor.address });
            };
            sum += u64::from(descriptor.size);
            ranges.push((descriptor.address, end, index));
        }
        if sum != u64::from(lent.size) {
            return Err(HmbError::SumDiffers { size: lent.size, sum });
        }
        ranges.sort_unstable();
        let overlapping = ranges.windows(2).find(|pair| pair[1].0 < pair[0].1);
        if let Some([(_, _, first), (_, _, second)]) = overlapping {
            return Err(HmbError::Overlap { first: *first, second: *second });
        }
        Ok(())
    }
}

fn check_unchanged(before: &LentMemory, now: &LentMemory) -> Result<(), HmbError> {
    let differ = |property, before, now| Err(HmbError::ReturnDiffers { property, before, now });
    if before.size != now.size {
        return differ("the size (CDW12, in 4 KiB)", before.size.into(), now.size.into());
    }
    if before.list != now.list {
        return differ("the list's address (CDW13 and 14)", before.list, now.list);
    }
    if before.descriptors.len() != now.descriptors.len() {
        let count = |lent: &LentMemory| lent.descriptors.len() as u64;
        return differ("the number of entries (CDW15)", count(before), count(now));
    }
    let pairs = before.descriptors.iter().zip(&now.descriptors);
    match pairs.into_iter().find(|(a, b)| a != b) {
        Some((a, b)) if a.address != b.address => differ("an entry's address", a.address, b.address),
        Some((a, b)) => differ("an entry's size (in 4 KiB)", a.size.into(), b.size.into()),
        None => Ok(()),
    }
}

/// Reason why the controller aborts the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HmbError {
    /// HMPRE is 0: the controller uses no host memory.
    NotUsed,
    /// The buffer is already enabled and must be disabled first.
    AlreadyEnabled {
        /// Current grant in units of 4 KiB.
        size: u32,
    },
    /// The grant is below HMMIN.
    BelowMinimum {
        /// HSIZE.
        size: u32,
        /// HMMIN.
        minimum: u32,
    },
    /// The list has more descriptors than HMMAXD.
    TooManyEntries {
        /// HMDLEC.
        entries: usize,
        /// HMMAXD.
        max: u16,
    },
    /// The list in memory is shorter than HMDLEC.
    ListTooShort {
        /// HMDLEC.
        entries: u32,
        /// Number of entries in memory.
        present: usize,
    },
    /// A descriptor is empty.
    EmptyEntry {
        /// Index in the list.
        index: usize,
    },
    /// The address of a descriptor is not a multiple of the page size.
    Misaligned {
        /// Index in the list.
        index: usize,
        /// Address.
        address: u64,
    },
    /// The end of a descriptor exceeds 64 bits.
    BeyondMemory {
        /// Index in the list.
        index: usize,
        /// Address.
        address: u64,
    },
    /// The sizes of the descriptors do not sum to HSIZE.
    SumDiffers {
        /// HSIZE.
        size: u32,
        /// Sum of the sizes.
        sum: u64,
    },
    /// Two descriptors overlap.
    Overlap {
        /// Index of the descriptor with the lower address.
        first: usize,
        /// Index of the descriptor with the higher address.
        second: usize,
    },
    /// MR is set, but no memory was withdrawn.
    NothingToReturn,
    /// MR is set, but the returned memory differs from the withdrawn memory.
    ReturnDiffers {
        /// Property that differs.
        property: &'static str,
        /// Value at the withdrawal.
        before: u64,
        /// Value in this command.
        now: u64,
    },
}

impl fmt::Display for HmbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HmbError::NotUsed => f.write_str("HMPRE is 0: this controller borrows no host memory"),
            HmbError::AlreadyEnabled { size } => write!(
                f,
                "the buffer of {size} x 4 KiB is on; it has to be turned off (EHM 0) before another one is lent"
            ),
            HmbError::BelowMinimum { size, minimum } => write!(
                f,
                "HSIZE is {size} x 4 KiB, below HMMIN, {minimum} x 4 KiB: the controller can do nothing with it; lend at \
                 least the minimum, or nothing"
            ),
            HmbError::TooManyEntries { entries, max } => {
                write!(f, "the list has {entries} entries, HMMAXD allows {max}: lend larger pieces")
            }
            HmbError::ListTooShort { entries, present } => {
                write!(f, "the command says {entries} entries, but the list has {present}")
            }
            HmbError::EmptyEntry { index } => write!(f, "entry {index} lends 0 x 4 KiB; leave it out"),
            HmbError::Misaligned { index, address } => {
                write!(f, "entry {index} begins at {address:#x}, which is no multiple of 4 KiB")
            }
            HmbError::BeyondMemory { index, address } => {
                write!(f, "entry {index} begins at {address:#x} and ends beyond 64 bits")
            }
            HmbError::SumDiffers { size, sum } => {
                write!(f, "the entries lend {sum} x 4 KiB in all, but HSIZE is {size}")
            }
            HmbError::Overlap { first, second } => {
                write!(f, "entries {first} and {second} lend the same memory")
            }
            HmbError::NothingToReturn => {
                f.write_str("MR is set, but no memory was taken away before: lend it with MR 0")
            }
            HmbError::ReturnDiffers { property, before, now } => write!(
                f,
                "MR is set, but {property} is {now:#x} and was {before:#x}: returned memory must be unchanged; lend it with MR 0"
            ),
        }
    }
}

impl core::error::Error for HmbError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    const LIMITS: Limits =
        Limits { preferred: 61_440, minimum: 2_048, descriptor_minimum: 2, descriptors_max: 8 };

    fn list() -> Vec<Descriptor> {
        vec![Descriptor { address: 1 << 20, size: 1_024 }, Descriptor { address: 8 << 20, size: 1_024 }]
    }
    fn command() -> SetFeatures {
        SetFeatures { enable: true, memory_return: false, size: 2_048, list: 0x5000, entries: 2 }
    }
    fn rejected(
        change: impl Fn(&mut SetFeatures, &mut Vec<Descriptor>),
    ) -> (HmbError, alloc::string::String) {
        let (mut command, mut list) = (command(), list());
        change(&mut command, &mut list);
        let mut buffer = Buffer::new(LIMITS);
        let error = buffer.set(&command, &list).expect_err("refused");
        assert_eq!(buffer, Buffer::new(LIMITS), "the rejected command changed the buffer");
        (error, error.to_string())
    }

    #[test]
    fn memory_is_lent_withdrawn_and_returned() {
        let mut buffer = Buffer::new(LIMITS);
        assert_eq!(buffer.set(&command(), &list()), Ok(Effect::Lent(8 << 20)));
        assert_eq!(buffer.usable(), 8 << 20);
        assert_eq!(buffer.set(&command(), &list()), Err(HmbError::AlreadyEnabled { size: 2_048 }));
        assert_eq!(buffer.set(&SetFeatures::DISABLE, &[]), Ok(Effect::Withdrawn));
        assert_eq!((buffer.usable(), buffer.set(&SetFeatures::DISABLE, &[])), (0, Ok(Effect::Unchanged)));
        let again = SetFeatures { memory_return: true, ..command() };
        let mut moved = list();
        moved[1].address += PAGE;
        let error = buffer.set(&again, &moved).expect_err("moved").to_string();
        assert!(error.contains("0x801000") && error.contains("0x800000"), "{error}");
        assert_eq!(buffer.set(&again, &list()), Ok(Effect::Returned(8 << 20)));
        buffer.reset();
        assert_eq!(buffer.set(&again, &list()), Err(HmbError::NothingToReturn));
    }

    #[test]
    fn invalid_grants_are_rejected_with_the_number_and_the_reason() {
        let (error, text) = rejected(|c, l| {
            c.size = 1_024;
            c.entries = 1;
            l.pop();
        });
        assert_eq!(error, HmbError::BelowMinimum { size: 1_024, minimum: 2_048 });
        assert!(text.contains("1024 x 4 KiB") && text.contains("2048 x 4 KiB"), "{text}");
        assert_eq!(rejected(|c, _| c.entries = 3).0, HmbError::ListTooShort { entries: 3, present: 2 });
        assert_eq!(rejected(|_, l| l[0].size = 0).0, HmbError::EmptyEntry { index: 0 });
        assert_eq!(
            rejected(|_, l| l[1].address += 8).0,
            HmbError::Misaligned { index: 1, address: 0x80_0008 }
        );
        assert_eq!(rejected(|c, _| c.size += 1).0, HmbError::SumDiffers { size: 2_049, sum: 2_048 });
        assert_eq!(rejected(|_, l| l[1].address = 3 << 20).0, HmbError::Overlap { first: 0, second: 1 });
        assert!(matches!(rejected(|_, l| l[1].address = !4_095).0, HmbError::BeyondMemory { .. }));
        let many = |c: &mut SetFeatures, l: &mut Vec<Descriptor>| {
            *l = (0..9).map(|n| Descriptor { address: n << 20, size: 256 }).collect();
            (c.size, c.entries) = (9 * 256, 9);
        };
        assert_eq!(rejected(many).0, HmbError::TooManyEntries { entries: 9, max: 8 });
        assert_eq!(Buffer::new(Limits::default()).set(&command(), &list()), Err(HmbError::NotUsed));
    }
}
