//! Syntax of job files: sections, assignments, comments, includes and variables. Options are not interpreted here.
//!
//! The rules are those of fio 3.33. A `;` or `#` anywhere in a line begins a comment. `include FILE` is replaced by the
//! options of another file, which is searched for under the given name and then beside the including file. An included
//! file has no sections. `${NAME}` in a value is an environment variable. Blanks around `=` are dropped, although fio
//! mishandles blanks after it. `$pagesize` is 4096. `$ncpus` and `$mb_memory` are refused, since results would depend
//! on the machine.
//!
//! For any bytes, the parser returns sections or an [`Error`] with its position, in time linear in the number
//! of bytes. The bytes of an included file count each time that it is included.

use std::sync::Arc;

use crate::error::{Error, IncludeProblem, Place, Problem, SectionProblem};
use crate::expression;
use crate::loader::Loader;
use crate::number::{KbBase, byte_factor};

/// Maximum length in bytes of a line, as in fio, without its comment and the blanks around it. It also limits
/// a value whose variables have been replaced.
pub const LINE_BYTES_MAX: usize = 4096;
const INCLUDE_DEPTH_MAX: usize = 16;
const INCLUDES_MAX: usize = 1024;
const PAGE_BYTES: &str = "4096";

/// One option as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Text left of the `=`.
    pub name: String,
    /// Text right of the `=`, with variables replaced; `None` without a `=`.
    pub value: Option<String>,
    /// Position of the name.
    pub place: Place,
    /// Position of the value.
    pub value_place: Place,
    /// True if the value is the unchanged text of the input, so that a position in the value is also a position in the
    /// input.
    pub literal: bool,
}

/// A section: `[name]` and the options below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Text between the brackets.
    pub name: String,
    /// Position of the `[`.
    pub place: Place,
    /// Options of the section. The options of an included file replace the `include`.
    pub assignments: Vec<Assignment>,
}

/// Parses `bytes`, the contents of the job file `name`.
pub fn parse(name: &str, bytes: &[u8], loader: &dyn Loader) -> Result<Vec<Section>, Error> {
    let mut reader = Reader { loader, sections: Vec::new(), chain: Vec::new(), includes: 0 };
    reader.file(name, bytes)?;
    Ok(reader.sections)
}

struct Reader<'a> {
    loader: &'a dyn Loader,
    sections: Vec<Section>,
    /// The current file and the files that include it, outermost first.
    chain: Vec<String>,
    includes: usize,
}

/// A line without its comment and the surrounding blanks.
struct Line<'a> {
    text: &'a str,
    place: Place,
}

impl Line<'_> {
    fn error(&self, characters: usize, problem: Problem) -> Error {
        Error::new(self.place.advanced_by(characters), problem)
    }
}

