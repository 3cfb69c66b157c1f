//! Finding the operation that a request is.

use crate::operation::{Operation, Plane};
use crate::operations;
use http::Method;
use oncebox_policy::Permit;
use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

/// Operations, found by method and path.
///
/// Paths are those below the API's base URL, without query, as they are on the wire: a percent-encoded `/` in an id stays
/// in its segment. A template matches a whole path and nothing beside it: another method, one more segment, a trailing
/// slash are not listed. Where several templates match a path, the one with a literal where the others have a parameter
/// decides, leftmost segment first, and then its methods alone count.
///
/// ```
/// use http::Method;
/// use oncebox_protocol::{Table, operations};
///
/// let table = Table::control_plane();
/// let found = table.find(&Method::POST, "/sandboxes/i123/fork");
/// assert_eq!(found, Some(&operations::FORK_SANDBOX));
/// assert_eq!(table.find(&Method::POST, "/sandboxes/i123/fork/"), None);
/// ```
#[derive(Clone)]
pub struct Table {
    operations: Vec<Cow<'static, Operation>>,
    /// A tree of segments; the first node is the root.
    nodes: Vec<Node>,
}

/// What may follow a beginning of a path.
#[derive(Clone, Default)]
struct Node {
    /// Sorted, so that they are found by bisection.
    literals: Vec<(Box<str>, usize)>,
    parameter: Option<usize>,
    /// Of the template that ends here, as indices into the table's operations.
    operations: Vec<usize>,
}

/// Where every path begins.
const ROOT: usize = 0;

impl Table {
    /// A table of these operations. Of two with one method and path, the first counts. A template begins with `/`; one that does
    /// not is never found.
    pub fn new(operations: impl IntoIterator<Item = Cow<'static, Operation>>) -> Self {
        let mut table = Self { operations: Vec::new(), nodes: vec![Node::default()] };
        for operation in operations {
            table.insert(operation);
        }
        table
    }

    /// A table of statics, such as those that the feature `openapi` writes at build time.
    pub fn from_statics(operations: impl IntoIterator<Item = &'static Operation>) -> Self {
        Self::new(operations.into_iter().map(Cow::Borrowed))
    }

