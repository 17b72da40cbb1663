%% The campaigns of `ads` with BeTree itself, for what erl_betree has no function for: they come and go while any number of
%% processes search, events come as JSON and many at a time, and errors and answers are explained.
-module(ads_live).

-export([new/1, remove/2, publish/1, matching/2, matching_many/2, explain/3, child_spec/0, main/0]).

%% Modules of Elixir are atoms that begin with Elixir.
-define(BETREE, 'Elixir.BeTree').

domains() ->
    [{country, string},
     {device, {string, [{optional, true}]}},
     {age, {integer, [{optional, true}]}}].

%% All campaigns or none, as {Id, Expression}; what is wrong is said in words.
new(Campaigns) ->
    {ok, Tree} = ?BETREE:new(domains()),
    case ?BETREE:insert_all(Tree, Campaigns) of
        {ok, _Count} -> {ok, Tree};
        {error, Error} -> {error, 'Elixir.Exception':message(Error)}
    end.

remove(Tree, Id) ->
    ?BETREE:delete(Tree, Id).

%% What the tree holds now, to be searched by many processes at once.
publish(Tree) ->
    {ok, Index} = ?BETREE:publish(Tree),
    Index.

%% An event is a map, or {json, Binary}.
matching(Index, Event) ->
    {ok, Ids} = ?BETREE:search(Index, Event, [{timeout, 100}]),
    Ids.

matching_many(Index, Events) ->
    {ok, Lists} = ?BETREE:search_many(Index, Events),
    Lists.

%% Which parts of a campaign's expression hold.
explain(Index, Event, Id) ->
    {ok, Why} = ?BETREE:explain(Index, Event, Id),
    'Elixir.String.Chars':to_string(Why).

%% For a supervisor: an index that is searched by the name ads, and changed meanwhile.
child_spec() ->
    'Elixir.BeTree.Server':child_spec([{name, ads}, {domains, domains()}]).

main() ->
    {error, Message} = new([{1, <<"country = 'CA' and agee > 20">>}]),
    {ok, Tree} = new([{1, <<"country = 'CA' and age > 20">>}, {2, <<"device = 'phone'">>}]),
    Event = #{country => <<"CA">>, age => 19},
    io:format("~ts~n~ts~n", [Message, explain(Tree, Event, 1)]),
    ok = remove(Tree, 1).
