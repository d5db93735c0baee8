//! Checksums on the wires: CRC7 of commands and responses, CRC16 of data (SD Physical Layer Specification, section
//! 4.5).
//!
//! With four data lines, each line carries a CRC16 of its own bits. Line n holds bit n of each half byte. The
//! four checksums are therefore computed as one, with polynomials whose coefficients are half bytes. The
//! combined checksum shifts by four bits where the checksum of one line shifts by one. One step processes the
//! sixteen half bytes of a 64-bit word.

/// Table of the polynomial x^7 + x^3 + 1, for a byte at a time. The checksum is in the upper seven bits.
const CRC7: [u8; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut sum = n as u8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x80 == 0 { sum << 1 } else { sum << 1 ^ 0x09 << 1 };
            bit += 1;
        }
        table[n] = sum;
        n += 1;
    }
    table
};

/// Tables of the polynomial x^16 + x^12 + x^5 + 1. Table `slice` is for a byte with `slice` bytes after it.
const CRC16: [[u16; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut n = 0;
    while n < 256 {
        let mut sum = (n as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
            bit += 1;
        }
        tables[0][n] = sum;
        n += 1;
    }
    let mut slice = 1;
    while slice < 8 {
        let mut n = 0;
        while n < 256 {
            let before: u16 = tables[slice - 1][n];
            tables[slice][n] = before << 8 ^ tables[0][(before >> 8) as usize];
            n += 1;
        }
        slice += 1;
    }
    tables
};

/// Returns the CRC7 of `bytes`: seven bits.
pub fn crc7(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| CRC7[usize::from(sum ^ byte)]) >> 1
}

/// Returns the CRC16 of `bytes` on one line.
pub fn crc16(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0u16, |sum, word| {
        let [high, low] = sum.to_be_bytes();
        let first = [word[0] ^ high, word[1] ^ low];
        let table = |slice: usize, byte: u8| CRC16[slice][usize::from(byte)];
        table(7, first[0])
            ^ table(6, first[1])
            ^ table(5, word[2])
            ^ table(4, word[3])
            ^ table(3, word[4])
            ^ table(2, word[5])
            ^ table(1, word[6])
            ^ table(0, word[7])
    });
    rest.iter().fold(sum, |sum, byte| sum << 8 ^ CRC16[0][usize::from((sum >> 8) as u8 ^ byte)])
}

/// Returns the CRC16 of each of the four lines that carry `bytes`, in the order of transmission. Each of the
/// sixteen clocks has a half byte, with line 3 in the upper bit.
pub fn crc16_lines(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| after_word(sum ^ u64::from_be_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| after_half(after_half(sum, byte >> 4), byte & 0xf))
}

/// Multiplies the checksum by x^16.
#[inline]
fn after_word(sum: u64) -> u64 {
    // Since x^16 = x^12 + x^5 + 1, coefficients that are shifted out on the left are added at these three
    // places, until no coefficient is shifted out.
    let out = |sum: u64| sum >> 16 ^ sum >> 44;
    let first = out(sum);
    let second = out(first);
    let all = sum ^ first ^ second ^ out(second);
    all ^ all << 20 ^ all << 48
}

#[inline]
fn after_half(sum: u64, half: u8) -> u64 {
    let out = sum >> 60 ^ u64::from(half);
    sum << 4 ^ out ^ out << 20 ^ out << 48
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Computes the CRC16 bit by bit, as in the figure of the specification.
    fn bits_crc16(bits: impl Iterator<Item = bool>) -> u16 {
        bits.fold(0, |sum, bit| {
            let out = (sum >> 15 == 1) != bit;
            sum << 1 ^ if out { 0x1021 } else { 0 }
        })
    }

    #[test]
    fn checksums_match_the_examples_of_the_specification() {
        // Section 4.5: 512 bytes of ones.
        assert_eq!(crc16(&[0xff; 512]), 0x7fa1);
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0x4a);
    }

    proptest! {
        #[test]
        fn checksums_from_tables_equal_those_bit_by_bit(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let bit = |n: usize| bytes[n / 8] >> (7 - n % 8) & 1 == 1;
            prop_assert_eq!(crc16(&bytes), bits_crc16((0..bytes.len() * 8).map(bit)));
            let lines = crc16_lines(&bytes);
            for line in 0..4 {
                let expected = bits_crc16((0..bytes.len() * 2).map(|clock| bit(4 * clock + 3 - line)));
                let of_line: Vec<bool> = (0..16).map(|clock| lines >> (4 * clock + line) & 1 == 1).collect();
                let sum = of_line.iter().rev().fold(0, |sum, bit| sum << 1 | u16::from(*bit));
                prop_assert_eq!(sum, expected, "line {}", line);
            }
        }
    }
}
