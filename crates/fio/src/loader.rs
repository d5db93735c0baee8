//! What a job file may ask of its surroundings: other files, and variables of the environment.
//!
//! The parser itself opens nothing; a caller decides what may be read.

/// Gives the parser what it may not fetch itself.
pub trait Loader {
    /// The contents of the file `path`, as the job file or the command line names it; else why not.
    fn load(&self, path: &str) -> Result<Vec<u8>, String>;
    /// The value of the environment's variable `name`, for `${name}`.
    fn variable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// A function from names to contents, with no environment.
impl<F: Fn(&str) -> Result<Vec<u8>, String>> Loader for F {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        self(path)
    }
}

/// No file and no variable: for job files that must stand alone.
pub struct Nothing;

impl Loader for Nothing {
    fn load(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("no other file may be read here".to_string())
    }
}
