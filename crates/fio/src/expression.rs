//! Evaluates arithmetic in parentheses, as fio's manual describes it: `size=(4k * 16)`.
//!
//! The operators `+ - * / % ^` apply to whole numbers with suffixes. The result is exact in 128 bits. A division with a
//! remainder, a negative result and a result above 2^63 - 1 are errors.

use crate::number::{Fault, LARGEST, ValueError};

/// Maximum nesting depth. Each level uses some stack.
const DEPTH_MAX: u32 = 32;
/// Bound on intermediate results, which keeps each operation from overflowing.
const BOUND: i128 = 1 << 100;

/// Evaluates an expression. `factor` returns the multiplier of a number's suffix, which may be empty.
pub(crate) fn evaluate(text: &str, factor: &dyn Fn(&str) -> Option<u64>) -> Result<u64, ValueError> {
    let mut parser = Parser { text, at: 0, depth: 0, factor };
    let value = parser.sum()?;
    parser.skip_blanks();
    if parser.at < text.len() {
        return Err(parser.fault("expected an operator or the end"));
    }
    match u64::try_from(value) {
        Ok(n) if n <= LARGEST => Ok(n),
        Ok(_) => Err(Fault::TooLarge.at(0)),
        Err(_) if value < 0 => Err(Fault::Negative.at(0)),
        Err(_) => Err(Fault::TooLarge.at(0)),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    factor: &'a dyn Fn(&str) -> Option<u64>,
}

impl Parser<'_> {
    fn fault(&self, why: &'static str) -> ValueError {
        Fault::Expression(why).at(self.text[..self.at].chars().count())
    }
    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.text[self.at..].chars().next()
    }
    fn bounded(&self, value: Option<i128>) -> Result<i128, ValueError> {
        value.filter(|v| v.abs() < BOUND).ok_or(Fault::TooLarge.at(0))
    }

    fn sum(&mut self) -> Result<i128, ValueError> {
        let mut value = self.term()?;
        while let Some(operator @ ('+' | '-')) = self.peek() {
            self.at += 1;
            let right = self.term()?;
            value = self.bounded(Some(if operator == '+' { value + right } else { value - right }))?;
        }
        Ok(value)
    }

    fn term(&mut self) -> Result<i128, ValueError> {
        let mut value = self.power()?;
        while let Some(operator @ ('*' | '/' | '%')) = self.peek() {
            self.at += 1;
            let right = self.power()?;
            value = match operator {
                '*' => self.bounded(value.checked_mul(right))?,
                _ if right == 0 => return Err(self.fault("a division by zero")),
                '%' => value % right,
                _ if value % right != 0 => return Err(self.fault("the division leaves a remainder")),
                _ => value / right,
            };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<i128, ValueError> {
        let base = self.atom()?;
        if self.peek() != Some('^') {
            return Ok(base);
        }
        self.at += 1;
        self.enter()?;
        let exponent = self.power()?;
        self.depth -= 1;
        let exponent = u32::try_from(exponent).map_err(|_| self.fault("the exponent is out of range"))?;
        self.bounded(base.checked_pow(exponent))
    }

    fn enter(&mut self) -> Result<(), ValueError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.fault("it is nested too deeply")) } else { Ok(()) }
    }

    fn atom(&mut self) -> Result<i128, ValueError> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.enter()?;
                let value = self.sum()?;
                if self.peek() != Some(')') {
                    return Err(self.fault("expected an operator or )"));
                }
                self.at += 1;
                self.depth -= 1;
                Ok(value)
            }
            Some('-') => {
                self.at += 1;
                self.enter()?;
                let value = -self.atom()?;
                self.depth -= 1;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            _ => Err(self.fault("expected a number or (")),
        }
    }

    fn number(&mut self) -> Result<i128, ValueError> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = &rest[..length];
        let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let n = match (word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")), &word[..split]) {
            (Some(hexadecimal), _) => u64::from_str_radix(hexadecimal, 16).ok().map(|n| (n, "")),
            (None, decimal) => decimal.parse().ok().map(|n| (n, &word[split..])),
        };
        let (n, suffix): (u64, &str) =
            n.ok_or_else(|| self.fault("this is not a number, or it is too large"))?;
        let factor = (self.factor)(suffix).ok_or_else(|| self.fault("the number has an unknown suffix"))?;
        self.at += length;
        self.bounded(i128::from(n).checked_mul(i128::from(factor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{KbBase, byte_factor};

    fn value(text: &str) -> Result<u64, ValueError> {
        evaluate(text, &|suffix| byte_factor(suffix, KbBase::Binary))
    }

    #[test]
    fn operators_have_the_usual_precedence() {
        for (text, expected) in [
            ("(4k*16)", 65536),
            ("(1 + 2 * 3)", 7),
            ("((1 + 2) * 3)", 9),
            ("(2^10)", 1024),
            ("(2^3^2)", 512),
            ("(10 - 4 - 3)", 3),
            ("(1m / 4k)", 256),
            ("(7 % 4)", 3),
            ("(0x10 + 1)", 17),
            ("(10 - -1)", 11),
            ("(1)", 1),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn inexact_expressions_are_rejected() {
        for text in
            ["(1/0)", "(7/2)", "(1-2)", "(2^63)", "(2^-1)", "(", "()", "(1", "(1))", "(1+)", "(1x)", "(9p^9)"]
        {
            assert!(value(text).is_err(), "{text}");
        }
        assert!(value(&"(".repeat(100_000)).is_err());
        assert!(value(&format!("({}1)", "-".repeat(100_000))).is_err());
        assert!(value(&format!("(1{})", "^1".repeat(100_000))).is_err());
    }
}
