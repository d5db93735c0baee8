//! Tests with the real tools: images are made, and judged by the checkers and readers of their formats.

mod compose;
mod diff;
mod directory;
mod judges;
