//! Lines of a terminal: colour, columns, words broken where they must be, text from outside made harmless.

use tabled::{
    builder::Builder,
    settings::{Alignment, Modify, Padding, Style as Lines, Width, object::Columns, peaker::Priority},
};

/// How the table is dressed.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Characters of the widest line.
    pub(super) width: usize,
    pub(super) colour: bool,
}

impl Style {
    pub(super) fn paint(self, code: &str, text: impl Into<String>) -> String {
        let text = text.into();
        if self.colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text }
    }
    pub(super) fn bold(self, text: impl Into<String>) -> String {
        self.paint("1", text)
    }
    pub(super) fn dim(self, text: impl Into<String>) -> String {
        self.paint("2", text)
    }
    pub(super) fn good(self, text: impl Into<String>) -> String {
        self.paint("32", text)
    }
    pub(super) fn warn(self, text: impl Into<String>) -> String {
        self.paint("33", text)
    }
    pub(super) fn bad(self, text: impl Into<String>) -> String {
        self.paint("1;31", text)
    }
}

/// The lines of a block: its header first.
pub(super) type Lined = Vec<Vec<String>>;

/// The least width to which the last column is wrapped on its own, in characters.
const LAST_COLUMN_MIN: usize = 20;

/// The least width to which the first column is wrapped on its own, in characters.
const FIRST_COLUMN_MIN: usize = 12;

/// The text on lines of at most `width` characters; those after the first are indented two characters more than it.
fn hung(text: &str, width: usize) -> String {
    if text.lines().all(|line| visible_width(line) <= width) {
        return text.to_owned();
    }
    let indent = text.chars().take_while(|c| *c == ' ').count();
    let lines = wrap(text.trim_start(), width.saturating_sub(indent + 2));
    format!("{}{}", " ".repeat(indent), lines.replace('\n', &format!("\n{}", " ".repeat(indent + 2))))
}

/// The lines as columns two spaces apart, without those not `kept`; `right` are aligned right; nothing is wider than
/// `total`, and no line ends in a space. The last column gives way first, then the first, then the widest.
pub(super) fn layout(mut lines: Lined, kept: &[bool], right: &[usize], total: usize) -> String {
    let places: Vec<usize> = (0..kept.len()).filter(|i| kept[*i]).collect();
    let (last, others) = places.split_last().expect("a layout has columns");
    let longest = |text: &str| text.lines().map(visible_width).max().unwrap_or(0);
    let width =
        |lines: &Lined, place: usize| lines.iter().map(|line| longest(&line[place])).max().unwrap_or(0);
    let room = total.saturating_sub(others.iter().map(|place| width(&lines, *place) + 2).sum());
    if room >= LAST_COLUMN_MIN {
        for line in &mut lines {
            line[*last] = wrap(&line[*last], room);
        }
    }
    if let Some((first, others)) = places.split_first() {
        let taken: usize = others.iter().map(|place| width(&lines, *place) + 2).sum();
        let room = total.saturating_sub(taken + 2);
        if (FIRST_COLUMN_MIN..width(&lines, *first)).contains(&room) {
            for line in &mut lines {
                line[*first] = hung(&line[*first], room);
            }
        }
    }
    let mut builder = Builder::default();
    for line in lines {
        builder.push_record(places.iter().map(|i| line[*i].clone()));
    }
    let mut table = builder.build();
    table.with(Lines::empty()).with(Padding::new(0, 2, 0, 0));
    for (column, place) in places.iter().enumerate() {
        if right.contains(place) {
            table.with(Modify::new(Columns::one(column)).with(Alignment::right()));
        }
    }
    table.with(Width::wrap(total).priority(Priority::max(false)).keep_words(true));
    table.to_string().lines().map(|line| format!("{}\n", trim_end(line))).collect()
}

/// Without the spaces at the end, also those before or between the sequences that end a colour.
pub(super) fn trim_end(line: &str) -> String {
    let mut ends = String::new();
    let mut line = line.trim_end();
    while let Some(start) =
        line.rfind('\u{1b}').filter(|start| line[*start..].find('m') == Some(line.len() - start - 1))
    {
        ends.insert_str(0, &line[start..]);
        line = line[..start].trim_end();
    }
    line.to_string() + &ends
}

/// The line in pieces of at most `width` characters: a figure of hundreds of digits is wider than any terminal. A line with
/// colours stays whole.
pub(super) fn cut(line: &str, width: usize) -> Vec<String> {
    if line.contains('\u{1b}') || visible_width(line) <= width {
        return vec![line.to_owned()];
    }
    let letters: Vec<char> = line.chars().collect();
    letters.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect()
}

/// Text from outside without control characters: they could move the cursor or break a line; nor marks that turn the
/// direction of what follows or take no room.
pub(super) fn clean(text: &str) -> String {
    let is_hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().map(|c| if c.is_control() || is_hidden(c) { '\u{FFFD}' } else { c }).collect()
}

/// Characters without the sequences that colour them.
pub(super) fn visible_width(text: &str) -> usize {
    let mut sequences = text.split('\u{1b}');
    let before = sequences.next().map_or(0, |text| text.chars().count());
    before + sequences.map(|s| s.split_once('m').map_or(0, |(_, text)| text.chars().count())).sum::<usize>()
}

/// Where the path of a parameter is broken, in characters.
const PATH_WIDTH: usize = 46;

/// A path, indented, broken after its commas and colon where it is long, so that one path of many devices does not take
/// the room of all others.
pub(super) fn broken(path: &str, total: usize) -> String {
    let path_width = PATH_WIDTH.min(total / 2);
    let mut lines: Vec<String> = vec!["  ".into()];
    for piece in path.split_inclusive([',', ':']) {
        let line = lines.last_mut().expect("there is always a line");
        if line.len() > 2 && visible_width(line) + visible_width(piece) > path_width {
            lines.push(format!("    {piece}"));
        } else {
            line.push_str(piece);
        }
    }
    lines.join("\n")
}

/// Words on lines of at most `width` characters.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && visible_width(line) + 1 + visible_width(word) > width {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}
