//! The page of `status --html` as a browser shows it: Chromium from the distribution, without a window,
//! which is told what to do over pipes, in the words of its DevTools.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::page::{several, with_passes};
use crate::queues::run as run_several;
use crate::testenv::*;

/// Upper bound of the time for an answer on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The only Chromium of these tests, as each takes seconds to start. It ends with its pipe.
struct Chromium {
    _process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    sent: u64,
}

impl Chromium {
    /// `None`, and a message, without one.
    fn start() -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            skipped("the page in a browser: there is no chromium");
            return None;
        }
        let profile = tempfile::tempdir().unwrap().keep();
        // It reads commands from descriptor 3 and writes answers to 4. Root has no sandbox.
        let script = "\"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf \"$HOME\"";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh", "chromium"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .env("HOME", &profile)
            .env("TMPDIR", profile)
            // Ctrl-C is for the tests. Their end then ends the browser.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let _ = sender.send(serde_json::from_slice(&message).unwrap());
            }
        });
        Some(Self { _process: child, commands, messages, sent: 0 })
    }
}

/// A new tab of the browser, which belongs to one test at a time.
struct Tab {
    chromium: MutexGuard<'static, Chromium>,
    target: Value,
    session: Option<String>,
    /// Requests and complaints of the page.
    requests: Vec<String>,
    complaints: Vec<String>,
}

impl Tab {
    /// `None`, and a message, without a browser.
    fn new() -> Option<Self> {
        static CHROMIUM: OnceLock<Option<Mutex<Chromium>>> = OnceLock::new();
        let chromium = CHROMIUM.get_or_init(|| Chromium::start().map(Mutex::new)).as_ref()?;
        // A failed test leaves its events in another tab.
        let chromium = chromium.lock().unwrap_or_else(PoisonError::into_inner);
        let (requests, complaints) = (Vec::new(), Vec::new());
        let mut tab = Self { chromium, target: Value::Null, session: None, requests, complaints };
        let target = tab.tell("Target.createTarget", &json!({ "url": "about:blank" }));
        tab.target = target["targetId"].clone();
        let target = json!({ "targetId": tab.target, "flatten": true });
        let session = tab.tell("Target.attachToTarget", &target);
        tab.session = session["sessionId"].as_str().map(String::from);
        for domain in ["Page", "Network", "Log", "Runtime"] {
            tab.tell(&format!("{domain}.enable"), &json!({}));
        }
        Some(tab)
    }

    /// Sends a command, and returns its number.
    fn send(&mut self, method: &str, params: &Value) -> io::Result<u64> {
        self.chromium.sent += 1;
        let id = self.chromium.sent;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        write!(self.chromium.commands, "{command}\0")?;
        Ok(id)
    }

    /// The result of a command.
    fn tell(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params).unwrap();
        loop {
            let message = self.next();
            if message["id"] == id {
                assert_eq!(message["error"], Value::Null, "{method} {params}");
                return message["result"].clone();
            }
        }
    }

    /// The next message for this tab.
    fn next(&mut self) -> Value {
        let message = loop {
            let message = self.chromium.messages.recv_timeout(PATIENCE).unwrap();
            if message["sessionId"].as_str() == self.session.as_deref() {
                break message;
            }
        };
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requests.push(message["params"]["request"]["url"].as_str().unwrap().into());
            }
            Some("Log.entryAdded" | "Runtime.exceptionThrown" | "Runtime.consoleAPICalled") => {
                self.complaints.push(message.to_string());
            }
            _ => {}
        }
        message
    }

    /// Opens a file in a window of this width.
    fn open(&mut self, file: &Path, width: u32, scheme: &str) {
        let window = json!(
            { "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }
        );
        self.tell("Emulation.setDeviceMetricsOverride", &window);
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.tell("Emulation.setEmulatedMedia", &json!({ "features": scheme }));
        let url = format!("file://{}", file.display());
        self.tell("Page.navigate", &json!({ "url": url }));
        while self.next()["method"] != "Page.loadEventFired" {}
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.tell("Runtime.evaluate", &asked);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap().into()
    }

    /// A picture of the whole page, for people to look at, in target/tmp.
    fn screenshot(&mut self, name: &str) {
        let taken = json!({ "captureBeyondViewport": true, "optimizeForSpeed": true });
        let taken = self.tell("Page.captureScreenshot", &taken);
        let picture = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        assert!(picture.len() > 20_000, "{name}: {} bytes", picture.len());
        fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), picture).unwrap();
    }

    fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": 9 });
            self.tell("Input.dispatchKeyEvent", &event);
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let target = json!({ "targetId": self.target });
        let _ = self.send("Target.closeTarget", &target);
    }
}

