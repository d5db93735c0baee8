//! The host's side, with the rules of Linux' NVMe driver (drivers/nvme/host/pci.c, from 4.13 on): it lends min(HMPRE,
//! `max_host_mem_size_mb`), nothing where HMMIN is above that; it allocates in chunks of 4 MiB and halves them while
//! the allocator fails, down to HMMINDS; it takes the memory away before a shutdown or a suspend, and returns it with MR
//! set afterwards.

use super::{Descriptor, PAGE, SetFeatures};
use crate::identify::Identify;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Bytes of the largest chunk: PAGE_SIZE << (MAX_ORDER - 1).
const CHUNK_MAX: u64 = 4 << 20;
/// The least chunk where the controller names none: two pages.
const CHUNK_MIN: u64 = 2 * PAGE;

/// Where the driver gets memory from.
pub trait HostMemory {
    /// `bytes` that follow one another, at an address that is a multiple of 4 KiB; `None`: there are none.
    fn allocate(&mut self, bytes: u64) -> Option<u64>;
    /// Takes them back.
    fn free(&mut self, address: u64, bytes: u64);
}

/// The driver of one controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Driver {
    /// Bytes that it lends at most: the module parameter `max_host_mem_size_mb`, 128 MiB unless set.
    pub lend_max: u64,
    grant: Option<Grant>,
}

/// What is lent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Bytes in all.
    pub bytes: u64,
    /// Where the list of descriptors lies.
    pub list: u64,
    /// The list.
    pub descriptors: Vec<Descriptor>,
}

impl Grant {
    fn command(&self, memory_return: bool) -> SetFeatures {
        SetFeatures {
            enable: true,
            memory_return,
            size: (self.bytes / PAGE) as u32,
            list: self.list,
            entries: self.descriptors.len() as u32,
        }
    }
    fn give_back(&self, memory: &mut dyn HostMemory) {
        self.descriptors.iter().for_each(|d| memory.free(d.address, d.bytes()));
    }
}

impl Driver {
    /// The driver's own default of `max_host_mem_size_mb`.
    pub const LEND_MAX: u64 = 128 << 20;

    /// A driver that lends at most `lend_max` bytes.
    pub fn new(lend_max: u64) -> Self {
        Driver { lend_max, grant: None }
    }

    /// What is lent, or was before a suspend.
    pub fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// When the controller is set up, at first or after a reset or a suspend: the command to send, with its list.
    /// Memory that is still held is returned (MR) where it suffices.
    ///
    /// # Errors
    /// Why nothing is lent; the controller then works without.
    pub fn start(
        &mut self,
        identify: &Identify,
        memory: &mut dyn HostMemory,
    ) -> Result<(SetFeatures, &Grant), Refusal> {
        let lend = identify.preferred().min(self.lend_max) / PAGE * PAGE;
        if identify.hmpre == 0 {
            return Err(Refusal::NotAsked);
        }
        if identify.minimum() > self.lend_max || lend == 0 {
            self.stop_lending(memory);
            return Err(Refusal::MinimumAboveLimit { minimum: identify.minimum(), limit: self.lend_max });
        }
        let held = self.grant.as_ref().is_some_and(|grant| grant.bytes >= identify.minimum());
        if !held {
            self.stop_lending(memory);
            self.grant = Some(allocate(identify, lend, memory)?);
        }
        let grant = self.grant.as_ref().expect("it is held or was allocated");
        Ok((grant.command(held), grant))
    }

    /// Before a shutdown or a suspend: the command to send, where memory is lent. It stays allocated.
    pub fn stop(&self) -> Option<SetFeatures> {
        self.grant.as_ref().map(|_| SetFeatures::DISABLE)
    }

    /// The driver is removed: frees the memory.
    pub fn stop_lending(&mut self, memory: &mut dyn HostMemory) {
        if let Some(grant) = self.grant.take() {
            grant.give_back(memory);
        }
    }
}

/// Chunks as large as the allocator gives them: halved as long as less than the minimum came together.
fn allocate(identify: &Identify, lend: u64, memory: &mut dyn HostMemory) -> Result<Grant, Refusal> {
    let least = (u64::from(identify.hmminds) * PAGE).max(CHUNK_MIN);
    let mut chunk = lend.min(CHUNK_MAX);
    let mut most = 0;
    while chunk >= least {
        let grant = chunks(identify, lend, chunk, memory);
        if grant.bytes > 0 && grant.bytes >= identify.minimum() {
            return Ok(grant);
        }
        most = most.max(grant.bytes);
        grant.give_back(memory);
        chunk = chunk / 2 / PAGE * PAGE;
    }
    Err(Refusal::NoMemory { minimum: identify.minimum(), got: most, least })
}

