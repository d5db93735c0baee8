//! The SD Status: section 4.10.2.

use super::{bits, set_bits};
use flashlab_sim::Duration;

/// Sizes in bytes of the allocation units with AU_SIZE codes from 1 on.
const AU: [u64; 15] = {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    [
        16 * KIB,
        32 * KIB,
        64 * KIB,
        128 * KIB,
        256 * KIB,
        512 * KIB,
        MIB,
        2 * MIB,
        4 * MIB,
        8 * MIB,
        12 * MIB,
        16 * MIB,
        24 * MIB,
        32 * MIB,
        64 * MIB,
    ]
};

/// SD Status: the features and performance that the card reports, for example allocation unit, speed classes, and erase
/// time-outs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ssr(pub [u8; 64]);

impl Ssr {
    /// SD Status of a card that reports nothing.
    pub const EMPTY: Ssr = Ssr([0; 64]);

    /// Sets the number of data lines in use: 1 or 4.
    pub fn set_width(&mut self, width: u32) {
        set_bits(&mut self.0, 511, 510, if width == 4 { 0b10 } else { 0 });
    }
    /// Sets the speed class: 0, 2, 4, 6 or 10.
    pub fn set_speed_class(&mut self, class: u8) {
        let code = match class {
            0..=1 => 0,
            2..=3 => 1,
            4..=5 => 2,
            6..=9 => 3,
            _ => 4,
        };
        set_bits(&mut self.0, 447, 440, code);
    }
    /// Returns the speed class (2, 4, 6 or 10), or 0 if there is none.
    pub fn speed_class(&self) -> u8 {
        match bits(&self.0, 447, 440) {
            1 => 2,
            2 => 4,
            3 => 6,
            4 => 10,
            _ => 0,
        }
    }
    /// Sets the allocation unit to the largest size of the specification that does not exceed `bytes`.
    pub fn set_allocation_unit(&mut self, bytes: u64) {
        let code = AU.iter().take_while(|au| **au <= bytes).count();
        set_bits(&mut self.0, 431, 428, code as u64);
    }
    /// Returns the size of the allocation unit in bytes, if the card reports it.
    pub fn allocation_unit(&self) -> Option<u64> {
        let code = bits(&self.0, 431, 428) as usize;
        code.checked_sub(1).map(|place| AU[place])
    }
    /// Sets the erase time-out: `seconds` for `units` allocation units, plus `offset` seconds.
    pub fn set_erase(&mut self, units: u16, seconds: u8, offset: u8) {
        set_bits(&mut self.0, 423, 408, u64::from(units));
        set_bits(&mut self.0, 407, 402, u64::from(seconds));
        set_bits(&mut self.0, 401, 400, u64::from(offset));
    }
    /// Returns the erase time-out of `units` allocation units, at least one second, if the card reports it.
    pub fn erase_timeout(&self, units: u64) -> Option<Duration> {
        let (of, seconds, offset) =
            (bits(&self.0, 423, 408), bits(&self.0, 407, 402), bits(&self.0, 401, 400));
        (of > 0 && seconds > 0).then(|| {
            let part = Duration::from_secs(seconds).scale(units, of);
            (part + Duration::from_secs(offset)).max(Duration::from_secs(1))
        })
    }
    /// Sets the UHS speed grade (0, 1 or 3) and its allocation unit, which equals AU_SIZE but is at least 1 MiB.
    pub fn set_uhs_grade(&mut self, grade: u8) {
        let unit = bits(&self.0, 431, 428);
        set_bits(&mut self.0, 399, 396, u64::from(grade));
        set_bits(&mut self.0, 395, 392, if grade > 0 { unit.max(7) } else { 0 });
    }
    /// Sets whether CMD38 accepts the arguments for discard and for full user area logical erase (FULE).
    pub fn set_erase_kinds(&mut self, discard: bool, full: bool) {
        set_bits(&mut self.0, 313, 313, u64::from(discard));
        set_bits(&mut self.0, 312, 312, u64::from(full));
    }
    /// Returns true if the card supports discard.
    pub fn has_discard(&self) -> bool {
        bits(&self.0, 313, 313) == 1
    }
    /// Returns true if the card supports full user area logical erase (FULE).
    pub fn has_full_erase(&self) -> bool {
        bits(&self.0, 312, 312) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sd_status_of_a_logged_card_is_encoded_and_decoded() {
        let mut ssr = Ssr::EMPTY;
        ssr.set_speed_class(10);
        ssr.set_allocation_unit(4 << 20);
        ssr.set_erase(8, 1, 1);
        assert_eq!(ssr.0[8..14], [4, 0, 0x90, 0, 8, 5]);
        assert_eq!((ssr.speed_class(), ssr.allocation_unit()), (10, Some(4 << 20)));
        assert_eq!(ssr.erase_timeout(16), Some(Duration::from_secs(3)));
        assert_eq!(Ssr::EMPTY.erase_timeout(1), None);
    }
}
