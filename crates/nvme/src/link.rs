//! The wires between host and drive: PCI Express by generation and lanes.
//!
//! PCI Express Base Specification: 2.5, 5, 8, 16 and 32 GT/s a lane; generations 1 and 2 send 10 bits for 8 (clause
//! 4.2.1), from the third on 130 for 128 (clause 4.2.2). Data moves in transaction-layer packets of at most
//! `payload` bytes; each carries a header of 16 bytes with 64-bit addresses, 2 of sequence number and 4 of checksum in the
//! data link layer, and 4 of framing in the physical layer (2 in the first two generations). Acknowledgements and flow
//! control take a share of about 5 % of what is left in the other direction; they are left out, as are power states.
//!
//! Each direction is a resource of its own that serves in order.

use alloc::format;
use flashlab_flash::Impossible;
use flashlab_sim::{Duration, Instant, Timeline};
use serde::{Deserialize, Serialize};

/// A generation of PCI Express.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Generation {
    /// 2.5 GT/s.
    Gen1,
    /// 5 GT/s.
    Gen2,
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
}

impl Generation {
    /// All of them, slowest first.
    pub const ALL: [Generation; 5] =
        [Generation::Gen1, Generation::Gen2, Generation::Gen3, Generation::Gen4, Generation::Gen5];

    /// As profiles write it.
    pub const fn name(self) -> &'static str {
        match self {
            Generation::Gen1 => "gen1",
            Generation::Gen2 => "gen2",
            Generation::Gen3 => "gen3",
            Generation::Gen4 => "gen4",
            Generation::Gen5 => "gen5",
        }
    }

    /// Transfers (bits on the wire) a second on one lane.
    pub const fn transfers(self) -> u64 {
        match self {
            Generation::Gen1 => 2_500_000_000,
            Generation::Gen2 => 5_000_000_000,
            Generation::Gen3 => 8_000_000_000,
            Generation::Gen4 => 16_000_000_000,
            Generation::Gen5 => 32_000_000_000,
        }
    }

    /// Bits of data in how many bits on the wire.
    const fn line_code(self) -> (u64, u64) {
        match self {
            Generation::Gen1 | Generation::Gen2 => (8, 10),
            Generation::Gen3 | Generation::Gen4 | Generation::Gen5 => (128, 130),
        }
    }

    /// Bytes that a packet carries beside its payload.
    const fn overhead(self) -> u64 {
        const HEADER: u64 = 16;
        const SEQUENCE_AND_CHECKSUM: u64 = 6;
        let framing = match self {
            Generation::Gen1 | Generation::Gen2 => 2,
            Generation::Gen3 | Generation::Gen4 | Generation::Gen5 => 4,
        };
        HEADER + SEQUENCE_AND_CHECKSUM + framing
    }
}

/// The wires as a profile gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wires {
    /// The generation that host and drive agreed on.
    pub generation: Generation,
    /// Lanes: 1, 2, 4, 8 or 16.
    pub lanes: u32,
    /// Bytes of the largest packet's payload: a power of two from 128 to 4096.
    pub payload: u32,
    /// From one side to the other: a packet's way through both ports.
    pub t_way: Duration,
}

impl Wires {
    /// Refuses what no link is.
    pub fn check(&self) -> Result<(), Impossible> {
        if ![1, 2, 4, 8, 16].contains(&self.lanes) {
            let why = format!("is {}; a link has 1, 2, 4, 8 or 16 lanes", self.lanes);
            return Err(Impossible::new("nvme.lanes", why));
        }
        if !self.payload.is_power_of_two() || !(128..=4096).contains(&self.payload) {
            let why = format!("is {} B; a payload is a power of two from 128 B to 4 KiB", self.payload);
            return Err(Impossible::new("nvme.payload", why));
        }
        Ok(())
    }

    /// Bytes a second on the wire, with all of a packet.
    pub fn raw_rate(&self) -> u64 {
        let (data, wire) = self.generation.line_code();
        self.generation.transfers() / wire * data * u64::from(self.lanes) / 8
    }

    /// Bytes a second of data in packets of full size.
    pub fn rate(&self) -> u64 {
        let payload = u64::from(self.payload);
        let share = u128::from(self.raw_rate()) * u128::from(payload);
        (share / u128::from(payload + self.generation.overhead())) as u64
    }

    /// How long `bytes` of data occupy one direction.
    pub fn occupy(&self, bytes: u64) -> Duration {
        let packets = bytes.div_ceil(u64::from(self.payload));
        Duration::from_ratio_secs(bytes + packets * self.generation.overhead(), self.raw_rate())
    }
}

