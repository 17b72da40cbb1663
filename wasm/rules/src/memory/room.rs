//! A list whose capacity is reserved before a step. A step never enlarges it.

use std::ops::{Deref, DerefMut};

#[derive(Debug)]
pub(crate) struct Room<T>(Vec<T>);

impl<T> Room<T> {
    /// Returns an empty list with this capacity.
    pub fn new(room: usize) -> Self {
        Room(Vec::with_capacity(room))
    }

    /// Returns whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }
}

// A cloned `Vec` would lose its spare capacity.
impl<T: Clone> Clone for Room<T> {
    fn clone(&self) -> Self {
        let mut copy = Room::new(self.0.capacity());
        copy.0.extend_from_slice(&self.0);
        copy
    }
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Room(Vec::new())
    }
}

impl<T> Deref for Room<T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Room<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}
