//! Parsers for values with their own syntax: `rw=randread:8`, `bssplit=4k/60:64k/40`, `random_distribution=zipf:1.2`.

use super::nearest;
use crate::job::{Distribution, Mix, Pattern, SizeShare};
use crate::number::{self, Fault, KbBase, LARGEST, ValueError, each_direction, pieces, shifted};

const SPLIT_MAX: usize = 64;
const ZONES_MAX: usize = 256;
/// Maximum number of names, which is also the maximum number of clones that `numjobs` can make.
const NAMES_MAX: usize = 4096;

/// Returns the index of `text` in `words`.
pub(crate) fn word(text: &str, words: &'static [&'static str]) -> Result<usize, ValueError> {
    let text = text.trim_end();
    words.iter().position(|word| *word == text).ok_or_else(|| {
        let did_you_mean = nearest(text, words.iter().copied());
        Fault::NotOneOf { words: words.to_vec(), did_you_mean }.at(0)
    })
}

const PATTERNS: &[&str] = &[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];

/// Parses `rw=`.
pub(crate) fn pattern(text: &str, base: KbBase) -> Result<Pattern, ValueError> {
    let (name, modifier) = match text.split_once(':') {
        Some((name, modifier)) => (name, Some(modifier)),
        None => (text, None),
    };
    let name = PATTERNS[word(name, PATTERNS)?];
    let mix = match name {
        "read" | "randread" => Mix::Read,
        "write" | "randwrite" => Mix::Write,
        "trim" | "randtrim" => Mix::Trim,
        "trimwrite" | "randtrimwrite" => Mix::TrimWrite,
        _ => Mix::ReadWrite,
    };
    let random = name.starts_with("rand");
    let mut pattern = Pattern { random, mix, sequence: 1, sequence_skip: 0 };
    let Some(modifier) = modifier else { return Ok(pattern) };
    let start = text.len() - modifier.len();
    if random {
        let count = number::bounded(modifier, base, 1, u64::from(u32::MAX));
        pattern.sequence = shifted(count, text, start)? as u32;
    } else {
        let (sign, size, start) = match modifier.strip_prefix('-') {
            Some(size) => (-1, size, start + 1),
            None => (1, modifier, start),
        };
        let skip = i64::try_from(shifted(number::bytes(size, base), text, start)?);
        pattern.sequence_skip = sign * skip.expect("no number is above i64::MAX");
    }
    Ok(pattern)
}

/// Parses `bssplit=` for one direction. Blank shares divide the rest equally; the last entry gets the remainder.
pub(crate) fn split(text: &str, base: KbBase) -> Result<Vec<SizeShare>, ValueError> {
    const FORM: &str = "sizes and shares such as 4k/60:64k/40";
    let mut entries: Vec<(u64, Option<u32>)> = Vec::new();
    for (start, part) in pieces(text, &[':']) {
        if entries.len() == SPLIT_MAX {
            let at = text[..start].chars().count();
            return Err(Fault::TooManyParts { most: SPLIT_MAX }.at(at));
        }
        if part.is_empty() {
            return Err(Fault::Malformed { expected: FORM }.at(text[..start].chars().count()));
        }
        let mut fields = pieces(part, &['/']);
        let (_, size) = fields.next().expect("there is a first piece");
        let bytes = shifted(number::bounded(size, base, 1, LARGEST), text, start)?;
        let share = match fields.next() {
            None | Some((_, "")) => None,
            Some((at, share)) => {
                let share = shifted(number::bounded(share, base, 0, 100), text, start + at)?;
                Some(share as u32)
            }
        };
        if let Some((at, _)) = fields.next() {
            return Err(Fault::Malformed { expected: FORM }.at(text[..start + at].chars().count()));
        }
        entries.push((bytes, share));
    }
    let sum: u64 = entries.iter().filter_map(|(_, share)| *share).map(u64::from).sum();
    let blanks = entries.iter().filter(|(_, share)| share.is_none()).count() as u64;
    if sum > 100 || (blanks == 0 && sum < 100) {
        return Err(Fault::SharesSum { sum, of: "the block sizes" }.at(0));
    }
    let each = (100 - sum).checked_div(blanks).unwrap_or(0);
    let mut shares: Vec<SizeShare> = entries
        .into_iter()
        .map(|(bytes, share)| SizeShare { bytes, percent: share.unwrap_or(each as u32) })
        .collect();
    let last = shares.last_mut().expect("there is an entry");
    last.percent += (100 - sum - each * blanks) as u32;
    Ok(shares)
}

