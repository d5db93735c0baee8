//! Tests of requests: their data, times, queueing and errors.

use flashlab_device::{Duration, Error, Instant, Io, IoError, Options, device};

#[test]
fn a_device_returns_the_bytes_that_were_written_and_takes_time() {
    let mut card = device("sd/kingston").unwrap();
    let block = card.geometry().block as usize;
    card.write(0, &vec![7; block]).unwrap();
    let written = card.now();
    assert!(written > Instant::ZERO);
    let mut back = vec![0; block];
    card.read(0, &mut back).unwrap();
    assert_eq!(back, vec![7; block]);
    assert!(card.now() > written);
}

#[test]
fn equal_seeds_give_equal_times_and_a_longer_program_time_gives_longer_ones() {
    let time = |name: &str| {
        let mut card = device(name).unwrap();
        for n in 0..64 {
            card.write(n * 4096 * 17, &[1; 4096]).unwrap();
        }
        card.now()
    };
    assert_eq!(time("sd/kingston"), time("sd/kingston"));
    assert!(time("sd/kingston:flash.t_prog=20ms") > time("sd/kingston"));
}

#[test]
fn parallel_reads_take_less_time_on_a_drive_than_reads_one_after_the_other() {
    let time = |depth: usize| {
        let mut drive = device("nvme/p32a80").unwrap();
        for n in 0..64 {
            drive.write(n << 16, &[1; 4096]).unwrap();
        }
        drive.flush().unwrap();
        let start = drive.now();
        for batch in (0..64_u64).collect::<Vec<_>>().chunks(depth) {
            for n in batch {
                drive.submit(Io::Read { offset: n << 16, buffer: vec![0; 4096] });
            }
            let mut count = 0;
            while let Some(completion) = drive.next_completion() {
                assert_eq!(completion.result.unwrap(), vec![1; 4096]);
                assert!(completion.at <= drive.now());
                count += 1;
            }
            assert_eq!(count, batch.len());
        }
        drive.now().since(start)
    };
    assert!(time(16) < time(1));
}

#[test]
fn a_blocking_request_keeps_the_completions_of_submitted_requests() {
    let mut drive = device("nvme/p32a80").unwrap();
    let ticket = drive.submit(Io::Write { offset: 0, data: vec![3; 4096].into(), durable: false });
    drive.write(1 << 20, &[4; 4096]).unwrap();
    let completion = drive.next_completion().unwrap();
    assert_eq!(completion.ticket, ticket);
    assert!(drive.next_completion().is_none());
}

#[test]
fn waiting_advances_time_by_exactly_the_given_time() {
    let mut card = device("sd/kingston").unwrap();
    card.write(0, &[1; 4096]).unwrap();
    let before = card.now();
    card.wait(Duration::from_secs(3));
    assert_eq!(card.now(), before.saturating_add(Duration::from_secs(3)));
}

#[test]
fn requests_outside_the_device_or_of_partial_blocks_fail() {
    let mut card = device("sd/kingston").unwrap();
    let capacity = card.geometry().capacity;
    assert_eq!(card.write(capacity, &[0; 512]), Err(IoError::NoSpace));
    assert_eq!(card.read(capacity - 512, &mut [0; 1024]), Err(IoError::Invalid));
    assert_eq!(card.write(1, &[0; 512]), Err(IoError::Invalid));
    assert_eq!(card.read(u64::MAX, &mut [0; 512]), Err(IoError::Invalid));
}

#[test]
fn a_fault_rule_fails_only_the_chosen_requests() {
    let mut memory = device("memory:size=1MiB").unwrap();
    memory.add_fault("write after=1 times=1 EIO").unwrap();
    assert_eq!(memory.write(0, &[1; 512]), Ok(()));
    assert_eq!(memory.write(0, &[2; 512]), Err(IoError::Medium));
    assert_eq!(memory.write(0, &[3; 512]), Ok(()));
    assert!(memory.add_fault("wirte").unwrap_err().to_string().contains("\"wirte\""));
    memory.add_fault("read").unwrap();
    assert_eq!(memory.read(0, &mut [0; 512]), Err(IoError::Medium));
    memory.clear_faults();
    assert_eq!(memory.read(0, &mut [0; 512]), Ok(()));
}

#[test]
fn the_error_for_a_wrong_name_names_the_nearest_device() {
    let error = device("sd/kingstn").unwrap_err();
    assert!(error.to_string().contains("sd/kingston"), "{error}");
    assert!(matches!(Options::new().quirk("bussy=1s"), Err(Error::Quirk(_))));
    let error = Options::new().card("nvme/p32a80").unwrap_err();
    assert!(error.to_string().contains("nvme/p32a80"), "{error}");
}

#[test]
fn a_card_reports_its_written_bytes_and_its_erase_counts() {
    let mut card = device("sd/kingston").unwrap();
    let bytes_of = |counters: Vec<(&'static str, u64)>| {
        counters.iter().find(|(name, _)| *name == "host_written_bytes").map(|(_, value)| *value)
    };
    card.write(0, &[1; 8192]).unwrap();
    assert_eq!(bytes_of(card.counters()), Some(8192), "{:?}", card.counters());
    assert!(!card.erase_counts().is_empty());
    assert!(device("memory:size=1MiB").unwrap().erase_counts().is_empty());
}
