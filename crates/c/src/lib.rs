//! The C library of flashlab, `libflashlab`: block devices and SD cards by name, for the tests of firmware and drivers.
//!
//! The header `include/flashlab.h` is the interface and its documentation. This crate exports the functions that the
//! header declares, and a test proves that both agree in names, types, constants and layouts.
//!
//! # Guarantees
//! - There is no global state. A handle is opaque, and holds everything that a call needs.
//! - A function that can fail returns a code, and writes the code and a text to the caller's `flashlab_error`.
//! - No panic crosses the boundary: `export.rs` generates every exported function with a guard around its body.
//! - A null pointer, a misaligned pointer, an impossible length and an unknown constant are errors.
//! - Use of a handle that another call uses already, in a callback or on another thread, is an error as well
//!   (`handle.rs`).
//!
//! Unsafe code is confined to four files: `pointer.rs` and `handle.rs` (pointers from C), `store.rs` (calls to C), and
//! `export.rs` (names without mangling).

mod code;
mod device;
mod export;
mod handle;
mod native;
mod observe;
mod options;
mod pointer;
mod spi;
mod store;
mod version;
