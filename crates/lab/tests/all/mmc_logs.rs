//! Compares the host stack on simulated cards with recorded Linux logs, line by line.
//!
//! The comparison covers commands, block counts and stop commands (opcode, argument, flags), data (block size, blocks,
//! flags, timeout), clock lines and the lines that Linux prints about the card, in order. docs/sd-commands.md lists the
//! exceptions: the polls of the slot once a second, whose positions in the log depend on the timing of the recording
//! machine, and the end of the VUB300 log.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_host::driver::mmc::{Controller, Kernel, Mmc, Phase};
use flashlab_sd::Native;
use flashlab_sim::Duration;

/// Returns true for lines about outcomes, which are compared separately if the log has them.
fn is_answer(text: &str) -> bool {
    ["req done", "req failed", "bytes transferred", "(CMD"].iter().any(|part| text.contains(part))
}

/// Returns the outcomes of requests with the response: the first word, or the CID or CSD without the checksum.
/// Responses to stop commands that an adapter sends by itself are specific to the adapter and excluded.
fn answers<'a>(log: impl Iterator<Item = &'a str>) -> Vec<Line> {
    let texts = (1..).zip(log).filter_map(|(number, line)| Some((number, line.split_once("] ")?.1)));
    let ends = texts.filter(|(_, text)| text.contains("req done") || text.contains("bytes transferred"));
    let said = |text: &str| {
        let Some((request, words)) = text.split_once(": 0: ") else { return text.to_owned() };
        let long = request.ends_with("(CMD2)") || request.ends_with("(CMD9)");
        format!("{request}: 0: {}", &words[..if long { words.len() - 2 } else { 8 }])
    };
    ends.map(|(number, text)| Line { number, text: said(text.trim_end()) }).collect()
}

/// A line and its number in the recorded file or in the simulated log.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
}

/// A request of the block layer after a line `=== STEP: ...`.
enum BlockRequest {
    Read(u64, u32),
    Write(u64, u32),
    Discard(u64, u64),
    Shutdown,
}
use BlockRequest::{Discard, Read, Shutdown, Write};

/// Returns the block requests that the file system and the page cache made in a step, as the logs show them. The queue
/// of the PL181 is too small for 129 blocks in one request.
fn block_requests(step: &str, controller: &Controller) -> Vec<BlockRequest> {
    match step {
        "sysfs registers" => vec![],
        "dd read 4K direct at 1 MiB" => vec![Read(2048, 8)],
        "dd read 512 direct at sector 7" => vec![Read(0, 32)],
        "dd read 1M direct at 2 MiB" => vec![Read(4096, 2048)],
        "dd write 512 direct at sector 100000" => vec![Read(100_000, 8), Write(100_000, 8)],
        "dd write 4K direct" => vec![Write(65_536, 8)],
        "dd write 1M direct" => vec![Write(81_920, 2048)],
        "blkdiscard 1M at 40M" => vec![Discard(81_920, 2048)],
        "mount vfat" => vec![Read(0, 1), Read(1, 1), Read(0x20, 1), Read(0x802, 1), Write(0, 1)],
        "vfat write 64K + sync" => {
            let mut requests = vec![Read(0x21, 1), Write(0x20, 2), Write(0x411, 2)];
            match controller.transfer_blocks() {
                0..129 => requests.extend([Write(0x802, 1), Write(0x803, 128)]),
                _ => requests.push(Write(0x802, 129)),
            }
            requests.extend([Write(1, 1), Write(0x802, 1)]);
            requests
        }
        "vfat umount" => vec![Write(0, 1)],
        "END" => vec![Shutdown],
        other => panic!("no such step: {other}"),
    }
}

/// Returns the steps and the comparable lines of a log. Omits the slot polls: each CMD13 that follows neither a write
/// nor an erase.
fn recorded(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut busy = false;
    for (n, line) in text.lines().enumerate() {
        let Some((_, text)) = line.split_once("] ") else { continue };
        let starting = text.strip_prefix("mmc0: starting CMD");
        let index = starting.and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        let application = lines.last().is_some_and(|line: &Line| line.text.contains("starting CMD55"));
        if index == Some(13) && !busy && !application {
            continue;
        }
        if index.is_some() {
            busy = matches!(index, Some(24 | 25 | 38));
        }
        if text.trim() != "mmcblk0:" && !is_answer(text) {
            lines.push(Line { number: n + 1, text: text.trim_end().to_owned() });
        }
    }
    lines
}

fn host(card: &str, controller: Controller, kernel: Kernel) -> Mmc {
    let device = Device::open(card, &Library::built_in().unwrap()).unwrap();
    let mut mmc = Mmc::new(Native::new(device.card(1, None)), controller, kernel);
    mmc.keep_log();
    mmc
}

