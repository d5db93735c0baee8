//! The arguments of `flashlab web`, and the request that docs/live-page.md prints.

use super::server::WebServer;
use crate::cli::folder::Folder;

#[test]
fn a_job_file_is_read_as_by_bench() {
    let folder = Folder::new("web-job");
    folder.put("job.fio", "[reader]\nrw=randread\nbs=4k\nsize=1m\ndirect=1\n");
    let path = folder.path("job.fio").display().to_string();
    let server = WebServer::start(&["sd/kingston", &path]);
    assert!(server.state().to_string().contains("reader"), "{}", server.state());
    let refused = folder.line("web sd/kingston no-such.fio").refused();
    assert!(refused.contains("no-such.fio: the job file cannot be read"), "{refused}");
    let refused = folder.line("web sd/kingston job.fio --bs=8k").refused();
    assert!(refused.contains("expected one job file, or options of fio"), "{refused}");
}

#[test]
fn options_with_spaces_reach_the_job() {
    let options = ["--rw=randread", "--bs=4k", "--size=1m", "--direct=1"];
    let server = WebServer::start(&[&["sd/kingston", "--name=two words"], &options[..]].concat());
    assert!(server.state().to_string().contains("two words"), "{}", server.state());
    let refused = Folder::new("web-quote").run(&["web", "sd/kingston", "--name='a"]).refused();
    assert!(refused.contains("job `'a`"), "a quote is a character like others: {refused}");
}

#[test]
fn a_device_without_a_model_is_refused_with_the_way_to_serve_it() {
    let folder = Folder::new("web-device");
    for device in ["file:a.img", "memory:size=1G", "sd/kingston+error"] {
        let refused = folder.run(&["web", device]).refused();
        assert!(refused.contains("shows devices with a model"), "{refused}");
        assert!(refused.contains(&format!("flashlab serve {device} --web")), "{refused}");
    }
}

#[test]
fn an_option_of_flashlab_after_the_device_is_explained() {
    let folder = Folder::new("web-behind");
    for option in ["--speed 600", "--listen=8080", "--seed 3"] {
        let refused = folder.line(&format!("web sd/kingston --rw=randwrite {option}")).refused();
        assert!(refused.contains("is an option of flashlab: put it before the device"), "{refused}");
    }
}

#[test]
fn the_page_can_listen_on_a_host_by_name() {
    for listen in ["localhost:0", "127.0.0.1:0", "0"] {
        let server = WebServer::start(&["--listen", listen, "sd/kingston"]);
        assert!(server.url.starts_with("http://127.0.0.1:") && server.state()["tick"].is_u64(), "{listen}");
    }
}

#[test]
fn the_documented_request_is_accepted() {
    let document = include_str!("../../../../../docs/live-page.md");
    let curl = document.split("curl ").nth(1).and_then(|text| text.split("```").next()).expect("a request");
    let quoted: Vec<&str> = curl.split('\'').skip(1).step_by(2).collect();
    let (body, headers) = quoted.split_last().expect("headers and a body");
    let server = WebServer::start(&["sd/kingston"]);
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let headers = headers.replace("TOKEN", server.token());
    let (status, why) = server.request("POST /api/control", &headers, body);
    assert!(status.starts_with("HTTP/1.1 2"), "{status}: {why}");
    server.wait_for("the speed", |state| state["speed"] == 60.0);
}
