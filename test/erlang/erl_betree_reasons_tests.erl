%% Trees that tell why an expression does not match.
-module(erl_betree_reasons_tests).

-include("erl_betree.hrl").
-include_lib("eunit/include/eunit.hrl").

-define(CLOCK, ?CLOCK_MONOTONIC).

tree(Domains, Expressions) ->
    {ok, Betree} = erl_betree:betree_make_err(Domains),
    [
        begin
            {ok, Sub} = erl_betree:betree_make_sub_err(Betree, Id, [{flight_id, 10}], Text),
            ok = erl_betree:betree_insert_sub_err(Betree, Sub)
        end
     || {Id, Text} <- Expressions
    ],
    ok = erl_betree:betree_make_sub_ids(Betree),
    Betree.

reasons(NonMatches) ->
    {ok, Reasons} = erl_betree:betree_parse_reasons(NonMatches),
    lists:sort(Reasons).

-define(BOOLEANS, [[{p1, bool, disallow_undefined}, {p2, bool, disallow_undefined}, {p3, bool, disallow_undefined}]]).

booleans() ->
    tree(?BOOLEANS, [
        {101, "not (p1 or (p2 and p3))"},
        {202, "not (p3 and p1) or p2"},
        {303, "p1 and p2 and p3"},
        {404, "not p1 and p2"},
        {505, "p3 or not p2"}
    ]).

%% Every type, of which all but one expression fail for one attribute.
-define(ALL, [
    [
        {b, bool, disallow_undefined},
        {i, int, disallow_undefined},
        {f, float, disallow_undefined},
        {s, bin, disallow_undefined},
        {e, int_enum, disallow_undefined}
    ],
    [
        {il, int_list, disallow_undefined},
        {sl, bin_list, disallow_undefined},
        {seg, segments, disallow_undefined},
        {frequency_caps, frequency_caps, disallow_undefined},
        {now, int64, disallow_undefined},
        {latitude, float, allow_undefined},
        {longitude, float, allow_undefined}
    ]
]).

all() ->
    Parts = [
        {b, "b", "not b"},
        {i, "i = 10", "i = 11"},
        {f, "f > 3.13", "f < 3.13"},
        {s, "s = 'good'", "contains(s, 'bad')"},
        {e, "e <> 3", "e = 3"},
        {il, "1 in il", "il all of (1, 9)"},
        {sl, "sl none of ('good')", "'good' in sl"},
        {seg, "segment_within(seg, 1, 20)", "segment_before(seg, 1, 20)"},
        {frequency_caps, "within_frequency_cap('flight', 'ns', 100, 0)", "within_frequency_cap('flight', 'ns', 0, 0)"},
        {geo, "geo_within_radius(10.0, 10.0, 100)", "geo_within_radius(50.0, 10.0, 100)"}
    ],
    Names = [Name || {Name, _, _} <- Parts],
    Text = fun(Wrong) -> lists:join(" and ", [part(Part, Wrong) || Part <- Parts]) end,
    {Names, tree(?ALL, [{0, Text(none)} | [{Id, Text(Name)} || {Id, Name} <- lists:enumerate(Names)]])}.

part({Name, _, False}, Name) -> False;
part({_, True, _}, _) -> True.

-define(EVENT, [
    {first, true, 10, 3.14, <<"good">>, 1},
    {second, [1, 2, 3], [<<"bad">>], [{1, 10000000}], [{{<<"flight">>, 10, <<"ns">>}, 0, undefined}], 0, 10.1, 10.1}
]).

every_kind_of_predicate_names_its_attribute_test() ->
    {Names, Betree} = all(),
    Expected = lists:sort([{Name, [Id]} || {Id, Name} <- lists:enumerate(Names)]),
    {ok, [0], NonMatches} = erl_betree:betree_search_err(Betree, ?EVENT),
    ?assertEqual(Expected, reasons(NonMatches)),
    {{ok, Event}, _} = erl_betree:betree_make_event_err(Betree, ?EVENT),
    {{ok, [0], Again}, Elapsed} = erl_betree:betree_search_err(Betree, Event, ?CLOCK),
    ?assertEqual(Expected, reasons(Again)),
    ?assert(is_integer(Elapsed) andalso Elapsed >= 0).

the_predicate_that_is_looked_at_last_decides_test() ->
    Betree = booleans(),
    Search = fun(Values) ->
        {ok, Ids, NonMatches} = erl_betree:betree_search_err(Betree, [list_to_tuple([event | Values])]),
        {Ids, reasons(NonMatches)}
    end,
    ?assertEqual({[202], [{p1, [101, 404]}, {p2, [505]}, {p3, [303]}]}, Search([true, true, false])),
    ?assertEqual({[101, 202, 505], [{p1, [303]}, {p2, [404]}]}, Search([false, false, false])),
    ?assertEqual({[202, 303, 505], [{p1, [101, 404]}]}, Search([true, true, true])).

