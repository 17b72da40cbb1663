//! Traces a search: the nodes that an event leads to, in order, and the work at each of them.

use super::label;
use crate::error::Error;
use crate::event::Encoding;
use crate::handles::NodeId;
use crate::index::Index;
use crate::search::observe::{List, Visit};
use crate::search::Search;
use crate::tree::Position;

/// The path of a search through the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The lists that the search visited, in order.
    pub steps: Vec<Step>,
    /// The number of entries and unindexed expressions that the search visited.
    pub visited: u64,
    /// The number of expressions that the search evaluated.
    pub evaluated: u64,
    /// The ids of all matches, ascending.
    pub ids: Vec<u64>,
}

/// The work of a search at one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The list.
    pub place: Place,
    /// The number of entries or expressions that the search visited.
    pub visited: u64,
    /// The number of candidates among them: entries whose filters the event passed. A list without filters passes all.
    pub passed: u64,
    /// The number of expressions that were evaluated, by their program or, without one, by windows.
    pub evaluated: u64,
    /// The ids of the expressions that first matched here, ascending.
    pub matched: Vec<u64>,
}

/// The place of a list in the picture of [`draw`](super::draw::draw).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The unindexed expressions, which every search visits. The picture names it `every`.
    Every,
    /// The node with this number.
    Node(u32, Option<Edge>),
}

/// The edge to a node from the level above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The number of the node that has the level.
    pub above: u32,
    /// The number of the level.
    pub level: u32,
    /// The attribute of the level.
    pub attribute: String,
    /// The value or the interval that leads to the node.
    pub label: String,
    /// The number of nodes below the level.
    pub siblings: usize,
}

/// Searches for the event in `bytes` and returns the path of the search. `search` must have room for the index
/// ([`Search::reserve`]).
///
/// ```
/// use be_tree_index::diagnostics::trace::{trace, Place};
/// use be_tree_index::event::Format;
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::search::Search;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// for (id, city) in ["Rome", "Oslo", "Bern", "Riga"].iter().cycle().take(100).enumerate() {
///     let text = format!("city = '{city}' and age > {id}");
///     index.insert(&Insertion { id: id as u64, text: text.as_bytes(), constants: vec![] })?;
/// }
/// let mut search = Search::default();
/// search.reserve(&index)?;
/// let trace = trace(&index, &mut search, Format::Json, br#"{"age": 7, "city": "Oslo"}"#)?;
/// assert_eq!(trace.ids, [1, 5]);
/// // From the root by the value of one attribute to a node with a quarter of the expressions.
/// assert!(matches!(trace.steps[0].place, Place::Node(0, None)));
/// let Place::Node(_, Some(edge)) = &trace.steps[1].place else { panic!("{trace:?}") };
/// assert_eq!((edge.attribute.as_str(), edge.label.as_str(), edge.siblings), ("city", "Oslo", 4));
/// assert_eq!(trace.steps[1].visited, 25);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
///
/// # Errors
///
/// Those of decoding the event.
pub fn trace(index: &Index, search: &mut Search, encoding: impl Into<Encoding>, bytes: &[u8]) -> Result<Trace, Error> {
    search.open(index, encoding, bytes, None::<std::iter::Empty<u64>>)?;
    let mut steps = Vec::new();
    search.observe(index, |visit| steps.push(step(index, visit)));
    let found = search.found();
    Ok(Trace { steps, visited: found.visited(), evaluated: found.evaluated(), ids: found.ids().to_vec() })
}

fn step(index: &Index, visit: Visit) -> Step {
    let Visit { list, visited, passed, evaluated, matched } = visit;
    let mut matched: Vec<u64> = matched.into_iter().map(|slot| index.subscriptions().id(slot)).collect();
    matched.sort_unstable();
    matched.dedup();
    Step { place: place(index, list), visited, passed, evaluated, matched }
}

fn place(index: &Index, list: List) -> Place {
    match list {
        List::Dense | List::Unindexed | List::Leaf(NodeId::SCANNED) => Place::Every,
        List::Leaf(node) => Place::Node(node.word(), edge(index, node)),
    }
}

/// Returns the edge to `node`, unless it is the root.
fn edge(index: &Index, node: NodeId) -> Option<Edge> {
    let Position::Under(id, place) = index.tree().position(node) else { return None };
    let level = index.tree().level(id);
    Some(Edge {
        above: level.owner.word(),
        level: id.word(),
        attribute: index.schema().attribute(level.attribute).name.clone(),
        label: label::edge(index, level, node, place),
        siblings: level.nodes().count(),
    })
}
