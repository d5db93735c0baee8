//! Runs `fit` in a closed loop: draws virtual cards, measures them with 2 % noise, fits them, and compares the
//! estimates with the truth.
//!
//! `cargo run --release -p flashlab-lab --example fit_check -- [--seed N] [--first N] [--cards N] [--verbose]`

use flashlab_catalogue::library::Library;
use flashlab_lab::fitting::check::{Checked, check_card, quantile};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(Some(default), |at| arguments.get(at + 1)?.parse().ok())
    };
    let numbers = (number("--seed", 1), number("--first", 0), number("--cards", 50));
    let (Some(seed), Some(first), Some(cards)) = numbers else {
        eprintln!("fit_check: expected a number after --seed, --first and --cards");
        return ExitCode::from(2);
    };
    let verbose = arguments.iter().any(|argument| argument == "--verbose");
    let library = Library::built_in().expect("the built-in library is valid");
    let mut checked = Checked::default();
    for card in first..first + cards {
        match check_card(seed, card, &library) {
            Ok(one) => {
                if verbose {
                    print_card(card, &one);
                }
                checked.cards.push(one);
            }
            Err(error) => {
                eprintln!("fit_check: card {card} of seed {seed}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let (inside, all) = checked.covered();
    let (numbers, jobs) = (checked.determined_errors(), checked.prediction_errors());
    let percent = |values: &[f64], share| 100.0 * quantile(values, share);
    println!("seed {seed}, {cards} cards");
    println!("truth in the 90 % interval: {inside} of {all} numbers (at least 80 %)");
    println!(
        "determined numbers: {} of {all}, median error {:.2} % (at most 3 %)",
        numbers.len(),
        percent(&numbers, 0.5)
    );
    let [found, drawn, superfluous] = checked.mechanisms();
    println!(
        "numbers of further mechanisms: {found} of {drawn} found, and {superfluous} that the cards lack"
    );
    println!(
        "other jobs: {}, median error {:.2} % (at most 5 %), 90th percentile {:.2} % (at most 15 %)",
        jobs.len(),
        percent(&jobs, 0.5),
        percent(&jobs, 0.9)
    );
    let held = inside * 10 >= all * 8
        && percent(&numbers, 0.5) <= 3.0
        && percent(&jobs, 0.5) <= 5.0
        && percent(&jobs, 0.9) <= 15.0;
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_card(card: u64, one: &flashlab_lab::fitting::check::CheckedCard) {
    let estimate = &one.fit.estimate;
    println!("card {card}: chi2 {:.2}, {} evaluations", estimate.chi2, estimate.evaluations);
    for (number, truth) in estimate.numbers.iter().zip(&one.truths) {
        let inside = if number.low <= *truth && *truth <= number.high { "" } else { "  MISSED" };
        println!(
            "  {:18} truth {truth:12.0} estimate {:12.0} ({:.0} to {:.0}) {}{inside}",
            number.name,
            number.value,
            number.low,
            number.high,
            number.determined.word()
        );
    }
    for cell in estimate.cells.iter().filter(|cell| cell.error_percent.abs() > 2.0 * 100.0 * cell.sd_share) {
        println!(
            "  cell {}: {:+.1} %, left out {:+.1} %",
            cell.name,
            cell.error_percent,
            cell.left_out_error_percent.unwrap_or(f64::NAN)
        );
    }
    for held in &one.fit.held {
        println!("  {} stays at {}: {}", held.name, held.value, held.reason);
    }
    for (name, error) in &one.predictions {
        println!("  {name:24} {:+.2} %", 100.0 * error);
    }
    println!(
        "  mechanisms drawn: {}; found: {}",
        one.drawn.join(", "),
        one.found().collect::<Vec<_>>().join(", ")
    );
}
