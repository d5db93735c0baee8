//! A device outside this process: `nbd://localhost/x`, `nbd+unix:///?socket=disk.sock`.

use super::{Bottom, Bytes};
use crate::argument::Part;
use crate::device_store::DeviceStore;
use crate::error::ServedError;
use crate::sources::Opener;
use flashlab_block::{BlockDevice, Geometry};
use flashlab_sim::Store;
use std::io;
use std::sync::Arc;

/// Opens the device of a URI. The whole part is the URI, which may contain commas.
pub(super) fn open(part: &Part<'_>, read_only: bool, opener: &Opener) -> Result<Bottom, ServedError> {
    let device = (opener.open)(part.text(), read_only);
    let device = device.map_err(|error| ServedError::Edge { uri: part.text().to_owned(), error })?;
    Ok(Bottom { bytes: Box::new(EdgeDevice(device)), simulated: None, made: None, closing: None })
}

struct EdgeDevice(Arc<dyn BlockDevice>);

impl Bytes for EdgeDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        Ok(self.0)
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        Box::new(DeviceStore(self.0))
    }
}
