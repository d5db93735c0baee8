//! The refit of an experiment's profiles, as tables and as JSON.

use crate::fit::aligned;
use crate::number;
use crate::terminal::wrapped;
use flashlab_lab::fitting::refit::{CellOfRefit, NumberOfRefit, Refit};

/// Returns the numbers and the cells before and after the refit of the profiles, and the sums of squared deviations.
pub fn table(refit: &Refit, width: usize) -> String {
    let fitted = refit.cells.iter().filter(|cell| cell.is_fitted).count();
    let mut text = wrapped(
        &format!(
            "{} fitted together on {fitted} of the {} of {}, each on the cells that its source names.",
            number::plural(refit.numbers.len(), "number"),
            number::plural(refit.cells.len(), "cell"),
            refit.experiment
        ),
        width,
    );
    let head = |words: [&str; 4]| words.map(str::to_owned).to_vec();
    let mut rows = vec![head(["number", "profile", "before", "after"])];
    rows.extend(refit.numbers.iter().map(number_row));
    text += "\n";
    text += &aligned(&rows, &[false, false, true, true], width);
    let mut rows = vec![head(["cell", "role", "error before", "after"])];
    rows.extend(refit.cells.iter().map(cell_row));
    text += "\n";
    text += &aligned(&rows, &[false, false, true, true], width);
    text += "\n";
    conclusions(refit).iter().for_each(|sentence| text += &wrapped(sentence, width));
    number::plain(&text)
}

/// Returns the complete refit as JSON.
pub fn json(refit: &Refit) -> String {
    crate::json::document_text(serde_json::to_string_pretty(refit))
}

fn number_row(number: &NumberOfRefit) -> Vec<String> {
    let profile = match &number.profiles[..] {
        [one] => one.clone(),
        several => number::plural(several.len(), "profile"),
    };
    let after = if number.after == number.before { "stays" } else { &number.after };
    vec![number.path.clone(), profile, number.before.clone(), after.to_owned()]
}

fn cell_row(cell: &CellOfRefit) -> Vec<String> {
    let role = if cell.is_fitted { "fitted" } else { "predicted" };
    let percent = |error: f64| number::signed_percent(error, 2);
    vec![cell.name.clone(), role.to_owned(), percent(cell.before_percent), percent(cell.after_percent)]
}

fn conclusions(refit: &Refit) -> Vec<String> {
    let sum = |value| number::significant(value, 4);
    let mut sentences = vec![
        format!(
            "Squared deviations of the fitted cells: {} before, {} after.",
            sum(refit.sum_before),
            sum(refit.sum_after)
        ),
        format!(
            "Squared deviations of the predicted cells: {} before, {} after.",
            sum(refit.predicted_before),
            sum(refit.predicted_after)
        ),
    ];
    let held = refit.held.iter();
    sentences.extend(held.map(|held| format!("{} stays at {}: {}.", held.name, held.value, held.reason)));
    sentences
}
