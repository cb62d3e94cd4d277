//! Recognizes configuration files of OpenStack's services (oslo.config, INI), which are given by mistake.

/// Whether a text that is not TOML is an INI file: it has sections and options, and values that are texts without quotes.
pub(crate) fn is_ini(text: &str) -> bool {
    let (mut options, mut unquoted) = (0, 0);
    for line in text.lines() {
        let is_continued = line.starts_with([' ', '\t']);
        let line = line.trim();
        let is_section = line.starts_with('[') && line.ends_with(']');
        if line.is_empty() || line.starts_with(['#', ';']) || is_section || is_continued {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return false;
        };
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        if !key.trim().chars().all(is_key) || value.contains(['"', '\'']) {
            return false;
        }
        options += 1;
        unquoted += usize::from(is_text(value.trim()));
    }
    options >= 2 && unquoted >= 1
}

/// Whether a value is neither a number, a truth value, a list nor empty.
fn is_text(value: &str) -> bool {
    let is_other = value.is_empty()
        || value.parse::<f64>().is_ok()
        || matches!(value, "true" | "false")
        || value.starts_with(['[', '{']);
    !is_other
}

#[cfg(test)]
mod tests {
    use super::is_ini;

    #[test]
    fn a_nova_conf_is_an_ini_file_and_broken_toml_is_none() {
        assert!(is_ini(
            "[DEFAULT]\n# comment\ncompute_driver = libvirt.LibvirtDriver\ndebug = True\n[vnc]\nserver_listen=0.0.0.0\n"
        ));
        for text in [
            "",
            "hots = 1\n[compute\n",
            "host = \"a\"\n[libvirt]\nvirt_type = qemu\n",
            "[[node]]\nname = \"a\n",
            "a = [\n",
        ] {
            assert!(!is_ini(text), "{text}");
        }
    }
}