impl Reader<'_> {
    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let file: Arc<str> = name.into();
        let text = decode(&file, bytes)?;
        self.chain.push(name.to_string());
        for (index, raw) in text.split('\n').enumerate() {
            let code = &raw[..raw.find([';', '#']).unwrap_or(raw.len())];
            let trimmed = code.trim();
            if trimmed.is_empty() {
                continue;
            }
            let indent = code[..code.len() - code.trim_start().len()].chars().count();
            let place = Place::File { name: file.clone(), line: index + 1, column: indent + 1 };
            self.line(Line { text: trimmed, place })?;
        }
        self.chain.pop();
        Ok(())
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        if line.text.len() > LINE_BYTES_MAX {
            return Err(line.error(0, Problem::LineTooLong { bytes: line.text.len(), most: LINE_BYTES_MAX }));
        }
        if let Some(at) = line.text.chars().position(|c| c.is_control() && c != '\t') {
            let code = line.text.chars().nth(at).map_or(0, u32::from);
            return Err(line.error(at, Problem::ControlCharacter { code }));
        }
        if let Some(after) = line.text.strip_prefix('[') {
            return self.section(&line, after);
        }
        if self.sections.is_empty() {
            return Err(line.error(0, self.outside_section(line.text)));
        }
        match line.text.strip_prefix("include") {
            Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t', '=']) => {
                let path = rest.trim_start_matches([' ', '\t', '=']);
                self.include(&line, path)
            }
            _ => {
                let assignment = assignment(&line, self.loader)?;
                let section = self.sections.last_mut().expect("a section was begun");
                section.assignments.push(assignment);
                Ok(())
            }
        }
    }

    /// Returns the fault of a line before the first section. The first line of an iolog looks like an option.
    fn outside_section(&self, text: &str) -> Problem {
        let is_iolog = text.starts_with("fio version ") && text.ends_with(" iolog");
        match self.chain.last().filter(|_| is_iolog) {
            Some(file) => Problem::Iolog { file: file.clone() },
            None => Problem::OutsideSection { text: text.to_string() },
        }
    }

    fn section(&mut self, line: &Line<'_>, after: &str) -> Result<(), Error> {
        let Some((name, rest)) = after.split_once(']') else {
            return Err(line.error(0, Problem::Section(SectionProblem::Unclosed)));
        };
        if !rest.is_empty() {
            let before = name.chars().count() + 2 + rest.len() - rest.trim_start().len();
            return Err(line.error(
                before,
                Problem::Section(SectionProblem::TextAfterName { text: rest.trim_start().to_string() }),
            ));
        }
        let name = name.trim().to_string();
        if name.is_empty() {
            return Err(line.error(0, Problem::Section(SectionProblem::Unnamed)));
        }
        if self.chain.len() > 1 {
            return Err(line.error(0, Problem::Include(IncludeProblem::ContainsSection { name })));
        }
        self.sections.push(Section { name, place: line.place.clone(), assignments: Vec::new() });
        Ok(())
    }

    fn include(&mut self, line: &Line<'_>, path: &str) -> Result<(), Error> {
        if path.is_empty() {
            return Err(line.error(0, Problem::Include(IncludeProblem::WithoutFile)));
        }
        if self.chain.len() > INCLUDE_DEPTH_MAX {
            return Err(line.error(0, Problem::Include(IncludeProblem::TooDeep { most: INCLUDE_DEPTH_MAX })));
        }
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            return Err(line.error(0, Problem::Include(IncludeProblem::TooMany { most: INCLUDES_MAX })));
        }
        let at = line.text.chars().count() - path.chars().count();
        let (path, bytes) = self
            .load(path)
            .map_err(|reason| line.error(at, Problem::Unreadable { file: path.to_string(), reason }))?;
        if self.chain.contains(&path) {
            let chain = self.chain.iter().cloned().chain([path]).collect();
            return Err(line.error(at, Problem::Include(IncludeProblem::Cycle { chain })));
        }
        self.file(&path, &bytes)
    }

    /// Loads a file under the given name, or from the folder of the file that includes it.
    fn load(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        self.loader.load(path).map(|bytes| (path.to_string(), bytes)).or_else(|reason| {
            let folder = self.chain.last().and_then(|file| file.rsplit_once('/'));
            match folder {
                Some((folder, _)) if !path.starts_with('/') => {
                    let sibling = format!("{folder}/{path}");
                    let bytes = self.loader.load(&sibling).map_err(|_| reason)?;
                    Ok((sibling, bytes))
                }
                _ => Err(reason),
            }
        })
    }
}

/// Decodes the bytes as UTF-8 and skips a byte order mark.
fn decode<'a>(file: &Arc<str>, bytes: &'a [u8]) -> Result<&'a str, Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let good = std::str::from_utf8(&bytes[..error.valid_up_to()])
                .expect("the bytes before the error are valid UTF-8");
            let line_start = good.rfind('\n').map_or(0, |at| at + 1);
            let place = Place::File {
                name: file.clone(),
                line: good.matches('\n').count() + 1,
                column: good[line_start..].chars().count() + 1,
            };
            Err(Error::new(place, Problem::NotText))
        }
    }
}

fn assignment(line: &Line<'_>, loader: &dyn Loader) -> Result<Assignment, Error> {
    let Some((name, value)) = line.text.split_once('=') else {
        return Ok(Assignment {
            name: line.text.to_string(),
            value: None,
            place: line.place.clone(),
            value_place: line.place.clone(),
            literal: true,
        });
    };
    let blanks = value.len() - value.trim_start().len();
    let value_place = line.place.advanced_by(name.chars().count() + 1 + blanks);
    let value = value.trim_start();
    let expanded = expand(value, &value_place, loader)?;
    Ok(Assignment {
        name: name.trim_end().to_string(),
        literal: expanded == value,
        value: Some(expanded),
        place: line.place.clone(),
        value_place,
    })
}

