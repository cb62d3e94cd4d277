//! The values of a set of files: which assignment wins, and the interpolation of `$name`, `${name}` and `${group.name}`.

use berth_model::nearest_name;

use crate::convert;
use crate::facts::{NovaOption, NovaOptions, plain_group};
use crate::syntax::{ConfAssignment, ConfFile};

/// References deeper than this are a cycle.
const DEEPEST: usize = 32;
/// The references of one value, with those of the values that it refers to. More are a mistake, or an attack.
const MOST_REFERENCES: usize = 1000;
/// The longest value after its references are replaced, in bytes.
const LONGEST: usize = 1 << 20;

/// The files of a nova-compute in the order in which it reads them; later ones win.
#[derive(Debug, Clone)]
pub struct NovaConf<'a> {
    files: &'a [ConfFile],
    options: &'a NovaOptions,
}

/// The assignments that an option gets its value from: one, or all for a MultiOpt.
#[derive(Debug)]
pub struct FoundValue<'a> {
    pub assignments: Vec<&'a ConfAssignment>,
    /// `FILE:LINE` of the last one.
    pub at: String,
}

/// Why the value of an option cannot be written out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceFault {
    #[error(
        "the value refers to ${name}, and there is no such option{guess}; write $$ for a dollar sign"
    )]
    Unknown { name: String, guess: String },
    #[error(
        "the value refers to ${0}, which is not set in these files and has a default that only Nova knows; set it in the file"
    )]
    NoValue(String),
    #[error("the value refers to ${0}, which is a list; write its values out")]
    NoText(String),
    #[error("the value refers to ${0}, which refers back to it; write one of them out")]
    Cycle(String),
    #[error("the value has too many references, or is too long with them; write it out")]
    TooLarge,
}

impl<'a> NovaConf<'a> {
    #[must_use]
    pub fn new(files: &'a [ConfFile], options: &'a NovaOptions) -> Self {
        Self { files, options }
    }

