//! Parser for iologs, which reads a log as a whole or line by line. Its run time is proportional to the length of the
//! log.

use super::error::excerpt;
use super::{Action, Entry, Iolog, IologError, IologProblem, Version};
use flashlab_sim::Duration;
use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

/// Maximum number of files among which the parser looks for a similar name.
const SUGGEST_FILES_MAX: usize = 64;
const SUGGEST_NAME_MAX: usize = 256;

/// The fields of one line, from left to right.
struct Fields<'a> {
    line: &'a str,
    number: usize,
    /// Byte position where the rest of the line begins.
    at: usize,
    /// Byte position where the last field begins.
    last: usize,
}

impl<'a> Fields<'a> {
    fn next(&mut self, field: &'static str) -> Result<&'a str, IologError> {
        let rest = &self.line[self.at..];
        let skipped = rest.len() - rest.trim_ascii_start().len();
        self.last = self.at + skipped;
        let rest = &self.line[self.last..];
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        self.at = self.last + end;
        if end == 0 { Err(self.error(IologProblem::Missing { field })) } else { Ok(&rest[..end]) }
    }

    fn number(&mut self, field: &'static str) -> Result<u64, IologError> {
        let text = self.next(field)?;
        if text.bytes().all(|b| b.is_ascii_digit()) {
            text.parse().map_err(|_| self.error(IologProblem::TooLarge { quantity: field }))
        } else {
            Err(self.error(IologProblem::NotANumber { field, found: excerpt(text) }))
        }
    }

    fn end(mut self) -> Result<(), IologError> {
        match self.next("nothing") {
            Ok(found) => Err(self.error(IologProblem::Unexpected { found: excerpt(found) })),
            Err(_) => Ok(()),
        }
    }

    fn is_at_end(&self) -> bool {
        self.line[self.at..].trim_ascii().is_empty()
    }

    /// Returns an error at the last field.
    fn error(&self, problem: IologProblem) -> IologError {
        let column = self.line[..self.last].chars().count() + 1;
        IologError { line: self.number, column, problem }
    }
}

/// The verb of a line.
enum Verb {
    Add,
    OpenOrClose,
    Wait,
    Request(Action),
}

fn verb(name: &str) -> Option<Verb> {
    Some(match name {
        "add" => Verb::Add,
        "open" | "close" => Verb::OpenOrClose,
        "wait" => Verb::Wait,
        _ => Verb::Request(Action::ALL.into_iter().find(|action| action.name() == name)?),
    })
}

fn similar_verb(name: &str) -> Option<&'static str> {
    const OTHER_VERBS: [&str; 4] = ["add", "open", "close", "wait"];
    if name.len() > SUGGEST_NAME_MAX {
        return None;
    }
    let known = Action::ALL.into_iter().map(Action::name).chain(OTHER_VERBS);
    most_similar(name, known)
}

fn most_similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    known
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_ascii_lowercase()), candidate))
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

impl Iolog {
    /// Parses an iolog of version 2 or 3.
    ///
    /// # Errors
    /// Returns the line and column of the first fault.
    pub fn read(bytes: &[u8]) -> Result<Iolog, IologError> {
        let mut lines = bytes.split(|&b| b == b'\n').zip(1..);
        let mut parser = Parser::new(lines.next().map_or(&b""[..], |(line, _)| line))?;
        let mut entries = Vec::new();
        for (line, number) in lines {
            entries.extend(parser.bytes(line, number)?);
        }
        Ok(Iolog { version: parser.version, files: parser.files, entries })
    }
}

/// Maximum length in bytes of a line that [`IologReader`] accepts.
const LINE_MAX: u64 = 1 << 20;

