//! A plan as a job file of fio, for a board without flashlab.

use super::{Description, Plan};
use std::fmt::Write as _;

impl Plan {
    /// Returns a job file with one section per step. A comment at its head contains the shell line that runs it.
    ///
    /// The line runs fio once per section, so that the device rests between the sections, and so that a
    /// section that fails (such as the discard, on a device without this command) does not end the others.
    pub fn fio_file(&self, file: &str, target: &str) -> String {
        let rest = self.steps.iter().map(|step| step.rest.as_ns() / 1_000_000_000).max().unwrap_or(0);
        let mut text = format!(
            "# The plan {} of flashlab, as jobs of fio. It {}\n# Run it with this line, then pass card.json to flashlab:\n#\n",
            self.name,
            match self.written_bytes() {
                0 => "only reads.".to_owned(),
                bytes => format!("writes up to {} MiB and DESTROYS the data of the target.", bytes >> 20),
            }
        );
        let _ = writeln!(
            text,
            "# for s in $(sed -n 's/^\\[\\(.*\\)\\]$/\\1/p' {file} | grep -v global); do sleep {rest}; TARGET={target} fio \
             --output-format=json --section=$s {file}; done > card.json\n\n[global]\nfilename=${{TARGET}}\ndirect=1\n"
        );
        for step in &self.steps {
            let state = Description { plan: self.name.clone(), before: step.before, rest: step.rest };
            let _ = writeln!(text, "[{}]\ndescription={}", step.name, state);
            for option in step.job.iter().filter_map(|option| option.strip_prefix("--")) {
                if !option.starts_with("name=") && option != "direct=1" {
                    let _ = writeln!(text, "{option}");
                }
            }
            text.push('\n');
        }
        text
    }
}
