//! Conditions for the objects of lists: their meaning, their access predicates, and refusals.

use crate::support::make::{insertion, ALL_IDS};
use crate::support::random::Random;
use crate::support::{generate, naive};
use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::language::{expression_text, read};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::{Counts, Search};

fn attribute(name: &str, ty: Type, optional: bool) -> Attribute {
    Attribute { name: name.into(), ty, optional, bounds: Bounds::Unbounded }
}

fn schema() -> Schema {
    Schema::new(vec![
        attribute("items.sku", Type::String, true),
        attribute("items.qty", Type::Integer, true),
        attribute("items.gift", Type::Boolean, true),
        attribute("items", Type::ObjectList, true),
        attribute("items.tags", Type::StringList, true),
        attribute("items.price.amount", Type::Float, true),
        attribute("city", Type::String, true),
    ])
    .unwrap()
}

fn matches(text: &str, event: &str) -> bool {
    let mut index = Index::new(schema());
    index.insert(&insertion(1, text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    search.open(&index, Format::Json, event.as_bytes(), ALL_IDS).unwrap();
    let found = search.run(&index).ids() == [1];
    search.open(&index, Format::Json, event.as_bytes(), Some([1].into_iter())).unwrap();
    assert_eq!(search.run(&index).ids() == [1], found, "{text} among ids");
    found
}

#[test]
fn a_condition_is_about_one_object() {
    let two = r#"{"items": [{"sku": "x", "qty": 1}, {"sku": "y", "qty": 5, "tags": ["new"], "gift": true}]}"#;
    let (none, empty) = ("{}", r#"{"items": []}"#);
    for (text, event, expected) in [
        ("any items (sku = 'x' and qty > 2)", two, false),
        ("any items (sku = 'y' and qty > 2)", two, true),
        ("any items (sku = 'x') and any items (qty > 2)", two, true),
        ("all items (qty > 0)", two, true),
        ("all items (qty > 1)", two, false),
        ("none items (qty > 5)", two, true),
        ("none items (sku in ('a', 'x'))", two, false),
        ("not any items (sku = 'z')", two, true),
        // An attribute that an object does not define makes a predicate false.
        ("all items (gift)", two, false),
        ("all items (gift or not gift)", two, true),
        ("any items (gift is null)", two, true),
        ("any items (not (tags one of ('new')))", two, true),
        ("any items ('new' in tags and sku <> 'x')", two, true),
        ("any items (qty between 2 and 9 or sku like 'q*')", two, true),
        ("any items (qty + 1 > length(sku) * 5)", two, true),
        ("any items (price.amount < 3)", two, false),
        ("any items (price.amount < 3)", r#"{"items": [{"price": {"amount": 2.5}}]}"#, true),
        // An undefined list, and an empty one.
        ("any items (true)", none, false),
        ("all items (true)", none, false),
        ("none items (true)", none, false),
        ("not none items (true)", none, true),
        ("items is null", none, true),
        ("any items (true)", empty, false),
        ("all items (false)", empty, true),
        ("none items (true)", empty, true),
        ("items is empty and size(items) = 0", empty, true),
        ("size(items) = 2 and items is not null", two, true),
        ("any items (true)", r#"{"items": [{}]}"#, true),
        ("any items (sku is null and qty is null)", r#"{"items": [{"other": [1]}]}"#, true),
        // The last of several lists of one name counts.
        ("any items (sku = 'x')", r#"{"items": [{"sku": "x"}], "items": [{"sku": "y"}]}"#, false),
        ("any items (sku = 'x')", r#"{"items": [{"sku": "x"}], "items": null}"#, false),
        ("any items (sku = 'x')", r#"{"items": [{"sku": "a", "sku": "x"}]}"#, true),
        ("any items (price.amount = 1)", r#"{"items": [{"price": {"amount": 1}, "price": {}}]}"#, false),
        ("any items (price.amount = 1)", r#"{"items": [{"price": {"amount": 2}}, {"price": {"amount": 1}}]}"#, true),
    ] {
        assert_eq!(matches(text, event), expected, "{text} of {event}");
    }
}

#[test]
fn words_of_quantifiers_are_names_too() {
    let schema = Schema::new(vec![
        attribute("any", Type::Boolean, true),
        attribute("all", Type::IntegerList, true),
        attribute("none", Type::ObjectList, true),
        attribute("none.any", Type::Integer, true),
    ])
    .unwrap();
    for text in ["any and all one of (1) or none is null", "any none (any = 3)", "not (all none (any in (1, 2)))"] {
        let steps = read(text.as_bytes(), &schema, &[]).unwrap();
        let printed = expression_text(&steps, &schema, |bytes| bytes);
        assert_eq!(read(printed.as_bytes(), &schema, &[]).unwrap(), steps, "{text} as {printed}");
    }
}

#[test]
fn a_condition_is_printed_as_it_is_read() {
    for (text, expected) in [
        ("any items(qty>2 and(sku='x'or gift))", "any items (qty > 2 and (sku = 'x' or gift))"),
        ("not all  items ( not (qty = 1) )", "not all items (not qty = 1)"),
        ("(none items ((true)))", "none items (true)"),
        ("any items (not (qty + 1) * 2 > 3)", "any items (not (qty + 1) * 2 > 3)"),
        ("any items (sku not like 'a?')", "any items (sku is not null and not sku like 'a?')"),
    ] {
        let steps = read(text.as_bytes(), &schema(), &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression_text(&steps, &schema(), |bytes| bytes), expected);
        assert_eq!(read(expected.as_bytes(), &schema(), &[]).unwrap(), steps);
    }
}

#[test]
fn wrong_conditions_are_refused_with_their_place() {
    for (text, kind, column, part) in [
        (
            "any items (skus = 'x')",
            Kind::UnknownAttribute,
            12,
            "objects in `items` have no attribute `skus`; did you mean `sku`?",
        ),
        ("any items (city = 'x')", Kind::UnknownAttribute, 12, "objects in `items` have no attribute `city`"),
        ("any items (sku = 'x') and sku = 'y'", Kind::UnknownAttribute, 27, "the schema has no attribute `sku`"),
        ("any item (sku = 'x')", Kind::UnknownAttribute, 5, "did you mean `items`?"),
        ("any city (sku = 'x')", Kind::Type, 5, "is for the objects of a list"),
        ("any items (amount > 1)", Kind::UnknownAttribute, 12, "did you mean `price.amount`?"),
        ("any items (qty = 'x')", Kind::Type, 18, "attribute `qty` is of type integer"),
        ("items = 3", Kind::Type, 7, "use `any`, `all` or `none` with a condition"),
        ("any items (sku = 'x'", Kind::Syntax, 21, "`)` for the `(` at column 11"),
        ("any items ()", Kind::Syntax, 12, "expected an attribute"),
        ("any items", Kind::UnknownAttribute, 1, "no attribute `any`"),
        ("any items (any items (true))", Kind::Syntax, 12, "cannot have another one inside"),
        ("any items (lower(sku) = 'x')", Kind::Syntax, 17, "`lower` reads no attribute of an object"),
        ("any items (contains(lower(sku), 'x'))", Kind::Syntax, 26, "`lower` reads no attribute of an object"),
        ("any items (geo_within_radius(1.0, 2.0, 3.0))", Kind::UnknownAttribute, 12, "reads the attribute `latitude`"),
    ] {
        let error = read(text.as_bytes(), &schema(), &[]).unwrap_err();
        assert_eq!((error.kind, error.column), (kind, Some(column)), "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
    let long = format!("any items ({})", vec!["gift"; 129].join(" and "));
    let error = read(long.as_bytes(), &schema(), &[]).unwrap_err();
    assert_eq!((error.kind, error.column), (Kind::OutOfBounds, Some(11)), "{error}");
    read(format!("any items ({})", vec!["gift"; 128].join(" and ")).as_bytes(), &schema(), &[]).unwrap();
}

#[test]
fn wrong_schemas_are_refused() {
    let refused = |attributes: Vec<Attribute>| Schema::new(attributes).unwrap_err();
    let list = || attribute("l", Type::ObjectList, true);
    let error = refused(vec![list(), attribute("l.m", Type::ObjectList, true)]);
    assert!(error.message.contains("cannot be of type object_list"), "{error}");
    let error = refused(vec![list(), attribute("l.s", Type::Segments, true)]);
    assert_eq!(error.attribute.as_deref(), Some("l.s"));
    let error = refused(vec![list(), attribute("l.a", Type::Integer, true), attribute("l.a.b", Type::Integer, true)]);
    assert!(error.message.contains("cannot be a field of it"), "{error}");
    let many = |count| {
        let objects = (0..count).map(|i| attribute(&format!("l.a{i}"), Type::Integer, true));
        objects.chain([list()]).collect::<Vec<_>>()
    };
    assert!(refused(many(65)).message.contains("at most 64 attributes"));
    let mut schema = Schema::new(many(64)).unwrap();
    schema.convert("l.a63").unwrap();
    assert_eq!(schema.convert("l.a64").unwrap_err().kind, Kind::UnknownAttribute);
    assert_eq!(schema.convert("l").unwrap_err().kind, Kind::Type);
}

#[test]
fn wrong_objects_are_refused_with_their_number() {
    let schema = Schema::new(vec![
        attribute("items", Type::ObjectList, true),
        attribute("items.sku", Type::String, false),
        attribute("items.qty", Type::Integer, true),
    ]);
    let index = Index::new(schema.unwrap());
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    for (event, kind, attribute, part) in [
        (r#"{"items": 3}"#, Kind::Type, "items", "expected a list of objects, given"),
        (r#"{"items": [{"sku": "x"}, 3]}"#, Kind::Type, "items", "object 2 of `items`: expected"),
        (r#"{"items": [null]}"#, Kind::Type, "items", "object 1 of `items`"),
        (
            r#"{"items": [{"qty": 3}]}"#,
            Kind::MissingAttribute,
            "items.sku",
            "object 1 of `items`: it lacks attribute `sku`",
        ),
        (
            r#"{"items": [{"sku": "x"}, {"sku": "y", "qty": "z"}]}"#,
            Kind::Type,
            "items.qty",
            "object 2 of `items`: attribute `qty`",
        ),
    ] {
        let error = search.open(&index, Format::Json, event.as_bytes(), ALL_IDS).unwrap_err();
        assert_eq!((error.kind, error.attribute.as_deref()), (kind, Some(attribute)), "{event}: {error}");
        assert!(error.message.contains(part), "{event}: {error}");
    }
    let error =
        search.open(&index, Format::StrictJson, br#"{"items": [{"sku": "x"}, {"skus": 1}]}"#, ALL_IDS).unwrap_err();
    assert_eq!((error.kind, error.attribute.as_deref()), (Kind::UnknownAttribute, Some("items.skus")), "{error}");
    assert!(error.message.starts_with("object 2 of `items`: ") && error.message.contains("`sku`"), "{error}");
    // The tables are sound after an error.
    search.open(&index, Format::Json, b"{}", ALL_IDS).unwrap();
    assert!(search.run(&index).ids().is_empty());
}

/// Returns the number of entries that a search for `event` tests, and its matches.
fn scanned(index: &Index, event: &str) -> (u64, usize) {
    let mut search = Search::default();
    search.reserve(index).unwrap();
    search.open(index, Format::Json, event.as_bytes(), ALL_IDS).unwrap();
    let mut entries = 0;
    while search.next_part(index).is_some() {
        if let Counts::Scan(scanned) = search.counts(index) {
            entries += scanned.iter().map(|scanned| scanned.entries).sum::<u64>();
        }
    }
    (entries, search.found().ids().len())
}

#[test]
fn values_in_a_condition_lead_to_it() {
    let mut index = Index::new(schema());
    for id in 0..20_000 {
        let (sku, qty) = (id % 5_000, id % 7);
        let text = match id % 4 {
            0 => format!("any items (sku = 'sku{sku}' and qty > {qty})"),
            1 => format!("any items (qty > {qty} and (sku = 'sku{sku}' or sku = 'other{sku}')) and city <> 'Rome'"),
            2 => format!("any items (gift and 'sku{sku}' in tags)"),
            _ => format!("any items (sku in ('sku{sku}', 'another{sku}'))"),
        };
        index.insert(&insertion(id, &text)).unwrap();
    }
    assert_eq!(index.info().unindexed, 0);
    index.validate().unwrap();
    let (entries, found) = scanned(
        &index,
        r#"{"city": "Oslo", "items": [{"sku": "sku8", "qty": 3}, {"sku": "other5", "qty": 9}, {"tags": ["sku2"], "gift": true},
            {"sku": "another7"}]}"#,
    );
    assert_eq!(found, 4 * 4 - 2);
    assert!(entries < 200, "{entries} entries are tested");
    for id in 0..20_000 {
        index.delete(id).unwrap();
    }
    index.validate().unwrap();
    assert_eq!((index.info().predicates, index.info().strings, index.info().entries), (0, 0, 0));
}

#[test]
fn the_number_of_distinct_values_in_conditions_is_bounded() {
    let bounded = Attribute { bounds: Bounds::Count(2), ..attribute("items.sku", Type::String, true) };
    let mut index = Index::new(Schema::new(vec![attribute("items", Type::ObjectList, true), bounded]).unwrap());
    index.insert(&insertion(1, "any items (sku in ('a', 'b'))")).unwrap();
    let error = index.insert(&insertion(2, "none items (sku = 'c')")).unwrap_err();
    assert_eq!((error.kind, error.attribute.as_deref()), (Kind::OutOfBounds, Some("items.sku")));
    index.delete(1).unwrap();
    index.insert(&insertion(2, "none items (sku = 'c')")).unwrap();
    index.validate().unwrap();
}

/// Random conditions for long lists, in one step and in several.
#[test]
fn conditions_mean_what_the_oracle_says() {
    let mut checked = 0;
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let schema = generate::schema(random);
        if schema.attributes().iter().all(|attribute| attribute.ty != Type::ObjectList) {
            continue;
        }
        let texts: Vec<String> = (0..60).map(|_| generate::expression(random, &schema, 3)).collect();
        let mut index = Index::new(schema.clone());
        let constants = generate::CONSTANTS.to_vec();
        for (id, text) in (0..).zip(&texts) {
            let insertion = Insertion { id, text: text.as_bytes(), constants: constants.clone() };
            index.insert(&insertion).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
        }
        index.validate().unwrap();
        let mut search = Search::default();
        search.reserve(&index).unwrap();
        for _ in 0..20 {
            let event = generate::event(random, &schema);
            let expected: Vec<u64> = (0..)
                .zip(&texts)
                .filter(|(_, text)| {
                    let steps = read(text.as_bytes(), &schema, &generate::CONSTANTS).unwrap();
                    naive::matches(&steps, &event)
                })
                .map(|(id, _)| id)
                .collect();
            let json = crate::support::encode::json(random, &schema, &event);
            search.open(&index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
            assert_eq!(search.run(&index).ids(), expected, "seed {seed}: {json}");
            let mut prepared = Vec::new();
            search.prepare(&index, Format::Json, json.as_bytes(), &mut prepared).unwrap();
            search.open(&index, Format::Prepared, &prepared, ALL_IDS).unwrap();
            assert_eq!(search.run(&index).ids(), expected, "seed {seed}, prepared: {json}");
            checked += 1;
        }
    }
    assert!(checked > 1000);
}
