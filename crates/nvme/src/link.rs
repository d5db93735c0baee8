//! The link between host and drive: PCI Express by generation and lanes.
//!
//! The rates are those of the PCI Express Base Specification: 2.5, 5, 8, 16 and 32 GT/s per lane. Generations
//! 1 and 2 encode 8 bits as 10 (clause 4.2.1). Later generations encode 128 bits as 130 (clause 4.2.2). Data
//! moves in transaction-layer packets of at most `payload` bytes. Each packet adds [`PACKET_OVERHEAD`]. The
//! model omits power states. It also omits acknowledgements and flow control, which take about 5 % of the
//! opposite direction.
//!
//! Each direction is a separate resource that serves requests in order.

use alloc::format;
use flashlab_flash::Impossible;
use flashlab_sim::{Duration, Instant, Timeline};
use serde::{Deserialize, Serialize};

/// PCI Express generation.
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
    /// All generations, slowest first.
    pub const ALL: [Generation; 5] =
        [Generation::Gen1, Generation::Gen2, Generation::Gen3, Generation::Gen4, Generation::Gen5];

    /// Returns the name that profiles use.
    pub const fn name(self) -> &'static str {
        match self {
            Generation::Gen1 => "gen1",
            Generation::Gen2 => "gen2",
            Generation::Gen3 => "gen3",
            Generation::Gen4 => "gen4",
            Generation::Gen5 => "gen5",
        }
    }

    /// Returns the transfers (bits on the wire) per second of one lane.
    pub const fn transfers(self) -> u64 {
        match self {
            Generation::Gen1 => 2_500_000_000,
            Generation::Gen2 => 5_000_000_000,
            Generation::Gen3 => 8_000_000_000,
            Generation::Gen4 => 16_000_000_000,
            Generation::Gen5 => 32_000_000_000,
        }
    }

    /// Returns the line code as a pair: data bits, and bits on the wire.
    const fn line_code(self) -> (u64, u64) {
        match self {
            Generation::Gen1 | Generation::Gen2 => (8, 10),
            Generation::Gen3 | Generation::Gen4 | Generation::Gen5 => (128, 130),
        }
    }
}

/// Overhead of a packet in bytes: a header of 16 with 64-bit addresses, a checksum of 4 (LCRC), and framing
/// of 4. Up to generation 2, the framing is a start symbol, 2 bytes of sequence number and an end symbol.
/// From generation 3 on, the framing is the STP token, which contains the sequence number (clause 4.2.2.2).
pub(crate) const PACKET_OVERHEAD: u64 = 24;

/// Parameters of the link, as given in a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkParameters {
    /// Negotiated generation.
    pub generation: Generation,
    /// Number of lanes: 1, 2, 4, 8 or 16.
    pub lanes: u32,
    /// Maximum payload of a packet in bytes: a power of two from 128 to 4096.
    pub payload: u32,
    /// One-way latency of a packet through both ports.
    pub t_way: Duration,
}

impl LinkParameters {
    /// Checks the parameters.
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

    /// Returns the raw rate in bytes per second, packet overhead included.
    pub fn raw_rate(&self) -> u64 {
        let (data, wire) = self.generation.line_code();
        self.generation.transfers() / wire * data * u64::from(self.lanes) / 8
    }

    /// Returns the data rate in bytes per second with packets of full size.
    pub fn rate(&self) -> u64 {
        let payload = u64::from(self.payload);
        let share = u128::from(self.raw_rate()) * u128::from(payload);
        (share / u128::from(payload + PACKET_OVERHEAD)) as u64
    }

    /// Returns the time for which `bytes` of data occupy one direction.
    pub fn occupy(&self, bytes: u64) -> Duration {
        let packets = bytes.div_ceil(u64::from(self.payload));
        Duration::from_ratio_secs(bytes + packets * PACKET_OVERHEAD, self.raw_rate())
    }
}

/// Size of a submission queue entry in bytes.
const SUBMISSION_ENTRY: u64 = 64;
/// Size of a completion queue entry in bytes.
const COMPLETION_ENTRY: u64 = 16;

/// State of the link: both directions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    parameters: LinkParameters,
    to_host: Timeline,
    to_drive: Timeline,
    /// Time for which 4 KiB, the most frequent size, occupy one direction.
    four_kib: Duration,
    fetch: Duration,
    post: Duration,
}

