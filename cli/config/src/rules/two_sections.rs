//! Conflicts between two sections: the same address to listen on, or the same database file. They are only warnings,
//! because these rules also apply to a reload of an agent without the services.

use std::net::{IpAddr, SocketAddr};

use berth_store::sql::Location;

use super::Judge;

impl Judge<'_> {
    pub(super) fn two_sections(&mut self) {
        self.listeners();
        self.databases();
    }

    /// The listeners of one process; `[identity_service] listen` belongs to another process.
    fn listeners(&mut self) {
        let config = self.config;
        let listeners = [
            ("api.listen", config.api_listen()),
            ("api.internal_listen", config.api.internal_listen.address()),
            (
                "placement_service.listen",
                config.placement_service.own_listen(),
            ),
            (
                "accelerator_service.listen",
                config.accelerator_service.own_listen(),
            ),
            (
                "compute_service.listen",
                config.compute_service.listen.address(),
            ),
            (
                "conductor_service.listen",
                config.conductor_service.listen.address(),
            ),
            ("agent.listen", config.agent.listen.address()),
            ("agent.events_listen", config.agent.events_listen.address()),
            (
                "agent.metrics_listen",
                config.agent.metrics_listen.address(),
            ),
        ];
        let listeners = listeners.map(|(name, address)| Some((name, address?)));
        self.no_two(
            &listeners.into_iter().flatten().collect::<Vec<_>>(),
            |one, other| excludes(*one, *other),
            |address, other| {
                (
                    format!("{address} is used by {other}"),
                    "a process with both does not start; write another port",
                )
            },
        );
    }

    /// One database on a server may be used by all services. A URL in a file is checked when the service starts.
    fn databases(&mut self) {
        let config = self.config;
        let databases = [
            ("placement_service.connection", config.placement_database()),
            (
                "accelerator_service.connection",
                config.accelerator_database(),
            ),
            ("conductor_service.connection", config.hosts_database()),
            ("compute_service.connection", config.compute_database()),
            ("identity_service.connection", config.identity_database()),
        ];
        let files = databases.map(|(name, url)| match url.reveal().parse() {
            Ok(Location::SqliteFile(file)) => Some((name, file)),
            _ => None,
        });
        self.no_two(
            &files.into_iter().flatten().collect::<Vec<_>>(),
            PartialEq::eq,
            |file, other| {
                (
                    format!("the file {} is the database of {other} too", file.display()),
                    "a process with both does not start; write a file of its own for each",
                )
            },
        );
    }

    /// Warns at the later one of two conflicting options, or at the one that is set.
    fn no_two<T>(
        &mut self,
        all: &[(&str, T)],
        exclude: impl Fn(&T, &T) -> bool,
        describe: impl Fn(&T, &str) -> (String, &'static str),
    ) {
        for (place, (name, one)) in all.iter().enumerate() {
            let before = all.iter().take(place);
            let other = before.filter(|(other, _)| !self.is_broken(&[*name, *other]));
            let mut other = other.filter(|(_, other)| exclude(one, other));
            if let Some((other, theirs)) = other.next() {
                let ((at, mine), other_name) = match self.is_set(name) {
                    true => ((name, one), other),
                    false => ((other, theirs), name),
                };
                let (wrong, right) = describe(mine, other_name);
                self.warn(at, wrong, right);
            }
        }
    }
}

/// Whether a listener on the second address fails if one is open on the first.
fn excludes(one: SocketAddr, other: SocketAddr) -> bool {
    // The IPv6 wildcard also covers IPv4.
    let covers =
        |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (mine, theirs) = (one.ip(), other.ip());
    let is_same = mine == theirs || covers(mine, theirs) || covers(theirs, mine);
    one.port() != 0 && one.port() == other.port() && is_same
}

#[cfg(test)]
mod tests {
    use crate::{ConfigDocument, resolve};

