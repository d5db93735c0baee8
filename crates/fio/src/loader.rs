//! Access to the files and environment variables that a job file refers to.
//!
//! The parser itself opens nothing. Its caller provides a [`Loader`] and so decides which files can be read.

/// Provides files and environment variables to the parser.
pub trait Loader {
    /// Returns the contents of the file that the job file or the command line names `path`.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be read.
    fn load(&self, path: &str) -> Result<Vec<u8>, String>;
    /// Returns the value of the environment variable `name`, for `${name}`.
    fn variable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// A function from file names to contents; it provides no environment.
impl<F: Fn(&str) -> Result<Vec<u8>, String>> Loader for F {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        self(path)
    }
}

/// A loader without files and variables, for job files that use neither.
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("no other file may be read here".to_string())
    }
}
