//! The bus traffic while a host initialises a card: every command with its meaning, the meaning of the response, and
//! its duration.
//!
//! The host stack of [`flashlab_host::driver::mmc`] runs on the card of a profile. Its log becomes [`Step`]s
//! in words, and the lines that Linux would print. CMD55 and an application command that repeat unchanged,
//! such as ACMD41 until the card is ready, are one pair of steps with a count.

mod words;

use flashlab_catalogue::device::Device;
pub use flashlab_host::driver::mmc::{Controller, Kernel};
use flashlab_host::driver::mmc::{Direction, Done, Entry, Event, Mmc, MmcRequest, Phase};
use flashlab_sd::{Ios, Native, Power, Timing, opcode};
use serde::Serialize;

/// The steps of a card initialisation.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// The card as the argument names it.
    pub card: String,
    /// Full name of the card.
    pub title: String,
    /// The controller's name.
    pub host: &'static str,
    /// The full name of the controller.
    pub host_title: &'static str,
    /// The kernel's version.
    pub kernel: &'static str,
    /// The card that was found; `None` if no card was initialised.
    pub found: Option<Found>,
    /// Time from power-up to the last response.
    pub duration_ns: u64,
    /// Number of commands that the MMC core sent, including retries, but without the tuning commands (CMD19) of the
    /// controller's driver.
    pub commands: u64,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// The lines that Linux prints.
    #[serde(skip)]
    pub linux: Vec<String>,
}

/// The card that was initialised.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The kind of card: SD, SDHC, SDXC, SDUC.
    pub kind: &'static str,
    /// The relative card address (RCA).
    pub address: String,
    /// The product name.
    pub name: String,
    /// The size as Linux prints it.
    pub size: String,
    /// The bus speed mode.
    pub mode: &'static str,
    /// The bus clock.
    pub clock_hz: u32,
    /// Number of data lines.
    pub width: u8,
}

/// One action of the host.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Start of the step.
    pub at_ns: u64,
    /// Duration of the step.
    pub duration_ns: u64,
    /// The phase of the initialisation.
    pub phase: &'static str,
    /// The kind of action.
    pub kind: StepKind,
    /// Number of consecutive identical occurrences that this step stands for.
    pub times: u32,
    /// The request or action, in words.
    pub asked: String,
    /// The meaning of the response, in words.
    pub means: String,
}

/// The kind of an action.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StepKind {
    /// The host sent a command.
    Command {
        /// Command index, 0 to 63.
        index: u8,
        /// True for an application command.
        application: bool,
        /// The name in the specification.
        name: &'static str,
        /// The argument in hexadecimal.
        argument: String,
        /// The flags as Linux prints them.
        flags: String,
        /// Number of attempts.
        tries: u32,
        /// The data transfer of the command.
        data: Option<DataStep>,
        /// The response in hexadecimal; `None` if the command has no response or the card sent none.
        response: Option<String>,
        /// The error in words; `None` if the command succeeded.
        error: Option<String>,
        /// The command that set the block count before this command.
        count: Option<&'static str>,
        /// The stop command, if it was sent.
        stop: Option<&'static str>,
    },
    /// The host set power, clock, voltage, width or timing.
    #[serde(rename = "wires")]
    Bus,
    /// The host logged a note.
    Note,
}

/// The data transfer of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataStep {
    /// `read` or `write`.
    pub direction: &'static str,
    /// Block size in bytes.
    pub block: u32,
    /// Number of blocks.
    pub blocks: u32,
}

impl Step {
    /// Returns the command as `CMD8` or `ACMD41`, or `None` if the step is not a command.
    pub fn command(&self) -> Option<String> {
        let StepKind::Command { index, application, .. } = &self.kind else { return None };
        Some(format!("{}CMD{index}", if *application { "A" } else { "" }))
    }
}

/// Returns the controller of a host profile.
pub fn controller_of(host: &str) -> Controller {
    match host {
        "at91rm9200" => Controller::AT91RM9200,
        "raspberry-pi-4" => Controller::BCM2711,
        _ => Controller::SDHCI,
    }
}

/// Initialises the card of `device` in a slot of `controller` under `kernel`. Returns `None` if the device is not a
/// card.
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
        name: flashlab_host::driver::mmc::name_of(&card.cid.name),
        size: flashlab_host::driver::mmc::size(card.csd.sectors),
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

/// Returns the bus speed mode in words.
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
        StepKind::Bus | StepKind::Note => 0,
    }
}

/// Merges identical consecutive pairs of CMD55 and an application command into one pair with a count. The merged
/// application command lasts until the last response.
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

/// Returns the instant at which the action of an entry began.
fn begin(entry: &Entry) -> u64 {
    match entry.event {
        Event::Tuned { took, .. } => entry.at.as_ns() - took.as_ns(),
        _ => entry.at.as_ns(),
    }
}

/// Converts a log to steps.
struct Reader<'a> {
    mmc: &'a Mmc,
    end: u64,
    /// True if the card has just responded to CMD55.
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
        let (command, outcome) = (request.cmd.command, &done.cmd);
        let moved = done.count.error.is_none() && outcome.error.is_none();
        let stopped = moved && (request.count.is_none() || done.data_error.is_some());
        let application = self.application;
        self.application = command.index == opcode::APP_CMD && outcome.error.is_none();
        let sent = words::Sent { phase, request, outcome, application, card: self.mmc.card() };
        let response = (outcome.error.is_none() && request.cmd.flags() & 1 != 0).then(|| {
            match request.cmd.flags() & 2 {
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
                flags: format!("{:08x}", request.cmd.flags()),
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
                (StepKind::Bus, wires(before, ios), String::new())
            }
            Event::Signal(signal) => {
                (StepKind::Bus, format!("The signal voltage is {} V.", words::volts(*signal)), String::new())
            }
            Event::Tuned { blocks, found, .. } => (
                StepKind::Bus,
                format!(
                    "CMD19, {blocks} times: the driver looks for the point at which to sample the card's data."
                ),
                if *found { "It found one." } else { "No point is good." }.to_owned(),
            ),
            other => (StepKind::Note, words::note(other), String::new()),
        }
    }
}

/// Describes the settings that changed.
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
            "the clock is stopped".to_owned()
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
            "chip select high, so that CMD0 does not select SPI mode".to_owned()
        } else {
            "chip select does not matter".to_owned()
        });
    }
    if changed(|a, b| a.push_pull == b.push_pull) && before.is_some() {
        set.push(if ios.push_pull { "push-pull" } else { "open drain, as MMC cards start" }.to_owned());
    }
    let mut text = if set.is_empty() { "nothing changes".to_owned() } else { set.join(", ") };
    text[..1].make_ascii_uppercase();
    text + "."
}