an_undefined_attribute_is_a_reason_test() ->
    Betree = tree([[{a, int, allow_undefined}, {b, bool, allow_undefined}]], [{1, "a < 3"}, {2, "not (a < 3)"}, {3, "b"}]),
    {ok, [2], NonMatches} = erl_betree:betree_search_err(Betree, []),
    ?assertEqual([{a, [1]}, {b, [3]}], reasons(NonMatches)).

what_is_false_by_itself_has_no_reason_test() ->
    Betree = tree([[{a, bool, allow_undefined}]], [{1, "false"}, {2, "a and false"}, {3, "a"}]),
    {ok, [3], NonMatches} = erl_betree:betree_search_err(Betree, [{event, true}]),
    ?assertEqual([{no_reason, [1, 2]}], reasons(NonMatches)).

where_all_match_there_are_no_reasons_test() ->
    Betree = tree(?BOOLEANS, [{1, "p1"}, {2, "p2"}]),
    {ok, [1, 2], NonMatches} = erl_betree:betree_search_err(Betree, [{event, true, true, true}]),
    ?assertEqual({ok, []}, erl_betree:betree_parse_reasons(NonMatches)),
    ?assertEqual({ok, []}, erl_betree:betree_parse_reasons([])),
    {ok, [], OfNone} = erl_betree:betree_search_err(tree(?BOOLEANS, []), [{event, true, true, true}]),
    ?assertEqual({ok, []}, erl_betree:betree_parse_reasons(OfNone)),
    [?assertError(_, erl_betree:betree_parse_reasons(Other)) || Other <- [none, [1], make_ref(), Betree]].

ids_are_sorted_whatever_the_order_of_insertion_test() ->
    Betree = tree(?BOOLEANS, [{Id, "p1"} || Id <- [9, 2, 5, 1]] ++ [{Id, "not p1"} || Id <- [8, 3, 4]]),
    {ok, [1, 2, 5, 9], NonMatches} = erl_betree:betree_search_err(Betree, [{event, true, true, true}]),
    ?assertEqual([{p1, [3, 4, 8]}], reasons(NonMatches)).

an_event_that_lacks_a_value_is_the_reason_of_all_test() ->
    Betree = booleans(),
    [
        begin
            {error, [], NonMatches} = erl_betree:betree_search_err(Betree, Event),
            ?assertEqual([{invalid_event, [101, 202, 303, 404, 505]}], reasons(NonMatches)),
            {{error, [], Timed}, _} = erl_betree:betree_search_err(Betree, Event, ?CLOCK),
            ?assertEqual([{invalid_event, [101, 202, 303, 404, 505]}], reasons(Timed)),
            {{error, [], Some}, _} = erl_betree:betree_search_ids_err(Betree, Event, [303, 1, 202]),
            ?assertEqual([{invalid_event, [202, 303]}], reasons(Some)),
            {{ok, Made}, _} = erl_betree:betree_make_event_err(Betree, Event, ?CLOCK),
            {{error, [], OfMade}, _} = erl_betree:betree_search_err(Betree, Made, ?CLOCK),
            ?assertEqual([{invalid_event, [101, 202, 303, 404, 505]}], reasons(OfMade)),
            %% It is no event for a search without reasons.
            ?assertError(badarg, erl_betree:betree_search(Betree, Made, ?CLOCK)),
            ?assertError(badarg, erl_betree:search_yield(Betree, Made, ?CLOCK, 0))
        end
     || Event <- [[], [{event, true}], [{event, true, undefined, true}]]
    ],
    {error, [], OfNone} = erl_betree:betree_search_err(tree(?BOOLEANS, []), []),
    ?assertEqual([], reasons(OfNone)).

what_else_is_wrong_with_an_event_is_a_badarg_test() ->
    Betree = booleans(),
    [
        begin
            ?assertError(badarg, erl_betree:betree_search_err(Betree, Event)),
            ?assertError(badarg, erl_betree:betree_search_err(Betree, Event, ?CLOCK)),
            ?assertError(badarg, erl_betree:betree_search_ids_err(Betree, Event, [101])),
            ?assertError(badarg, erl_betree:betree_search_ids_err(Betree, Event, [101], ?CLOCK)),
            ?assertError(badarg, erl_betree:betree_make_event_err(Betree, Event)),
            ?assertError(badarg, erl_betree:betree_make_event_err(Betree, Event, ?CLOCK))
        end
     || Event <- [[{event, 1, true, true}], [{event, true, true, true, true}], [event], event]
    ].

