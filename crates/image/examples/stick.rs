//! Composes a small disk in the machine's temporary folder, and prints its partitions: `cargo run
//! -p flashlab-image --example stick`. Needs e2fsprogs and squashfs-tools.

use flashlab_image::compose::compose;
use flashlab_image::recipe::{DEFAULT_TIME, Recipe};
use std::error::Error;
use std::path::Path;

const RECIPE: &str = r#"
table = "gpt"
seed = "example"

[[partition]]
name = "root"
format = "squashfs"
[[partition.file]]
to = "etc/hostname"
text = "stick\n"

[[partition]]
name = "data"
format = "ext4"
size = "16MiB"
label = "DATA"
[[partition.file]]
to = "version"
text = "1.0\n"
checksum = "sha256"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let recipe = Recipe::parse(Path::new("example.toml"), RECIPE, DEFAULT_TIME)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("stick.img");
    let mut disk = std::fs::File::create_new(&path)?;
    for partition in compose(&recipe, &mut disk, &path)? {
        let (format, offset, size) = (partition.format, partition.offset, partition.size);
        println!("{format:<10} {size:>10} bytes at {offset:>10}, {} entries", partition.entries);
    }
    Ok(())
}
