//! Headless Chromium under control of the DevTools protocol, over two pipes.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A browser with one page. Dropping it ends the browser and deletes its profile.
pub(super) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    folder: PathBuf,
    calls: u64,
    session: Option<String>,
    /// Errors and warnings in the console of the page.
    pub(super) errors: Vec<String>,
}

fn program() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

impl Browser {
    /// Opens `url` in a window of this size. Returns `None` if no browser is installed.
    pub(super) fn open(test: &str, url: &str, (width, height): (u32, u32)) -> Option<Browser> {
        let Some(program) = program() else {
            eprintln!("skipped: {test}: neither Chromium nor Chrome is installed");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("flashlab-web-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let pipe = |name: &str| {
            let path = folder.join(name);
            let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo is installed");
            assert!(made.success());
            path
        };
        let (to, from) = (pipe("to"), pipe("from"));
        // The protocol uses the descriptors 3 and 4, which a shell can open without unsafe code.
        let child = start(&program, &folder, &to, &from);
        let to = OpenOptions::new().write(true).open(&to).expect("the shell opens the other end");
        let from = BufReader::new(File::open(&from).expect("the shell opens the other end"));
        let mut browser = Browser { child, to, from, folder, calls: 0, session: None, errors: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, json!({}));
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser.call("Page.navigate", json!({ "url": url }));
        Some(browser)
    }

    /// Calls a method of the protocol and returns its result. Collects errors of the console meanwhile.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).expect("the browser answers");
            bytes.pop();
            let answer: Value = serde_json::from_slice(&bytes).expect("the browser is running");
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.collect(&answer);
        }
    }

    fn collect(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                parameters["type"] == "error" || parameters["type"] == "warning"
            }
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(parameters.to_string());
        }
    }

    /// Evaluates an expression in the page; a promise is awaited.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Evaluates an expression until it is true.
    pub(super) fn wait_for(&mut self, expression: &str) {
        for _ in 0..1_200 {
            if self.evaluate(expression) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{expression} does not become true: {:?}", self.errors);
    }
}

fn start(program: &Path, folder: &Path, to: &Path, from: &Path) -> Child {
    let log = File::create(folder.join("log")).expect("a file for messages");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 3<\"$FLASHLAB_TO\" 4>\"$FLASHLAB_FROM\""]).arg(program);
    command.env("FLASHLAB_TO", to).env("FLASHLAB_FROM", from);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--remote-debugging-pipe",
    ]);
    command.args([
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("a shell")
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder); // a remaining temporary folder is harmless
    }
}
