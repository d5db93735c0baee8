//! A root image of a few files, whose init reads some of them and ends the recording of its boot.

use super::folder::Folder;
use flashlab_sim::Rng;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::{env, fs};

/// Size of each file: whole blocks of SquashFS, which lie one after the other in the image.
const FILE_BYTES: usize = 3 * (128 << 10);

/// First process of the root.
const INIT: &str = "#!/bin/busybox sh\n/bin/busybox sha256sum -c -s /sums && exec /flashlab/end\n";

/// Places of files in the image.
pub(crate) struct SmallRoot {
    /// Files that the init reads.
    pub(crate) needed: [Range<u64>; 2],
    /// File that nothing reads.
    pub(crate) unneeded: Range<u64>,
}

impl SmallRoot {
    /// Builds `root.img` in `folder`: SquashFS without compression, with this machine's busybox and files of noise.
    pub(crate) fn build(folder: &Folder) -> SmallRoot {
        let mut rng = Rng::new(23);
        let noise: [Vec<u8>; 3] =
            std::array::from_fn(|_| (0..FILE_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect());
        let path = env::var_os("PATH").expect("there is a PATH");
        let busybox =
            env::split_paths(&path).map(|folder| folder.join("busybox")).find(|file| file.is_file());
        folder
            .put("root/bin/busybox", fs::read(busybox.expect("the program is installed")).expect("readable"));
        folder.put("root/sbin/init", INIT);
        for file in ["root/bin/busybox", "root/sbin/init"] {
            fs::set_permissions(folder.path(file), fs::Permissions::from_mode(0o755))
                .expect("the test owns the path");
        }
        for (name, bytes) in ["first", "unneeded", "second"].iter().zip(&noise) {
            folder.put(&format!("root/data/{name}"), bytes);
        }
        fs::create_dir(folder.path("root/dev")).expect("the test owns the path");
        let sums = std::process::Command::new("sha256sum")
            .args(["/data/first", "/data/second"].map(|file| folder.path("root").join(&file[1..])))
            .output()
            .expect("coreutils are installed");
        let sums = String::from_utf8(sums.stdout).expect("text");
        folder.put("root/sums", sums.replace(&*folder.path("root").to_string_lossy(), ""));
        let options = "--options=-noD -noI -noX -noF -no-fragments";
        let words = ["image", "build", "root", "--format", "squashfs", options, "--to", "root.img"];
        folder.run(&words).succeeded();
        let image = fs::read(folder.path("root.img")).expect("the image was built");
        let [first, unneeded, second] = noise.map(|bytes| place(&image, &bytes));
        SmallRoot { needed: [first, second], unneeded }
    }
}

/// Returns the place of a file in the image.
fn place(image: &[u8], bytes: &[u8]) -> Range<u64> {
    let at = image.windows(64).position(|window| window == &bytes[..64]).expect("the file is not compressed");
    assert!(image[at..].starts_with(bytes), "the blocks of a file do not follow one another");
    at as u64..(at + bytes.len()) as u64
}
