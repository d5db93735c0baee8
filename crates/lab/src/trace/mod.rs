//! What goes over the wires while a host brings a card up: every command, what is asked with it, what the answer means, how
//! long it took.
//!
//! The host stack of [`flashlab_sd::mmc`] runs on the card of a profile, and its log becomes [`Step`]s in words and Linux' own
//! lines. What repeats unchanged, as ACMD41 does until the card is ready, is one step with a count.

mod words;

use crate::device::Device;
pub use flashlab_sd::mmc::{Controller, Kernel};
use flashlab_sd::mmc::{Direction, Done, Entry, Event, Mmc, MmcRequest, Phase};
use flashlab_sd::{Ios, Native, Power, Timing};
use serde::Serialize;

/// A bring-up, step by step.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// The card as it was asked for.
    pub card: String,
    /// Its full name.
    pub title: String,
    /// The controller's name.
    pub host: &'static str,
    /// What it is.
    pub host_title: &'static str,
    /// The kernel's version.
    pub kernel: &'static str,
    /// What was found; `None`: no card was brought up.
    pub found: Option<Found>,
    /// From power up to the last answer.
    pub duration_ns: u64,
    /// Commands sent, those that were tried again included.
    pub commands: u64,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// What Linux prints.
    #[serde(skip)]
    pub linux: Vec<String>,
}

/// The card that was brought up.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// SD, SDHC, SDXC.
    pub kind: &'static str,
    /// Its relative address.
    pub address: String,
    /// Its name.
    pub name: String,
    /// Its size as Linux says it.
    pub size: String,
    /// The mode that the bus is in.
    pub mode: &'static str,
    /// The clock of the bus.
    pub clock_hz: u32,
    /// Data lines.
    pub width: u8,
}

/// Something that the host did.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// When it began.
    pub at_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What the host is about.
    pub phase: &'static str,
    /// What it did.
    pub kind: StepKind,
    /// How often in a row, the same each time.
    pub times: u32,
    /// What is asked or done.
    pub asked: String,
    /// What the answer means.
    pub means: String,
}

/// What the host did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StepKind {
    /// Sent a command.
    Command {
        /// 0 to 63.
        index: u8,
        /// Whether it is an application command.
        application: bool,
        /// Its name in the specification.
        name: &'static str,
        /// In hexadecimal.
        argument: String,
        /// As Linux prints them.
        flags: String,
        /// How often it was tried.
        tries: u32,
        /// Data that went with it.
        data: Option<DataStep>,
        /// The response in hexadecimal; `None`: none was expected, or none came.
        response: Option<String>,
        /// What went wrong, in words; `None`: nothing.
        error: Option<String>,
        /// The count that was sent before it.
        count: Option<&'static str>,
        /// The stop command, where it was sent.
        stop: Option<&'static str>,
    },
    /// Set power, clock, voltage, width or timing.
    Wires,
    /// Noted something.
    Note,
}

/// Data that goes with a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataStep {
    /// `read` or `write`.
    pub direction: &'static str,
    /// Bytes of a block.
    pub block: u32,
    /// Blocks.
    pub blocks: u32,
}

impl Step {
    /// `CMD8`, `ACMD41`; nothing where no command was sent.
    pub fn command(&self) -> Option<String> {
        let StepKind::Command { index, application, .. } = &self.kind else { return None };
        Some(format!("{}CMD{index}", if *application { "A" } else { "" }))
    }
}

/// The controller that a host of that profile has.
pub fn controller_of(host: &str) -> Controller {
    match host {
        "at91rm9200" => Controller::AT91RM9200,
        "raspberry-pi-4" => Controller::BCM2711,
        _ => Controller::SDHCI,
    }
}

