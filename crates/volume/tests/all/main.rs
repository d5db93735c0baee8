//! Tests of the crate's public interface.

mod encode;
