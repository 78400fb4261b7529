//! Drives a headless browser by the DevTools protocol over a pipe: JSON documents, each ended by a zero byte.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::testbed::Host;
use serde_json::{Value, json};

use crate::hosts::on;

/// Debian's name of the program.
pub const PROGRAM: &str = "chromium-headless-shell";

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    /// Errors on the page: console errors, exceptions, and policy violations.
    pub complaints: Vec<String>,
    profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser on a host.
    pub fn start(host: &Host) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The pipe is at descriptors 3 and 4. `timeout` ends the browser if the test itself is killed.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec timeout 200 \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            "sh",
            PROGRAM,
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = on(host, || command.spawn()).unwrap();
        let mut browser = Self {
            to: process.stdin.take().unwrap(),
            from: BufReader::new(process.stdout.take().unwrap()),
            process,
            session: None,
            last: 0,
            complaints: Vec::new(),
            profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Runtime", "Log", "Page"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and returns its result. The call must succeed.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut answer = self.read();
            if answer["id"] == self.last {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.listen(&answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(
            bytes.pop(),
            Some(0),
            "the browser is gone: {:?}",
            self.profile
        );
        serde_json::from_slice(&bytes).unwrap()
    }

    fn listen(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                parameters["type"] == "error" || parameters["type"] == "assert"
            }
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.complaints.push(parameters.to_string());
        }
    }

    /// Sets width and height of the window, in CSS pixels, and the theme.
    pub fn look_like(&mut self, width: u32, height: u32, theme: &str) {
        let scheme = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": scheme}));
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// The value of a JavaScript expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let request =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", request);
        assert!(
            result.get("exceptionDetails").is_none(),
            "{expression}: {result}"
        );
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        for _ in 0..600 {
            if self.evaluate(expression) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let page = self.evaluate("document.body.innerText");
        panic!(
            "not within a minute: {expression}: {page}: {:?}",
            self.complaints
        );
    }

    /// Writes a picture of the whole page (PNG).
    pub fn picture(&mut self, file: &Path) {
        let request = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.call("Page.captureScreenshot", request);
        let mut decode = Command::new("base64");
        decode.arg("--decode").stdin(Stdio::piped());
        decode.stdout(File::create(file).unwrap());
        let mut decoding = decode.spawn().unwrap();
        let text = picture["data"].as_str().unwrap();
        let mut input = decoding.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        assert!(decoding.wait().unwrap().success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        use nix::{sys::signal, unistd::Pid};
        // `timeout` passes the signal on to all processes of the browser.
        let id = Pid::from_raw(self.process.id().try_into().unwrap());
        let _ = signal::kill(id, signal::Signal::SIGTERM);
        let _ = self.process.wait();
    }
}
