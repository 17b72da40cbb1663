%% Trees, subscriptions, events and searches, as programs in Erlang use them.
-module(erl_betree_tests).

-include("erl_betree.hrl").
-include_lib("eunit/include/eunit.hrl").

-record(user, {age, country, tags}).
-record(page, {score, topics, seen}).

-define(DOMAINS, [
    [{age, int, disallow_undefined, 0, 120}, {country, bin, allow_undefined}, {tags, bin_list, allow_undefined}],
    [{score, float, allow_undefined, 0.0, 1.0}, {topics, int_list, allow_undefined}, {seen, bool, allow_undefined}]
]).

-define(EVENT, [#user{age = 30, country = <<"CA">>}, #page{score = 0.5, topics = [1, 2], seen = true}]).

tree(Domains, Expressions) ->
    {ok, Betree} = erl_betree:betree_make(Domains),
    [ok = insert(Betree, Id, Expression) || {Id, Expression} <- Expressions],
    Betree.

insert(Betree, Id, Expression) ->
    {ok, Sub} = erl_betree:betree_make_sub(Betree, Id, [], Expression),
    erl_betree:betree_insert_sub(Betree, Sub).

users() ->
    tree(?DOMAINS, [
        {1, <<"age >= 21">>},
        {2, <<"country = 'CA' and seen">>},
        {3, <<"score > 0.75">>},
        {18446744073709551615, <<"2 in topics">>}
    ]).

event(Betree, Event) ->
    {{ok, Ref}, Elapsed} = erl_betree:betree_make_event(Betree, Event),
    ?assert(is_integer(Elapsed) andalso Elapsed >= 0),
    Ref.

%% Trees

every_type_is_a_domain_test() ->
    Types = [bool, int, int64, int_enum, float, bin, int_list, bin_list, segments, frequency_caps],
    Names = [list_to_atom("a" ++ integer_to_list(N)) || N <- lists:seq(1, 2 * length(Types))],
    Pairs = lists:zip(Names, [{Type, Undefined} || Type <- Types, Undefined <- [allow_undefined, disallow_undefined]]),
    Domains = [{Name, Type, Undefined} || {Name, {Type, Undefined}} <- Pairs],
    {ok, Betree} = erl_betree:betree_make([Domains]),
    ?assert(is_reference(Betree)),
    ?assertMatch({ok, _}, erl_betree:betree_make([[Domain] || Domain <- Domains])),
    ?assertMatch({ok, _}, erl_betree:betree_make([])),
    ?assertMatch({ok, _}, erl_betree:betree_make([[], []])).

bounds_are_read_where_a_type_has_them_test() ->
    Good = [{int, 0, 9}, {int64, -9, 9}, {int_list, 0, 9}, {float, 0.0, 9.0}, {float, 0, 9}],
    [?assertMatch({ok, _}, erl_betree:betree_make([[{a, Type, allow_undefined, Min, Max}]])) || {Type, Min, Max} <- Good],
    [?assertMatch({ok, _}, erl_betree:betree_make([[{a, Type, allow_undefined, 9}]])) || Type <- [bin, bin_list, int_enum]],
    Wrong = [
        {a, int, allow_undefined, 0, ten},
        {a, int_list, allow_undefined, 0, 1 bsl 63},
        {a, float, allow_undefined, low, 1.0},
        {a, bin, allow_undefined, many},
        {a, int_enum, allow_undefined, 0}
    ],
    [?assertError(badarg, erl_betree:betree_make([[Domain]])) || Domain <- Wrong].

what_is_no_domain_is_refused_test() ->
    Wrong = [
        none,
        [none],
        [[none]],
        [{a, int, allow_undefined}],
        [[{a, int}]],
        [[{a, integer, allow_undefined}]],
        [[{a, int, undefined}]],
        [[{"a", int, allow_undefined}]],
        [[{<<"a">>, int, allow_undefined}]],
        [[{a, int, allow_undefined}, {a, bin, allow_undefined}]],
        [[{a, int, allow_undefined} | b]]
    ],
    [?assertError(badarg, erl_betree:betree_make(Domains)) || Domains <- Wrong],
    [?assertError(badarg, erl_betree:betree_make_err(Domains)) || Domains <- Wrong].

trees_do_not_know_of_each_other_test() ->
    Domains = [[{i, int, disallow_undefined}]],
    Low = tree(Domains, [{1, <<"i < 5">>}]),
    High = tree(Domains, [{2, <<"i > 5">>}]),
    [
        ?assertEqual({ok, Ids}, erl_betree:betree_search(Betree, [{event, I}]))
     || {Betree, I, Ids} <- [{Low, 3, [1]}, {High, 3, []}, {Low, 8, []}, {High, 8, [2]}]
    ].

%% Subscriptions

an_expression_is_an_iolist_test() ->
    Betree = tree(?DOMAINS, [{7, ["age ", [<<"= ">>, integer_to_list(30)], $\s, <<"and seen">>]}]),
    ?assertEqual({ok, [7]}, erl_betree:betree_search(Betree, ?EVENT)),
    [
        ?assertEqual({error, bad_binary}, erl_betree:betree_make_sub(Betree, 1, [], Wrong))
     || Wrong <- [seen, 1, {<<"seen">>}, [<<"seen">> | more], [256], <<1:1>>]
    ].

an_id_has_64_bits_test() ->
    Betree = tree(?DOMAINS, []),
    [?assertMatch({ok, _}, erl_betree:betree_make_sub(Betree, Id, [], "seen")) || Id <- [0, (1 bsl 64) - 1]],
    [
        ?assertEqual({error, bad_id}, erl_betree:betree_make_sub(Betree, Id, [], "seen"))
     || Id <- [-1, 1 bsl 64, 1.0, one, <<"1">>]
    ],
    %% The first thing that is wrong is told.
    ?assertEqual({error, bad_id}, erl_betree:betree_make_sub(Betree, -1, none, none)).

constants_are_a_list_of_integers_by_name_test() ->
    Betree = tree(?DOMAINS, []),
    Make = fun(Constants) -> erl_betree:betree_make_sub(Betree, 1, Constants, "seen") end,
    ?assertMatch({ok, _}, Make([{flight_id, 10}, {whatever, -(1 bsl 63)}])),
    [?assertEqual({error, bad_constant_list}, Make(Wrong)) || Wrong <- [none, 1, {a, 1}, [{a, 1} | b], #{a => 1}]],
    [
        ?assertEqual({error, bad_constant, 1, unknown}, Make([{a, 1}, Wrong, {b, 2}]))
     || Wrong <- [b, 2, {b}, {b, 2, 3}, {<<"b">>, 2}, {"b", 2}]
    ],
    [
        ?assertEqual({error, bad_constant, 2, c}, Make([{a, 1}, {b, 2}, {c, Wrong}]))
     || Wrong <- [1.0, c, <<"1">>, 1 bsl 63]
    ],
    ?assertEqual({error, bad_constant, 0, unknown}, erl_betree:betree_make_sub(Betree, 1, [a], none)).

what_cannot_be_read_fails_test() ->
    Betree = tree(?DOMAINS, []),
    [
        ?assertEqual({error, failed}, erl_betree:betree_make_sub(Betree, 1, [], Wrong))
     || Wrong <- ["", "age >", "nothing = 1", "age = 'a'", "age", "seen = 1", "age and seen", <<255>>]
    ].

an_expression_fails_for_the_types_that_erl_be_tree_fails_it_for_test() ->
    Types = [int, float, bool, bin, int_list, bin_list, segments, frequency_caps, int_enum],
    Takes = [
        {"a < 1", [int, float]},
        {"a < 1.5", [float]},
        {"a = 1", [int, float, int_enum]},
        {"a <> 1.5", [float]},
        {"a = 'x'", [bin]},
        {"a", [bool]},
        {"1 in a", [int_list]},
        {"'x' not in a", [bin_list]},
        {"a in (1, 2)", [int]},
        {"a in ('x', 'y')", [bin]},
        {"a one of (1, 2)", [int_list]},
        {"a all of ('x')", [bin_list]},
        {"a is empty", [int_list, bin_list]},
        {"contains(a, 'x')", [bin]}
    ],
    [
        begin
            {ok, Betree} = erl_betree:betree_make([[{a, Type, allow_undefined}]]),
            Answer = erl_betree:betree_make_sub(Betree, 1, [], Text),
            ?assertEqual({Text, Type, lists:member(Type, Good)}, {Text, Type, Answer =/= {error, failed}})
        end
     || {Text, Good} <- Takes, Type <- Types
    ],
    Null = fun(Type, Undefined) ->
        {ok, Betree} = erl_betree:betree_make([[{a, Type, Undefined}]]),
        erl_betree:betree_make_sub(Betree, 1, [], "a is null")
    end,
    [?assertMatch({ok, _}, Null(Type, allow_undefined)) || Type <- Types],
    [?assertEqual({error, failed}, Null(Type, disallow_undefined)) || Type <- Types].

counts_bound_values_and_minimum_and_maximum_do_not_test() ->
    Domains = [[{i, int, allow_undefined, 0, 10}, {s, bin, allow_undefined, 2}]],
    Betree = tree(Domains, [{1, <<"i > 12">>}, {2, <<"s = 'a'">>}, {3, <<"s = 'b' or s = 'a'">>}]),
    ?assertEqual({ok, [1, 2, 3]}, erl_betree:betree_search(Betree, [{event, 15, <<"a">>}])),
    ?assertEqual({error, failed}, erl_betree:betree_make_sub(Betree, 4, [], "s = 'c'")).

a_subscription_is_inserted_once_test() ->
    Betree = tree(?DOMAINS, [{1, <<"seen">>}]),
    {ok, Sub} = erl_betree:betree_make_sub(Betree, 1, [], "not seen"),
    ?assert(is_reference(Sub)),
    ?assertEqual(error, erl_betree:betree_insert_sub(Betree, Sub)),
    ?assertEqual({ok, [1]}, erl_betree:betree_search(Betree, ?EVENT)).

what_is_checked_is_not_held_until_it_is_inserted_test() ->
    Betree = tree(?DOMAINS, []),
    {ok, Sub} = erl_betree:betree_make_sub(Betree, 1, [], "seen"),
    ?assertEqual({ok, []}, erl_betree:betree_search(Betree, ?EVENT)),
    ?assertEqual(ok, erl_betree:betree_insert_sub(Betree, Sub)),
    ?assertEqual({ok, [1]}, erl_betree:betree_search(Betree, ?EVENT)).

caps_and_segments_read_constants_and_now_test() ->
    Domains = [
        [
            {now, int64, disallow_undefined},
            {frequency_caps, frequency_caps, disallow_undefined},
            {seg, segments, allow_undefined}
        ]
    ],
    {ok, Betree} = erl_betree:betree_make(Domains),
    Text = <<"within_frequency_cap('flight:ip', 'ns', 2, 100) and segment_within(seg, 5, 60)">>,
    ?assertEqual({error, failed}, erl_betree:betree_make_sub(Betree, 1, [], Text)),
    ?assertEqual({error, failed}, erl_betree:betree_make_sub(Betree, 1, [{campaign_id, 10}], Text)),
    {ok, Sub} = erl_betree:betree_make_sub(Betree, 1, [{unheard_of, 3}, {flight_id, 10}], Text),
    ok = erl_betree:betree_insert_sub(Betree, Sub),
    Now = 1000,
    Micros = fun(Seconds) -> (Now - Seconds) * 1000000 end,
    Search = fun(Count, Capped, Segment) ->
        Caps = [{{<<"flight:ip">>, 10, <<"ns">>}, Count, Capped}],
        {ok, Ids} = erl_betree:betree_search(Betree, [{event, Now, Caps, [{5, Segment}]}]),
        Ids
    end,
    ?assertEqual([1], Search(1, Micros(50), Micros(60))),
    ?assertEqual([1], Search(2, undefined, Micros(60))),
    ?assertEqual([1], Search(2, Micros(101), Micros(0))),
    ?assertEqual([], Search(2, Micros(50), Micros(0))),
    ?assertEqual([], Search(1, Micros(50), Micros(61))).

%% Events

values_follow_record_after_record_test() ->
    Betree = users(),
    ?assertEqual({ok, [1, 2, 18446744073709551615]}, erl_betree:betree_search(Betree, ?EVENT)),
    OneRecord = [{all, 30, <<"CA">>, undefined, 0.5, [1, 2], true}],
    ?assertEqual({ok, [1, 2, 18446744073709551615]}, erl_betree:betree_search(Betree, OneRecord)),
    ?assertEqual({ok, [1]}, erl_betree:betree_search(Betree, [#user{age = 30}])),
    %% A record of which the domains have fewer fields.
    ?assertEqual({ok, [1]}, erl_betree:betree_search(Betree, [list_to_tuple([all, 30 | lists:duplicate(9, undefined)])])),
    Optional = tree([[{a, int, allow_undefined}]], [{1, "not (a > 3)"}, {2, "a <= 3"}]),
    ?assertEqual({ok, [1]}, erl_betree:betree_search(Optional, [])),
    ?assertEqual({ok, [1, 2]}, erl_betree:betree_search(Optional, [{event, 1}])).

wrong_events() ->
    Values = [<<"CA">>, 30.0, "30", true, 1 bsl 63],
    [[#user{age = Value}] || Value <- Values] ++
        [[#user{age = 1}, #page{score = Value}] || Value <- [1, <<"1">>, true, [0.5]]] ++
        [[#user{age = 1}, #page{seen = Value}] || Value <- [1, <<"true">>, yes, null]] ++
        [[#user{age = 1}, #page{topics = Value}] || Value <- [1, [1.0], [<<"1">>], [1 | 2], [undefined], {1}]] ++
        [[#user{age = 1, country = Value}] || Value <- ["CA", 'CA', 1, [<<"CA">>]]] ++
        [[#user{age = 1, tags = Value}] || Value <- [<<"a">>, [a], ["a"], [1]]] ++
        %% Too many fields, no records, no list.
        [[{all, 30, undefined, undefined, undefined, undefined, true, true}], [30], [[30]], [{}], #user{age = 1}, none] ++
        [[#user{age = 1} | none]].

missing_events() -> [[], [#user{}], [{user}], [{user, undefined, <<"CA">>}]].

what_does_not_fit_is_a_badarg_test() ->
    Betree = users(),
    [
        begin
            ?assertError(badarg, erl_betree:betree_search(Betree, Event)),
            ?assertError(badarg, erl_betree:betree_search(Betree, Event, ?CLOCK_MONOTONIC)),
            ?assertError(badarg, erl_betree:betree_search_ids(Betree, Event, [1])),
            ?assertError(badarg, erl_betree:betree_search_ids(Betree, Event, [1], ?CLOCK_MONOTONIC)),
            ?assertError(badarg, erl_betree:betree_exists(Betree, Event)),
            ?assertError(badarg, erl_betree:search_iterator(Betree, Event)),
            ?assertError(badarg, erl_betree:betree_make_event(Betree, Event)),
            ?assertError(badarg, erl_betree:betree_make_event(Betree, Event, ?CLOCK_MONOTONIC))
        end
     || Event <- wrong_events() ++ missing_events()
    ],
    %% The tree is as it was.
    ?assertEqual({ok, [1, 2, 18446744073709551615]}, erl_betree:betree_search(Betree, ?EVENT)).

wrong_segments_and_caps_are_a_badarg_test() ->
    Betree = tree([[{seg, segments, allow_undefined}, {caps, frequency_caps, allow_undefined}]], [{1, "true"}]),
    Cap = {{<<"flight">>, 1, <<"ns">>}, 1, 5},
    Good = [{event, [], []}, {event, [{1, 2}], [Cap, setelement(3, Cap, undefined)]}],
    [?assertEqual({ok, [1]}, erl_betree:betree_search(Betree, [Event])) || Event <- Good],
    Segments = [1, [1], [{1}], [{1, 2, 3}], [{a, 1}], [{1, 1.0}], [{1, undefined}]],
    Caps = [
        1,
        [1],
        [{1, 2, 3}],
        [setelement(1, Cap, {flight, 1, <<"ns">>})],
        [setelement(1, Cap, {<<"weekly">>, 1, <<"ns">>})],
        [setelement(2, Cap, 1.0)],
        [setelement(3, Cap, nil)]
    ],
    Wrong = [{event, Value, []} || Value <- Segments] ++ [{event, [], Value} || Value <- Caps],
    [?assertError(badarg, erl_betree:betree_search(Betree, [Event])) || Event <- Wrong].

an_event_is_made_once_for_trees_of_the_same_domains_test() ->
    Betree = users(),
    Other = tree(?DOMAINS, [{5, <<"country = 'CA'">>}]),
    Event = event(Betree, ?EVENT),
    ?assert(is_reference(Event)),
    ?assertMatch({{ok, [1, 2, 18446744073709551615]}, _}, erl_betree:betree_search(Betree, Event, ?CLOCK_MONOTONIC)),
    ?assertMatch({{ok, [5]}, _}, erl_betree:betree_search(Other, Event, ?CLOCK_MONOTONIC)),
    %% A string that the tree heard of only later.
    ok = insert(Other, 6, <<"country in ('US', 'CA')">>),
    ?assertMatch({{ok, [5, 6]}, _}, erl_betree:betree_search(Other, Event, ?CLOCK_MONOTONIC)),
    ?assertMatch({{ok, _}, _}, erl_betree:betree_make_event({anything, Betree}, ?EVENT)),
    ?assertMatch({{ok, _}, _}, erl_betree:betree_make_event({anything, Betree}, ?EVENT, ?CLOCK_REALTIME)),
    Stranger = tree([[{a, int, allow_undefined}]], []),
    ?assertError(badarg, erl_betree:betree_search(Stranger, Event, ?CLOCK_MONOTONIC)).

%% Searches

every_clock_gives_whole_microseconds_test() ->
    Betree = users(),
    Clocks = [?CLOCK_REALTIME, ?CLOCK_MONOTONIC, ?CLOCK_PROCESS_CPUTIME_ID, ?CLOCK_THREAD_CPUTIME_ID, 4, 6, 12, -1],
    [
        begin
            {{ok, Event}, Made} = erl_betree:betree_make_event(Betree, ?EVENT, Clock),
            {{ok, [1, 2, _]}, Listed} = erl_betree:betree_search(Betree, ?EVENT, Clock),
            {{ok, [1, 2, _]}, Searched} = erl_betree:betree_search(Betree, Event, Clock),
            {{ok, [2]}, Among} = erl_betree:betree_search_ids(Betree, Event, [2, 3], Clock),
            Elapsed = [Made, Listed, Searched, Among],
            ?assertEqual([], [Time || Time <- Elapsed, not is_integer(Time) orelse Time < 0])
        end
     || Clock <- Clocks
    ],
    ?assertError(_, erl_betree:betree_search(Betree, ?EVENT, monotonic)),
    ?assertError(_, erl_betree:betree_make_event(Betree, ?EVENT, 1.0)).

among_ids_test() ->
    Betree = users(),
    Event = event(Betree, ?EVENT),
    Among = fun(Given, Ids) ->
        {{ok, Found}, _} = erl_betree:betree_search_ids(Betree, Given, Ids, ?CLOCK_MONOTONIC),
        {{ok, Found}, _} = erl_betree:betree_search_ids(Betree, Given, Ids),
        Found
    end,
    [
        begin
            ?assertEqual([1], Among(Given, [3, 1])),
            ?assertEqual([1, 18446744073709551615], Among(Given, [18446744073709551615, 77, 1, 1])),
            ?assertEqual([], Among(Given, [3]))
        end
     || Given <- [Event, ?EVENT]
    ],
    ?assertEqual({{ok, []}, 0}, erl_betree:betree_search_ids(Betree, Event, [])),
    ?assertEqual({{ok, []}, 0}, erl_betree:betree_search_ids(Betree, Event, [], ?CLOCK_REALTIME)),
    [
        ?assertError(badarg, erl_betree:betree_search_ids(Betree, Event, Wrong))
     || Wrong <- [[-1], [1 bsl 64], [one], [1 | 2], none]
    ].

exists_test() ->
    Betree = users(),
    ?assertEqual({ok, true}, erl_betree:betree_exists(Betree, ?EVENT)),
    ?assertEqual({ok, false}, erl_betree:betree_exists(Betree, [#user{age = 3}])),
    ?assertEqual({ok, false}, erl_betree:betree_exists(tree(?DOMAINS, []), ?EVENT)).

a_picture_is_written_test() ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "erl_betree_tests-" ++ os:getpid() ++ ".dot"),
    try
        ?assertEqual(ok, erl_betree:betree_write_dot(users(), File)),
        {ok, Picture} = file:read_file(File),
        ?assertMatch({0, _}, binary:match(Picture, <<"digraph">>)),
        ?assertNotEqual(nomatch, binary:match(Picture, <<"18446744073709551615">>))
    after
        file:delete(File)
    end,
    ?assertEqual({error, failed}, erl_betree:betree_write_dot(users(), "/nowhere/at/all.dot")),
    ?assertError(_, erl_betree:betree_write_dot(users(), <<"/tmp/a.dot">>)).

what_is_of_another_kind_is_a_badarg_test() ->
    Betree = users(),
    {ok, Sub} = erl_betree:betree_make_sub(Betree, 9, [], "seen"),
    Event = event(Betree, ?EVENT),
    Others = [Sub, Event, make_ref(), self(), none, 1, ets:match_spec_compile([{'_', [], [none]}])],
    [
        begin
            ?assertError(badarg, erl_betree:betree_make_sub(Other, 1, [], "seen")),
            ?assertError(badarg, erl_betree:betree_insert_sub(Other, Sub)),
            ?assertError(badarg, erl_betree:betree_make_event(Other, ?EVENT)),
            ?assertError(badarg, erl_betree:betree_search(Other, ?EVENT)),
            ?assertError(badarg, erl_betree:betree_search(Other, Event, 1)),
            ?assertError(badarg, erl_betree:betree_search_ids(Other, Event, [1])),
            ?assertError(badarg, erl_betree:betree_exists(Other, ?EVENT)),
            ?assertError(badarg, erl_betree:betree_write_dot(Other, "a.dot")),
            ?assertError(badarg, erl_betree:search_iterator(Other, ?EVENT)),
            ?assertError(badarg, erl_betree:search_yield(Other, Event, 1, 0)),
            ?assertError(badarg, erl_betree:betree_make_sub_ids(Other)),
            ?assertError(badarg, erl_betree:betree_search_err(Other, ?EVENT))
        end
     || Other <- Others
    ],
    [?assertError(badarg, erl_betree:betree_insert_sub(Betree, Other)) || Other <- [Betree, Event, none]],
    [?assertError(badarg, erl_betree:betree_search(Betree, Other, 1)) || Other <- [Betree, Sub, none, {Event}]],
    [?assertError(badarg, erl_betree:search_next(Other)) || Other <- [Betree, Event, none]],
    [?assertError(badarg, erl_betree:search_all(Other)) || Other <- [Betree, Event, none]],
    [?assertError(badarg, erl_betree:search_iterator_release(Other)) || Other <- [Betree, Event, none]].

many_processes_search_one_tree_test() ->
    Betree = tree([[{i, int, disallow_undefined}]], [{I, ["i >= ", integer_to_list(I)]} || I <- lists:seq(1, 500)]),
    Search = fun(I, More) ->
        fun() ->
            Expected = {ok, lists:seq(1, I) ++ More},
            [Expected = erl_betree:betree_search(Betree, [{event, I}]) || _ <- lists:seq(1, 20)],
            exit(done)
        end
    end,
    Meet = fun(More) ->
        Monitors = [element(2, spawn_monitor(Search(I, More))) || I <- lists:seq(1, 500, 7)],
        Reasons = [receive {'DOWN', Monitor, process, _, Reason} -> Reason end || Monitor <- Monitors],
        ?assertEqual([done], lists:usort(Reasons))
    end,
    Meet([]),
    %% Whatever stands in for the tree meanwhile, what is inserted is found from then on.
    [
        begin
            ok = insert(Betree, Id, "i > 0"),
            Meet(lists:seq(501, Id))
        end
     || Id <- [501, 502, 503]
    ].

a_search_is_charged_for_test() ->
    Text = ["(", lists:join(" or ", ["i = " ++ integer_to_list(I) || I <- lists:seq(1, 100)]), ") and not (i = 7)"],
    Betree = tree([[{i, int, allow_undefined}]], [{I, ["not ", Text]} || I <- lists:seq(1, 200)]),
    Reductions = fun() -> element(2, process_info(self(), reductions)) end,
    Before = Reductions(),
    {ok, Ids} = erl_betree:betree_search(Betree, [{event, 101}]),
    ?assertEqual(200, length(Ids)),
    ?assert(Reductions() - Before > 2000).