/// Replaces variables and `$pagesize` in `text`, and evaluates an expression that contains `$pagesize`. The
/// other keywords are errors.
pub(crate) fn expand(text: &str, place: &Place, loader: &dyn Loader) -> Result<String, Error> {
    let error = |at: usize, problem| Error::new(place.advanced_by(text[..at].chars().count()), problem);
    let mut expanded = String::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let begin = at + found;
        let Some(length) = text[begin..].find('}') else {
            return Err(error(begin, Problem::UnclosedVariable));
        };
        let name = &text[begin + 2..begin + length];
        let value = loader.variable(name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| error(begin, Problem::UnsetVariable { name: name.to_string() }))?;
        expanded.push_str(&text[at..begin]);
        expanded.push_str(&value);
        if expanded.len() > LINE_BYTES_MAX {
            return Err(error(begin, Problem::LineTooLong { bytes: expanded.len(), most: LINE_BYTES_MAX }));
        }
        at = begin + length + 1;
    }
    expanded.push_str(&text[at..]);
    for keyword in ["$ncpus", "$mb_memory"] {
        if expanded.contains(keyword) {
            return Err(error(text.find(keyword).unwrap_or(0), Problem::MachineKeyword { keyword }));
        }
    }
    if expanded.contains("$pagesize") {
        expanded = expanded.replace("$pagesize", PAGE_BYTES);
        // fio also evaluates expressions with keywords outside parentheses: `8*$pagesize`.
        let value =
            expression::evaluate(&format!("({expanded})"), &|suffix| byte_factor(suffix, KbBase::Binary));
        expanded = value.map_or(expanded, |value| value.to_string());
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::NoFiles;

    type Written = (String, Option<String>);

    fn parsed(text: &str) -> Vec<(String, Vec<Written>)> {
        let sections = parse("job.fio", text.as_bytes(), &NoFiles).expect(text);
        let options = |s: &Section| s.assignments.iter().map(|a| (a.name.clone(), a.value.clone())).collect();
        sections.iter().map(|s| (s.name.clone(), options(s))).collect()
    }
    fn option(name: &str, value: &str) -> Written {
        (name.to_string(), Some(value.to_string()))
    }
    fn message(text: &[u8]) -> String {
        parse("job.fio", text, &NoFiles).expect_err("it is wrong").to_string()
    }

    #[test]
    fn comments_blanks_and_line_ends_are_dropped() {
        let text = "\u{feff}; a comment\r\n# another\n\n[a b]  ; the job\r\n  bs = 4k ; small\r\n\ttime_based\n\
                    size=1m#one\n;size=2m\n  # last";
        let expected = vec![option("bs", "4k"), ("time_based".to_string(), None), option("size", "1m")];
        assert_eq!(parsed(text), vec![("a b".to_string(), expected)]);
    }

    #[test]
    fn a_value_may_contain_equal_signs_and_quotes() {
        let expected = vec![option("filename", "a=b"), option("description", "\"x y\"")];
        let text = "[a]\nfilename=a=b\ndescription=\"x y\"";
        assert_eq!(parsed(text), vec![("a".to_string(), expected)]);
    }

    #[test]
    fn errors_have_their_position() {
        let long = format!("[a]\nbs={}", "4".repeat(5000));
        let cases: [(&[u8], &str); 10] = [
            (
                b"bs=4k",
                r#"job.fio:1:1: "bs=4k" precedes the first section; put [global] or a [job] above it"#,
            ),
            (
                b"fio version 3 iolog\n0 a add",
                "job.fio:1:1: this is an iolog and no job file; replay it with --name=r --read_iolog=job.fio",
            ),
            (b"\n  [a", "job.fio:2:3: this section's name has no closing ]"),
            (b"[a] bs=4k", r#"job.fio:1:5: "bs=4k" follows the section's name; begin a new line"#),
            (b"[]", "job.fio:1:1: this section has no name; write [job]"),
            (b"[a]\nbs=\xff", "job.fio:2:4: this byte is not valid UTF-8; a job file must be text"),
            (b"[a]\nb\x00s=1", "job.fio:2:2: this is a control character (code 0); a job file must be text"),
            (b"[a]\ninclude", "job.fio:2:1: include needs a file: include common.fio"),
            (b"[a]\nsize=${X", "job.fio:2:6: this ${ has no closing }"),
            (long.as_bytes(), "job.fio:2:1: this line has 5003 bytes; fio takes at most 4096"),
        ];
        for (text, expected) in cases {
            assert_eq!(message(text), expected);
        }
    }

    #[test]
    fn includes_are_found_as_named_or_beside_the_including_file() {
        let files = |path: &str| match path {
            "jobs/common.fio" => Ok(b"bs=8k\ninclude deeper.fio\n".to_vec()),
            "jobs/deeper.fio" => Ok(b"iodepth=4\n".to_vec()),
            _ => Err("no such file".to_string()),
        };
        let sections = parse("jobs/a.fio", b"[a]\ninclude   common.fio\nsize=1m\n", &files).unwrap();
        let names: Vec<&str> = sections[0].assignments.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["bs", "iodepth", "size"]);
        assert_eq!(sections[0].assignments[1].place.to_string(), "jobs/deeper.fio:1:1");
        let error = parse("jobs/a.fio", b"[a]\ninclude other.fio", &files).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"jobs/a.fio:2:9: cannot read the job file "other.fio": no such file"#
        );
    }

    #[test]
    fn cyclic_and_unbounded_includes_are_errors() {
        let cycle = |path: &str| Ok(format!("include {}", if path == "x" { "y" } else { "x" }).into_bytes());
        let error = parse("x", b"[a]\ninclude y", &cycle).unwrap_err();
        assert_eq!(error.to_string(), "y:1:9: these files include each other: x -> y -> x");
        let deep = |path: &str| Ok(format!("include {path}x").into_bytes());
        let error = parse("a", b"[a]\ninclude x", &deep).unwrap_err();
        assert_eq!(*error.problem, Problem::Include(IncludeProblem::TooDeep { most: 16 }));
        let wide = |path: &str| Ok(format!("include {path}x\ninclude {path}y").into_bytes());
        assert!(parse("a", b"[a]\ninclude x", &wide).is_err());
        let flat = |_: &str| Ok(Vec::new());
        let error = parse("a", format!("[a]\n{}", "include x\n".repeat(2000)).as_bytes(), &flat).unwrap_err();
        assert_eq!(*error.problem, Problem::Include(IncludeProblem::TooMany { most: 1024 }));
        let section = |_: &str| Ok(b"bs=4k\n[b]".to_vec());
        let error = parse("a", b"[a]\ninclude i", &section).unwrap_err();
        assert_eq!(
            *error.problem,
            Problem::Include(IncludeProblem::ContainsSection { name: "b".to_string() })
        );
    }

    #[test]
    fn variables_come_from_the_loader_and_keywords_do_not_depend_on_the_machine() {
        struct Environment;
        impl Loader for Environment {
            fn load(&self, _: &str) -> Result<Vec<u8>, String> {
                Err(String::new())
            }
            fn variable(&self, name: &str) -> Option<String> {
                (name == "SIZE").then(|| "64m".to_string())
            }
        }
        let text = b"[a]\nsize=${SIZE}\nbs=$pagesize\nio_size=8*$pagesize";
        let sections = parse("a", text, &Environment).unwrap();
        let values: Vec<_> = sections[0].assignments.iter().filter_map(|a| a.value.as_deref()).collect();
        assert_eq!(values, ["64m", "4096", "32768"]);
        let unset = parse("a", b"[a]\nsize=x${NOPE}", &Environment).unwrap_err();
        assert_eq!(
            unset.to_string(),
            "a:2:7: the environment variable NOPE is unset or empty (fio would insert nothing); set it, or write the value"
        );
        let cpus = parse("a", b"[a]\nnumjobs=$ncpus", &Environment).unwrap_err();
        assert_eq!(
            cpus.to_string(),
            "a:2:9: $ncpus differs between machines, so results would too; write the number"
        );
    }

    #[test]
    fn a_line_of_ten_million_bytes_is_a_comment_or_an_error() {
        let comment = format!("[a]\n#{}\nbs=4k", "x".repeat(10 << 20));
        assert_eq!(parsed(&comment), vec![("a".to_string(), vec![option("bs", "4k")])]);
        let line = message(format!("[a]\n{}", "\u{e9}=".repeat(4 << 20)).as_bytes());
        assert_eq!(line, "job.fio:2:1: this line has 12582912 bytes; fio takes at most 4096");
    }
}