/// Brings up the card of `device` in a slot of `controller` under `kernel`. `None`: the device is no card.
pub fn bring_up(device: &Device, controller: Controller, kernel: Kernel, seed: u64) -> Option<Trace> {
    let card = device.card(seed, None)?;
    let mut mmc = Mmc::new(Native::new(Some(card)), controller, kernel);
    mmc.keep_log();
    mmc.start_host();
    let end = mmc.now();
    let log = mmc.take_log();
    let steps = Reader { mmc: &mmc, end: end.as_ns(), application: false, ios: None }.steps(&log);
    let commands = steps.iter().map(tries).sum();
    let steps = collapse(steps);
    let found = mmc.card().map(|card| Found {
        kind: card.capacity().name(),
        address: format!("{:04x}", card.address),
        name: flashlab_sd::mmc::name_of(&card.cid.name),
        size: flashlab_sd::mmc::size(card.csd.sectors),
        mode: mode(mmc.ios().timing),
        clock_hz: mmc.ios().clock_hz,
        width: mmc.ios().width,
    });
    Some(Trace {
        card: device.argument.clone(),
        title: device.title.clone(),
        host: controller.name,
        host_title: controller.title,
        kernel: kernel.name(),
        found,
        duration_ns: end.as_ns(),
        commands,
        steps,
        linux: log.iter().flat_map(|entry| entry.linux(controller.device)).collect(),
    })
}

/// The mode in words.
fn mode(timing: Timing) -> &'static str {
    match timing {
        Timing::Legacy => "default speed",
        Timing::HighSpeed => "high speed",
        Timing::Sdr12 => "SDR12",
        Timing::Sdr25 => "SDR25",
        Timing::Sdr50 => "SDR50",
        Timing::Ddr50 => "DDR50",
        Timing::Sdr104 => "SDR104",
    }
}

fn tries(step: &Step) -> u64 {
    match &step.kind {
        StepKind::Command { tries, count, stop, .. } => {
            u64::from(*tries) * (1 + u64::from(count.is_some())) + u64::from(stop.is_some())
        }
        StepKind::Wires | StepKind::Note => 0,
    }
}

/// Pairs of an application command that are alike, as one of each with a count; the second of them lasts until the last
/// one is answered.
fn collapse(steps: Vec<Step>) -> Vec<Step> {
    let same = |a: &Step, b: &Step| a.kind == b.kind && a.asked == b.asked && a.means == b.means;
    let mut kept = Vec::new();
    let mut rest = steps.as_slice();
    while let [first, others @ ..] = rest {
        let pairs = match others {
            [second, ..] if first.command().as_deref() == Some("CMD55") => rest
                .chunks_exact(2)
                .take_while(|pair| same(&pair[0], first) && same(&pair[1], second))
                .count(),
            _ => 1,
        };
        if pairs > 1 {
            let (last, times) = (&rest[2 * pairs - 1], pairs as u32);
            let duration_ns = last.at_ns + last.duration_ns - rest[1].at_ns;
            kept.push(Step { times, ..first.clone() });
            kept.push(Step { times, duration_ns, ..rest[1].clone() });
            rest = &rest[2 * pairs..];
        } else {
            kept.push(first.clone());
            rest = others;
        }
    }
    kept
}

/// When what an entry tells of began.
fn begin(entry: &Entry) -> u64 {
    match entry.event {
        Event::Tuned { took, .. } => entry.at.as_ns() - took.as_ns(),
        _ => entry.at.as_ns(),
    }
}

/// Reads a log.
struct Reader<'a> {
    mmc: &'a Mmc,
    end: u64,
    /// CMD55 was answered.
    application: bool,
    ios: Option<Ios>,
}