/// Appends the simulated log to `lines` in the form of the recorded logs, and all lines that Linux would print to
/// `printed`.
fn take_log(mmc: &mut Mmc, lines: &mut Vec<Line>, printed: &mut Vec<String>) {
    for entry in mmc.take_log() {
        if entry.phase == Phase::Detect {
            continue;
        }
        for line in entry.linux(mmc.controller().device) {
            printed.push(line.clone());
            let text = line.split_once("] ").unwrap().1.trim_end().to_owned();
            if !is_answer(&text) && !text.contains("Initial signal voltage") {
                lines.push(Line { number: lines.len() + 1, text });
            }
        }
    }
}

fn first_difference(name: &str, recorded: &[Line], simulated: &[Line]) {
    for n in 0..recorded.len().max(simulated.len()) {
        let (recorded, simulated) = (recorded.get(n), simulated.get(n));
        if recorded.map(|line| &line.text) != simulated.map(|line| &line.text) {
            let show = |line: Option<&Line>| {
                line.map_or("nothing".to_owned(), |line| format!("line {}: {}", line.number, line.text))
            };
            panic!(
                "{name}: the log has {}\n{}the simulation has {}",
                show(recorded),
                " ".repeat(name.len() + 2),
                show(simulated)
            );
        }
    }
}

fn replay(name: &str, text: &str, card: &str, controller: Controller) -> Vec<String> {
    let mut recorded = recorded(text);
    let mut mmc = host(card, controller, Kernel::V6_1);
    let (mut lines, mut printed) = (Vec::new(), Vec::new());
    mmc.start_host();
    take_log(&mut mmc, &mut lines, &mut printed);
    for step in recorded.iter().filter_map(|line| line.text.strip_prefix("=== STEP: ")) {
        if step.starts_with("insmod") {
            continue;
        }
        mmc.wait(Duration::from_ms(1500));
        for request in block_requests(step, &controller) {
            match request {
                Read(sector, count) => mmc.read(sector, count, &mut []).unwrap(),
                Write(sector, count) => mmc.write(sector, count, &[]).unwrap(),
                Discard(sector, count) => mmc.discard(sector, count).unwrap(),
                Shutdown => mmc.shutdown().unwrap(),
            }
        }
        take_log(&mut mmc, &mut lines, &mut printed);
    }
    recorded.retain(|line| !line.text.starts_with("=== STEP"));
    if controller == Controller::VUB300 {
        // The card of this log did not answer CMD7 with address 0 as the adapter expects, so the rest of the log does
        // not apply.
        let end = recorded.iter().position(|line| line.text.contains("starting CMD7 arg 00000000")).unwrap();
        recorded.truncate(end + 1);
        let power_off = lines.pop().unwrap();
        assert!(power_off.text.contains("powermode 0"), "{power_off:?}");
    }
    assert!(recorded.len() > 100, "{name}: {} lines are compared", recorded.len());
    first_difference(name, &recorded, &lines);
    printed
}

#[test]
fn the_log_of_pl181_is_reproduced() {
    replay("pl181.txt", include_str!("../traces/pl181.txt"), "sd/qemu-sdsc", Controller::PL181);
}

#[test]
fn the_log_of_sdhci_is_reproduced() {
    replay("sdhci.txt", include_str!("../traces/sdhci.txt"), "sd/qemu-sdsc", Controller::SDHCI);
}

#[test]
fn the_log_of_vub300_is_reproduced() {
    let text = include_str!("../traces/vub300.txt");
    let printed = replay("vub300.txt", text, "sd/vlab-sdhc", Controller::VUB300);
    let mut recorded = answers(text.lines());
    let mut simulated = answers(printed.iter().map(String::as_str));
    // The comparison ends at the failed CMD7. The recorded card did not report ILLEGAL_COMMAND after CMD5.
    let end = recorded.iter().position(|line| line.text.starts_with("mmc0: req done (CMD7): -110"));
    recorded.truncate(end.unwrap_or(recorded.len()));
    assert_eq!(simulated.pop().unwrap().text, "mmc0: req done (CMD7): 0: 00000000");
    let response =
        simulated.iter_mut().find(|line| line.text == "mmc0: req done (CMD55): 0: 00400120").unwrap();
    response.text = "mmc0: req done (CMD55): 0: 00000120".to_owned();
    assert!(recorded.len() > 80, "{} answers are compared", recorded.len());
    first_difference("vub300.txt", &recorded, &simulated);
}

