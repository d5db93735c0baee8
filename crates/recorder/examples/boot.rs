//! Records the boot of a root image: `cargo run -p flashlab-recorder --example boot -- KERNEL IMAGE OPTIONS OUTPUT [rw]`.
//!
//! `KERNEL` is a folder with an unpacked kernel package. `OPTIONS` are the options with which the image was
//! made.

use flashlab_recorder::{Boot, Disk, Kernel, Limits, Progress, record_boot};
use flashlab_recording::Writer;
use std::path::PathBuf;

struct Stages;

impl Progress for Stages {
    fn stage(&self, name: &str) {
        eprintln!("{name}");
    }
    fn is_stopped(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, image, options, output, rest @ ..] = &arguments[..] else {
        return Err("expected KERNEL IMAGE OPTIONS OUTPUT [rw]".into());
    };
    let boot = Boot {
        kernel: Kernel::find(&[PathBuf::from(kernel)])?,
        image: PathBuf::from(image),
        options: options.clone(),
        writable: rest.first().is_some_and(|word| word == "rw"),
        disk: Disk::default(),
        limits: Limits::default(),
        seconds_max: 900,
    };
    let recording = record_boot(&boot, &Stages)?.recording;
    let file = std::io::BufWriter::new(std::fs::File::create(output)?);
    let mut writer = Writer::new(file, &recording.header, &recording.tasks)?;
    recording.steps.iter().try_for_each(|step| writer.push(step))?;
    let (_, digest) = writer.finish()?;
    println!("{} steps in {output} (digest {digest})", recording.steps.len());
    Ok(())
}
