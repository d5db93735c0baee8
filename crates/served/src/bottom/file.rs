//! A file or a block device of the machine: `file:disk.img,size=1GiB,direct=yes`.

use super::{Bottom, Bytes, Opening};
use crate::argument::Part;
use crate::error::{Problem, ServedError};
use flashlab_block::{Access, BlockDevice, Buffered, File, Geometry, Workers};
use flashlab_catalogue::units::Dimension;
use flashlab_sim::Store;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Number of concurrent requests to a file opened for direct I/O.
const DIRECT_THREADS: usize = 32;

pub(super) fn open(mut part: Part<'_>, opening: &Opening<'_>) -> Result<Bottom, ServedError> {
    let path = part.first();
    let missing = Problem::Missing { key: "the path", example: "file:disk.img,size=1GiB" };
    let path = path.ok_or_else(|| part.error(missing))?;
    part.read("file", &["size", "direct"], "size=1GiB")?;
    let size = part.number("size", Dimension::Size)?;
    let access = match part.choice("direct", &["yes", "no"])? {
        Some(0) => Access::Direct,
        _ => Access::Cached,
    };
    let file = File::open(Path::new(path), size, access, opening.read_only_bytes)?;
    if file.is_new() {
        opening.new_files.add(Path::new(path));
    }
    let waits = opening.is_member && access == Access::Cached && !file.is_in_memory();
    let bytes: Box<dyn Bytes> = if waits { Box::new(MemberFile(file)) } else { Box::new(file) };
    Ok(Bottom { bytes, simulated: None, made: None, closing: None })
}

/// A file that is a member of a volume. Requests to other members do not wait for its disk.
struct MemberFile(File);

impl Bytes for MemberFile {
    fn geometry(&self) -> Geometry {
        BlockDevice::geometry(&self.0)
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        Ok(Arc::new(Buffered::new(self.0)))
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        Box::new(self.0)
    }
}

impl Bytes for File {
    fn geometry(&self) -> Geometry {
        BlockDevice::geometry(self)
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        // The page cache answers immediately. A disk takes time, and serves many requests concurrently.
        if self.access() == Access::Direct {
            return Ok(Arc::new(Workers::new(Arc::new(*self), DIRECT_THREADS)?));
        }
        Ok(Arc::new(*self))
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        self
    }
}