/// Of all texts on the page the least contrast to what is behind them, and which text that is.
const LEAST_CONTRAST: &str = r#"(() => {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const light = numbers(colour).slice(0, 3).map((it) => it / 255)
      .map((it) => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  };
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = getComputedStyle(it).backgroundColor;
      if (numbers(colour).length === 3) return colour;
    }
    throw new Error("nothing is behind " + element.outerHTML);
  };
  let least = [100, ""];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.tagName === "SCRIPT") continue;
    const pair = [getComputedStyle(element).color, behind(element)].map(luminance);
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < least[0]) least = [contrast, element.outerHTML];
  }
  return least;
})()"#;

/// The lists of cards whose last row does not end at their right edge.
const HOLES: &str = r#"[...document.querySelectorAll('.figures')].filter((list) => {
  const right = (it) => it.getBoundingClientRect().right;
  return Math.abs(right(list) - right(list.lastElementChild)) > 1;
}).map((list) => list.innerText)"#;

/// The tables that are wider than their place, and not of ages on a narrow screen.
const CUT: &str = r#"[...document.querySelectorAll('.scroll')].filter((it) =>
  it.scrollWidth > it.clientWidth && (innerWidth > 600 || !it.querySelector('.matrix'))
).map((it) => it.innerText)"#;

/// Makes the page of today of several queues, and of one with passes of every kind.
fn pages() -> [TestEnv; 2] {
    let (queues, one) = (several(), with_passes());
    run_several(&queues, "process --queue orders").silent();
    let mut status = queues.command("status --html page.html");
    status.env_remove("BACKLOG_DB").output().unwrap();
    one.run("status --html page.html --ndays 9999").silent();
    [queues, one]
}

#[test]
fn a_page_is_legible_on_narrow_and_wide_screens_light_and_dark() {
    let pages = pages();
    let Some(mut tab) = Tab::new() else { return };
    for (env, name) in pages.iter().zip(["several", "one"]) {
        for width in [320, 360, 400, 768, 1_280, 1_600] {
            for scheme in ["light", "dark"] {
                let case = format!("{name}-{width}-{scheme}");
                tab.open(&env.path("page.html"), width, scheme);
                let widest = tab.value("document.documentElement.scrollWidth");
                assert_eq!(widest, width, "{case}: the page itself scrolls");
                tab.value("document.querySelectorAll('details').forEach((it) => it.open = true)");
                assert_eq!(tab.value("document.documentElement.scrollWidth"), width, "{case}");
                let least = tab.value(LEAST_CONTRAST);
                assert!(least[0].as_f64().unwrap() >= 4.5, "{case}: {least}");
                let paper = tab.text("getComputedStyle(document.documentElement).backgroundColor");
                assert_eq!(paper == "rgb(255, 255, 255)", scheme == "light", "{case}: {paper}");
                assert_eq!(tab.value(HOLES), json!([]), "{case}: a row of cards ends early");
                // Only the ages need a wider screen.
                let all = if width < 400 { json!([]) } else { tab.value(CUT) };
                assert_eq!(all, json!([]), "{case}: tables are cut");
                tab.screenshot(&format!("page-{case}.png"));
            }
        }
    }
    assert_eq!(tab.complaints, [""; 0]);
}

