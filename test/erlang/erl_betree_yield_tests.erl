%% Searches that are gone through step by step: iterators, thresholds, and counts of calls.
-module(erl_betree_yield_tests).

-include("erl_betree.hrl").
-include_lib("eunit/include/eunit.hrl").

-define(CLOCK, ?CLOCK_MONOTONIC).

tree(Expressions) ->
    {ok, Betree} = erl_betree:betree_make([[{a, bool, disallow_undefined}, {i, int, allow_undefined}]]),
    [
        begin
            {ok, Sub} = erl_betree:betree_make_sub(Betree, Id, [], Text),
            ok = erl_betree:betree_insert_sub(Betree, Sub)
        end
     || {Id, Text} <- Expressions
    ],
    Betree.

event(Betree, Event) ->
    {{ok, Ref}, _} = erl_betree:betree_make_event(Betree, Event),
    Ref.

%% One in three matches; each takes a search of 300 comparisons.
large() ->
    Chain = lists:join(" and ", ["i <> " ++ integer_to_list(I) || I <- lists:seq(1000, 1299)]),
    tree([{Id, ["not (", Chain, " and ", last(Id rem 3), ")"]} || Id <- lists:seq(1, 900)]).

last(0) -> "not a";
last(_) -> "a".

-define(LARGE, [{event, true, 0}]).

matching() -> lists:seq(3, 900, 3).

%% Iterators

%% The result of search_next/1 until the search is done.
steps(Iterator) ->
    case erl_betree:search_next(Iterator) of
        {continue, Ids} -> [Ids | steps(Iterator)];
        {ok, Ids} -> [{ok, Ids}]
    end.

a_candidate_a_step_test() ->
    Cases = [
        {[], {event, true}, {0, []}},
        {[{1, "a"}], {event, true}, {1, [1]}},
        {[{1, "a"}], {event, false}, {1, []}},
        {[{1, "a"}, {2, "not a"}], {event, true}, {2, [1]}},
        {[{1, "a"}, {2, "a"}, {3, "i = 3"}, {4, "not a"}], {event, true, 3}, {4, [1, 2, 3]}}
    ],
    [
        begin
            Betree = tree(Expressions),
            {ok, {Iterator, Candidates, Nodes}} = erl_betree:search_iterator(Betree, [Event]),
            ?assert(is_reference(Iterator)),
            ?assertEqual(Count, Candidates),
            ?assert(is_integer(Nodes) andalso Nodes > 0),
            Steps = steps(Iterator),
            ?assertEqual(max(Count, 1), length(Steps)),
            ?assertEqual({ok, Ids}, lists:last(Steps)),
            Before = lists:append(lists:droplast(Steps)),
            ?assertEqual([], Before -- Ids),
            ?assertEqual({ok, Ids}, erl_betree:search_next(Iterator)),
            ?assertEqual({ok, Ids}, erl_betree:search_all(Iterator)),
            ?assertEqual(ok, erl_betree:search_iterator_release(Iterator))
        end
     || {Expressions, Event, {Count, Ids}} <- Cases
    ].

the_numbers_agree_in_a_large_tree_test() ->
    Betree = large(),
    {ok, {Iterator, Candidates, Nodes}} = erl_betree:search_iterator(Betree, ?LARGE),
    ?assert(Candidates >= length(matching())),
    ?assert(Nodes >= length(matching())),
    {Continued, [Last]} = lists:split(Candidates - 1, steps(Iterator)),
    ?assertEqual({ok, matching()}, Last),
    ?assertEqual([], lists:append(Continued) -- matching()).

all_is_all_whatever_was_taken_before_test() ->
    Betree = large(),
    {ok, {Iterator, _, _}} = erl_betree:search_iterator(Betree, ?LARGE),
    [?assertMatch({continue, _}, erl_betree:search_next(Iterator)) || _ <- lists:seq(1, 10)],
    ?assertEqual({ok, matching()}, erl_betree:search_all(Iterator)),
    ?assertEqual({ok, matching()}, erl_betree:search_all(Iterator)).

an_iterator_does_not_change_with_its_tree_test() ->
    Betree = tree([{1, "a"}]),
    {ok, {Iterator, 1, _}} = erl_betree:search_iterator(Betree, [{event, true}]),
    {ok, Sub} = erl_betree:betree_make_sub(Betree, 2, [], "a"),
    ok = erl_betree:betree_insert_sub(Betree, Sub),
    ?assertEqual({ok, [1]}, erl_betree:search_all(Iterator)),
    ?assertEqual({ok, [1, 2]}, erl_betree:betree_search(Betree, [{event, true}])).

