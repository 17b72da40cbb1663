//! Relations of a value to a constant, and floats with exact equality and a hash.

/// A comparison of ordered values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
}

impl Relation {
    /// Returns whether `value` stands in this relation to `constant`.
    pub fn holds<T: PartialOrd>(self, value: T, constant: T) -> bool {
        match self {
            Relation::Less => value < constant,
            Relation::LessOrEqual => value <= constant,
            Relation::Greater => value > constant,
            Relation::GreaterOrEqual => value >= constant,
            Relation::Equal => value == constant,
            Relation::NotEqual => value != constant,
        }
    }

    /// Like [`Relation::holds`], for floats, which are equal within [`f64::EPSILON`].
    ///
    /// ```
    /// use be_tree_index::model::relation::Relation;
    ///
    /// assert!(!Relation::Equal.holds(0.1 + 0.2, 0.3));
    /// assert!(Relation::Equal.holds_of_floats(0.1 + 0.2, 0.3));
    /// ```
    pub fn holds_of_floats(self, value: f64, constant: f64) -> bool {
        match self {
            Relation::Equal => (value - constant).abs() < f64::EPSILON,
            Relation::NotEqual => (value - constant).abs() >= f64::EPSILON,
            ordered => ordered.holds(value, constant),
        }
    }
}

/// A finite float that is compared and hashed by its bits, with a single zero.
#[derive(Clone, Copy, Debug)]
pub struct Float(f64);

impl Float {
    /// Wraps `value`, which must be finite. Minus zero becomes zero.
    pub fn new(value: f64) -> Self {
        Float(value + 0.0)
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float {}

impl std::hash::Hash for Float {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}