#[test]
fn a_browser_shows_the_page_and_asks_nobody_for_anything() {
    let [queues, one] = pages();
    let Some(mut tab) = Tab::new() else { return };
    tab.open(&queues.path("page.html"), 1_600, "light");
    let text = tab.text("document.body.innerText");
    for says in ["Backlog: 3 queues", "HTTP 503", "Nothing is known of this queue", "a-b"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(tab.text("document.getElementById('late').textContent"), "");
    tab.open(&one.path("page.html"), 1_600, "light");
    let text = tab.text("document.body.innerText");
    assert!(text.contains("killed (pid ") && text.contains("exit status 1"), "{text}");
    let asked: Vec<_> =
        [&queues, &one].map(|env| format!("file://{}", env.path("page.html").display())).into();
    assert_eq!(tab.requests, asked);
    // Its own style and script did what they are for, and were not blocked.
    assert_eq!(tab.complaints, [""; 0]);
    assert_eq!(tab.text("getComputedStyle(document.querySelector('.figures')).display"), "flex");
}

#[test]
fn what_slips_through_as_markup_does_nothing() {
    let [queues, _] = pages();
    let Some(mut tab) = Tab::new() else { return };
    let page = queues.read("page.html");
    let foreign = "<main id=\"main\"><script>window.run = 1</script><img src=\"http://127.0.0.1:9/\" \
                   onerror=\"window.run = 2\"><p id=\"red\" style=\"color: red\">";
    let page = page.replacen("<main id=\"main\">", foreign, 1);
    queues.write("page.html", page);
    tab.open(&queues.path("page.html"), 1_600, "light");
    assert_eq!(tab.text("typeof window.run"), "undefined");
    assert_ne!(
        tab.text("getComputedStyle(document.getElementById('red')).color"),
        "rgb(255, 0, 0)"
    );
    assert!(!tab.complaints.is_empty());
}

#[test]
fn a_page_turns_red_when_the_next_is_overdue() {
    let env = TestEnv::new();
    env.run("status --html page.html --now 2020-01-01T00:00:00Z").silent();
    let Some(mut tab) = Tab::new() else { return };
    for scheme in ["light", "dark"] {
        tab.open(&env.path("page.html"), 360, scheme);
        let says = tab.text("document.querySelector('[role=alert]').innerText");
        assert!(says.starts_with("Out of date: the next page was due at 2020-01-01 00:05:00 UTC"));
        assert!(tab.text("document.title").starts_with("Out of date: "));
        let red = tab.text("getComputedStyle(document.getElementById('late')).backgroundColor");
        assert_eq!(red, "rgb(179, 38, 30)");
        let least = tab.value(LEAST_CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
    }
    // Until a minute after that it is not, and then it is loaded again before it says so.
    env.run("status --html page.html").silent();
    tab.open(&env.path("page.html"), 360, "light");
    assert_eq!(tab.text("document.getElementById('late').textContent"), "");
    let clock = "Date.now = () => {
      const is_again = performance.getEntriesByType('navigation')[0].type === 'reload';
      return Date.parse(document.getElementById('due').dateTime) + (is_again ? 60000 : 59900); }";
    tab.tell("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": clock }));
    env.run("status --html page.html").silent();
    let loaded = tab.requests.len();
    tab.open(&env.path("page.html"), 360, "light");
    assert_eq!(tab.text("document.getElementById('late').textContent"), "");
    while tab.next()["method"] != "Page.loadEventFired" {}
    assert_eq!(tab.requests.len(), loaded + 2);
    assert!(tab.text("document.title").starts_with("Out of date: "));
}

#[test]
fn a_keyboard_reaches_the_queues_and_whatever_scrolls() {
    let [queues, _] = pages();
    let Some(mut tab) = Tab::new() else { return };
    tab.open(&queues.path("page.html"), 360, "light");
    let mut reached = Vec::new();
    for _ in 0..6 {
        tab.press("Tab");
        let focused = "(() => { const it = document.activeElement, style = getComputedStyle(it);
          return [it.getAttribute('href') ?? it.getAttribute('role') ?? it.tagName, style.outlineStyle]; })()";
        let focused = tab.value(focused);
        assert_eq!(focused[1], "solid", "{focused}");
        reached.push(focused[0].as_str().unwrap().to_string());
    }
    assert_eq!(reached, ["#main", "region", "#q1", "#q2", "#q3", "region"]);
    // The names that a screen reader reads.
    let tree = tab.tell("Accessibility.getFullAXTree", &json!({}));
    let nodes: Vec<_> = tree["nodes"].as_array().unwrap().iter().collect();
    let named = |role: &str| {
        let of_role = nodes.iter().filter(|node| node["role"]["value"] == role);
        of_role.map(|node| node["name"]["value"].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert!(named("heading").starts_with(&["Backlog: 3 queues", "All queues", "orders"]));
    assert!(named("columnheader").starts_with(&["Queue", "Failed", "Archived"]));
    assert!(named("rowheader").starts_with(&["orders", "mails", "a-b"]));
    let regions = [named("region"), named("image")].concat();
    assert!(!regions.is_empty() && regions.iter().all(|name| !name.is_empty()), "{regions:?}");
}
