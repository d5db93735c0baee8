//! The host's side of the host memory buffer, following Linux's NVMe driver (drivers/nvme/host/pci.c, since 4.13).
//!
//! The driver grants at most min(HMPRE, `max_host_mem_size_mb`), or nothing if HMMIN exceeds
//! `max_host_mem_size_mb`. It allocates chunks of up to 4 MiB, and halves the chunk size down to HMMINDS as
//! long as the total is below HMMIN. It withdraws the memory before a shutdown or a suspend. When the
//! controller starts again, the driver grants the same memory with the MR bit set.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use flashlab_nvme::hmb::{Descriptor, PAGE, SetFeatures};
use flashlab_nvme::identify::Identify;

/// Size of the largest chunk in bytes: PAGE_SIZE << (MAX_ORDER - 1).
const CHUNK_MAX: u64 = 4 << 20;
/// Minimum chunk size, even if the controller names a smaller one: two pages.
const CHUNK_MIN: u64 = 2 * PAGE;

/// Returns the command and the descriptors with which Linux's driver grants memory to a controller that
/// starts, or `None` if the driver grants no memory. The grant is at most `limit` bytes. The host has enough
/// free memory. See [`HostDriver`](flashlab_nvme::hmb::HostDriver).
pub fn linux(identify: &Identify, limit: u64) -> Option<(SetFeatures, Vec<Descriptor>)> {
    let mut driver = Driver::new(limit);
    let (command, grant) = driver.start(identify, &mut UnlimitedMemory::default()).ok()?;
    Some((command, grant.descriptors.clone()))
}

/// Source of the memory that the driver grants.
pub trait HostMemory {
    /// Allocates `bytes` contiguous bytes and returns their address, a multiple of 4 KiB, or `None` if the
    /// allocation fails.
    fn allocate(&mut self, bytes: u64) -> Option<u64>;
    /// Frees an allocation.
    fn free(&mut self, address: u64, bytes: u64);
}

/// Driver of one controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Driver {
    /// Maximum grant in bytes: the module parameter `max_host_mem_size_mb`, by default 128 MiB.
    pub lend_max: u64,
    grant: Option<Grant>,
}

/// A grant of host memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Total size in bytes.
    pub bytes: u64,
    /// Address of the descriptor list.
    pub list: u64,
    /// Descriptor list.
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
    fn free(&self, memory: &mut dyn HostMemory) {
        self.descriptors.iter().for_each(|d| memory.free(d.address, d.bytes()));
    }
}

impl Driver {
    /// The driver's default for `max_host_mem_size_mb`.
    pub const LEND_MAX: u64 = 128 << 20;

    /// Returns a driver that grants at most `lend_max` bytes.
    pub fn new(lend_max: u64) -> Self {
        Driver { lend_max, grant: None }
    }

    /// Returns the current grant, or the grant before a suspend.
    pub fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// Returns the command and the descriptor list for a controller that starts, or resumes after a reset or
    /// a suspend. If the memory that is still allocated suffices, the driver returns that memory with MR set.
    ///
    /// # Errors
    /// Returns the reason why the driver grants nothing. The controller then works without host memory.
    pub fn start(
        &mut self,
        identify: &Identify,
        memory: &mut dyn HostMemory,
    ) -> Result<(SetFeatures, &Grant), Refusal> {
        let lend = identify.preferred().min(self.lend_max) / PAGE * PAGE;
        if identify.hmpre == 0 {
            return Err(Refusal::NotRequested);
        }
        if lend == 0 {
            self.free_grant(memory);
            return Err(Refusal::Disabled);
        }
        if identify.minimum() > self.lend_max {
            self.free_grant(memory);
            return Err(Refusal::MinimumAboveLimit { minimum: identify.minimum(), limit: self.lend_max });
        }
        let is_allocated = self.grant.as_ref().is_some_and(|grant| grant.bytes >= identify.minimum());
        if !is_allocated {
            self.free_grant(memory);
            self.grant = Some(allocate(identify, lend, memory)?);
        }
        let grant = self.grant.as_ref().expect("the driver holds a grant or has just allocated one");
        Ok((grant.command(is_allocated), grant))
    }

    /// Returns the command for a shutdown or a suspend, if memory is granted. The memory stays allocated.
    pub fn stop(&self) -> Option<SetFeatures> {
        self.grant.as_ref().map(|_| SetFeatures::DISABLE)
    }

    /// Frees the granted memory, if any.
    pub(crate) fn free_grant(&mut self, memory: &mut dyn HostMemory) {
        if let Some(grant) = self.grant.take() {
            grant.free(memory);
        }
    }
}

/// Allocates chunks, halving the chunk size as long as the total is below the minimum.
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
        grant.free(memory);
        chunk = chunk / 2 / PAGE * PAGE;
    }
    Err(Refusal::NoMemory { minimum: identify.minimum(), allocated_max: most, least })
}

