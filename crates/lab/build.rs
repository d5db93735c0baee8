//! Rebuilds the crate when a file appears in or vanishes from the folders that it embeds.

fn main() {
    println!("cargo::rerun-if-changed=../../profiles");
    println!("cargo::rerun-if-changed=../../experiments");
}
