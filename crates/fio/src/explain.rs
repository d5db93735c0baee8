//! The option table as text and JSON, for `flashlab explain` and for docs/fio-options.md.

use serde_json::{Value, json};
use std::fmt::Write;

use crate::cmdline::{Effect, PROGRAM};
use crate::option::{self, Entry, Support, TABLE};

/// Returns the description of the job option, program option or `include` that has this name or alias, or
/// `None` if there is no such option. Leading dashes, and an `=` with the text after it, are ignored.
/// [`option::suggest`] finds a similar name.
///
/// ```
/// let text = flashlab_fio::explain::explain("blocksize").unwrap();
/// assert!(text.starts_with("bs (also blocksize): modelled"));
/// assert!(flashlab_fio::explain::explain("frobnicate").is_none());
/// ```
pub fn explain(name: &str) -> Option<String> {
    let name = name.trim_start_matches('-');
    let name = name.split('=').next().unwrap_or(name);
    match option::lookup(name) {
        Some(entry) => Some(describe_option(entry)),
        None if name.trim() == "include" => Some(format!("include: modelled\n\n{INCLUDE}\n")),
        None => describe_program_option(name),
    }
}

/// Returns the same description as [`explain`], but as JSON.
pub fn explain_json(name: &str) -> Option<Value> {
    let name = name.trim_start_matches('-');
    let name = name.split('=').next().unwrap_or(name);
    let json = |name: &str, support: &str, meaning: &str| json!({ "kind": "fio option", "name": name, "standing": support, "meaning": meaning });
    let Some(entry) = option::lookup(name) else {
        if name.trim() == "include" {
            return Some(json(name, "modelled", INCLUDE));
        }
        let option = PROGRAM.iter().find(|option| option.name == name)?;
        let (support, meaning) = program_option_support(option.effect);
        return Some(json(&format!("--{name}"), support, meaning));
    };
    let (support, accepted_values) = match entry.support {
        Support::Modelled => ("modelled", &[][..]),
        Support::Irrelevant => ("irrelevant", &[][..]),
        Support::Refused { accepted_values } => ("refused", accepted_values),
    };
    let mut json = json(entry.name, support, entry.meaning);
    json["aliases"] = entry.aliases.into();
    json["default"] = (!entry.default.is_empty()).then_some(entry.default).into();
    match support {
        "modelled" => json["form"] = entry.form().into(),
        "refused" => json["accepted_values"] = accepted_values.into(),
        _ => {}
    }
    Some(json)
}

fn describe_option(entry: &Entry) -> String {
    let mut text = entry.name.to_string();
    if !entry.aliases.is_empty() {
        write!(text, " (also {})", entry.aliases.join(", ")).expect(INFALLIBLE);
    }
    match entry.support {
        Support::Modelled => {
            write!(text, ": modelled\n\n{}\n\nValue: {}.\n", entry.meaning, entry.form()).expect(INFALLIBLE);
            if !entry.default.is_empty() {
                writeln!(text, "Default: {}.", entry.default).expect(INFALLIBLE);
            }
        }
        Support::Irrelevant => {
            let meaning = capitalised(entry.meaning);
            write!(text, ": accepted, and listed in the output as irrelevant\n\n{meaning}.\n")
                .expect(INFALLIBLE);
        }
        Support::Refused { accepted_values } => {
            write!(text, ": refused\n\nIt is not modelled: {}.\n", entry.meaning).expect(INFALLIBLE);
            if !accepted_values.is_empty() {
                writeln!(
                    text,
                    "Accepted with the value {}, which has no effect.",
                    accepted_values.join(" or ")
                )
                .expect(INFALLIBLE);
            }
        }
    }
    text
}

fn describe_program_option(name: &str) -> Option<String> {
    let option = PROGRAM.iter().find(|option| option.name == name)?;
    let (support, meaning) = program_option_support(option.effect);
    Some(format!("--{name}: {support}\n\n{meaning}.\n"))
}

fn program_option_support(effect: Effect) -> (&'static str, &'static str) {
    match effect {
        Effect::Output => ("modelled", "Writes results to this file instead of standard output"),
        Effect::Format => (
            "modelled",
            "Format of the results: normal, json, json+ or terse, or several separated by commas",
        ),
        Effect::Minimal => {
            ("modelled", "Writes terse output: a line for each job, its fields separated by semicolons")
        }
        Effect::AppendTerse => ("modelled", "Writes terse output after the others"),
        Effect::TerseVersion => ("modelled", "Version of the terse output, 2 to 5; the default is 3"),
        Effect::Section => {
            ("modelled", "Runs only the sections of job files that have this name; may be repeated")
        }
        Effect::ParseOnly => ("modelled", "Reads the jobs and runs nothing"),
        Effect::ReadOnly => ("modelled", "Refuses jobs that write or trim"),
        Effect::Irrelevant(reason) => ("irrelevant", reason),
        Effect::Refused(reason) => ("refused", reason),
    }
}

const INFALLIBLE: &str = "writing to a String cannot fail";