/// Allocates up to `lend` bytes in chunks of `chunk` bytes.
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
    // The host may place the list anywhere; this model places it 1 TiB above the first chunk.
    let list = descriptors.first().map_or(0, |first| first.address.wrapping_add(1 << 40));
    Grant { bytes, list, descriptors }
}

/// Reason why the driver grants no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// HMPRE is 0: the controller uses no host memory.
    NotRequested,
    /// `max_host_mem_size_mb` is 0.
    Disabled,
    /// HMMIN exceeds the maximum grant.
    MinimumAboveLimit {
        /// HMMIN in bytes.
        minimum: u64,
        /// `max_host_mem_size_mb` in bytes.
        limit: u64,
    },
    /// The allocator returned too little memory, even in the smallest chunks.
    NoMemory {
        /// HMMIN in bytes.
        minimum: u64,
        /// Largest total that was allocated.
        allocated_max: u64,
        /// Minimum chunk size in bytes.
        least: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotRequested => f.write_str("the controller asks for no host memory (HMPRE is 0)"),
            Refusal::Disabled => f.write_str("max_host_mem_size_mb is 0: nothing is lent"),
            Refusal::MinimumAboveLimit { minimum, limit } => write!(
                f,
                "the controller needs at least {} (HMMIN), but the driver lends at most {} (max_host_mem_size_mb): nothing is \
                 lent",
                size(*minimum),
                size(*limit)
            ),
            Refusal::NoMemory { minimum, allocated_max, least } => write!(
                f,
                "the host could allocate {} in chunks of {least} B or more, but the controller needs at least {} (HMMIN): \
                 nothing is lent",
                size(*allocated_max),
                size(*minimum)
            ),
        }
    }
}

fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

impl core::error::Error for Refusal {}

/// An allocator with unlimited memory at ascending addresses.
#[derive(Clone, Debug, Default)]
pub struct UnlimitedMemory {
    next_address: u64,
}

