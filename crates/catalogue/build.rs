//! Rebuilds the crate when a file is added to or removed from the folders that it embeds.

fn main() {
    println!("cargo::rerun-if-changed=../../profiles");
    println!("cargo::rerun-if-changed=../../experiments");
}
