# Fields of maps and converted values: rows like those of language.exs and of refusals.exs.
#
# More attributes, all optional: user.name string, user.address.zip integer, `a b`.`c.d` integer, and the converted loose.i integer
# and loose.s string.

rows = [
  # Paths: user.name string, user.address.zip integer, `a b`.`c.d` integer
  {"user.address.zip = 3", %{user: %{address: %{zip: 3}}}, true},
  {"user.address.zip = 3", %{user: %{address: %{zip: 4}}}, false},
  {"`user`.address.`zip` = 3", %{user: %{address: %{zip: 3}}}, true},
  {"3 < user.address.zip and user.name <> 'x'", %{user: %{name: "y", address: %{zip: 4}}}, true},
  {"user.name in ('x', 'y')", %{user: %{name: "y"}}, true},
  {"contains(user.name, 'b')", %{user: %{name: "abc", other: %{name: "x"}}}, true},
  {"starts_with(user.name, 'ab')", %{user: %{name: "abc"}}, true},
  {"user.name is null", %{}, true},
  {"user.name is null", %{user: nil}, true},
  {"user.address.zip is null", %{user: %{name: "a"}}, true},
  {"user.address.zip is null", %{user: %{address: :undefined}}, true},
  {"user.address.zip is not null", %{user: %{address: %{zip: 0}}}, true},
  {"user.address.zip <> 3", %{user: %{address: %{}}}, false},
  {"not (user.address.zip <> 3)", %{user: %{address: %{}}}, true},
  {"user.name = 'i'", %{user: %{}, name: "i"}, false},
  {"i = 3 and user.name = 'a'", %{i: 3, user: %{name: "a", i: 4}}, true},
  {"`a b`.`c.d` >= 1", %{"a b": %{"c.d": 1}}, true},
  {"`a b`.`c.d` >= 1", %{"a b": %{c: %{d: 1}}}, false},
  {"`a b`.`c.d` >= 1", %{}, false},

  # Coercion: loose.i integer, loose.s string
  {"loose.i = 42", %{loose: %{i: "42"}}, true},
  {"loose.i = 42", %{loose: %{i: 42.0}}, true},
  {"loose.i = 42", %{loose: %{i: 42}}, true},
  {"loose.i < 0", %{loose: %{i: "-1"}}, true},
  {"loose.i = 42", %{loose: %{i: nil}}, false},
  {"loose.s = '42'", %{loose: %{s: 42}}, true},
  {"loose.s = 'true'", %{loose: %{s: true}}, true},
  {"loose.s = 'x'", %{loose: %{s: "x"}}, true}
]

refusals = [
  {"user.nme = 'a'", :unknown_attribute, "user.nme", 1},
  {"b and user = 'a'", :unknown_attribute, "user", 7},
  {"zip = 1", :unknown_attribute, "zip", 1},
  {"user..name = 'a'", :syntax, nil, 6},
  {"user. name = 'a'", :syntax, nil, 6},
  {"user .name = 'a'", :syntax, nil, 6},
  {"user.`name = 'a'", :syntax, nil, 6},
  {"user.name = 3", :type, "user.name", 13},
  {"user.name()", :syntax, nil, 1},
  {"`and`", :unknown_attribute, "`and`", 1}
]

{rows, refusals}