/// Bytes of an entry of a submission queue.
const SUBMISSION_ENTRY: u64 = 64;
/// Bytes of an entry of a completion queue.
const COMPLETION_ENTRY: u64 = 16;

/// The link at work: both directions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    wires: Wires,
    to_host: Timeline,
    to_drive: Timeline,
    /// What is asked for most: one 4 KiB block's time.
    four_kib: Duration,
    fetch: Duration,
    post: Duration,
}

impl Link {
    /// An idle link.
    pub fn new(wires: Wires) -> Self {
        Link {
            wires,
            to_host: Timeline::default(),
            to_drive: Timeline::default(),
            four_kib: wires.occupy(4096),
            // The doorbell goes down, the drive's read request up, the entry down.
            fetch: wires.t_way * 3 + wires.occupy(SUBMISSION_ENTRY),
            post: wires.t_way + wires.occupy(COMPLETION_ENTRY),
        }
    }

    /// From the doorbell to the command in the controller. Entries are too short to count as load.
    #[inline]
    pub fn fetch(&self) -> Duration {
        self.fetch
    }

    /// From the controller's last act to the completion in the host's memory.
    #[inline]
    pub fn post(&self) -> Duration {
        self.post
    }

    /// Up and down once, beside the time that data occupies the link.
    #[inline]
    pub fn round_trip(&self) -> Duration {
        self.wires.t_way * 2
    }

    /// How long `bytes` occupy one direction.
    #[inline]
    pub fn occupy(&self, bytes: u64) -> Duration {
        if bytes == 4096 { self.four_kib } else { self.wires.occupy(bytes) }
    }

    /// Data for the host, ready at `now`: when the last of it has left.
    #[inline]
    pub fn send(&mut self, now: Instant, occupy: Duration) -> Instant {
        self.to_host.reserve(now, occupy)
    }

    /// Data from the host, asked for at `now`: when the last of it has arrived.
    #[inline]
    pub fn receive(&mut self, now: Instant, occupy: Duration) -> Instant {
        self.to_drive.reserve(now, occupy)
    }

    /// What the wires forget when the power goes.
    pub fn reset(&mut self) {
        self.to_host = Timeline::default();
        self.to_drive = Timeline::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wires(generation: Generation, lanes: u32) -> Wires {
        Wires { generation, lanes, payload: 256, t_way: Duration::from_ns(150) }
    }

    #[test]
    fn a_lane_carries_what_its_line_code_leaves() {
        // 8 GT/s x 128/130 / 8 = 984.6 MB/s; 5 GT/s x 8/10 / 8 = 500 MB/s.
        assert_eq!(wires(Generation::Gen3, 1).raw_rate() / 100_000, 9_846);
        assert_eq!(wires(Generation::Gen2, 4).raw_rate(), 2_000_000_000);
        assert_eq!(wires(Generation::Gen1, 1).raw_rate(), 250_000_000);
        let ratio =
            wires(Generation::Gen5, 4).raw_rate() as f64 / wires(Generation::Gen3, 4).raw_rate() as f64;
        assert!((ratio - 4.0).abs() < 1e-6);
    }

    #[test]
    fn packets_take_their_share() {
        // 256 of 256 + 26 bytes: 90.8 % of 1969 MB/s.
        let gen3_x2 = wires(Generation::Gen3, 2);
        assert_eq!(gen3_x2.rate() / 1_000_000, 1_787);
        let four_kib = gen3_x2.occupy(4096);
        assert_eq!(four_kib, Duration::from_ratio_secs(4096 + 16 * 26, gen3_x2.raw_rate()));
        assert_eq!(gen3_x2.occupy(0), Duration::ZERO);
    }

    #[test]
    fn directions_do_not_wait_for_one_another() {
        let mut link = Link::new(wires(Generation::Gen3, 2));
        let d = link.occupy(4096);
        let now = Instant::from_ns(10);
        assert_eq!(link.send(now, d), now + d);
        assert_eq!(link.send(now, d), now + d * 2);
        assert_eq!(link.receive(now, d), now + d);
    }

    #[test]
    fn impossible_wires_are_refused_by_name() {
        let mut three = wires(Generation::Gen3, 3);
        assert_eq!(three.check().expect_err("three lanes").path, "nvme.lanes");
        three.lanes = 4;
        three.check().expect("possible");
        three.payload = 300;
        assert_eq!(three.check().expect_err("no power of two").path, "nvme.payload");
    }
}
