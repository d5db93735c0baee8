//! The host stack in cases that the recorded logs do not contain: empty slots, bad cards, hotplug, sleep.

use flashlab_host::driver::mmc::{Controller, Error, Event, Kernel, Mmc, Phase};
use flashlab_sd::quirk::Quirk;
use flashlab_sd::{Card, CardParameters, Identity, Native};
use flashlab_sim::Duration;

const MIB: u64 = 1 << 20;

fn parameters() -> CardParameters {
    crate::common::parameters(4096 * MIB)
}

/// Returns a card whose CID has this serial number, with or without a cache.
fn card(serial: u8, cache: bool) -> Card {
    let parameters = parameters();
    let mut identity = Identity::new(&parameters);
    identity.cid.0[12] = serial;
    identity.extensions.cache = cache;
    Card::new(parameters, identity, None, 1)
}

fn host(card: Option<Card>, controller: Controller) -> Mmc {
    let mut mmc = Mmc::new(Native::new(card), controller, Kernel::V6_1);
    mmc.keep_log();
    mmc.start_host();
    mmc
}

/// Returns the indices of the commands that were sent, and the lines that Linux prints, since the last call.
fn sent(mmc: &mut Mmc) -> (Vec<u8>, Vec<String>) {
    let log = mmc.take_log();
    let index = |event: &Event| match event {
        Event::Started(request) => Some(request.cmd.command.index),
        _ => None,
    };
    let lines = log.iter().flat_map(|entry| entry.linux("host")).collect();
    (log.iter().filter_map(|entry| index(&entry.event)).collect(), lines)
}

fn has(lines: &[String], words: &str) -> bool {
    lines.iter().any(|line| line.ends_with(words))
}

#[test]
fn an_empty_slot_without_card_detection_is_scanned_at_four_clocks() {
    let mut mmc = host(None, Controller::AT91RM9200);
    let (commands, lines) = sent(&mut mmc);
    for khz in [400, 300, 200] {
        assert!(has(&lines, &format!("trying to init card at {khz}000 Hz")), "{lines:#?}");
    }
    assert!(has(&lines, "trying to init card at 117188 Hz"), "the minimum clock of the controller");
    // CMD52 twice, CMD0, CMD8, CMD5, CMD55 four times, CMD1.
    assert_eq!(commands[..10], [52, 52, 0, 8, 5, 55, 55, 55, 55, 1]);
    assert_eq!(commands.len(), 40);
    assert_eq!(mmc.read(0, 8, &mut []).unwrap_err().error, Error::NoCard);
}

#[test]
fn a_card_that_is_never_ready_is_probed_as_an_mmc_card() {
    let mut identity = Identity::new(&parameters());
    identity.t_init = Duration::from_secs(1_000);
    let mut mmc = host(Some(Card::new(parameters(), identity, None, 1)), Controller::PL181);
    let (commands, lines) = sent(&mut mmc);
    assert!(has(&lines, "mmc0: error -110 whilst initialising SD card"), "{lines:#?}");
    assert_eq!(commands.iter().filter(|index| **index == 1).count(), 4, "once at each clock");
}

#[test]
fn an_empty_slot_with_card_detection_is_not_scanned() {
    let mut mmc = host(None, Controller::SDHCI);
    assert_eq!(sent(&mut mmc).0, [0; 0]);
    mmc.insert(card(1, false));
    assert_eq!(mmc.card().expect("the card is initialised").cid.serial & 0xff, 1);
}

#[test]
fn a_removed_card_is_dropped_and_another_one_is_initialised() {
    for controller in [Controller::SDHCI, Controller::PL181] {
        let mut mmc = host(Some(card(1, false)), controller);
        mmc.read(0, 8, &mut []).expect("the card is in the slot");
        sent(&mut mmc);
        mmc.remove().expect("the card was in the slot");
        mmc.wait(Duration::from_ms(1_100));
        let (commands, lines) = sent(&mut mmc);
        assert_eq!(commands, [13], "{}", controller.name);
        assert_eq!(lines.iter().filter(|line| line.contains("req failed (CMD13): -110")).count(), 3);
        assert!(
            has(&lines, "mmc0: card remove detected") && has(&lines, "mmc0: card 0001 removed"),
            "{lines:#?}"
        );
        assert_eq!(mmc.write(0, 8, &[]).unwrap_err().error, Error::NoCard);
        mmc.insert(card(2, false));
        mmc.wait(Duration::from_ms(1_100));
        assert_eq!(mmc.card().expect("the card is initialised").cid.serial & 0xff, 2);
        mmc.write(0, 8, &[]).expect("the new card accepts writes");
    }
}

