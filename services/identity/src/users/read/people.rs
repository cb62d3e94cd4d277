//! Reads the sections of the file in dependency order.

use std::collections::BTreeMap;

use berth_options::document::{DocumentField, DocumentParser, DocumentTable};
use berth_wire::did_you_mean;

use super::super::{
    Assignment, AssignmentTarget, Domain, Project, RoleEntry, User, Users, derived,
};
use super::entries::{check_unique, checked_name, enabled, id, optional_text};
use crate::passwords::PasswordHash;

/// The implicit domain, as created by Keystone's bootstrap.
pub(super) const DEFAULT_DOMAIN: (&str, &str) = ("default", "Default");

/// The implicit roles with what they imply, as created by Keystone's bootstrap.
const ROLES: [(&str, &[&str]); 5] = [
    ("admin", &["manager"]),
    ("manager", &["member"]),
    ("member", &["reader"]),
    ("reader", &[]),
    ("service", &[]),
];

/// The most characters of a domain's and a project's name, and of a user's and a role's: Keystone's.
const LONGEST_PROJECT: usize = 64;
const LONGEST_USER: usize = 255;

/// The entries that were read so far. The sections are read in dependency order: domains, projects, roles, users, role
/// assignments.
pub(super) struct UsersBuilder {
    domains: BTreeMap<String, Domain>,
    projects: BTreeMap<String, Project>,
    users: BTreeMap<String, User>,
    roles: BTreeMap<String, RoleEntry>,
    assignments: Vec<Assignment>,
}

impl UsersBuilder {
    pub(super) fn read(top: &DocumentTable<'_>, parser: &mut DocumentParser<'_>) -> Self {
        let known = ["domain", "project", "role", "user", "role_assignment"];
        top.only(&known, parser);
        let mut builder = Self {
            domains: BTreeMap::new(),
            projects: BTreeMap::new(),
            users: BTreeMap::new(),
            roles: ROLES.into_iter().map(built_in).collect(),
            assignments: Vec::new(),
        };
        for table in top.tables("domain", parser) {
            builder.domain(&table, parser);
        }
        let (default_id, default_name) = DEFAULT_DOMAIN;
        let named = |domain: &Domain| domain.name == default_name;
        if !builder.domains.contains_key(default_id) && !builder.domains.values().any(named) {
            builder
                .domains
                .insert(default_id.to_owned(), default_domain());
        }
        for table in top.tables("project", parser) {
            builder.project(&table, parser);
        }
        builder.roles(&top.tables("role", parser), parser);
        for table in top.tables("user", parser) {
            builder.user(&table, parser);
        }
        for table in top.tables("role_assignment", parser) {
            builder.assignment(&table, parser);
        }
        builder
    }

    pub(super) fn into_users(mut self) -> Users {
        self.assignments.sort();
        self.assignments.dedup();
        let hashes = self.users.values().map(|user| &user.password_hash);
        Users {
            costliest: hashes.max_by_key(|hash| hash.cost()).cloned(),
            domains: self.domains,
            projects: self.projects,
            users: self.users,
            roles: self.roles,
            assignments: self.assignments,
        }
    }

    fn domain(&mut self, table: &DocumentTable<'_>, parser: &mut DocumentParser<'_>) {
        table.only(&["name", "id", "description", "enabled"], parser);
        let right = "the domain's name";
        let Some(field) = table.need("name", right, parser) else {
            return;
        };
        let Some(name) = checked_name(&field, LONGEST_PROJECT, parser) else {
            return;
        };
        let (default_id, default_name) = DEFAULT_DOMAIN;
        let from_name = || match name == default_name {
            true => default_id.to_owned(),
            false => derived("domain", &[name]),
        };
        let id = id(table, "domain id", parser).unwrap_or_else(from_name);
        check_unique("domain name", name.to_owned(), table, parser);
        let domain = Domain {
            id: id.clone(),
            name: name.to_owned(),
            description: optional_text(table, "description", parser).unwrap_or_default(),
            enabled: enabled(table, parser),
        };
        self.domains.insert(id, domain);
    }

