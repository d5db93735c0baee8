//! `flashlab explain`: the meaning of a number, a device, a mechanism, an fio option, an experiment or a word.

use crate::failure::Failure;
use crate::file;
use crate::width::columns;
use flashlab_catalogue::explain::{ExplainError, Listing, explain, explain_json};
use flashlab_catalogue::glossary;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Parameter;
use flashlab_fio::option;
use flashlab_lab::experiment::{Experiment, Live};
#[cfg(feature = "fit")]
use flashlab_lab::fitting::with_typical;
use flashlab_report::terminal::{fitted, wrapped};
use flashlab_sim::Mechanism;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Prints the explanation of `what`.
pub(crate) fn run(what: &str, library: &Library, json: bool) -> Result<ExitCode, Failure> {
    use flashlab_fio::explain as of_fio;
    // The profiles that `flashlab fit` writes refer to the typical cards.
    #[cfg(feature = "fit")]
    let library = &with_typical(library);
    let explained = match json {
        true => {
            let others = |name: &str| {
                of_fio::explain_json(name)
                    .or_else(|| word_json(name))
                    .or_else(|| experiment_json(name, library))
            };
            explain_json(what, library, &others).map(|json| file::pretty(&json))
        }
        false => {
            let wrap = |text: String| text.lines().map(|line| wrapped(line, columns())).collect::<String>();
            let others = |name: &str| {
                let fio = of_fio::explain(name).map(wrap);
                let others = [word(name), experiment(name, library)]
                    .map(|text| text.map(|text| fitted(&text, columns())));
                let found = [fio].into_iter().chain(others);
                let found: Vec<String> = found.flatten().collect();
                (!found.is_empty()).then(|| found.join("\n"))
            };
            explain(what, library, columns(), &others)
        }
    };
    let text = explained.map_err(|error| match (option::suggest(what), error) {
        (Some(option), ExplainError::Unknown { name, did_you_mean }) => {
            let nearest = did_you_mean.filter(|nearest| nearest != option);
            let nearest = nearest.map_or(option.to_owned(), |nearest| format!("{nearest} or {option}"));
            Failure::usage(ExplainError::Unknown { name, did_you_mean: Some(nearest) })
        }
        (_, error) => Failure::usage(error),
    })?;
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Explains a word of the glossary.
fn word(name: &str) -> Option<String> {
    let (words, meaning) = glossary::entry(name)?;
    Some(format!("{words}\n  {meaning}.\n"))
}

fn word_json(name: &str) -> Option<Value> {
    let (words, meaning) = glossary::entry(name)?;
    Some(json!({ "kind": "word", "name": words, "meaning": meaning }))
}

/// Explains an experiment of the library by its title and the first paragraph of its description.
fn experiment(name: &str, library: &Library) -> Option<String> {
    let title = experiment_title(name, library)?;
    let description = library.experiment(name).ok()?.file("README.md");
    let description = description.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    let mut paragraphs =
        description.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = paragraphs.find(|text| !text.is_empty() && !text.starts_with(['#', '|']));
    let first = first.map_or(String::new(), |text| format!("  {text}\n"));
    Some(format!("{name}: {title}\n{first}  Run it with `flashlab run {name}`.\n"))
}

fn experiment_json(name: &str, library: &Library) -> Option<Value> {
    let title = experiment_title(name, library)?;
    Some(json!({ "kind": "experiment", "name": name, "title": title }))
}

fn experiment_title(name: &str, library: &Library) -> Option<String> {
    library.experiment(name).ok()?;
    match Live::open(name, library).ok()? {
        Some(live) => Some(live.title().to_owned()),
        None => Experiment::open(name, library).ok().map(|experiment| experiment.title().to_owned()),
    }
}

/// Prints all names that `flashlab explain` knows.
pub(crate) fn list(library: &Library, json: bool) -> Result<ExitCode, Failure> {
    let parameters: Vec<&str> = Parameter::all().iter().map(|parameter| parameter.path).collect();
    let modelled = option::entries().filter(|entry| entry.support == option::Support::Modelled);
    let options: Vec<&str> = modelled.map(|entry| entry.name).collect();
    let listing = Listing::all(library);
    if json {
        let mut list = json!({
            "parameters": parameters,
            "mechanisms": Mechanism::ALL.map(Mechanism::name),
            "fio_options": option::entries().map(|entry| entry.name).collect::<Vec<_>>(),
        });
        let rest = listing.json();
        list.as_object_mut()
            .expect("`json!` builds an object")
            .extend(rest.as_object().expect("a listing is an object").clone());
        file::print(&file::pretty(&list))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    paragraph(&mut text, "Parameters of cards, hosts and filesystems", &parameters);
    paragraph(&mut text, "Mechanisms, the parts of a latency", &Mechanism::ALL.map(Mechanism::name));
    paragraph(&mut text, "Options of fio that are modelled (the others are explained too)", &options);
    text.push_str(&listing.text(columns()));
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Appends `heading` and the names, indented by two spaces.
fn paragraph(text: &mut String, heading: &str, names: &[&str]) {
    let names = wrapped(&names.join(" "), columns() - 2);
    text.push_str(&wrapped(heading, columns()));
    names.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    text.push('\n');
}