a_released_iterator_is_of_no_use_test() ->
    Betree = tree([{1, "a"}]),
    {ok, {Iterator, _, _}} = erl_betree:search_iterator(Betree, [{event, true}]),
    ?assertEqual(ok, erl_betree:search_iterator_release(Iterator)),
    ?assertError(badarg, erl_betree:search_next(Iterator)),
    ?assertError(badarg, erl_betree:search_all(Iterator)),
    ?assertEqual(ok, erl_betree:search_iterator_release(Iterator)).

%% Thresholds

a_threshold_of_none_takes_a_candidate_a_call_test() ->
    [
        begin
            Betree = tree([{Id, "a"} || Id <- lists:seq(1, Count)]),
            Ids = [Id || Id <- lists:seq(1, Count), Value],
            Event = event(Betree, [{event, Value}]),
            {{continue, State}, Elapsed} = erl_betree:search_yield(Betree, Event, ?CLOCK, ?THRESHOLD_0_MICROSECONDS),
            ?assert(is_reference(State) andalso is_integer(Elapsed) andalso Elapsed >= 0),
            [
                ?assertMatch({{continue, State}, _}, erl_betree:search_next_yield(State, ?CLOCK, ?THRESHOLD_0_MICROSECONDS))
             || _ <- lists:seq(2, Count)
            ],
            {{ok, Found}, Whole} = erl_betree:search_next_yield(State, ?CLOCK, ?THRESHOLD_0_MICROSECONDS),
            ?assertEqual(Ids, Found),
            ?assert(Whole >= Elapsed),
            ?assertMatch({{ok, Ids}, _, Calls} when Calls =:= Count + 11,
                erl_betree:search_yield_count(Betree, Event, ?CLOCK, ?THRESHOLD_0_MICROSECONDS, 10))
        end
     || Count <- [1, 2, 4], Value <- [true, false]
    ].

a_tree_without_candidates_is_done_at_once_test() ->
    Betree = tree([]),
    Event = event(Betree, [{event, true}]),
    [
        ?assertMatch({{ok, []}, _}, erl_betree:search_yield(Betree, Event, ?CLOCK, Threshold))
     || Threshold <- [0, -1, 1, 1000]
    ],
    ?assertMatch({{ok, []}, _, 8}, erl_betree:search_yield_count(Betree, Event, ?CLOCK, 0, 7)).

a_search_shorter_than_its_threshold_is_done_at_once_test() ->
    Betree = tree([{1, "a"}, {2, "not a"}]),
    Event = event(Betree, [{event, true}]),
    Minute = 60 * 1000 * 1000,
    ?assertMatch({{ok, [1]}, _}, erl_betree:search_yield(Betree, Event, ?CLOCK, Minute)),
    ?assertMatch({{ok, [1]}, _, 1}, erl_betree:search_yield_count(Betree, Event, ?CLOCK, Minute, 0)),
    %% With a state that the threshold is raised for.
    {{continue, State}, _} = erl_betree:search_yield(Betree, Event, ?CLOCK, 0),
    ?assertMatch({{ok, [1]}, _}, erl_betree:search_next_yield(State, ?CLOCK, Minute)).

a_search_goes_on_from_the_same_state_past_its_threshold_test() ->
    Betree = large(),
    Event = event(Betree, ?LARGE),
    {{continue, State}, First} = erl_betree:search_yield(Betree, Event, ?CLOCK, 1),
    ?assert(is_reference(State)),
    {Calls, Ids, Whole} = go_on(State, 1),
    ?assert(Calls > 1),
    ?assertEqual(matching(), Ids),
    ?assert(Whole >= First),
    %% It came to its end, and the tree is free.
    ?assertError(badarg, erl_betree:search_next_yield(State, ?CLOCK, 1)),
    ?assertEqual({ok, matching()}, erl_betree:betree_search(Betree, ?LARGE)),
    {{ok, Counted}, _, Taken} = erl_betree:search_yield_count(Betree, Event, ?CLOCK, 1, 0),
    ?assertEqual(matching(), Counted),
    ?assert(Taken > 2).

go_on(State, Calls) ->
    case erl_betree:search_next_yield(State, ?CLOCK, 1) of
        {{continue, State}, _} -> go_on(State, Calls + 1);
        {{ok, Ids}, Whole} -> {Calls, Ids, Whole}
    end.

another_process_can_go_on_test() ->
    Betree = large(),
    {{continue, State}, _} = erl_betree:search_yield(Betree, event(Betree, ?LARGE), ?CLOCK, 1),
    {_, Monitor} = spawn_monitor(fun() -> exit(element(2, go_on(State, 1))) end),
    ?assertEqual(matching(), receive {'DOWN', Monitor, process, _, Ids} -> Ids end).

