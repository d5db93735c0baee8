//! A card initialisation as text: a line for the request and a line for the meaning of the response, grouped by phase.

use super::lines::wrap;
use crate::number::{self, milliseconds};
use flashlab_lab::trace::{Step, StepKind, Trace};
use std::fmt::Write;

/// Columns at which the words of a step begin: in a wide table, and below the command in a narrow table.
const WORDS: usize = 42;
const WORDS_NARROW: usize = 20;
/// Minimum width of a wide table.
const WIDE: usize = 80;

/// Returns the steps of `trace` in lines of at most `width` characters.
pub fn trace(trace: &Trace, width: usize) -> String {
    let mut text = format!("{}\n{}\n\n", wrap(&headline(trace), width), wrap(&summary(trace), width));
    let column = if width < WIDE { 6 } else { WORDS - 20 };
    let _ = writeln!(text, "{:>9}{:>9}  {:column$}request, > response", "at ms", "took ms", "sent");
    let mut phase = "";
    for step in &trace.steps {
        if step.phase != phase {
            phase = step.phase;
            let _ = writeln!(text, "\n{phase}"); // a String takes everything
        }
        self::step(&mut text, step, width);
    }
    number::plain(&text)
}

/// Returns the headline: `sd/kingston on bcm2711, Linux 6.1`.
pub(crate) fn headline(trace: &Trace) -> String {
    format!("{} on {}, Linux {}", trace.card, trace.host, trace.kernel)
}

/// Returns a sentence on the card that was found, the number of commands and the time.
pub(crate) fn summary(trace: &Trace) -> String {
    let found = match &trace.found {
        Some(found) => format!(
            "{} {} of {} at address {}: {}, {}, {}",
            found.kind,
            found.name,
            found.size,
            found.address,
            found.mode,
            number::with_unit(number::written(f64::from(found.clock_hz) / 1e6), "MHz"),
            if found.width == 1 { "one data line".to_owned() } else { format!("{} data lines", found.width) },
        ),
        None => "No card was brought up".to_owned(),
    };
    let time = number::with_unit(milliseconds(trace.duration_ns), "ms");
    format!("{found}; {} commands, {time}.", trace.commands)
}

/// Returns the name of a command: `ACMD41 40ff8000`, followed by `x 10` if it was repeated, or by `3 tries`
/// if it was retried. Other steps have an empty name.
pub(crate) fn name(step: &Step) -> String {
    let StepKind::Command { argument, tries, .. } = &step.kind else { return String::new() };
    let repeated = match (step.times, tries) {
        (1, 1) => String::new(),
        (1, tries) => format!(" {tries} tries"),
        (times, _) => format!(" x {times}"),
    };
    format!("{} {argument}{repeated}", step.command().unwrap_or_default())
}

/// Returns the first word of the response to a command, or the error: `00000900`, `no answer`.
pub(crate) fn answer(step: &Step) -> String {
    let StepKind::Command { response, error, .. } = &step.kind else { return String::new() };
    match (response, error) {
        (_, Some(error)) => error.clone(),
        (Some(response), None) => response.split(' ').next().unwrap_or_default().to_owned(),
        (None, None) => String::new(),
    }
}

fn step(text: &mut String, step: &Step, width: usize) {
    let (name, answer) = (name(step), answer(step));
    let times = format!("{:>9}{:>9}", milliseconds(step.at_ns), milliseconds(step.duration_ns));
    if width < WIDE {
        let lead = " ".repeat(WORDS_NARROW);
        let room = width.saturating_sub(WORDS_NARROW);
        let _ = writeln!(text, "{}", format!("{times}  {name}").trim_end());
        for line in wrap(&step.asked, room).lines() {
            let _ = writeln!(text, "{lead}{line}"); // a String takes everything
        }
        if !step.means.is_empty() {
            let answered = format!("> {answer} {}", step.means);
            for line in wrap(&answered, room).lines() {
                let _ = writeln!(text, "{lead}{line}");
            }
        }
        return;
    }
    let paragraph = |text: &mut String, head: String, words: &str| {
        for (n, line) in wrap(words, width - WORDS).lines().enumerate() {
            let head = if n == 0 { head.as_str() } else { "" };
            let _ = writeln!(text, "{head:<WORDS$}{line}"); // a String takes everything
        }
    };
    paragraph(text, format!("{times}  {name}"), &step.asked);
    if step.means.is_empty() {
        return;
    }
    let mut head = format!("{:WORDS_NARROW$}> {answer}", "");
    if head.chars().count() >= WORDS {
        // A long answer is on a line of its own, above the words.
        let _ = writeln!(text, "{head}");
        head = String::new();
    }
    paragraph(text, head, &step.means);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_catalogue::{device::Device, library::Library};
    use flashlab_lab::trace::{Controller, Kernel, bring_up};

    #[test]
    fn a_long_answer_is_whole_at_every_width() {
        let library = Library::built_in().expect("the repository's own library");
        let device = Device::open("sd/kingston", &library).expect("the library has this card");
        let trace = bring_up(&device, Controller::SDHCI_UHS, Kernel::V6_1, 1).expect("an SD card");
        for width in [60, 80, 100, 120] {
            let text = super::trace(&trace, width).split_whitespace().collect::<Vec<_>>().join(" ");
            for step in trace.steps.iter().filter(|step| !step.means.is_empty()) {
                assert!(text.contains(&format!("> {}", answer(step))), "{}: {text}", answer(step));
            }
        }
    }
}
