//! Register parsers of two crates, applied to our registers.

use super::bench::{GIB, MIB};
use embedded_sdmmc_types::sdcard::{cid, csd};
use flashlab_sd::register::Scr;
use flashlab_sd::{CardParameters, Identity, Mode};
use sdio_host::sd::{CID, CSD, OCR, SCR, SD, SDStatus};

fn identities() -> Vec<(u64, Identity)> {
    let mut all = Vec::new();
    for capacity in [64 * MIB, GIB, 4 * GIB, 32 * GIB, 256 * GIB, 1024 * GIB] {
        for uhs in [false, true] {
            let mut parameters = CardParameters::example(capacity);
            if uhs {
                parameters.modes.extend([Mode::Sdr50, Mode::Ddr50, Mode::Sdr104]);
            }
            all.push((capacity, Identity::new(&parameters)));
        }
    }
    all
}

#[test]
fn both_crates_parse_capacities_and_checksums() {
    for (capacity, identity) in identities() {
        let raw = identity.csd.with_crc();
        let parsed = csd::Csd::new(&raw).expect("its checksum is right");
        assert_eq!(parsed.card_capacity_bytes(), capacity);
        assert!(parsed.verify_crc7());
        let other = CSD::<SD>::from(u128::from_be_bytes(raw));
        assert_eq!(other.card_size(), capacity);
        assert_eq!(other.block_count(), capacity / 512);
    }
}

#[test]
fn both_crates_parse_the_identification() {
    for (_, identity) in identities() {
        let raw = identity.cid.with_crc();
        let parsed = cid::Cid::new(&raw).expect("its checksum is right");
        assert_eq!(parsed.product_name_bytes(), *b"FLASH");
        let other = CID::<SD>::from(u128::from_be_bytes(raw));
        assert_eq!((other.oem_id(), other.product_name()), ("FL", "FLASH"));
        assert_eq!(other.manufacturing_date(), (1, 2020));
    }
}

#[test]
fn configuration_status_and_conditions_are_parsed() {
    for (capacity, identity) in identities() {
        let Scr(raw) = identity.scr;
        let scr = SCR(u64::from_be_bytes(raw));
        assert!(scr.bus_width_one() && scr.bus_width_four());
        let words: [u32; 16] = core::array::from_fn(|n| {
            let at = 4 * (15 - n);
            u32::from_be_bytes(identity.ssr.0[at..at + 4].try_into().expect("four bytes"))
        });
        let ssr = SDStatus::from(words);
        assert_eq!(ssr.sd_memory_card_type(), 0);
        assert_eq!(ssr.speed_class(), if capacity > 2 * GIB { 4 } else { 2 });
        let ocr = OCR::<SD>::from(identity.ocr.0);
        assert_eq!(ocr.high_capacity(), capacity > 2 * GIB);
        assert_eq!(ocr.voltage_window_mv(), Some((2_700, 3_600)));
    }
}
