//! Sets the name under which programs find the shared library: libflashlab.so.MAJOR.MINOR, because a minor version
//! before 1.0 may change the interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    // Other systems have other linkers and other names.
    if matches!(of("CARGO_CFG_TARGET_OS").as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd") {
        let version = format!("{}.{}", of("CARGO_PKG_VERSION_MAJOR"), of("CARGO_PKG_VERSION_MINOR"));
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libflashlab.so.{version}");
    }
}
