//! Data blocks, and the busy signal on DAT0.

use super::{Fault, Ios, Native, Timing};
use crate::bus::Bus;
use crate::card::{Card, CrcStatus, Transfer};
use crate::crc::{crc16, crc16_lines};
use flashlab_sim::{Duration, Instant};

impl Native {
    /// Returns the time of a block of `length` bytes on the wires. The time of a block of 512 bytes
    /// includes the time that the host adds. Blocks of other lengths take no time if the clock is stopped.
    fn read_time(&self, length: u32) -> Duration {
        match length {
            512 => self.times.read_block,
            _ if self.bus.clock_hz == 0 => Duration::ZERO,
            _ => self.bus.read(u64::from(length)),
        }
    }
    fn write_time(&self, length: u32) -> Duration {
        match length {
            512 => self.times.write_block,
            _ if self.bus.clock_hz == 0 => Duration::ZERO,
            _ => self.bus.write(u64::from(length)),
        }
    }

    /// Reads a block of `length` bytes whose data begins within `limit`. `buffer` has this length, or is empty if the
    /// bytes are not needed. If a checksum is wrong, `buffer` holds the data as received.
    pub fn read_block(&mut self, buffer: &mut [u8], length: u32, limit: Duration) -> Result<(), Fault> {
        let now = self.now;
        let ready = self.receiving_card().and_then(|card| card.block_ready(now));
        let Some(ready) = ready.filter(|ready| *ready <= now.saturating_add(limit)) else {
            self.now = now.saturating_add(limit);
            return Err(Fault::Timeout);
        };
        self.now = ready + self.read_time(length);
        let Native { card: Some(card), ios, .. } = self else { return Err(Fault::Timeout) };
        let sent = match card.transfer() {
            Transfer::Sending { block } => block,
            _ => 0,
        };
        // CMD6 takes effect after its data.
        let mut right = sent == length && agrees(card, ios);
        // Registers have bytes even if the card has no store.
        let with_bytes = sent > 0 && buffer.len() == sent as usize;
        if !card.send_block(self.now, if with_bytes { buffer } else { &mut [] }) {
            self.now = now.saturating_add(limit);
            return Err(Fault::Timeout);
        }
        if with_bytes {
            right &= self.check_read(buffer);
        } else {
            buffer.fill(0);
            if let Some(noise) = &mut self.noise {
                right &= noise.block_to_host(length, self.ios.width);
            }
        }
        self.update_access_mode();
        right &= !self.card.as_mut().is_some_and(|card| card.quirks_mut().damages_read());
        if right || !self.board.checks_crc { Ok(()) } else { Err(Fault::Crc) }
    }

    /// Reads `count` blocks as [`Native::read_block`] does. An error includes the number of blocks read before it.
    pub fn read_blocks(
        &mut self,
        buffer: &mut [u8],
        length: u32,
        count: u32,
        limit: Duration,
    ) -> Result<(), (u32, Fault)> {
        let mut moved =
            if buffer.is_empty() { self.read_blocks_without_bytes(length, count, limit) } else { 0 };
        let mut parts = buffer.chunks_mut(length.max(1) as usize).skip(moved as usize);
        while moved < count {
            let part = parts.next().unwrap_or(&mut []);
            self.read_block(part, length, limit).map_err(|fault| (moved, fault))?;
            moved += 1;
        }
        Ok(())
    }

    /// Reads blocks whose bytes are not needed, if the wires have no bit errors and the card has no quirks.
    /// Returns the number of blocks read.
    fn read_blocks_without_bytes(&mut self, length: u32, count: u32, limit: Duration) -> u32 {
        let (now, each, quiet) = (self.now, self.read_time(length), self.noise.is_none());
        let ios = self.ios;
        let Some(card) = self.receiving_card() else { return 0 };
        if !quiet || !card.has_no_quirks() || card.transfer() != (Transfer::Sending { block: length }) {
            return 0;
        }
        if !agrees(card, &ios) {
            return 0;
        }
        let (sent, last) = card.send_blocks(now, count, each, limit);
        self.now = last;
        sent
    }