/// As much of `lend` as there is in pieces of `chunk`.
fn chunks(identify: &Identify, lend: u64, chunk: u64, memory: &mut dyn HostMemory) -> Grant {
    let needed = lend.div_ceil(chunk);
    let entries = match identify.hmmaxd {
        0 => needed,
        most => needed.min(most.into()),
    };
    let mut descriptors = Vec::new();
    let mut bytes = 0;
    while bytes < lend && (descriptors.len() as u64) < entries {
        let piece = chunk.min(lend - bytes);
        let Some(address) = memory.allocate(piece) else { break };
        descriptors.push(Descriptor { address, size: (piece / PAGE) as u32 });
        bytes += piece;
    }
    // Where the list lies is the host's choice; behind the first chunk is as good as any place.
    let list = descriptors.first().map_or(0, |first| first.address.wrapping_add(1 << 40));
    Grant { bytes, list, descriptors }
}

/// Why nothing is lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// HMPRE is 0.
    NotAsked,
    /// HMMIN is above what the driver may lend.
    MinimumAboveLimit {
        /// HMMIN in bytes.
        minimum: u64,
        /// `max_host_mem_size_mb` in bytes.
        limit: u64,
    },
    /// The allocator gave too little, even in the smallest chunks.
    NoMemory {
        /// HMMIN in bytes.
        minimum: u64,
        /// The most that came together.
        got: u64,
        /// Bytes of the smallest chunks tried.
        least: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotAsked => f.write_str("the controller asks for no host memory (HMPRE is 0)"),
            Refusal::MinimumAboveLimit { minimum, limit } => write!(
                f,
                "the controller needs at least {} (HMMIN), the driver lends at most {} (max_host_mem_size_mb): nothing is \
                 lent",
                mib(*minimum),
                mib(*limit)
            ),
            Refusal::NoMemory { minimum, got, least } => write!(
                f,
                "the host's memory gave {} in chunks of {least} B or more, the controller needs at least {} (HMMIN): \
                 nothing is lent",
                mib(*got),
                mib(*minimum)
            ),
        }
    }
}