among_ids_test() ->
    Betree = booleans(),
    List = [{event, true, true, false}],
    {{ok, Event}, _} = erl_betree:betree_make_event_err({error_tree, Betree}, List),
    [
        begin
            {{ok, [202], NonMatches}, _} = erl_betree:betree_search_ids_err(Betree, Given, [505, 202, 7, 303], ?CLOCK),
            ?assertEqual([{p2, [505]}, {p3, [303]}], reasons(NonMatches)),
            {{ok, [], Others}, Elapsed} = erl_betree:betree_search_ids_err(Betree, Given, [404]),
            ?assertEqual([{p1, [404]}], reasons(Others)),
            ?assert(is_integer(Elapsed))
        end
     || Given <- [Event, List]
    ],
    ?assertEqual({{ok, [], []}, 0}, erl_betree:betree_search_ids_err(Betree, Event, [])),
    ?assertEqual({{ok, [], []}, 0}, erl_betree:betree_search_ids_err(Betree, Event, [], ?CLOCK)),
    ?assertError(badarg, erl_betree:betree_search_ids_err(Betree, Event, [-1])).

an_event_serves_trees_with_the_same_domains_test() ->
    One = tree(?BOOLEANS, [{1, "p1"}]),
    Two = tree(?BOOLEANS, [{1, "p2"}]),
    {{ok, Event}, _} = erl_betree:betree_make_event_err(One, [{event, false, true, true}]),
    {{ok, [], NonMatches}, _} = erl_betree:betree_search_err(One, Event, ?CLOCK),
    ?assertEqual([{p1, [1]}], reasons(NonMatches)),
    ?assertMatch({{ok, [1], _}, _}, erl_betree:betree_search_err(Two, Event, ?CLOCK)).

a_tree_with_reasons_answers_all_else_too_test() ->
    Betree = booleans(),
    List = [{event, true, true, false}],
    ?assertEqual({ok, [202]}, erl_betree:betree_search(Betree, List)),
    ?assertEqual({ok, true}, erl_betree:betree_exists(Betree, List)),
    {ok, {Iterator, 5, _}} = erl_betree:search_iterator(Betree, List),
    ?assertEqual({ok, [202]}, erl_betree:search_all(Iterator)),
    {{ok, Event}, _} = erl_betree:betree_make_event(Betree, List),
    ?assertMatch({{ok, [202]}, _}, erl_betree:betree_search_yield(Betree, Event)).

a_tree_without_reasons_tells_none_test() ->
    {ok, Betree} = erl_betree:betree_make(?BOOLEANS),
    List = [{event, true, true, false}],
    ?assertError(badarg, erl_betree:betree_search_err(Betree, List)),
    ?assertError(badarg, erl_betree:betree_search_err(Betree, List, ?CLOCK)),
    ?assertError(badarg, erl_betree:betree_search_ids_err(Betree, List, [1])),
    ?assertEqual(ok, erl_betree:betree_make_sub_ids(Betree)).

subscriptions_are_refused_as_for_any_tree_test() ->
    {ok, Betree} = erl_betree:betree_make_err(?BOOLEANS),
    ?assertEqual({error, bad_id}, erl_betree:betree_make_sub_err(Betree, -1, [], "p1")),
    ?assertEqual({error, bad_constant_list}, erl_betree:betree_make_sub_err(Betree, 1, none, "p1")),
    ?assertEqual({error, bad_constant, 0, a}, erl_betree:betree_make_sub_err(Betree, 1, [{a, b}], "p1")),
    ?assertEqual({error, bad_constant, 0, unknown}, erl_betree:betree_make_sub_err(Betree, 1, [a], "p1")),
    ?assertEqual({error, bad_binary}, erl_betree:betree_make_sub_err(Betree, 1, [], p1)),
    ?assertEqual({error, failed}, erl_betree:betree_make_sub_err(Betree, 1, [], "p4")),
    {ok, Sub} = erl_betree:betree_make_sub_err(Betree, 1, [], "p1"),
    ?assertEqual(ok, erl_betree:betree_insert_sub_err(Betree, Sub)),
    ?assertEqual(error, erl_betree:betree_insert_sub_err(Betree, Sub)).

a_picture_is_written_test() ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "erl_betree_reasons_tests-" ++ os:getpid() ++ ".dot"),
    try
        ?assertEqual(ok, erl_betree:betree_write_dot_err(booleans(), File)),
        ?assertMatch({ok, <<"digraph", _/binary>>}, file:read_file(File))
    after
        file:delete(File)
    end,
    ?assertEqual({error, failed}, erl_betree:betree_write_dot_err(booleans(), "/nowhere/at/all.dot")).