/// Parses `random_distribution=`.
pub(crate) fn distribution(text: &str, base: KbBase) -> Result<Distribution, ValueError> {
    const WORDS: &[&str] = &["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"];
    let (name, input) = match text.split_once(':') {
        Some((name, input)) => (name, Some((text.len() - input.len(), input))),
        None => (text, None),
    };
    let kind = WORDS[word(name, WORDS)?];
    if let Some((start, input)) = input
        && let Some(comma) = input.find(',')
    {
        let fault = Fault::NotModelled("reads, writes and trims share one distribution here; write one");
        return Err(fault.at(text[..start + comma].chars().count()));
    }
    let shape = |default: Option<f64>, expected: &'static str, accepts: fn(f64) -> bool| {
        let Some((start, input)) = input else {
            return default.ok_or(Fault::Malformed { expected }.at(text.chars().count()));
        };
        if let Some((shape, _)) = input.split_once(':') {
            let at = text[..start + shape.len()].chars().count();
            return Err(
                Fault::NotModelled("the centre of a distribution is not modelled; leave it out").at(at)
            );
        }
        let value = shifted(number::fraction(input, f64::MIN, f64::MAX), text, start)?;
        if accepts(value) {
            Ok(value)
        } else {
            Err(Fault::Malformed { expected }.at(text[..start].chars().count()))
        }
    };
    match kind {
        "random" if input.is_some() => Err(Fault::Malformed { expected: "random without a parameter" }.at(6)),
        "random" => Ok(Distribution::Uniform),
        "zipf" => {
            let expected = "a theta above 0 and up to 100 that is not 1, such as zipf:1.1";
            shape(Some(1.1), expected, |theta| theta > 0.0 && theta != 1.0 && theta <= 100.0)
                .map(Distribution::Zipf)
        }
        "pareto" => {
            let expected = "a power between 0 and 1, such as pareto:0.2";
            shape(Some(0.2), expected, |power| power > 0.0 && power < 1.0).map(Distribution::Pareto)
        }
        "normal" => {
            let expected = "a deviation above 0 and up to 100 percent, such as normal:20";
            shape(None, expected, |deviation| deviation > 0.0 && deviation <= 100.0).map(Distribution::Normal)
        }
        _ => {
            let expected = "zones such as zoned:60/10:30/20:10/70 or zoned_abs:60/20G:40/100G";
            let (start, input) = input.ok_or(Fault::Malformed { expected }.at(text.chars().count()))?;
            let zones = shifted(zones(input, base, kind == "zoned"), text, start)?;
            Ok(if kind == "zoned" {
                Distribution::Zoned(zones.into_iter().map(|(share, range)| (share, range as u32)).collect())
            } else {
                Distribution::ZonedAbsolute(zones)
            })
        }
    }
}