fn mib(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

impl core::error::Error for Refusal {}

/// Memory without end, in order: what a host that has enough of it gives.
#[derive(Clone, Debug, Default)]
pub struct Plenty {
    given: u64,
}

impl HostMemory for Plenty {
    fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let address = self.given;
        self.given += bytes.div_ceil(PAGE) * PAGE;
        Some(address)
    }
    fn free(&mut self, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::super::{Buffer, Effect, Limits};
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn asking(hmpre: u32, hmmin: u32) -> Identify {
        Identify { hmpre, hmmin, ..Identify::default() }
    }

    /// A host that has `free` bytes in pieces of at most `largest`.
    struct Fragmented {
        largest: u64,
        free: u64,
        next: u64,
        held: u64,
    }
    impl HostMemory for Fragmented {
        fn allocate(&mut self, bytes: u64) -> Option<u64> {
            if bytes > self.largest || bytes > self.free {
                return None;
            }
            self.free -= bytes;
            self.held += bytes;
            let address = self.next;
            self.next += 2 * bytes;
            Some(address)
        }
        fn free(&mut self, _: u64, bytes: u64) {
            self.free += bytes;
            self.held -= bytes;
        }
    }

    #[test]
    fn the_published_drive_gets_the_drivers_default_or_what_it_prefers() {
        for (limit, expected) in [(128, 128), (64, 64), (240, 240), (512, 240)] {
            let mut driver = Driver::new(limit * MIB);
            let (command, grant) =
                driver.start(&asking(61_440, 2_048), &mut Plenty::default()).expect("lent");
            assert_eq!(grant.bytes, expected * MIB);
            assert_eq!(grant.descriptors.len() as u64, expected / 4, "chunks of 4 MiB");
            assert_eq!((command.size as u64, command.memory_return), (expected * 256, false));
        }
    }

    #[test]
    fn a_minimum_above_the_limit_gets_nothing() {
        let mut driver = Driver::new(4 * MIB);
        let refusal = driver.start(&asking(61_440, 2_048), &mut Plenty::default()).expect_err("too little");
        assert_eq!(refusal, Refusal::MinimumAboveLimit { minimum: 8 * MIB, limit: 4 * MIB });
        assert!(refusal.to_string().contains("8 MiB") && refusal.to_string().contains("4 MiB"), "{refusal}");
        assert_eq!(driver.stop(), None);
        let mut off = Driver::new(0);
        assert!(matches!(
            off.start(&asking(10, 0), &mut Plenty::default()),
            Err(Refusal::MinimumAboveLimit { .. })
        ));
        assert_eq!(driver.start(&asking(0, 0), &mut Plenty::default()).map(|_| ()), Err(Refusal::NotAsked));
    }

    #[test]
    fn chunks_halve_until_enough_comes_together() {
        let mut memory = Fragmented { largest: MIB, free: 400 * MIB, next: 0, held: 0 };
        let mut driver = Driver::new(Driver::LEND_MAX);
        let (_, grant) = driver.start(&asking(61_440, 2_048), &mut memory).expect("lent");
        assert_eq!((grant.bytes, grant.descriptors.len()), (128 * MIB, 128));
        driver.stop_lending(&mut memory);
        assert_eq!(memory.held, 0);
        // As much as there is, as long as it is the minimum.
        let mut short = Fragmented { largest: MIB, free: 9 * MIB, next: 0, held: 0 };
        assert_eq!(driver.start(&asking(61_440, 2_048), &mut short).expect("lent").1.bytes, 9 * MIB);
        driver.stop_lending(&mut short);
        let mut scarce = Fragmented { largest: MIB, free: 5 * MIB, next: 0, held: 0 };
        let refusal = driver.start(&asking(61_440, 2_048), &mut scarce).expect_err("too little");
        assert_eq!(refusal, Refusal::NoMemory { minimum: 8 * MIB, got: 5 * MIB, least: 8_192 });
        assert_eq!(scarce.held, 0, "what was tried is free again");
    }

    #[test]
    fn descriptors_are_limited_in_number_and_in_size() {
        let mut driver = Driver::new(Driver::LEND_MAX);
        let few = Identify { hmmaxd: 4, ..asking(61_440, 2_048) };
        assert_eq!(
            driver.start(&few, &mut Plenty::default()).expect("lent").1.bytes,
            16 * MIB,
            "four of 4 MiB"
        );
        driver.stop_lending(&mut Plenty::default());
        let large = Identify { hmminds: 512, ..asking(61_440, 2_048) };
        let mut memory = Fragmented { largest: MIB, free: 400 * MIB, next: 0, held: 0 };
        let refusal = driver.start(&large, &mut memory).expect_err("no piece of 2 MiB");
        assert_eq!(refusal, Refusal::NoMemory { minimum: 8 * MIB, got: 0, least: 2 * MIB });
    }

    #[test]
    fn after_a_resume_the_same_memory_returns() {
        let identify = asking(61_440, 2_048);
        let limits = Limits { preferred: 61_440, minimum: 2_048, ..Limits::default() };
        let (mut driver, mut controller) = (Driver::new(Driver::LEND_MAX), Buffer::new(limits));
        let (first, grant) = driver.start(&identify, &mut Plenty::default()).expect("lent");
        assert_eq!(controller.set(&first, &grant.descriptors), Ok(Effect::Lent(128 * MIB)));
        let stop = driver.stop().expect("it is lent");
        assert_eq!(controller.set(&stop, &[]), Ok(Effect::TakenAway));
        let (again, grant) = driver.start(&identify, &mut Plenty::default()).expect("lent");
        assert!(again.memory_return);
        assert_eq!(controller.set(&again, &grant.descriptors), Ok(Effect::Returned(128 * MIB)));
    }

    proptest! {
        #[test]
        fn what_the_driver_lends_the_controller_accepts(
            hmpre in 1u32..100_000, hmmin in 0u32..20_000, hmminds in 0u32..2_000, hmmaxd in 0u16..64,
            limit in 0u64..512, largest in 12u32..24, free in 0u64..512,
        ) {
            let identify = Identify { hmpre, hmmin: hmmin.min(hmpre), hmminds, hmmaxd, ..Identify::default() };
            let limits = Limits {
                preferred: hmpre, minimum: identify.hmmin, descriptor_minimum: hmminds, descriptors_max: hmmaxd,
            };
            let mut memory = Fragmented { largest: 1 << largest, free: free * MIB, next: 0, held: 0 };
            let mut driver = Driver::new(limit * MIB);
            if let Ok((command, grant)) = driver.start(&identify, &mut memory) {
                prop_assert!(grant.bytes >= identify.minimum());
                prop_assert!(grant.bytes <= (limit * MIB).min(identify.preferred()));
                // But for a last piece that is too short to use.
                let usable: u64 = grant.descriptors.iter().filter(|d| d.size >= hmminds).map(Descriptor::bytes).sum();
                prop_assert_eq!(Buffer::new(limits).set(&command, &grant.descriptors), Ok(Effect::Lent(usable)));
            }
            driver.stop_lending(&mut memory);
            prop_assert_eq!(memory.held, 0);
        }
    }
}
