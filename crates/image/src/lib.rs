//! Images of filesystems, and disks composed of them.
//!
//! | module | contents |
//! |---|---|
//! | [`tree`] | a tree of files: names, modes, owners, times and the origin of the contents |
//! | [`scan`] | the tree of a directory, and the check that the directory did not change meanwhile |
//! | [`stage`] | a tree laid out in a temporary directory, from which the tools read |
//! | [`temporary`] | temporary folders |
//! | [`tool`] | external programs in a fixed environment |
//! | [`filesystem`] | ext2, ext3, ext4, SquashFS, EROFS and FAT32, made by their own tools |
//! | [`table`] | partition tables: MBR and GPT |
//! | [`recipe`] | the recipe of a disk, in TOML |
//! | [`compose`] | the disk of a recipe |
//! | [`directory`] | a directory as a filesystem image |
//! | [`build`] | root images with given options, their sizes and the cost of the build |
//! | [`diff`] | the files in which two states of a device differ |
//!
//! The same input gives the same bytes on every machine with the same versions of the tools: names are sorted, times and
//! owners come from the tree, identifiers come from a seed, and the tools run with a fixed locale, time zone and clock.
//! Symbolic links are stored as links and never followed.
#![forbid(unsafe_code)]

pub mod build;
pub mod compose;
pub mod diff;
pub mod directory;
mod error;
pub mod filesystem;
mod identity;
pub mod recipe;
pub mod scan;
pub mod stage;
pub mod table;
pub mod temporary;
pub mod tool;
pub mod tree;

pub use error::{ImageError, TreeProblem};
pub use identity::Identity;
