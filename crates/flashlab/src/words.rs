//! Words as one line of text, quoted as in a shell: commands on control sockets, and command lines to type again.

use std::borrow::Cow;

/// Quotes `word` in such a way that a shell and [`split`] read the result as `word`.
pub(crate) fn quote(word: &str) -> Cow<'_, str> {
    // A shell takes these characters as they are within a word; shlex quotes some of them.
    let is_plain = |c: char| c.is_alphanumeric() || "-_=/.,:%+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    shlex::try_quote(word).expect("an argument of a command line has no zero byte")
}

/// Joins words to a line.
pub(crate) fn join<S: AsRef<str>>(words: &[S]) -> String {
    words.iter().map(|word| quote(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Splits a line into its words.
#[cfg(any(feature = "image", feature = "serve"))]
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    shlex::split(line)
        .ok_or_else(|| format!("{line:?}: a quotation mark is not closed, or a backslash ends the line"))
}

#[cfg(all(test, feature = "serve"))]
mod tests {
    use super::*;

    #[test]
    fn joined_words_are_split_into_the_same_words() {
        let words = ["rekey", "/my keys/new", "it's", "say \"so\"", "", "a\\b", "#1", "$HOME", "--name=a b"];
        assert_eq!(split(&join(&words)).expect("the line is balanced"), words);
        assert_eq!(
            join(&["add", "--force", "ssd.c=file:c.img,size=1GiB"]),
            "add --force ssd.c=file:c.img,size=1GiB"
        );
        assert_eq!(split(" stats\n").expect("a word"), ["stats"]);
        assert_eq!(
            split("rekey 'new"),
            Err("\"rekey 'new\": a quotation mark is not closed, or a backslash ends the line".to_owned())
        );
    }
}
