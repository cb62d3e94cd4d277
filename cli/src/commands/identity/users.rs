//! `berth identity check` and `user list`: reads the users file.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use berth_compose::identity_service::users_failure;
use berth_identity::{AssignmentTarget, User, Users, UsersFile};
use berth_output::{Failure, ListFormat, Listing};
use serde_json::json;

/// The log warns if other users can read the file.
fn read(path: &Path) -> Result<Arc<Users>, Failure> {
    let file = UsersFile::open(path).map_err(|error| users_failure(&error))?;
    Ok(file.cached())
}

pub(super) fn list(path: &Path, format: &ListFormat, out: &mut dyn Write) -> Result<(), Failure> {
    let users = read(path)?;
    let columns = [
        "id",
        "name",
        "domain",
        "enabled",
        "default_project",
        "roles",
    ];
    let mut listing = Listing::new(&columns);
    let mut all: Vec<&User> = users.users().collect();
    all.sort_by_key(|user| (&user.domain_id, &user.name));
    for user in all {
        let project = user.default_project_id.as_ref();
        listing.push([
            json!(user.id),
            json!(user.name),
            json!(users.domain(&user.domain_id).map(|it| &it.name)),
            json!(user.enabled),
            json!(project.and_then(|id| users.project(id)).map(|it| &it.name)),
            json!(roles(&users, user)),
        ]);
    }
    listing.print(format, out)
}

/// The roles as `project: member; system: admin`.
fn roles(users: &Users, user: &User) -> String {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let own = users.assignments().iter();
    for one in own.filter(|one| one.user_id == user.id) {
        let place = match &one.target {
            AssignmentTarget::Project(id) => users.project(id).map_or(id, |it| &it.name).clone(),
            AssignmentTarget::Domain(id) => {
                format!("domain {}", users.domain(id).map_or(id, |it| &it.name))
            }
            AssignmentTarget::System => "system".to_owned(),
        };
        match found.iter_mut().find(|(known, _)| *known == place) {
            Some((_, roles)) => roles.push(&one.role),
            None => found.push((place, vec![&one.role])),
        }
    }
    let each = found
        .iter()
        .map(|(place, roles)| format!("{place}: {}", roles.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}

pub(super) fn check(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let users = read(path)?;
    let (people, projects) = (users.users().count(), users.projects().count());
    let domains = users.domains().count();
    writeln!(
        out,
        "{} is right: users {people}, projects {projects}, domains {domains}",
        path.display()
    )?;
    Ok(())
}