impl HostMemory for UnlimitedMemory {
    fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let address = self.next_address;
        self.next_address += bytes.div_ceil(PAGE) * PAGE;
        Some(address)
    }
    fn free(&mut self, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use flashlab_nvme::hmb::{Buffer, Effect, Limits};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn requesting(hmpre: u32, hmmin: u32) -> Identify {
        Identify { hmpre, hmmin, ..Identify::default() }
    }

    /// An allocator with `free` bytes, in pieces of at most `largest` bytes.
    struct Fragmented {
        largest: u64,
        free: u64,
        next: u64,
        allocated_bytes: u64,
    }
    impl HostMemory for Fragmented {
        fn allocate(&mut self, bytes: u64) -> Option<u64> {
            if bytes > self.largest || bytes > self.free {
                return None;
            }
            self.free -= bytes;
            self.allocated_bytes += bytes;
            let address = self.next;
            self.next += 2 * bytes;
            Some(address)
        }
        fn free(&mut self, _: u64, bytes: u64) {
            self.free += bytes;
            self.allocated_bytes -= bytes;
        }
    }

    #[test]
    fn a_drive_receives_the_smaller_of_the_limit_and_its_preferred_size() {
        for (limit, expected) in [(128, 128), (64, 64), (240, 240), (512, 240)] {
            let mut driver = Driver::new(limit * MIB);
            let (command, grant) = driver
                .start(&requesting(61_440, 2_048), &mut UnlimitedMemory::default())
                .expect("the driver lends memory");
            assert_eq!(grant.bytes, expected * MIB);
            assert_eq!(grant.descriptors.len() as u64, expected / 4, "chunks of 4 MiB");
            assert_eq!((command.size as u64, command.memory_return), (expected * 256, false));
        }
    }

    #[test]
    fn a_controller_whose_minimum_exceeds_the_limit_receives_no_memory() {
        let mut driver = Driver::new(4 * MIB);
        let refusal = driver
            .start(&requesting(61_440, 2_048), &mut UnlimitedMemory::default())
            .expect_err("too little");
        assert_eq!(refusal, Refusal::MinimumAboveLimit { minimum: 8 * MIB, limit: 4 * MIB });
        assert!(refusal.to_string().contains("8 MiB") && refusal.to_string().contains("4 MiB"), "{refusal}");
        assert_eq!(driver.stop(), None);
        let mut off = Driver::new(0);
        assert!(matches!(
            off.start(&requesting(10, 0), &mut UnlimitedMemory::default()),
            Err(Refusal::Disabled)
        ));
        assert_eq!(
            driver.start(&requesting(0, 0), &mut UnlimitedMemory::default()).map(|_| ()),
            Err(Refusal::NotRequested)
        );
    }

    #[test]
    fn chunks_are_halved_until_enough_is_allocated() {
        let mut memory = Fragmented { largest: MIB, free: 400 * MIB, next: 0, allocated_bytes: 0 };
        let mut driver = Driver::new(Driver::LEND_MAX);
        let (_, grant) =
            driver.start(&requesting(61_440, 2_048), &mut memory).expect("the driver lends memory");
        assert_eq!((grant.bytes, grant.descriptors.len()), (128 * MIB, 128));
        driver.free_grant(&mut memory);
        assert_eq!(memory.allocated_bytes, 0);
        // A grant below HMPRE suffices if it reaches HMMIN.
        let mut short = Fragmented { largest: MIB, free: 9 * MIB, next: 0, allocated_bytes: 0 };
        assert_eq!(
            driver.start(&requesting(61_440, 2_048), &mut short).expect("the driver lends memory").1.bytes,
            9 * MIB
        );
        driver.free_grant(&mut short);
        let mut scarce = Fragmented { largest: MIB, free: 5 * MIB, next: 0, allocated_bytes: 0 };
        let refusal = driver.start(&requesting(61_440, 2_048), &mut scarce).expect_err("too little");
        assert_eq!(refusal, Refusal::NoMemory { minimum: 8 * MIB, allocated_max: 5 * MIB, least: 8_192 });
        assert_eq!(scarce.allocated_bytes, 0, "failed attempts free their memory");
    }

    #[test]
    fn descriptors_are_limited_in_number_and_in_size() {
        let mut driver = Driver::new(Driver::LEND_MAX);
        let few = Identify { hmmaxd: 4, ..requesting(61_440, 2_048) };
        assert_eq!(
            driver.start(&few, &mut UnlimitedMemory::default()).expect("the driver lends memory").1.bytes,
            16 * MIB,
            "four chunks of 4 MiB"
        );
        driver.free_grant(&mut UnlimitedMemory::default());
        let large = Identify { hmminds: 512, ..requesting(61_440, 2_048) };
        let mut memory = Fragmented { largest: MIB, free: 400 * MIB, next: 0, allocated_bytes: 0 };
        let refusal = driver.start(&large, &mut memory).expect_err("no piece of 2 MiB");
        assert_eq!(refusal, Refusal::NoMemory { minimum: 8 * MIB, allocated_max: 0, least: 2 * MIB });
    }

    #[test]
    fn a_resume_returns_the_same_memory() {
        let identify = requesting(61_440, 2_048);
        let limits = Limits { preferred: 61_440, minimum: 2_048, ..Limits::default() };
        let (mut driver, mut controller) = (Driver::new(Driver::LEND_MAX), Buffer::new(limits));
        let (first, grant) =
            driver.start(&identify, &mut UnlimitedMemory::default()).expect("the driver lends memory");
        assert_eq!(controller.set(&first, &grant.descriptors), Ok(Effect::Lent(128 * MIB)));
        let stop = driver.stop().expect("the driver has lent memory");
        assert_eq!(controller.set(&stop, &[]), Ok(Effect::Withdrawn));
        let (again, grant) =
            driver.start(&identify, &mut UnlimitedMemory::default()).expect("the driver lends memory");
        assert!(again.memory_return);
        assert_eq!(controller.set(&again, &grant.descriptors), Ok(Effect::Returned(128 * MIB)));
    }

    proptest! {
        #[test]
        fn the_controller_accepts_every_grant_of_the_driver(
            hmpre in 1u32..100_000, hmmin in 0u32..20_000, hmminds in 0u32..2_000, hmmaxd in 0u16..64,
            limit in 0u64..512, largest in 12u32..24, free in 0u64..512,
        ) {
            let identify = Identify { hmpre, hmmin: hmmin.min(hmpre), hmminds, hmmaxd, ..Identify::default() };
            let limits = Limits {
                preferred: hmpre, minimum: identify.hmmin, descriptor_minimum: hmminds, descriptors_max: hmmaxd,
            };
            let mut memory = Fragmented { largest: 1 << largest, free: free * MIB, next: 0, allocated_bytes: 0 };
            let mut driver = Driver::new(limit * MIB);
            if let Ok((command, grant)) = driver.start(&identify, &mut memory) {
                prop_assert!(grant.bytes >= identify.minimum());
                prop_assert!(grant.bytes <= (limit * MIB).min(identify.preferred()));
                // The controller does not use a last chunk that is shorter than HMMINDS.
                let usable: u64 = grant.descriptors.iter().filter(|d| d.size >= hmminds).map(Descriptor::bytes).sum();
                prop_assert_eq!(Buffer::new(limits).set(&command, &grant.descriptors), Ok(Effect::Lent(usable)));
            }
            driver.free_grant(&mut memory);
            prop_assert_eq!(memory.allocated_bytes, 0);
        }
    }
}
