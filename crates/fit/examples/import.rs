//! Prints the observations in a measurement file, in fio's JSON, or in a log of hdparm, dd, iozone or flashbench.

use flashlab_fit::import;

fn main() {
    let path = std::env::args().nth(1);
    let text = match &path {
        Some(path) => std::fs::read_to_string(path).expect("a readable file"),
        None => " Timing buffered disk reads:  66 MB in  3.05 seconds =  21.66 MB/sec\n".to_owned(),
    };
    let measurements = match import::parse(&text, path.as_deref().unwrap_or("hdparm")) {
        Ok(measurements) => measurements,
        Err(error) => return eprintln!("{error}"),
    };
    for step in &measurements.steps {
        println!("{}: {}", step.name, step.job.join(" "));
        for o in &step.observations {
            println!("  {} {} = {:.1} ({} runs)", o.direction.name(), o.quantity, o.value, o.runs);
        }
    }
}