/// Reads an iolog line by line, so that the reader's memory depends only on the names of the files and the
/// longest line. The iterator ends after the first error.
#[derive(Debug)]
pub struct IologReader<R> {
    from: R,
    /// State of the parser; `None` until the header has been read.
    parser: Option<Parser>,
    /// Number of the last line read.
    line: usize,
    text: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> IologReader<R> {
    /// Creates a reader.
    pub fn new(from: R) -> IologReader<R> {
        IologReader { from, parser: None, line: 0, text: Vec::new(), ended: false }
    }

    /// Returns the names of the files that were added so far. [`Entry::file`] is an index into them.
    pub fn files(&self) -> &[String] {
        self.parser.as_ref().map_or(&[], |parser| &parser.files)
    }

    /// Returns the number of the last line that was read, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, IologError> {
        loop {
            let is_line = self.next_line()?;
            match &mut self.parser {
                None => self.parser = Some(Parser::new(&self.text)?),
                Some(_) if !is_line => return Ok(None),
                Some(parser) => {
                    if let Some(entry) = parser.bytes(&self.text, self.line)? {
                        return Ok(Some(entry));
                    }
                }
            }
        }
    }

    /// Reads the next line. Returns false at the end.
    fn next_line(&mut self) -> Result<bool, IologError> {
        self.line += 1;
        self.text.clear();
        let fault = |problem| IologError { line: self.line, column: 1, problem };
        let read = self.from.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut self.text);
        let read = read.map_err(|error| fault(IologProblem::Unreadable { why: error.to_string() }))?;
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        } else if read as u64 > LINE_MAX {
            return Err(fault(IologProblem::LineTooLong));
        }
        Ok(read > 0)
    }
}

impl<R: BufRead> Iterator for IologReader<R> {
    type Item = Result<Entry, IologError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let entry = self.next_entry().transpose();
        self.ended = !matches!(entry, Some(Ok(_)));
        entry
    }
}

/// State between the lines of an iolog.
#[derive(Debug)]
struct Parser {
    version: Version,
    files: Vec<String>,
    numbers: BTreeMap<String, u32>,
    /// Time on the first line after the header, in version 3.
    first_us: Option<u64>,
    at: Duration,
}

impl Parser {
    /// Reads the first line.
    fn new(first: &[u8]) -> Result<Parser, IologError> {
        let header = String::from_utf8_lossy(&first[..first.len().min(400)]);
        let version = match header.trim_ascii() {
            "fio version 2 iolog" => Version::Two,
            "fio version 3 iolog" => Version::Three,
            found => {
                let problem = IologProblem::Header { found: excerpt(found) };
                return Err(IologError { line: 1, column: 1, problem });
            }
        };
        Ok(Parser {
            version,
            files: Vec::new(),
            numbers: BTreeMap::new(),
            first_us: None,
            at: Duration::ZERO,
        })
    }

    /// Reads a line. Returns its request, if it has one.
    fn bytes(&mut self, line: &[u8], number: usize) -> Result<Option<Entry>, IologError> {
        let text = std::str::from_utf8(line).map_err(|error| {
            let column = String::from_utf8_lossy(&line[..error.valid_up_to()]).chars().count() + 1;
            IologError { line: number, column, problem: IologProblem::NotText }
        })?;
        self.line(Fields { line: text, number, at: 0, last: 0 })
    }

