//! The processors of a host for the codecs of a volume.

use super::Device;
use crate::kind::{Kind, Parts};
use crate::library::{Library, UnknownName};
use flashlab_host::{CodecParameters, PageCacheParameters};

/// Processors of a host, and their times for the codecs of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostCodecs {
    /// Name of the host's profile, or path of its file.
    pub host: String,
    /// Number of processors.
    pub processors: u32,
    /// Times of the codecs.
    pub times: CodecParameters,
}

impl HostCodecs {
    /// Returns the codecs of the host of a device.
    pub fn of(device: &Device) -> HostCodecs {
        HostCodecs {
            host: device.host_name.clone(),
            processors: device.page_cache().processors(),
            times: *device.codecs(),
        }
    }

    /// Returns the codecs of the host with this name: `raspberry-pi-4`.
    ///
    /// # Errors
    /// Returns an error if the library has no host with this name.
    pub fn named(host: &str, library: &Library) -> Result<HostCodecs, UnknownName> {
        let found: Vec<_> = Kind::hosts().map(|kind| library.profile(kind, host)).collect();
        let profile = match found.iter().flatten().next() {
            Some(profile) => *profile,
            None => {
                let unknown: Vec<UnknownName> = found.into_iter().filter_map(Result::err).collect();
                let similar = unknown.iter().find(|error| error.did_you_mean.is_some()).or(unknown.first());
                return Err(similar.expect("there are kinds of hosts").clone());
            }
        };
        let mut parts = Parts::blank();
        for number in &profile.numbers {
            number.parameter.set(&mut parts, &number.value);
        }
        Ok(HostCodecs {
            host: host.to_owned(),
            processors: parts.get::<PageCacheParameters>().processors(),
            times: *parts.get(),
        })
    }
}