    #[must_use]
    pub fn options(&self) -> &'a NovaOptions {
        self.options
    }

    /// Every assignment with its file.
    pub fn assignments(
        &self,
    ) -> impl Iterator<Item = (&'a ConfFile, &'a ConfAssignment)> + use<'a> {
        let files = self.files.iter();
        files.flat_map(|file| file.assignments.iter().map(move |it| (file, it)))
    }

    /// The assignments that count. As in oslo.config, groups are compared in lower case; the latest file wins, and in one file the
    /// present name wins over former ones.
    #[must_use]
    pub fn find(&self, option: &NovaOption) -> Option<FoundValue<'a>> {
        let names = names(option);
        let mut found = Vec::new();
        let mut at = None;
        for file in self.files.iter().rev() {
            for (group, name) in &names {
                let assignments = file
                    .assignments
                    .iter()
                    .filter(|it| it.key == *name && plain_group(&it.section) == plain_group(group));
                let assignments: Vec<&ConfAssignment> = assignments.collect();
                let Some(last) = assignments.last() else {
                    continue;
                };
                at.get_or_insert_with(|| place(file, last));
                if !option.multi {
                    return Some(FoundValue {
                        assignments: vec![last],
                        at: place(file, last),
                    });
                }
                found.splice(0..0, assignments);
            }
        }
        Some(FoundValue {
            assignments: found,
            at: at?,
        })
    }

    /// The texts of an option with all references replaced; `None` if the option is not set.
    ///
    /// # Errors
    ///
    /// A reference to what has no value.
    pub fn texts(&self, option: &NovaOption) -> Result<Option<Vec<String>>, ReferenceFault> {
        let Some(found) = self.find(option) else {
            return Ok(None);
        };
        let texts = found.assignments.iter();
        let texts = texts.map(|it| {
            let mut left = MOST_REFERENCES;
            self.expand(&it.value, &option.group, 0, &mut left)
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    fn expand(
        &self,
        text: &str,
        group: &str,
        depth: usize,
        left: &mut usize,
    ) -> Result<String, ReferenceFault> {
        let text = text.replace("\\$", "$$");
        let mut rest = text.as_str();
        let mut expanded = String::new();
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                expanded.push('$');
                rest = after;
            } else if let Some((name, after)) = reference(after) {
                *left = left.checked_sub(1).ok_or(ReferenceFault::TooLarge)?;
                expanded.push_str(&self.referred(name, group, depth, left)?);
                if expanded.len() > LONGEST {
                    return Err(ReferenceFault::TooLarge);
                }
                rest = after;
            } else {
                expanded.push('$');
                rest = after;
            }
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// The value of a reference. A name without a group is looked up in the group of the value, then in `DEFAULT`.
    fn referred(
        &self,
        name: &str,
        group: &str,
        depth: usize,
        left: &mut usize,
    ) -> Result<String, ReferenceFault> {
        if depth >= DEEPEST {
            return Err(ReferenceFault::Cycle(name.to_owned()));
        }
        let (first, short) = name.split_once('.').unwrap_or((group, name));
        let option = self.options.find(first, short);
        let Some(option) = option.or_else(|| self.options.find("DEFAULT", name)) else {
            return Err(self.unknown(name));
        };
        if option.multi {
            return Err(ReferenceFault::NoText(name.to_owned()));
        }
        let found = self.find(option);
        let found = found.as_ref().and_then(|found| found.assignments.last());
        let text = found.map_or(option.default.as_deref(), |it| Some(it.value.as_str()));
        let Some(text) = text else {
            return Err(ReferenceFault::NoValue(name.to_owned()));
        };
        let text = self.expand(text, &option.group, depth + 1, left)?;
        convert::as_reference(option.kind, &text)
            .ok_or_else(|| ReferenceFault::NoText(name.to_owned()))
    }

    fn unknown(&self, name: &str) -> ReferenceFault {
        let known = self.options.iter();
        let known = known.filter(|it| it.group == "DEFAULT").map(|it| &*it.name);
        let guess = nearest_name(name, known);
        ReferenceFault::Unknown {
            name: name.to_owned(),
            guess: guess.map_or_else(String::new, |it| format!("; did you mean ${it}?")),
        }
    }
}

/// `FILE:LINE`.
pub(crate) fn place(file: &ConfFile, assignment: &ConfAssignment) -> String {
    format!("{}:{}", file.name.escape_debug(), assignment.line)
}

/// Group and name of an option, and its former ones.
fn names(option: &NovaOption) -> Vec<(&str, &str)> {
    let former = option.former.iter();
    let former = former.map(|(group, name)| (&**group, &**name));
    std::iter::once((&*option.group, &*option.name))
        .chain(former)
        .collect()
}

/// The name after a `$`, with or without braces, and the rest of the text.
fn reference(after: &str) -> Option<(&str, &str)> {
    let (inner, is_braced) = match after.strip_prefix('{') {
        Some(inner) => (inner, true),
        None => (after, false),
    };
    let is_first = |letter: char| letter == '_' || letter.is_ascii_alphabetic();
    let is_further = |letter: char| is_first(letter) || letter == '.' || letter.is_ascii_digit();
    if !inner.starts_with(is_first) {
        return None;
    }
    let end = inner.find(|letter| !is_further(letter));
    let (name, rest) = inner.split_at(end.unwrap_or(inner.len()));
    match is_braced {
        true => rest.strip_prefix('}').map(|rest| (name, rest)),
        false => Some((name, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    fn file(name: &str, text: &str) -> ConfFile {
        parse(name, text.as_bytes()).expect("the text is valid")
    }

    fn value(text: &str, group: &str, name: &str) -> Result<Option<Vec<String>>, ReferenceFault> {
        let files = [file("nova.conf", text)];
        let options = NovaOptions::nova_34();
        let option = options.find(group, name).expect("Nova has the option");
        NovaConf::new(&files, options).texts(option)
    }

    fn one(text: &str, group: &str, name: &str) -> String {
        let texts = value(text, group, name).expect("the value has no fault");
        texts.expect("it is set").remove(0)
    }

    #[test]
    fn references_are_replaced_in_their_group_then_in_the_default_group() {
        let text = "[DEFAULT]\nmy_ip = 192.0.2.7\ninstances_path=$state_path/i\n[vnc]\nserver_listen=${my_ip}\n\
                    server_proxyclient_address=$server_listen\n[glance]\nendpoint_override=http://${vnc.server_listen}:9292/$$x\\$y$5\n";
        assert_eq!(one(text, "DEFAULT", "instances_path"), "/var/lib/nova/i");
        assert_eq!(one(text, "vnc", "server_listen"), "192.0.2.7");
        assert_eq!(one(text, "vnc", "server_proxyclient_address"), "192.0.2.7");
        assert_eq!(
            one(text, "glance", "endpoint_override"),
            "http://192.0.2.7:9292/$x$y$5"
        );
    }

    #[test]
    fn a_reference_to_nothing_names_it() {
        let fault = |text: &str| value(text, "vnc", "server_listen").expect_err("it has a fault");
        let unknown = fault("[vnc]\nserver_listen = $my_ipp\n").to_string();
        assert!(unknown.contains("did you mean $my_ip?"), "{unknown}");
        let fault_of_default = fault("[vnc]\nserver_listen = $my_ip\n");
        assert_eq!(
            fault_of_default,
            ReferenceFault::NoValue("my_ip".to_owned())
        );
        let cycle = fault("[vnc]\nserver_listen = $server_listen\n");
        assert_eq!(cycle, ReferenceFault::Cycle("server_listen".to_owned()));
        let bomb = "[vnc]\nserver_listen = ${cert}${cert}\n[DEFAULT]\ncert=$key$key\nkey=$web$web\nweb=$record$record\n\
                    record=$daemon$daemon\n";
        let names = [
            "host",
            "log_dir",
            "log_file",
            "tempdir",
            "control_exchange",
            "console_host",
        ];
        let chain = names
            .windows(2)
            .map(|two| format!("{}=${}${}\n", two[0], two[1], two[1]));
        let chain: String = chain.collect();
        let bomb = format!("{}{chain}console_host=\n", bomb.replace("daemon", "host"));
        assert_eq!(fault(&bomb), ReferenceFault::TooLarge);
        let list = fault("[vnc]\nserver_listen = ${pci.alias}\n");
        assert_eq!(list, ReferenceFault::NoText("pci.alias".to_owned()));
    }

    #[test]
    fn the_latest_file_wins_and_the_present_name_within_it() {
        let files = [
            file(
                "a",
                "[pci]\nalias={}\nalias={1}\n[placement]\nusername=one\n",
            ),
            file(
                "b",
                "[DEFAULT]\npci_alias={2}\n[placement]\nuser_name=two\n[PLACEMENT]\nproject_name=x\n",
            ),
        ];
        let options = NovaOptions::nova_34();
        let conf = NovaConf::new(&files, options);
        let texts = |group, name| {
            let option = options.find(group, name).expect("known");
            conf.texts(option).expect("no fault").expect("set")
        };
        assert_eq!(texts("pci", "alias"), ["{}", "{1}", "{2}"]);
        assert_eq!(texts("placement", "username"), ["two"]);
        assert_eq!(texts("placement", "project_name"), ["x"]);
        let found = conf.find(options.find("placement", "username").expect("known"));
        assert_eq!(found.expect("set").at, "b:4");
    }
}
