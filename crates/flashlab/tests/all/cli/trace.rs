//! `flashlab trace`: three formats, a page, and invalid arguments.

use super::folder::Folder;

#[test]
fn a_bring_up_is_printed_as_a_table_as_linux_lines_and_as_json() {
    let folder = Folder::new("trace");
    let told = folder.line("trace bring-up sd/qemu-sdsc --host pl181 --kernel 5.15").succeeded();
    assert!(told.contains("ACMD41 40200000") && told.contains("which kind of card"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");
    let lines =
        folder.line("trace bring-up sd/qemu-sdsc --host pl181 --kernel 6.1 --format linux").succeeded();
    assert!(lines.contains("mmc0: starting CMD8 arg 000001aa flags 000002f5\n"), "{lines}");
    assert!(lines.contains("mmc0: new SD card at address 4567\n"), "{lines}");
    let newer =
        folder.line("trace bring-up sd/qemu-sdsc --host pl181 --kernel 6.12 --format linux").succeeded();
    assert_eq!(newer, lines, "Linux 6.12 brings QEMU's card up in another way than 6.1");
    let json = folder.line("trace bring-up sd/kingston --format json").succeeded();
    let json: serde_json::Value = serde_json::from_str(&json).expect("nothing but JSON");
    assert_eq!((&json["host"], &json["found"]["mode"]), (&"bcm2711".into(), &"DDR50".into()));
    assert_eq!(json["steps"][0]["phase"], "which kind of card");
    assert_eq!(folder.names(), [""; 0]);
    folder.line("trace bring-up sd/kingston --html page.html").succeeded();
    assert_eq!(folder.names(), ["page.html"]);
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let folder = Folder::new("trace-refused");
    for (line, words) in [
        (
            "trace bring-up sd/kingston --host pl180",
            "unknown host controller pl180; the known ones are pl181, sdhci,",
        ),
        (
            "trace bring-up sd/kingston --kernel 6.2",
            "unknown kernel 6.2; the known ones are 5.15, 6.1, 6.12, 6.13",
        ),
        ("trace bring-up nvme/p32a80", "nvme/p32a80 is not an SD card"),
        ("trace bring-up sd/kingstone", "did you mean sd/kingston?"),
        ("trace bring-up sd/kingston:card.oem=ABC", "2 printable letters"),
        ("trace bring-up sd/qemu-sdsc:capacity=32MiB", "card.csd"),
    ] {
        let refused = folder.line(line).refused();
        assert!(refused.contains(words), "{line}: {refused}");
    }
    folder.put("card.toml", "a profile");
    let refused = folder.line("trace bring-up ./card.toml --html card.toml").refused();
    assert!(refused.contains("would replace this file"), "{refused}");
    assert_eq!(folder.read("card.toml"), "a profile");
}