    fn project(&mut self, table: &DocumentTable<'_>, parser: &mut DocumentParser<'_>) {
        table.only(&["name", "domain", "id", "description", "enabled"], parser);
        let field = table.need("name", "the project's name", parser);
        let name = field.and_then(|field| checked_name(&field, LONGEST_PROJECT, parser));
        let domain_id = self.domain_of(table, "domain", parser);
        let (Some(name), Some(domain_id)) = (name, domain_id) else {
            return;
        };
        let id = id(table, "project id", parser)
            .unwrap_or_else(|| derived("project", &[&domain_id, name]));
        check_unique(
            "project name",
            format!("{domain_id}\0{name}"),
            table,
            parser,
        );
        let project = Project {
            id: id.clone(),
            name: name.to_owned(),
            domain_id,
            description: optional_text(table, "description", parser).unwrap_or_default(),
            enabled: enabled(table, parser),
        };
        self.projects.insert(id, project);
    }

    /// Roles may imply roles that are defined later in the file.
    fn roles(&mut self, tables: &[DocumentTable<'_>], parser: &mut DocumentParser<'_>) {
        let mut implying = Vec::new();
        for table in tables {
            table.only(&["name", "id", "description", "implies"], parser);
            let field = table.need("name", "the role's name", parser);
            let Some(name) = field.and_then(|field| checked_name(&field, LONGEST_USER, parser))
            else {
                continue;
            };
            check_unique("role name", name.to_owned(), table, parser);
            let role = RoleEntry {
                id: id(table, "role id", parser).unwrap_or_else(|| derived("role", &[name])),
                name: name.to_owned(),
                description: optional_text(table, "description", parser),
                implies: Vec::new(),
            };
            self.roles.insert(name.to_owned(), role);
            if let Some(field) = table.field("implies") {
                implying.push((name, field));
            }
        }
        for (name, field) in implying {
            let implied = self.role_names(&field, parser);
            if let Some(role) = self.roles.get_mut(name) {
                role.implies = implied;
            }
        }
    }

    fn user(&mut self, table: &DocumentTable<'_>, parser: &mut DocumentParser<'_>) {
        let known = [
            "name",
            "domain",
            "id",
            "password_hash",
            "email",
            "description",
            "enabled",
            "default_project",
            "default_project_domain",
        ];
        table.only(&known, parser);
        let field = table.need("name", "the user's name", parser);
        let name = field.and_then(|field| checked_name(&field, LONGEST_USER, parser));
        let right = "what `berth identity hash-password` prints";
        let hash = table
            .need("password_hash", right, parser)
            .and_then(|field| password_hash(&field, parser));
        let domain_id = self.domain_of(table, "domain", parser);
        let default_project_id = table
            .field("default_project")
            .and_then(|field| self.project_of(&field, table, "default_project_domain", parser));
        let (Some(name), Some(hash), Some(domain_id)) = (name, hash, domain_id) else {
            return;
        };
        let id =
            id(table, "user id", parser).unwrap_or_else(|| derived("user", &[&domain_id, name]));
        check_unique("user name", format!("{domain_id}\0{name}"), table, parser);
        let user = User {
            id: id.clone(),
            name: name.to_owned(),
            domain_id,
            password_hash: hash,
            email: optional_text(table, "email", parser),
            description: optional_text(table, "description", parser),
            enabled: enabled(table, parser),
            default_project_id,
        };
        self.users.insert(id, user);
    }

    fn assignment(&mut self, table: &DocumentTable<'_>, parser: &mut DocumentParser<'_>) {
        let known = [
            "user",
            "user_domain",
            "project",
            "project_domain",
            "domain",
            "system",
            "roles",
        ];
        table.only(&known, parser);
        let user = table
            .need("user", "the name of a user of this file", parser)
            .and_then(|field| self.user_of(&field, table, parser));
        let roles = table
            .need("roles", "a list such as [\"member\"]", parser)
            .map(|field| (self.role_names(&field, parser), field.key));
        let target = self.target(table, parser);
        let (Some(user_id), Some((roles, key)), Some(target)) = (user, roles, target) else {
            return;
        };
        if roles.is_empty() {
            let right = "a list of one role at least would be right, such as [\"member\"]";
            parser.wrong(&table.span, &key, right);
        }
        self.assignments
            .extend(roles.into_iter().map(|role| Assignment {
                user_id: user_id.clone(),
                target: target.clone(),
                role,
            }));
    }

    fn target(
        &self,
        table: &DocumentTable<'_>,
        parser: &mut DocumentParser<'_>,
    ) -> Option<AssignmentTarget> {
        let field = |name| table.field(name);
        match (field("project"), field("domain"), field("system")) {
            (Some(project), None, None) => self
                .project_of(&project, table, "project_domain", parser)
                .map(AssignmentTarget::Project),
            (None, Some(_), None) => self
                .domain_of(table, "domain", parser)
                .map(AssignmentTarget::Domain),
            (None, None, Some(system)) => {
                if system.text(parser)? == "all" {
                    return Some(AssignmentTarget::System);
                }
                system.wrong("\"all\" is the only system there is", parser);
                None
            }
            _ => {
                let text =
                    "one of project, domain and system = \"all\" says where the roles are had";
                parser.wrong(&table.span, &table.key, text);
                None
            }
        }
    }

    /// The domain that a key names; the default domain if the key is missing.
    fn domain_of(
        &self,
        table: &DocumentTable<'_>,
        key: &str,
        parser: &mut DocumentParser<'_>,
    ) -> Option<String> {
        let Some(field) = table.field(key) else {
            let is_default =
                |domain: &&Domain| domain.id == DEFAULT_DOMAIN.0 || domain.name == DEFAULT_DOMAIN.1;
            return self
                .domains
                .values()
                .find(is_default)
                .map(|it| it.id.clone());
        };
        let name = field.text(parser)?;
        let found = self.domains.values().find(|domain| domain.name == name);
        if found.is_none() {
            let names: Vec<&str> = self.domains.values().map(|it| it.name.as_str()).collect();
            field.wrong(
                format!("there is no such domain; {}", did_you_mean(name, &names)),
                parser,
            );
        }
        found.map(|domain| domain.id.clone())
    }

    fn project_of(
        &self,
        field: &DocumentField<'_>,
        table: &DocumentTable<'_>,
        domain_key: &str,
        parser: &mut DocumentParser<'_>,
    ) -> Option<String> {
        let domain_id = self.domain_of(table, domain_key, parser)?;
        let name = field.text(parser)?;
        let of_domain = || {
            self.projects
                .values()
                .filter(|it| it.domain_id == domain_id)
        };
        let found = of_domain().find(|project| project.name == name);
        if found.is_none() {
            let names: Vec<&str> = of_domain().map(|it| it.name.as_str()).collect();
            let right = did_you_mean(name, &names);
            field.wrong(
                format!(
                    "this domain has no such project; {right} ({domain_key} names another domain)"
                ),
                parser,
            );
        }
        found.map(|project| project.id.clone())
    }

    fn user_of(
        &self,
        field: &DocumentField<'_>,
        table: &DocumentTable<'_>,
        parser: &mut DocumentParser<'_>,
    ) -> Option<String> {
        let domain_id = self.domain_of(table, "user_domain", parser)?;
        let name = field.text(parser)?;
        let of_domain = || self.users.values().filter(|it| it.domain_id == domain_id);
        let found = of_domain().find(|user| user.name == name);
        if found.is_none() {
            let names: Vec<&str> = of_domain().map(|it| it.name.as_str()).collect();
            let right = did_you_mean(name, &names);
            field.wrong(
                format!(
                    "the domain has no user {name:?}; {right} (user_domain names another domain)"
                ),
                parser,
            );
        }
        found.map(|user| user.id.clone())
    }

    fn role_names(
        &self,
        field: &DocumentField<'_>,
        parser: &mut DocumentParser<'_>,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for item in field.list(parser) {
            let Some(name) = item.text(parser) else {
                continue;
            };
            if self.roles.contains_key(name) {
                names.push(name.to_owned());
                continue;
            }
            let known: Vec<&str> = self.roles.keys().map(String::as_str).collect();
            let right = did_you_mean(name, &known);
            item.wrong(
                format!("there is no such role; {right} A [[role]] makes another"),
                parser,
            );
        }
        names
    }
}

fn password_hash(
    field: &DocumentField<'_>,
    parser: &mut DocumentParser<'_>,
) -> Option<PasswordHash> {
    match field.text(parser)?.parse() {
        Ok(hash) => Some(hash),
        Err(error) => {
            field.wrong(error.to_string(), parser);
            None
        }
    }
}

fn default_domain() -> Domain {
    Domain {
        id: DEFAULT_DOMAIN.0.to_owned(),
        name: DEFAULT_DOMAIN.1.to_owned(),
        description: "The default domain".to_owned(),
        enabled: true,
    }
}

fn built_in((name, implies): (&str, &[&str])) -> (String, RoleEntry) {
    let role = RoleEntry {
        id: derived("role", &[name]),
        name: name.to_owned(),
        description: None,
        implies: implies.iter().map(|&name| name.to_owned()).collect(),
    };
    (name.to_owned(), role)
}
