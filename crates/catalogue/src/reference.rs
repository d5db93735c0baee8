//! The text of docs/parameters.md: every number of a profile, and every mechanism of a result.

use crate::explain::in_words;
use crate::profile::{Kind, Parameter};
use crate::units::or_list;
use flashlab_sim::Mechanism;
use std::fmt::Write;

const HEAD: &str = "\
# Parameters

<!-- Written by UPDATE_DOCS=1 cargo test -p flashlab --features full --test all reference; change crates/catalogue/src/profile. -->

A profile gives a device, a host or a filesystem its numbers, each with a unit and a source. `flashlab explain NAME` prints
the meaning of a number together with its value and source in every profile, and `flashlab explain sd/kingston` all numbers
of a device. An argument can change them: `sd/kingston:flash.t_prog=250us,card.queue=32`.
";

const MECHANISMS: &str = "
## Mechanisms of a result

Each request spends its time on these mechanisms, and a result says how much on each.

| mechanism | meaning | parameters that change it |
|---|---|---|
";

/// Returns the text of docs/parameters.md.
pub fn parameter_reference() -> String {
    let mut text = HEAD.to_owned();
    let mut section = ("", Vec::new());
    for parameter in Parameter::all() {
        let kinds: Vec<&str> =
            Kind::all().filter(|kind| kind.has(parameter)).map(|kind| kind.noun()).collect();
        if section != (parameter.section(), kinds.clone()) {
            section = (parameter.section(), kinds);
            let (name, kinds) = &section;
            write!(text, "\n## {name}: {}\n\n", or_list(kinds)).expect("a string accepts all text");
            text.push_str("| parameter | value | meaning | if omitted |\n|---|---|---|---|\n");
        }
        row(&mut text, parameter);
    }
    text.push_str(MECHANISMS);
    for mechanism in Mechanism::ALL {
        let (meaning, moved_by) = in_words(mechanism);
        writeln!(text, "| {} | {} | {} |", mechanism.name(), escaped(meaning), escaped(moved_by))
            .expect("a string accepts all text");
    }
    text
}

fn row(text: &mut String, parameter: &Parameter) {
    let omitted = parameter.default_meaning.unwrap_or("required");
    writeln!(
        text,
        "| `{}` | {} | {} | {} |",
        parameter.path,
        escaped(&parameter.form()),
        escaped(parameter.meaning),
        escaped(omitted)
    )
    .expect("a string accepts all text");
}

/// Escapes text for a cell of a Markdown table.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('_', "\\_").replace('*', "\\*")
}
