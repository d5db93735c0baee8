//! sdmmc-protocol in native mode: its card driver on a controller that is a thin layer over our slot.

use super::bench::{GIB, MIB, card};
use super::controller::Controller;
use flashlab_sd::{Card, CardParameters, Identity, Mode, Timing};
use flashlab_sim::{Duration, Store};
use sdmmc_host::ProgressCause;
use sdmmc_protocol::sdio::{CardInfo, CardKind, SdMmcCard, SdMmcInitWait};
use sdmmc_protocol::{DataCommandProgress, Error, OperationProgress};

/// The driver, with the parts of an operating system that wait and handle interrupts for the driver.
struct Driver(SdMmcCard<Controller>);

impl Driver {
    fn new(card: Card) -> Driver {
        Driver(SdMmcCard::new(Controller::new(card)))
    }
    fn bring_up(&mut self) -> Result<CardInfo, Error> {
        let mut request = self.0.submit_init()?;
        loop {
            let cause = match request.wait_kind() {
                SdMmcInitWait::Irq => ProgressCause::AcknowledgedIrq,
                SdMmcInitWait::Register => ProgressCause::RegisterRetry,
            };
            if let OperationProgress::Complete(info) = self.0.advance_init_request(&mut request, cause)? {
                return Ok(info);
            }
            if request.take_needs_pace() {
                self.0.host_mut().native.advance(Duration::from_ms(10));
            }
        }
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Error> {
        let mut request = self.0.submit_write_blocks_from(at, bytes)?;
        match self.0.advance_data_request(&mut request, ProgressCause::AcknowledgedIrq)? {
            DataCommandProgress::Complete(_) => Ok(()),
            DataCommandProgress::Pending => unreachable!("the interrupt has come"),
        }
    }
    fn read(&mut self, at: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let mut request = self.0.submit_read_blocks_into(at, bytes)?;
        match self.0.advance_data_request(&mut request, ProgressCause::AcknowledgedIrq)? {
            DataCommandProgress::Complete(_) => Ok(()),
            DataCommandProgress::Pending => unreachable!("the interrupt has come"),
        }
    }
}

fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * 512).map(|n| (n / 512) as u8 ^ n as u8 ^ seed).collect()
}

#[test]
fn a_card_is_brought_up_and_blocks_move_one_and_several_at_a_time() {
    // A card of 64 MiB is addressed by bytes, and a card of 4 GiB by blocks.
    for capacity in [64 * MIB, 4 * GIB] {
        let (card, store) = card(capacity, &[]);
        let mut driver = Driver::new(card);
        let info = driver.bring_up().expect("the driver initialises the card");
        assert_eq!((info.kind, info.sd_v2, info.high_capacity), (CardKind::Sd, true, capacity > 2 * GIB));
        assert_eq!(info.capacity_blocks, Some(capacity / 512));
        assert!(info.cid.is_some());
        let controller = driver.0.host_mut();
        assert_eq!(info.rca, controller.native.card().expect("it is in").identity().relative_address);
        assert_eq!((controller.native.bus().width, controller.native.ios().timing), (4, Timing::HighSpeed));
        controller.sent.clear();
        let (one, many) = (pattern(7, 1), pattern(9, 40));
        driver.write(77, &one).expect("it can be written");
        driver.write(1000, &many).expect("they can be written");
        for (at, blocks) in [(77, &one), (1000, &many)] {
            let mut back = vec![0; blocks.len()];
            driver.read(at, &mut back).expect("it can be read");
            assert_eq!(back, *blocks, "at {at}");
            store.read(u64::from(at) * 512, &mut back).expect("the range is within the card");
            assert_eq!(back, *blocks, "kept at {at}");
        }
        assert_eq!(driver.0.host().sent, [24, 25, 12, 17, 18, 12]);
        let mut status = driver.0.submit_status().expect("it is idle");
        let state = driver.0.advance_status_request(&mut status, ProgressCause::AcknowledgedIrq);
        let transfer = sdmmc_protocol::response::CardState::Transfer;
        assert!(matches!(state, Ok(OperationProgress::Complete(state)) if state == transfer), "{state:?}");
    }
}

/// CMD6 lists the fast modes only after the switch to 1.8 V signals. The driver requests that switch only after it has
/// seen the fast modes in the list.
#[test]
fn a_uhs_card_is_driven_in_high_speed() {
    let parameters = CardParameters { modes: Mode::ALL.to_vec(), ..CardParameters::example(4 * GIB) };
    let identity = Identity::new(&parameters);
    let mut driver = Driver::new(Card::new(parameters, identity, None, 1));
    driver.bring_up().expect("the driver initialises the card");
    let controller = driver.0.host();
    assert!(!controller.sent.contains(&11));
    assert_eq!(controller.native.ios().timing, Timing::HighSpeed);
}

#[test]
fn a_card_that_is_busy_for_longer_than_the_specification_allows_makes_the_driver_fail() {
    for (quirk, bears) in [
        ("busy=1us", true),
        ("busy=249ms", true),
        ("busy=251ms", false),
        ("busy=500ms", false),
        ("stuck-busy", false),
    ] {
        for blocks in [1, 3] {
            let (card, _) = card(4 * GIB, &[quirk]);
            let mut driver = Driver::new(card);
            driver.bring_up().expect("the driver initialises the card");
            let written = driver.write(5, &pattern(1, blocks));
            let expected = if bears { Ok(()) } else { Err(Error::Timeout(Default::default())) };
            assert_eq!(written, expected, "{quirk}, {blocks} blocks");
        }
    }
}

#[test]
fn errors_on_the_wires_are_reported_by_name() {
    let (timeout, crc) = (Error::Timeout(Default::default()), Error::Crc(Default::default()));
    let read = |quirk| {
        let (card, _) = card(4 * GIB, &[quirk]);
        let mut driver = Driver::new(card);
        driver.bring_up()?;
        driver.write(5, &pattern(1, 4))?;
        driver.read(5, &mut pattern(2, 4))
    };
    assert_eq!(read("silent"), Err(timeout));
    assert_eq!(read("no-data"), Err(timeout));
    assert_eq!(read("remove@CMD25"), Err(timeout));
    assert_eq!(read("power-cut@CMD18"), Err(timeout));
    assert_eq!(read("write-crc=3"), Err(crc));
    assert_eq!(read("read-crc=5"), Err(crc));
    assert_eq!(read("busy=1ms"), Ok(()));
}