    fn line(&mut self, mut fields: Fields<'_>) -> Result<Option<Entry>, IologError> {
        if fields.is_at_end() {
            return Ok(None);
        }
        if fields.line.starts_with("fio version ") {
            return Err(fields.error(IologProblem::SecondHeader));
        }
        if self.version == Version::Three {
            let us = fields.number("the time in microseconds")?;
            let since = us.saturating_sub(*self.first_us.get_or_insert(us));
            let ns = since.checked_mul(1_000).ok_or_else(|| {
                fields.error(IologProblem::TooLarge { quantity: "the time in nanoseconds" })
            })?;
            self.at = self.at.max(Duration::from_ns(ns));
        }
        let name = fields.next("a file name")?;
        let name_at = fields.last;
        let action = fields.next("an action")?;
        let Some(verb) = verb(action) else {
            let did_you_mean = similar_verb(action);
            return Err(fields.error(IologProblem::UnknownAction { name: excerpt(action), did_you_mean }));
        };
        if let Verb::Add = verb {
            if !self.numbers.contains_key(name) {
                let index = u32::try_from(self.numbers.len())
                    .map_err(|_| fields.error(IologProblem::TooManyFiles))?;
                self.numbers.insert(name.to_string(), index);
                self.files.push(name.to_string());
            }
            return fields.end().map(|()| None);
        }
        let Some(&file) = self.numbers.get(name) else {
            fields.last = name_at;
            let did_you_mean = self.similar_file(name);
            return Err(fields.error(IologProblem::UnknownFile { name: excerpt(name), did_you_mean }));
        };
        match verb {
            Verb::Add | Verb::OpenOrClose => fields.end().map(|()| None),
            Verb::Wait if self.version == Version::Three => {
                Err(fields.error(IologProblem::WaitInVersionThree))
            }
            Verb::Wait => {
                let ms = fields.number("the time in milliseconds")?;
                let ns = ms.checked_mul(1_000_000).ok_or_else(|| {
                    fields.error(IologProblem::TooLarge { quantity: "the time in nanoseconds" })
                })?;
                self.at = self.at.max(Duration::from_ns(ns));
                // fio's tools write a second number, which has no meaning.
                if !fields.is_at_end() {
                    fields.number("the length")?;
                }
                fields.end().map(|()| None)
            }
            Verb::Request(action) => {
                let (mut offset, mut length) = (0, 0);
                if !action.is_flush() || !fields.is_at_end() {
                    offset = fields.number("the offset")?;
                    length = fields.number("the length")?;
                    if length == 0 && !action.is_flush() {
                        return Err(fields.error(IologProblem::NoLength));
                    }
                    if offset.checked_add(length).is_none() {
                        return Err(
                            fields.error(IologProblem::TooLarge { quantity: "the end of the request" })
                        );
                    }
                }
                let entry = Entry { at: self.at, action, file, offset, length };
                fields.end().map(|()| Some(entry))
            }
        }
    }