/// Parses zones such as `60/10:30/20:10/70`. Each zone has a percentage of the accesses, and a percentage of the range
/// or a size in bytes.
fn zones(text: &str, base: KbBase, relative: bool) -> Result<Vec<(u32, u64)>, ValueError> {
    let expected = if relative { "a zone such as 60/10" } else { "a zone such as 60/20G" };
    let most = if relative { 100 } else { LARGEST };
    let mut zones: Vec<(u32, Option<u64>)> = Vec::new();
    for (start, part) in pieces(text, &[':']) {
        let at = text[..start].chars().count();
        if zones.len() == ZONES_MAX {
            return Err(Fault::TooManyParts { most: ZONES_MAX }.at(at));
        }
        let (share, range) = part.split_once('/').unwrap_or((part, ""));
        let share = shifted(number::bounded(share, base, 0, 100), text, start)? as u32;
        let range = match range {
            "" if relative => None,
            "" => return Err(Fault::Malformed { expected }.at(at)),
            range => {
                let from = start + part.len() - range.len();
                Some(shifted(number::bounded(range, base, 1, most), text, from)?)
            }
        };
        zones.push((share, range));
    }
    let accesses: u64 = zones.iter().map(|(share, _)| u64::from(*share)).sum();
    if accesses != 100 {
        return Err(Fault::SharesSum { sum: accesses, of: "the accesses" }.at(0));
    }
    let covered = zones.iter().filter_map(|(_, range)| *range).try_fold(0_u64, u64::checked_add);
    let covered = covered.filter(|sum| *sum <= LARGEST).ok_or(Fault::TooLarge.at(0))?;
    let blanks = zones.iter().filter(|(_, range)| range.is_none()).count() as u64;
    if relative && covered > 100 {
        return Err(Fault::SharesSum { sum: covered, of: "the range" }.at(0));
    }
    if relative && covered + blanks > 100 {
        return Err(Fault::Malformed { expected: "at least 1 percent of the range for each zone" }.at(0));
    }
    let each = if relative { (100 - covered).checked_div(blanks).unwrap_or(0) } else { 0 };
    Ok(zones.into_iter().map(|(share, range)| (share, range.unwrap_or(each))).collect())
}

/// Parses names separated by `:`. In a name, `\:` stands for a colon.
pub(crate) fn names(text: &str) -> Result<Vec<String>, ValueError> {
    let mut names = vec![String::new()];
    let mut characters = text.chars().enumerate().peekable();
    while let Some((at, c)) = characters.next() {
        let count = names.len();
        let name = names.last_mut().expect("a list of names has at least one");
        match c {
            '\\' if characters.next_if(|(_, next)| *next == ':').is_some() => name.push(':'),
            ':' if name.is_empty() => return Err(Fault::Malformed { expected: "a name before the :" }.at(at)),
            ':' if count == NAMES_MAX => return Err(Fault::TooManyParts { most: NAMES_MAX }.at(at)),
            ':' => names.push(String::new()),
            c => name.push(c),
        }
    }
    match names.last() {
        Some(last) if last.is_empty() => {
            Err(Fault::Malformed { expected: "a name after the :" }.at(text.chars().count()))
        }
        _ if names.iter().any(|name| name == "-") => {
            Err(Fault::NotModelled("- stands for standard input, which is not supported; write a name").at(0))
        }
        _ => Ok(names),
    }
}

/// Checks `sync_file_range=`: words separated by commas, and a number of blocks after the last one.
pub(crate) fn sync_file_range(text: &str, base: KbBase) -> Result<(), ValueError> {
    const WORDS: &[&str] = &["wait_before", "write", "wait_after"];
    let (words, blocks) = match text.split_once(':') {
        Some((words, blocks)) => (words, Some(blocks)),
        None => (text, None),
    };
    for (start, part) in pieces(words, &[',']) {
        shifted(word(part, WORDS), text, start)?;
    }
    if let Some(blocks) = blocks {
        shifted(number::bounded(blocks, base, 0, u64::from(u32::MAX)), text, text.len() - blocks.len())?;
    }
    Ok(())
}

