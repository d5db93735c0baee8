//! Makes the recordings of `run rootfs` again: the root, its images, and the boot of each with `flashlab record --boot`.

use crate::{Outcome, cargo_command, run};
use std::process::Command;

/// Folder of the recordings.
const FOLDER: &str = "experiments/rootfs/recordings";

/// Folder of the root, the kernel, the tools and the images, which `images.sh` makes.
const BUILD: &str = "target/boot";

/// Boots: name of the recording, name of the image, options that made the image, and further options of `record`.
const BOOTS: [(&str, &str, &str, &[&str]); 14] = [
    ("ext4-read-write", "ext4", "", &["--writable"]),
    ("ext4-read-only", "ext4", "", &[]),
    ("squashfs-uncompressed", "squashfs-uncompressed", "-noD -noI -noX -noF", &[]),
    ("squashfs-gzip", "squashfs-gzip", "", &[]),
    ("squashfs-lz4hc", "squashfs-lz4hc", "-comp lz4 -Xhc", &[]),
    ("squashfs-xz", "squashfs-xz", "-comp xz", &[]),
    ("squashfs-lzo", "squashfs-lzo", "-comp lzo", &[]),
    ("squashfs-zstd", "squashfs-zstd", "-comp zstd", &[]),
    ("erofs-uncompressed", "erofs-uncompressed", "", &[]),
    ("erofs-lz4hc", "erofs-lz4hc", "-zlz4hc,12", &[]),
    ("erofs-lzma", "erofs-lzma", "-zlzma", &[]),
    ("erofs-large-clusters", "erofs-large-clusters", "-zlz4hc -C65536", &[]),
    ("erofs-multiple", "erofs-multiple", "-zlzma:lz4hc,12:lzma,109 -C131072 --compress-hints=hints", &[]),
    (
        "erofs-well-compressed",
        "erofs-well-compressed",
        "-C1048576 -Eztailpacking -Eall-fragments -Ededupe -zlz4hc,12",
        &[],
    ),
];

/// Makes the recordings whose names contain `part`, in `folder`. Builds all images that are missing, whatever `part`
/// is.
pub(crate) fn record(part: &str, folder: Option<&str>) -> Outcome {
    run(Command::new("experiments/rootfs/images.sh").arg(BUILD))?;
    run(cargo_command().args(["build", "--release", "--locked", "--package", "flashlab"]))?;
    let folder = folder.unwrap_or(FOLDER);
    std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    for (name, image, options, further) in BOOTS.iter().filter(|(name, ..)| name.contains(part)) {
        let mut command = Command::new("target/release/flashlab");
        command.args(["record", "--boot", &format!("{BUILD}/images/{image}.img")]);
        command.args(["--options", options, "--kernel", &format!("{BUILD}/kernel")]).args(*further);
        run(command.args(["--to", &format!("{folder}/{name}.rec")]))?;
    }
    Ok(())
}