/// Returns the text of docs/fio-options.md, which lists every option of fio 3.33 and its support.
pub fn support_list() -> String {
    let count = |wanted: fn(&Support) -> bool| option::entries().filter(|e| wanted(&e.support)).count();
    let modelled = count(|support| matches!(support, Support::Modelled));
    let irrelevant = count(|support| matches!(support, Support::Irrelevant));
    let refused = count(|support| matches!(support, Support::Refused { .. }));
    let mut text = format!(
        "# fio's options\n\n\
         <!-- Written by UPDATE_DOCS=1 cargo test -p flashlab --features full --test all reference; change crates/fio/src/option. -->\n\n\
         This page lists every option of fio 3.33, and its support in a simulation: {modelled} are **modelled**, \
         {irrelevant} are **irrelevant** (accepted, and listed in the output, since they cannot change a result here), \
         {refused} are **refused** (they change results and are not modelled; the values listed as accepted have no \
         effect). `flashlab explain NAME` prints the same text.\n\n{JOB_FILES}- {INCLUDE}\n\n{NUMBERS}"
    );
    for chapter in TABLE {
        write!(text, "\n## {}\n\n| option | here | default | meaning |\n|---|---|---|---|\n", chapter.title)
            .expect(INFALLIBLE);
        for entry in chapter.entries {
            row(&mut text, entry);
        }
    }
    text.push_str("\n## Program options\n\n| option | here | meaning |\n|---|---|---|\n");
    for option in PROGRAM {
        let (support, meaning) = program_option_support(option.effect);
        let meaning = capitalised(&escaped(meaning));
        writeln!(text, "| `--{}` | {} | {meaning}. |", option.name, emphasised(support)).expect(INFALLIBLE);
    }
    text
}

fn row(text: &mut String, entry: &Entry) {
    let names: Vec<String> = entry.names().map(|name| format!("`{name}`")).collect();
    let (support, meaning) = match entry.support {
        Support::Modelled => {
            ("modelled", format!("{} *Value: {}.*", escaped(entry.meaning), escaped(&entry.form())))
        }
        Support::Irrelevant => ("irrelevant", format!("{}.", capitalised(&escaped(entry.meaning)))),
        Support::Refused { accepted_values: [] } => {
            ("refused", format!("{}.", capitalised(&escaped(entry.meaning))))
        }
        Support::Refused { accepted_values } => {
            let values: Vec<String> = accepted_values.iter().map(|value| format!("`{value}`")).collect();
            let meaning = capitalised(&escaped(entry.meaning));
            ("refused", format!("{meaning}. Accepted: {}.", values.join(", ")))
        }
    };
    let default = if entry.default.is_empty() { String::new() } else { format!("`{}`", entry.default) };
    writeln!(text, "| {} | {} | {default} | {meaning} |", names.join(", "), emphasised(support))
        .expect(INFALLIBLE);
}

fn emphasised(support: &str) -> String {
    if support == "modelled" { "**modelled**".to_string() } else { support.to_string() }
}

/// Escapes text for a cell of a Markdown table.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('_', "\\_").replace('*', "\\*")
}

/// Returns `text` with a capital first letter.
pub fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

const INCLUDE: &str = "`include FILE` is replaced by the options of another file. FILE is searched for under the given \
name, then beside the including file. It has no sections of its own; it may include other files, but not itself.";

const JOB_FILES: &str = "\
## Job files

- `[global]` applies to the sections below it and may occur again; every other section is a job.
- After `;` or `#` the rest of a line is a comment. Blanks around `=` are ignored.
- A second job file starts from fio's defaults, and its jobs start after those of the first have ended.
- A job without `direct=1` is buffered, as in fio (except with `ioengine=null`): a model of Linux's page cache lies between
  the job and the device. [Buffered jobs](buffered.md) lists the jobs that are refused.
";

const NUMBERS: &str = "\
## Numbers

- Sizes and counts: decimal, or hexadecimal after `0x`, with the suffixes `k m g t p` (not case sensitive). With
  `kb_base=1024`, fio's default, `4k`, `4kb` and `4ki` are 4096 and `4kib` is 4000; with `kb_base=1000` the first three are
  4000 and `4kib` is 4096. This is the behaviour of fio 3.33; its manual groups `ki` with `kib`.
- Times: the suffixes `d h m s ms us`; without a suffix, the option's own unit applies.
- Percentages: `50%`, for size, io_size, offset and offset_increment.
- Values for reads, writes and trims: `4k,8k,16k`. A single value applies to all three. If there are two, the
  second one also applies to trims. An empty value leaves the earlier one.
- Arithmetic in parentheses: `size=(4k * 16)`, with `+ - * / % ^`. (fio's manual describes it; Debian's build lacks it.)
- Numbers that fio silently truncates are refused here: `4.5k` (fio reads 4), `1min` (one microsecond), `1:30` (30
  seconds), `0x10k` (16).
- `${NAME}` in a job file is an environment variable; an unset variable is an error. `$pagesize` is 4096; `$ncpus` and
  `$mb_memory` are refused, since results would depend on the machine.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_support_is_explained() {
        let text = explain("--iodepth=4").unwrap();
        assert!(text.starts_with("iodepth: modelled\n\nHow many requests"), "{text}");
        assert!(text.ends_with("Value: a number from 1 to 65536.\nDefault: 1.\n"), "{text}");
        let text = explain("iomem").unwrap();
        assert!(text.starts_with("mem (also iomem): accepted, and listed"), "{text}");
        let text = explain("verify_only").unwrap();
        assert!(text.contains("refused") && text.contains("Accepted with the value 0"), "{text}");
        assert!(explain("output-format").unwrap().contains("json+"));
        assert!(explain("include").unwrap().contains("beside the including file"));
        assert_eq!(explain(""), None);
    }
}