impl Link {
    /// Returns an idle link.
    pub fn new(parameters: LinkParameters) -> Self {
        Link {
            parameters,
            to_host: Timeline::default(),
            to_drive: Timeline::default(),
            four_kib: parameters.occupy(4096),
            // The doorbell travels down, the drive's read request up, and the entry down.
            fetch: parameters.t_way * 3 + parameters.occupy(SUBMISSION_ENTRY),
            post: parameters.t_way + parameters.occupy(COMPLETION_ENTRY),
        }
    }

    /// Returns the time from the doorbell to the arrival of the command. Queue entries are so short that the
    /// model does not count them as load of the link.
    #[inline]
    pub fn fetch(&self) -> Duration {
        self.fetch
    }

    /// Returns the time from the end of the controller's work to the completion in host memory.
    #[inline]
    pub fn post(&self) -> Duration {
        self.post
    }

    /// Returns the round-trip latency, without the time for which data occupies the link.
    #[inline]
    pub fn round_trip(&self) -> Duration {
        self.parameters.t_way * 2
    }

    /// Returns the time for which `bytes` occupy one direction.
    #[inline]
    pub fn occupy(&self, bytes: u64) -> Duration {
        if bytes == 4096 { self.four_kib } else { self.parameters.occupy(bytes) }
    }

    /// Sends data to the host from `now` on and returns the instant at which the last byte has left.
    #[inline]
    pub fn send(&mut self, now: Instant, occupy: Duration) -> Instant {
        self.to_host.reserve(now, occupy)
    }

    /// Receives data requested from the host at `now` and returns the instant at which the data no longer
    /// occupies the link. The round trip of the request is not included.
    #[inline]
    pub fn receive(&mut self, now: Instant, occupy: Duration) -> Instant {
        self.to_drive.reserve(now, occupy)
    }

    /// Resets the link after a power cut.
    pub fn reset(&mut self) {
        self.to_host = Timeline::default();
        self.to_drive = Timeline::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(generation: Generation, lanes: u32) -> LinkParameters {
        LinkParameters { generation, lanes, payload: 256, t_way: Duration::from_ns(150) }
    }

    #[test]
    fn the_rate_of_a_lane_follows_from_its_line_code() {
        // 8 GT/s x 128/130 / 8 = 984.6 MB/s; 5 GT/s x 8/10 / 8 = 500 MB/s.
        assert_eq!(parameters(Generation::Gen3, 1).raw_rate() / 100_000, 9_846);
        assert_eq!(parameters(Generation::Gen2, 4).raw_rate(), 2_000_000_000);
        assert_eq!(parameters(Generation::Gen1, 1).raw_rate(), 250_000_000);
        let ratio = parameters(Generation::Gen5, 4).raw_rate() as f64
            / parameters(Generation::Gen3, 4).raw_rate() as f64;
        assert!((ratio - 4.0).abs() < 1e-6);
    }

    #[test]
    fn packet_overhead_reduces_the_rate() {
        // 256 of 256 + 24 bytes: 91.4 % of 1969 MB/s.
        let gen3_x2 = parameters(Generation::Gen3, 2);
        assert_eq!(gen3_x2.rate() / 1_000_000, 1_800);
        let four_kib = gen3_x2.occupy(4096);
        assert_eq!(four_kib, Duration::from_ratio_secs(4096 + 16 * PACKET_OVERHEAD, gen3_x2.raw_rate()));
        assert_eq!(gen3_x2.occupy(0), Duration::ZERO);
    }

    #[test]
    fn directions_do_not_wait_for_one_another() {
        let mut link = Link::new(parameters(Generation::Gen3, 2));
        let d = link.occupy(4096);
        let now = Instant::from_ns(10);
        assert_eq!(link.send(now, d), now + d);
        assert_eq!(link.send(now, d), now + d * 2);
        assert_eq!(link.receive(now, d), now + d);
    }

    #[test]
    fn impossible_links_are_rejected_by_name() {
        let mut three = parameters(Generation::Gen3, 3);
        assert_eq!(three.check().expect_err("three lanes").path, "nvme.lanes");
        three.lanes = 4;
        three.check().expect("four lanes are possible");
        three.payload = 300;
        assert_eq!(three.check().expect_err("not a power of two").path, "nvme.payload");
    }
}