/// Parses `bs=`.
pub(crate) fn block_sizes(text: &str, base: KbBase) -> Result<[Option<u64>; 3], ValueError> {
    each_direction(text, &[','], |part| number::bounded(part, base, 1, LARGEST)).map_err(|error| {
        let is_list = matches!(error.fault, Fault::OneValue { .. });
        let fault = if is_list {
            Fault::OneValue { instead: "for a range write bsrange=4k-16k, for a mix bssplit=4k/50:16k/50" }
        } else {
            error.fault
        };
        fault.at(error.at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_parsed_with_and_without_a_modifier() {
        let read = |text| pattern(text, KbBase::Binary);
        let sequential = Pattern { random: false, mix: Mix::Write, sequence: 1, sequence_skip: 4096 };
        assert_eq!(read("write:4k"), Ok(sequential));
        assert_eq!(read("write:-4k").map(|p| p.sequence_skip), Ok(-4096));
        assert_eq!(read("randread:8").map(|p| (p.random, p.sequence)), Ok((true, 8)));
        assert_eq!(read("randtrimwrite").map(|p| (p.random, p.mix)), Ok((true, Mix::TrimWrite)));
        assert_eq!(read("readwrite").map(|p| p.mix), Ok(Mix::ReadWrite));
        for text in ["reads", "randread:", "randread:0", "randread:x", "write:4x", ":", "randread:-1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blank_shares_of_a_split_divide_the_rest() {
        let shares =
            |text| split(text, KbBase::Binary).map(|s| s.iter().map(|s| s.percent).collect::<Vec<_>>());
        assert_eq!(shares("4k/60:64k/40"), Ok(vec![60, 40]));
        assert_eq!(shares("4k/50:1k/:32k/"), Ok(vec![50, 25, 25]));
        assert_eq!(shares("4k:8k:16k"), Ok(vec![33, 33, 34]));
        assert_eq!(shares("4k"), Ok(vec![100]));
        assert_eq!(shares("4k/60:64k/41"), Err(Fault::SharesSum { sum: 101, of: "the block sizes" }.at(0)));
        assert_eq!(shares("4k/60:64k/30"), Err(Fault::SharesSum { sum: 90, of: "the block sizes" }.at(0)));
        for text in ["", ":", "0/100", "/50", "4k/50/1:8k/50", "4k/50:", "4k/x", "4k/-1"] {
            assert!(split(text, KbBase::Binary).is_err(), "{text}");
        }
    }

    #[test]
    fn distributions_have_fio_s_bounds() {
        let read = |text| distribution(text, KbBase::Binary);
        assert_eq!(read("random"), Ok(Distribution::Uniform));
        assert_eq!(read("zipf"), Ok(Distribution::Zipf(1.1)));
        assert_eq!(read("pareto:0.3"), Ok(Distribution::Pareto(0.3)));
        assert_eq!(read("normal:20"), Ok(Distribution::Normal(20.0)));
        assert_eq!(
            read("zoned:60/10:30/20:10/70"),
            Ok(Distribution::Zoned(vec![(60, 10), (30, 20), (10, 70)]))
        );
        assert_eq!(read("zoned:50/5:30/15:20/"), Ok(Distribution::Zoned(vec![(50, 5), (30, 15), (20, 80)])));
        assert_eq!(
            read("zoned_abs:60/20G:40/100g"),
            Ok(Distribution::ZonedAbsolute(vec![(60, 20 << 30), (40, 100 << 30)]))
        );
        let each = Fault::Malformed { expected: "at least 1 percent of the range for each zone" };
        assert_eq!(read("zoned:60/100:40/").map_err(|error| error.fault), Err(each));
        for text in [
            "zipf:1",
            "zipf:x",
            "zipf:0",
            "zipf:1.2:0.5",
            "pareto:1.5",
            "normal",
            "normal:101",
            "gauss",
            "zoned",
            "zoned:10/10:20/20",
            "zoned:60/10:40/91",
            "zoned_abs:60/20G",
            "zoned_abs:100",
            "random:1",
            "zoned:60/10:40/90,100/100",
            "zoned_abs:50/8191p:50/8191p",
            "zoned:100/100:0",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_words_and_the_number_of_sync_file_range_are_checked() {
        for text in ["write", "write:8", "wait_before,write:8", "wait_before,write,wait_after:128"] {
            assert_eq!(sync_file_range(text, KbBase::Binary), Ok(()), "{text}");
        }
        for text in ["0", "foo", "foo:8", "write:x", "write,", "wait_before:3,write:8"] {
            assert!(sync_file_range(text, KbBase::Binary).is_err(), "{text}");
        }
    }

    #[test]
    fn colons_in_names_are_escaped() {
        assert_eq!(names(r"/dev/a\:b:c"), Ok(vec!["/dev/a:b".to_string(), "c".to_string()]));
        assert_eq!(names(r"a\b"), Ok(vec![r"a\b".to_string()]));
        for text in ["", ":", "a:", "a::b", "-"] {
            assert!(names(text).is_err(), "{text}");
        }
    }
}
