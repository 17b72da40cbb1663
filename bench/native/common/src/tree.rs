//! An expression as a plain boxed tree, the form of a program without an index.

use be_tree_index::model::predicate::{Predicate, Step};

pub enum Tree<S> {
    Constant(bool),
    Test(Predicate<S>),
    Not(Box<Tree<S>>),
    And(Box<Tree<S>>, Box<Tree<S>>),
    Or(Box<Tree<S>>, Box<Tree<S>>),
}

impl<S> Tree<S> {
    /// The tree of a valid postfix expression.
    pub fn new(postfix: Vec<Step<S>>) -> Tree<S> {
        let mut stack: Vec<Tree<S>> = Vec::new();
        for step in postfix {
            let mut operand = || Box::new(stack.pop().expect("an operator has its operands before it"));
            let tree = match step {
                Step::Constant(value) => Tree::Constant(value),
                Step::Predicate(predicate) => Tree::Test(predicate),
                Step::Not => Tree::Not(operand()),
                Step::And => {
                    let right = operand();
                    Tree::And(operand(), right)
                }
                Step::Or => {
                    let right = operand();
                    Tree::Or(operand(), right)
                }
            };
            stack.push(tree);
        }
        stack.pop().expect("an expression is not empty")
    }
}