    /// Computes the checksums at the card, transfers the block, and compares them with the checksums at the host.
    fn check_read(&mut self, buffer: &mut [u8]) -> bool {
        let sent = checksum(buffer, &self.bus);
        let mut sums = true;
        if let Some(noise) = &mut self.noise {
            noise.corrupt_to_host(buffer, self.ios.width);
            sums = noise.checksums_intact_to_host(self.ios.width);
        }
        sums && checksum(buffer, &self.bus) == sent
    }

    /// Waits up to `limit` until DAT0 is high, and sends a block of `length` bytes. `bytes` may be empty if the card
    /// stores no bytes.
    pub fn write_block(&mut self, bytes: &[u8], length: u32, limit: Duration) -> Result<(), Fault> {
        self.wait_ready(limit)?;
        self.now += self.write_time(length);
        let now = self.now;
        let Some(card) = self.receiving_card() else { return Err(Fault::Timeout) };
        let Transfer::Receiving { block } = card.transfer() else { return Err(Fault::Timeout) };
        let with_bytes = !bytes.is_empty();
        let Native { card: Some(card), noise, bus, ios, .. } = self else { return Err(Fault::Timeout) };
        let mut right = block == length && agrees(card, ios);
        right &= !card.quirks_mut().damages_write();
        let status = if with_bytes {
            let sent = checksum(bytes, bus);
            match noise {
                Some(noise) => {
                    let mut received = bytes.to_vec();
                    noise.corrupt_to_card(&mut received, ios.width);
                    right &= checksum(&received, bus) == sent;
                    card.receive_block(now, &received, right)
                }
                None => {
                    right &= checksum(bytes, bus) == sent;
                    card.receive_block(now, bytes, right)
                }
            }
        } else {
            if let Some(noise) = noise {
                right &= noise.block_to_card(length, ios.width);
            }
            card.receive_block(now, bytes, right)
        };
        match status {
            Some(CrcStatus::Accepted) => Ok(()),
            Some(CrcStatus::CrcError) => Err(Fault::Crc),
            Some(CrcStatus::WriteError) => Err(Fault::WriteError),
            None => Err(Fault::Timeout),
        }
    }

    /// Waits until DAT0 is high, up to `limit`.
    pub fn wait_ready(&mut self, limit: Duration) -> Result<(), Fault> {
        let now = self.now;
        let Some(until) = self.card.as_ref().and_then(|card| card.busy_until(now)) else { return Ok(()) };
        let last = now.saturating_add(limit);
        self.now = until.min(last);
        if until <= last && until < Instant::MAX { Ok(()) } else { Err(Fault::Timeout) }
    }

    /// Returns true if the card holds DAT0 low now.
    pub fn is_busy(&self) -> bool {
        self.card.as_ref().is_some_and(|card| card.busy_until(self.now).is_some())
    }
}

/// Returns true if card and host use the same data lines and clock edges.
#[inline]
fn agrees(card: &Card, ios: &Ios) -> bool {
    let both_edges = Timing::Ddr50;
    card.width() == u32::from(ios.width)
        && (card.access_mode() == both_edges.access_mode()) == (ios.timing == both_edges)
}

/// Computes the checksums of a block on the lines that carry it. With both clock edges, each edge has its own
/// checksums: one covers the even bytes, the other the odd bytes.
fn checksum(bytes: &[u8], bus: &Bus) -> [u64; 2] {
    match (bus.width, bus.ddr) {
        (4, false) => [crc16_lines(bytes), 0],
        (4, true) => {
            let (pairs, _) = bytes.as_chunks::<2>();
            let mut edges = [[0; 256]; 2];
            for (n, pair) in pairs.iter().take(256).enumerate() {
                (edges[0][n], edges[1][n]) = (pair[0], pair[1]);
            }
            let length = pairs.len().min(256);
            [crc16_lines(&edges[0][..length]), crc16_lines(&edges[1][..length])]
        }
        _ => [u64::from(crc16(bytes)), 0],
    }
}