#[test]
fn the_next_request_resumes_a_suspended_card() {
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI_UHS);
    let before = *mmc.ios();
    sent(&mut mmc);
    mmc.suspend().expect("the card is suspended");
    // The card accepts a power-off notification, and the host polls it until it is ready.
    let (commands, _) = sent(&mut mmc);
    assert_eq!(commands, [49, 48]);
    mmc.resume();
    assert_eq!(sent(&mut mmc).0, [0; 0], "the resume sends no command");
    mmc.read(0, 8, &mut []).expect("the read wakes the card");
    let (commands, _) = sent(&mut mmc);
    assert!(!commands.contains(&9) && !commands.contains(&51), "its registers are known: {commands:?}");
    assert_eq!(commands.last(), Some(&18));
    assert_eq!((mmc.ios().timing, mmc.ios().clock_hz), (before.timing, before.clock_hz));
}

#[test]
fn another_card_after_suspend_is_not_mistaken_for_the_previous_one() {
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI);
    mmc.suspend().expect("the card is suspended");
    mmc.native_mut().insert(card(2, false));
    mmc.resume();
    assert_eq!(mmc.wake(), Err(Error::Replaced));
    mmc.read(0, 8, &mut []).expect("the other card is initialised");
    assert_eq!(mmc.card().expect("a card").cid.serial & 0xff, 2);
}

#[test]
fn a_cache_is_turned_on_and_flushed() {
    let mut mmc = host(Some(card(1, true)), Controller::SDHCI);
    assert!(mmc.card().expect("a card").extensions.cache_enabled);
    sent(&mut mmc);
    mmc.flush().expect("the card flushes its cache");
    assert_eq!(sent(&mut mmc).0, [49, 48], "a flush, and a read of its result");
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI);
    sent(&mut mmc);
    mmc.flush().expect("a card without a cache has nothing to flush");
    assert_eq!(sent(&mut mmc).0, [0; 0]);
}

#[test]
fn a_block_that_arrives_damaged_is_read_again() {
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI);
    sent(&mut mmc);
    mmc.native_mut().card_mut().expect("a card").quirks_mut().add(Quirk::ReadCrc(13));
    for sector in 0..20 {
        mmc.read(sector * 8, 8, &mut []).expect("a retry reads the blocks");
    }
    let log = mmc.take_log();
    assert!(log.iter().any(|entry| entry.phase == Phase::Recovery), "some blocks arrived damaged");
}

#[test]
fn missing_data_is_an_error_after_all_retries() {
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI);
    sent(&mut mmc);
    mmc.native_mut().card_mut().expect("a card").quirks_mut().add(Quirk::NoData);
    let failed = mmc.read(800, 8, &mut []).expect_err("no data arrives");
    assert_eq!((failed.sector, failed.error), (800, Error::Timeout));
    let (commands, lines) = sent(&mut mmc);
    assert!(commands.iter().filter(|index| **index == 18).count() >= 2, "{commands:?}");
    assert!(commands.contains(&0), "the card was reset before the last try: {commands:?}");
    assert!(has(&lines, "I/O error, dev mmcblk0, sector 800 op 0x0:(READ)"), "{lines:#?}");
}

#[test]
fn a_rejected_write_is_an_error_and_reads_continue() {
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI);
    mmc.native_mut().card_mut().expect("a card").quirks_mut().add(Quirk::ReadOnly);
    assert_eq!(mmc.write(0, 8, &[]).expect_err("the card rejects the write").sector, 0);
    mmc.read(0, 8, &mut []).expect("the card can be read");
}

#[test]
fn requests_beyond_the_end_are_refused_before_anything_is_sent() {
    let mut mmc = host(Some(card(1, false)), Controller::SDHCI);
    let sectors = mmc.card().expect("a card").csd.sectors;
    sent(&mut mmc);
    assert_eq!(mmc.read(sectors - 4, 8, &mut []).unwrap_err().error, Error::Invalid);
    assert_eq!(mmc.discard(sectors, 1).unwrap_err().error, Error::Invalid);
    assert_eq!(sent(&mut mmc).0, [0; 0]);
}
