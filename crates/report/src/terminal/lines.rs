//! Lines of a terminal: colour, columns, wrapping, and removal of control characters from external text.

/// The width and colouring of the output.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Maximum line width in characters.
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

/// Lines of cells. The first line of a block is its header.
pub(super) type Lined = Vec<Vec<String>>;

/// Minimum width in characters to which the last column alone is wrapped.
const LAST_COLUMN_MIN: usize = 20;

/// Minimum width in characters to which the first column alone is wrapped.
const FIRST_COLUMN_MIN: usize = 12;

/// Wraps the text at `width` characters. Lines after the first are indented by two more characters than the first.
pub(super) fn hanging_indent(text: &str, width: usize) -> String {
    if text.lines().all(|line| visible_width(line) <= width) {
        return text.to_owned();
    }
    let indent = text.chars().take_while(|c| *c == ' ').count();
    let lines = wrap(text.trim_start(), width.saturating_sub(indent + 2));
    format!("{}{}", " ".repeat(indent), lines.replace('\n', &format!("\n{}", " ".repeat(indent + 2))))
}

/// Lays out the lines in columns two spaces apart, without the columns that are not `shown`. The columns in `right` are
/// aligned right. No line is wider than `total` or ends in a space. The last column is wrapped first, then the first
/// column, then the widest.
pub(super) fn layout(mut lines: Lined, shown: &[bool], right: &[usize], total: usize) -> String {
    let places: Vec<usize> = (0..shown.len()).filter(|i| shown[*i]).collect();
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
                line[*first] = hanging_indent(&line[*first], room);
            }
        }
    }
    let rows: Vec<Vec<&str>> =
        lines.iter().map(|line| places.iter().map(|place| &*line[*place]).collect()).collect();
    let right: Vec<bool> = places.iter().map(|place| right.contains(place)).collect();
    columns(&rows, &right, total)
}

/// Spaces between two columns.
const GAP: usize = 2;

/// Returns `rows` as columns, of which those marked in `right` are aligned right. While the columns are wider than
/// `total`, the widest one that is wider than its longest word gives way, and its cells wrap. Words are cut only if the
/// longest words of all columns do not fit beside each other. No line ends in a space.
pub fn columns(rows: &[Vec<&str>], right: &[bool], total: usize) -> String {
    let longest = |text: &str| text.split('\n').map(visible_width).max().unwrap_or(0);
    let greatest = |of: &dyn Fn(&str) -> usize| -> Vec<usize> {
        (0..right.len()).map(|column| rows.iter().map(|row| of(row[column])).max().unwrap_or(0)).collect()
    };
    let mut widths = greatest(&longest);
    let words = greatest(&|text| text.split([' ', '\n']).map(visible_width).max().unwrap_or(0));
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > total {
        let wraps = (0..widths.len()).filter(|column| widths[*column] > words[*column]);
        let widest = wraps.max_by_key(|column| widths[*column]);
        let widest = widest.or_else(|| (0..widths.len()).max_by_key(|column| widths[*column]));
        let widest = widest.expect("columns that are too wide exist");
        if widths[widest] <= 1 {
            break;
        }
        widths[widest] -= 1;
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<Vec<String>> =
            row.iter().zip(&widths).map(|(cell, width)| cell_lines(cell, *width)).collect();
        for n in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = String::new();
            for ((cell, width), right) in cells.iter().zip(&widths).zip(right) {
                let part = cell.get(n).map_or("", String::as_str);
                let space = " ".repeat(width.saturating_sub(visible_width(part)));
                line += &if *right { space + part } else { part.to_owned() + &space };
                line += &" ".repeat(GAP);
            }
            text += &trim_end(&line);
            text.push('\n');
        }
    }
    text
}

/// Returns the lines of a cell that is `width` characters wide. A colour that spans several lines begins and ends in
/// each of them, so that it does not reach into other columns.
fn cell_lines(cell: &str, width: usize) -> Vec<String> {
    let fits = |line: &str| visible_width(line) <= width;
    let wrapped = |line: &str| if fits(line) { line.to_owned() } else { wrap(line, width) };
    let lines: Vec<String> = cell.split('\n').map(wrapped).collect();
    let mut colour: Option<String> = None;
    let mut all = Vec::new();
    for line in lines.iter().flat_map(|line| line.split('\n')).flat_map(|line| cut(line, width)) {
        let begun = colour.clone().unwrap_or_default();
        for sequence in line.split('\u{1b}').skip(1) {
            let code = sequence.split_once('m').map_or("", |(code, _)| code);
            colour = (code != "[0").then(|| format!("\u{1b}{code}m"));
        }
        let end = if colour.is_some() { "\u{1b}[0m" } else { "" };
        all.push(format!("{begun}{line}{end}"));
    }
    all
}

/// Removes spaces at the end of a line, including those before or between escape sequences that end a colour.
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

/// Splits a line into pieces of at most `width` characters, because a figure with hundreds of digits is wider than any
/// terminal. Does not split a line with colours.
pub(super) fn cut(line: &str, width: usize) -> Vec<String> {
    if line.contains('\u{1b}') || visible_width(line) <= width {
        return vec![line.to_owned()];
    }
    let letters: Vec<char> = line.chars().collect();
    letters.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect()
}

/// Replaces control characters in external text, which could move the cursor or break a line, and invisible marks,
/// which could change the text direction or take no space.
pub(super) fn clean(text: &str) -> String {
    let is_hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().map(|c| if c.is_control() || is_hidden(c) { '\u{FFFD}' } else { c }).collect()
}

/// Returns the number of characters, without the escape sequences for colour.
pub(super) fn visible_width(text: &str) -> usize {
    let mut sequences = text.split('\u{1b}');
    let before = sequences.next().map_or(0, |text| text.chars().count());
    before + sequences.map(|s| s.split_once('m').map_or(0, |(_, text)| text.chars().count())).sum::<usize>()
}

/// Width in characters at which the path of a parameter is broken.
const PATH_WIDTH: usize = 46;

/// Indents a path and breaks a long path after its commas and colons, so that one path of several devices does not take
/// the space of all others.
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

/// Wraps words at `width` characters.
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
