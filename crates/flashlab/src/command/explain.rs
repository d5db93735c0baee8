//! `flashlab explain`: the meaning of a number, a device, a mechanism or an fio option.

use crate::failure::Failure;
use crate::file;
use crate::width::columns;
use flashlab_catalogue::explain::{ExplainError, Listing, explain, explain_json};
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Parameter;
use flashlab_fio::option;
#[cfg(feature = "fit")]
use flashlab_lab::fitting::with_typical;
use flashlab_report::terminal::wrapped;
use flashlab_sim::Mechanism;
use serde_json::json;
use std::process::ExitCode;

/// Prints the explanation of `what`.
pub(crate) fn run(what: &str, library: &Library, json: bool) -> Result<ExitCode, Failure> {
    use flashlab_fio::explain as of_fio;
    // The profiles that `flashlab fit` writes refer to the typical cards.
    #[cfg(feature = "fit")]
    let library = &with_typical(library);
    let explained = match json {
        true => explain_json(what, library, &of_fio::explain_json).map(|json| file::pretty(&json)),
        false => {
            let fio = |name: &str| {
                of_fio::explain(name).map(|text| text.lines().map(|line| wrapped(line, columns())).collect())
            };
            explain(what, library, columns(), &fio)
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
