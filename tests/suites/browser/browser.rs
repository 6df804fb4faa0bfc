//! Chromium, driven through its WebDriver as packaged by Debian.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::{eventually, free_ports, spawn_from_lasting_thread, tied_to_this_process};
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(120);

/// The text of what has the focus, and whether an outline marks it.
const FOCUS: &str = r#"
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const marked = element === document.body || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
    return {text: element === document.body ? "" : element.innerText || element.value || element.title || "", marked};
"#;

/// Texts with a contrast below 4.5, as WCAG computes it. Opacity counts; texts that are out of sight do not.
const FAINT_TEXTS: &str = r#"
    const parse = (colour) => {
        const parts = colour.match(/[0-9.]+/g).map(Number);
        return {rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1};
    };
    const over = (top, share, under) => top.map((part, at) => part * share + under[at] * (1 - share));
    const luminance = (rgb) => {
        const parts = rgb.map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const ancestors = (element) => element ? [element, ...ancestors(element.parentElement)] : [];
    const faint = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        const text = walker.currentNode.textContent.trim();
        if (text === "" || element.closest(".hidden, .skip, script, option") || !element.checkVisibility()) continue;
        let behind = [255, 255, 255];
        let opacity = 1;
        for (const part of ancestors(element).reverse()) {
            const style = getComputedStyle(part);
            const {rgb, alpha} = parse(style.backgroundColor);
            behind = over(rgb, alpha, behind);
            opacity *= Number(style.opacity);
        }
        const {rgb, alpha} = parse(getComputedStyle(element).color);
        const [light, dark] = [luminance(behind), luminance(over(rgb, alpha * opacity, behind))].sort((a, b) => b - a);
        const contrast = (light + 0.05) / (dark + 0.05);
        if (contrast < 4.5) faint.push(`${contrast.toFixed(2)}: ${text.slice(0, 60)}`);
    }
    return [...new Set(faint)];
"#;

