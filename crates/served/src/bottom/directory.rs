//! The image of a directory: `dir:PATH,format=ext4,size=1GiB`.

use super::{Bottom, Opening};
use crate::argument::Part;
use crate::error::{Problem, ServedError};

#[cfg(not(feature = "image"))]
pub(super) fn open(part: Part<'_>, _: &Opening<'_>) -> Result<Bottom, ServedError> {
    Err(part.error(Problem::NotInBuild { word: "dir", feature: "image" }))
}

#[cfg(feature = "image")]
pub(super) fn open(mut part: Part<'_>, _: &Opening<'_>) -> Result<Bottom, ServedError> {
    use super::made::Made;
    use flashlab_block::{Access, File};
    use flashlab_catalogue::units::Dimension;
    use flashlab_image::directory::DirectoryImage;
    use flashlab_image::filesystem::Format;
    use std::path::Path;

    const FORMATS: &[(&str, Format)] = &[
        ("ext4", Format::Ext4),
        ("squashfs", Format::Squashfs),
        ("erofs", Format::Erofs),
        ("vfat", Format::Vfat),
        ("ext2", Format::Ext2),
        ("ext3", Format::Ext3),
    ];
    const EXAMPLE: &str = "dir:PATH,format=ext4";
    let path = part.first();
    let missing = |key| Problem::Missing { key, example: EXAMPLE };
    let path = path.ok_or_else(|| part.error(missing("the path")))?;
    part.read("dir", &["format", "size"], "format=ext4")?;
    let known = &["ext4", "squashfs", "erofs", "vfat", "ext2", "ext3"];
    let format = part.choice("format", known)?.ok_or_else(|| part.error(missing("format")))?;
    let size = part.number("size", Dimension::Size)?;
    let image = DirectoryImage::new(Path::new(path), FORMATS[format].1, size).map_err(ServedError::Image)?;
    let system = |error| ServedError::System { path: image.path(), error };
    let bytes = std::fs::File::open(image.path()).map_err(system)?;
    // Dropping `image` deletes the file; the open descriptors keep its bytes.
    let file = File::open(&image.path(), None, Access::Cached, true)?;
    Ok(Bottom { bytes: Box::new(file), simulated: None, made: Some(Made { bytes }), closing: None })
}
