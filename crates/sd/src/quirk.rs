//! Faults and quirks of a card, which its command path consults.

/// What is wrong with a card: nothing.
#[derive(Clone, Debug, Default)]
pub struct Quirks {}