/// A browser without a window. Dropping it ends it.
pub(super) struct Browser {
    client: Client,
    driver: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(super) async fn start() -> Result<Self> {
        let [port] = free_ports()?;
        let profile = tempfile::tempdir()?;
        let mut command = tied_to_this_process("chromedriver".as_ref());
        command
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let driver = spawn_from_lasting_thread(command)
            .context("cannot start chromedriver: install chromium-driver")?;
        let options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
                format!("--user-data-dir={}", profile.path().display())],
        });
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let wanted: Capabilities = wanted.as_object().context("capabilities")?.clone();
        let client = eventually(DEADLINE, "the browser", async || {
            let mut builder = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
            builder.capabilities(wanted.clone());
            Ok(builder.connect(&format!("http://127.0.0.1:{port}")).await?)
        })
        .await?;
        Ok(Self { client, driver, _profile: profile })
    }

    pub(super) async fn end(mut self) {
        self.client.clone().close().await.unwrap();
        self.driver.kill().unwrap();
        self.driver.wait().unwrap();
    }

    pub(super) async fn open(&self, address: &str) {
        self.client.goto(address).await.unwrap();
    }

    pub(super) async fn address(&self) -> String {
        self.client.current_url().await.unwrap().to_string()
    }

    /// Found and read in one step, because a live page may replace the element in between.
    pub(super) async fn text(&self, selector: &str) -> Result<String> {
        let script = "const found = document.querySelector(arguments[0]); return found && found.innerText;";
        let text = self.client.execute(script, vec![json!(selector)]).await?;
        text.as_str().map(str::to_owned).with_context(|| format!("no element {selector}"))
    }

    /// Waits until the page shows this text. Text in a `details` that is closed counts: it is there to be opened.
    pub(super) async fn shows(&self, text: &str) {
        eventually(DEADLINE, &format!("the page to show {text:?}"), async || {
            let shown = self.client.execute("return document.body.textContent", vec![]).await?;
            let shown = shown.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
            ensure!(shown.contains(text), "{shown}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Clicks the link with exactly this text.
    pub(super) async fn follow(&self, text: &str) {
        self.click(Locator::LinkText(text)).await;
    }

    /// Clicks the first link whose text contains this.
    pub(super) async fn follow_containing(&self, text: &str) {
        self.click(Locator::XPath(&format!("//main//a[contains(., '{text}')]"))).await;
    }

    pub(super) async fn follow_titled(&self, title: &str) {
        self.click(Locator::XPath(&format!("//a[@title='{title}']"))).await;
    }

    pub(super) async fn press(&self, selector: &str) {
        self.click(Locator::Css(selector)).await;
    }

    /// A live page may replace an element between finding and clicking it.
    async fn click(&self, what: Locator<'_>) {
        eventually(DEADLINE, &format!("{what:?}"), async || {
            let found: Element = self.client.find(what).await?;
            Ok(found.click().await?)
        })
        .await
        .unwrap();
    }

    pub(super) async fn fill(&self, selector: &str, text: &str) {
        let script = "const field = document.querySelector(arguments[0]); field.value = arguments[1];";
        self.client.execute(script, vec![json!(selector), json!(text)]).await.unwrap();
    }

    pub(super) async fn key(&self, key: &str) {
        self.type_text(key).await;
    }

    /// Types into what has the focus.
    pub(super) async fn type_text(&self, text: &str) {
        let mut keys = KeyActions::new("keyboard".to_owned());
        for letter in text.chars() {
            // What WebDriver calls Enter.
            let value = if letter == '\n' { '\u{e007}' } else { letter };
            keys = keys.then(KeyAction::Down { value }).then(KeyAction::Up { value });
        }
        self.client.perform_actions(keys).await.unwrap();
    }

    pub(super) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, vec![]).await.unwrap()
    }

    pub(super) async fn resize(&self, width: u32, height: u32) {
        self.client.set_window_size(width, height).await.unwrap();
        // A headless window has a least width; the emulated device has not.
        let metrics = json!({"cmd": "Emulation.setDeviceMetricsOverride",
            "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true}});
        self.client.issue_cmd(Command { path: "goog/cdp/execute", body: metrics }).await.unwrap();
    }

    /// Whether the page needs no horizontal scrolling.
    pub(super) async fn fits(&self) -> bool {
        self.run("return document.documentElement.scrollWidth <= window.innerWidth").await == true
    }

    /// The texts whose contrast with what is behind them is less than WCAG asks for, with the contrast.
    pub(super) async fn faint_texts(&self) -> Vec<Value> {
        self.run(FAINT_TEXTS).await.as_array().unwrap().clone()
    }

    /// Moves the focus one stop on, and gives the text of what has it. Fails if the focus is not marked.
    pub(super) async fn tab(&self) -> String {
        // What WebDriver calls Tab.
        self.key("\u{e004}").await;
        let focus = self.run(FOCUS).await;
        let text = focus["text"].as_str().unwrap().trim().to_owned();
        assert!(focus["marked"] == true, "the focus on {text:?} cannot be seen");
        text
    }

    /// Moves the focus on to the element with this text.
    pub(super) async fn tab_to(&self, text: &str) {
        let mut passed = Vec::new();
        for _ in 0..100 {
            let reached = self.tab().await;
            if reached == text {
                return;
            }
            passed.push(reached);
        }
        panic!("the keyboard does not reach {text:?}, only {passed:?}");
    }

    /// Asks pages for the colours of `scheme`, `light` or `dark`.
    pub(super) async fn prefer(&self, scheme: &str) {
        let media = json!({"cmd": "Emulation.setEmulatedMedia",
            "params": {"features": [{"name": "prefers-color-scheme", "value": scheme}]}});
        self.client.issue_cmd(Command { path: "goog/cdp/execute", body: media }).await.unwrap();
    }

    /// Marks the document, so that a page that is loaded again can be told from one that was not.
    pub(super) async fn mark(&self) {
        self.run("window.marked = true").await;
    }

    pub(super) async fn is_marked(&self) -> bool {
        self.run("return window.marked === true").await == true
    }

    /// Fails if the console of the browser has an error: a script that threw, something that the policy forbade, or an answer of 400 and above.
    pub(super) async fn is_clean(&self) {
        let log = self
            .client
            .issue_cmd(Command { path: "se/log", body: json!({"type": "browser"}) })
            .await
            .unwrap();
        let errors: Vec<&Value> =
            log.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE").collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    /// A picture for the documentation, if it is asked for.
    pub(super) async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("CAPSTAN_SCREENSHOTS") else { return };
        let png = self.client.screenshot().await.unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), png).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already. The browser ends with its driver.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// A command of Chromium's driver that WebDriver does not have.
#[derive(Debug)]
struct Command {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Command {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
