//! Readers of the outputs of other measuring programs.