/// The slot polls, which the comparison omits, occur once a second.
#[test]
fn a_slot_without_card_detect_is_polled_once_a_second() {
    let polls = |text: &str| {
        let all = text.matches("starting CMD13").count();
        all - recorded(text).iter().filter(|line| line.text.contains("starting CMD13")).count()
    };
    assert_eq!(polls(include_str!("../traces/pl181.txt")), 4, "in four seconds");
    assert_eq!(polls(include_str!("../traces/sdhci.txt")), 0);
    let mut mmc = host("sd/qemu-sdsc", Controller::PL181, Kernel::V6_1);
    mmc.start_host();
    mmc.take_log();
    mmc.wait(Duration::from_ms(4_100));
    let log = mmc.take_log();
    assert_eq!(log.iter().filter(|entry| entry.phase == Phase::Detect).count(), 8, "each begins and ends");
}

#[test]
fn a_difference_is_reported_with_its_line_numbers() {
    let text =
        include_str!("../traces/sdhci.txt").replace("starting CMD9 arg 4567", "starting CMD9 arg 4568");
    let panic = std::panic::catch_unwind(|| {
        replay("sdhci.txt", &text, "sd/qemu-sdsc", Controller::SDHCI);
    });
    let message = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the log has line 23: mmc0: starting CMD9 arg 45680000"), "{message}");
    assert!(message.contains("the simulation has line 21: mmc0: starting CMD9 arg 45670000"), "{message}");
}

/// The published trace of Linux 5.15 on the PL181.
#[test]
fn the_published_bring_up_is_reproduced_command_by_command() {
    let published: toml::Table = include_str!("../traces/bring-up-5.15.toml").parse().unwrap();
    let commands = |section: &str| {
        let list = published[section]["command"].as_array().unwrap().clone();
        list.into_iter().map(|command| {
            let text = |key: &str| command[key].as_str().unwrap().to_owned();
            format!("mmc0: starting CMD{} arg {} flags {}", command["cmd"], text("arg"), text("flags"))
        })
    };
    let expected: Vec<String> = commands("rescan").chain(commands("attach_sd")).collect();
    let mut mmc = host("sd/qemu-sdsc", Controller::PL181, Kernel::V5_15);
    mmc.start_host();
    let mut lines = Vec::new();
    take_log(&mut mmc, &mut lines, &mut Vec::new());
    let starting = lines.iter().filter(|line| line.text.contains("starting"));
    let sent: Vec<&str> = starting.map(|line| line.text.as_str()).take(expected.len()).collect();
    assert_eq!(sent, expected);
    let new = published["attach_sd"]["result"]["line"].as_str().unwrap();
    assert!(lines.iter().any(|line| line.text == new), "{lines:?}");
    let card = mmc.card().unwrap();
    assert!(!card.csd.block_addressed, "state 1: present, and nothing more");
}

/// The registers match those that Linux showed, except for the checksums: QEMU does not set their end bit to one.
#[test]
fn the_registers_are_those_that_linux_showed() {
    for (text, card, controller) in [
        (include_str!("../traces/pl181.txt"), "sd/qemu-sdsc", Controller::PL181),
        (include_str!("../traces/sdhci.txt"), "sd/qemu-sdsc", Controller::SDHCI),
        (include_str!("../traces/vub300.txt"), "sd/vlab-sdhc", Controller::VUB300),
    ] {
        let mut mmc = host(card, controller, Kernel::V6_1);
        mmc.start_host();
        let card = mmc.card().unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let shown = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("{key}")).trim().to_owned()
        };
        assert_eq!(hex(&card.cid_raw[..15]), shown("cid")[..30]);
        assert_eq!(hex(&card.csd_raw[..15]), shown("csd")[..30]);
        assert_eq!(hex(&card.scr_raw), shown("scr"));
        assert_eq!(hex(&card.ssr_raw), shown("ssr"));
        assert_eq!(format!("{:#010x}", card.ocr), shown("ocr"));
        assert_eq!(format!("{:#06x}", card.address), shown("rca"));
        assert_eq!(format!("{:#x}", card.cid.revision.0), shown("hwrev"));
        assert_eq!(format!("{:#x}", card.cid.revision.1), shown("fwrev"));
        assert_eq!(format!("{:#08x}", card.cid.manufacturer), shown("manfid"));
        assert_eq!(flashlab_host::driver::mmc::name_of(&card.cid.name), shown("name"));
        assert_eq!(format!("{:#06x}", card.cid.oem), shown("oemid"));
        assert_eq!(format!("{:#x}", card.cid.serial), shown("serial"));
        assert_eq!(format!("{:02}/{}", card.cid.date.1, card.cid.date.0), shown("date"));
        assert_eq!((card.erase.unit * 512).to_string(), shown("erase_size"));
        assert_eq!((u64::from(card.erase.preferred) * 512).to_string(), shown("preferred_erase_size"));
    }
}
