-module(ads_live_tests).

-behaviour(supervisor).

-include_lib("eunit/include/eunit.hrl").

-export([init/1]).

init([]) ->
    {ok, {#{}, [ads_live:child_spec()]}}.

a_server_under_a_supervisor_test() ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, []),
    ok = 'Elixir.BeTree.Server':insert(ads, 1, <<"country = 'CA'">>),
    ok = 'Elixir.BeTree.Server':publish(ads),
    ?assertEqual([1], ads_live:matching(ads, #{country => <<"CA">>})),
    true = unlink(Supervisor),
    exit(Supervisor, shutdown).

campaigns_come_and_go_test() ->
    {ok, Tree} = ads_live:new([{1, <<"country = 'CA'">>}, {2, <<"age > 20">>}]),
    Before = ads_live:publish(Tree),
    ok = ads_live:remove(Tree, 1),
    After = ads_live:publish(Tree),
    Event = #{country => <<"CA">>, age => 30},
    ?assertEqual([1, 2], ads_live:matching(Before, Event)),
    ?assertEqual([2], ads_live:matching(After, Event)),
    Json = {json, <<"{\"country\": \"CA\"}">>},
    ?assertEqual([[1, 2], [1]], ads_live:matching_many(Before, [Event, Json])).

many_processes_search_at_once_test() ->
    {ok, Tree} = ads_live:new([{Id, <<"age > ", (integer_to_binary(Id))/binary>>} || Id <- lists:seq(1, 50)]),
    Index = ads_live:publish(Tree),
    Parent = self(),
    Search = fun(Age) -> Parent ! {Age, ads_live:matching(Index, #{country => <<"CA">>, age => Age})} end,
    [spawn_link(fun() -> Search(Age) end) || Age <- lists:seq(1, 50)],
    [receive {Age, Ids} -> ?assertEqual(lists:seq(1, Age - 1), Ids) end || Age <- lists:seq(1, 50)].

errors_and_explanations_test() ->
    {error, Message} = ads_live:new([{1, <<"agee > 20">>}]),
    ?assertNotEqual(nomatch, string:find(Message, "agee")),
    {ok, Tree} = ads_live:new([{1, <<"country = 'CA' and age > 20">>}]),
    Why = ads_live:explain(Tree, #{country => <<"CA">>, age => 19}, 1),
    ?assertNotEqual(nomatch, string:find(Why, <<"age > 20: false (age is 19)">>)),
    ?assertEqual(ok, ads_live:main()).