    fn similar_file(&self, name: &str) -> Option<String> {
        if self.numbers.len() > SUGGEST_FILES_MAX || name.len() > SUGGEST_NAME_MAX {
            return None;
        }
        let short = self.numbers.keys().map(String::as_str).filter(|known| known.len() <= SUGGEST_NAME_MAX);
        most_similar(name, short).map(str::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fails(text: &str) -> String {
        Iolog::read(text.as_bytes()).expect_err("this is no iolog").to_string()
    }

    #[test]
    fn times_of_version_3_count_from_its_first_line() {
        let log = Iolog::read(
            b"fio version 3 iolog\n1000000 f add\n1000000 f open\n1000100 f write 0 4096\n1500000 f sync 0 0\n\
              1400000 f read 4096 4096\n",
        )
        .expect("an iolog");
        let times: Vec<u64> = log.entries.iter().map(|e| e.at.as_ns()).collect();
        assert_eq!(times, [100_000, 500_000_000, 500_000_000], "a time that goes back waits for nothing");
    }

    #[test]
    fn waits_of_version_2_are_milliseconds_since_the_start() {
        let log = Iolog::read(
            b"fio version 2 iolog\nf add\nf open\nf write 0 4096\nf wait 1000 0\nf write 4096 4096\nf wait 2500\n\
              f datasync\nf close\n",
        )
        .expect("an iolog");
        let times: Vec<u64> = log.entries.iter().map(|e| e.at.as_ns() / 1_000_000).collect();
        assert_eq!(times, [0, 1000, 2500]);
    }

    #[test]
    fn errors_name_their_position_and_the_similar_name() {
        let two = "fio version 2 iolog\nf add\nf open\n";
        assert_eq!(
            fails(&format!("{two}f wrte 0 4096\n")),
            "line 4, column 3: unknown action `wrte`; did you mean `write`?"
        );
        assert_eq!(
            fails("fio version 2 iolog\ndisk add\ndisc write 0 1\n"),
            "line 3, column 1: file `disc` was not added before; did you mean `disk`?"
        );
        assert_eq!(
            fails(&format!("{two}f write 0x10 4096")),
            "line 4, column 9: the offset should be a whole decimal number, not `0x10`"
        );
        assert_eq!(
            fails(&format!("{two}f write 0\r\n")),
            "line 4, column 11: the line ends where the length should follow"
        );
        assert_eq!(
            fails(&format!("{two}f write {} 1", u64::MAX)),
            "line 4, column 30: the end of the request exceeds 64 bits"
        );
        assert_eq!(
            fails("fio version 1 iolog\n"),
            "line 1, column 1: expected `fio version 2 iolog` or `fio version 3 iolog`, found `fio version 1 iolog`; \
             `flashlab recording import --from blktrace` reads files of blktrace"
        );
        assert!(fails("").starts_with("line 1, column 1"));
        let three = "fio version 3 iolog\n0 f add\n";
        assert!(fails(&format!("{three}1 f wait 3\n")).contains("`wait` exists only in version 2"));
        assert!(fails(&format!("{three}99999999999999999 f add\n")).contains("nanoseconds"));
        assert!(fails(&format!("{three}-1 f add\n")).contains("whole decimal number"));
        assert!(fails(&format!("{three}1 f read 0 4096 7\n")).contains("should end before `7`"));
        assert!(fails(&format!("{three}1 f read 0 0\n")).contains("no bytes"));
        assert!(fails(&format!("{three}fio version 3 iolog\n")).contains("second header"));
    }

    #[test]
    fn a_line_of_ten_megabytes_is_rejected_with_an_excerpt() {
        for piece in ["x", " ", "7", "f read ", "\u{e9}"] {
            let text = format!("fio version 2 iolog\nf add\nf {}", piece.repeat(10_000_000 / piece.len()));
            match Iolog::read(text.as_bytes()) {
                Ok(log) => panic!("{} requests of {piece:?}", log.entries.len()),
                Err(error) => assert!(error.to_string().chars().count() < 200, "{error}"),
            }
        }
    }

    /// Reads an iolog as a whole and line by line, and compares the results.
    fn read_twice(bytes: &[u8]) {
        let whole = Iolog::read(bytes);
        let mut lines = IologReader::new(bytes);
        let entries: Result<Vec<Entry>, IologError> = lines.by_ref().collect();
        assert_eq!(whole.as_ref().map(|log| &log.entries), entries.as_ref());
        if let Ok(log) = whole {
            assert_eq!(log.files, lines.files());
        }
    }

    #[test]
    fn a_line_by_line_reader_states_the_line_and_rejects_an_endless_one() {
        let log: &[u8] = b"fio version 2 iolog\nf add\n\nf write 0 4096";
        let mut reader = IologReader::new(log);
        assert_eq!(reader.next().expect("a request").expect("valid").length, 4096);
        assert_eq!((reader.line(), reader.files()), (4, &["f".to_owned()][..]));
        assert!(reader.next().is_none());
        let long = format!("fio version 2 iolog\nf add\nf write {}", "7".repeat(2 << 20));
        let error = IologReader::new(long.as_bytes()).next().expect("an error").expect_err("too long");
        assert_eq!(error.to_string(), "line 3, column 1: the line is longer than 1 MiB");
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_iolog_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut log = b"fio version 3 iolog\n0 f add\n".to_vec();
            log.extend_from_slice(&bytes);
            read_twice(&bytes);
            read_twice(&log);
        }

        #[test]
        fn pieces_of_iologs_give_an_iolog_or_an_error(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "fio version 2 iolog\n", "fio version 3 iolog\n", "f", " ", "\n", "add", "open", "write", "wait",
                    "0", "4096", "18446744073709551615", "-1", "\u{e9}", "sync", "\r\n", "f add\n", "1 f add\n",
                    "f write 0 4096\n", "5 f read 0 4096\n",
                ]),
                0..40,
            ),
            version in prop::sample::select(vec!["", "fio version 2 iolog\n", "fio version 3 iolog\n"]),
        ) {
            read_twice((version.to_string() + &pieces.concat()).as_bytes());
        }
    }
}
