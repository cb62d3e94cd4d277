//! The journey of a renamed host: its children's providers get the new name first, the root last, so that a start after a
//! crash in between still sees the old name on the root and goes on.

use berth_model::{NodeName, ProviderName, ProviderTree, TreeDiff, diff};
use berth_virt::VirtDriver;
use tokio::time::Instant;

use crate::propose::ResourceTracker;
use crate::report_client::ReportError;

/// The tree with the node's name in place of the old one: on the root, and on the children that carry it as a prefix.
fn renamed(tree: &ProviderTree, from: &ProviderName, node: &NodeName) -> ProviderTree {
    let mut renamed = tree.clone();
    let prefix = format!("{from}_");
    for provider in tree
        .own()
        .into_iter()
        .filter(|provider| tree.is_ours(provider.uuid()))
    {
        let name = if provider.parent().is_none() {
            Some(node.root_name().clone())
        } else {
            provider
                .name
                .as_str()
                .strip_prefix(&prefix)
                .and_then(|end| node.child_name(end).ok())
        };
        if let (Some(name), Some(provider)) = (name, renamed.get_mut(provider.uuid())) {
            provider.name = name;
        }
    }
    renamed
}

/// Gives the node's providers their new name.
///
/// Errors: Placement does not answer or refuses (a name is taken); the next start goes on.
pub async fn reconcile<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    from: &ProviderName,
    now: Instant,
) -> Result<TreeDiff, ReportError> {
    let current = tracker.report.current_tree(now).await?;
    let desired = renamed(&current, from, &tracker.node);
    let mut diff = diff(&current, &desired);
    // The root is the tree's first; it is renamed last.
    diff.changed.reverse();
    tracker.report.flush(&diff, &desired).await?;
    Ok(diff)
}
