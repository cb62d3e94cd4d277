//! [`OsloPeer`]: a service on the real oslo.messaging.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use berth_amqp::MessagingOptions;
use berth_options::OptionGroup as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{command, log_to, peers, spawn};

pub(crate) struct OsloPeer {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
}

impl OsloPeer {
    /// Starts one with these options in its `[oslo_messaging_rabbit]`.
    pub(crate) fn start(url: &str, options: &MessagingOptions) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let configuration = folder.path().join("peer.conf");
        // The queue manager of oslo.messaging locks a file.
        let locks = folder.path().display();
        let mut text =
            format!("[oslo_concurrency]\nlock_path = {locks}\n[oslo_messaging_rabbit]\n");
        for option in options.values().iter().filter(|it| !it.value.is_null()) {
            let value = match &option.value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            writeln!(text, "{} = {value}", option.row.key).unwrap();
        }
        std::fs::write(&configuration, text).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rabbitmq/oslo_peer.py");
        let mut python = command(&peers().join("venv/bin/python"));
        python.arg(script).arg(url).arg(configuration);
        python.current_dir(folder.path()).env("HOME", folder.path());
        python.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        log_to(&mut python, &folder.path().join("log"));
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(python);
        Self {
            asked: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            folder,
        }
    }

    /// Does something, and waits for its end; the program bounds the time.
    pub(crate) fn ask(&mut self, order: &Value) -> Value {
        self.send(order);
        self.answer()
    }

    pub(crate) fn send(&mut self, order: &Value) {
        writeln!(self.asked, "{order}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        if answer.get("ok").is_none() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            panic!("the peer answered {answer}:\n{log}");
        }
        answer["ok"].clone()
    }

    /// Serves a topic of the exchange `nova`.
    pub(crate) fn serve(&mut self, topic: &str, server: &str) {
        let order = json!({"do": "serve", "exchange": "nova", "topic": topic, "server": server});
        self.ask(&order);
    }

    /// The casts that arrived, as soon as there are that many.
    pub(crate) fn casts(&mut self, count: usize) -> Vec<Value> {
        let casts = self.ask(&json!({"do": "casts", "count": count}));
        casts.as_array().unwrap().clone()
    }
}

impl Drop for OsloPeer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