impl Reader<'_> {
    fn steps(&mut self, log: &[Entry]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut begun = (0, 1);
        for (n, entry) in log.iter().enumerate() {
            let next = log.get(n + 1).map_or(self.end, begin);
            let step = match &entry.event {
                Event::Started(_) => {
                    begun = (entry.at.as_ns(), 1);
                    continue;
                }
                Event::Retried { .. } => {
                    begun.1 += 1;
                    continue;
                }
                Event::Done(request, done) => {
                    let end = entry.at.as_ns();
                    let mut step = self.command(entry.phase, request, done, begun.1);
                    if let (StepKind::Command { error, .. }, Some(failed)) = (&mut step.kind, done.error()) {
                        *error = Some(failed.to_string());
                    }
                    Step { at_ns: begun.0, duration_ns: end - begun.0, ..step }
                }
                other => {
                    let (kind, asked, means) = self.other(other);
                    let at_ns = begin(entry);
                    let phase = entry.phase.name();
                    Step { at_ns, duration_ns: next - at_ns, phase, kind, times: 1, asked, means }
                }
            };
            steps.push(step);
        }
        steps
    }

    fn command(&mut self, phase: Phase, request: &MmcRequest, done: &Done, tries: u32) -> Step {
        let (command, outcome) = (request.order.command, &done.order);
        let moved = done.count.error.is_none() && outcome.error.is_none();
        let stopped = moved && (request.count.is_none() || done.data_error.is_some());
        let application = self.application;
        self.application = command.index == 55 && outcome.error.is_none();
        let sent = words::Sent { phase, request, outcome, application, card: self.mmc.card() };
        let response = (outcome.error.is_none() && request.order.flags() & 1 != 0).then(|| {
            match request.order.flags() & 2 {
                0 => format!("{:08x}", outcome.response[0]),
                _ => outcome.response.map(|word| format!("{word:08x}")).join(" "),
            }
        });
        Step {
            at_ns: 0,
            duration_ns: 0,
            phase: phase.name(),
            kind: StepKind::Command {
                index: command.index,
                application,
                name: words::name(command.index, application),
                argument: format!("{:08x}", command.argument),
                flags: format!("{:08x}", request.order.flags()),
                tries,
                data: request.data.map(|data| DataStep {
                    direction: if data.direction == Direction::Read { "read" } else { "write" },
                    block: data.block,
                    blocks: data.blocks,
                }),
                response,
                error: None,
                count: request.count.map(|_| "CMD23"),
                stop: request.stop.filter(|_| stopped).map(|_| "CMD12"),
            },
            times: 1,
            asked: sent.asked(),
            means: sent.means(),
        }
    }

    fn other(&mut self, event: &Event) -> (StepKind, String, String) {
        match event {
            Event::Ios(ios) => {
                let before = self.ios.replace(*ios);
                (StepKind::Wires, wires(before, ios), String::new())
            }
            Event::Signal(signal) => {
                (StepKind::Wires, format!("The signals have {} V.", words::volts(*signal)), String::new())
            }
            Event::Tuned { blocks, found, .. } => (
                StepKind::Wires,
                format!(
                    "CMD19, {blocks} times: the driver looks for the point at which to sample the card's data."
                ),
                if *found { "It found one." } else { "No point is good." }.to_owned(),
            ),
            other => (StepKind::Note, words::note(other), String::new()),
        }
    }
}

/// What is set that was not so before.
fn wires(before: Option<Ios>, ios: &Ios) -> String {
    let mut set = Vec::new();
    let changed = |same: fn(&Ios, &Ios) -> bool| before.is_none_or(|before| !same(&before, ios));
    if changed(|a, b| a.power == b.power) {
        set.push(match ios.power {
            Power::Off => "power off".to_owned(),
            Power::Up => format!("power at {} V", words::vdd(ios.vdd)),
            Power::On => "power is stable".to_owned(),
        });
    }
    if changed(|a, b| a.clock_hz == b.clock_hz) && (ios.clock_hz > 0 || before.is_some()) {
        set.push(if ios.clock_hz == 0 {
            "the clock stands".to_owned()
        } else {
            format!("clock at {}", words::clock(ios.clock_hz))
        });
    }
    if changed(|a, b| a.width == b.width) {
        set.push(if ios.width == 1 {
            "one data line".to_owned()
        } else {
            format!("{} data lines", ios.width)
        });
    }
    if changed(|a, b| a.timing == b.timing) {
        set.push(format!("timing of {}", mode(ios.timing)));
    }
    if changed(|a, b| a.chip_select == b.chip_select) && before.is_some() {
        set.push(if ios.chip_select == 1 {
            "chip select high, so that CMD0 does not mean SPI".to_owned()
        } else {
            "chip select does not matter".to_owned()
        });
    }
    if changed(|a, b| a.push_pull == b.push_pull) && before.is_some() {
        set.push(if ios.push_pull { "push-pull" } else { "open drain, as MMC begins" }.to_owned());
    }
    let mut text = if set.is_empty() { "nothing changes".to_owned() } else { set.join(", ") };
    text[..1].make_ascii_uppercase();
    text + "."
}
