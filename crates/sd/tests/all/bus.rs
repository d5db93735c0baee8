//! Compares the bus with the figures of the specification's public summary.

use flashlab_sd::{Bus, Mode};

/// Each row has a mode, the time of a block without gaps in microseconds, and the largest rate in MB/s. The time
/// follows from the clock cycles of a block: data, CRC16, start and stop bits.
#[test]
fn block_times_are_the_clocks_of_the_specification() {
    let one_bit = Bus { clock_hz: 25_000_000, width: 1, ddr: false };
    for (bus, expected_us, ceiling) in [
        (one_bit, 164.6, 3.10),
        (Mode::DefaultSpeed.bus(), 41.7, 12.2),
        (Mode::HighSpeed.bus(), 20.84, 24.4),
        (Mode::Sdr50.bus(), 10.42, 48.8),
        (Mode::Sdr104.bus(), 5.01, 101.4),
        (Mode::Ddr50.bus(), 10.60, 47.6),
    ] {
        let gap_us = 8.0 / bus.clock_hz as f64 * 1e6;
        let us = bus.read_block().as_ns() as f64 / 1e3;
        assert!((us - gap_us - expected_us).abs() < 0.01 * expected_us, "{bus:?}: {us} us");
        // Gaps cost up to 2 %, which the ceiling of the summary does not include.
        assert!(512.0 / us <= ceiling * 1.01, "{bus:?}");
    }
}

#[test]
fn a_write_block_also_waits_for_its_crc_status() {
    let bus = Mode::HighSpeed.bus();
    assert_eq!((bus.write_block() - bus.read_block()).as_ns(), 9 * 20);
    assert_eq!(bus.command().as_ns(), 150 * 20);
}
