//! `flashlab image`: disks from recipes, through the program.

use super::folder::Folder;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const RECIPE: &str = "table = \"mbr\"\nseed = \"cli\"\n[[partition]]\nformat = \"squashfs\"\n[[partition.file]]\nto = \
                      \"version\"\ntext = \"1\\n\"\n";

/// Returns true if mksquashfs is installed. Without it, a test fails in CI and is skipped by name elsewhere.
fn has_mksquashfs() -> bool {
    let found = Command::new("mksquashfs").arg("-version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "mksquashfs is not installed (squashfs-tools)");
    if !found {
        eprintln!("SKIPPED: mksquashfs is not installed (squashfs-tools)");
    }
    found
}

#[test]
fn a_composed_disk_is_reported_and_an_error_leaves_the_old_disk() {
    if !has_mksquashfs() {
        return;
    }
    let folder = Folder::new("image-compose");
    folder.put("stick.toml", RECIPE);
    let run = folder.run(&["image", "compose", "stick.toml", "--to", "stick.img"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("partition 1: squashfs, 4096 bytes at 1048576, 2 entries"), "{}", run.err);
    let first = fs::read(folder.path("stick.img")).unwrap();
    assert_eq!(&first[510..512], [0x55, 0xaa]);
    folder.put("bad.toml", RECIPE.replace("squashfs", "squashfs\"\noptions = [\"-nonsense\"]\nlabel = \""));
    let run = folder.run(&["image", "compose", "bad.toml", "--to", "stick.img"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("partition 1: mksquashfs failed"), "{}", run.err);
    assert_eq!(fs::read(folder.path("stick.img")).unwrap(), first, "an error must leave the old disk");
}

#[test]
fn errors_of_recipes_name_the_line() {
    let folder = Folder::new("image-errors");
    folder.put("stick.toml", RECIPE.replace("seed", "sede"));
    let refused = |words: &[&str]| {
        let run = folder.run(&[&["image", "compose"], words].concat());
        assert_eq!(run.code, Some(2), "{}", run.err);
        run.err
    };
    let error = refused(&["stick.toml", "--to", "stick.img"]);
    assert!(error.contains("stick.toml:2:1: unknown field `sede`"), "{error}");
    assert!(refused(&["none.toml", "--to", "stick.img"]).contains("none.toml: "));
    folder.put("exfat.toml", RECIPE.replace("squashfs", "exfat"));
    let error = refused(&["exfat.toml", "--to", "stick.img"]);
    assert!(error.contains("exfat.toml:4:10: there is no format \"exfat\""), "{error}");
    assert!(error.contains("erofs, vfat"), "{error}");
    let error = refused(&["stick.toml", "--to", "/dev/null"]);
    assert!(error.contains("/dev/null: not a regular file"), "{error}");
    let error = refused(&["stick.toml", "--to", "./stick.toml"]);
    assert!(error.contains("./stick.toml: the output would replace this file"), "{error}");
    let error = refused(&["stick.toml", "--to", "no/stick.img"]);
    assert!(error.contains("there is no folder no"), "{error}");
}

#[test]
fn a_full_disk_ends_the_command_and_leaves_no_part_of_the_file() {
    if !has_mksquashfs() {
        return;
    }
    let folder = Folder::new("image-full-disk");
    folder.put("stick.toml", RECIPE);
    let offset = |n: u64| n * 7919 % 100_000 * 4096;
    let lines: String = (0..4000).map(|n| format!("{n} f write {} 4096\n", offset(n))).collect();
    folder.put("run.log", format!("fio version 3 iolog\n0 f add\n0 f open\n{lines}"));
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "mkdir small && mount -t tmpfs -o size=4k none small || exit 77
         for words in 'image compose stick.toml --to' 'recording import --from iolog run.log --to'; do
             {program} $words small/out; echo \"code $? files $(ls small | wc -l)\"
         done"
    );
    let output = Command::new("unshare")
        .args(["-r", "-m", "sh", "-c", &script])
        .current_dir(folder.path("."))
        .output();
    let Ok(output) = output else { return eprintln!("SKIPPED: unshare is not installed (util-linux)") };
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) || error.contains("unshare") {
        return eprintln!("SKIPPED: nothing can be mounted here");
    }
    assert_eq!(printed, "code 1 files 0\ncode 1 files 0\n", "{error}");
    assert!(error.contains("no space is left in small"), "{error}");
    assert!(error.contains("small/out: No space left on device"), "{error}");
}

#[test]
fn a_directory_is_built_with_its_ratio_and_compared() {
    if !has_mksquashfs() {
        return;
    }
    let folder = Folder::new("image-build");
    std::fs::create_dir(folder.path("tree")).unwrap();
    folder.put("tree/text", "the same line again and again\n".repeat(20_000));
    let run = folder.run(&[
        "image",
        "build",
        "tree",
        "--format",
        "squashfs",
        "--options=-comp xz",
        "--json",
        "--to",
        "root.img",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["bytes"], fs::metadata(folder.path("root.img")).unwrap().len());
    let ratio = report["ratio_percent"].as_f64().unwrap();
    // One file of 600,000 bytes, its inode and its directory.
    let expected = 100.0 * report["bytes"].as_f64().unwrap() / 600_100.0;
    assert!((ratio - expected).abs() < 0.01, "{ratio} {expected}");
    assert!(report["cpu_seconds"].as_f64().unwrap() > 0.0, "{report}");
    let words = [
        "image",
        "compare",
        "tree",
        "--only",
        "--json",
        "--with=squashfs -comp zstd",
        "--with=squashfs -comp zip",
    ];
    let run = folder.run(&words);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(report["images"][0]["ratio_percent"].as_f64().unwrap() < 5.0, "{report}");
    assert!(report["images"][1]["refused"].as_str().unwrap().starts_with("mksquashfs failed"), "{report}");
    assert!(run.err.contains("1 of 2 configurations cannot be built"), "{}", run.err);
    std::os::unix::fs::symlink("root.img", folder.path("link")).unwrap();
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(folder.path("root.img"), private).unwrap();
    let run = folder.run(&["image", "build", "tree", "--format", "squashfs", "--to", "link"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(folder.path("link").is_symlink());
    let mode = fs::metadata(folder.path("root.img")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    folder.put("root.tar", "an archive");
    let run = folder.run(&["image", "build", "root.tar", "--format", "squashfs", "--to", "root.tar"]);
    assert!(run.code == Some(2) && run.err.contains("would replace this file"), "{}", run.err);
    assert_eq!(folder.read("root.tar"), "an archive");
    let error = folder.run(&["image", "build", "tree", "--format", "squash", "--to", "root.img"]).err;
    assert!(error.contains("did you mean squashfs?"), "{error}");
}

#[test]
fn options_that_mkfs_erofs_would_ignore_are_refused() {
    let folder = Folder::new("image-erofs");
    std::fs::create_dir(folder.path("tree")).unwrap();
    let run =
        folder.run(&["image", "build", "tree", "--format=erofs", "--options=-Ededuped", "--to", "root.img"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    let missing = run.err.contains("mkfs.erofs is not installed");
    let refused =
        run.err.contains("mkfs.erofs ignores -Ededuped, which it does not know; did you mean -Ededupe?");
    assert!(refused || missing && std::env::var_os("CI").is_none(), "{}", run.err);
    assert!(!folder.path("root.img").exists());
}