    /// The control plane's operations.
    pub fn control_plane() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(Plane::ControlPlane));
        &TABLE
    }

    /// The volume content API's operations.
    pub fn volume_content() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(Plane::VolumeContent));
        &TABLE
    }

    /// envd's operations, RPCs included.
    pub fn envd() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(Plane::Envd));
        &TABLE
    }

    /// The code interpreter's operations.
    pub fn code_interpreter() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(Plane::CodeInterpreter));
        &TABLE
    }

    /// All operations, for whoever cannot tell which server a request is for. `GET /health` is the control plane's here; no
    /// other two have one method and path, and what is repeatable is the same in each plane's own table.
    pub fn all() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::from_statics(operations::ALL));
        &TABLE
    }

    fn of(plane: Plane) -> Self {
        Self::from_statics(operations::ALL.into_iter().filter(|operation| operation.plane == plane))
    }

    /// The operation that a request is.
    pub fn find(&self, method: &Method, path: &str) -> Option<&Operation> {
        let node = self.descend(ROOT, path.strip_prefix('/')?)?;
        node.operations
            .iter()
            .filter_map(|&index| self.operations.get(index))
            .map(Cow::as_ref)
            .find(|operation| operation.method == *method)
    }

    /// Why a request may be repeated once its outcome is unknown: by what the table says of it or, where it is not listed,
    /// by its method. Nothing, if it may not.
    pub fn permit(&self, method: &Method, path: &str) -> Option<Permit> {
        match self.find(method, path) {
            Some(operation) => operation.permit(),
            None => Permit::of_method(method.as_str()),
        }
    }

    /// The operations, in the order in which they were given.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = &Operation> {
        self.operations.iter().map(Cow::as_ref)
    }

    /// The node at which a path's template ends, tried with literals first.
    fn descend(&self, at: usize, rest: &str) -> Option<&Node> {
        let node = self.nodes.get(at)?;
        let (segment, rest) = match rest.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (rest, None),
        };
        let step = |next: usize| match rest {
            Some(rest) => self.descend(next, rest),
            None => self.nodes.get(next).filter(|node| !node.operations.is_empty()),
        };
        let literal = node
            .literals
            .binary_search_by(|(literal, _)| (**literal).cmp(segment))
            .ok()
            .and_then(|found| node.literals.get(found))
            .and_then(|&(_, next)| step(next));
        if literal.is_some() {
            return literal;
        }
        // Dot segments never reach a server as such, so a path that has one is not what it seems.
        match segment {
            "" | "." | ".." => None,
            _ => node.parameter.and_then(step),
        }
    }

    fn insert(&mut self, operation: Cow<'static, Operation>) {
        let mut at = ROOT;
        let Some(below_root) = operation.path.strip_prefix('/') else {
            self.operations.push(operation);
            return;
        };
        for segment in below_root.split('/') {
            at = if segment.starts_with('{') && segment.ends_with('}') {
                match self.nodes[at].parameter {
                    Some(next) => next,
                    None => {
                        let next = self.grow();
                        self.nodes[at].parameter = Some(next);
                        next
                    }
                }
            } else {
                match self.nodes[at].literals.binary_search_by(|(literal, _)| (**literal).cmp(segment)) {
                    Ok(found) => self.nodes[at].literals[found].1,
                    Err(place) => {
                        let next = self.grow();
                        self.nodes[at].literals.insert(place, (segment.into(), next));
                        next
                    }
                }
            };
        }
        self.nodes[at].operations.push(self.operations.len());
        self.operations.push(operation);
    }

    fn grow(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.operations().map(|operation| operation.id.as_ref())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(table: &Table, method: Method, path: &str) -> Option<String> {
        table.find(&method, path).map(|operation| operation.id.to_string())
    }

    #[test]
    fn a_literal_wins_over_a_parameter() {
        let table = Table::control_plane();
        assert_eq!(id(table, Method::POST, "/templates/tags").as_deref(), Some("assignTemplateTags"));
        assert_eq!(id(table, Method::POST, "/templates/tag").as_deref(), Some("rebuildTemplateV1"));
        assert_eq!(id(table, Method::GET, "/templates/aliases/tags").as_deref(), Some("getTemplateAlias"));
    }

    #[test]
    fn the_methods_of_the_winner_alone_count() {
        let table = Table::control_plane();
        assert_eq!(id(table, Method::PATCH, "/templates/base").as_deref(), Some("updateTemplateV1"));
        assert_eq!(id(table, Method::PATCH, "/templates/tags"), None);
    }

    #[test]
    fn a_literal_that_leads_nowhere_gives_way() {
        let table = Table::control_plane();
        // No template continues `/templates/aliases` like this, so `aliases` is an id here.
        assert_eq!(id(table, Method::GET, "/templates/aliases/tags/count").as_deref(), Some("countTemplateTags"));
        assert_eq!(id(table, Method::GET, "/sandboxes/metrics/logs").as_deref(), Some("getSandboxLogsV1"));
    }

    #[test]
    fn an_encoded_slash_stays_in_its_segment() {
        let table = Table::control_plane();
        assert_eq!(id(table, Method::DELETE, "/templates/team%2Fbase%3Av1").as_deref(), Some("deleteTemplate"));
        assert_eq!(id(table, Method::DELETE, "/templates/team/base"), None);
    }

    #[test]
    fn what_is_no_whole_path_is_not_listed() {
        let table = Table::control_plane();
        for path in [
            "",
            "/",
            "//",
            "sandboxes",
            "/sandboxes/",
            "/sandboxes//pause",
            "/sandboxes/../pause",
            "/sandboxes/./pause",
            "/api/sandboxes/x/pause",
            "/sandboxes/x/pause/",
            "/sandboxes/x/pause/y",
            "/sandboxes/x/PAUSE",
        ] {
            assert_eq!(id(table, Method::POST, path), None, "{path}");
        }
    }

    #[test]
    fn permits_come_from_the_table_and_else_from_the_method() {
        let table = Table::control_plane();
        let cases = [
            (Method::POST, "/v2/sandboxes", None),
            (Method::POST, "/sandboxes/x/pause", Some(Permit::OperationTable)),
            (Method::GET, "/sandboxes/x", Some(Permit::SafeMethod)),
            (Method::DELETE, "/sandboxes/x", Some(Permit::IdempotentMethod)),
            (Method::GET, "/unlisted", Some(Permit::SafeMethod)),
            (Method::HEAD, "/sandboxes/x", Some(Permit::SafeMethod)),
            (Method::PUT, "/unlisted", Some(Permit::IdempotentMethod)),
            (Method::POST, "/unlisted", None),
            (Method::PATCH, "/unlisted", None),
        ];
        for (method, path, permit) in cases {
            assert_eq!(table.permit(&method, path), permit, "{method} {path}");
        }
        assert_eq!(Table::envd().permit(&Method::POST, "/filesystem.Filesystem/Stat"), Some(Permit::SafeMethod));
        assert_eq!(Table::envd().permit(&Method::POST, "/process.Process/Start"), None);
    }

    #[test]
    fn a_template_without_root_is_never_found() {
        let table = Table::new([
            Cow::Owned(Operation { path: Cow::Borrowed("nowhere/jobs"), ..operations::CREATE_VOLUME.clone() }),
            Cow::Owned(Operation { path: Cow::Borrowed("/"), ..operations::LIST_VOLUMES.clone() }),
        ]);
        assert_eq!(table.operations().len(), 2);
        assert_eq!(id(&table, Method::POST, "/jobs"), None);
        assert_eq!(id(&table, Method::GET, "/").as_deref(), Some("listVolumes"));
    }

    #[test]
    fn the_whole_table_says_what_each_part_says() {
        for operation in operations::ALL {
            let parameters: Vec<&str> = operation.parameters().map(|_| "x").collect();
            let path = operation.path_for(&parameters).unwrap();
            let found = Table::all().find(&operation.method, &path).unwrap();
            assert_eq!(found.permit(), operation.permit(), "{operation}");
        }
    }
}