    fn warnings(text: &str) -> Vec<String> {
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text: text.to_owned(),
        };
        let warnings = resolve(&[document], &[]).unwrap().warnings;
        let texts = warnings.iter().map(ToString::to_string);
        texts
            .filter(|texts| texts.contains("a process with both does not start"))
            .collect()
    }

    #[test]
    fn two_listeners_of_a_process_at_one_address_are_reported_where_one_was_set() {
        for (text, expected) in [
            ("", None),
            (
                "[compute_service]\nlisten = \"127.0.0.1:8770\"\n",
                Some(
                    "berth.toml:2:10: compute_service.listen: 127.0.0.1:8770 is used by api.listen",
                ),
            ),
            (
                "[api]\nlisten = \"127.0.0.1:9000\"\n[placement_service]\nlisten = \"127.0.0.1:9000\"\n",
                Some(
                    "berth.toml:4:10: placement_service.listen: 127.0.0.1:9000 is used by api.listen",
                ),
            ),
            (
                "[accelerator_service]\nlisten = \"127.0.0.1:6666\"\n[compute_service]\nlisten = \"127.0.0.1:6666\"\n",
                Some(
                    "berth.toml:4:10: compute_service.listen: 127.0.0.1:6666 is used by accelerator_service.listen",
                ),
            ),
            (
                "[conductor_service]\nlisten = \"127.0.0.1:9000\"\n[agent]\nmetrics_listen = \"127.0.0.1:9000\"\n",
                Some(
                    "berth.toml:4:18: agent.metrics_listen: 127.0.0.1:9000 is used by conductor_service.listen",
                ),
            ),
            ("[api]\nlisten = \"[::1]:8778\"\n", None),
            (
                "[api]\nlisten = \"none\"\n[placement_service]\nlisten = \"127.0.0.1:8770\"\n",
                None,
            ),
            (
                "[api]\nlisten = \"127.0.0.1:0\"\n[placement_service]\nlisten = \"127.0.0.1:0\"\n",
                None,
            ),
            // Another process.
            ("[identity_service]\nlisten = \"127.0.0.1:8778\"\n", None),
        ] {
            let found = warnings(text);
            assert_eq!(
                found.len(),
                usize::from(expected.is_some()),
                "{text}{found:?}"
            );
            let expected = expected.unwrap_or_default();
            assert!(found.concat().starts_with(expected), "{text}{found:?}");
        }
    }

    #[test]
    fn all_addresses_of_the_host_are_the_one_of_another_too() {
        let excludes = |one: &str, other: &str| {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(super::excludes(one, other), super::excludes(other, one));
            super::excludes(one, other)
        };
        assert!(excludes("0.0.0.0:80", "127.0.0.1:80"));
        assert!(excludes("[::]:80", "127.0.0.1:80") && excludes("[::]:80", "[::1]:80"));
        assert!(!excludes("0.0.0.0:80", "[::1]:80"));
        assert!(!excludes("0.0.0.0:80", "127.0.0.1:81"));
        assert!(!excludes("127.0.0.2:80", "127.0.0.1:80"));
    }

    #[test]
    fn one_file_for_two_databases_is_reported_and_one_server_is_not() {
        let one = |url: &str| {
            format!(
                "[compute_service]\nconnection = \"{url}\"\n[identity_service]\nconnection = \"{url}\"\n"
            )
        };
        let found = warnings(&one("sqlite:/var/lib/berth/one.sqlite"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(
                "berth.toml:4:14: identity_service.connection: the file /var/lib/berth/one.sqlite is the database of \
                 compute_service.connection too"
            ),
            "{found:?}"
        );
        let state =
            "state_path = \"/s\"\n[placement_service]\nconnection = \"sqlite:/s/hosts.sqlite\"\n";
        let found = warnings(state);
        assert!(
            found
                .concat()
                .starts_with("berth.toml:3:14: placement_service.connection"),
            "{found:?}"
        );
        assert_eq!(warnings(&one("postgresql://berth:x@db/berth")), [""; 0]);
    }
}
