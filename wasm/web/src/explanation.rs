//! Explanations as objects of JavaScript.

use be_tree_index::error::Error;
use be_tree_index::term::{Elements, Reader};
use js_sys::{Array, Object};
use wasm_bindgen::JsValue;

use crate::malformed;
use crate::values::{object, set, string, value};

/// A node whose operands are not all read.
struct Open {
    verdict: bool,
    node: Object,
    children: Array,
    elements: Elements,
}

/// Reads an explanation, `{Verdict, Kind, Detail, Children}`, as a node: `kind`, `verdict`, `children`, and the fields of its kind.
/// The nodes may lie deeper than a recursion can follow.
pub(crate) fn read(term: &[u8]) -> Result<Object, Error> {
    let mut reader = Reader::new(term)?;
    let root = begin(&mut reader)?;
    let mut open = vec![root];
    loop {
        let Some(last) = open.last_mut() else { return Err(malformed("an explanation has a root")) };
        if reader.next(&mut last.elements)? {
            let child = begin(&mut reader)?;
            last.children.push(&child.node);
            open.push(child);
        } else if let [done] = open.as_slice() {
            let match_and_root = [("match", done.verdict.into()), ("root", done.node.clone().into())];
            return Ok(object(match_and_root));
        } else {
            open.pop();
        }
    }
}

/// Reads a node up to its operands.
fn begin(reader: &mut Reader) -> Result<Open, Error> {
    reader.tuple()?;
    let verdict = reader.boolean()?;
    let kind = reader.atom()?;
    let node = object([("kind", string(&kind)), ("verdict", verdict.into())]);
    match kind.as_ref() {
        b"predicate" => {
            reader.tuple()?;
            set(&node, "attribute", &string(reader.binary()?));
            set(&node, "text", &string(reader.binary()?));
            set(&node, "actual", &value(reader)?);
        }
        b"omitted" => set(&node, "omitted", &JsValue::from_f64(reader.unsigned()? as f64)),
        _ => drop(reader.atom()?),
    }
    let children = Array::new();
    set(&node, "children", &children);
    Ok(Open { verdict, node, children, elements: reader.list()? })
}
