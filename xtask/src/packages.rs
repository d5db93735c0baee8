//! Packages: a Debian package of the command, a static program with musl, the check of dependencies by cargo-deny, and a
//! software bill of materials (SBOM).

use crate::playground::has_target;
use crate::{Outcome, cargo, cargo_command, run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Folder of the generated manual pages and completions. The assets in crates/flashlab/Cargo.toml name it.
const GENERATED: &str = "target/package";

/// Builds the command with all features, generates its manual pages and completions, and packs a .deb with cargo-deb.
pub(crate) fn deb() -> Outcome {
    cargo(&["build", "--locked", "--profile", "dist", "--package", "flashlab", "--features", "full"])?;
    generate("target/dist/flashlab")?;
    let pack = ["deb", "--package", "flashlab", "--profile", "dist", "--no-build", "--locked"];
    cargo(&pack).map_err(|error| format!("{error}\n(to install cargo-deb: cargo install --locked cargo-deb)"))
}

/// Writes the manual pages and the completions of the program.
fn generate(program: &str) -> Outcome {
    let folder = |name: &str| format!("{GENERATED}/{name}");
    for name in ["man", "completions"] {
        fs::create_dir_all(folder(name)).map_err(|error| format!("{}: {error}", folder(name)))?;
    }
    run(Command::new(program).args(["man", &folder("man")]))?;
    for (shell, file) in [("bash", "flashlab"), ("zsh", "_flashlab"), ("fish", "flashlab.fish")] {
        let path = format!("{}/{file}", folder("completions"));
        let to = fs::File::create(&path).map_err(|error| format!("{path}: {error}"))?;
        run(Command::new(program).args(["completions", shell]).stdout(to))?;
    }
    Ok(())
}

/// Cross compilers for the C sources among the dependencies, by processor. They are Debian's compilers for glibc,
/// because Debian has no cross compiler for musl; the sources use no header whose contents differ between the two.
const CROSS_COMPILERS: [(&str, &str); 1] = [("aarch64", "aarch64-linux-gnu-gcc")];

/// Builds the command with all features for Linux with musl, as one static program for a processor.
pub(crate) fn musl(processor: &str) -> Outcome {
    let target = format!("{processor}-unknown-linux-musl");
    if !has_target(&target) {
        return Err(format!("the target is missing: rustup target add {target}"));
    }
    let mut build = cargo_command();
    build.args(["build", "--locked", "--profile", "dist", "--package", "flashlab", "--features", "full"]);
    build.args(["--target", &target]);
    let is_cross = processor != std::env::consts::ARCH;
    let cross = CROSS_COMPILERS.iter().find(|(name, _)| is_cross && *name == processor);
    if let Some((_, compiler)) = cross {
        let name = target.replace('-', "_");
        build.env(format!("CC_{name}"), compiler);
        // Uses the toolchain's own linker, because the target brings its start files and libc.
        build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), "rust-lld");
    }
    run(&mut build).map_err(|error| {
        let package =
            if cross.is_some() { format!("gcc-{processor}-linux-gnu") } else { "musl-tools".to_owned() };
        format!("{error}\n(C sources among the dependencies need a compiler: apt-get install {package})")
    })?;
    eprintln!("== musl: target/{target}/dist/flashlab");
    Ok(())
}

/// Runs cargo-deny, except for its advisories, whose database not every machine can download. Prints a message instead
/// if cargo-deny is not installed.
pub(crate) fn deny() -> Outcome {
    let version =
        Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("== skipped: cargo-deny is not installed; tidy has checked the licences (docs/install.md)");
        return Ok(());
    }
    run(Command::new("cargo-deny").args([
        "--offline",
        "--log-level",
        "error",
        "check",
        "bans",
        "licenses",
        "sources",
    ]))
}

/// Writes an SBOM of the command with all features to `path`: CycloneDX 1.5, with the packages for this machine's target
/// and their checksums from the lock file.
pub(crate) fn sbom(path: &str) -> Outcome {
    let bom = bill_of_materials()?;
    let text = serde_json::to_string_pretty(&bom).map_err(|error| error.to_string())?;
    fs::write(Path::new(path), text + "\n").map_err(|error| format!("{path}: {error}"))?;
    let count = bom["components"].as_array().map_or(0, Vec::len);
    eprintln!("== sbom: {count} packages in {path}");
    Ok(())
}

fn bill_of_materials() -> Result<Value, String> {
    let tree = ["tree", "--package", "flashlab", "--features", "full", "--locked", "--edges", "normal"];
    let mut command = cargo_command();
    command.args(tree).args(["--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}"]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", output.status));
    }
    let lock = fs::read_to_string("Cargo.lock").map_err(|error| format!("Cargo.lock: {error}"))?;
    let lock: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap_or_default().lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let packages: Vec<Value> = lines.iter().filter_map(|line| component(line, &lock)).collect();
    let (commands, libraries): (Vec<Value>, Vec<Value>) =
        packages.into_iter().partition(|package| package["name"] == "flashlab");
    let mut command = commands.into_iter().next().ok_or("cargo tree does not list flashlab")?;
    command["type"] = json!("application");
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": command },
        "components": libraries,
    }))
}

/// Returns the SBOM component for one line of `cargo tree`. The line has the name, the version, the path of a package
/// of the workspace, and the licence.
fn component(line: &str, lock: &toml::Table) -> Option<Value> {
    let (package, licence) = line.split_once('\t')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{ "expression": licence.replace('/', " OR ") }],
        "purl": purl,
    });
    if let Some(checksum) = checksum(name, version, lock) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    Some(component)
}

/// Returns the checksum of a package from a registry.
fn checksum<'a>(name: &str, version: &str, lock: &'a toml::Table) -> Option<&'a str> {
    let packages = lock.get("package")?.as_array()?;
    let is_it = |package: &&toml::Value| {
        let has = |key, value| package.get(key).and_then(toml::Value::as_str) == Some(value);
        has("name", name) && has("version", version)
    };
    packages.iter().find(is_it)?.get("checksum")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_its_checksum_and_all_of_its_licences() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nchecksum = \"ff\"\n".parse().unwrap();
        let a = component("a v1.2.3\tMIT/Apache-2.0", &lock).unwrap();
        assert_eq!(a["purl"], "pkg:cargo/a@1.2.3");
        assert_eq!(a["hashes"][0]["content"], "ff");
        assert_eq!(a["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let own = component("flashlab-sim v0.1.0 (/x/crates/sim)\tMIT OR Apache-2.0", &lock).unwrap();
        assert_eq!((own["version"].as_str(), own.get("hashes")), (Some("0.1.0"), None));
    }

    #[test]
    fn the_assets_of_the_debian_package_exist_or_are_generated() {
        let manifest: toml::Table =
            fs::read_to_string("../crates/flashlab/Cargo.toml").unwrap().parse().unwrap();
        let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
        for asset in assets {
            let source = asset[0].as_str().unwrap();
            let is_built = source.starts_with("target/") || source.starts_with("../../target/package/");
            let exists = Path::new("../crates/flashlab").join(source).exists();
            assert!(is_built || exists, "{source}");
        }
    }
}