states_of_two_trees_do_not_meet_test() ->
    [One, Two] = [large(), large()],
    [{{continue, First}, _}, {{continue, Second}, _}] =
        [erl_betree:search_yield(Betree, event(Betree, ?LARGE), ?CLOCK, 1) || Betree <- [One, Two]],
    ?assertMatch({_, _, _}, go_on(Second, 1)),
    ?assertMatch({_, _, _}, go_on(First, 1)).

a_search_at_its_threshold_holds_up_nobody_test() ->
    Betree = large(),
    Event = event(Betree, ?LARGE),
    States = [
        begin
            {{continue, State}, _} = erl_betree:search_yield(Betree, Event, ?CLOCK, 1),
            State
        end
     || _ <- lists:seq(1, 20)
    ],
    ?assertEqual({ok, matching()}, erl_betree:betree_search(Betree, ?LARGE)),
    {ok, Sub} = erl_betree:betree_make_sub(Betree, 901, [], "a"),
    ok = erl_betree:betree_insert_sub(Betree, Sub),
    ?assertEqual({ok, matching() ++ [901]}, erl_betree:betree_search(Betree, ?LARGE)),
    {_, Monitor} = spawn_monitor(fun() -> exit(erl_betree:betree_search(Betree, ?LARGE)) end),
    ?assertEqual({ok, matching() ++ [901]}, receive {'DOWN', Monitor, process, _, Answer} -> Answer end),
    %% They go on in what they began with.
    [?assertEqual(matching(), element(2, go_on(State, 1))) || State <- States],
    {{ok, Ids}, _, _} = erl_betree:search_yield_count(Betree, Event, ?CLOCK, 1, 0),
    ?assertEqual(matching() ++ [901], Ids).

%% What runs to its end

every_way_of_searching_finds_the_same_test() ->
    Betree = large(),
    Event = event(Betree, ?LARGE),
    Ids = matching(),
    Some = [3, 4, 900, 901],
    ?assertMatch({{ok, Ids}, _}, erl_betree:betree_search(Betree, Event, ?CLOCK)),
    ?assertMatch({{ok, Ids}, _}, erl_betree:betree_search_yield(Betree, Event)),
    ?assertMatch({{ok, Ids}, _}, erl_betree:betree_search_yield(Betree, Event, ?CLOCK_REALTIME)),
    ?assertMatch({{ok, Ids}, _, Calls} when Calls > 0, erl_betree:search_yield_count(Betree, Event)),
    ?assertMatch({{ok, [3, 900]}, _}, erl_betree:betree_search_ids_yield(Betree, Event, Some)),
    ?assertMatch({{ok, [3, 900]}, _}, erl_betree:betree_search_ids_yield(Betree, Event, Some, ?CLOCK)),
    ?assertMatch({{ok, [3, 900]}, _}, erl_betree:search_ids_yield(Betree, Event, Some, ?CLOCK, 0)),
    case erl_betree:search_yield(Betree, Event, ?CLOCK) of
        {{ok, Found}, _} -> ?assertEqual(Ids, Found);
        {{continue, State}, _} -> ?assertEqual(Ids, element(2, go_on(State, 1)))
    end.

no_ids_take_no_time_test() ->
    Betree = tree([{1, "a"}]),
    Event = event(Betree, [{event, true}]),
    ?assertEqual({{ok, []}, 0}, erl_betree:betree_search_ids_yield(Betree, Event, [])),
    ?assertEqual({{ok, []}, 0}, erl_betree:betree_search_ids_yield(Betree, Event, [], ?CLOCK)),
    ?assertEqual({{ok, []}, 0}, erl_betree:search_ids_yield(Betree, Event, [], ?CLOCK, 1000)).

wrong_arguments_are_errors_test() ->
    Betree = tree([{1, "a"}]),
    Event = event(Betree, [{event, true}]),
    %% An event is made before, and clocks and thresholds are integers.
    ?assertError(badarg, erl_betree:search_yield(Betree, [{event, true}], ?CLOCK, 0)),
    ?assertError(badarg, erl_betree:search_yield(Betree, Event, monotonic, 0)),
    ?assertError(badarg, erl_betree:search_yield(Betree, Event, ?CLOCK, 0.5)),
    ?assertError(badarg, erl_betree:search_next_yield(none, ?CLOCK, 0)),
    ?assertError(badarg, erl_betree:search_next_yield(Event, ?CLOCK, 0)),
    ?assertError(badarg, erl_betree:search_yield(Betree, Betree, ?CLOCK, 0)),
    ?assertError(badarg, erl_betree:search_yield(Event, Event, ?CLOCK, 1000)),
    ?assertError(badarg, erl_betree:search_ids_yield(Betree, Event, [one], ?CLOCK, 1000)).
