//! A volume over several devices: `volume:a.img:b.img`, `volume:pool.toml`.

use super::{Bottom, Opening};
use crate::argument::Part;
use crate::error::{Problem, ServedError};

#[cfg(feature = "volume")]
pub(super) fn open(mut part: Part<'_>, opening: &Opening<'_>) -> Result<Bottom, ServedError> {
    use crate::volume::Pool;
    use std::sync::Arc;
    let missing = Problem::Missing { key: "the list of members", example: "volume:a.img:b.img" };
    let list = part.first().ok_or_else(|| part.error(missing))?;
    part.read("volume", &[], "volume:a.img:b.img")?;
    let options = crate::volume::open_options(opening.read_only_bytes)?;
    let volume = Pool::parse(list)?.open(opening.seed, options, opening.library)?;
    let closing = Arc::new(volume.clone());
    Ok(Bottom { bytes: Box::new(volume), simulated: None, made: None, closing: Some(closing) })
}

#[cfg(not(feature = "volume"))]
pub(super) fn open(part: Part<'_>, _: &Opening<'_>) -> Result<Bottom, ServedError> {
    Err(part.error(Problem::NotInBuild { word: "volume", feature: "volume" }))
}
